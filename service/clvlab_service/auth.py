"""Who calls: the principal's DID, from a bearer token that an external identity provider signed."""

from __future__ import annotations

import re
from dataclasses import dataclass

import jwt
import structlog

from clvlab.errors import ClvlabError
from clvlab_service.keys import ALGORITHMS, FileKey, JwksKeys, Keys, NoKeys
from clvlab_service.settings import Settings

_LEEWAY_S = 30
_MAX_TOKEN_BYTES = 8_192
_REQUIRED = ["exp", "iat", "sub", "iss", "aud"]
_DID = re.compile(r"did:[!-~]{1,252}")  # printable ASCII, at most 256 characters in all


class InvalidTokenError(ClvlabError):
    """No token, or one that proves nothing; the message says why without repeating the token."""

    http_status = 401


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Verifies bearer tokens (RFC 6750, RFC 7519).

    Attributes
    ----------
    keys
        Where public keys come from.
    issuer, audience
        What ``iss`` and ``aud`` must say.
    max_lifetime_s
        Longest ``exp`` - ``iat``: the library takes any ``exp``, also one in a billion years.
    """

    keys: Keys
    issuer: str | None
    audience: str | None
    max_lifetime_s: int

    async def principal(self, authorization: str | None) -> str:
        """Return the DID of the caller.

        Parameters
        ----------
        authorization
            The header as sent.

        Raises
        ------
        InvalidTokenError
            Missing, malformed, wrongly signed, expired, or without a DID.
        """
        token = _bearer(authorization)
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
    """Build the authenticator that the settings ask for; without keys it refuses every token.

    Raises
    ------
    OSError, ValueError
        The PEM file can't be read, or its key can't be used.
    """
    keys: Keys = NoKeys()
    if settings.jwks_url:
        keys = JwksKeys(settings.jwks_url, settings.jwks_refresh_s, settings.jwks_cooldown_s, settings.jwks_max_stale_s, log)
    elif settings.jwt_public_key_file:
        keys = FileKey(settings.jwt_public_key_file)
    return Authenticator(keys, settings.jwt_issuer, settings.jwt_audience, settings.jwt_max_lifetime_s)
