"""What the decisions of an agent would have paid by taking offers: fills, a waterfall from line to money, and two curves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import polars as pl

from clvlab.base.cache import BoundedCache
from clvlab.base.progress import report
from clvlab.errors import StatisticsError
from clvlab.law.lines import Ints
from clvlab.law.schema import Reason, Schema
from clvlab.packs.reader import shards_of
from clvlab.report.breakdowns import scored_decisions
from clvlab.report.export import Exportable, check_settings
from clvlab.report.figures import returns_of
from clvlab.report.html import Html, card
from clvlab.report.selection import Selection
from clvlab.report.svg import band_line, interval_cell, scale, scale_axis
from clvlab.runs.reasons import lasting_gaps
from clvlab.runs.run import Run
from clvlab.statistics import Estimate, weighted_mean
from clvlab.statistics.commissions import Commission, Fills, commission_of, expected_charges, settled_charges
from clvlab.statistics.fills import (
    MAX_AGE_S,
    ORDERS,
    RULE,
    FillOutcome,
    Gaps,
    Offers,
    offers_of,
    quoted_ladders,
    taken,
)
from clvlab.words import counted, estimate, share

STAKE, DELAY_S, AGE_S = 10.0, 1.0, MAX_AGE_S
MAX_STAKE, MAX_DELAY_S, MOST_AGE_S = 10_000_000, 3_600, 604_800
DELAYS_S = (0, 1, 2, 5, 10, 20, 30, 60)
STAKES = (0.1, 0.3, 1, 3, 10, 30, 100)
_HELD_ROWS = 4_000_000  # of ladders, each 40 bytes
DEPTH, QUOTED = "depth", "quoted price, size unknown"

# One row per order, in order of ``seq``. Stakes are in the venue's unit. ``taken_*`` is executed at once, ``*_filled`` and the
# other prices after the delay. Values in bps are profit divided by payout, expected at the closing probability or settled, and
# null where nothing is filled; ``*_pct`` are the same profits in percent of the stake filled.
EXECUTABLE: Schema = {
    "seq": pl.Int64, "fixture_id": pl.Int64, "market_key": pl.String, "side": pl.String, "ts_ms": pl.Int64,
    "executed_ts_ms": pl.Int64, "outcome": pl.String, "stake": pl.Float64, "stake_filled": pl.Float64, "odds": pl.Float64,
    "price_prob_bps": pl.Float64, "mid_prob_bps": pl.Int64, "entry_prob_bps": pl.Int64, "close_prob_bps": pl.Int64,
    "crossed": pl.Boolean, "age_s": pl.Float64, "taken_stake_filled": pl.Float64, "result": pl.String,
    **{f"{step}_{unit}": pl.Float64 for step in ("line", "taken", "delayed", "commission", "settled")
       for unit in ("bps", "pct")},
}  # fmt: skip

# The waterfall: for each step a row per stake ordered, where what is not filled counts as 0, and one per stake filled.
SUMMARY: Schema = {
    "step": pl.String, "per": pl.String, "orders": pl.Int64, "fixtures": pl.Int64, "stake": pl.Float64, "mean_bps": pl.Float64,
    "low_bps": pl.Float64, "high_bps": pl.Float64, "edge_pct": pl.Float64, "edge_low": pl.Float64, "edge_high": pl.Float64,
}  # fmt: skip

STEPS: Mapping[str, str] = {
    "line": "CLV at the line, which nobody could take",
    "taken": "offers taken at once",
    "delayed": "offers taken after the delay",
    "commission": "and after commission",
    "settled": "the same, by results: one draw of luck",
}
"""The steps of the waterfall, and what each one is."""

OUTCOMES: Mapping[FillOutcome, str] = {
    FillOutcome.FILLED: "filled",
    FillOutcome.PARTLY: "filled in part, the rest was not there",
    FillOutcome.NO_OFFER: "nobody offered the side",
    FillOutcome.LIMIT: "the best offer was below the order's limit",
    FillOutcome.TAKEN: "earlier orders had taken the same offers",
    FillOutcome.SUSPENDED: "the market was suspended",
    FillOutcome.IN_PLAY: "the market was in play",
    FillOutcome.PAST_CLOSE: "arrived at the close or later",
    FillOutcome.UNKNOWN: "nothing was known of the market: too old, or a gap",
    FillOutcome.NO_DEPTH: "the pack keeps no offers of the side",
}
_SIDE = ["fixture_id", "market_key", "side"]


@dataclass(frozen=True)
class Executable(Exportable):
    """The profit of one agent's scored decisions from taking offers; made by ``Result.executable()``.

    It is no score, and does not rank. Orders are the scored decisions but those at the closing message, as in every interval:
    only these have a close to be valued at. Whether a policy refused a decision does not matter, as for its score.

    Attributes
    ----------
    source
        The run of the agent.
    stake
        Stake of each order, in the unit of the venue.
    delay_s
        Seconds from decision to execution.
    commission
        Rate on the net winnings of a market, or the name of a venue in ``clvlab.statistics.commissions.VENUES``.
    max_age_s
        Seconds after which a market is unknown if its ladders and ticks say nothing.
    level
        Level of the intervals.
    own_stakes
        Whether each order has the stake of its decision, in hundredths of the unit, and ``stake`` does not count.
    selection
        The selected decisions; all by default.
    """

    source: Run = field(repr=False)
    stake: float = STAKE
    delay_s: float = DELAY_S
    commission: float | str = 0.0
    max_age_s: float = AGE_S
    level: float = 0.95
    own_stakes: bool = False
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        check_settings(self.level)
        for name, low, high, text in (
            ("stake", 0.01, MAX_STAKE, "a stake is a number of the venue's units"),
            ("delay_s", 0, MAX_DELAY_S, "a delay is a number of seconds"),
            ("max_age_s", 0.001, MOST_AGE_S, "the largest age of a ladder is a number of seconds"),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise StatisticsError(f"{text} from {low:g} to {high:,}, not {value!r:.80}")
        commission_of(self.commission)

    @property
    def charges(self) -> Commission:
        """The formula of the commission."""
        return commission_of(self.commission)

    @cached_property
    def basis(self) -> str:
        """The offers: ``depth`` or ``quoted price, size unknown``; empty without offers, with a reason in ``why``."""
        pack, ids = self.source.pack, self._scored["fixture_id"].unique().sort().to_list()
        if {one.fixture_id for one in pack.manifest.fixtures if one.ladders_digest} & {*ids}:
            return DEPTH
        if self._scored["odds_milli"].count():
            return QUOTED
        books = pack.tape(ids).books if ids else None
        return QUOTED if books is not None and books.select(pl.col("odds_milli").count()).collect().item() else ""

    @property
    def why(self) -> str:
        """The reason if there are no offers; otherwise empty."""
        if self._scored.is_empty():
            return "no scored decision"
        return "" if self.basis else f"pack {self.source.pack.pack_id!r} has neither offers nor prices, only probabilities"

    @cached_property
    def _scored(self) -> pl.DataFrame:
        scored = scored_decisions(self.source).filter(~pl.col("at_close"), self.selection.matching(self.source.pack))
        decided = self.source.evidence.decisions.select("seq", "agent_id", "ts_ms", "limit_odds_milli")
        found = scored.join(decided, on="seq", how="left", maintain_order="left").sort("seq")
        return found.filter(pl.col("stake") > 0) if self.own_stakes else found

    def _stakes(self, times: float = 1.0) -> pl.Series:
        """Return the stake of each order in cents, times a factor."""
        if self.own_stakes:
            most = int(self._scored["stake"].max() or 0)  # type: ignore[arg-type]
            if most > 100 * MAX_STAKE:
                raise StatisticsError(
                    f"a bet of {most / 100:,.2f} is above {MAX_STAKE:,}, the largest stake: state one with stake="
                )
            return (self._scored["stake"] * times).round().cast(pl.Int64).clip(1, 100 * MAX_STAKE)
        return pl.repeat(self._cents(times), self._scored.height, dtype=pl.Int64, eager=True)

    def _cents(self, times: float = 1.0) -> int:
        """Return the stated stake in cents, times a factor."""
        return max(round(100 * self.stake * times), 1)

    @property
    def unscored(self) -> dict[str, int]:
        """Number of decisions that are no orders, by reason: unscored ones, and entries at the closing message."""
        marked = self.source.marked
        found = dict(marked.filter(pl.col("reason") != Reason.SCORED).group_by("reason").len().sort("reason").iter_rows())
        late = marked.filter(pl.col("reason") == Reason.SCORED, pl.col("at_close")).height
        return found | ({"at_close": late} if late else {})

    @cached_property
    def _held(self) -> BoundedCache[tuple[pl.Series, Offers]]:
        """Offers by shard. What it drops is read again, as the offers of a large pack may not fit in memory."""
        return BoundedCache(_HELD_ROWS, lambda found: found[1].odds_milli.size)

    def _offers(self) -> Iterator[tuple[pl.Series, Offers]]:
        """Yield the offers of some fixtures at a time, with the ``seq`` of their orders."""
        wanted, orders, gaps = {*self._scored["fixture_id"]}, self._scored.select(*ORDERS), _gaps(self.source)
        for shard in shards_of((one for one in self.source.pack.manifest.fixtures if one.fixture_id in wanted), 2):
            own = orders.filter(pl.col("fixture_id").is_in([fixture.fixture_id for fixture in shard]))
            make = partial(_offers, self.source, own, gaps, quoted=self.basis == QUOTED)
            yield self._held.get(shard[0].fixture_id, make)

    def _fills(self, points: Sequence[tuple[pl.Series, float]]) -> list[pl.DataFrame]:
        """Return ``FILLS`` with ``seq``, in order of ``seq``, for each pair of stakes and delay."""
        max_age_ms, seqs = round(1000 * self.max_age_s), self._scored["seq"]
        parts: list[list[pl.DataFrame]] = [[] for _ in points]
        for own, offers in self._offers() if points else ():
            place = seqs.search_sorted(own)
            for found, (stakes, delay_s) in zip(parts, points, strict=True):
                size, delay_ms = stakes.gather(place).to_numpy(), round(1000 * delay_s)
                fills = taken(offers, stake_cents=size, delay_ms=delay_ms, max_age_ms=max_age_ms)
                found.append(fills.insert_column(0, own))
        return [pl.concat(found).sort("seq") for found in parts]

    @cached_property
    def _results(self) -> pl.DataFrame:
        """The result of the side of each order, null without one."""
        results = self.source.pack.results
        if results is None:
            return pl.DataFrame({"result": pl.repeat(None, self._scored.height, dtype=pl.String, eager=True)})
        return self._scored.select(*_SIDE).join(results.select(*_SIDE, "result"), on=_SIDE, how="left", maintain_order="left")

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        """Numbers of the agent's market and of its side, of each order."""
        market, side = (
            self._scored.select(pl.struct("agent_id", *names).rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
            for names in (_SIDE[:2], _SIDE)
        )
        return market, side

    def _valued(self, fills: pl.DataFrame) -> pl.DataFrame:
        """Return fills with profits in cents: before and after commission expected at the close, and after it settled."""
        close = self._scored["close_prob_bps"].to_numpy() / 10_000
        stake, payout = fills["filled_cents"].cast(pl.Float64).to_numpy(), fills["payout"].to_numpy() / 1000
        bets = Fills(*self._places, stake, payout, fills["uncertain"].to_numpy())
        odds = pl.lit(pl.Series(payout / np.where(stake > 0, stake, 1)))
        known = self._results.select(returns_of(pl.col("result"), odds)).to_series()
        won = known.cast(pl.Float64).fill_null(np.nan).to_numpy() * stake
        expected = close * bets.payout - bets.stake
        net = expected - expected_charges(bets, close, self.charges)
        settled = pl.Series(won - settled_charges(bets, won, self.charges)).fill_nan(None)
        return fills.with_columns(self._results["result"], expected=expected, net=net, settled=settled)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """``EXECUTABLE``, one row per order."""
        if self.why:
            return pl.DataFrame(schema=EXECUTABLE)
        report("taking offers")
        scored, stakes = self._scored, self._stakes()
        now, later = map(self._valued, self._fills([(stakes, 0), (stakes, self.delay_s)]))
        filled = pl.col("filled_cents") > 0
        price = pl.when(filled).then(1e7 * pl.col("filled_cents") / pl.col("payout"))
        steps = {
            "taken": (now, "expected"),
            "delayed": (later, "expected"),
            "commission": (later, "net"),
            "settled": (later, "settled"),
        }
        values = {"line_bps": scored["clv_bps"], "line_pct": scored["price_ratio_pct"]}
        for step, (fills, profit) in steps.items():
            each = fills.select(
                bps=pl.when(filled).then(1e7 * pl.col(profit) / pl.col("payout")),
                pct=pl.when(filled).then(100 * pl.col(profit) / pl.col("filled_cents")),
            )
            values |= {f"{step}_bps": each["bps"], f"{step}_pct": each["pct"]}
        own = later.select(
            "executed_ts_ms", "outcome", "mid_prob_bps", "crossed", "result", price_prob_bps=price,
            stake_filled=pl.col("filled_cents") / 100,
            odds=pl.when(filled).then(pl.col("payout") / (1000 * pl.col("filled_cents"))), age_s=pl.col("age_ms") / 1000,
        )  # fmt: skip
        found = scored.select("seq", *_SIDE, "ts_ms", "entry_prob_bps", "close_prob_bps").hstack(own)
        found = found.with_columns(stake=stakes / 100, taken_stake_filled=now["filled_cents"] / 100, **values)
        return found.select(pl.col(name).cast(dtype) for name, dtype in EXECUTABLE.items())

    @cached_property
    def means(self) -> dict[tuple[str, str], tuple[Estimate, Estimate]]:
        """Means in bps and in percent by step and by ``ordered`` or ``filled``, with intervals over fixtures."""
        return {} if self.why else dict(_means(self.frame, self.level))

    @cached_property
    def summary(self) -> pl.DataFrame:
        """``SUMMARY``: the waterfall from the line to the money.

        Per stake ordered, all orders count in every step, the unfilled part as 0, so steps subtract; ``settled`` has the orders
        whose result is known. Per stake filled, ``taken`` has the part filled at once, and the other steps the part filled
        after the delay.
        """
        stakes = {"ordered": "stake", "filled": "stake_filled"}
        rows = []
        for (step, per), (bps, pct) in self.means.items():
            counts = self.frame if step != "settled" else self.frame.filter(pl.col("result").is_not_null())
            staked = counts["taken_stake_filled" if (step, per) == ("taken", "filled") else stakes[per]].sum()
            rows.append((step, per, bps.n, bps.n_clusters, staked, bps.mean, bps.low, bps.high, pct.mean, pct.low, pct.high))
        return pl.DataFrame(rows, schema=SUMMARY, orient="row")

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of orders by outcome, for the delay."""
        found = self.frame["outcome"].to_list()
        return {one.value: number for one in OUTCOMES if (number := found.count(one))}

    @cached_property
    def delays(self) -> pl.DataFrame:
        """Means after commission by seconds of delay, 0 to 60; see ``stakes``."""
        return self._curve("delay_s", [(float(delay_s), 1.0, float(delay_s)) for delay_s in DELAYS_S])

    @cached_property
    def stakes(self) -> pl.DataFrame:
        """Means after commission by stake, or by multiples of the orders' own stakes; empty where sizes are not known.

        Returns
        -------
        pl.DataFrame
            ``stake`` or ``times_stake``; ``filled``, the share of the stakes; and in bps of probability, per stake ordered
            ``mean_bps, low_bps, high_bps``, and per stake filled ``filled_bps, filled_low, filled_high``.
        """
        points = [
            (float(times) if self.own_stakes else self._cents(times) / 100, float(times), self.delay_s)
            for times in STAKES
            if self.own_stakes or 0.01 <= self.stake * times <= MAX_STAKE
        ]
        return self._curve("times_stake" if self.own_stakes else "stake", points if self.basis == DEPTH else [])

    def _curve(self, name: str, points: list[tuple[float, float, float]]) -> pl.DataFrame:
        rows = []
        points = [] if self.why else points
        wanted = [(self._stakes(times), delay_s) for _, times, delay_s in points]
        for (value, _, _), (stakes, _), fills in zip(points, wanted, map(self._valued, self._fills(wanted)), strict=True):
            filled, ordered, own = fills["filled_cents"] / 100, stakes / 100, self._scored["fixture_id"]
            bps = fills.select(pl.when(pl.col("filled_cents") > 0).then(1e7 * pl.col("net") / pl.col("payout"))).to_series()
            means = _per_ordered(bps, filled, ordered, own, self.level), weighted_mean(bps, filled, own, level=self.level)
            rows.append((value, _part(filled, ordered), *(number for one in means for number in (one.mean, one.low, one.high))))
        names = ("filled", "mean_bps", "low_bps", "high_bps", "filled_bps", "filled_low", "filled_high")
        return pl.DataFrame(rows, schema=dict.fromkeys((name, *names), pl.Float64), orient="row")

    @property
    def line(self) -> str:
        """The result in one sentence."""
        if self.why:
            return f"nothing to take: {self.why}"
        (clv, _), (ordered, _), (got, edge) = (
            self.means[key] for key in (("line", "ordered"), ("commission", "ordered"), ("commission", "filled"))
        )
        part = _part(self.frame["stake_filled"], self.frame["stake"])
        money = "nothing was filled"
        if got.mean is not None:
            each = f"{_text(got)} for each stake filled, {_text(ordered)} for each ordered" if part < 1 else _text(got)
            money = f"taken and after commission {each}, an edge of {_text(edge, '%')}"
        size = "their own stakes" if self.own_stakes else _units(self._cents() / 100)
        return (
            f"{counted(self.frame.height, 'order')} of {size}, {self.delay_s:g} s after the decision"
            f"{'' if self.basis == DEPTH else f' ({QUOTED})'}, {share(part)} "
            f"filled: CLV at the line {_text(clv)}; {money}"
        )

    def facts(self) -> dict[str, object]:
        """Return the result as JSON values."""
        return {
            "rule": RULE,
            "basis": self.basis or None,
            "why": self.why or None,
            "stake": None if self.own_stakes else self._cents() / 100,
            "delay_s": self.delay_s,
            "commission": str(self.charges),
            "commission_source": self.charges.source or None,
            "commission_since": self.charges.since or None,
            "max_age_s": self.max_age_s,
            "level": self.level,
            "orders": self.frame.height,
            "outcomes": self.counts,
            "unscored": self.unscored,
            "crossed": int(self.frame["crossed"].sum()),
            "line": self.line,
            "summary": self.summary.to_dicts(),
            "delays": self.delays.to_dicts(),
            "stakes": self.stakes.to_dicts(),
        }

    def __repr__(self) -> str:
        return f"Executable: {self.line}; next: .summary, .counts, .delays, .stakes, .frame, .to_html(path)"

    def _repr_html_(self) -> Html:
        return card("executable.html", "Would it have paid?", **listed_values(self))


def _kinds(found: Executable) -> tuple[str, ...]:
    """Return the kinds of means to show: both are the same where everything was filled."""
    is_whole = all((found.frame[filled] == found.frame["stake"]).all() for filled in ("taken_stake_filled", "stake_filled"))
    return ("ordered",) if is_whole else ("ordered", "filled")


def listed_values(found: Executable) -> dict[str, object]:
    """Return what the template shows."""
    within = scale([number for name in ("mean_bps", "low_bps", "high_bps") for number in found.summary[name]])
    rows = [
        row | {"says": STEPS[row["step"]], "picture": interval_cell(row["mean_bps"], row["low_bps"], row["high_bps"], within)}
        for row in found.summary.iter_rows(named=True)
    ]
    return {
        "line": found.line,
        "why": found.why,
        "quoted": found.basis == QUOTED,
        "axis": scale_axis(within) if rows else "",
        "parts": {per: [row for row in rows if row["per"] == per] for per in _kinds(found)} if rows else {},
        "outcomes": [(OUTCOMES[FillOutcome(name)], name, number) for name, number in found.counts.items()],
        "unscored": sum(found.unscored.values()),
        "crossed": int(found.frame["crossed"].sum()),
        "curves": [
            _drawn(curve, f"CLV after commission, by {what}")
            for curve, what in (
                (found.delays, "seconds of delay"),
                (found.stakes, "times the stake" if found.own_stakes else "stake"),
            )
            if curve.height > 1
        ],
        "charges": found.charges,
        "level": found.level,
        "rule": RULE,
    }


def _drawn(curve: pl.DataFrame, title: str) -> Html:
    columns = (curve[column].to_list() for column in ("mean_bps", "low_bps", "high_bps"))
    return band_line([_units(value) for value in curve.to_series(0)], *columns, title=title)


def _units(value: float) -> str:
    return f"{value:,.10g}"


def _text(mean: Estimate, unit: str = "bps") -> str:
    return "none" if mean.mean is None else estimate(mean.mean, mean.low, mean.high, unit)


def _part(filled: pl.Series, ordered: pl.Series) -> float:
    """Return the share of the stakes that was filled."""
    return float(filled.sum()) / float(ordered.sum())


def _offers(run: Run, orders: pl.DataFrame, gaps: Gaps, *, quoted: bool) -> tuple[pl.Series, Offers]:
    ids = orders["fixture_id"].unique().sort().to_list()
    whole = run.pack.tape(ids)
    tape = whole.at_source(run.window.close_source)
    if quoted:
        ladders = quoted_ladders(tape, None if whole.books is None else whole.books.collect())
    else:
        ladders = run.pack.ladders(ids).collect()
    return orders["seq"], offers_of(tape, ladders, orders, gaps)


def _gaps(run: Run) -> Gaps:
    """Return the lasting gaps of a capture by market; a gap without a market, or with an unknown one, concerns all."""
    lasting = lasting_gaps(run.pack)
    named = any(gap.markets for gap in lasting)
    markets = set(run.pack.tape(run.fixture_ids).series["market_key"]) if named else set()
    found = defaultdict[str | None, list[tuple[int, int]]](list)
    for gap in lasting:
        own = set(gap.markets or ())
        for key in own if own and own <= markets else {None}:
            found[key].append((gap.from_ts_ms, gap.to_ts_ms))
    return found


def _per_ordered(values: pl.Series, filled: pl.Series, ordered: pl.Series, fixtures: pl.Series, level: float) -> Estimate:
    """Return the mean per stake ordered, where what is not filled counts as 0."""
    frame = pl.DataFrame({"value": values, "filled": filled, "ordered": ordered})
    counted_in = pl.when(pl.col("filled") > 0).then(pl.col("value") * pl.col("filled") / pl.col("ordered")).otherwise(0.0)
    return weighted_mean(frame.select(counted_in).to_series(), ordered, fixtures, level=level)


def _means(frame: pl.DataFrame, level: float) -> Iterator[tuple[tuple[str, str], tuple[Estimate, Estimate]]]:
    for step in STEPS:
        rows = frame if step != "settled" else frame.filter(pl.col("result").is_not_null())
        if rows.is_empty():
            continue
        filled, stake = rows["taken_stake_filled" if step == "taken" else "stake_filled"], rows["stake"]
        bps, pct = (
            # at the line, everything that is ordered counts
            (
                _per_ordered(values, stake if step == "line" else filled, stake, rows["fixture_id"], level),
                weighted_mean(values, filled, rows["fixture_id"], level=level),
            )
            for values in (rows[f"{step}_bps"], rows[f"{step}_pct"])
        )
        yield from (((step, per), (bps[place], pct[place])) for place, per in enumerate(("ordered", "filled")))
