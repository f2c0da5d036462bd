"""Which of two joined sources leads, as a frame, a sentence and a card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl

from clvlab.base.names import among
from clvlab.errors import StatisticsError
from clvlab.law.closing import Window, fixture_closes
from clvlab.law.schema import Schema
from clvlab.law.tape import Tape
from clvlab.packs.reader import Pack
from clvlab.packs.views.derivation import DerivationKind, DerivedPack
from clvlab.packs.views.join import Joint, sides_of
from clvlab.report.export import Exportable, check_settings
from clvlab.report.html import Html, card
from clvlab.report.svg import lag_line
from clvlab.statistics.lead_lag import FEWEST_UPDATES, Interpretation, LeadLag, Series, check_lags, lead_lag, overlapping
from clvlab.statistics.verdict import Tone, Verdict
from clvlab.words import counted, p_value

_MAX_ROWS = 20
_LEAST_CLOCK_MS = 1_000
_WHOLE_MS = (60_000, 1_000)
_ROUGH_BELOW = 200

_SIDES: Schema = {
    "fixture_id": pl.Int64, "market_key": pl.String, "side": pl.String, "other_market_key": pl.String,
    "other_side": pl.String, "updates": pl.Int64, "other_updates": pl.Int64,
}  # fmt: skip
_READING = (
    "Above 0 in the second picture, the first source's changes come before. The grey band is where the asymmetry of two feeds "
    "of one price would be, at all lags together: each shows the current price at each of its updates, however stale it is "
    "in between."
)


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of a source's times.

    Attributes
    ----------
    source
        Name of the source.
    words
        Where its times come from.
    offset_ms
        Largest offset that was measured between its clock and that of the capture; ``None`` where none was measured.
    whole_ms
        Times are whole multiples of this.
    """

    source: str
    words: str
    offset_ms: int | None
    whole_ms: int

    @property
    def uncertainty_ms(self) -> int:
        """The measured offset, at least a second, and the rounding."""
        return max(self.offset_ms or 0, _LEAST_CLOCK_MS) + (self.whole_ms if self.whole_ms > 1 else 0)

    def __str__(self) -> str:
        rounded = {1: "", 1_000: ", in whole seconds", 60_000: ", in whole minutes"}[self.whole_ms]
        measured = "not measured" if self.offset_ms is None else f"{self.offset_ms:,} ms"
        return f"{self.words}{rounded}; offset {measured}"


@dataclass(frozen=True)
class LeadLagReport(Exportable):
    """Which of two joined sources leads; made by ``clvlab.lead_lag()``.

    Attributes
    ----------
    source
        The joined pack.
    book
        Name of the second source; the only one by default.
    market
        Key of a market, or its beginning; ``None`` for all markets.
    max_lag_s, step_s
        Largest lag, and the step from lag to lag, in seconds.
    draws, level, seed
        Number of draws without a lead, level of their band over all lags, and their seed.
    fixture_ids
        The fixtures; ``None`` means all.
    """

    source: Pack
    book: str | None = None
    market: str | None = None
    max_lag_s: float = 60
    step_s: float = 1
    draws: int = 499
    level: float = 0.95
    seed: int = 0
    fixture_ids: tuple[int, ...] | None = None

    _lags_ms: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_settings(self.level, self.seed, draws=self.draws)
        if round((1 - self.level) * (self.draws + 1), 9) < 1:
            raise StatisticsError(f"{self.draws} draws can't bound a level of {self.level:g}: {_fewest(self.level):,} at least")
        object.__setattr__(self, "_lags_ms", check_lags(self.max_lag_s, self.step_s))
        if self.market is not None and not isinstance(self.market, str):
            raise StatisticsError(f"a market is named by its key, such as '1X2||', not {self.market!r:.80}")
        books = self._books
        if self.book is None and len(books) > 1:
            raise StatisticsError(f"{self.source.pack_id!r} has several other sources, name one by book=: {', '.join(books)}")
        if self.book is not None and self.book not in books:
            hint = among(self.book, books)
            raise StatisticsError(f"{self.source.pack_id!r} has no source {self.book!r:.80} after its first{hint}")

    @property
    def _join(self) -> DerivedPack:
        if not isinstance(self.source, DerivedPack) or self.source.derivation.kind is not DerivationKind.JOIN:
            name = self.source.pack_id
            raise StatisticsError(f"{name!r} is not a join of sources: filter each, then join them by join_sources([a, b])")
        return self.source

    @property
    def _books(self) -> list[str]:
        return list(self._join.derivation.rule["books"])

    @property
    def names(self) -> tuple[str, str]:
        """Names of the first and the second source: their providers, or the ids of the packs where one provider made both."""
        (first, second), book = self._parents, self._second
        provider = first.provenance.partition("-")[2] or first.pack_id
        return (provider, book) if provider != book else (first.pack_id, second.pack_id)

    @property
    def _second(self) -> str:
        return self._books[0] if self.book is None else self.book

    @property
    def _parents(self) -> tuple[Pack, Pack]:
        parents = self._join.derivation.parents
        return parents[0], parents[1 + self._books.index(self._second)]

    @cached_property
    def _pairs(self) -> list[_Pair]:
        """The side of each fixture whose calmer source changes most often; its other sides and markets are the same news."""
        wanted = self.source.fixture_ids if self.fixture_ids is None else self.fixture_ids
        ours, theirs, joints = sides_of(self.source, self._second, wanted)
        chosen = _chosen(self.market, sorted({one.market_key for one in joints}))
        first, second = _OpenPrices(ours), _OpenPrices(theirs)
        best: dict[int, _Pair] = {}
        for one in sorted(joints, key=_order):
            if one.market_key in chosen:
                own = first.series(one.fixture_id, one.market_key, one.side)
                other = second.series(one.other_fixture_id, one.other_market_key, one.other_side)
                pair = _Pair(one, *overlapping(own, other))
                if pair.is_usable and (one.fixture_id not in best or pair.changes > best[one.fixture_id].changes):
                    best[one.fixture_id] = pair
        if not best:
            raise StatisticsError(
                f"no fixture has {FEWEST_UPDATES} updates and a change of {self.names[0]!r} and {self.names[1]!r} before the "
                "off, over one span"
            )
        return [pair for _, pair in sorted(best.items())]

    @cached_property
    def found(self) -> LeadLag:
        """The covariances over lags, see ``clvlab.statistics.lead_lag``."""
        pairs = [(pair.first, pair.second) for pair in self._pairs]
        return lead_lag(pairs, self._lags_ms, draws=self.draws, level=self.level, seed=self.seed)

    @property
    def _first(self) -> Interpretation:
        return self.found.interpretations[0]

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per lag: ``lag_s, hy_cov, correlation, asymmetry`` and its band without a lead, ``null_low, null_high``."""
        one = self._first
        columns = {
            "lag_s": self.found.lag_s, "hy_cov": one.covariance, "correlation": one.correlation,
            "asymmetry": one.asymmetry, "null_low": one.low, "null_high": one.high,
        }  # fmt: skip
        return pl.DataFrame(columns)

    @cached_property
    def fixtures(self) -> pl.DataFrame:
        """One row per fixture: the side that is compared in both sources, and how often each updates it."""
        rows = [
            (one.fixture_id, one.market_key, one.side, one.other_market_key, one.other_side, *pair.updates)
            for pair in self._pairs
            for one in (pair.joint,)
        ]
        return pl.DataFrame(rows, schema=_SIDES, orient="row")

    @cached_property
    def clocks(self) -> tuple[Clock, Clock]:
        """The clocks of both sources' times."""
        times = [
            np.concatenate(part) for part in zip(*((pair.first.ts_ms, pair.second.ts_ms) for pair in self._pairs), strict=True)
        ]
        first, second = (_clock(name, pack, own) for name, pack, own in zip(self.names, self._parents, times, strict=True))
        return first, second

    @property
    def uncertainty_s(self) -> float:
        """Seconds by which the clocks of both sources may differ; a smaller lag is not called a lead."""
        return sum(clock.uncertainty_ms for clock in self.clocks) / 1000

    @property
    def lead_s(self) -> float | None:
        """Seconds by which the first source leads, below 0 the second; ``None`` where no lead is shown."""
        lead_s = self.found.lead_s
        return None if lead_s is None or abs(lead_s) <= self.uncertainty_s else lead_s

    @property
    def leader(self) -> str | None:
        """Name of the source that leads; ``None`` where no lead is shown."""
        return None if self.lead_s is None else self.names[0 if self.lead_s > 0 else 1]

    @property
    def verdict(self) -> Verdict:
        """One sentence: which source leads, by how many seconds; or that no lead is shown."""
        (first, second), found = self.names, self.found
        over = f"over {counted(found.fixtures, 'fixture')} (p {p_value(found.p_value)})"
        if found.lead_s is None:
            several = {one.leader for one in found.interpretations} != {0}
            why = "; what is uneven may come from prices that are recorded only when they change" * several
            return Verdict(
                f"No lead is shown between {first} and {second} up to {self.max_lag_s:g} s, {over}{why}.", Tone.UNCLEAR
            )
        names = (first, second) if found.lead_s > 0 else (second, first)
        by = f"about {abs(found.lead_s):.3g} s" if abs(found.lead_s) < self.max_lag_s else f"{self.max_lag_s:g} s or more"
        if self.lead_s is None:
            clocks = f"the clocks may differ by {self.uncertainty_s:g} s"
            return Verdict(f"No lead is shown: {names[0]} is {by} ahead of {names[1]} {over}, but {clocks}.", Tone.UNCLEAR)
        return Verdict(f"{names[0]} leads {names[1]} by {by}, {over}.", Tone.NOTHING)

    @property
    def cautions(self) -> list[str]:
        """Warnings about the figures."""
        fewest = self.fixtures.select(pl.min_horizontal(pl.col("updates", "other_updates").sum())).item()
        found = []
        if fewest < _ROUGH_BELOW:
            found.append(f"The slower source has {counted(fewest, 'update')}, which are few: a lead can easily stay unseen.")
        if any(clock.offset_ms is None for clock in self.clocks):
            found.append("A clock that was not measured may be wrong by more than the second that is allowed for it.")
        return found

    def facts(self) -> dict[str, object]:
        """Return clocks, settings and counts."""
        wanted = len(self.source.fixture_ids if self.fixture_ids is None else self.fixture_ids)
        clocks = {f"times of {clock.source}": str(clock) for clock in self.clocks}
        return clocks | {
            "clocks may differ by": f"{self.uncertainty_s:g} s",
            "market": self.market or "each fixture's most updated one",
            "fixtures left out": wanted - self.found.fixtures,
            "lags": f"{self.step_s:g} s steps up to {self.max_lag_s:g} s, both ways",
            "draws without a lead": self.draws,
            "band": f"{self.level:.0%} over all lags",
            "seed of the draws": self.seed,
        }

    def __repr__(self) -> str:
        return f"Lead-lag of {self.source.pack_id!r}: {self.verdict.sentence} next: .frame, .fixtures, .facts(), .to_html(path)"

    def _repr_html_(self) -> Html:
        lags, one, half = self.found.lag_s.tolist(), self._first, len(self.found.lag_s) // 2 + 1
        bands = [values[half:].tolist() for values in (one.asymmetry, one.low, one.high)]
        lead_s = self.lead_s
        pictures = [
            lag_line(lags, one.correlation.tolist(), title="Correlation of changes", mark_s=lead_s),
            lag_line(lags[half:], *bands, title="Correlation less that at the opposite lag"),
        ]
        return card(
            "lead_lag.html",
            f"{self.names[0]} and {self.names[1]}: who leads",
            verdict=self.verdict,
            pictures=pictures,
            key_figures=self._key_figures(),
            reading=_READING,
            cautions=self.cautions,
            facts=self.facts(),
            fixtures=self.fixtures.head(_MAX_ROWS),
            height=self.fixtures.height,
        )

    def _key_figures(self) -> dict[str, object]:
        lead = "not shown" if self.lead_s is None else f"{self.leader}, {abs(self.lead_s):.3g} s"
        updates = self.fixtures.select(pl.col("updates", "other_updates").sum()).row(0)
        counts = {f"updates of {name}": count for name, count in zip(self.names, updates, strict=True)}
        return {"lead": lead, "clocks may differ by": f"{self.uncertainty_s:g} s", "fixtures": self.found.fixtures} | counts


def _chosen(market: str | None, keys: Sequence[str]) -> set[str]:
    """Return the keys that are meant: all, one, or those that begin so."""
    if market is None:
        return set(keys)
    found = {market} & set(keys) or {key for key in keys if market and key.startswith(market)}
    if not found:
        raise StatisticsError(f"no market {market!r:.80} is in both sources{among(market, keys)}")
    return found


def _order(one: Joint) -> tuple[int, list[tuple[str, str]]]:
    """Return the place of a side among its fixture's, which is the same when the other source is the first."""
    return one.fixture_id, sorted([(one.market_key, one.side), (one.other_market_key, one.other_side)])


@dataclass(frozen=True, slots=True)
class _Pair:
    """Both sources' series of a common side."""

    joint: Joint
    first: Series
    second: Series

    @property
    def updates(self) -> tuple[int, int]:
        return len(self.first.ts_ms), len(self.second.ts_ms)

    @property
    def changes(self) -> int:
        """Number of changes of the source that has fewer."""
        return min(int(np.count_nonzero(np.diff(one.prob_bps))) for one in (self.first, self.second))

    @property
    def is_usable(self) -> bool:
        return min(self.updates) >= FEWEST_UPDATES and self.changes > 0


class _OpenPrices:
    """The open prices of a tape before the off."""

    def __init__(self, tape: Tape) -> None:
        ends = fixture_closes(tape, Window()).select("fixture_id", "end_seq")
        keys = ["fixture_id", "market_key", "side", "start", "rows", "end_seq"]
        self._series = {tuple(row[:3]): row[3:] for row in tape.series.join(ends, on="fixture_id").select(keys).iter_rows()}
        sides = tape.series.group_by("fixture_id", "market_key").agg("side").iter_rows()
        self._sides = {(fixture_id, market_key): names for fixture_id, market_key, names in sides}
        self._rows = tape.rows.select("tick_seq", "ts_ms", "prob_bps", "suspended")

    def series(self, fixture_id: int, market_key: str, side: str) -> Series:
        """Return the series of a side; a message that repeats the prices of all sides is an update too."""
        start, rows, end = self._series[fixture_id, market_key, side]
        own = self._rows.slice(start, rows)
        states = [
            self._rows["prob_bps"].slice(self._series[fixture_id, market_key, one][0], rows)
            for one in self._sides[fixture_id, market_key]
        ]
        is_repeat = pl.all_horizontal([state.eq_missing(state.shift()) for state in states])
        open_rows = own.with_columns(is_repeat=pl.select(is_repeat).to_series()).filter(
            pl.col("prob_bps").is_not_null(), ~pl.col("suspended"), pl.col("tick_seq") < end
        )
        ordered = open_rows.sort("ts_ms", maintain_order=True)
        return Series.of(*(ordered[name].to_numpy() for name in ("ts_ms", "prob_bps", "is_repeat")))


def _clock(name: str, pack: Pack, ts_ms: np.ndarray) -> Clock:
    capture, rule = pack.manifest.capture, pack.manifest.reading
    words = (
        "as the provider states them" if capture is None else f"as the provider states them, in a capture by {capture.method}"
    )
    offset_ms = None if rule is None or rule.skew_s is None else rule.offset_ms
    return Clock(name, words, offset_ms, next((whole for whole in _WHOLE_MS if not (ts_ms % whole).any()), 1))


def _fewest(level: float) -> int:
    return int(np.ceil(round(1 / (1 - level), 9))) - 1
