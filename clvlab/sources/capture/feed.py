"""The interface of live feeds: messages on arrival, cuts where some were missed, and health."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeGuard

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
        Bytes without the framing of the transport.
    received_ts_ms
        Arrival by this machine's clock, UTC.
    provider_ts_ms
        Provider's time of sending; ``None`` if unknown.
    mark
        Position to resume the feed from after this message; ``None`` if it has no position of its own.
    """

    text: bytes
    received_ts_ms: int
    provider_ts_ms: int | None = None
    mark: str | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """Messages may be missing from here on, until the next ``Resumption``.

    Attributes
    ----------
    cause
        Why messages are missing.
    from_ts_ms
        Arrival of the last sound message.
    markets
        Affected markets by the provider's names; all if empty.
    resumable
        Whether the feed will ask for every missed message again; markets then need not be suspended yet.
    """

    cause: GapCause
    from_ts_ms: int
    markets: tuple[str, ...] = ()
    resumable: bool = False


@dataclass(frozen=True, slots=True)
class Resumption:
    """Messages arrive again.

    Attributes
    ----------
    to_ts_ms
        Time of the resumption.
    replayed
        Whether every missed message follows now, so that the capture is complete.
    """

    to_ts_ms: int
    replayed: bool = False


Item = FeedMessage | Cut | Resumption


@dataclass(slots=True)
class Health:
    """State of a feed, which the feed writes and its watchers read.

    Attributes
    ----------
    connected
        Whether there is a connection, or the last poll was answered.
    heard_ts_ms
        Arrival of the last byte, also of a heartbeat.
    data_ts_ms
        Arrival of the last message.
    clock_skew_ms
        Provider's time minus this machine's at the last message, which includes the transmission.
    quota_left
        Remaining paid requests; ``None`` if the provider does not count them.
    retries
        Failed connections in a row.
    error
        Last error, without secrets; ``None`` without one.
    owed_since_ms
        Start of the missed time whose messages are now being sent again, as a ``Resumption`` promised; else ``None``.
    skew_s
        Seconds by which a message's time may be later than its arrival, by the settings.
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
        """Record a message."""
        self.connected, self.retries, self.error = True, 0, None
        self.heard_ts_ms = self.data_ts_ms = message.received_ts_ms
        if message.provider_ts_ms is not None:
            self.clock_skew_ms = message.provider_ts_ms - message.received_ts_ms


def now_ms() -> int:
    """Return this machine's time, UTC."""
    return time.time_ns() // 1_000_000


@dataclass
class Stop:
    """Signal that ends a feed, and wakes it if it waits."""

    _event: threading.Event = field(default_factory=threading.Event)

    def set(self) -> None:
        """End the feed."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for ``seconds``, or until the feed is to end; return whether it is to end."""
        return self._event.wait(seconds)


class Feed(Protocol):
    """One live feed of a provider.

    Attributes
    ----------
    name
        Name in settings and captures, such as ``txline``.
    provenance
        Label of packs made from its captures, such as ``genuine-txline``.
    health
        State of the feed.
    """

    name: str
    provenance: str
    health: Health

    def fixtures(self) -> Sequence[Fixture]:
        """Return current and coming fixtures by kickoff, with the fixture ids of the feed's messages.

        Raises
        ------
        FeedError
            The request fails; the message says how to fix that.
        """
        ...

    def listen(self, stop: Stop, fixture_ids: Sequence[int] = (), after: str | None = None) -> Iterator[Item]:
        """Return messages on arrival until stopped or the feed has ended; it connects again by itself.

        Each further connection is a ``Cut`` and a ``Resumption``, in their places among the messages.

        Parameters
        ----------
        stop
            Ends it within a second.
        fixture_ids
            Fixtures to subscribe to; all if empty.
        after
            Mark of the last known message. The feed first sends the messages missed since, if it can, and says by a first
            ``Resumption`` whether it did.

        Raises
        ------
        FeedError
            Trying again can't help: a wrong key, no quota left, or an unknown fixture.
        """
        ...


class ProvingFeed(Feed, Protocol):
    """A feed whose provider proves its messages; ``proofs`` says whose are kept: ``none``, ``scored`` or ``all``."""

    proofs: str

    def proving(self) -> AbstractContextManager[Callable[[str, int], bytes | None]]:
        """Give a function that asks for the proof of a message by id and time; it returns ``None`` before it is published."""
        ...


def proving(feed: Feed, *which: str) -> TypeGuard[ProvingFeed]:
    """Return whether a feed keeps the proofs of these messages."""
    return getattr(feed, "proofs", None) in which
