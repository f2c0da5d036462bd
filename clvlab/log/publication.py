"""The newest published checkpoint of a log, kept outside its database, and the limits of a log that lacks it.

A checkpoint is in the file before it is published. So the file has every checkpoint that others may know, even after a
backup was restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from clvlab.base.files import file_bytes_or_none, is_writable, lock, replace_file
from clvlab.errors import EvidenceError, FileError, FileLockedError, LogBehindError, LogError
from clvlab.log.log import LogRows, LogStore
from clvlab.log.note import Checkpoint, Signer, Verifier, checkpoint, open_note, write_note
from clvlab.log.restarts import fault, require_key
from clvlab.log.tree import tree_root
from clvlab.proof.canonical import parsed

_MAX_BYTES = 1 << 20
_LOCK_S = 5.0
_NEXT = "nothing is appended and no checkpoint signed until this is fixed, or the operator runs 'clvlab log restart'"


def notes_of(content: bytes) -> list[str]:
    if not content.startswith(b"{"):
        return [content.decode(errors="replace")]
    try:
        notes = parsed(content)["checkpoints"]
        return [note for note in notes if "\n\n" in note]  # an older witness stored them without signatures
    except (EvidenceError, KeyError, TypeError) as error:
        raise LogError(f"neither a checkpoint nor the state of a witness: {error!r}") from error


@dataclass
class Publication:
    """Published state of a log, as known outside its database.

    ``file`` holds the newest checkpoint. Without a file, only checkpoints from ``hear`` count. ``key`` is for a log that was
    never restarted.
    """

    file: Path | None = None
    key: Verifier | None = None
    cosigned: str | None = field(default=None, init=False)  # the newest checkpoint that witnesses were asked to cosign
    _heard: str | None = field(default=None, init=False)
    _fitting: tuple[list[str], int] = field(default=([], 0), init=False)  # notes that fit, and the size that they need

    def hear(self, notes: Sequence[str]) -> None:
        """Add checkpoints from elsewhere. Only checkpoints that the log's key signed count."""
        own = [note for note in notes if self.key is not None and self.key in open_note(note, self.key)[1]]
        known = [] if self._heard is None else [self._heard]
        self._heard = max([*known, *own], key=lambda note: checkpoint(open_note(note)[0]).size, default=None)

    def is_cosigned(self, note: str) -> bool:
        """Whether witnesses were asked about exactly this state."""
        return self.cosigned is not None and open_note(self.cosigned)[0] == open_note(note)[0]

    def require(self, log: LogStore) -> None:
        """Raise ``LogBehindError`` unless a log has all its published entries."""
        notes = self._notes()  # read first, because another process may publish more after the log was read
        if notes:
            with log.read() as rows:
                self._require(rows, notes)

    def guard(self, rows: LogRows) -> None:
        """Raise ``LogBehindError`` unless rows in a writing transaction have all published entries."""
        self._require(rows, self._notes())

    def is_behind(self, rows: LogRows) -> bool:
        """Whether rows lack published entries, so that nothing is appended to them."""
        try:
            self.guard(rows)
        except LogError:
            return True
        return False

    def is_storable(self) -> bool | None:
        """Whether the next checkpoint can be stored; ``None`` without a file."""
        if self.file is None:
            return None
        try:
            self._kept()
            with lock(self.file.parent, patience_s=0):
                return is_writable(self.file.parent)
        except FileLockedError:  # another process is storing one
            return is_writable(self.file.parent)
        except (LogBehindError, OSError):
            return False

    @contextmanager
    def state(self, log: LogStore, sign: Callable[[LogRows], str]) -> Iterator[tuple[LogRows, str]]:
        """Yield a state of a log and its signed checkpoint. The file has the checkpoint by then, and never an older one."""
        with self._alone(), log.read() as rows:
            self.guard(rows)
            note = sign(rows)
            if self.cosigned is not None and self.is_cosigned(note):
                note = self.cosigned
            if self.file is not None and self._kept() != note.encode():
                _keep(self.file, note)
            yield rows, note

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with ExitStack() as held:
            if self.file is not None:
                try:
                    held.enter_context(lock(self.file.parent, _LOCK_S))
                except OSError as error:
                    raise _unpublished(error) from error
            yield

    def _kept(self) -> bytes | None:
        try:
            return None if self.file is None else file_bytes_or_none(self.file, _MAX_BYTES)
        except (FileError, OSError) as error:
            raise LogBehindError(f"the file of the newest published checkpoint {_unusable(error)}; {_NEXT}") from error

    def _notes(self) -> list[str]:
        heard, kept = [] if self._heard is None else [self._heard], self._kept()
        return heard if kept is None else [kept.decode(errors="replace"), *heard]

    def _require(self, rows: LogRows, notes: list[str]) -> None:
        if not notes or (self._fitting[0] == notes and rows.size() >= self._fitting[1]):
            return
        for note in notes:
            reason = fault(rows, note, self.key)
            if reason is not None:
                raise LogBehindError(f"{reason}; {_NEXT}")
        self._fitting = (notes, rows.size())


def _keep(file: Path, note: str) -> None:
    try:
        replace_file(file, note.encode())
    except OSError as error:
        raise _unpublished(error) from error


def _unpublished(error: OSError) -> LogBehindError:
    return LogBehindError(f"no checkpoint is published: the file of the newest one {_unusable(error)}")


def _unusable(error: FileError | OSError) -> str:
    """Return the reason without a path, which a service must not show to its users."""
    return f"can't be used: {error.strerror}" if isinstance(error, OSError) else "is no file, or too large"


def signed(rows: LogRows, signer: Signer) -> str:
    """Return the signed checkpoint of a log in a transaction; ``LogKeyError`` if the log continues under another key."""
    require_key(rows, signer.verifier)
    size = rows.size()
    text = Checkpoint(signer.name, size, tree_root(rows, size)).text
    return write_note(text, signer.line(text))
