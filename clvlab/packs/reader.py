"""Reading packs: a folder becomes a ``Pack``, a pack becomes a tape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from pydantic import ValidationError

from clvlab.base.files import scratch_folder
from clvlab.base.names import among
from clvlab.base.progress import report
from clvlab.errors import (
    HeldOutError,
    PackFormatError,
    PackTamperedError,
    SourceError,
    UnknownFixtureError,
    UnsupportedError,
    WindowError,
)
from clvlab.law.schema import FIXTURES
from clvlab.law.tape import Binding, Tape
from clvlab.packs.files import content_digest
from clvlab.packs.folder import PackFiles, PackFolder
from clvlab.packs.manifest import (
    BOOKS_FILE,
    LADDERS_FILE,
    MAX_DESCRIPTOR_BYTES,
    QUALITY_FILE,
    TICKS_FILE,
    Fixture,
    Grade,
    KickoffKind,
    PackManifest,
    about,
    grade_of,
    read_manifest,
)
from clvlab.packs.rows import RESULTS_FILE, read_results
from clvlab.words import seconds

if TYPE_CHECKING:  # imported where it is used, so that a first backtest waits for nothing else
    from clvlab.packs.quality import Quality

# A pack is a genuine capture if its messages, normalised again, give its ticks; its label alone does not count.


_LABELS = ("margin", "consensus", "closing_source", "closing_policy", "kickoff", "reading")


def is_genuine(pack: Pack) -> bool:
    """Check whether the raw messages of a pack give exactly its ticks, ladders, times, gaps and label.

    All must hold: the normaliser gives these messages the ``genuine-`` label and the pack's other labels, one of which says how
    markets close; the raw files have their digests and there are no others; fixtures and capture (method, span, gaps) are as
    the messages show them; ticks and ladders are equal row for row.
    """
    # Packs lie a floor below sources. Here alone a pack calls its source, which normalises the messages again.
    from clvlab.sources.providers import NORMALISERS
    from clvlab.sources.source import Options

    folder, manifest = pack.folder, pack.manifest
    normalise = NORMALISERS.get(manifest.normaliser or "")
    if not manifest.provenance.startswith("genuine-") or normalise is None or not manifest.raw:
        return False
    # A pack without leagues predates their reading, so only its stated fields are judged.
    leagues = any(fixture.league is not None for fixture in manifest.fixtures)
    tape, kept = pack.tape(), {raw.name: folder / "raw" / raw.name for raw in manifest.raw}
    try:
        present = {path.name for path in (folder / "raw").iterdir()}
        report("reading the capture again")
        digests_hold = all(content_digest(kept[raw.name]) == raw.digest for raw in manifest.raw)
        with scratch_folder() as scratch:
            rule = 1 if manifest.reading is None else manifest.reading.rule
            again = normalise(kept, Options(reading_rule=rule, ladders=manifest.ladders is not None), scratch)
            parts = again.whole
            ticks = Tape.from_ticks(parts.ticks, tape.fixtures)
    except (SourceError, OSError):  # unreadable raw files show nothing
        return False
    return (
        digests_hold
        and present == set(kept)
        and again.provenance == manifest.provenance
        and again.capture == manifest.capture
        and all(getattr(again, label) == getattr(manifest, label) for label in _LABELS)
        and _declared_fixtures(again.fixtures, leagues=leagues) == _declared_fixtures(manifest.fixtures, leagues=leagues)
        and ticks.rows.equals(tape.rows)
        and ticks.series.equals(tape.series)
        and (parts.ladders is not None) == pack.has_ladders
        and (parts.ladders is None or parts.ladders.equals(pack.ladders().collect()))
    )


def _declared_fixtures(fixtures: Sequence[Fixture], *, leagues: bool) -> list[Fixture]:
    """Return fixtures without the fields that follow from their ticks, and without leagues unless these are judged."""
    left_out = {"rows": 0, "digest": None, "ladders_digest": None} | ({} if leagues else {"league": None})
    return [fixture.model_copy(update=left_out) for fixture in fixtures]


@dataclass(frozen=True)
class Pack:
    """A pack whose ticks are bound to its content hash; they are read when a tape is requested.

    Attributes
    ----------
    files
        Access to its files. In a folder, the ticks file was hashed; elsewhere, each fixture is hashed when it is read.
    held_out
        Held-out fixtures, each with the plan that holds it out: neither tapes nor results have them.
    doubtful
        Open fixtures that may be held out, each with a plan that may do so.
    """

    files: PackFiles
    manifest: PackManifest = field(repr=False)
    content_hash: str
    held_out: tuple[tuple[int, str], ...] = field(default=(), repr=False)
    doubtful: tuple[tuple[int, str], ...] = field(default=(), repr=False)

    @property
    def folder(self) -> Path:
        """The folder of the pack.

        Raises
        ------
        UnsupportedError
            The pack is not on this machine.
        """
        return self.files.folder

    @property
    def verification(self) -> str:
        """How its ticks are verified, in words; empty if all were verified before it was opened."""
        return self.files.verification

    @property
    def pack_id(self) -> str:
        return self.manifest.pack_id

    @property
    def provenance(self) -> str:
        return self.manifest.provenance

    @property
    def fixture_ids(self) -> tuple[int, ...]:
        return tuple(fixture.fixture_id for fixture in self.manifest.fixtures)

    @property
    def sources(self) -> tuple[str, ...]:
        """Sorted content hashes of the packs of its ticks: its own, or those that it is derived from."""
        return (self.content_hash,)

    @property
    def rows(self) -> str:
        """Its number of rows, in words."""
        return f"{sum(fixture.rows for fixture in self.manifest.fixtures):,}"

    @property
    def books(self) -> tuple[str, ...]:
        """Sorted names of the books whose own prices the pack keeps; empty where it has the consensus alone."""
        return self.manifest.books or ()

    @property
    def has_ladders(self) -> bool:
        """Whether the pack keeps the ladders of its markets, which are the offers level by level."""
        return self.manifest.ladders is not None

    @property
    def closing(self) -> str:
        """How markets close, in words: the closing policy, and the age limit of a closing message, if any."""
        policy, limit = self.manifest.closing_policy.value, self.manifest.max_close_age_s
        return policy if limit is None else f"{policy}, at most {seconds(limit)} old"

    @property
    def kickoffs(self) -> str:
        """A remark on the kickoffs, in words; empty where they were announced beforehand."""
        actual = self.manifest.kickoff is KickoffKind.ACTUAL
        return "known only afterwards; agents see them as first announced" if actual else ""

    @cached_property
    def is_genuine(self) -> bool:
        """Whether the raw capture, normalised again, gives these ticks row for row.

        False for a remote pack, because its raw files are not read.
        """
        return not self.verification and is_genuine(replace(self, held_out=()))

    @property
    def grade(self) -> Grade:
        """How far the pack itself shows the origin of its messages; see ``docs/reference/pack-format.md``."""
        return grade_of(is_genuine=self.is_genuine)

    @property
    def verified_grade(self) -> Grade:
        """The grade as verification showed it, without reading anything again.

        Opening, admitting or uploading a pack verifies it in full, which refuses a ``genuine-`` label that the messages do not
        support.
        """
        return grade_of(is_genuine=not self.verification and self.provenance.startswith("genuine-"))

    @cached_property
    def fixtures(self) -> pl.DataFrame:
        """One row per fixture: id, names, kickoff, rows."""
        return pl.DataFrame(
            [(f.fixture_id, " - ".join(f.names), f.kickoff_ts_ms, f.rows) for f in self.manifest.fixtures],
            schema={"fixture_id": pl.Int64, "names": pl.String, "kickoff_ts_ms": pl.Int64, "rows": pl.Int64},
            orient="row",
        )

    @cached_property
    def results(self) -> pl.DataFrame | None:
        """``RESULTS`` where the source had them, else ``None``; they are not part of any tape.

        Raises
        ------
        PackTamperedError
            The file does not have its hash.
        """
        if self.manifest.results_sha256 is None:
            return None
        content = self.files.content(RESULTS_FILE, self.manifest.results_sha256, f"{RESULTS_FILE} of {self.pack_id!r}")
        return read_results(content, self.pack_id).filter(~pl.col("fixture_id").is_in(list(dict(self.held_out))))

    @cached_property
    def quality(self) -> Quality | None:
        """The quality report of the import; ``None`` for a pack that was not imported.

        Raises
        ------
        PackFormatError, PackTamperedError
            The report can't be read, or does not have its hash.
        """
        from clvlab.packs.quality import Quality

        if self.manifest.quality_sha256 is None:
            return None
        content = self.files.content(QUALITY_FILE, self.manifest.quality_sha256, f"{QUALITY_FILE} of {self.pack_id!r}")
        if len(content) > MAX_DESCRIPTOR_BYTES:
            raise PackFormatError(
                f"{QUALITY_FILE} of {self.pack_id!r} has {len(content):,} bytes, the limit is {MAX_DESCRIPTOR_BYTES:,}"
            )
        try:
            return Quality.model_validate_json(content)
        except ValidationError as error:
            raise PackFormatError(f"{QUALITY_FILE} of {self.pack_id!r} is no quality report: {error}") from error

    def tape(self, fixture_ids: Sequence[int] | None = None) -> Tape:
        """Read the ticks of some or all fixtures.

        Raises
        ------
        UnknownFixtureError
            The pack does not declare a fixture.
        HeldOutError
            A plan holds a fixture out.
        PackFormatError
            The ticks can't be read or have other columns.
        """
        wanted = self._wanted(fixture_ids)
        return self.tape_of(wanted, *self.files.ticks(None if wanted == self.fixture_ids else self._declared(wanted)))

    def ladders(self, fixture_ids: Sequence[int] | None = None) -> pl.LazyFrame:
        """Return ``LADDERS`` of some or all fixtures: one row per change of one level, sorted; lazy.

        Raises
        ------
        UnsupportedError
            The pack keeps no ladders.
        UnknownFixtureError, HeldOutError
            As ``tape``.
        PackFormatError, PackTamperedError
            The file can't be read, or does not have its hash.
        """
        if not self.has_ladders:
            raise UnsupportedError(
                f"pack {self.pack_id!r} keeps no ladders: import a source that has depth with ladders=True, or --ladders"
            )
        wanted = self._wanted(fixture_ids)
        return self.files.ladders(None if wanted == self.fixture_ids else self._declared(wanted))

    def _wanted(self, fixture_ids: Sequence[int] | None) -> tuple[int, ...]:
        """Return the fixtures that may be read, all if ``None``."""
        wanted = self.fixture_ids if fixture_ids is None else tuple(sorted(set(fixture_ids)))
        if not wanted and self.fixture_ids:
            raise PackFormatError("name at least one fixture, or none at all for every fixture")
        self.check_known(wanted)
        self.check_open(wanted)
        return wanted

    def tape_of(self, wanted: tuple[int, ...], rows: pl.DataFrame, series: pl.DataFrame) -> Tape:
        from clvlab.packs.books import at_their_times

        fixtures = self.fixtures.filter(pl.col("fixture_id").is_in(wanted)).select(*FIXTURES)
        binding = Binding(self.pack_id, wanted, self.content_hash)
        own = self.manifest
        declared = self._declared(wanted)
        announced, limit = self._announced(wanted), own.max_close_age_s
        tape = Tape(binding, rows, series, fixtures, own.closing_policy, announced, limit, about(declared))
        if own.books is None:
            return tape
        books = self.files.books(None if wanted == self.fixture_ids else declared)
        return replace(tape, books=at_their_times(books, tape))

    def check_known(self, fixture_ids: Iterable[int]) -> None:
        """Refuse fixtures that the pack does not declare.

        Raises
        ------
        UnknownFixtureError
            The pack does not declare a fixture.
        """
        known = set(self.fixture_ids)
        for fixture_id in fixture_ids:
            if type(fixture_id) is not int or fixture_id not in known:
                raise UnknownFixtureError(fixture_id, self.pack_id, self.fixture_ids)

    def origins(self) -> Iterable[tuple[int, Pack, int]]:
        """Return each fixture id with the pack that its ticks are read from and its id there, one entry per such pack."""
        return ((fixture_id, self, fixture_id) for fixture_id in self.fixture_ids)

    def check_closes(self, close_source: str | None) -> None:
        """Refuse to close by a book that the pack does not keep.

        Raises
        ------
        WindowError
            The pack does not keep prices of this book.
        """
        if close_source is not None and close_source not in self.books:
            alone = "; it has the consensus alone: import it with books=True (--books)"
            kept = among(close_source, self.books) if self.books else alone
            raise WindowError(f"pack {self.pack_id!r} keeps no book {close_source!r:.80} to close by{kept}")

    def holding_out(self, held_out: Mapping[int, str], doubtful: Mapping[int, str]) -> Pack:
        """Return the pack with exactly these fixtures held out; itself if they already are."""
        held, unsure = (tuple(sorted(own.items())) for own in (held_out, doubtful))
        return self if (held, unsure) == (self.held_out, self.doubtful) else replace(self, held_out=held, doubtful=unsure)

    def held(self, held_out: Mapping[int, str]) -> Pack:
        """Return the pack with these of its fixtures held out too, each by the named plan."""
        present = set(self.fixture_ids)
        own = {fixture_id: plan_id for fixture_id, plan_id in held_out.items() if fixture_id in present}
        return replace(self, held_out=tuple(sorted({**dict(self.held_out), **own}.items())))

    def check_open(self, fixture_ids: Iterable[int]) -> None:
        """Refuse fixtures that a plan holds out.

        Raises
        ------
        HeldOutError
            A plan holds a fixture out.
        """
        wanted = set(fixture_ids) if self.held_out else set()
        held = [(fixture_id, plan_id) for fixture_id, plan_id in self.held_out if fixture_id in wanted]
        if held:
            raise HeldOutError(self.pack_id, *held[0], len(held))

    def _announced(self, wanted: Sequence[int]) -> pl.DataFrame | None:
        """Return the kickoffs that agents may see; ``None`` if these are the kickoffs that end the window."""
        if self.manifest.kickoff is not KickoffKind.ACTUAL:
            return None
        known = [(fixture.fixture_id, fixture.scheduled_ts_ms) for fixture in self._declared(wanted)]
        return pl.DataFrame(known, schema=FIXTURES, orient="row")

    def _declared(self, wanted: Sequence[int]) -> list[Fixture]:
        ids = set(wanted)
        return [fixture for fixture in self.manifest.fixtures if fixture.fixture_id in ids]


def load_pack(folder: Path) -> Pack:
    """Open a pack after a check of its labels and of the hashes of its ticks, books and ladders.

    Raises
    ------
    PackFormatError
        The folder is not a pack, or its descriptor breaks the format.
    PackTamperedError
        Descriptor, ticks, books or ladders do not have their hash.
    """
    manifest, stated = read_manifest(folder)
    if manifest.content_hash != stated:
        raise PackTamperedError(f"content_hash of {manifest.pack_id!r}", stated, manifest.content_hash)
    if not (folder / TICKS_FILE).is_file():
        raise PackFormatError(f"pack {manifest.pack_id!r} has no {TICKS_FILE}")
    files = PackFolder(folder, manifest)
    files.hashed(TICKS_FILE)
    if manifest.books is not None:
        files.hashed(BOOKS_FILE)
    if manifest.ladders is not None:
        files.hashed(LADDERS_FILE)
    return Pack(files, manifest, stated)


# Shards are whole neighbouring fixtures that are read together; the pack alone determines them.


ROW_BYTES = 25  # bytes of a tick in memory
SHARD_ROWS = 1 << 18  # small, as every process of a search holds one; a run reads two together


def shards_of(fixtures: Iterable[Fixture], together: int = 1) -> Iterator[tuple[Fixture, ...]]:
    """Cut all fixtures of a pack in order into shards of ``together`` x ``SHARD_ROWS`` rows at most, or one larger fixture."""
    shard: list[Fixture] = []
    rows = 0
    for fixture in fixtures:
        if shard and rows + fixture.rows > together * SHARD_ROWS:
            yield tuple(shard)
            shard, rows = [], 0
        shard.append(fixture)
        rows += fixture.rows
    yield tuple(shard)
