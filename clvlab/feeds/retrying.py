"""Trying again: how long a feed waits for a provider, what is worth another try, and what is not."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import httpx2
from websockets.exceptions import WebSocketException

from clvlab.errors import FeedError
from clvlab.feeds.backoff import Retry
from clvlab.feeds.feed import GapCause, Health, Stop
from clvlab.feeds.hosts import check_peer, is_encrypted, is_local, is_proxied, provenance_of

# HTTP answers that are no success, as several feeds read them.


_MOST_WAIT_S = 3600.0


class RefusedAnswer(Exception):  # noqa: N818 - no error of the library: a feed waits, and asks again
    """An answer that another one may follow: ``status``, and the seconds that the provider asked to wait."""

    def __init__(self, status: int, retry_after_s: float) -> None:
        super().__init__(f"the provider answered {status}")
        self.status, self.retry_after_s = status, retry_after_s


def refusal(response: httpx2.Response) -> RefusedAnswer:
    """Return the exception of an answer that another one may follow."""
    after = response.headers.get("retry-after", "")
    return RefusedAnswer(response.status_code, min(_MOST_WAIT_S, float(after)) if after.isdecimal() else 0.0)


def is_passing(status: int) -> bool:
    """Tell whether asking again may help."""
    return status >= 500 or status in (408, 425, 429)


def said(error: Exception) -> str:
    """Return what went wrong, without what was sent: an error about a header shows it, and so a key."""
    shown = isinstance(error, RefusedAnswer | httpx2.ConnectError | httpx2.ReadError | httpx2.RemoteProtocolError)
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


_HOPELESS = (400, 401, 403, 404, 410)
_T = TypeVar("_T")


class LostError(Exception):
    """A connection is of no use any more; ``cause`` says why, ``wait_s`` how long the provider asks to be left alone."""

    def __init__(self, cause: GapCause, detail: str, wait_s: float = 0.0) -> None:
        super().__init__(detail)
        self.cause = cause
        self.wait_s = wait_s


PASSING = (OSError, WebSocketException, httpx2.HTTPError, LostError)


def refused(status: int, headers: Mapping[str, str], settings: str) -> NoReturn:
    """Raise what a refusal means: another try later, or none.

    Raises
    ------
    FeedError
        Trying again can't help; the message names ``settings``.
    LostError
        It can.
    """
    if status in _HOPELESS:
        raise FeedError(f"the provider refuses with HTTP {status}: check {settings}")
    wait = headers.get("Retry-After", "")
    cause = GapCause.QUOTA if status == 429 else GapCause.CUT
    raise LostError(cause, f"HTTP {status}", float(wait) if wait.isdecimal() else 0.0)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a feed waits, in seconds.

    Attributes
    ----------
    answer_s
        For a connection, and for an answer.
    silence_s
        Without a byte.
    data_s
        Without a message, while heartbeats come.
    first_s, most_s
        Before it connects again: for the first time, and at most. Each time is twice the one before, less up to a half.
    """

    answer_s: float = 10.0
    silence_s: float = 25.0
    data_s: float = 900.0
    first_s: float = 0.5
    most_s: float = 30.0

    def retry(self, health: Health) -> Retry:
        """Return the retries of a connection."""
        return Retry(health, self.first_s, self.most_s)


def until_done(retry: Retry, stop: Stop, attempt: Callable[[], _T]) -> _T | None:
    """Return what an attempt returns, after as many as it takes; null if it is told to stop."""
    while not stop.is_set:
        try:
            return attempt()
        except PASSING as error:
            put_off(retry, stop, error)
    return None


def put_off(retry: Retry, stop: Stop, error: Exception) -> None:
    """Take note of a failure, and wait."""
    retry.failed(f"{type(error).__name__}: {error}"[:200])
    retry.wait(stop, error.wait_s if isinstance(error, LostError) else 0.0)
