"""Authentication: the caller's DID, from a bearer token that an external identity provider signed."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx2
import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt import PyJWK, PyJWKSet, PyJWTError
from jwt.algorithms import get_default_algorithms

from clvlab.errors import ClvlabError
from clvlab_service.settings import Settings

# Public keys that sign tokens: one PEM file, or a JWKS that is fetched in the background.
#
# A request waits for at most one short fetch. Known keys are looked up in memory. An unknown key id starts a fetch, at most
# once per cooldown, and all waiting requests share it. While the provider is down, the last keys are used up to a maximum age.
# PyJWKClient has none of these properties: its lock makes known keys wait for a fetch, its cooldown begins only after a
# successful fetch, it drops an expired set while the provider is down, and it reads a set of any size.


ALGORITHMS = ("ES256", "RS256", "EdDSA")
_FETCH_TIMEOUT_S = 5.0
_MAX_JWKS_BYTES = 1_000_000
_MIN_RSA_BITS = 2048


class TokenKeys(Protocol):
    """A source of public keys."""

    async def key(self, key_id: str | None) -> PyJWK | None:
        """Return the key of this id, or ``None``."""

    async def start(self) -> None:
        """Start to refresh keys."""

    async def stop(self) -> None:
        """Stop refreshing keys."""


class NoKeys:
    """The source of a service without configured keys: every token is refused."""

    async def key(self, key_id: str | None) -> PyJWK | None:  # noqa: ARG002
        return None

    async def start(self) -> None:
        """Nothing to do."""

    async def stop(self) -> None:
        """Nothing to do."""


class FileKey(NoKeys):
    """One public key of a PEM file; the key id of a token is ignored.

    Raises
    ------
    ValueError
        The file has no public key, or its key fits none of ``ALGORITHMS``.
    OSError
        The file can't be read.
    """

    def __init__(self, path: Path) -> None:
        public = load_pem_public_key(path.read_bytes())
        match public:
            case Ed25519PublicKey():
                algorithm = "EdDSA"
            case EllipticCurvePublicKey(curve=SECP256R1()):
                algorithm = "ES256"
            case RSAPublicKey(key_size=bits) if bits >= _MIN_RSA_BITS:
                algorithm = "RS256"
            case _:
                raise ValueError(f"the key in {path} must be Ed25519, EC P-256, or RSA of at least {_MIN_RSA_BITS} bits")
        self._key = PyJWK.from_dict(get_default_algorithms()[algorithm].to_jwk(public, as_dict=True), algorithm)

    async def key(self, key_id: str | None) -> PyJWK | None:  # noqa: ARG002
        return self._key


class JwksKeys:
    """Keys of an identity provider, by key id.

    Parameters
    ----------
    url
        URL of the JWKS (RFC 7517).
    refresh_s, cooldown_s, max_stale_s
        Seconds between background fetches, seconds between fetches for unknown key ids, and maximal age of keys in seconds.
    clock
        Clock that returns monotonic seconds.
    """

    def __init__(
        self,
        url: str,
        refresh_s: float,
        cooldown_s: float,
        max_stale_s: float,
        log: structlog.typing.FilteringBoundLogger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url, self._refresh_s, self._cooldown_s, self._max_stale_s = url, refresh_s, cooldown_s, max_stale_s
        self._log, self._clock = log, clock
        self._keys: list[PyJWK] = []
        self._fetched_at = self._asked_at = -float("inf")
        self._fetching: asyncio.Task[None] | None = None
        self._background: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to fetch in the background; the service starts even if the provider is down."""
        self._background = asyncio.create_task(self._keep_fresh())

    async def stop(self) -> None:
        """Cancel the fetches under way."""
        for task in (self._background, self._fetching):
            if task:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def key(self, key_id: str | None) -> PyJWK | None:
        """Return the key of this id. An unknown id waits for one shared fetch, unless the cooldown is still running."""
        if (known := self._key(key_id)) is not None:
            return known
        if self._fetching or self._clock() - self._asked_at >= self._cooldown_s:
            await asyncio.shield(self._fetch_once())
        return self._key(key_id)

    def _key(self, key_id: str | None) -> PyJWK | None:
        if self._clock() - self._fetched_at > self._max_stale_s:
            return None
        return next((key for key in self._keys if key.key_id == key_id), None)

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.shield(self._fetch_once())
            await asyncio.sleep(self._refresh_s if self._keys else min(self._refresh_s, 1 + self._cooldown_s))

    def _fetch_once(self) -> asyncio.Task[None]:
        if self._fetching is None:
            self._asked_at = self._clock()
            self._fetching = asyncio.create_task(self._fetch())
            self._fetching.add_done_callback(self._fetch_done)
        return self._fetching

    def _fetch_done(self, _: asyncio.Task[None]) -> None:
        self._fetching = None

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(_FETCH_TIMEOUT_S), httpx2.AsyncClient(timeout=_FETCH_TIMEOUT_S) as client:
                document = await _small_json(client, self._url)
            self._keys = _signing_keys(document)
            self._fetched_at = self._clock()
        except (httpx2.HTTPError, PyJWTError, TimeoutError, ValueError, RecursionError) as error:
            self._log.warning("jwks_fetch_failed", url=self._url, error=f"{type(error).__name__}: {error}")


async def _small_json(client: httpx2.AsyncClient, url: str) -> Any:
    async with client.stream("GET", url) as response:
        response.raise_for_status()
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MAX_JWKS_BYTES:
                raise ValueError(f"the JWKS is larger than {_MAX_JWKS_BYTES} bytes")
    return json.loads(body)


def _signing_keys(document: Any) -> list[PyJWK]:
    """Return the signature keys of an allowed algorithm; unreadable keys are skipped (RFC 7517, section 5)."""
    if not isinstance(document, dict):
        raise ValueError("the JWKS is not a JSON object")
    keys = [key for key in PyJWKSet.from_dict(document) if key.algorithm_name in ALGORITHMS and not _unfit(key)]
    if not keys:
        raise ValueError(f"the JWKS has no key for {', '.join(ALGORITHMS)}")
    return keys


def _unfit(key: PyJWK) -> bool:
    weak = isinstance(key.key, RSAPublicKey) and key.key.key_size < _MIN_RSA_BITS
    return weak or key.public_key_use not in ("sig", None)


_LEEWAY_S = 30
_MOST_KNOWN = 1_000
_MAX_TOKEN_BYTES = 8_192
_REQUIRED = ["exp", "iat", "sub", "iss", "aud"]
_DID = re.compile(r"did:[!-~]{1,252}")  # printable ASCII, at most 256 characters in all


class InvalidTokenError(ClvlabError):
    """No token, or one that proves nothing; the message says why without repeating the token."""

    http_status = 401


@dataclass(frozen=True, slots=True)
class _KnownToken:
    """A token that was verified by a key, and the seconds since 1970 between which it counts."""

    key_id: str | None
    key: PyJWK
    begins_s: float
    ends_s: float
    did: str

    def is_current(self, now_s: float) -> bool:
        return self.begins_s <= now_s < self.ends_s


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Verifies bearer tokens (RFC 6750, RFC 7519).

    Attributes
    ----------
    keys
        Source of public keys.
    issuer, audience
        Required values of ``iss`` and ``aud``.
    max_lifetime_s
        Maximum of ``exp`` - ``iat``; the library itself accepts an ``exp`` in a billion years.
    """

    keys: TokenKeys
    issuer: str | None
    audience: str | None
    max_lifetime_s: int
    _verified: dict[str, _KnownToken] = field(default_factory=dict)  # by token, the newest last

    async def principal(self, authorization: str | None) -> str:
        """Return the DID of the caller. A token whose signature held under the present key is not verified again.

        Parameters
        ----------
        authorization
            Value of the header ``Authorization``.

        Raises
        ------
        InvalidTokenError
            The token is missing, malformed, wrongly signed or expired, or has no DID.
        """
        token = _bearer(authorization)
        known = self._verified.get(token)
        if known is not None and known.is_current(time.time()) and await self.keys.key(known.key_id) is known.key:
            return known.did
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS:
                raise InvalidTokenError(f"the token's algorithm is not one of {', '.join(ALGORITHMS)}")
            key = await self.keys.key(header.get("kid"))
            if key is None:
                raise InvalidTokenError("no key is known that could verify the token")
            claims = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self.audience,
                issuer=self.issuer,
                leeway=_LEEWAY_S,
                options={"require": _REQUIRED, "enforce_minimum_key_length": True},
            )
        except jwt.PyJWTError as error:
            raise InvalidTokenError(f"the token is not valid: {error}") from error
        for name in ("exp", "iat", "nbf"):
            if name in claims and type(claims[name]) not in (int, float):  # RFC 7519, section 2: a NumericDate is a number
                raise InvalidTokenError(f"the token's {name} must be a number")
        if not 0 < int(claims["exp"]) - int(claims["iat"]) <= self.max_lifetime_s:
            raise InvalidTokenError(f"the token must live at most {self.max_lifetime_s} s, exp - iat")
        if not _DID.fullmatch(claims["sub"]):
            raise InvalidTokenError("the token's sub must be a DID: did:..., at most 256 printable ASCII characters")
        self._verified.pop(token, None)
        while len(self._verified) >= _MOST_KNOWN:
            del self._verified[next(iter(self._verified))]
        begins, ends = int(max(claims["iat"], claims.get("nbf", 0))) - _LEEWAY_S, int(claims["exp"]) + _LEEWAY_S
        self._verified[token] = _KnownToken(header.get("kid"), key, begins, ends, str(claims["sub"]))
        return str(claims["sub"])


def _bearer(authorization: str | None) -> str:
    if authorization is None:
        raise InvalidTokenError("a bearer token is required: Authorization: Bearer <token>")
    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise InvalidTokenError("the Authorization header must be: Bearer <token>")
    if len(token) > _MAX_TOKEN_BYTES:
        raise InvalidTokenError(f"the token is longer than {_MAX_TOKEN_BYTES} bytes")
    return token.strip()


def authenticator(settings: Settings, log: structlog.typing.FilteringBoundLogger) -> Authenticator:
    """Build the authenticator of the settings; without keys it refuses every token.

    Raises
    ------
    OSError, ValueError
        The PEM file can't be read, or its key can't be used.
    """
    keys: TokenKeys = NoKeys()
    if settings.jwks_url:
        keys = JwksKeys(settings.jwks_url, settings.jwks_refresh_s, settings.jwks_cooldown_s, settings.jwks_max_stale_s, log)
    elif settings.jwt_public_key_file:
        keys = FileKey(settings.jwt_public_key_file)
    return Authenticator(keys, settings.jwt_issuer, settings.jwt_audience, settings.jwt_max_lifetime_s)
