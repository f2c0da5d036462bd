"""Uploads in progress: a limited number at a time, each written to disk as it arrives."""

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

# Folder and limits of uploads.


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Limits of uploads."""

    folder: Path  # folder of uploads, to which no other program writes
    # max_packs, max_owner_bytes: packs and bytes of one owner. An archive that unpacks to more bytes is refused
    max_packs: int = 20
    max_owner_bytes: int = 256 << 20
    max_ticks: int = 5_000_000  # rows of one pack: runs over it hold them in memory
    # timeout_s, memory_mb: limits of the process that verifies an upload
    timeout_s: int = 60
    memory_mb: int = 4096
    # at_once, at_once_of_owner: uploads that are received or verified at a time
    at_once: int = 8
    at_once_of_owner: int = 2


_RETRY_S = 5


class Places:
    def __init__(self, limits: UploadLimits) -> None:
        self._limits, self._lock = limits, Lock()
        self._taken: Counter[str] = Counter()

    def require(self, owner: str) -> None:
        """Raise ``BusyError`` if all places are taken."""
        with self._lock:
            self._require(owner)

    def _require(self, owner: str) -> None:
        if self._taken.total() >= self._limits.at_once or self._taken[owner] >= self._limits.at_once_of_owner:
            raise BusyError(_RETRY_S)

    def take(self, owner: str) -> None:
        """Take a place; ``BusyError`` if all are taken."""
        with self._lock:
            self._require(owner)
            self._taken[owner] += 1

    def free(self, owner: str) -> None:
        with self._lock:
            self._taken[owner] -= 1
            self._taken += Counter()  # drops owners without uploads


class IncomingUpload:
    """An upload that is being received; it is written, and then handed over once or discarded.

    Raises
    ------
    BusyError
        The limit of concurrent uploads is reached, for all or for the owner.
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
            target = self.path / "given" / request.stored_name
            target.parent.mkdir()
            target.touch(0o600, exist_ok=False)
            self._file = target.open("wb")
            undone.pop_all()

    def write(self, chunk: bytes) -> None:
        """Append a chunk; ``StoreFullError`` if the disk is full."""
        try:
            self._file.write(chunk)
            self._file.flush()
        except OSError as error:
            raise StoreFullError(f"an upload can't be written: {error.strerror}") from error

    def finished(self) -> Path:
        """Close the received file and return its path; ``StoreFullError`` if the disk is full."""
        try:
            self._file.close()
        except OSError as error:
            raise StoreFullError(f"an upload can't be written: {error.strerror}") from error
        return Path(self._file.name)

    @contextmanager
    def handed_over(self) -> Iterator[None]:
        """Take the upload over from its receiver; at the end all files that were not moved away are removed.

        Raises
        ------
        UploadRefusedError
            The upload was discarded.
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
        """Remove the upload, unless it was handed over."""
        with self._lock:
            if self._handed_over:
                return
            self._handed_over = True
        self._close()

    def _close(self) -> None:
        with suppress(OSError):  # the disk is full, which an earlier write has reported
            self._file.close()
        self._folder.close()
        self._places.free(self.owner)
