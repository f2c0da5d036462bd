"""What a server sends, and when: messages that are published one after the other, whether anybody listens or not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from clvlab.feeds.devfeeds.faults import FaultPlan, FeedFault


@dataclass(frozen=True, slots=True)
class Scripted:
    """A message, so many seconds after the script began."""

    text: bytes
    at_s: float = 0.0


@dataclass
class Script:
    """Publishes messages in a thread of its own from the moment on at which somebody first asks.

    Attributes
    ----------
    messages
        By time.
    plan
        Faults, of which these are the script's: a message twice, after the next, left out, or cut off; a clock that is ahead.
    ahead
        Puts the provider's time in a message ahead, by seconds.
    published
        What was sent so far, or would have been; only ever appended to.
    ended
        Once everything is published.
    """

    messages: Iterable[Scripted]
    plan: FaultPlan = field(default_factory=FaultPlan)
    ahead: Callable[[bytes, float], bytes] = lambda text, _: text
    published: list[bytes] = field(default_factory=list, init=False)
    skew_s: float = field(default=0.0, init=False)
    ended: threading.Event = field(default_factory=threading.Event, init=False)
    _news: threading.Condition = field(default_factory=threading.Condition, init=False)
    _begun: bool = field(default=False, init=False)

    def begin(self, closing: threading.Event) -> None:
        """Publish from now on, unless it does."""
        with self._news:
            begun, self._begun = self._begun, True
        if not begun:
            threading.Thread(target=self._publish, args=(closing,), name="clvlab-script", daemon=True).start()

    def wait(self, number: int, seconds: float) -> bool:
        """Wait until a message of that number is published; tell whether it is."""
        with self._news:
            return self._news.wait_for(lambda: len(self.published) > number, seconds)

    def _publish(self, closing: threading.Event) -> None:
        start = time.monotonic()
        for scripted in self.messages:
            if closing.wait(max(0.0, start + scripted.at_s - time.monotonic())):
                return
            with self._news:
                self.published += self._faulted(scripted.text)
                self._news.notify_all()
        with self._news:
            self.published += self._held
        self.ended.set()

    _held: list[bytes] = field(default_factory=list, init=False)

    def _faulted(self, text: bytes) -> Iterator[bytes]:
        """Return what becomes of a message."""
        planned = self.plan.due(
            len(self.published), FeedFault.DUPLICATE, FeedFault.SWAP, FeedFault.HOLE, FeedFault.SKEW, FeedFault.MALFORMED
        )
        kind = planned.fault if planned else None
        if planned and kind is FeedFault.SKEW:
            self.skew_s = planned.seconds
        text = self.ahead(text, self.skew_s) if self.skew_s else text
        if kind is FeedFault.SWAP:
            self._held.append(text)
        elif kind is not FeedFault.HOLE:
            yield text[: len(text) // 2] if kind is FeedFault.MALFORMED else text
            yield from [text] if kind is FeedFault.DUPLICATE else []
            yield from self._held
            self._held.clear()
