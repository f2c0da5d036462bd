"""Bundles with proofs as files, of which a file or ``log.json`` is changed, behind a header made to fit."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from clvlab.errors import ClvlabError, LogError
from clvlab.log.note import Keys
from clvlab.log.proof_file import ProofFile
from clvlab.proof.bundle import PROOF_FILES, proof_files, read_bundle
from tests.fuzz.bundles import TRUST, bundle_disagreement
from tests.fuzz.runs import ODD, at_place, places
from tests.proof.bundles import make_bundle
from tests.proof.test_bundle import by_package, packed

__all__ = ["forged_files", "proof_file_disagreement"]

CONTENTS = read_bundle(make_bundle())
CONTENTS |= proof_files(json.loads(CONTENTS["log.json"]))


def forged_files(rng: Random) -> bytes:
    """Change a file, or ``log.json`` with its files after it or not; one in eight is left as it was made."""
    contents, change = dict(CONTENTS), rng.randrange(8)
    name, other = rng.sample(PROOF_FILES, 2)
    if change == 1:
        contents[name] = _text_changed(rng, contents[name])
    elif change == 2:
        contents[name], contents[other] = contents[other], rng.choice([contents[name], contents[other]])
    elif change == 3:
        del contents[rng.choice([name, "log.json"])]
    elif change == 4:
        part = bytearray(contents[rng.choice([name, "log.json"])])
        part[rng.randrange(len(part))] ^= 1 << rng.randrange(8)
        contents[name] = bytes(part)
    elif change:
        log = json.loads(contents["log.json"])
        place = rng.choice([one for one in places(log)[1:] if change == 5 or one[0] in ("commit", "outcome", "checkpoint")])
        another = at_place(log, rng.choice(places(log)))
        at_place(log, place[:-1])[place[-1]] = deepcopy(rng.choice([*ODD, -1, another, another]))
        contents["log.json"] = _written(log)
        if rng.random() < 0.7:
            for one in PROOF_FILES:
                with suppress(KeyError, TypeError, ValueError):  # a forger writes what can be written
                    contents[one] = _file(log, one.removesuffix(".tlog-proof"))
    return packed(contents)


def _written(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode(errors="replace")


def _file(log: Any, name: str) -> bytes:
    """Write a proof as a file from whatever stands in ``log.json``."""
    hashes = "".join(f"{b64encode(bytes.fromhex(one)).decode()}\n" for one in log[name]["proof"])
    return f"c2sp.org/tlog-proof@v1\nindex {log[name]['index']}\n{hashes}\n{log['checkpoint']}".encode(errors="replace")


def _text_changed(rng: Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    change = rng.randrange(6)
    if change == 0:
        lines[at], lines[other] = lines[other], lines[at]
    elif change == 1:
        del lines[at]
    elif change == 2:
        lines.insert(at, rng.choice([b"", b"extra AA==", b"index 0", lines[other]]))
    elif change == 3:
        lines[at] += rng.choice([b" ", b"\r", b"=", b"0"])
    elif change == 4:
        return data[: rng.randrange(len(data))]
    else:
        return data + data[rng.randrange(len(data)) :]
    return b"\n".join(lines)


def proof_file_disagreement(content: bytes, folder: Path, required: tuple[str, ...]) -> str | None:
    """Say how package and file differ, or that a file that both take has another proof than they judged; or null."""
    fault = bundle_disagreement(content, folder, required)
    if fault is not None:
        return fault
    try:
        contents = read_bundle(content)
    except ClvlabError:
        return None
    log, keys = json.loads(contents["log.json"]), Keys.read(TRUST["logs"], TRUST["witnesses"])
    for name in (one for one in PROOF_FILES if one in contents):
        entry = log[name.removesuffix(".tlog-proof")]
        try:
            proof = ProofFile.read(contents[name].decode())
        except LogError as error:
            holds = by_package(content, TRUST, ())["log"].verdict == "pass"
            return f"{name} can't be read, and its log holds: {error}" if holds else None
        if (proof.index, [one.hex() for one in proof.hashes], proof.note) != (
            entry["index"],
            entry["proof"],
            log["checkpoint"],
        ):
            return f"{name} is read as another proof than that of log.json"
        if content == packed(CONTENTS):
            proof.check(entry["entry"].encode(), keys)
    return None
