"""Whose messages come from where: those of this machine are nobody's odds."""

from __future__ import annotations

import ipaddress
import socket


def is_local(host: str) -> bool:
    """Tell whether a host is this machine, by its name or address alone; also as systems read short forms, ``127.1``."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            address = ipaddress.ip_address(socket.inet_aton(host))
        except OSError:
            return False
    return address.is_loopback or address.is_unspecified


def provenance_of(feed: str, *hosts: str) -> str:
    """Return the label of what a feed of these hosts becomes.

    Examples
    --------
    >>> provenance_of("txline", "txline.example"), provenance_of("txline", "127.0.0.1")
    ('genuine-txline', 'synthetic-devfeed')
    """
    return "synthetic-devfeed" if any(map(is_local, hosts)) else f"genuine-{feed}"
