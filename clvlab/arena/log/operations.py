"""Operations on the run log: checkpoints, proofs, counts, and requests to witnesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from clvlab.api.answer import pick
from clvlab.api.leaderboard import OwnerCounts
from clvlab.base.files import file_bytes, replace_file
from clvlab.errors import BundleError, LogError, MissingExtraError, StoreUnreachableError
from clvlab.log.bundles import LOG_PART, LOG_PART_WITHOUT_CLAIM, log_part, note_text
from clvlab.log.log import LogRows, LogStore, claim, counts, proven
from clvlab.log.note import Checkpoint, Signer, Verifier, checkpoint, open_note, read_signer, write_signer
from clvlab.log.publication import Publication, signed
from clvlab.log.restarts import RestartRecord, restart
from clvlab.log.tree import consistency, tree_root
from clvlab.log.witness import Witness, request
from clvlab.proof.bundle import proof_files, read_bundle
from clvlab.proof.canonical import canonical


@contextmanager
def open_log(place: str | Path, *, create: bool = False) -> Iterator[LogStore]:
    """Open the run log of a store for the duration of the context.

    ``place`` is a file of SQLite, or a URL as in CLVLAB_DATABASE_URL. ``create`` makes a missing file; without ``create`` it
    is an error. A read-only store can also be opened.
    """
    try:
        from clvlab.store.database import Database, database_to_read
        from clvlab.store.runlog import RunLog
        from clvlab.store.url import is_database_url
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    text, is_file = str(place), not is_database_url(str(place))
    if is_file:
        if not create and not Path(text).is_file():
            raise LogError(f"no run log at {text!r}")
        text = f"sqlite:///{quote(text)}"
    try:
        database = Database(text) if create else database_to_read(text)
    except StoreUnreachableError as error:
        if not is_file:  # a URL may hold a password
            raise
        raise StoreUnreachableError(f"the run log {str(place)!r} can't be opened: {error}") from error
    try:
        yield RunLog(database)
    finally:
        database.close()


def new_key(name: str, path: Path, *, witness: bool = False) -> str:
    """Make a key of a log or witness, write it to a file, and return the public part."""
    signer = Signer.new(name, witness=witness)
    write_signer(signer, path)
    return str(signer.verifier)


def signed_checkpoint(log: LogStore, signer: Signer, published: Publication | None = None) -> str:
    """Sign the present state of a log; the key's name is the log's."""
    with (published or Publication()).state(log, partial(signed, signer=signer)) as (_, note):
        return note


def restart_log(
    log: LogStore, notes: Sequence[str], signer: Signer, file: Path | None, ts_ms: int
) -> tuple[RestartRecord, str]:
    """End the origin of these checkpoints. Return the record and the new origin's first checkpoint, also stored in ``file``."""
    with log.write() as rows:
        done = restart(rows, notes, signer, ts_ms)
    return done, signed_checkpoint(log, signer, Publication(file, signer.verifier))


def log_counts(log: LogStore) -> list[OwnerCounts]:
    with log.read() as rows:
        return count_runs(rows)


def count_runs(rows: LogRows) -> list[OwnerCounts]:
    """Count runs like ``log_counts``, within a transaction."""
    counted = counts(rows).items()
    return [pick(OwnerCounts, {**asdict(count), "owner": owner, "open": count.open}) for owner, count in counted]


def witness_request(log: LogStore, note: str, old_size: int) -> str:
    """Return the request to sign a checkpoint, for a witness that has last seen ``old_size`` entries."""
    with log.read() as rows:
        new = _own(rows, note)
        return request(old_size, consistency(rows, old_size, new.size), note)


def cosign(body: str, key: Path, logs: Sequence[str], state: Path, ts_s: int) -> str:
    """Answer a request as a witness with a signature line; ``LogError`` with the reason for a refusal."""
    return Witness(read_signer(key), [Verifier.parse(log) for log in logs], state).cosign(body, ts_s)


def log_proofs(
    log: LogStore, run_id: str, signer: Signer | str, since: str | None = None, published: Publication | None = None
) -> dict[str, Any]:
    """Return part ``log.json`` of a bundle: proofs of a run under a checkpoint that extends the earlier ``since``.

    If the commitment names its pack, the part has unsigned counts of the owner's other runs. ``signer`` is a signed checkpoint,
    or a key that signs one now; ``published`` stores the new one before it is returned.

    Raises
    ------
    LogError
        The checkpoint is not this log's, or the run has no outcome under it.
    """
    published = (published or Publication()) if isinstance(signer, Signer) else Publication()
    sign = partial(signed, signer=signer) if isinstance(signer, Signer) else lambda _: signer
    with published.state(log, sign) as (rows, note):
        size = _own(rows, note).size
        found = proven(rows, run_id, size)
        if len(found) != 2:
            raise LogError(f"run {run_id} has no outcome yet among the first {size} entries of the log")
        proofs = [
            {"entry": entry.entry.decode(), "index": entry.index, "proof": [value.hex() for value in entry.proof]}
            for entry in found
        ]
        claimed = claim(rows, found[0].index, size)
        earlier = None
        if since is not None:
            proof = consistency(rows, _own(rows, since).size, size)
            earlier = {"checkpoint": since, "proof": [value.hex() for value in proof]}
    part = {"checkpoint": note, "commit": proofs[0], "outcome": proofs[1], "earlier": earlier}
    if claimed is None:
        return part | {"schema": LOG_PART_WITHOUT_CLAIM}
    return part | {"schema": LOG_PART, "claim": asdict(claimed)}


def _own(rows: LogRows, note: str) -> Checkpoint:
    """Read a checkpoint of this log; its signatures are judged elsewhere."""
    found = checkpoint(open_note(note)[0])
    if found.size > rows.size() or tree_root(rows, found.size) != found.root:
        raise LogError(f"the checkpoint of {found.origin!r} at {found.size} entries is not of this log")
    return found


def bundle_proofs(content: bytes) -> dict[str, bytes]:
    """Return the proofs of a bundle's commitment and result as ``.tlog-proof`` files, with the entries that they prove."""
    parts = read_bundle(content)
    if "log.json" not in parts:
        raise BundleError("the bundle holds no proofs of a log")
    log = log_part(parts)
    return proof_files(log) | {f"{name}.entry": log[name]["entry"].encode() for name in ("commit", "outcome")}


# Time stamps over checkpoints, of authorities that are asked over HTTP.


_MAX_STAMP_BYTES = 64 << 10
_TIMEOUT_S = 20.0


def add_stamps(note: str, authorities: Sequence[str], place: Path) -> list[tuple[datetime, str]]:
    """Have each authority, a URL, stamp the text of a signed checkpoint; add the stamps to a file, and return their times.

    Raises
    ------
    LogError
        The note is no checkpoint, or an authority gives no stamp of it.
    """
    from clvlab.log.stamps import part_of, query, read_part, stamp_of, time_of

    text = note_text(note)
    checkpoint(text)
    stamps, certificates = read_part(file_bytes(place)) if place.exists() else ([], [])
    found = []
    for url in authorities:
        request, nonce = query(text)
        stamp, chain = stamp_of(_answer(url, request), text, nonce)
        stamps, certificates = [*stamps, stamp], [*certificates, *chain]
        found.append((time_of(stamp), url))
    replace_file(place, canonical(part_of(stamps, certificates)))
    return found


def _answer(url: str, request: bytes) -> bytes:
    try:
        import httpx2
    except ImportError as error:
        raise MissingExtraError("client", error.name) from error
    try:
        headers = {"Content-Type": "application/timestamp-query"}
        with httpx2.stream("POST", url, content=request, headers=headers, timeout=_TIMEOUT_S) as response:
            response.raise_for_status()
            content = b""
            for piece in response.iter_bytes():
                content += piece
                if len(content) > _MAX_STAMP_BYTES:
                    raise LogError(f"{url} answers with more than {_MAX_STAMP_BYTES:,} bytes")
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise LogError(f"the authority {url} gives no answer: {error}") from error
    return content
