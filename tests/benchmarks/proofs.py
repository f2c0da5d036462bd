"""Check of the provider's proofs of a run of many entries, in plain Python: ``python -m tests.benchmarks.proofs``."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from clvlab.proof import clv_verify
from tests.provider import message, proofs_in


def main() -> int:
    """Print the seconds of ``clv_verify.py`` without and with the proofs; 1 if they do not pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clvlab-proofs-") as name:
        run, _, lines = proofs_in(Path(name), [message(number, 7) for number in range(asked.entries)])
        times: dict[str, list[float]] = {"without": [], "with": []}
        for _ in range(asked.rounds):
            for kind, proofs in (("without", None), ("with", lines)):
                start = time.perf_counter()
                result = clv_verify.verify(run, provider_proofs=proofs)
                times[kind].append(time.perf_counter() - start)
                if any(result["checks"].values()):
                    sys.stderr.write(f"{result['checks']}\n")
                    return 1
    states, best = lines.count(b"\n") - 1, {kind: min(found) for kind, found in times.items()}
    seconds = best["with"] - best["without"]
    whole = f"{states:,} proofs of {asked.entries:,} entries in {len(lines):,} bytes"
    print(f"{whole}: {seconds:.3f} s more than the {best['without']:.3f} s of the other checks")
    if asked.json:
        asked.json.write_text(json.dumps({"proofs": states, "seconds": seconds, "ratio": best["with"] / best["without"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
