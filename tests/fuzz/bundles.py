"""Bundles whose parts are changed, behind a header made to fit."""

from __future__ import annotations

import json
from base64 import b64encode
from copy import deepcopy
from pathlib import Path
from random import Random

from clvlab.proof import clv_verify
from clvlab.proof.bundle import read_bundle
from clvlab.proof.canonical import sha256
from tests.fuzz.runs import ODD, at_place, places
from tests.fuzz.transactions import KEYS, forged_transaction
from tests.proof.bundles import make_bundle, trust
from tests.proof.test_bundle import by_package, packed, said

__all__ = ["bundle_disagreement", "forged_bundle"]

WHOLE = make_bundle()
CONTENTS = read_bundle(WHOLE)
TRUST = trust() | {"anchor_signers": {"localnet": [*trust()["anchor_signers"]["localnet"], str(KEYS[0].pubkey())]}}


def forged_bundle(rng: Random) -> bytes:
    """Change a value of a part that is JSON, put in a transaction of another shape, or change any byte."""
    if rng.random() < 0.1:
        content = bytearray(WHOLE)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        return bytes(content)
    contents = dict(CONTENTS)
    name = rng.choice(["anchor.json", "anchor.json", "log.json", "log.json", "log.json", "context.json", "manifest.json", ""])
    if not name:
        del contents[rng.choice(list(contents))]
    elif rng.random() < 0.2:
        part = bytearray(contents[name])
        part[rng.randrange(len(part))] ^= 1 << rng.randrange(8)
        contents[name] = bytes(part)
    else:
        value = json.loads(contents[name])
        if name == "anchor.json" and rng.random() < 0.7:
            sent = forged_transaction(rng, sha256(contents["manifest.json"]).encode())
            value["transaction"] = b64encode(sent).decode()
            if rng.random() < 0.9:
                value["signature"] = clv_verify.base58(sent[1:65])
        else:
            place = rng.choice(places(value)[1:])
            other = at_place(value, rng.choice(places(value)))
            at_place(value, place[:-1])[place[-1]] = deepcopy(rng.choice([*ODD, other, other, other]))
        contents[name] = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode(errors="replace")
    return packed(contents)


def bundle_disagreement(content: bytes, folder: Path, required: tuple[str, ...]) -> str | None:
    """Say how package and file differ over a bundle, or null; what one refuses whole, the other must fail."""
    (folder / "run.clv").write_bytes(content)
    alone = clv_verify.verify(folder / "run.clv", trust=TRUST, required=required)
    package, file = by_package(content, TRUST, required), said(alone)
    if package is None:
        return None if any(alone["checks"].values()) else "the package refuses what the file passes"
    if alone["checks"].get("bundle"):
        return f"the file refuses what the package takes: {alone['checks']['bundle']}"
    ours = {name: check.verdict.value for name, check in package.items()}
    return None if ours == file else f"the package says {ours}, the file {alone['checks']}"
