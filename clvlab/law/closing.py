"""Windows and closes: the end of each fixture's window, and the message that closes each market."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NotRequired, TypedDict, cast

import numpy as np
import polars as pl

from clvlab.errors import EvidenceError, WindowError
from clvlab.law.lines import (
    NONE,
    Bools,
    Categorical,
    Column,
    Ints,
    changes,
    find,
    first_known,
    frame_of,
    ints_of,
    known,
    spread,
    take,
    texts_of,
)
from clvlab.law.schema import CLOSES, FIXTURE_CLOSES, SAFE_INTEGER, CloseKind, ClosingPolicy, EndRule
from clvlab.law.tape import Tape, check_close_age

# A price that could not be taken for longer than this is not a closing price (law.md, "Close").
LAST_OPEN_MAX_AGE_MS = 300_000
_MAX_TEXT_BYTES = 200
_MAX_PREFIXES = 1000
_KINDS = sorted(kind.value for kind in CloseKind)


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
    rows = _RowsByFixture(tape)
    last_seq, last_ms = rows.last_message()
    if window.end_rule == EndRule.MANUAL_STOP:
        end_seq, close_ms, kind = last_seq + 1, last_ms, _kinds(len(last_seq), CloseKind.STOP)
    elif window.duration_s is not None:
        # A tick at the limit itself is inside, because an agent could act on it when the time ran out (law.md, "Window").
        _, first_ms = rows.first_message(rows.start)
        limit_ms = first_ms + window.duration_s * 1000
        after_seq, _ = rows.first_message(rows.since(limit_ms + 1))
        end_seq, close_ms = first_known(after_seq, last_seq + 1), np.minimum(limit_ms, last_ms)
        kind = _kinds(len(last_seq), CloseKind.DURATION)
    else:
        # The first message in play ends the window, even before the scheduled kickoff: matches start early, and a price in play
        # knows goals. A later message that is not in play changes nothing, or a flag that flickers would open the window again
        # (law.md, "Window"). Only fixtures without a message in play need the search for their kickoff.
        play_seq, play_ms = rows.first_message(rows.begin(tape.rows["in_running"].fill_null(value=False).to_numpy()))
        scheduled = find(ints_of(tape.fixtures["fixture_id"]), rows.fixture_id)
        kickoff_ms = take(ints_of(tape.fixtures["kickoff_ts_ms"]), scheduled, NONE)
        started_seq, _ = rows.first_message(rows.since(np.where(known(play_seq), NONE, kickoff_ms)))
        end_seq = first_known(play_seq, started_seq, last_seq + 1)
        close_ms = first_known(play_ms, kickoff_ms, last_ms)
        kind = _kinds(len(last_seq), CloseKind.TAPE_END)
        kind[known(kickoff_ms)], kind[known(play_seq)] = (
            _KINDS.index(one) for one in (CloseKind.KICKOFF, CloseKind.IN_RUNNING)
        )
    columns = {"fixture_id": rows.fixture_id, "end_seq": end_seq, "close_ts_ms": close_ms}
    return frame_of({**columns, "close_kind": Categorical(kind, _KINDS)}, FIXTURE_CLOSES)


def _kinds(count: int, kind: CloseKind) -> Ints:
    return np.full(count, _KINDS.index(kind), dtype=np.int64)


class _RowsByFixture:
    """The rows of a tape by fixture. They are in order of fixture, series and tick."""

    def __init__(self, tape: Tape) -> None:
        fixture_id = ints_of(tape.series["fixture_id"])
        new = changes(fixture_id)
        self.fixture_id, self._fixture = fixture_id[new], np.cumsum(new) - 1
        self.start, self._stop = ints_of(tape.series["start"]), ints_of(tape.series["start"] + tape.series["rows"])
        self._series, self._tick_seq, self._ts_ms = (tape.rows[name].to_numpy() for name in ("series", "tick_seq", "ts_ms"))

    def first_message(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return tick and time of the first message of each fixture among some rows; null for a fixture without one."""
        return self._reduced(np.minimum.reduceat, self._tick_seq, rows), self._reduced(np.minimum.reduceat, self._ts_ms, rows)

    def last_message(self) -> tuple[Ints, Ints]:
        rows = self._stop - 1
        return self._reduced(np.maximum.reduceat, self._tick_seq, rows), self._reduced(np.maximum.reduceat, self._ts_ms, rows)

    def _reduced(self, reduceat: Callable[[Ints, Ints], Ints], column: Ints, rows: Ints) -> Ints:
        fixture = self._fixture[self._series[rows]]
        first = np.flatnonzero(changes(fixture))
        found = reduceat(column[rows], first) if len(first) else column[:0]
        return spread(found.astype(np.int64), fixture[first], len(self.fixture_id), NONE)

    def begin(self, flag: Bools) -> Ints:
        """Return the rows at which a flag is set, and was not set in the row before of the same series."""
        rises = flag.copy()
        rises[1:] &= ~flag[:-1]
        rises[self.start] = flag[self.start]
        return np.flatnonzero(rises)

    def since(self, start_ms: Ints) -> Ints:
        """Return the first row of each series at or after a time of its fixture; none for a fixture without a time."""
        ts_ms = self._ts_ms
        if (find(self.start, np.flatnonzero(ts_ms[1:] < ts_ms[:-1]) + 1) < 0).any():  # time falls in a series, as in no pack
            ts_ms = np.concatenate([np.maximum.accumulate(times) for times in np.split(ts_ms, self.start[1:])])
        searched = known(start_ms)[self._fixture]
        wanted, low, high = start_ms[self._fixture][searched], self.start[searched], self._stop[searched]
        stop = high
        while (low < high).any():
            middle = (low + high) // 2
            late = (low == high) | (ts_ms[np.minimum(middle, len(ts_ms) - 1)] >= wanted)
            low, high = np.where(late, low, middle + 1), np.where(late, np.minimum(high, middle), high)
        rows: Ints = low[low < stop]
        return rows


def market_closes(tape: Tape, markets: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Return ``CLOSES``, sorted by (fixture_id, market_key); ``close_row`` is ``None`` for a market that is not on the tape."""
    closing = markets.select("fixture_id", "market_key").sort("fixture_id", "market_key")
    fixture_id, (market_key,) = ints_of(closing["fixture_id"]), texts_of(closing["market_key"])
    market, end = tape.markets.find(fixture_id, market_key), find(ints_of(ends["fixture_id"]), fixture_id)
    end_seq, close_ts_ms = (take(ints_of(ends[name]), end, NONE) for name in ("end_seq", "close_ts_ms"))
    last_seq = np.where(known(end_seq), end_seq, 0) - 1
    # The close is the market's own last message, even if it is a suspension. An earlier open message has a price that was
    # withdrawn, often because something had happened (choices.md, "a market suspended at the close").
    row = tape.markets.last_rows(tape.key.to_numpy(), market, last_seq)
    if tape.closing_policy == ClosingPolicy.LAST_OPEN:
        row = _last_open(tape, market, last_seq, close_ts_ms, row)
    columns: dict[str, Column] = {
        "fixture_id": fixture_id,
        "market_key": market_key,
        "market_start": take(tape.markets.start, market, NONE),
        "n_sides": take(tape.markets.n_sides, market, NONE),
        "close_row": row,
        "end_seq": end_seq,
        "close_ts_ms": close_ts_ms,
        "close_kind": texts_of(ends["close_kind"])[0].take(end),
    }
    return frame_of(columns, CLOSES)


def _last_open(tape: Tape, market: Ints, last_seq: Ints, close_ts_ms: Ints, row: Ints) -> Ints:
    """Replace rows of suspended messages by the market's last open message, if it is at most 300 s older than the close."""
    suspended = tape.rows["suspended"].to_numpy()
    opened = tape.markets.last_rows(tape.key.to_numpy(), market, last_seq, np.flatnonzero(~suspended))
    young = close_ts_ms - take(tape.rows["ts_ms"].to_numpy(), np.maximum(opened, -1), 0) <= LAST_OPEN_MAX_AGE_MS
    closed = take(suspended, np.maximum(row, -1), default=False)
    return np.where(closed & known(opened) & young, opened, row)
