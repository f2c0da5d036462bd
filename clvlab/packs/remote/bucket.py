"""Objects under a URL: they are read in parts, and never overwritten."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeGuard
from urllib.parse import SplitResult, quote, urlsplit

from clvlab.base.progress import report
from clvlab.errors import MissingExtraError, RemoteConflictError, RemoteError, RemoteMissingError
from clvlab.packs.folder import MAX_WHOLE_BYTES

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ObjectMeta
    from obstore.store import ObjectStore


# URLs of packs and runs: accepted forms, and their text without secrets.


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKETS = ("s3", "gs")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def is_url(where: object) -> TypeGuard[str]:
    return isinstance(where, str) and _URL.match(where) is not None


@dataclass(frozen=True)
class Address:
    """A URL of objects; ``url`` keeps its query, which may hold a token and is never shown."""

    url: str

    def __post_init__(self) -> None:
        scheme, host, path = self._parts.scheme, self._host, self._parts.path
        if scheme not in (*_BUCKETS, "https", "http"):
            if not scheme:
                text = str(self).removeprefix("://")
                raise RemoteError(f"{text!r:.200} is no URL of packs or runs: use s3://, gs:// or https://")
            raise RemoteError(f"{self}: packs and runs are at s3://, gs:// or https://, not at {scheme}://")
        if not host:
            raise RemoteError(f"{self}: the URL names no {'bucket' if self.is_bucket else 'host'}")
        if scheme == "http" and host not in _LOOPBACK:
            raise RemoteError(f"{self}: anybody on the way can read and change what http:// brings; use https://")
        if self._parts.fragment or any(part in (".", "..") for part in path.split("/")):
            raise RemoteError(f"{self}: the URL must have no fragment, and no '.' or '..' in its path")
        if self._parts.username or self._parts.password or (self.is_bucket and self._parts.query):
            raise RemoteError(f"{self}: credentials stand in the environment, or in the query of an https:// URL, nowhere else")

    def __str__(self) -> str:
        """Return the URL without user, password, query and fragment."""
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
        return Address(self._parts._replace(path=f"{self._parts.path.rstrip('/')}/{quote(name)}").geturl())

    @property
    def _parts(self) -> SplitResult:
        try:
            return urlsplit(self.url)
        except ValueError:  # the error may quote a password
            raise RemoteError("a URL can't be read: its host is not written as it must be") from None

    @property
    def _host(self) -> str:
        return self._parts.hostname or ""


TIMEOUT_S = 60.0  # of one request, including its content
_UPLOAD_S = 3600.0
_RETRIES = 3
_PART_BYTES = 8 << 20
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+)")
_CODE = re.compile(r"<Code>([A-Za-z]+)</Code>")
_REASONS = {
    "kind: Timeout": "did not answer in time",
    "kind: Connect": "can't be reached",
    "IncompleteBody": "is cut off",
    "UnexpectedRange": "is cut off",
    "RangeNotSupported": "can't be read in parts, which reading a pack needs: its server gives files whole only",
    "MissingAccessKeyId": "needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "MissingSecretAccessKey": "needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
}
_UNKNOWN = "can't be read or written: the connection broke off, or the server said what is not understood"


@dataclass(frozen=True, slots=True)
class Version:
    """Size and ETag (if any) of an object when it was first read."""

    size: int
    e_tag: str | None


@dataclass(frozen=True)
class Bucket:
    """The objects under an address; credentials and endpoint come from ``AWS_*`` and ``GOOGLE_*`` of the environment.

    All errors are ``RemoteError`` and name the URL without credentials. Messages of the library hold the whole URL, so they are
    neither passed on nor kept as a cause.
    """

    address: Address

    def __getstate__(self) -> Mapping[str, Address]:
        """Pickle without open connections and credentials."""
        return {"address": self.address}

    def __setstate__(self, state: Mapping[str, Address]) -> None:
        object.__setattr__(self, "address", state["address"])

    def whole(self, name: str) -> bytes:
        with self._naming(name):
            found = self._get(name)
            if found.meta["size"] > MAX_WHOLE_BYTES:
                raise RemoteError(f"{self.address}/{name} has {found.meta['size']:,} bytes, the limit is {MAX_WHOLE_BYTES:,}")
            return bytes(found.bytes())

    def tail(self, name: str, count: int) -> tuple[bytes, Version]:
        with self._naming(name):
            found = self._get(name, {"range": {"suffix": count}})
            return bytes(found.bytes()), _version(found.meta)

    def part(self, name: str, start: int, end: int, version: Version) -> bytes:
        """Read bytes ``start`` to ``end`` of a known version.

        Raises
        ------
        RemoteError
            The object was changed or cut off since.
        """
        with self._naming(name):
            unchanged: GetOptions = {} if version.e_tag is None else {"if_match": version.e_tag}
            content = bytes(self._get(name, {"range": (start, end), **unchanged}).bytes())
        if len(content) != end - start:
            raise RemoteError(f"{self.address}/{name} is cut off: of bytes {start:,} to {end:,} came {len(content):,}")
        return content

    def parts(self, name: str) -> Iterator[bytes]:
        with self._naming(name):
            version = _version(_library().head(self._store, name))
        for start in range(0, version.size, _PART_BYTES):
            report(f"downloading {name}", start, version.size)
            yield self.part(name, start, min(start + _PART_BYTES, version.size), version)
        report(f"downloading {name}", version.size, version.size)

    def create(self, name: str, content: bytes | Path) -> bool:
        """Write an object in one step that fails where one exists; return whether it was written."""
        self._check_listed("nothing can be written there")
        with self._naming(name):
            try:
                _library().put(self._writing, name, content, mode="create")
            except _library().exceptions.AlreadyExistsError:
                return False
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Write an object over an existing one."""
        self._check_listed("nothing can be written there")
        with self._naming(name):
            _library().put(self._writing, name, content)

    def create_or_compare(self, name: str, content: bytes | Path) -> None:
        """Write an object where none exists; an existing one must have the same bytes, else ``RemoteConflictError``."""
        if self.create(name, content):
            return
        if _sha256(self.parts(name)) != _sha256(_chunks(content)):
            raise RemoteConflictError(f"{self.address}/{name} is there with other bytes; nothing is written over")

    def folders(self) -> list[str]:
        self._check_listed("a web server can't be listed; name a pack there")
        with self._naming(""):
            return sorted(_library().list_with_delimiter(self._store)["common_prefixes"])

    def _check_listed(self, otherwise: str) -> None:
        if not self.address.is_bucket:
            raise RemoteError(f"{self.address} is read only: {otherwise}")

    def _get(self, name: str, options: GetOptions | None = None) -> GetResult:
        found: GetResult = _library().get(self._store, name, options=options)
        return found

    @cached_property
    def _store(self) -> ObjectStore:
        return self._opened(TIMEOUT_S)

    @cached_property
    def _writing(self) -> ObjectStore:
        return self._opened(_UPLOAD_S)

    def _opened(self, timeout_s: float) -> ObjectStore:
        named = os.environ.get("AWS_ENDPOINT_URL", "") if self.address.is_bucket else ""
        plain = self.address.is_plain or named.startswith("http://")  # with https:// a redirect to http:// is refused
        try:
            store: ObjectStore = _library().store.from_url(
                self.address.url,
                client_options={"allow_http": plain, "connect_timeout": "5s", "timeout": timedelta(seconds=timeout_s)},
                retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=2 * timeout_s)},
            )
            return store
        except (_library().exceptions.BaseError, ValueError) as error:
            raise _other(str(self.address), str(error)) from None

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        exceptions = _library().exceptions
        where = f"{self.address}/{name}".rstrip("/")
        try:
            yield
        except FileNotFoundError as error:
            what = "no such bucket" if "<Code>NoSuchBucket" in str(error) else "nothing is there"
            raise RemoteMissingError(f"{where}: {what}") from None
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError):
            raise RemoteError(f"{where}: access is denied; credentials are read from the environment") from None
        except exceptions.PreconditionError:
            raise RemoteError(f"{where} was changed since it was opened: open it again") from None
        except (exceptions.BaseError, NotImplementedError, ValueError) as error:
            raise _other(where, str(error)) from None


def _library() -> ModuleType:
    try:
        import obstore
        import obstore.store
    except ModuleNotFoundError as error:
        raise MissingExtraError("remote", error.name) from error
    return obstore


def _version(meta: ObjectMeta) -> Version:
    tag = meta["e_tag"]
    # RFC 9110 13.1.1: a weak tag never matches.
    return Version(meta["size"], None if tag is None or tag.startswith("W/") else tag)


def _chunks(content: bytes | Path) -> Iterator[bytes]:
    with BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
        while chunk := file.read(_PART_BYTES):
            yield chunk


def _sha256(chunks: Iterable[bytes]) -> str:
    hasher = hashlib.sha256()
    for chunk in chunks:
        hasher.update(chunk)
    return hasher.hexdigest()


def _other(where: str, text: str) -> RemoteError:
    """Return an error without the library's message, which holds the whole URL."""
    code, status = _CODE.search(text), _STATUS.search(text)
    if code and code[1] == "NoSuchBucket":
        return RemoteMissingError(f"{where}: no such bucket")
    if code or status:
        return RemoteError(f"{where}: the server answers {' '.join(found[1].strip() for found in (status, code) if found)}")
    return RemoteError(f"{where} {next((reason for sign, reason in _REASONS.items() if sign in text), _UNKNOWN)}")
