"""Decisions as bytes: the number of rows, the length of each column's buffers, and the buffers as Arrow lays them out.

An Arrow stream states its own compression and repetition: a hundred kilobytes of it filled three gigabytes. These bytes take
only the memory that they have.
"""

from __future__ import annotations

import struct
from itertools import accumulate

import polars as pl
import pyarrow as pa

from clvlab.law.actions import MAX_NAME_BYTES, MAX_REASON_BYTES
from clvlab.law.schema import DECISIONS
from clvlab.law.tape import Tape

MAX_BYTES = 1 << 30
MAX_AT_MESSAGE = 10_000  # decisions at one message, and what agents may decide over a tape of few messages
_SCHEMA = pl.DataFrame(schema=DECISIONS).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
_BUFFERS = [3 if pa.types.is_large_string(field.type) else 2 for field in _SCHEMA]  # which are null, offsets, values
_HEAD = struct.Struct(f"<q{sum(_BUFFERS)}q")
_ABSENT = -1
_ROW_BYTES = 128 + 4 * MAX_NAME_BYTES + MAX_REASON_BYTES  # of a decision whose texts are as long as they may be
_SLACK_BYTES = 1 << 16  # so that the law can name a text that is too long


def most_decisions(tape: Tape) -> int:
    """Return the limit of decisions over a tape: at each message one WAIT and each of its sides, and some to spare."""
    return 2 * tape.rows.height + MAX_AT_MESSAGE


def most_bytes(rows: int) -> int:
    return min(MAX_BYTES, _HEAD.size + rows * _ROW_BYTES + _SLACK_BYTES)


def columns(decisions: pl.DataFrame) -> bytes:
    table = decisions.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks()
    arrays = [pa.concat_arrays([*column.chunks, pa.nulls(0, column.type)]) for column in table.columns]  # from row 0 on
    parts = [part for array in arrays for part in array.buffers()]
    sizes = [_ABSENT if part is None else part.size for part in parts]
    return b"".join([_HEAD.pack(table.num_rows, *sizes), *(part for part in parts if part is not None)])


def frame_in(data: bytes, most: int) -> pl.DataFrame:
    """Read at most ``most`` ``DECISIONS``, with offsets and texts validated; ``ValueError`` before any are made."""
    if len(data) < _HEAD.size:
        raise ValueError(f"{len(data)} bytes are less than a head")
    rows, *sizes = _HEAD.unpack_from(data)
    taken = [max(0, size) for size in sizes]
    ends = list(accumulate(taken, initial=_HEAD.size))
    if rows < 0 or min(sizes) < _ABSENT or ends[-1] != len(data):
        raise ValueError(f"the head tells of {rows} rows in {ends[-1]} bytes, and there are {len(data)}")
    if rows > most:
        raise ValueError(f"{rows:,} decisions, and at most {most:,} are read")
    if len(data) > most_bytes(rows):
        raise ValueError(f"{len(data):,} bytes are more than {rows:,} decisions can have, at most {most_bytes(rows):,}")
    whole = pa.py_buffer(data)
    parts = [None if size == _ABSENT else whole.slice(start, size) for start, size in zip(ends[:-1], sizes, strict=True)]
    firsts = accumulate(_BUFFERS, initial=0)
    arrays = []
    for field, first, count in zip(_SCHEMA, firsts, _BUFFERS, strict=False):
        nulls, *others = parts[first : first + count]
        array = pa.Array.from_buffers(
            field.type, rows, [nulls, *(whole.slice(0, 0) if part is None else part for part in others)]
        )
        array.validate(full=True)
        arrays.append(array)
    return pl.DataFrame(pa.Table.from_arrays(arrays, schema=_SCHEMA))
