"""Parquet files of what was derived, and could be derived again: each is read back only as it was written, for what it was.

A digest stands in a file's own metadata, where whoever reads it elsewhere does not mind it. It is of all bytes of the file,
with zeros in its place, after the name of what they belong to: so another's file, an edit or a damaged disk is found out
before anything is parsed. It is no seal: who can write to the folder can compute it.
"""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path

import polars as pl

from clvlab.errors import FileError
from clvlab.files import file_bytes
from clvlab.proof.canonical import sha256

_KEY = "clvlab.derived.digest"
_BLANK = f"sha256:{'0' * 64}".encode()
_VALUE_AT = len(_KEY) + 2  # Thrift's compact protocol puts a field's type and the length of a short text before it
_MAGIC = b"PAR1"


def derived_file(frame: pl.DataFrame, owner: str) -> bytes:
    """Return a frame as a Parquet file that belongs to an owner."""
    file = BytesIO()
    frame.write_parquet(file, metadata={_KEY: _BLANK.decode()})
    content = file.getvalue()
    start = content.rindex(_KEY.encode()) + _VALUE_AT
    return _filled(content, start, _digest(content, owner))


def read_derived(path: Path, owner: str) -> pl.DataFrame | None:
    """Read a file that belongs to an owner; ``None``, with a warning, where it does not, or is not as it was written.

    Without a warning it is ``None`` too where there is no file, or one from before such files had a digest.
    """
    try:
        content = file_bytes(path)
        key = content.rfind(_KEY.encode())
        if key < 0 and content.startswith(_MAGIC) and content.endswith(_MAGIC):
            return None
        start = key + _VALUE_AT
        stated = content[start : start + len(_BLANK)]
        if key >= 0 and stated == _digest(_filled(content, start, _BLANK), owner):
            return pl.read_parquet(content, hive_partitioning=False)
    except FileNotFoundError:
        return None
    except (OSError, FileError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        pass  # said below: it is derived again
    warnings.warn(f"{str(path)!r} is not as it was written, or belongs to something else: it is computed again", stacklevel=2)
    return None


def _digest(content: bytes, owner: str) -> bytes:
    return sha256(owner.encode() + b"\n" + content).encode()


def _filled(content: bytes, start: int, value: bytes) -> bytes:
    return content[:start] + value + content[start + len(value) :]
