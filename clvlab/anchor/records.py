"""Records of anchors and of their signed transactions. A record is written before a transaction is sent."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from clvlab.base.files import MAX_KEYS_BYTES, file_bytes_or_none, lock, replace_file
from clvlab.errors import AnchorConflictError, AnchorError, EvidenceError
from clvlab.proof.anchor import Anchor, AnchorStatus
from clvlab.proof.canonical import JsonObject, canonical, parsed

ANCHOR_FILE = "anchor.json"
_SCHEMA = "clvlab-anchor/1"


@dataclass(frozen=True, slots=True)
class AnchorAttempt:
    """A signed transaction: its signature, the last block that may include it, and its bytes in base64."""

    signature: str
    last_valid_block_height: int
    transaction: str


@dataclass(frozen=True, slots=True)
class AnchorRecord:
    """The anchor of a run, with every transaction signed for it. ``transaction`` is the one on the chain, in base64."""

    run_id: str
    manifest_hash: str
    cluster: str
    genesis_hash: str
    signer: str
    status: str = AnchorStatus.PENDING.value
    signature: str | None = None
    explorer_url: str | None = None
    transaction: str | None = None
    detail: str | None = None
    attempts: tuple[AnchorAttempt, ...] = ()

    def anchor(self) -> Anchor:
        return Anchor(self.status, self.signature, self.cluster, self.explorer_url)

    def with_attempt(self, attempt: AnchorAttempt) -> AnchorRecord:
        return replace(self, attempts=(*self.attempts, attempt))

    def payload(self) -> JsonObject:
        return {"schema": _SCHEMA, **asdict(self)}

    @classmethod
    def from_payload(cls, payload: Any) -> AnchorRecord:
        """Return the record of a payload.

        Raises
        ------
        AnchorError
            The payload is not a record of this schema.
        """
        try:
            values = dict(payload)
            if values.pop("schema") != _SCHEMA:
                raise ValueError("another schema")
            attempts = tuple(AnchorAttempt(**attempt) for attempt in values.pop("attempts"))
            record = cls(**values, attempts=attempts)
            AnchorStatus(record.status)
        except (TypeError, ValueError, KeyError) as error:
            raise AnchorError(f"no anchor record of {_SCHEMA}: {error}") from error
        return record


class AnchorRecords(Protocol):
    """A store of records. ``put`` compares and swaps, so that two processes never both sign."""

    def get(self, run_id: str) -> AnchorRecord | None: ...

    def put(self, record: AnchorRecord, *, replaces: AnchorRecord | None) -> None:
        """Store a record durably if the stored one is ``replaces``; else raise ``AnchorConflictError``."""
        ...


class FolderRecords:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, run_id: str) -> AnchorRecord | None:
        path = self._folder / ANCHOR_FILE
        content = file_bytes_or_none(path, MAX_KEYS_BYTES)
        if content is None:
            return None
        try:
            record = AnchorRecord.from_payload(parsed(content))
        except EvidenceError as error:
            raise AnchorError(f"{path} is not an anchor record: {error}") from error
        if record.run_id != run_id:
            raise AnchorError(f"{path} is the record of {record.run_id}, not of {run_id}")
        return record

    def put(self, record: AnchorRecord, *, replaces: AnchorRecord | None) -> None:
        with lock(self._folder):
            _expect(self.get(record.run_id), replaces, record.run_id)
            replace_file(self._folder / ANCHOR_FILE, canonical(record.payload()))


def _expect(stored: AnchorRecord | None, replaces: AnchorRecord | None, run_id: str) -> None:
    if stored != replaces:
        raise AnchorConflictError(f"the anchor of {run_id} was changed by another process; look again before trying again")
