"""How much memory a process and its children hold."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

__all__ = ["sampled"]


@contextmanager
def sampled() -> Iterator[list[float]]:
    """Sample, a few times a second, what this process and its children hold of their own (RssAnon), in MB."""
    here, over = psutil.Process(), threading.Event()
    found = [_anonymous_mb(here)]

    def sample() -> None:
        while not over.wait(0.2):
            found.append(sum(map(_anonymous_mb, [here, *here.children(recursive=True)])))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def _anonymous_mb(process: psutil.Process) -> float:
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except OSError:  # it ended meanwhile
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024
