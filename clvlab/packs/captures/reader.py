"""What reads a provider's messages one after the other: the states of markets that each of them leaves behind."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

from clvlab.packs.captures.clock import ProviderClock
from clvlab.packs.exchange.state import State
from clvlab.packs.manifest import Fixture


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
