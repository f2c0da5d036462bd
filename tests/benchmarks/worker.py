"""One job in a fresh process: ``python -m tests.benchmarks.worker JOB FOLDER [ARGUMENT ...]`` prints one JSON object."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from tests.benchmarks.jobs import JOBS


def main(name: str, folder: str, *arguments: str) -> None:
    job = JOBS[name](Path(folder), *arguments)
    start = time.perf_counter()
    facts = job()
    seconds = time.perf_counter() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"seconds": seconds, "peak_mb": peak_mb, "facts": facts}))


if __name__ == "__main__":
    main(*sys.argv[1:])
