"""Writing packs: sorted, checked, hashed, and in place in one step or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from clvlab.errors import PackFormatError
from clvlab.law.tape import Tape
from clvlab.packs import invariants
from clvlab.packs.digest import fixture_digests
from clvlab.packs.files import content_digest, file_sha256
from clvlab.packs.manifest import DESCRIPTOR, TICKS_FILE, Fixture, PackManifest, Raw, descriptor

__all__ = ["complete", "write_pack"]

_ROWS_PER_GROUP = 65_536
_COLUMNS = (
    "fixture_id", "series", "tick_seq", "ts_ms", "in_running", "market_key", "side", "prob_bps", "odds_milli", "suspended",
)  # fmt: skip


def complete(manifest: PackManifest, tape: Tape) -> PackManifest:
    """Give the manifest with the rows and digest of every fixture of the tape."""
    digests = fixture_digests(tape)
    rows = dict(tape.series.group_by("fixture_id").agg(pl.col("rows").sum()).iter_rows())
    known = {fixture.fixture_id: fixture for fixture in manifest.fixtures}
    fixtures = tuple(
        known.get(number, Fixture(fixture_id=number)).model_copy(update={"rows": rows.get(number, 0), "digest": digest})
        for number, digest in sorted(digests.items())
    )
    return manifest.model_copy(update={"fixtures": fixtures})


def write_pack(
    ticks: pl.DataFrame, manifest: PackManifest, folder: Path, raw: Mapping[str, Path] = MappingProxyType({})
) -> PackManifest:
    """Write a pack.

    Parameters
    ----------
    ticks
        ``TICKS`` in any row order.
    manifest
        Labels and fixtures; rows, digests and file hashes are filled in.
    folder
        Where the pack will stand; it must not exist. Nothing is left there if anything fails.
    raw
        Files of the provider's messages to keep in ``raw/``, by the name they get there.

    Returns
    -------
    PackManifest
        As written.

    Raises
    ------
    PackFormatError
        The folder exists, or the ticks break a rule of the format.
    """
    if folder.exists() or folder.is_symlink():
        raise PackFormatError(f"{str(folder)!r} exists; a pack is never overwritten")
    kickoffs = pl.DataFrame(
        [(fixture.fixture_id, fixture.kickoff_ts_ms) for fixture in manifest.fixtures],
        schema={"fixture_id": pl.Int64, "kickoff_ts_ms": pl.Int64},
        orient="row",
    )
    tape = Tape.from_ticks(ticks, kickoffs, closing_policy=manifest.closing_policy)
    strays = tape.series.join(kickoffs, on="fixture_id", how="anti")
    if strays.height:
        raise PackFormatError(f"ticks of fixture {strays['fixture_id'][0]}, which the manifest does not declare")
    invariants.check(tape)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder.parent))
    try:
        _write_ticks(tape, unfinished / TICKS_FILE)
        if raw:
            (unfinished / "raw").mkdir()
        kept = [Path(shutil.copyfile(raw[name], unfinished / "raw" / name)) for name in sorted(raw)]
        written = complete(manifest, tape).model_copy(
            update={
                "raw": tuple(Raw(name=path.name, digest=content_digest(path)) for path in kept),
                "ticks_sha256": file_sha256(unfinished / TICKS_FILE),
            }
        )
        (unfinished / DESCRIPTOR).write_bytes(descriptor(written, (unfinished / TICKS_FILE).stat().st_size))
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished)
        raise
    return written


def _write_ticks(tape: Tape, path: Path) -> None:
    """Write the rows in series order; row groups end where fixtures end."""
    names = tape.series.with_row_index("series")
    within = pl.col("series") - pl.col("series").min().over("fixture_id")
    table = (
        tape.rows.join(names.select("series", "fixture_id", "market_key", "side"), on="series", maintain_order="left")
        .with_columns(series=within.cast(pl.UInt32))
        .select(_COLUMNS)
        .to_arrow(compat_level=pl.CompatLevel.oldest())
    )
    with pq.ParquetWriter(
        path,
        table.schema,
        compression="zstd",
        compression_level=9,
        use_dictionary=["market_key", "side", "fixture_id", "series", "prob_bps", "odds_milli"],
    ) as writer:
        for start, stop in _groups(tape):
            writer.write_table(table.slice(start, stop - start), row_group_size=max(stop - start, 1))
        if not table.num_rows:
            writer.write_table(pa.Table.from_batches([], table.schema))


def _groups(tape: Tape) -> Iterator[tuple[int, int]]:
    """Row ranges of whole fixtures, small ones together."""
    sizes = tape.series.group_by("fixture_id", maintain_order=True).agg(pl.col("rows").sum())["rows"]
    start = stop = 0
    for size in sizes:
        if stop > start and stop - start + size > _ROWS_PER_GROUP:
            yield start, stop
            start = stop
        stop += size
    if stop > start:
        yield start, stop
