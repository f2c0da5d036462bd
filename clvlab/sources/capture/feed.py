"""What every live feed is: messages as they come, cuts where some were missed, and its health."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from clvlab.packs.manifest import Fixture
from clvlab.sources.clock import SKEW_S


class GapCause(StrEnum):
    """Why messages were, or may have been, missed."""

    CUT = "cut"
    """The connection broke off, or the provider closed it."""
    SILENCE = "silence"
    """Nothing came for longer than the feed's patience, or heartbeats alone."""
    SEQUENCE = "sequence-hole"
    """The provider's own numbers skip some."""
    QUOTA = "quota"
    """The provider refused to answer for a while: rate limit, or nothing left of what was paid for."""
    RESTART = "restart"
    """The recorder itself was not running."""
    BACKLOG = "backlog"
    """Messages came faster than they could be written down."""
    OVERSIZE = "oversize"
    """A message was longer than a line of a capture may be."""


@dataclass(frozen=True, slots=True)
class FeedMessage:
    """A message, verbatim.

    Attributes
    ----------
    text
        Its bytes as they came, without the framing of the transport.
    received_ts_ms
        When it came, by the clock of this machine, UTC.
    provider_ts_ms
        When it was sent, as the provider says; None where it does not.
    mark
        From where the feed can be resumed after this message; None where it can't, or by an earlier mark only.
    """

    text: bytes
    received_ts_ms: int
    provider_ts_ms: int | None = None
    mark: str | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """From here on messages may be missed, until the next ``Resumption``.

    Attributes
    ----------
    cause
        Why.
    from_ts_ms
        When the last sound message came.
    markets
        The provider's own names of what is concerned; all of it if empty.
    resumable
        Whether the feed will try to have every missed message sent again, so that nothing has to be suspended yet.
    """

    cause: GapCause
    from_ts_ms: int
    markets: tuple[str, ...] = ()
    resumable: bool = False


@dataclass(frozen=True, slots=True)
class Resumption:
    """Messages come again.

    Attributes
    ----------
    to_ts_ms
        When.
    replayed
        Whether every message that was missed comes now, so that nothing was lost.
    """

    to_ts_ms: int
    replayed: bool = False


Item = FeedMessage | Cut | Resumption


@dataclass(slots=True)
class Health:
    """How a feed is; the feed writes it, and its watchers read it.

    Attributes
    ----------
    connected
        Whether there is a connection, or the last poll was answered.
    heard_ts_ms
        When the last byte came, a heartbeat's for instance.
    data_ts_ms
        When the last message came.
    clock_skew_ms
        Provider's time less this machine's at the last message, which includes its way here.
    quota_left
        What is left of what was paid for; None where nothing is counted.
    retries
        Connections in a row that failed.
    error
        What went wrong last, without a secret; None while all is well.
    owed_since_ms
        Since when messages that a ``Resumption`` promised, and are now being sent again, were missed; None without any.
    skew_s
        How far a message's time may be beyond its arrival, as the settings say.
    """

    connected: bool = False
    heard_ts_ms: int | None = None
    data_ts_ms: int | None = None
    clock_skew_ms: int | None = None
    quota_left: int | None = None
    retries: int = 0
    error: str | None = None
    owed_since_ms: int | None = None
    skew_s: int = SKEW_S

    def note(self, message: FeedMessage) -> None:
        """Take note of a message."""
        self.connected, self.retries, self.error = True, 0, None
        self.heard_ts_ms = self.data_ts_ms = message.received_ts_ms
        if message.provider_ts_ms is not None:
            self.clock_skew_ms = message.provider_ts_ms - message.received_ts_ms


def now_ms() -> int:
    """Return the time of this machine, UTC."""
    return time.time_ns() // 1_000_000


@dataclass
class Stop:
    """Asks a feed to end; a feed that waits for something wakes up."""

    _event: threading.Event = field(default_factory=threading.Event)

    def set(self) -> None:
        """Have the feed end."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until the feed is to end; tell whether it is."""
        return self._event.wait(seconds)


class Feed(Protocol):
    """One live feed of a provider.

    Attributes
    ----------
    name
        As it is asked for, and as captures name it: ``txline``.
    provenance
        Label of packs that its captures become: ``genuine-txline``.
    health
        How it is.
    """

    name: str
    provenance: str
    health: Health

    def fixtures(self) -> Sequence[Fixture]:
        """Return what is on, or will be, by kickoff; the fixture ids are those that its messages become.

        Raises
        ------
        FeedError
            It can't be asked, with what would mend that.
        """
        ...

    def listen(self, stop: Stop, fixture_ids: Sequence[int] = (), after: str | None = None) -> Iterator[Item]:
        """Return messages as they come, until it is told to stop or the feed has ended; it connects again by itself.

        Every connection after the first is a ``Cut`` and a ``Resumption``, in their places among the messages.

        Parameters
        ----------
        stop
            Ends it, within a second.
        fixture_ids
            What to subscribe to; everything if empty.
        after
            Mark of the last message that is known: the feed first sends what was missed since, if it can, and says by a first
            ``Resumption`` whether it did.

        Raises
        ------
        FeedError
            It can't go on, however often it tries: a wrong key, nothing left of what was paid for, an unknown fixture.
        """
        ...
