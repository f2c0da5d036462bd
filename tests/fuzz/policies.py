"""Policies of logs and witnesses, most of them changed, over a bundle that some of the witnesses signed."""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from pathlib import Path
from random import Random

from clvlab.errors import BundleError
from clvlab.log.bundles import Trust, judge, note_text
from clvlab.log.note import Signer, Verifier, write_note
from clvlab.proof import clv_verify
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.proof.canonical import canonical
from clvlab.proof.verify import Verification, verify
from tests.proof.bundles import LOG_KEY, make_bundle
from tests.proof.test_bundle import packed

__all__ = ["CONTENTS", "forged_policy", "policy_disagreement", "signed_bundle"]

CONTENTS = read_bundle(make_bundle())
WITNESSES = [Signer(f"{name}.example/w", 4, bytes(range(at, at + 32))) for at, name in enumerate(("a", "b", "c", "d", "é"), 3)]
LOG = str(LOG_KEY.verifier)
OTHER_TYPE = "pq.example+0a0b0c0d+" + b64encode(b"\x06" + bytes(40)).decode()
SMALL_ORDER = str(Verifier("small.example", 4, bytes([1]) + bytes(31)))


def forged_policy(rng: Random) -> bytes:
    """A policy of groups of groups over five witnesses, changed in three cases of four."""
    lines = [f"log {LOG}"] + [f"witness {signer.name[0]} {signer.verifier}" for signer in WITNESSES]
    names, groups = [signer.name[0] for signer in WITNESSES], 0
    if rng.random() < 0.3:
        lines.append(f"witness P {OTHER_TYPE}")
        names.append("P")
    while len(names) > 1 and rng.random() < 0.8:
        members = rng.sample(names, rng.randint(1, len(names)))
        lines.append(f"group G{groups} {rng.choice(['all', 'any', *map(str, range(1, len(members) + 1))])} {' '.join(members)}")
        names = [name for name in names if name not in members] + [f"G{groups}"]
        groups += 1
    lines.append(f"quorum {rng.choice(['none', *names, names[-1], names[-1], names[-1]])}")
    for _ in range(rng.choice([0, 1, 1, 2])):
        _changed(rng, lines)
    content = "\n".join([*lines, ""]).encode("utf-8", "surrogateescape")
    if rng.random() < 0.1:
        content = bytearray(content)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def _changed(rng: Random, lines: list[str]) -> None:
    at, change = rng.randrange(len(lines)), rng.randrange(9)
    if change == 0:
        lines.insert(rng.randrange(len(lines)), lines[at])
    elif change == 1:
        del lines[at]
        lines += [] if lines else ["quorum none"]
    elif change == 2:
        lines[at], lines[0] = lines[0], lines[at]
    elif change == 3:
        lines.insert(
            at, rng.choice(["", " \t", "# \udcff", "#", "\t# x", "quorum none", "\u00a0", "\ufeff", f"witness S {SMALL_ORDER}"])
        )
    elif change == 4:
        words = lines[at].split(" ")
        place = rng.randrange(len(words))
        words[place] = rng.choice(
            ["all", "any", "0", "1", "2", "01", "99999", "100000", "none", "a", "G0", "x\udcff", "", LOG, OTHER_TYPE]
        )
        lines[at] = " ".join(words)
    elif change == 5:
        lines[at] = (
            rng.choice([" ", "\t", "", "x"])
            + lines[at]
            + rng.choice([" ", "\t \t", "\r", "\x0b", "\x7f", " https://é", "\u2028"])
        )
    elif change == 6:
        lines[at] = lines[at].replace(" ", "\t", 1)
    elif change == 7:
        place = rng.randrange(len(lines[at]) + 1)
        lines[at] = lines[at][:place] + rng.choice("+ =aA0\u00a0\u3000\x85/") + lines[at][place + 1 :]
    else:
        lines[at] = lines[at].replace("example", rng.choice(["éxample", "ex\u200bample", "ex\udcffample"]), 1)


def signed_bundle(rng: Random) -> bytes:
    """The bundle with every proof, of which some of the witnesses signed the checkpoint."""
    log = json.loads(CONTENTS["log.json"])
    text = note_text(log["checkpoint"])
    signers = rng.sample(WITNESSES, rng.randint(0, len(WITNESSES)))
    log["checkpoint"] = write_note(text, LOG_KEY.line(text), *(one.line(text, 1_700_000_000) for one in signers))
    return packed(CONTENTS | {"log.json": canonical(log)})


@cache
def _verified() -> Verification:
    return verify(run_of(CONTENTS), CONTENTS["receipts.jsonl"])


def policy_disagreement(policy: bytes, content: bytes, folder: Path, required: tuple[str, ...]) -> str | None:
    """Say how package and file differ over the log of a bundle under a policy, or over reading the policy; or null."""
    (folder / "policy").write_bytes(policy)
    (folder / "run.clv").write_bytes(content)
    try:
        trust = clv_verify.trust_under(folder / "policy")
        result = clv_verify.verify(folder / "run.clv", trust, required)
        file = "none" if "log" in result["without"] else "fail" if result["checks"]["log"] else "pass"
    except clv_verify.InputError:
        file = "refused"
    try:
        check = judge(read_bundle(content), _verified(), Trust.under_policy(policy), required)["log"]
        package = check.verdict.value.replace("not_applicable", "none")
    except BundleError:
        package = "refused"
    return None if package == file else f"the package says {package}, the file {file}: {policy!r}"
