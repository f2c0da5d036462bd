"""Jumps of time in history, where nobody wrote down when a message came: what comes after them says whether they are true."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

NOT_BORNE_OUT = "messages whose time jumps ahead, borne out by nothing after them"
_JUMP_MS = 60_000
_WITNESSES = 5
_LONGEST_MS = 30 * 86_400_000  # of the last message, which nothing can contradict


def jumps(messages: Iterable[tuple[int, int, int]]) -> frozenset[int]:
    """Return the numbers of the messages whose times nothing bears out.

    Parameters
    ----------
    messages
        Number, fixture and time of each, in the order of the file.

    Returns
    -------
    frozenset
        A message jumps that is more than a minute after the last sound one of its fixture. It is false if of the next five of
        its fixture more are before it than not, or, where none follows, if it jumps by more than thirty days.
    """
    lines: dict[int, array[int]] = defaultdict(lambda: array("q"))
    times: dict[int, array[int]] = defaultdict(lambda: array("q"))
    for number, fixture_id, ts_ms in messages:
        lines[fixture_id].append(number)
        times[fixture_id].append(ts_ms)
    return frozenset(lines[fixture_id][place] for fixture_id, own in times.items() for place in _false(own))


def _false(times: Sequence[int]) -> Iterator[int]:
    last_ms: int | None = None
    for place, ts_ms in enumerate(times):
        if (last_ms is None or ts_ms - last_ms > _JUMP_MS) and _is_contradicted(ts_ms, last_ms, times, place):
            yield place
        else:
            last_ms = ts_ms if last_ms is None else max(last_ms, ts_ms)


def _is_contradicted(ts_ms: int, last_ms: int | None, times: Sequence[int], place: int) -> bool:
    after = times[place + 1 : place + 1 + _WITNESSES]
    if not after:
        return last_ms is not None and ts_ms - last_ms > _LONGEST_MS
    earlier = sum(1 for later_ms in after if ts_ms - later_ms > (_JUMP_MS if last_ms is None else 0))
    return 2 * earlier > len(after)
