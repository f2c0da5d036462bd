"""Uploads on their way: so many at a time, each written to disk as it comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from clvlab.arena.uploads.requests import UploadRequest
from clvlab.base.files import StagingPath
from clvlab.errors import BusyError, StoreFullError, UploadRefusedError

# Where uploads are kept, and their bounds.


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


_RETRY_S = 5


class Places:
    """Counts the uploads that are under way in this process."""

    def __init__(self, limits: UploadLimits) -> None:
        self._limits, self._lock = limits, Lock()
        self._taken: Counter[str] = Counter()

    def take(self, owner: str) -> None:
        """Take a place.

        Raises
        ------
        BusyError
        """
        with self._lock:
            if self._taken.total() >= self._limits.at_once or self._taken[owner] >= self._limits.at_once_of_owner:
                raise BusyError(_RETRY_S)
            self._taken[owner] += 1

    def free(self, owner: str) -> None:
        """Free a place that was taken."""
        with self._lock:
            self._taken[owner] -= 1
            self._taken += Counter()  # drops those who have none


class Incoming:
    """An upload that is being received: written to, then handed over once, or discarded.

    Raises
    ------
    BusyError
        As many are under way as may be, or as the owner may have.
    """

    def __init__(self, owner: str, request: UploadRequest, limits: UploadLimits, places: Places) -> None:
        self.owner, self.request = owner, request
        self._places, self._lock, self._handed_over = places, Lock(), False
        places.take(owner)
        with ExitStack() as undone:
            undone.callback(places.free, owner)
            self._folder = StagingPath(limits.folder)
            undone.callback(self._folder.close)
            self.path = self._folder.path
            given = self.path / "given" / request.given_name
            given.parent.mkdir()
            self._file = given.open("xb")
            undone.pop_all()

    def write(self, chunk: bytes) -> None:
        """Add to what was received.

        Raises
        ------
        StoreFullError
            The disk is full.
        """
        try:
            self._file.write(chunk)
            self._file.flush()
        except OSError as error:
            raise StoreFullError(f"an upload can't be written: {error.strerror}") from error

    @contextmanager
    def handed_over(self) -> Iterator[None]:
        """Take it over from whoever received it: when this is left, nothing of it is on disk but what was moved away.

        Raises
        ------
        UploadRefusedError
            It was discarded.
        """
        with self._lock:
            if self._handed_over:
                raise UploadRefusedError("the upload was broken off")
            self._handed_over = True
        try:
            self._file.close()
            yield
        finally:
            self._close()

    def discard(self) -> None:
        """Remove it, unless it was handed over."""
        with self._lock:
            if self._handed_over:
                return
            self._handed_over = True
        self._close()

    def _close(self) -> None:
        with suppress(OSError):  # of a full disk, which was said when it was written to
            self._file.close()
        self._folder.close()
        self._places.free(self.owner)
