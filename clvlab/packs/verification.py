"""Verification of packs: every statement about the ticks is computed again, shard by shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import polars as pl

from clvlab.base.progress import each, report
from clvlab.errors import PackFormatError, PackTamperedError
from clvlab.law.schema import BOOK_ROWS, FIXTURES, Schema
from clvlab.law.tape import Binding, Tape
from clvlab.packs import invariants
from clvlab.packs.books import at_their_times, book_digests, check_books
from clvlab.packs.files import content_digest, fixture_digests
from clvlab.packs.ladders import LADDERS, check_ladders, ladder_digests
from clvlab.packs.manifest import BOOKS_FILE, LADDERS_FILE, TICKS_FILE, Fixture
from clvlab.packs.reader import Pack, load_pack, shards_of
from clvlab.packs.rows import STORED, numbered, read_stored, results_digest, unreadable

_AT_ONCE = 2  # shards in memory, so that one is read while the rules of another are checked


def verify_pack(folder: Path) -> Pack:
    """Open a pack after recomputing everything: order, rules, digests of ticks and raw files."""
    return verified(load_pack(folder))


def verified(pack: Pack) -> Pack:
    """Return a pack that was opened from a folder, after the checks of ``verify_pack``."""
    _check_ticks(pack)
    if pack.books:
        _check_books(pack)
    if pack.has_ladders:
        _check_ladders(pack)
    for raw in each("checking raw files", pack.manifest.raw, len(pack.manifest.raw)):
        path = pack.folder / "raw" / raw.name
        found = content_digest(path) if path.is_file() and not path.is_symlink() else "no file"
        if found != raw.digest:
            raise PackTamperedError(f"raw/{raw.name} of {pack.pack_id!r}", raw.digest, found)
    found = "none" if pack.results is None else results_digest(pack.results)
    if found != (pack.manifest.results or "none"):
        raise PackTamperedError(f"results of {pack.pack_id!r}", pack.manifest.results or "none", found)
    _ = pack.quality  # reading it checks hash and form
    if pack.provenance.startswith("genuine-") and not pack.is_genuine:
        raise PackTamperedError(f"provenance of {pack.pack_id!r}", "a capture that gives these ticks", pack.provenance)
    return pack


def _check_ticks(pack: Pack) -> None:
    """Check the rows of each shard, two at once, and report them in order; the last shard must have all remaining rows."""
    shards = list(shards_of(pack.manifest.fixtures))
    sizes = [max(0, sum(fixture.rows for fixture in shard)) for shard in shards]
    starts, total = [0, *accumulate(sizes[:-1])], sum(fixture.rows for fixture in pack.manifest.fixtures)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        checks = [pool.submit(_check_shard, pack, *each) for each in zip(shards, starts, [*sizes[:-1], None], strict=True)]
        try:
            for check, end in zip(checks, [*starts[1:], total], strict=True):
                check.result()
                report("checking rows", end, total)
        finally:
            pool.shutdown(cancel_futures=True)


def _check_shard(pack: Pack, shard: Sequence[Fixture], start: int, count: int | None) -> None:
    path = pack.folder / TICKS_FILE
    file = pl.scan_parquet(path, glob=False)
    stored = read_stored(file.slice(start, count), str(path))
    ids = tuple(fixture.fixture_id for fixture in shard)
    kickoffs = pl.DataFrame([(one.fixture_id, one.kickoff_ts_ms) for one in shard], schema=FIXTURES, orient="row")
    tape = Tape(Binding(pack.pack_id, ids, pack.content_hash), *numbered(stored), kickoffs)
    invariants.check_order(tape, pack.pack_id)
    sizes = dict(tape.series.group_by("fixture_id").agg(pl.col("rows").sum()).iter_rows())
    for fixture in shard:
        rows = sizes.pop(fixture.fixture_id, 0)
        if fixture.rows != rows:
            raise PackTamperedError(f"rows of fixture {fixture.fixture_id} of {pack.pack_id!r}", str(fixture.rows), str(rows))
    if sizes:  # against all rows of this shard's fixtures
        raise PackFormatError(f"ticks of fixture {min(sizes)}, which {pack.pack_id!r} does not declare")
    found = file.collect_schema().names()
    if set(found) != {*STORED}:
        raise PackFormatError(f"{str(path)!r} has the columns {found}, not those of the format")
    _check_names(stored, tape, str(path))
    invariants.check(tape)
    digests = fixture_digests(tape)
    for fixture in shard:
        if fixture.digest != digests[fixture.fixture_id]:
            what = f"fixture {fixture.fixture_id} of {pack.pack_id!r}"
            raise PackTamperedError(what, str(fixture.digest), digests[fixture.fixture_id])


def _check_books(pack: Pack) -> None:
    """Check the books of each shard against its ticks, and their names."""
    names = set[str]()

    def checked(shard: Sequence[Fixture], tape: Tape) -> tuple[int, Mapping[int, str]]:
        books = at_their_times(pack.files.books(shard), tape).collect()
        check_books(books, tape)
        names.update(books["book"].unique())
        return books.height, book_digests(books)

    _check_layer(pack, BOOKS_FILE, BOOK_ROWS, checked)
    if names != set(pack.books):
        raise PackTamperedError(f"names of the books of {pack.pack_id!r}", ", ".join(pack.books), ", ".join(sorted(names)))


def _check_ladders(pack: Pack) -> None:
    """Check the ladders of each shard against its series."""

    def checked(shard: Sequence[Fixture], tape: Tape) -> tuple[int, Mapping[int, str]]:
        ladders = pack.files.ladders(shard).collect()
        check_ladders(ladders, tape, pack.manifest.ladders or 0)
        return ladders.height, ladder_digests(ladders)

    _check_layer(pack, LADDERS_FILE, LADDERS, checked)


_Checked = Callable[[Sequence[Fixture], Tape], tuple[int, Mapping[int, str]]]


def _check_layer(pack: Pack, name: str, schema: Schema, checked: _Checked) -> None:
    """Compare the digests of a layer, which ``checked`` returns of a shard with its number of rows; no row may be left over."""
    path, layer, rows = pack.folder / name, name.partition(".")[0], 0
    try:
        found = pl.scan_parquet(path, glob=False).collect_schema()
    except unreadable() as error:
        raise PackFormatError(f"{str(path)!r} can't be read as {layer}: {str(error).splitlines()[0]}") from error
    if dict(found) != dict(schema):
        raise PackFormatError(f"{str(path)!r} has the columns {dict(found)}, not those of the format")
    for shard in each(f"checking {layer}", shards_of(pack.manifest.fixtures)):
        tape = replace(pack, held_out=()).tape([fixture.fixture_id for fixture in shard])
        height, digests = checked(shard, tape)
        for fixture in shard:
            stated, digest = getattr(fixture, f"{layer}_digest"), digests.get(fixture.fixture_id)
            if digest != stated:
                what = f"{layer} of fixture {fixture.fixture_id} of {pack.pack_id!r}"
                raise PackTamperedError(what, str(stated), str(digest))
        rows += height
    if rows != pl.scan_parquet(path, glob=False).select(pl.len()).collect().item():
        raise PackFormatError(f"{str(path)!r} has rows of fixtures that {pack.pack_id!r} does not declare")


def _check_names(stored: pl.DataFrame, tape: Tape, where: str) -> None:
    """Compare names of all rows, and the series' numbers, with the tape, which took them from first rows only."""
    first, series = tape.series["start"], tape.rows["series"]
    names = ("market_key", "side")
    changes = stored.select(pl.col(names).ne_missing(pl.col(names).shift())).with_columns(first=series != series.shift())
    within = tape.series.select(pl.int_range(pl.len()).over("fixture_id").cast(pl.UInt32)).to_series()
    for column, found in (
        *((name, (changes[name] & ~changes["first"]).any()) for name in names),
        ("series", not stored["series"][first].equals(within)),
    ):
        if found:
            raise PackFormatError(f"{column} of {where!r} changes inside a series")
