"""Where uploads are kept, and their bounds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Bounds of uploads.

    Attributes
    ----------
    folder
        Where they are kept; nobody else writes there.
    max_packs, max_owner_bytes
        What one owner may keep. An archive that unpacks to more than these bytes is refused.
    max_ticks
        Rows of one pack: runs over it hold them in memory.
    timeout_s, memory_mb
        What the process that verifies an upload may use.
    at_once, at_once_of_owner
        Uploads that are received or verified at a time.
    """

    folder: Path
    max_packs: int = 20
    max_owner_bytes: int = 256 << 20
    max_ticks: int = 5_000_000
    timeout_s: int = 60
    memory_mb: int = 4096
    at_once: int = 8
    at_once_of_owner: int = 2
