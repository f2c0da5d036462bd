"""Tokens for trying the service on one machine: a key pair in a folder, and a token that it signs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

ISSUER, AUDIENCE = "clvlab-dev", "clvlab"
_PRIVATE, _PUBLIC = "dev-key.pem", "dev-key.pub.pem"


def public_key_file(folder: Path) -> Path:
    """Return the file of the public key; the pair is made if the folder has none, readable by its owner only.

    Raises
    ------
    OSError
        The folder can't be written.
    """
    if not (folder / _PUBLIC).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".gitignore").write_text("*\n")
        private = Ed25519PrivateKey.generate()
        pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        with os.fdopen(os.open(folder / _PRIVATE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
        (folder / _PUBLIC).write_bytes(private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return folder / _PUBLIC


def dev_token(folder: Path, did: str, lifetime_s: int) -> str:
    """Sign a token for ``did`` with the folder's key, made if there is none."""
    public_key_file(folder)
    now = int(time.time())
    claims = {"sub": did, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + lifetime_s}
    return jwt.encode(claims, (folder / _PRIVATE).read_bytes(), "EdDSA", {"kid": "dev"})
