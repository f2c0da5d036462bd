"""Which times of a provider are valid: live by arrivals, in history by the messages that follow."""

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
_MOST_OFFSET_MS = 600_000  # a clock drifts by minutes: a sender that could move the bound further could spoil a tape again
_LONGEST_MS = 366 * 86_400_000  # nothing that is still sent is older
_WINDOW, _SEED = 31, 5


class ProviderClock:
    """Decides which times of a provider are valid, message by message in order of arrival.

    The clock's offset is the median over the newest times of earlier messages, at most ten minutes and never below zero: a
    delayed message says nothing about a clock, and none moves its own bound. An arrival bounds the times of its own message. It
    bounds those of later ones, for which our clock may have been put back, only as far as its message's time confirmed it: a
    clock that was ahead for one message moves no bound for good.

    ``skew_s`` is how far a time may be beyond its arrival; ``None`` under rule 1, where every time is valid. ``refused`` counts
    messages with an invalid time, ``offset_ms`` is the largest measured offset.
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
        """Record the next arrival; putting our clock back makes no time false."""
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
        if lag <= _MOST_OFFSET_MS + self._skew_ms:  # beyond it is no drift
            self._newest_lag = lag if self._newest_lag is None else max(self._newest_lag, lag)
        if lag <= self._skew_ms + self._ahead_ms and self._at_ms - ts_ms <= _LONGEST_MS:
            self._latest_ms = max(self._latest_ms, ts_ms)
            self._newest_ms = ts_ms if self._newest_ms is None else max(self._newest_ms, ts_ms)
            return True
        self.refused += not self._is_refused
        self._is_refused = True
        return False

    def bound(self, ts_ms: int) -> int:
        """Return a state's time, or the arrival if it is beyond all valid ones, as in a book from when our clock was ahead."""
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


# Jumps of time in history, without arrivals: later messages confirm them or not.


T = TypeVar("T")
NOT_BORNE_OUT = "messages whose time jumps ahead, borne out by nothing after them"
_JUMP_MS = 60_000
_WITNESSES = 5
_LONGEST_JUMP_MS = 30 * 86_400_000  # of the last message, which nothing can contradict


def jumps(messages: Iterable[tuple[int, int, int]], *, longest_ms: int | None = _LONGEST_JUMP_MS) -> frozenset[int]:
    """Return the numbers of messages whose times no later message confirms.

    A message jumps if it is more than a minute after the last sound one of its fixture. It is false if more of the next five of
    its fixture are before it than not, or, without any, if it jumps by more than ``longest_ms`` (``None`` for no limit).
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

    It is for a book, in which each change counts whatever its time, and looks five messages ahead. The last message keeps its
    time: a market that was quiet for a month is settled by it. A message without a time (``None``) says nothing of others.
    """
    last_ms: int | None = None
    ahead: deque[tuple[T, int | None]] = deque()

    def next_one() -> tuple[T, int | None]:
        nonlocal last_ms
        message, ts_ms = ahead.popleft()
        if ts_ms is None:
            return message, None
        after = [later_ms for _, later_ms in ahead if later_ms is not None]
        if (last_ms is None or ts_ms - last_ms > _JUMP_MS) and _is_contradicted(ts_ms, last_ms, [ts_ms, *after], 0):
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
