"""Tokens for trying the service on one machine: a key pair in a folder, and a token that it signs."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from clvlab.base.files import new_file, replace_file
from clvlab.errors import SettingsError

ISSUER, AUDIENCE = "clvlab-dev", "clvlab"
_PRIVATE, _PUBLIC = "dev-key.pem", "dev-key.pub.pem"


def public_key_file(folder: Path) -> Path:
    """Return the file of the public key; missing files of the pair are made, readable by their owner only.

    Raises
    ------
    OSError
        The folder can't be written.
    SettingsError
        The folder's file of the private key has no key.
    """
    public = folder / _PUBLIC
    if not public.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / ".gitignore", b"*\n")
        pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        with suppress(FileExistsError):  # another process made it, or one that was killed before it wrote the public key
            new_file(folder / _PRIVATE, pem, 0o600)
        key = _private_key(folder).public_key()
        replace_file(public, key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return public


def _private_key(folder: Path) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key((folder / _PRIVATE).read_bytes(), None)
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingsError(f"{str(folder / _PRIVATE)!r} holds no key: remove it, and another is made")
    return key


def dev_token(folder: Path, did: str, lifetime_s: int) -> str:
    """Sign a token for ``did`` with the folder's key; a missing key is made first."""
    public_key_file(folder)
    now = int(time.time())
    claims = {"sub": did, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + lifetime_s}
    return jwt.encode(claims, (folder / _PRIVATE).read_bytes(), "EdDSA", {"kid": "dev"})
