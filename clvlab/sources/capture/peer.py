"""The other end of a connection: its owner, and waits before another try."""

from __future__ import annotations

import ipaddress
import random
import socket
from dataclasses import dataclass, field
from urllib.request import getproxies

from clvlab.errors import FeedError
from clvlab.sources.capture.feed import Health, Stop


def backoff_s(failures: int, first_s: float, most_s: float) -> float:
    """Return the wait after failures in a row: it doubles each time up to a limit, and is cut at random by up to a half."""
    return min(most_s, first_s * 2.0 ** min(failures - 1, 60)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


@dataclass
class Retry:
    """Failures in a row of one connection, recorded in ``health``; ``first_s`` and ``most_s`` bound the waits."""

    health: Health
    first_s: float
    most_s: float
    _failures: int = field(default=0, init=False)

    def reset(self) -> None:
        self._failures = 0

    def note_failure(self, error: str) -> None:
        self._failures += 1
        self.health.connected, self.health.retries, self.health.error = False, self._failures, error

    def wait(self, stop: Stop, at_least_s: float = 0.0) -> None:
        """Wait before the next try, at least as long as the provider asked for."""
        stop.wait(max(at_least_s, backoff_s(self._failures, self.first_s, self.most_s)))


_PROVIDERS = {
    "betfair": frozenset({"stream-api.betfair.com"}),
    "kalshi": frozenset({"api.elections.kalshi.com"}),
    "polymarket": frozenset({"ws-subscriptions-clob.polymarket.com", "gamma-api.polymarket.com"}),
    "the-odds-api": frozenset({"api.the-odds-api.com"}),
    "txline": frozenset({"txline.txodds.com"}),
}


def is_local(host: str) -> bool:
    """Return whether a host names this machine, also in short forms that systems read, such as ``127.1``."""
    host = host.lower().removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            address = ipaddress.ip_address(socket.inet_aton(host))
        except OSError:
            return False
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    return address.is_loopback or address.is_unspecified


def check_peer(connection: socket.socket, host: str) -> None:
    """Refuse a connection that ends on this machine under another host's name, as a resolver may map any name to it."""
    if is_local(host):
        return
    peer, own = connection.getpeername()[0], connection.getsockname()[0]
    if is_local(peer) or peer == own:
        raise FeedError(f"{host!r} leads to {peer}, which is this machine, and is no provider: name it by its address")


def is_encrypted(scheme: str) -> bool:
    """Return whether connections of a scheme are encrypted and certified."""
    return scheme in ("https", "wss")


def is_proxied(scheme: str) -> bool:
    """Return whether a proxy of the environment is used: only for encrypted connections, whose content it can't forge."""
    return is_encrypted(scheme) and any(name in ("https", "all") for name in getproxies())


def provenance_of(feed: str, *hosts: str, encrypted: bool = True) -> str:
    """Return the label of packs from a feed at these hosts.

    It is genuine only if all hosts have the provider's exact names and are encrypted: a relay, a mirror or a similar name may
    send anything.

    Examples
    --------
    >>> provenance_of("txline", "txline.txodds.com"), provenance_of("txline", "txline.example")
    ('genuine-txline', 'imported-txline')
    >>> provenance_of("txline", "127.0.0.1")
    'synthetic-devfeed'
    """
    if any(map(is_local, hosts)):
        return "synthetic-devfeed"
    own = _PROVIDERS.get(feed, frozenset())
    return f"{'genuine' if encrypted and own.issuperset(host.lower() for host in hosts) else 'imported'}-{feed}"
