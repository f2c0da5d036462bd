"""Progress of a run, reported between its stages."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Protocol, TypedDict

from clvlab.base.progress import report
from clvlab.errors import ClvlabError

# The cause of a failure, as text for the owner of the run or agent.


_MAX_CHARS = 300
_START = r"(?:file:/|[A-Za-z]:[\\/]|\\\\|~/|\.{1,2}/|/)"
# A quoted path ends at the closing quote. Any other path ends at the first character that is rare in paths. A slash after a
# letter, a colon or another slash does not start a path, as in odds of 5/2 or https://...
_PATH = re.compile(rf"(?P<quote>['\"`]){_START}[^'\"`]*(?P=quote)|(?<![\w:/.]){_START}[^\s'\"`,;()\[\]{{}}]+")


def cause_of(error: Exception) -> str:
    """Return the class and text of an error of clvlab's, and only the class of any other error."""
    kind, message = type(error).__name__, message_of(error) if isinstance(error, ClvlabError) else ""
    return f"{kind}: {message}" if message else kind


def message_of(error: Exception | str) -> str:
    """Return the first line of an error's text: no paths, at most 300 characters.

    Examples
    --------
    >>> message_of(OSError("can't read '/srv/packs/ticks.parquet' of pack 'starter'"))
    "can't read <path> of pack 'starter'"
    """
    first_line = next(iter(str(error).strip().splitlines()), "").rstrip()
    text = _PATH.sub("<path>", first_line).encode(errors="backslashreplace").decode()
    return shortened(text, _MAX_CHARS)


def shortened(text: str, most: int) -> str:
    """Cut a text to at most ``most`` characters. Three dots show a cut."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


class Stage(StrEnum):
    OPENING = "opening"  # the tape
    DECIDING = "deciding"  # the agents
    SEALING = "sealing"  # scores, gate, evidence
    KEEPING = "keeping"  # verified and stored


class Progress(TypedDict):
    """Progress of a run: ``done`` of ``total`` parts of a stage."""

    stage: str
    done: int
    total: int


class OnProgress(Protocol):
    """Report a run's progress; ``LeaseLostError`` if the run was cancelled or another worker has taken it."""

    def __call__(self, stage: Stage, done: int = 0, total: int = 1) -> None: ...


_WORDS = {
    Stage.OPENING: "reading the odds",
    Stage.DECIDING: "agent deciding",
    Stage.SEALING: "scoring and sealing",
    Stage.KEEPING: "saving",
}


def to_listener(stage: Stage, done: int = 0, total: int = 1) -> None:
    """Report a run's progress to the face that listens, if any; the number of parts if there are several."""
    report(_WORDS[stage], *((done, total) if total > 1 else ()))
