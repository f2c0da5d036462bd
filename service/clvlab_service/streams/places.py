"""How many streams are open, in all and from one address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, IPv6Network, ip_address

from clvlab_service.middleware import Metrics
from clvlab_service.settings import Settings

_SUBSCRIBER_BITS = 64  # of an IPv6 address: the rest a client chooses for itself (RFC 6177)


class StreamPlaces:
    """The streams of this process, which are bounded."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._most, self._most_of_client = settings.max_streams, settings.max_client_streams
        self._open = metrics.streams
        self._taken: Counter[str] = Counter()

    def refusal(self, address: str | None) -> str | None:
        """Say why there is no place for one more stream to an address; null if there is one."""
        if self._taken.total() >= self._most:
            return "too many streams"
        if address is not None and self._taken[_subscriber(address)] >= self._most_of_client:
            return "too many streams to one address"
        return None

    @contextmanager
    def taken(self, address: str | None) -> Iterator[None]:
        """Count one open stream; a connection without an address, such as a local socket, counts among all only."""
        subscriber = "" if address is None else _subscriber(address)
        self._taken[subscriber] += 1
        try:
            with self._open.track_inprogress():
                yield
        finally:
            self._taken[subscriber] -= 1
            if not self._taken[subscriber]:
                del self._taken[subscriber]


def _subscriber(address: str) -> str:
    """Return what one client can't change of its address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    mapped = parsed.ipv4_mapped  # as a socket for both kinds shows a client of the older one
    return str(mapped or IPv6Network((int(parsed), _SUBSCRIBER_BITS), strict=False))
