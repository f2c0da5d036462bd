"""What people read about a competition: its match, its decisions with their scores, and what happened to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import TypedDict

from clvlab.api.answer import JsonObject, pick
from clvlab.api.competitions import CompetitionEvent
from clvlab.arena.competitions.requests import CompetitionStatus, require
from clvlab.arena.events import EventKind
from clvlab.arena.runs.binding import bind
from clvlab.arena.runs.decisions import DecisionFilter, RunDecisions
from clvlab.arena.uploads.packs import Packs
from clvlab.errors import PackError, PageError, RunRemovedError, UnknownRunError
from clvlab.packs.manifest import Fixture
from clvlab.store import competitions as rows
from clvlab.store import runs
from clvlab.store.competitions import CompetitionRow
from clvlab.store.database import Connection, Database

_HAPPENINGS = (
    EventKind.COMPETITION_STARTED,
    EventKind.STATUS_CHANGED,
    EventKind.AGENT_ERROR,
    EventKind.FEED_GAP,
    EventKind.FEED_HEALTH,
    EventKind.PROOF_ANCHOR,
    EventKind.COMPETITION_FINALIZED,
    EventKind.COMPETITION_FAILED,
)
_READ_AT_ONCE = 500  # decisions of a live run that a page looks at, for those that pass its filters
_LIVE = "live."  # begins the cursors of unsealed decisions, which continue at a number of the log
_DIGITS = 16


class StoryDecision(TypedDict):
    """A decision; without a seal ``seq`` is its number in the log, and it has neither a CLV nor a reason of the law."""

    seq: int
    agent_id: str
    fixture_id: int
    market_key: str | None
    side: str | None
    ts_ms: int
    action: str
    clv_bps: int | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class DecisionPage:
    """A page of decisions: those of the sealed run ``run_id`` in order of the seal, or unsealed, the newest first.

    ``markets`` has the keys to choose from. ``total`` is ``None`` for unsealed decisions, which are not counted. ``following``
    is the cursor of the next page, which may have no decision of those that are wanted.
    """

    decisions: Sequence[StoryDecision]
    markets: Sequence[str]
    following: str | None
    run_id: str | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """A competition for people.

    ``fixtures`` is empty if they are not known or their pack is gone. ``decisions`` is ``None`` if the sealed bytes can't be
    read. ``stopped`` has the class of the error of each agent that failed in its run. ``happenings`` are the newest first, and
    ``earlier`` is the number before which they continue.
    """

    owner: str
    fixtures: Sequence[Fixture]
    decisions: DecisionPage | None
    stopped: dict[str, str]
    happenings: Sequence[CompetitionEvent]
    earlier: int | None

    @property
    def fixture(self) -> Fixture | None:
        """The fixture, if it is the only one."""
        return self.fixtures[0] if len(self.fixtures) == 1 else None

    @property
    def names(self) -> dict[int, Sequence[str]]:
        """Who plays, by fixture."""
        return {one.fixture_id: one.names for one in self.fixtures}


@dataclass(frozen=True)
class CompetitionStories:
    """Reads pages of competitions; the time depends on the shown rows, not on the length of the log."""

    database: Database
    packs: Packs
    decisions: RunDecisions

    def of(
        self, competition_id: str, wanted: DecisionFilter, cursor: str | None, before: int | None, limit: int, happenings: int
    ) -> Story:
        """Return a story. Blocks while a sealed run is read for the first time.

        ``cursor`` continues the decisions, and ``before`` is the number of a happening before which they continue.
        """
        with self.database.read() as connection:
            row = require(rows.row(connection, competition_id), competition_id)
            started = _start(connection, row)
            newest = _happenings(connection, competition_id, before, happenings + 1)
            stopped = _stopped(connection, row)
            unsealed = None if row["run_id"] else _unsealed(connection, row, wanted, cursor, limit)
        return Story(
            row["owner"],
            self._fixtures(row, started),
            unsealed or self._sealed(str(row["run_id"]), wanted, cursor, limit),
            stopped,
            newest[:happenings],
            newest[happenings - 1]["seq"] if len(newest) > happenings else None,
        )

    def fixtures(self, competition_ids: Iterable[str]) -> dict[str, Sequence[Fixture]]:
        """Return the fixtures of each competition; without any if they are not known or their pack is gone."""
        with self.database.read() as connection:
            listed = [row for one in competition_ids if (row := rows.row(connection, one)) is not None]
            starts = [_start(connection, row) for row in listed]
        return {row["competition_id"]: self._fixtures(row, start) for row, start in zip(listed, starts, strict=True)}

    def _fixtures(self, row: CompetitionRow, started: Sequence[CompetitionEvent]) -> list[Fixture]:
        if row["pack_id"] is None:
            followed = started[0]["payload"].get("fixture") if started else None
            return [Fixture.model_validate(followed)] if followed else []
        try:
            bound = bind(self.packs.seen_by(row["owner"]), row["pack_id"], row["fixture_id"], row["fixture_ids"])
        except PackError:  # deleted or damaged: the page has their ids
            return []
        wanted = set(bound.fixtures)
        return [one for one in bound.pack.manifest.fixtures if one.fixture_id in wanted]

    def _sealed(self, run_id: str, wanted: DecisionFilter, cursor: str | None, limit: int) -> DecisionPage | None:
        cursor = None if cursor and cursor.startswith(_LIVE) else cursor  # the run was sealed since that page
        try:
            found, markets = self.decisions.page(run_id, wanted, cursor=cursor, limit=limit), self.decisions.markets(run_id)
        except (RunRemovedError, UnknownRunError):
            return None
        listed = [pick(StoryDecision, one) for one in found["decisions"]]
        return DecisionPage(listed, markets, found["next_cursor"], run_id, found["total"])


def _start(connection: Connection, row: CompetitionRow) -> list[CompetitionEvent]:
    """Return the newest start of a competition that follows a feed, as a list that is empty without one."""
    replays = row["pack_id"] is not None
    return [] if replays else rows.newest(connection, row["competition_id"], EventKind.COMPETITION_STARTED, limit=1)


def _happenings(connection: Connection, competition_id: str, before: int | None, limit: int) -> list[CompetitionEvent]:
    """Return the newest events other than decisions and scores, before a number of the log."""
    by_kind = [rows.newest(connection, competition_id, kind, before_seq=before, limit=limit) for kind in _HAPPENINGS]
    return list(islice(merge(*by_kind, key=lambda one: one["seq"], reverse=True), limit))


def _stopped(connection: Connection, row: CompetitionRow) -> dict[str, str]:
    if row["run_id"] is not None:
        return {one["agent_id"]: one["error"] for one in runs.agent_errors_of(connection, row["run_id"])}
    if row["status"] != CompetitionStatus.RUNNING:
        return {}
    reported = rows.newest(connection, row["competition_id"], EventKind.AGENT_ERROR, row["started_seq"])
    return {one["payload"]["agent_id"]: one["payload"]["error"] for one in reported}


def _unsealed(
    connection: Connection, row: CompetitionRow, wanted: DecisionFilter, cursor: str | None, limit: int
) -> DecisionPage:
    """Read the decisions that a live run has reported so far; a replay reports none before its seal."""
    if row["status"] != CompetitionStatus.RUNNING:
        return DecisionPage((), (), None)
    known = {"since_seq": row["started_seq"], "before_seq": _place(cursor), "limit": _READ_AT_ONCE}
    read = rows.newest(connection, row["competition_id"], EventKind.AGENT_ACTION, **known)
    found = [one for one in read if _passes(one["payload"], wanted)]
    last = found[limit - 1] if len(found) > limit else read[-1] if len(read) == _READ_AT_ONCE else None
    markets = sorted({key for one in read if (key := one["payload"]["market_key"]) is not None})
    return DecisionPage([_decision(one) for one in found[:limit]], markets, None if last is None else f"{_LIVE}{last['seq']}")


def _place(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    number = cursor.removeprefix(_LIVE)
    if number == cursor or not (number.isascii() and number.isdecimal() and len(number) <= _DIGITS):
        raise PageError(f"cursor {cursor!r:.80} was not given by a page of this competition")
    return int(number)


def _passes(payload: JsonObject, wanted: DecisionFilter) -> bool:
    values = {"agent_id": wanted.agent_id, "market_key": wanted.market_key, "action": wanted.action}
    return all(value is None or payload[name] == value for name, value in values.items())


def _decision(event: CompetitionEvent) -> StoryDecision:
    """Return a reported decision, without the agent's own claims."""
    payload = {**event["payload"], "seq": event["seq"], "clv_bps": None, "reason": None}
    return pick(StoryDecision, payload)
