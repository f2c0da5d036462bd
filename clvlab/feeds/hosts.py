"""Whose messages come from where: those of this machine are nobody's odds."""

from __future__ import annotations

import ipaddress
import socket
from urllib.request import getproxies

from clvlab.errors import FeedError


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


def is_proxied(scheme: str) -> bool:
    """Tell whether the environment names a proxy that is used: plain connections use none, for it could make up all it says."""
    return scheme in ("https", "wss") and any(name in ("https", "all") for name in getproxies())


def provenance_of(feed: str, *hosts: str) -> str:
    """Return the label of what a feed of these hosts becomes.

    Examples
    --------
    >>> provenance_of("txline", "txline.example"), provenance_of("txline", "127.0.0.1")
    ('genuine-txline', 'synthetic-devfeed')
    """
    return "synthetic-devfeed" if any(map(is_local, hosts)) else f"genuine-{feed}"
