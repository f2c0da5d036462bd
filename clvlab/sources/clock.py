"""Validity of a provider's times: arrivals decide it live, and later messages decide it in history."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

SKEW_S = 60
"""How far beyond its arrival a message's time may be unless it is said otherwise, in seconds."""
MOST_SKEW_S = 3_600
AGAINST_ARRIVAL = "its time is beyond its arrival, or years before it"
_MOST_OFFSET_MS = 600_000  # clocks drift by minutes; a bound that moved further would let a sender spoil a tape
_LONGEST_MS = 366 * 86_400_000  # providers send nothing older
_WINDOW, _SEED = 31, 5


class ProviderClock:
    """Decides which times of a provider are valid, message by message in order of arrival.

    The clock's offset is the median over the newest times of earlier messages, at most ten minutes and never below zero. A
    delayed message therefore does not lower it, and a message never moves its own bound. An arrival bounds the times of its own
    message. If our clock is put back, an earlier arrival bounds later messages only as far as its message's time confirmed it.
    If our clock was ahead for one message, the bound therefore does not move for good.

    ``skew_s`` is the limit on how much later than its arrival a time may be; ``None`` under rule 1, where every time is valid.
    ``refused`` counts messages with an invalid time, and ``offset_ms`` is the largest measured offset.
    """

    def __init__(self, skew_s: int | None = None) -> None:
        self._skew_ms = None if skew_s is None else 1000 * skew_s
        self._lags: deque[int] = deque()
        self._ranked: list[int] = []
        self._newest_lag: int | None = None
        self._at_ms = self._borne_out_ms = self._bound_ms = self._latest_ms = 0
        self._newest_ms: int | None = None
        self._ahead_ms = 0
        self._is_refused = False
        self.refused = 0
        self.offset_ms = 0

    def arrive(self, at_ms: int) -> None:
        """Record the next arrival; if our clock is put back, valid times stay valid."""
        if self._newest_lag is not None:
            self._measure(self._newest_lag)
        if self._newest_ms is not None:
            self._borne_out_ms = max(self._borne_out_ms, min(self._at_ms, self._newest_ms))
        self._newest_lag, self._newest_ms, self._is_refused = None, None, False
        self._at_ms, self._bound_ms = at_ms, max(self._borne_out_ms, at_ms)

    def holds(self, ts_ms: int) -> bool:
        """Return whether a time of the message is valid."""
        if self._skew_ms is None:
            return True
        lag = ts_ms - self._bound_ms
        if lag <= _MOST_OFFSET_MS + self._skew_ms:  # a larger lag is not drift
            self._newest_lag = lag if self._newest_lag is None else max(self._newest_lag, lag)
        if lag <= self._skew_ms + self._ahead_ms and self._at_ms - ts_ms <= _LONGEST_MS:
            self._latest_ms = max(self._latest_ms, ts_ms)
            self._newest_ms = ts_ms if self._newest_ms is None else max(self._newest_ms, ts_ms)
            return True
        self.refused += not self._is_refused
        self._is_refused = True
        return False

    def bound(self, ts_ms: int) -> int:
        """Return a state's time, or the arrival if the time is not valid, as in a book from when our clock was ahead."""
        if self._skew_ms is None or ts_ms <= max(self._latest_ms, self._bound_ms + self._skew_ms):
            return ts_ms
        return self._bound_ms

    def _measure(self, lag: int) -> None:
        self._lags.append(lag)
        insort(self._ranked, lag)
        if len(self._lags) > _WINDOW:
            del self._ranked[bisect_left(self._ranked, self._lags.popleft())]
        if len(self._ranked) >= _SEED:
            self._ahead_ms = min(max(self._ranked[len(self._ranked) // 2], 0), _MOST_OFFSET_MS)
            self.offset_ms = max(self.offset_ms, self._ahead_ms)


# History has no arrivals; later messages show whether a jump of time is false.


T = TypeVar("T")
NOT_BORNE_OUT = "messages whose time jumps ahead, borne out by nothing after them"
_JUMP_MS = 60_000
_WITNESSES = 5
_LONGEST_JUMP_MS = 30 * 86_400_000  # of the last message, which no later one can contradict


def jumps(messages: Iterable[tuple[int, int, int]], *, longest_ms: int | None = _LONGEST_JUMP_MS) -> frozenset[int]:
    """Return the numbers of messages whose times no later message confirms.

    A message jumps if it is more than a minute after the last sound one of its fixture. A jump is false if, of the fixture's
    next five messages, more are before it than not. The last message of a fixture is false if it jumps by more than
    ``longest_ms`` (``None`` for no limit).
    ``messages`` are number, fixture and time in file order.
    """
    lines: dict[int, array[int]] = defaultdict(lambda: array("q"))
    times: dict[int, array[int]] = defaultdict(lambda: array("q"))
    for number, fixture_id, ts_ms in messages:
        lines[fixture_id].append(number)
        times[fixture_id].append(ts_ms)
    return frozenset(lines[fixture_id][place] for fixture_id, own in times.items() for place in _false(own, longest_ms))


def with_sound_times(messages: Iterable[tuple[T, int | None]]) -> Iterator[tuple[T, int | None]]:
    """Yield the messages of one stream with their times, or the last sound time where none is confirmed.

    It serves books, in which each change counts whatever its time, and looks five messages ahead. The last message keeps its
    time, because it may settle a market that was quiet for a month. A message without a time (``None``) does not affect others.
    """
    last_ms: int | None = None
    ahead: deque[tuple[T, int | None]] = deque()

    def next_one() -> tuple[T, int | None]:
        nonlocal last_ms
        message, ts_ms = ahead.popleft()
        if ts_ms is None:
            return message, None
        if last_ms is None or ts_ms - last_ms > _JUMP_MS:
            after = [later_ms for _, later_ms in ahead if later_ms is not None]
            if _is_contradicted(ts_ms, last_ms, [ts_ms, *after], 0):
                return message, min(after) if last_ms is None else last_ms
        last_ms = ts_ms if last_ms is None else max(last_ms, ts_ms)
        return message, ts_ms

    for item in messages:
        ahead.append(item)
        if len(ahead) > _WITNESSES:
            yield next_one()
    while ahead:
        yield next_one()


def _false(times: Sequence[int], longest_ms: int | None) -> Iterator[int]:
    last_ms: int | None = None
    for place, ts_ms in enumerate(times):
        if (last_ms is None or ts_ms - last_ms > _JUMP_MS) and _is_contradicted(ts_ms, last_ms, times, place, longest_ms):
            yield place
        else:
            last_ms = ts_ms if last_ms is None else max(last_ms, ts_ms)


def _is_contradicted(ts_ms: int, last_ms: int | None, times: Sequence[int], place: int, longest_ms: int | None = None) -> bool:
    after = times[place + 1 : place + 1 + _WITNESSES]
    if not after:
        return last_ms is not None and longest_ms is not None and ts_ms - last_ms > longest_ms
    earlier = sum(1 for later_ms in after if ts_ms - later_ms > (_JUMP_MS if last_ms is None else 0))
    return 2 * earlier > len(after)
