"""``python -m tests.interop [--cases 10000] [--seed 1] [--programs FOLDER]``: clvlab, Go and sigstore judge the same cases.

It exits 1 if two of them disagree, and 2 without Go or sigstore.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import orjson

from tests.interop.build import NoGoError, build
from tests.interop.cases import KINDS, Case, cases


def main() -> int:
    """Make cases, and print the verdicts by kind."""
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description="Judge changed logs by code that is not ours.")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", type=Path, help="folder to build into; a temporary one by default")
    asked = parser.parse_args()
    if find_spec("sigstore") is None:
        sys.stderr.write("sigstore is missing: pip install 'clvlab[interop]'\n")
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        try:
            verifier = build(asked.programs or Path(temporary))["verifier"]
        except NoGoError as error:
            sys.stderr.write(f"{error}\n")
            return 2
        started = time.monotonic()
        made = cases(asked.cases, asked.seed)
        faults, counts = judged(made, verifier)
    for kind in KINDS:
        passed, refused = counts[kind, True], counts[kind, False]
        sys.stdout.write(f"{kind}: {passed} accepted, {refused} refused\n")
    sys.stdout.write(f"sigstore judged {counts['sigstore', True]} of them\n")
    sys.stdout.write(f"{len(faults)} disagreements in {len(made)} cases, {time.monotonic() - started:.1f} s\n")
    for fault in faults[:10]:
        sys.stdout.write(f"{fault}\n")
    return 1 if faults else 0


def judged(made: list[Case], verifier: Path) -> tuple[list[str], Counter[tuple[str, bool]]]:
    """Return the disagreements, and the number of cases of each kind by clvlab's verdict. Go judges all in one process."""
    sent = b"".join(orjson.dumps(case.payload()) + b"\n" for case in made)
    done = subprocess.run([str(verifier), "duel"], input=sent, capture_output=True, check=True, timeout=600)
    said = done.stdout.decode().splitlines()
    if len(said) != len(made):
        raise RuntimeError(f"Go judged {len(said)} of {len(made)} cases: {done.stderr.decode()[:500]}")
    faults, counts = list[str](), Counter[tuple[str, bool]]()
    for number, (case, go) in enumerate(zip(made, said, strict=True)):
        ours, theirs = case.verdict(), case.sigstore_verdict()
        counts[case.kind, ours] += 1
        counts["sigstore", True] += theirs is not None
        if ours != (go == "pass") or theirs not in (None, ours):
            faults.append(f"case {number} ({case.kind}): clvlab {ours}, Go {go}, sigstore {theirs}: {case!r:.2000}")
        if not case.changed and not ours:
            faults.append(f"case {number} ({case.kind}) was not changed, and is refused")
        if ours and case.kind == "note" and not case.sigstore_reads_it_alike():
            faults.append(f"case {number}: sigstore reads another checkpoint: {case.note!r}")
    return faults, counts


if __name__ == "__main__":
    raise SystemExit(main())
