"""One job in a fresh process: ``python -m tests.benchmarks.worker JOB FOLDER [ARGUMENT ...]`` prints one JSON object."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.jobs import JOBS


def worked(name: str, folder: str, *arguments: str) -> dict[str, Any]:
    """Do a job, and say how long it took and what it found."""
    job = JOBS[name](Path(folder), *arguments)
    start = time.perf_counter()
    facts = job()
    seconds = time.perf_counter() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mb": peak_mb, "facts": facts}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(worked(*sys.argv[1:])))
