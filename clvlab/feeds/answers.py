"""HTTP answers that are no success, as several feeds read them."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import urlsplit

import httpx2

from clvlab.errors import FeedError
from clvlab.feeds.hosts import check_peer, is_encrypted, is_local, is_proxied, provenance_of

_MOST_WAIT_S = 3600.0


class Refused(Exception):  # noqa: N818 - no error of the library: a feed waits, and asks again
    """An answer that another one may follow: ``status``, and the seconds that the provider asked to wait."""

    def __init__(self, status: int, retry_after_s: float) -> None:
        super().__init__(f"the provider answered {status}")
        self.status, self.retry_after_s = status, retry_after_s


def refused(response: httpx2.Response) -> Refused:
    """Return the exception of an answer that another one may follow."""
    after = response.headers.get("retry-after", "")
    return Refused(response.status_code, min(_MOST_WAIT_S, float(after)) if after.isdecimal() else 0.0)


def is_passing(status: int) -> bool:
    """Tell whether asking again may help."""
    return status >= 500 or status in (408, 425, 429)


def said(error: Exception) -> str:
    """Return what went wrong, without what was sent: an error about a header shows it, and so a key."""
    shown = isinstance(error, Refused | httpx2.ConnectError | httpx2.ReadError | httpx2.RemoteProtocolError)
    return f"{type(error).__name__}: {error}" if shown and str(error) else type(error).__name__


def client_of(url: httpx2.URL, **options: Any) -> httpx2.Client:
    """Return a client of a provider's address: what answers there must not be this machine, unless the address says so."""

    def check(response: httpx2.Response) -> None:
        stream = response.extensions.get("network_stream")
        connection = None if stream is None else stream.get_extra_info("socket")
        if isinstance(connection, socket.socket) and not is_proxied(url.scheme):
            try:
                check_peer(connection, url.host)
            except OSError as error:
                raise httpx2.ReadError("the connection broke off", request=response.request) from error

    trust_env = url.scheme == "https" and not is_local(url.host)
    return httpx2.Client(trust_env=trust_env, event_hooks={"response": [check]}, **options)


def secret(value: str, setting: str) -> str:
    """Return a key that can stand in a header.

    Raises
    ------
    FeedError
    """
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        raise FeedError(f"{setting} must be set, to one line of ASCII without spaces")
    return value


def base_url(text: str, setting: str, kind: str = "http") -> httpx2.URL:
    """Return the address of a provider, ``http`` or ``ws``, plain or encrypted.

    Raises
    ------
    FeedError
    """
    try:
        url = httpx2.URL(text)
        split = urlsplit(text)
        is_whole = url.scheme in (kind, f"{kind}s") and bool(split.hostname) and split.port != 0
    except (httpx2.InvalidURL, TypeError, ValueError) as error:
        raise FeedError(f"{setting} is no URL: {type(error).__name__}") from error
    if not is_whole:
        raise FeedError(f"{setting} must begin with {kind}:// or {kind}s:// and name a host")
    return url


def provenance_at(feed: str, *urls: httpx2.URL) -> str:
    """Return the label of what a feed of these addresses becomes, as ``provenance_of`` gives it."""
    return provenance_of(feed, *(url.host for url in urls), encrypted=all(is_encrypted(url.scheme) for url in urls))
