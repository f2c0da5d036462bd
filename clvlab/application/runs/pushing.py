"""Putting sealed runs into a bucket, under their ids."""

from __future__ import annotations

from pathlib import Path

from clvlab.application.runs.bundles import verify_bundle
from clvlab.errors import BundleError
from clvlab.files import file_bytes
from clvlab.packs.remote.address import Address
from clvlab.proof.checks import Verdict
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import Verification, verify
from clvlab.store.folder import read_receipts, read_run, read_view, run_files


def push_run(run: SealedRun, url: str, receipts: bytes = b"", view: bytes = b"") -> str:
    """Put the files of a run into ``<url>/<run_id>/``, the manifest last; the same bytes again are fine.

    Returns
    -------
    str
        Where it lies now.

    Raises
    ------
    BundleError
        The run does not verify.
    RemoteConflictError
        Other bytes are there under its id.
    RemoteError
        It can't be written.
    """
    _check(verify(run, receipts))
    files = run_files(run, receipts, view)
    return _put({f"{run.run_id}/{name}": content for name, content in files.items()}, url, run.run_id)


def push_stored(path: Path, url: str) -> str:
    """Put a stored run into a bucket: a run folder as ``push_run`` does, a bundle as ``<url>/<run_id>.clv``.

    Raises
    ------
    BundleError, RemoteConflictError, RemoteError
        As for ``push_run``.
    """
    if not path.is_file():
        return push_run(read_run(path), url, read_receipts(path), read_view(path))
    verification = verify_bundle(path)
    _check(verification)
    name = f"{verification.run_id}.clv"
    return _put({name: file_bytes(path)}, url, name)


def _check(verification: Verification) -> None:
    if not verification.passed:
        wrong = next(check.detail for check in verification.checks.values() if check.verdict == Verdict.FAIL)
        raise BundleError(f"run {verification.run_id} does not verify, nothing of it is pushed: {wrong}")


def _put(files: dict[str, bytes], url: str, name: str) -> str:
    from clvlab.packs.remote.pushing import push_files

    push_files(files, url)
    return str(Address(url).under(name))
