"""``python -m tests.fuzz``: many cases, each named by its seed; exit status 1 if the verifiers differ over one."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.fuzzing import KINDS, cases


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the verifiers over runs, disclosures, transactions and bundles.")
    parser.add_argument("--cases", type=int, default=20_000, help="of all kinds together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, action="append", help="may be repeated; all by default")
    asked = parser.parse_args()
    kinds, differ = asked.kind or list(KINDS), 0
    for kind in kinds:
        started, judged = time.monotonic(), 0
        with tempfile.TemporaryDirectory() as folder:
            for number, fault in enumerate(cases(kind, asked.seed, asked.cases // len(kinds), Path(folder))):
                judged += 1
                if fault:
                    differ += 1
                    sys.stdout.write(f"{kind} seed {asked.seed} case {number}: {fault}\n")
        sys.stdout.write(f"{kind}: {judged:,} cases in {time.monotonic() - started:.0f} s\n")
        sys.stdout.flush()
    sys.stdout.write(f"{differ} differ\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
