"""URLs of packs and runs: which are taken, and how they are shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeGuard
from urllib.parse import SplitResult, quote, urlsplit

from clvlab.errors import RemoteError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKETS = ("s3", "gs")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def is_url(where: object) -> TypeGuard[str]:
    """Tell whether a text is a URL, and no path."""
    return isinstance(where, str) and _URL.match(where) is not None


@dataclass(frozen=True)
class Address:
    """A URL under which objects lie.

    Attributes
    ----------
    url
        As it was given, with its query, which may hold a token: never shown.
    """

    url: str

    def __post_init__(self) -> None:
        scheme, host, path = self._parts.scheme, self._host, self._parts.path
        if scheme not in (*_BUCKETS, "https", "http"):
            raise RemoteError(f"{self}: packs and runs lie at s3://, gs:// or https://, not at {scheme}://")
        if not host:
            raise RemoteError(f"{self}: the URL names no {'bucket' if self.is_bucket else 'host'}")
        if scheme == "http" and host not in _LOOPBACK:
            raise RemoteError(f"{self}: anybody on the way can read and change what http:// brings; use https://")
        if self._parts.fragment or any(part in (".", "..") for part in path.split("/")):
            raise RemoteError(f"{self}: the URL must have no fragment, and no '.' or '..' in its path")
        if self._parts.username or self._parts.password or (self.is_bucket and self._parts.query):
            raise RemoteError(f"{self}: credentials stand in the environment, or in the query of an https:// URL, nowhere else")

    def __str__(self) -> str:
        """The URL as it may be shown: without user, password, query and fragment."""
        port = re.search(r":\d+$", self._parts.netloc)
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{self._parts.scheme}://{host}{port[0] if port else ''}{self._parts.path.rstrip('/')}"

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    @property
    def is_bucket(self) -> bool:
        """Whether it can be listed and written to; a web server is read only."""
        return self._parts.scheme in _BUCKETS

    @property
    def is_plain(self) -> bool:
        """Whether it is reached without encryption, on this machine."""
        return self._parts.scheme == "http"

    def under(self, name: str) -> Address:
        """Return the address of what lies below it."""
        return Address(self._parts._replace(path=f"{self._parts.path.rstrip('/')}/{quote(name)}").geturl())

    @property
    def _parts(self) -> SplitResult:
        try:
            return urlsplit(self.url)
        except ValueError:  # it may quote a password
            raise RemoteError("a URL can't be read: its host is not written as it must be") from None

    @property
    def _host(self) -> str:
        return self._parts.hostname or ""
