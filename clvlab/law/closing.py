"""Windows and closes: the end of each fixture's window, and the message that closes each market."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NotRequired, TypedDict, cast

import polars as pl

from clvlab.errors import EvidenceError, WindowError
from clvlab.law.schema import CLOSES, FIXTURE_CLOSES, SAFE_INTEGER, CloseKind, ClosingPolicy, EndRule, conform
from clvlab.law.tape import Tape, check_close_age, last_row_at

# A price that could not be taken for longer than this is not a closing price (law.md, "Close").
LAST_OPEN_MAX_AGE_MS = 300_000
_MAX_TEXT_BYTES = 200
_MAX_PREFIXES = 1000


class SealedWindow(TypedDict):
    """The scored part of a tape, and the closing rules of its pack. Times are in seconds."""

    window_id: str
    end_rule: str
    duration_s: int | None
    min_clv_horizon_s: int
    market_allowlist: list[str]
    closing_policy: str
    max_close_age_s: NotRequired[int]
    close_source: NotRequired[str]


@dataclass(frozen=True, slots=True)
class Window:
    """Scope of a run's scores: the end of windows, the markets that count, and the least time from bet to close.

    Attributes
    ----------
    window_id
        Free label of 1 to 200 bytes, copied into the report.
    end_rule
        ``pre_match``, ``fixed_duration`` or ``manual_stop``.
    duration_s
        Seconds after a fixture's first tick, at least 1. It is given only with ``fixed_duration``.
    min_clv_horizon_s
        Seconds. A decision with less time to its close is pending, not scored.
    market_allowlist
        Market-key prefixes; ``""`` means every market.
    close_source
        The book whose own states are entry and close, from a pack that keeps its books; the consensus by default. The
        consensus always decides where a window ends.

    Raises
    ------
    WindowError
        A value is out of its range, or ``duration_s`` is missing or superfluous.

    Examples
    --------
    >>> hour = Window("first hour", end_rule="fixed_duration", duration_s=3600, market_allowlist=("1X2",))
    >>> hour.payload()["duration_s"], hour.min_clv_horizon_s
    (3600, 60)
    """

    window_id: str = "full"
    end_rule: str = EndRule.PRE_MATCH
    duration_s: int | None = None
    min_clv_horizon_s: int = 60
    market_allowlist: tuple[str, ...] = ("",)
    close_source: str | None = None

    def __post_init__(self) -> None:
        listed = isinstance(self.market_allowlist, tuple | list)  # not a set: its order would differ between processes
        if not listed or not all(isinstance(prefix, str) for prefix in self.market_allowlist):
            raise WindowError(f"market_allowlist must be a tuple of prefixes, not {self.market_allowlist!r}")
        if len(self.market_allowlist) > _MAX_PREFIXES:
            raise WindowError(f"market_allowlist has a limit of {_MAX_PREFIXES} prefixes, not {len(self.market_allowlist)}")
        object.__setattr__(self, "market_allowlist", tuple(self.market_allowlist))
        for name, value in (("duration_s", self.duration_s), ("min_clv_horizon_s", self.min_clv_horizon_s)):
            if type(value) is not int and not (name == "duration_s" and value is None):
                raise WindowError(f"{name} must be a whole number of seconds, not {value!r}")
        for name, text in (("window_id", self.window_id), ("close_source", self.close_source)):
            size = len(text.encode(errors="surrogatepass")) if isinstance(text, str) else 0
            if not 1 <= size <= _MAX_TEXT_BYTES and not (name == "close_source" and text is None):
                raise WindowError(f"{name} must have 1 to {_MAX_TEXT_BYTES} bytes, not {text!r:.80}")
        if self.end_rule not in list(EndRule):
            raise WindowError(f"unknown end_rule {self.end_rule!r}: use one of {', '.join(EndRule)}")
        fixed = self.end_rule == EndRule.FIXED_DURATION
        if fixed and self.duration_s is None:
            raise WindowError("end_rule fixed_duration needs a duration_s")
        if not fixed and self.duration_s is not None:
            raise WindowError(f"duration_s {self.duration_s} goes with end_rule fixed_duration only, not {self.end_rule}")
        if self.duration_s is not None and not 1 <= self.duration_s <= SAFE_INTEGER // 1_000_000:
            raise WindowError(f"duration_s must be positive, and at most {SAFE_INTEGER // 1_000_000}: {self.duration_s}")
        if not 0 <= self.min_clv_horizon_s <= SAFE_INTEGER // 1_000_000:
            raise WindowError(f"min_clv_horizon_s must not be negative: {self.min_clv_horizon_s}")

    def payload(self) -> dict[str, str | int | list[str] | None]:
        """Return the window as it is sealed, without the pack's closing policy. An unset ``close_source`` has no key."""
        own = asdict(self) | {"end_rule": str(self.end_rule), "market_allowlist": list(self.market_allowlist)}
        if self.close_source is None:
            del own["close_source"]
        return own


def sealed_window(window: Window, closing_policy: ClosingPolicy, max_close_age_s: int | None) -> SealedWindow:
    """Return the window as it is in evidence, with the pack's closing policy. A limit that is off has no key."""
    sealed = cast("SealedWindow", window.payload() | {"closing_policy": closing_policy.value})
    if max_close_age_s is not None:
        sealed["max_close_age_s"] = max_close_age_s
    return sealed


def read_window(sealed: Mapping[str, Any]) -> tuple[Window, ClosingPolicy, int | None]:
    """Read a sealed window: the window, the closing policy, and the limit on the age of a close."""
    policy, max_close_age_s = ClosingPolicy(sealed["closing_policy"]), sealed.get("max_close_age_s")
    if max_close_age_s is not None:
        check_close_age(max_close_age_s)
    own = {one.name: sealed[one.name] for one in fields(Window) if one.name != "close_source"}
    own["market_allowlist"] = tuple(own["market_allowlist"])
    window = Window(**own, close_source=sealed.get("close_source"))
    if sealed != sealed_window(window, policy, max_close_age_s):
        raise EvidenceError("the sealed window has other keys than a window")
    return window, policy, max_close_age_s


def fixture_closes(tape: Tape, window: Window) -> pl.DataFrame:
    """Return ``FIXTURE_CLOSES``, sorted by fixture: ticks with ``tick_seq < end_seq`` are inside the window."""
    spans = _spans(tape)
    if window.end_rule == EndRule.MANUAL_STOP:
        closes = spans.with_columns(close_kind=pl.lit(CloseKind.STOP))
    elif window.duration_s is not None:
        # A tick at the limit itself is inside, because an agent could act on it when the time ran out (law.md, "Window").
        limit = pl.col("first_ts_ms") + window.duration_s * 1000
        ended = _first_ticks(tape, spans.select("fixture_id", limit_ts_ms=limit + 1))
        closes = spans.join(ended, on="fixture_id", how="left", maintain_order="left").with_columns(
            end_seq=pl.coalesce("first_seq", "end_seq"),
            close_ts_ms=pl.min_horizontal(limit, "close_ts_ms"),
            close_kind=pl.lit(CloseKind.DURATION),
        )
    else:
        closes = _pre_match(tape, spans)
    return conform(closes.select(*FIXTURE_CLOSES), FIXTURE_CLOSES, "FIXTURE_CLOSES")


def _spans(tape: Tape) -> pl.DataFrame:
    """Return every fixture's first time and default close, sorted. The close is its last time and one past its last tick."""
    ts_ms, tick_seq, last = pl.lit(tape.rows["ts_ms"]), pl.lit(tape.rows["tick_seq"]), pl.col("start") + pl.col("rows") - 1
    return (
        tape.series.lazy()
        .select(
            "fixture_id",
            first_ts_ms=ts_ms.gather("start"),
            close_ts_ms=ts_ms.gather(last),
            end_seq=tick_seq.gather(last).cast(pl.Int64) + 1,
        )
        .group_by("fixture_id")
        .agg(pl.min("first_ts_ms"), pl.max("close_ts_ms"), pl.max("end_seq"))
        .sort("fixture_id")
        .collect(engine="in-memory")
    )


def _pre_match(tape: Tape, spans: pl.DataFrame) -> pl.DataFrame:
    played = _first_of_fixture(tape, tape.rows.lazy().filter("in_running")).rename(
        {"first_seq": "play_seq", "first_ts_ms": "play_ts_ms"}
    )
    closes = (
        spans.lazy()
        .join(played, on="fixture_id", how="left", maintain_order="left")
        .join(tape.fixtures.lazy(), on="fixture_id", how="left", maintain_order="left")
        .collect(engine="in-memory")
    )
    # The first message in play ends the window, even before the scheduled kickoff: matches start early, and a price in play
    # knows goals. A later message that is not in play changes nothing, or a flag that flickers would open the window again
    # (law.md, "Window"). Only fixtures without a message in play need the search for their kickoff.
    kickoffs = closes.lazy().filter(pl.col("play_seq").is_null(), pl.col("kickoff_ts_ms").is_not_null())
    started = _first_ticks(tape, kickoffs.select("fixture_id", limit_ts_ms="kickoff_ts_ms").collect(engine="in-memory"))
    by_play, by_kickoff = pl.col("play_seq").is_not_null(), pl.col("kickoff_ts_ms").is_not_null()
    timed = (
        closes.lazy()
        .join(started.lazy(), on="fixture_id", how="left", maintain_order="left")
        .with_columns(
            end_seq=pl.coalesce("play_seq", "first_seq", "end_seq"),
            close_ts_ms=pl.coalesce("play_ts_ms", "kickoff_ts_ms", "close_ts_ms"),
            close_kind=pl.when(by_play)
            .then(pl.lit(CloseKind.IN_RUNNING))
            .when(by_kickoff)
            .then(pl.lit(CloseKind.KICKOFF))
            .otherwise(pl.lit(CloseKind.TAPE_END)),
        )
    )
    return timed.collect(engine="in-memory")


def _first_ticks(tape: Tape, limits: pl.DataFrame) -> pl.DataFrame:
    """Find the first tick of each fixture at or after its ``limit_ts_ms``: (fixture_id, first_seq, first_ts_ms)."""
    if limits.is_empty():
        return pl.DataFrame(schema={"fixture_id": pl.Int64, "first_seq": pl.Int64, "first_ts_ms": pl.Int64})
    by_series = tape.series.lazy().join(limits.lazy(), on="fixture_id", how="left", maintain_order="left")
    limit = by_series.select("limit_ts_ms").collect(engine="in-memory").to_series()
    at_limit = pl.col("ts_ms") >= pl.lit(limit).gather("series")
    return _first_of_fixture(tape, tape.rows.lazy().filter(at_limit)).collect(engine="in-memory")


def _first_of_fixture(tape: Tape, rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the first tick of each fixture among some rows: (fixture_id, first_seq, first_ts_ms)."""
    per_series = rows.group_by("series").agg(first_seq=pl.col("tick_seq").min().cast(pl.Int64), first_ts_ms=pl.min("ts_ms"))
    names = tape.series.lazy().with_row_index("series").select("series", "fixture_id")
    return per_series.join(names, on="series").group_by("fixture_id").agg(pl.min("first_seq"), pl.min("first_ts_ms"))


def market_closes(tape: Tape, markets: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Return ``CLOSES``, sorted by (fixture_id, market_key); ``close_row`` is ``None`` for a market that is not on the tape."""
    first_sides = (
        tape.series.lazy()
        .with_row_index("series")
        .filter(pl.col("side_no") == 0)
        .select("fixture_id", "market_key", "market_start", "n_sides", "series")
    )
    window_ends = (
        markets.lazy()
        .join(first_sides, on=["fixture_id", "market_key"], how="left", maintain_order="left")
        .join(ends.lazy(), on="fixture_id", how="left", maintain_order="left")
        .sort("fixture_id", "market_key")
        .collect(engine="in-memory")
    )
    last_seq = window_ends["end_seq"] - 1
    # The close is the market's own last message, even if it is a suspension. An earlier open message has a price that was
    # withdrawn, often because something had happened (choices.md, "a market suspended at the close").
    row = last_row_at(tape.key, window_ends["market_start"], window_ends["series"], last_seq)
    if tape.closing_policy == ClosingPolicy.LAST_OPEN:
        row = _last_open(tape, window_ends, last_seq, row)
    return conform(window_ends.with_columns(close_row=row).select(*CLOSES), CLOSES, "CLOSES")


def _last_open(tape: Tape, ends: pl.DataFrame, last_seq: pl.Series, row: pl.Series) -> pl.Series:
    """Replace rows of suspended messages by the market's last open message, if it is at most 300 s older than the close."""
    is_open = ~tape.rows["suspended"]
    open_rows = is_open.arg_true().cast(pl.Int64)
    found = last_row_at(
        tape.key.filter(is_open), pl.repeat(0, ends.height, dtype=pl.Int64, eager=True), ends["series"], last_seq
    )
    open_row = open_rows.gather(found)
    young = ends["close_ts_ms"] - tape.rows["ts_ms"].gather(open_row) <= LAST_OPEN_MAX_AGE_MS
    closed = tape.rows["suspended"].gather(row)
    usable = closed & young & (open_row >= ends["market_start"])
    return pl.select(pl.when(usable).then(open_row).otherwise(row)).to_series()
