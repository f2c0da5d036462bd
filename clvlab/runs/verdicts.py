"""A reader's own records of verifications, next to the runs.

A record saves a reader the memory of what was verified. It proves nothing: evidence, bundles and uploads never hold one, and a
record that came with a copied folder does not count.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import orjson

from clvlab.anchor.records import ANCHOR_FILE
from clvlab.base.files import MAX_KEYS_BYTES, file_bytes, replace_file
from clvlab.errors import FileError
from clvlab.store.folder import SEALED_FILES, UNSEALED_FILES

if TYPE_CHECKING:  # imported where it is used, so that a list of runs waits for nothing else
    from clvlab.proof.checks import Check
    from clvlab.proof.verify import Verification

_FOLDER = ".verdicts"
_UNKEPT = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.ENAMETOOLONG)
_SCHEMA = "clvlab-verdict/1"


@dataclass(frozen=True, slots=True)
class VerdictRecord:
    """The result of an earlier verification.

    Attributes
    ----------
    passed
        Whether the run was verified: the seal was intact, and no check failed.
    failed
        Names of failed checks.
    when
        Time of the verification.
    by
        Versions that judged, as ``clvlab.runs.versions.judge`` returns them; for a service its address.
    is_current
        Whether the run has the same bytes now.
    """

    passed: bool
    failed: tuple[str, ...]
    when: datetime
    by: Mapping[str, str]
    is_current: bool = True

    @property
    def word(self) -> str:
        """The record in a word: ``yes``, ``NO`` or ``changed since``."""
        return ("yes" if self.passed else "NO") if self.is_current else "changed since"

    def facts(self) -> Mapping[str, object]:
        """Return the record as JSON values."""
        when = self.when.isoformat(timespec="seconds")
        named = {"passed": self.passed, "failed": list(self.failed), "when": when, "by": dict(self.by)}
        return named | {"same_bytes": self.is_current}


def word_of(record: VerdictRecord | None) -> str:
    """Return a record in a word, ``not yet`` without one."""
    return "not yet" if record is None else record.word


@dataclass(frozen=True)
class VerdictRecords:
    """Records by the name of a run, in a folder, or in memory without one."""

    folder: Path | None = None
    _held: dict[str, bytes] = field(default_factory=dict, repr=False)

    def keep(self, name: str, digest: str, failed: Sequence[str], by: Mapping[str, str], *, passed: bool) -> VerdictRecord:
        """Record a verification of the bytes of a digest; the newest record of a run replaces the one before."""
        when_ms = time.time_ns() // 1_000_000
        if self.folder is not None:
            if self.folder.is_symlink():  # it came with runs of others, and would lead the record over a file elsewhere
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self.folder))
            self.folder.mkdir(exist_ok=True)
        stated = {"schema": _SCHEMA, "bytes": digest, "place": self._place(), "passed": passed, "failed": list(failed)}
        content = orjson.dumps(stated | {"when_ms": when_ms, "by": dict(by)}, option=orjson.OPT_INDENT_2)
        if self.folder is None:
            self._held[name] = content
        else:
            replace_file(self.folder / f"{name}.json", content)
        return VerdictRecord(passed, tuple(failed), datetime.fromtimestamp(when_ms / 1000, UTC), by)

    def get(self, name: str, digest: Callable[[], str]) -> VerdictRecord | None:
        """Return the record of a run whose bytes have a digest now; `None` without one of this reader."""
        try:
            stated = orjson.loads(self._held[name] if self.folder is None else _own_bytes(self.folder / f"{name}.json"))
            if stated["schema"] != _SCHEMA or stated["place"] != self._place():
                return None
            when = datetime.fromtimestamp(stated["when_ms"] / 1000, UTC)
            by = {str(key): str(value) for key, value in stated["by"].items()}
            failed = tuple(map(str, stated["failed"]))
            return VerdictRecord(stated["passed"] is True, failed, when, by, stated["bytes"] == digest())
        except (AttributeError, FileError, KeyError, OSError, OverflowError, TypeError, ValueError):
            return None  # not a record that this reader wrote, so nothing was verified; or the run can't be read

    def _place(self) -> int:
        """Return a number of the folder that copies and archives of it do not have."""
        return 0 if self.folder is None else self.folder.stat().st_ino


def _own_bytes(path: Path) -> bytes:
    """Read a record; ``FileError`` for one of another user, or behind a link that came with runs of others."""
    if path.parent.is_symlink() or path.lstat().st_uid != getattr(os, "geteuid", lambda: 0)():
        raise FileError(f"{str(path)!r} is no record of this user")
    return file_bytes(path, MAX_KEYS_BYTES)


def records_around(run: Path) -> VerdictRecords:
    """Return the records in the folder around a run folder."""
    return VerdictRecords(run.resolve().parent / _FOLDER)


def digest_of(contents: Mapping[str, bytes]) -> str:
    """Return one digest of all bytes that a verification reads, by the names of their files."""
    whole = hashlib.sha256()
    for name, content in sorted(contents.items()):
        whole.update(f"{hashlib.sha256(content).hexdigest()}  {name}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def folder_contents(run: Path, read: Mapping[str, bytes] = MappingProxyType({})) -> dict[str, bytes]:
    """Return the sealed files, receipts, view and anchor record of a run folder, those in ``read`` as they were read."""
    names = [name for name in (*SEALED_FILES, *UNSEALED_FILES, ANCHOR_FILE) if (run / name).is_file()]
    return {name: read[name] if name in read else file_bytes(run / name) for name in names}


def folder_digest(run: Path) -> str:
    """Return the digest of the files that a run folder has now."""
    return digest_of(folder_contents(run))


def kept_verdict(run: Path) -> VerdictRecord | None:
    """Return the reader's record of a run folder; `None` without one."""
    return records_around(run).get(run.resolve().name, lambda: folder_digest(run))


def keep_verdict(run: Path, digest: str, failed: Sequence[str], *, passed: bool) -> VerdictRecord | None:
    """Record a verification of a run folder, whose bytes had a digest before it.

    Returns `None`, and records nothing, where no record can be written next to the run, or if the bytes changed meanwhile.
    """
    from clvlab.runs.versions import judge

    if folder_digest(run) != digest:
        return None
    try:
        return records_around(run).keep(run.resolve().name, digest, failed, judge(), passed=passed)
    except OSError as error:
        if error.errno in _UNKEPT:
            return None
        raise


def keeper(run: Path, read: Mapping[str, bytes] = MappingProxyType({})) -> Callable[[Verification], VerdictRecord | None]:
    """Return a function that records a verification of what a run folder has now, or had when its files were ``read``."""
    return partial(_keep, run, folder_contents(run, read))


def _keep(run: Path, contents: Mapping[str, bytes], found: Verification) -> VerdictRecord | None:
    return keep_verdict(run, digest_of(contents), failed_checks(found.checks), passed=found.passed)


def failed_checks(checks: Mapping[str, Check]) -> list[str]:
    """Return the names of failed checks."""
    return [name for name, check in checks.items() if check.verdict == "fail"]
