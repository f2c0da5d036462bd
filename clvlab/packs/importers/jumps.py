"""Jumps of time in history, where nobody wrote down when a message came: what comes after them says whether they are true."""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
NOT_BORNE_OUT = "messages whose time jumps ahead, borne out by nothing after them"
_JUMP_MS = 60_000
_WITNESSES = 5
_LONGEST_MS = 30 * 86_400_000  # of the last message, which nothing can contradict


def jumps(messages: Iterable[tuple[int, int, int]], *, longest_ms: int | None = _LONGEST_MS) -> frozenset[int]:
    """Return the numbers of the messages whose times nothing bears out.

    Parameters
    ----------
    messages
        Number, fixture and time of each, in the order of the file.
    longest_ms
        By how much the last message of a fixture may jump; by any time, if null.

    Returns
    -------
    frozenset
        A message jumps that is more than a minute after the last sound one of its fixture. It is false if of the next five of
        its fixture more are before it than not, or, where none follows, if it jumps by more than ``longest_ms``.
    """
    lines: dict[int, array[int]] = defaultdict(lambda: array("q"))
    times: dict[int, array[int]] = defaultdict(lambda: array("q"))
    for number, fixture_id, ts_ms in messages:
        lines[fixture_id].append(number)
        times[fixture_id].append(ts_ms)
    return frozenset(lines[fixture_id][place] for fixture_id, own in times.items() for place in _false(own, longest_ms))


def timed(messages: Iterable[tuple[T, int | None]]) -> Iterator[tuple[T, int | None]]:
    """Yield the messages of one stream with their times, or with the last sound time where nothing bears theirs out.

    For a book, to which each change counts whatever time it says. It holds five messages at a time. The last one stands: a
    market that was quiet for a month is settled by it.

    Parameters
    ----------
    messages
        Each with its time; null of one that says none, and says nothing of others.
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
