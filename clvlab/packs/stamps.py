"""Stamps of files: what tells, without reading them, that they are as they were."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

_MOMENT_NS = 2_000_000_000  # coarser than any file system's clock

Stamps = tuple[tuple[int, ...], ...]


def stamps_of(paths: Sequence[Path]) -> Stamps | None:
    """Return what tells whether files were written or replaced; null where one may have been a moment ago, or can't be seen.

    A change moves a file's ``ctime``, which can't be set back. Two changes in one moment give one ``ctime``: a young one says
    nothing.
    """
    try:
        found = [path.stat() for path in paths]
    except OSError:  # whoever opens it says what is wrong
        return None
    if time.time_ns() - max(one.st_ctime_ns for one in found) < _MOMENT_NS:
        return None
    return tuple((one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in found)
