"""How requests to Kalshi are signed: RSA-PSS over time, method and path."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

from clvlab.errors import FeedError, MissingLibraryError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

KEY, SIGNATURE, TIMESTAMP = "KALSHI-ACCESS-KEY", "KALSHI-ACCESS-SIGNATURE", "KALSHI-ACCESS-TIMESTAMP"


class Signer:
    """Signs with the private key of an API key; shows neither.

    Raises
    ------
    FeedError
        The file holds no RSA key in PEM without a password.
    """

    def __init__(self, key_id: str, private_key_file: Path) -> None:
        self._key_id = key_id
        self._private_key = _private_key(private_key_file)

    def headers(self, method: str, path: str, at_ms: int) -> dict[str, str]:
        """Return the headers of a request."""
        from cryptography.hazmat.primitives.asymmetric import padding
        from cryptography.hazmat.primitives.hashes import SHA256

        pss = padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH)
        signature = self._private_key.sign(f"{at_ms}{method}{path}".encode(), pss, SHA256())
        return {KEY: self._key_id, SIGNATURE: base64.b64encode(signature).decode(), TIMESTAMP: str(at_ms)}


def is_signed(public_key: RSAPublicKey, signature: str, at_ms: str, method: str, path: str) -> bool:
    """Whether a request was signed with the private key of this public key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import padding
    from cryptography.hazmat.primitives.hashes import SHA256

    pss = padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH)
    try:
        public_key.verify(base64.b64decode(signature, validate=True), f"{at_ms}{method}{path}".encode(), pss, SHA256())
    except (InvalidSignature, ValueError):
        return False
    return True


def _private_key(path: Path) -> RSAPrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ModuleNotFoundError as error:
        raise MissingLibraryError("cryptography", "signing for Kalshi") from error
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise FeedError(
            f"CLVLAB_KALSHI_PRIVATE_KEY_FILE {str(path)!r} can't be read as a PEM key: {type(error).__name__}"
        ) from error
    if not isinstance(key, RSAPrivateKey):
        raise FeedError(f"CLVLAB_KALSHI_PRIVATE_KEY_FILE {str(path)!r} holds no RSA key")
    return key
