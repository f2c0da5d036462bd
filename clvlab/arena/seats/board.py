"""The page of a competition of seats: its standing with pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clvlab import words
from clvlab.api.seat_competitions import SeatCompetitionInfo, SeatEntrant
from clvlab.arena.seats.competitions import EntrantResult, SeatCompetitions
from clvlab.report.html import Html
from clvlab.report.svg import cumulative_line, interval_cell, scale, scale_axis
from clvlab.statistics.by_date import cumulative_sums

_DRAWN = 12  # entrants with a curve; the others have their figures


@dataclass(frozen=True, slots=True)
class BoardRow:
    """An entrant; ``picture`` is its mean with its interval on the scale of all rows, empty without a mean."""

    entrant: SeatEntrant
    picture: Html


@dataclass(frozen=True, slots=True)
class Curve:
    """Sum of an entrant's CLV by date with its band; ``sentence`` has the mean over its fixtures."""

    agent_id: str
    owner: str
    sentence: str
    picture: Html


@dataclass(frozen=True, slots=True)
class SeatBoard:
    info: SeatCompetitionInfo
    rows: Sequence[BoardRow]
    axis: Html
    curves: Sequence[Curve]
    power: str


def seat_board(competitions: SeatCompetitions, competition_id: str, start: int, limit: int) -> SeatBoard:
    """Return some entrants of a competition from a place of its standing; ``UnknownCompetitionError`` if its id is unknown."""
    info, results = competitions.get(competition_id), competitions.results(competition_id)
    listed = info["standing"][start : start + limit]
    within = scale([one[bound] for one in listed for bound in ("mean_clv_bps", "low", "high")])
    rows = [BoardRow(one, interval_cell(one["mean_clv_bps"], one["low"], one["high"], within)) for one in listed]
    found = (results.get((one["owner"], one["agent_id"])) for one in listed)
    drawn = [curve for one in found if one is not None and (curve := _curve(one)).picture][:_DRAWN]
    axis = scale_axis(within) if any(row.picture for row in rows) else Html("")
    return SeatBoard(info, rows, axis, drawn, words.seat_power(**info["power"]))


def _curve(result: EntrantResult) -> Curve:
    found = cumulative_sums(result.scores)
    times_ms, totals, lows, highs = (found[name].to_list() for name in ("time_ms", "total", "low", "high"))
    picture = cumulative_line(times_ms, totals, lows, highs, title="Cumulative CLV by date, 95 % band")
    own = result.estimate
    mean = words.with_interval(words.mean_clv(own.mean), own.low, own.high)
    sentence = f"{mean} over {words.counted(own.n_clusters, 'fixture')}"
    return Curve(result.agent_id, result.owner, sentence, picture)
