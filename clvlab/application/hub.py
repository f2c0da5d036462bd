"""News of appended events inside one process; what was appended is read from the store."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition


class Hub:
    """Tells subscribers and waiters that something about a subject was stored."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._versions: dict[str, int] = {}
        self._subscribers: dict[str, list[Callable[[], None]]] = {}

    def subscribe(self, subject: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Call ``notify`` at every publication about a subject, on the publisher's thread; returns the unsubscription."""
        with self._changed:
            self._subscribers.setdefault(subject, []).append(notify)

        def unsubscribe() -> None:
            with self._changed:
                others = [other for other in self._subscribers.get(subject, []) if other is not notify]
                self._subscribers[subject] = others
                if not others:
                    del self._subscribers[subject]

        return unsubscribe

    def publish(self, subject: str) -> None:
        """Say that something about a subject was stored; called after the transaction."""
        with self._changed:
            if subject in self._versions:  # somebody waits for it: runs come and go
                self._versions[subject] += 1
            notified = list(self._subscribers.get(subject, ()))
            self._changed.notify_all()
        for notify in notified:
            notify()

    def version(self, subject: str) -> int:
        """Count the publications about a subject: to be read before the store is."""
        with self._changed:
            return self._versions.setdefault(subject, 0)

    def wait(self, subject: str, seen: int, timeout_s: float) -> None:
        """Wait until the version of a subject is not the one that was seen any more, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: self._versions.get(subject, 0) != seen, timeout_s)
