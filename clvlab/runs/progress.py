"""How far a run is, as it is told between its stages."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Protocol, TypedDict

from clvlab.errors import ClvlabError

# Why a run or an agent failed, in words for its owner.


_MAX_CHARS = 300
_START = r"(?:file:/|[A-Za-z]:[\\/]|\\\\|~/|\.{1,2}/|/)"
# A path in quotes ends with them; another at the first character that seldom stands in one. A slash behind a letter, a colon or
# another slash begins none: odds of 5/2, https://...
_PATH = re.compile(rf"(?P<quote>['\"`]){_START}[^'\"`]*(?P=quote)|(?<![\w:/.]){_START}[^\s'\"`,;()\[\]{{}}]+")


def cause_of(error: Exception) -> str:
    """Return the class of an error and what it says; of one that is not clvlab's own, its class alone."""
    kind, message = type(error).__name__, message_of(error) if isinstance(error, ClvlabError) else ""
    return f"{kind}: {message}" if message else kind


def message_of(error: Exception | str) -> str:
    """Return the first line of what an error says: no paths, at most 300 characters.

    Examples
    --------
    >>> message_of(OSError("can't read '/srv/packs/ticks.parquet' of pack 'starter'"))
    "can't read <path> of pack 'starter'"
    """
    first_line = next(iter(str(error).strip().splitlines()), "").rstrip()
    text = _PATH.sub("<path>", first_line).encode(errors="backslashreplace").decode()
    return shortened(text, _MAX_CHARS)


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters, the last three of which say where it was cut."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


class Stage(StrEnum):
    """What a run is at, in this order."""

    OPENING = "opening"  # the tape
    DECIDING = "deciding"  # the agents
    SEALING = "sealing"  # scores, gate, evidence
    KEEPING = "keeping"  # verified and stored


class Progress(TypedDict):
    """How far a run is: ``done`` of ``total`` parts of a stage."""

    stage: str
    done: int
    total: int


class Tell(Protocol):
    """Say how far a run is.

    Raises
    ------
    LeaseLostError
        The run was cancelled, or another worker has it: nothing more of it is wanted.
    """

    def __call__(self, stage: Stage, done: int = 0, total: int = 1) -> None: ...


def tell_nobody(stage: Stage, done: int = 0, total: int = 1) -> None:
    """Pass over how far a run is."""
