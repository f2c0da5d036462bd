"""The address of a client behind proxies that are trusted to say it."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

_SCHEMES = ("http", "https")
Networks = Collection[IPv4Network | IPv6Network]


class ForwardedClient:
    """Puts the client, and the scheme, that trusted proxies name in place of the proxy that connected.

    Parameters
    ----------
    trusted
        Networks of the proxies. Any other peer is the client, whatever it says of itself.
    """

    def __init__(self, app: ASGIApp, trusted: Networks) -> None:
        self._app, self._trusted = app, trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._trusted and scope["type"] in ("http", "websocket") and scope.get("client"):
            peer, port = scope["client"]
            address = client_address(peer, Headers(scope=scope).getlist("x-forwarded-for"), self._trusted)
            scope = {**scope, "client": (address, port if address == peer else 0)}
            named = Headers(scope=scope).get("x-forwarded-proto", "")
            if scope["type"] == "http" and named in _SCHEMES and _is_trusted(peer, self._trusted):
                scope["scheme"] = named  # of commands that pages print
        await self._app(scope, receive, send)


def client_address(peer: str, forwarded: Collection[str], trusted: Networks) -> str:
    """Return the nearest address that is not a trusted proxy's; each proxy has added, at the end, whom it was asked by.

    Examples
    --------
    >>> from ipaddress import ip_network
    >>> client_address("10.0.0.1", ["203.0.113.7, 198.51.100.2"], [ip_network("10.0.0.0/8")])
    '198.51.100.2'
    """
    named = [part.strip() for part in ",".join(forwarded).split(",") if part.strip()]
    address = peer
    while _is_trusted(address, trusted) and named and _parsed(named[-1]) is not None:
        address = named.pop()
    return address


def _is_trusted(address: str, trusted: Networks) -> bool:
    parsed = _parsed(address)
    return parsed is not None and any(parsed in network for network in trusted)


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        parsed = ip_address(address)
    except ValueError:
        return None
    return (isinstance(parsed, IPv6Address) and parsed.ipv4_mapped) or parsed
