"""What reads a provider's messages one after the other: the states of markets that each of them leaves behind."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

from clvlab.packs.exchange import State
from clvlab.packs.manifest import Fixture

# The provider's clock, judged by ours: a message's time can't be later than its arrival, but for a skew that is named.


SKEW_S = 60
"""How far beyond its arrival a message's time may be unless it is said otherwise, in seconds."""
MOST_SKEW_S = 3_600
AGAINST_ARRIVAL = "its time is beyond its arrival, or years before it"
_MOST_OFFSET_MS = 600_000  # a clock drifts by minutes: whoever could move the bound further could spoil a tape again
_LONGEST_MS = 366 * 86_400_000  # nothing that is still sent is older
_WINDOW, _SEED = 31, 5


class ProviderClock:
    """Tells which times of a provider may stand, message by message in order of arrival.

    The offset of the provider's clock is the median over the newest times of the messages before, at most ten minutes and never
    less than none: a message that waited says nothing of a clock, and none moves the bound by which it is judged itself.

    An arrival bounds the times of its own message. It bounds those of later ones, which may come to a clock of ours that was
    put back, only as far as its message's time bore it out: a clock that was ahead for one message moves no bound for good.

    Parameters
    ----------
    skew_s
        How far a time may be beyond the arrival; null under the first rule of reading, where every time stands.

    Attributes
    ----------
    refused
        Messages that said a time that does not stand.
    offset_ms
        The largest offset that was measured.
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
        """Take note of when the next message came; a clock of ours that is put back makes no time false."""
        if self._newest_lag is not None:
            self._measure(self._newest_lag)
        if self._newest_ms is not None:
            self._borne_out_ms = max(self._borne_out_ms, min(self._at_ms, self._newest_ms))
        self._newest_lag, self._newest_ms, self._is_refused = None, None, False
        self._at_ms, self._bound_ms = at_ms, max(self._borne_out_ms, at_ms)

    def holds(self, ts_ms: int) -> bool:
        """Tell whether a time that the message says may stand."""
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

    def bounded(self, ts_ms: int) -> int:
        """Return a state's time, or the arrival where it is beyond all that stood, as of a book of when our clock was ahead."""
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


class Reader(Protocol):
    """Reads the messages of one provider in order of arrival; keeps what is needed to read the next one.

    Attributes
    ----------
    fixtures
        What was said of each fixture so far: names, the provider's own id, and the kickoff as announced last; by fixture_id.
    clock
        Which times may stand, asked before anything is kept; every time, until the capture's own is set.
    """

    fixtures: Mapping[int, Fixture]
    clock: ProviderClock

    def take(self, text: bytes, received_ts_ms: int) -> Sequence[State]:
        """Return the states that a message leaves behind, of some markets or none.

        Raises
        ------
        ValueError
            The message can't be read; it changed nothing.
        """
        ...

    def forget(self, markets: Collection[str]) -> Collection[tuple[int, str]]:
        """Take note that messages were missed: no delta is applied before the next full snapshot.

        Parameters
        ----------
        markets
            Which markets, by the provider's own names; all of them if empty.

        Returns
        -------
        Collection
            Fixture and key of each market that was known, and is not any more.
        """
        ...


class StateReader:
    """What a reader keeps of messages that each say the whole state of a market."""

    def __init__(self) -> None:
        self._fixtures: dict[int, Fixture] = {}
        self.fixtures: Mapping[int, Fixture] = self._fixtures
        self.clock = ProviderClock()
        self._known: set[tuple[int, str]] = set()

    def forget(self, markets: Collection[str]) -> Collection[tuple[int, str]]:
        """Take note that messages about these markets, or about any, were missed."""
        forgotten = {market for market in self._known if not markets or market[1] in markets}
        self._known -= forgotten
        return forgotten


@runtime_checkable
class HoldingReader(Reader, Protocol):
    """Holds states back until a later message shows that they are the last ones of their time.

    Attributes
    ----------
    counts
        What it had to read otherwise than a reader that knows the end, by reason.
    """

    @property
    def counts(self) -> Mapping[str, int]: ...

    def finish(self) -> Sequence[State]:
        """Return the states that are held back: the capture ends, or messages were missed."""
        ...
