"""Parquet files of whole fixtures, some together in a row group, written as they come."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_ROWS_PER_GROUP = 65_536


class GroupedParquet:
    """A file to which fixtures are added in order; small ones share a row group.

    Parameters
    ----------
    path
        Where the file will stand.
    schema
        Of all tables that will be added.
    repeated
        Columns of few values, which are stored as numbers of them.
    """

    def __init__(self, path: Path, schema: pa.Schema, repeated: Sequence[str]) -> None:
        self._file = pq.ParquetWriter(path, schema, compression="zstd", compression_level=9, use_dictionary=list(repeated))
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._empty = True

    def add(self, table: pa.Table, sizes: Sequence[int]) -> None:
        """Add neighbouring fixtures, with the number of rows of each."""
        start = 0
        for size in sizes:
            if self._pending and self._pending_rows + size > _ROWS_PER_GROUP:
                self._flush()
            self._pending.append(table.slice(start, size))
            self._pending_rows += size
            start += size

    def finish(self) -> None:
        """Write what is left; a file without rows has one row group all the same."""
        self._flush()
        if self._empty:
            self._file.write_table(pa.Table.from_batches([], self._file.schema))
        self.close()

    def close(self) -> None:
        """Let go of the file, finished or not."""
        self._file.close()

    def _flush(self) -> None:
        if self._pending:
            group = pa.concat_tables(self._pending).combine_chunks()
            self._file.write_table(group, row_group_size=group.num_rows)
            self._pending, self._pending_rows, self._empty = [], 0, False
