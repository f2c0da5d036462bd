"""Competitions of seats: rules that many seats share, who plays, and a standing by what is sealed.

While a seat plays, the page has the number of its answered ticks alone. The number of all its ticks, or a share of it, would
tell how much is still ahead, and with the pack at hand which fixture it is: ticks of a fixture are nearly as good as its name.
So that number is there only if nothing is hidden.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from statistics import median_low
from typing import Any

import polars as pl

from clvlab.api.answer import ignored, pick
from clvlab.api.seat_competitions import (
    OwnerPack,
    SeatCompetitionInfo,
    SeatCompetitionListResponse,
    SeatCompetitionSummary,
    SeatCounts,
    SeatEntrant,
    SeatPower,
)
from clvlab.arena.caps import Caps
from clvlab.arena.pages import PAGE, page_of
from clvlab.arena.runs.binding import bind
from clvlab.arena.seats.held import HeldPacks
from clvlab.arena.seats.requests import SeatCompetitionRequest, SeatLimits, SeatRequest, SeatRules
from clvlab.arena.seats.tape import require_short
from clvlab.arena.uploads.packs import Packs
from clvlab.base.cache import BoundedCache
from clvlab.errors import (
    NotOwnerError,
    PackTamperedError,
    SeatRulesError,
    StatisticsError,
    TransitionError,
    UnknownCompetitionError,
)
from clvlab.law.schema import Causality
from clvlab.log.seats import Blind
from clvlab.packs.reader import Pack
from clvlab.statistics import Clusters, Estimate, estimates
from clvlab.statistics.power import alone, powers
from clvlab.store import seat_competitions as rows
from clvlab.store.database import Connection, Database
from clvlab.store.labels import Knowledge, is_hindsight_possible
from clvlab.store.runlog import StoredLogRows
from clvlab.store.seat_competitions import EndedSeat, FixtureScore, SeatCompetitionRow, SeatCount
from clvlab.store.seats import SeatStatus
from clvlab.store.tables import seat_competitions as table

EDGE_BPS = 50
_LISTED = 1_000
_RUNS = 20
_KEPT_BYTES = 32 << 20
_Entrant = tuple[str, str]  # owner and agent id


def require(row: SeatCompetitionRow | None, competition_id: str) -> SeatCompetitionRow:
    if row is None:
        raise UnknownCompetitionError(f"unknown competition of seats {competition_id!r:.200}")
    return row


def require_open(connection: Connection, competition_id: str, now_ms: int) -> SeatCompetitionRow:
    """Return a competition in which seats can be taken; ``TransitionError`` if it is closed."""
    row = require(rows.row(connection, competition_id), competition_id)
    if _status(row, now_ms) == "closed":
        raise TransitionError(f"competition {competition_id} is closed: no seat can be taken in it")
    return row


def require_same(row: SeatCompetitionRow | None, pack: Pack) -> None:
    """Refuse a pack that is not the one that a seat's competition, if it has one, was opened over."""
    if row is not None and pack.content_hash != row["content_hash"]:
        name = f"pack {pack.pack_id!r} of competition {row['competition_id']}"
        raise PackTamperedError(name, row["content_hash"], pack.content_hash)


def under_its_rules(row: SeatCompetitionRow, request: SeatRequest) -> SeatRequest:
    """Return the request for a seat with the rules of its competition; ``SeatRulesError`` if it names another one."""
    return request.under(SeatRules.model_validate(row["rules"]))


@dataclass(frozen=True, slots=True)
class EntrantResult:
    """What counts of an entrant's sealed seats: each fixture of the first seat over it that is over, if that is sealed.

    ``scores`` has columns ``fixture_id, value, n, squares, time_ms``, a row per fixture with a scored decision, by time.
    ``run_ids`` are all its sealed runs, the newest first.
    """

    owner: str
    agent_id: str
    estimate: Estimate
    scores: pl.DataFrame
    run_ids: Sequence[str]

    @property
    def clusters(self) -> Clusters:
        return Clusters(*(self.scores[name].to_numpy().astype(float)[:, None] for name in ("value", "n", "squares")))

    @property
    def size_bytes(self) -> int:
        return 1024 + int(self.scores.estimated_size()) + 128 * len(self.run_ids)


_Results = Mapping[_Entrant, EntrantResult]


def _results_cache() -> BoundedCache[_Results]:
    return BoundedCache(_KEPT_BYTES, lambda results: 1024 + sum(one.size_bytes for one in results.values()))


@dataclass(frozen=True)
class SeatCompetitions:
    """Use cases of competitions of seats. Anybody may read them; an owner organises them, and any owner takes seats in them."""

    database: Database
    catalog: Packs
    held: HeldPacks
    clock: Callable[[], int]
    new_id: Callable[[], str]
    caps: Caps
    limits: SeatLimits
    _results: BoundedCache[_Results] = field(default_factory=_results_cache)

    def create(self, owner: str, request: SeatCompetitionRequest) -> SeatCompetitionInfo:
        """Open a competition over a pack of the catalog, which all of its seats play by the same rules.

        Raises
        ------
        OwnerLimitError
            The owner has as many open competitions as allowed.
        SeatRulesError
            It would close before now.
        SeatTooLongError
            The fixtures have more messages than a seat may have.
        UnknownPackError, UnknownFixtureError
            The catalog lacks the pack, or the pack a fixture.
        HeldBackError
            The pack is not held back any more.
        """
        now = self.clock()
        with self.database.read() as connection:  # a refused competition opens no pack
            self.caps.require_seat_competition(rows.open_of(connection, owner, now))
        if request.closes_ts_ms is not None and request.closes_ts_ms <= now:
            raise SeatRulesError(f"closes_ts_ms {request.closes_ts_ms} is over: it is {now}")
        if request.blind is Blind.HELD_BACK:
            pack = self.held.chosen(request.pack_id)
        else:
            pack = (bound := bind(self.catalog, request.pack_id, None, request.fixture_ids or "all")).pack
            if request.fixture_ids is not None:
                require_short(pack, bound.fixtures, self.limits.ticks)
        rules = request.within(self.limits).model_copy(update={"pack_id": pack.pack_id})
        row: SeatCompetitionRow = {
            "competition_id": "seats_" + self.new_id(),
            "owner": owner,
            "name": request.name,
            "pack_id": pack.pack_id,
            "content_hash": pack.content_hash,
            "rules": rules.rules(),
            "closes_ts_ms": request.closes_ts_ms,
            "created_ts_ms": now,
            "updated_ts_ms": now,
        }
        with self.database.write() as connection:
            StoredLogRows(connection, writing=True)  # locked before anything is counted, so that of two one is too many
            self.caps.require_seat_competition(rows.open_of(connection, owner, now))
            rows.add(connection, row)
        return {**self.get(row["competition_id"]), **ignored(request.ignored)}

    def close(self, owner: str, competition_id: str) -> SeatCompetitionInfo:
        """Close a competition: no seat can be taken in it, and those that play go on.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError
            The id is unknown, or another owner organises it.
        TransitionError
            It is closed already.
        """
        with self.database.write() as connection:
            row = require(rows.row(connection, competition_id), competition_id)
            if row["owner"] != owner:
                raise NotOwnerError(f"competition {competition_id} belongs to another owner")
            require_open(connection, competition_id, self.clock())
            rows.close(connection, competition_id, self.clock())
        return self.get(competition_id)

    def page(self, cursor: str | None = None, limit: int = PAGE) -> SeatCompetitionListResponse:
        """List competitions, newest first."""
        with self.database.read() as connection:
            found, next_cursor = page_of(connection, table, SeatCompetitionRow, "competition_id", cursor, limit)
            counts = rows.counts(connection, [row["competition_id"] for row in found])
        of = {key: list(own) for key, own in groupby(counts, key=itemgetter("competition_id"))}
        listed = [_summary(row, of.get(row["competition_id"], []), self.clock()) for row in found]
        return {"competitions": listed, "next_cursor": next_cursor}

    def get(self, competition_id: str) -> SeatCompetitionInfo:
        """Return a competition with its entrants and standing; ``UnknownCompetitionError`` if its id is unknown."""
        with self.database.read() as connection:
            row = require(rows.row(connection, competition_id), competition_id)
            counts = rows.counts(connection, [competition_id])
            results = self._results_of(connection, competition_id, counts)
            of = {key: list(own) for key, own in groupby(counts, key=itemgetter("owner", "agent_id"))}
            blind = Blind(row["rules"]["blind"])
            standing = [_entrant(key, of[key], results.get(key), blind) for key in of]
            standing = _ranked(standing)[:_LISTED]
            knowledge = Knowledge.HELD_BACK if blind is Blind.HELD_BACK else Knowledge.HISTORY
            packs = rows.packs_of(connection, {one["owner"] for one in standing})
        facts = {
            **_summary(row, counts, self.clock()),
            "content_hash": row["content_hash"],
            "rules": {name: value for name, value in row["rules"].items() if name not in ("pack_id", "blind")},
            "hindsight_possible": is_hindsight_possible(Causality.ASKED, knowledge, None),
            "standing": standing,
            "owners": _owners(packs),
            "power": _power(results.values()),
        }
        return pick(SeatCompetitionInfo, facts)

    def results(self, competition_id: str) -> Mapping[_Entrant, EntrantResult]:
        """Return what counts of each entrant with a seat that is over."""
        with self.database.read() as connection:
            require(rows.row(connection, competition_id), competition_id)
            return self._results_of(connection, competition_id, rows.counts(connection, [competition_id]))

    def _results_of(self, connection: Connection, competition_id: str, counts: Iterable[SeatCount]) -> _Results:
        """Read the seats that are over once for each number of them: what they brought never changes."""
        over = sum(one["seats"] for one in counts if one["status"] in (SeatStatus.SEALED, SeatStatus.ABANDONED))
        return self._results.get((competition_id, over), lambda: _results(rows.ended(connection, competition_id)))


def _results(ended: Sequence[EndedSeat]) -> _Results:
    seen: dict[_Entrant, set[int]] = defaultdict(set)
    scores: dict[_Entrant, list[FixtureScore]] = defaultdict(list)
    run_ids: dict[_Entrant, list[str]] = defaultdict(list)
    for seat in ended:
        key = seat["owner"], seat["agent_id"]
        # a seat that was given up showed its fixtures too, so that a later one over them was not blind
        scores[key] += [one for one in seat["scores"] or () if one[0] not in seen[key]]
        seen[key] |= set(seat["fixture_ids"])
        run_ids[key] += [seat["run_id"]] if seat["status"] == SeatStatus.SEALED else []
    return {key: _result(key, scores[key], run_ids[key][::-1]) for key in seen}


_SCORES = {"fixture_id": pl.Int64, "value": pl.Int64, "n": pl.Int64, "squares": pl.Int64, "time_ms": pl.Int64}


def _result(key: _Entrant, scores: Sequence[FixtureScore], run_ids: Sequence[str]) -> EntrantResult:
    frame = pl.DataFrame(scores, schema=_SCORES, orient="row").sort("time_ms", "fixture_id")
    sums = (frame[name].to_numpy().astype(float)[:, None] for name in ("value", "n", "squares"))
    return EntrantResult(*key, estimates(Clusters(*sums))[0], frame, run_ids)


def _entrant(key: _Entrant, counts: Sequence[SeatCount], result: EntrantResult | None, blind: Blind) -> SeatEntrant:
    playing = [one for one in counts if one["status"] == SeatStatus.PLAYING]
    ticks = [one["tape_ticks"] for one in playing]
    found = result.estimate if result else None
    return {
        "rank": None,
        "agent_id": key[1],
        "owner": key[0],
        "seats": _by_end(counts),
        "answered": sum(one["answered"] for one in playing),
        "ticks": sum(filter(None, ticks)) if blind is Blind.OPEN and all(ticks) else None,
        "fixtures": found.n_clusters if found else 0,
        "decisions": found.n if found else 0,
        "mean_clv_bps": found.mean if found else None,
        "low": found.low if found else None,
        "high": found.high if found else None,
        "run_ids": list(result.run_ids[:_RUNS]) if result else [],
    }


def _ranked(entrants: Iterable[SeatEntrant]) -> list[SeatEntrant]:
    """Rank entrants with an interval by their means, as the leaderboard does; the others follow, the most fixtures first."""

    def order(one: SeatEntrant) -> tuple[Any, ...]:
        mean = one["mean_clv_bps"] if one["low"] is not None else None
        return (mean is None, -(mean or 0.0), -one["fixtures"], one["agent_id"], one["owner"])

    found = sorted(entrants, key=order)
    for rank, one in enumerate(found, 1):
        one["rank"] = rank if one["low"] is not None else None
    return found


def _power(results: Iterable[EntrantResult]) -> SeatPower:
    needed = []
    for one in results:
        try:
            needed.append(powers(alone(one.clusters), [float(EDGE_BPS)])[0].needed)
        except StatisticsError:  # too few fixtures, or all of them alike: its error says nothing
            continue
    return {"edge_bps": EDGE_BPS, "fixtures": median_low(needed) if needed else None, "entrants": len(needed)}


def _by_end(counts: Iterable[Mapping[str, Any]]) -> SeatCounts:
    found: SeatCounts = {"playing": 0, "sealed": 0, "abandoned": 0}
    for one in counts:
        if one["status"] == SeatStatus.SEALED:
            found["sealed"] += one["seats"]
        elif one["status"] == SeatStatus.ABANDONED:
            found["abandoned"] += one["seats"]
        else:
            found["playing"] += one["seats"]
    return found


def _owners(packs: Iterable[rows.PackCount]) -> list[OwnerPack]:
    found: dict[tuple[str, str | None], list[Mapping[str, Any]]] = defaultdict(list)
    for one in packs:  # the name of a pack that only its owner sees is his
        found[one["owner"], one["pack_id"] if one["ranked"] else None].append(one)
    ordered = sorted(found.items(), key=lambda item: (item[0][0], item[0][1] is None, item[0][1] or ""))
    return [{"owner": owner, "pack_id": pack_id, "seats": _by_end(counts)} for (owner, pack_id), counts in ordered]


def _status(row: SeatCompetitionRow, now_ms: int) -> str:
    return "closed" if row["closes_ts_ms"] is not None and row["closes_ts_ms"] <= now_ms else "open"


def _summary(row: SeatCompetitionRow, counts: Sequence[SeatCount], now_ms: int) -> SeatCompetitionSummary:
    facts = {
        "blind": row["rules"]["blind"],
        "status": _status(row, now_ms),
        "entrants": len({(one["owner"], one["agent_id"]) for one in counts}),
        "seats": _by_end(counts),
    }
    return pick(SeatCompetitionSummary, row | facts)
