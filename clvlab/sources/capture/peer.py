"""The other end of a connection: whose it is, and how long to wait before it is tried again."""

from __future__ import annotations

import ipaddress
import random
import socket
from dataclasses import dataclass, field
from urllib.request import getproxies

from clvlab.errors import FeedError
from clvlab.sources.capture.feed import Health, Stop


def backoff_s(failures: int, first_s: float, most_s: float) -> float:
    """Return seconds to wait after failures in a row: each time twice as long, up to a limit, less up to a half by chance."""
    return min(most_s, first_s * 2.0 ** min(failures - 1, 60)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


@dataclass
class Retry:
    """Failures in a row of one connection.

    Attributes
    ----------
    health
        Where they are told.
    first_s, most_s
        The longest first wait, and the longest of all.
    """

    health: Health
    first_s: float
    most_s: float
    _failures: int = field(default=0, init=False)

    def succeeded(self) -> None:
        """Begin again."""
        self._failures = 0

    def failed(self, said: str) -> None:
        """Take note of one more failure."""
        self._failures += 1
        self.health.connected, self.health.retries, self.health.error = False, self._failures, said

    def wait(self, stop: Stop, at_least_s: float = 0.0) -> None:
        """Wait before the next try, as long as the provider asked for at least."""
        stop.wait(max(at_least_s, backoff_s(self._failures, self.first_s, self.most_s)))


_PROVIDERS = {
    "betfair": frozenset({"stream-api.betfair.com"}),
    "kalshi": frozenset({"api.elections.kalshi.com"}),
    "polymarket": frozenset({"ws-subscriptions-clob.polymarket.com", "gamma-api.polymarket.com"}),
    "the-odds-api": frozenset({"api.the-odds-api.com"}),
    "txline": frozenset({"txline.txodds.com"}),
}


def is_local(host: str) -> bool:
    """Tell whether a host is this machine, by its name or address alone; also as systems read short forms, ``127.1``."""
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
    """Refuse a connection that ends on this machine, though its host does not say so: resolvers lead names anywhere.

    Raises
    ------
    FeedError
    """
    if is_local(host):
        return
    peer, own = connection.getpeername()[0], connection.getsockname()[0]
    if is_local(peer) or peer == own:
        raise FeedError(f"{host!r} leads to {peer}, which is this machine, and is no provider: name it by its address")


def is_encrypted(scheme: str) -> bool:
    """Tell whether connections of a scheme are encrypted, and the other end shows a certificate."""
    return scheme in ("https", "wss")


def is_proxied(scheme: str) -> bool:
    """Tell whether the environment names a proxy that is used: plain connections use none, for it could make up all it says."""
    return is_encrypted(scheme) and any(name in ("https", "all") for name in getproxies())


def provenance_of(feed: str, *hosts: str, encrypted: bool = True) -> str:
    """Return the label of what a feed of these hosts becomes.

    It is genuine only of the provider's own hosts, by their exact names, and over connections that are encrypted: a relay, a
    mirror or a name that looks like a provider's may say anything.

    Parameters
    ----------
    feed
        Name of the provider.
    hosts
        Who is asked.
    encrypted
        Whether each of them shows by a certificate who it is.

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
