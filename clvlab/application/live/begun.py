"""Live runs that were begun in a folder and are not over: found again by what was asked for.

The folder of a run bears its id. It holds the segments of the capture, the journal of what was decided, in the end the pack;
and, as long as the run is not over, what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, NotRequired, TypedDict

import orjson

from clvlab.application.live.feed import chosen
from clvlab.application.live.following import LivePlan
from clvlab.application.live.question import LiveQuestion
from clvlab.application.live.until import until_ts_ms
from clvlab.application.runs.perform import Commitment
from clvlab.errors import FeedError, FileLockedError, LogError, ReplayError
from clvlab.files import lock, replace_file
from clvlab.packs.manifest import Fixture
from clvlab.runlog.entries import EntryKind
from clvlab.runlog.log import LogStore

_ASKED = "asked.json"


class _Asked(TypedDict):
    """What is written down of a run that was begun; ``commit_index`` once it was committed to, null without a log."""

    question: str
    origin_id: str
    fixture: dict[str, Any]
    until_ts_ms: int | None
    commit_index: NotRequired[int | None]


@dataclass(frozen=True)
class Begun:
    """A live run that is not over.

    Attributes
    ----------
    plan
        The run.
    folder
        Its own.
    """

    plan: LivePlan
    folder: Path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep everybody else from following the same run.

        Raises
        ------
        FileLockedError
            Somebody else does.
        """
        try:
            with lock(self.folder, patience_s=0):
                yield
        except FileLockedError as error:
            raise FileLockedError(f"{self.plan.run_id} is being followed already: wait for its seal, or end that") from error

    def require_same_log(self, log: LogStore | None) -> None:
        """Require the log that the run was committed to before its first message: another commitment would come after.

        Raises
        ------
        LogError
            It is another log, or there is none.
        """
        stored = _read(self.folder)
        if "commit_index" not in stored:
            return
        begun = stored["commit_index"]
        if (begun, log) != (None, None) and (log is None or begun not in _commitments(log, self.plan.run_id)):
            said = "without a log" if begun is None else f"under entry {begun} of its log"
            raise LogError(f"{self.plan.run_id} was begun {said}: go on with it likewise, or remove {str(self.folder)!r}")

    def committed(self, commitment: Commitment) -> None:
        """Note under which entry of a log it was begun, before its first message."""
        stored = _read(self.folder)
        if "commit_index" not in stored:
            _write(self.folder, {**stored, "commit_index": commitment.index})

    def over(self) -> None:
        """Note that it is sealed, or failed: what is asked for next is another run."""
        (self.folder / _ASKED).unlink()


def begin(question: LiveQuestion, root: Path, now_ms: int) -> Begun:
    """Find the run that was begun for a question in a folder, or begin one.

    Raises
    ------
    FeedError
        The feed can't be asked, or has no such fixture.
    ReplayError
        What was begun can't be read.
    """
    root.mkdir(parents=True, exist_ok=True)
    key = question.key
    for folder, stored in _unfinished(root):
        if stored["question"] == key:
            fixture = Fixture.model_validate(stored["fixture"])
            return Begun(question.plan(stored["origin_id"], fixture, stored["until_ts_ms"]), folder)
    until = until_ts_ms(question.until, now_ms)
    if until is not None and until <= now_ms:
        raise FeedError("the time at which the run is to be sealed at the latest is over")
    fixture = chosen(question.feed.fixtures(), question.fixture_id, now_ms, question.grace_s)
    plan = question.plan(f"live_{token_hex(16)}", fixture, until)
    begun = Begun(plan, root / plan.run_id)
    begun.folder.mkdir()
    asked_for = _Asked(question=key, origin_id=plan.origin_id, fixture=fixture.model_dump(mode="json"), until_ts_ms=until)
    _write(begun.folder, asked_for)
    return begun


def _unfinished(root: Path) -> Iterator[tuple[Path, _Asked]]:
    for asked in sorted(root.glob(f"*/{_ASKED}")):
        try:
            stored = _read(asked.parent)
        except FileNotFoundError:  # it is over by now
            continue
        yield asked.parent, stored


def _write(folder: Path, asked: _Asked) -> None:
    replace_file(folder / _ASKED, orjson.dumps(asked))


def _read(folder: Path) -> _Asked:
    try:
        stored: _Asked = orjson.loads((folder / _ASKED).read_bytes())
        _ = stored["question"], stored["origin_id"], stored["fixture"], stored["until_ts_ms"]
    except (ValueError, TypeError, KeyError) as error:
        raise ReplayError(f"what was begun in {str(folder)!r} can't be read: remove the folder") from error
    return stored


def _commitments(log: LogStore, run_id: str) -> list[int]:
    with log.read() as rows:
        return [index for index, kind in rows.about(run_id) if kind == EntryKind.COMMIT]
