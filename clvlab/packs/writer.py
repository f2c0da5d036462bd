"""Writing packs: sorted, checked, hashed, and put in place in one step or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from clvlab.base.files import StagingPath, flush, flush_all
from clvlab.base.progress import report
from clvlab.errors import PackFormatError
from clvlab.law.schema import BOOK_ROWS, FIXTURES, TICKS
from clvlab.law.tape import Tape
from clvlab.packs import invariants
from clvlab.packs.books import STREAM, book_digests, check_books, sorted_books
from clvlab.packs.files import content_digest, file_sha256, fixture_digests
from clvlab.packs.ladders import LADDER, LADDERS, LEVEL_COUNT, check_ladders, ladder_digests, sorted_ladders
from clvlab.packs.manifest import (
    BOOKS_FILE,
    DATA_FILES,
    DESCRIPTOR,
    LADDERS_FILE,
    PROOFS_FILE,
    QUALITY_FILE,
    TICKS_FILE,
    Fixture,
    PackManifest,
    Raw,
    descriptor,
)
from clvlab.packs.quality import Quality
from clvlab.packs.rows import RESULTS_FILE, results_digest, sorted_results

# Parquet files of whole fixtures, written as they come; several fixtures may share a row group.


_ROWS_PER_GROUP = 65_536


class GroupedParquet:
    """A file to which fixtures are added in order; small ones share a row group.

    All tables have ``schema``; columns in ``repeated`` have few values and are stored as dictionaries. ``effort`` is the
    level of compression.
    """

    def __init__(self, path: Path, schema: pa.Schema, repeated: Sequence[str], effort: int) -> None:
        self._file = pq.ParquetWriter(path, schema, compression="zstd", compression_level=effort, use_dictionary=list(repeated))
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._empty = True

    def add(self, table: pa.Table, sizes: Sequence[int]) -> None:
        """Add neighbouring fixtures; ``sizes`` are the rows of each."""
        start = 0
        for size in sizes:
            if self._pending and self._pending_rows + size > _ROWS_PER_GROUP:
                self._flush()
            self._pending.append(table.slice(start, size))
            self._pending_rows += size
            start += size

    def finish(self) -> None:
        """Write the remaining rows; a file without rows still gets one row group."""
        self._flush()
        if self._empty:
            self._file.write_table(pa.Table.from_batches([], self._file.schema))
        self.close()

    def close(self) -> None:
        self._file.close()

    def _flush(self) -> None:
        if self._pending:
            group = pa.concat_tables(self._pending).combine_chunks()
            self._file.write_table(group, row_group_size=group.num_rows)
            self._pending, self._pending_rows, self._empty = [], 0, False


_EFFORT, _LADDER_EFFORT = 9, 3  # ladders have many rows: a third of the time, and a seventh more bytes
_REPEATED = ["market_key", "side", "fixture_id", "series", "prob_bps", "odds_milli"]
_COLUMNS = (
    "fixture_id", "series", "tick_seq", "ts_ms", "in_running", "market_key", "side", "prob_bps", "odds_milli", "suspended",
)  # fmt: skip


def write_pack(
    ticks: pl.DataFrame,
    manifest: PackManifest,
    folder: Path,
    raw: Mapping[str, Path] = MappingProxyType({}),
    results: pl.DataFrame | None = None,
    books: pl.DataFrame | None = None,
    ladders: pl.DataFrame | None = None,
) -> PackManifest:
    """Write a pack of ticks in memory at a new ``folder``, and return its manifest as written; a failure leaves nothing there.

    ``ticks`` is ``TICKS``, ``books`` is ``BOOKS`` and ``ladders`` is ``LADDERS``, in any row order. Rows, digests and file
    hashes of ``manifest`` are filled in. ``raw`` has files of the provider's messages by their name in ``raw/``.

    Raises
    ------
    PackFormatError
        The folder exists, or the ticks break a rule of the format.
    """
    with PackWriter(folder, manifest.fixtures) as writer:
        writer.add(Tape.from_ticks(ticks, writer.kickoffs, closing_policy=manifest.closing_policy), books, ladders)
        return writer.finish(manifest, raw, results)


class PackWriter:
    """Writes a pack some fixtures at a time, to bound memory.

    Leaving the ``with`` block before ``finish`` leaves nothing on disk. ``kickoffs`` is ``FIXTURES`` of all fixtures;
    ``files`` are the tables that were begun, by name.
    """

    def __init__(self, folder: Path, fixtures: Sequence[Fixture]) -> None:
        if folder.exists() or folder.is_symlink():
            raise PackFormatError(f"{str(folder)!r} exists; a pack is never overwritten")
        self.kickoffs = pl.DataFrame([(f.fixture_id, f.kickoff_ts_ms) for f in fixtures], schema=FIXTURES, orient="row")
        self._folder = folder
        self._declared = {fixture.fixture_id: fixture for fixture in fixtures}
        self._written: dict[int, Fixture] = {}
        self.files: dict[str, GroupedParquet] = {}
        self._books: set[str] = set()

    def __enter__(self) -> PackWriter:
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        self._held = StagingPath(self._folder.parent, 0o777)
        self._unfinished = self._held.path
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for file in self.files.values():
            file.close()
        self._held.close()

    def add(self, tape: Tape, books: pl.DataFrame | None = None, ladders: pl.DataFrame | None = None) -> None:
        """Check, digest and write the ticks of the next fixtures, and ``BOOKS`` and ``LADDERS`` of the same fixtures if kept.

        Raises
        ------
        PackFormatError
            The ticks are of an undeclared fixture, out of order, or break a rule of the format.
        """
        found = tape.series["fixture_id"].unique(maintain_order=True)
        strays = [number for number in found if number not in self._declared]
        if strays:
            raise PackFormatError(f"ticks of fixture {strays[0]}, which the manifest does not declare")
        last = next(reversed(self._written), None)  # they were written in order
        if len(found) and last is not None and found[0] <= last:
            raise PackFormatError(f"fixture {found[0]} comes after fixture {last}")
        invariants.check(tape)
        digests = fixture_digests(tape)
        sizes = dict(tape.series.group_by("fixture_id", maintain_order=True).agg(pl.col("rows").sum()).iter_rows())
        for number in found:
            update = {"rows": sizes[number], "digest": digests[number]}
            self._written[number] = self._declared[number].model_copy(update=update)
        self._file(TICKS_FILE, table := _table(tape), _REPEATED).add(table, list(sizes.values()))
        if books is not None and not books.is_empty():
            self._add_books(sorted_books(books), tape)
        if ladders is not None and not ladders.is_empty():
            self._add_ladders(sorted_ladders(ladders), tape)

    def _add_empty(self) -> None:
        """Start the file of ticks if it has none yet, and mark the fixtures without ticks as written."""
        empty = Tape.from_ticks(pl.DataFrame(schema=TICKS), self.kickoffs)
        self._file(TICKS_FILE, _table(empty), _REPEATED)
        for number, digest in fixture_digests(empty).items():
            self._written.setdefault(number, self._declared[number].model_copy(update={"rows": 0, "digest": digest}))

    def _add_books(self, books: pl.DataFrame, tape: Tape) -> None:
        check_books(books, tape)
        self._books.update(books["book"].unique())
        rows, repeated = books.select(*BOOK_ROWS), [*STREAM, "prob_bps", "odds_milli"]
        self._add_layer(BOOKS_FILE, rows, repeated, "books_digest", book_digests(books))

    def _add_ladders(self, ladders: pl.DataFrame, tape: Tape) -> None:
        check_ladders(ladders, tape)
        rows, repeated = ladders.select(*LADDERS), [*LADDER, "level", "odds_milli"]
        self._add_layer(LADDERS_FILE, rows, repeated, "ladders_digest", ladder_digests(ladders))

    def _add_layer(
        self, name: str, rows: pl.DataFrame, repeated: Sequence[str], field: str, digests: Mapping[int, str]
    ) -> None:
        for number, digest in digests.items():
            self._written[number] = self._written[number].model_copy(update={field: digest})
        sizes = rows["fixture_id"].rle().struct.field("len").to_list()
        table = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
        self._file(name, table, repeated).add(table, sizes)

    def _file(self, name: str, table: pa.Table, repeated: Sequence[str]) -> GroupedParquet:
        if name not in self.files:
            effort = _LADDER_EFFORT if name == LADDERS_FILE else _EFFORT
            self.files[name] = GroupedParquet(self._unfinished / name, table.schema, repeated, effort)
        return self.files[name]

    def finish(
        self,
        manifest: PackManifest,
        raw: Mapping[str, Path] = MappingProxyType({}),
        results: pl.DataFrame | None = None,
        quality: Quality | None = None,
        proofs: Path | None = None,
    ) -> PackManifest:
        """Write the other files and put the pack in place; ``proofs`` are the provider's proofs of its messages."""
        if not self._written or len(self._written) < len(self._declared):
            self._add_empty()
        for file in self.files.values():
            file.finish()
        complete = [fixture for _, fixture in sorted(self._written.items())]
        kept = [Path(shutil.copyfile(raw[name], self._raw_folder() / name)) for name in sorted(raw)]
        self._write_extras(results, quality)
        if proofs is not None:
            shutil.copyfile(proofs, self._unfinished / PROOFS_FILE)
        files = [name for name in DATA_FILES if (self._unfinished / name).exists()]
        hashes = {name.partition(".")[0] + "_sha256": file_sha256(self._unfinished / name) for name in files}
        written = manifest.model_copy(
            update={
                "fixtures": tuple(complete),
                "raw": tuple(Raw(name=path.name, digest=content_digest(path)) for path in kept),
                "results": None if results is None else results_digest(results),
                "books": tuple(sorted(self._books)) or None,
                "ladders": LEVEL_COUNT if LADDERS_FILE in self.files else None,
                **hashes,
            }
        )
        sizes = {name: (self._unfinished / name).stat().st_size for name in files}
        (self._unfinished / DESCRIPTOR).write_bytes(descriptor(written, sizes))
        report("flushing to the disk")
        flush_all(self._unfinished)
        self._unfinished.rename(self._folder)
        flush(self._folder.parent)
        return written

    def _raw_folder(self) -> Path:
        folder = self._unfinished / "raw"
        folder.mkdir(exist_ok=True)
        return folder

    def _write_extras(self, results: pl.DataFrame | None, quality: Quality | None) -> None:
        if results is not None:
            sorted_results(results).write_parquet(self._unfinished / RESULTS_FILE, compression="zstd")
        if quality is not None:
            text = quality.model_dump_json(indent=2, by_alias=True)
            (self._unfinished / QUALITY_FILE).write_text(text + "\n", encoding="utf-8")


def _table(tape: Tape) -> pa.Table:
    names = tape.series.with_row_index("series")
    within = pl.col("series") - pl.col("series").min().over("fixture_id")
    return (
        tape.rows.join(names.select("series", "fixture_id", "market_key", "side"), on="series", maintain_order="left")
        .with_columns(series=within.cast(pl.UInt32))
        .select(_COLUMNS)
        .to_arrow(compat_level=pl.CompatLevel.oldest())
    )
