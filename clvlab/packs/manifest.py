"""The descriptor ``datapackage.json``: a Data Package v2 with the meaning and the hashes of the ticks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import orjson
import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from clvlab.base.files import file_bytes
from clvlab.errors import FileError, PackFormatError
from clvlab.law.schema import ABOUT, BOOK_ROWS, MAX_CLOSE_AGE_S, SAFE_INTEGER, ClosingPolicy
from clvlab.packs.files import content_hash
from clvlab.packs.rows import RESULTS, RESULTS_FILE

PACK_SCHEMA = "clvlab-pack/1"
DESCRIPTOR = "datapackage.json"
TICKS_FILE = "ticks.parquet"
BOOKS_FILE = "books.parquet"
LADDERS_FILE = "ladders.parquet"
QUALITY_FILE = "quality.json"
PROOFS_FILE = "proofs.jsonl"
MAX_LEAGUE = 200
MAX_LEVELS = 100
MAX_DESCRIPTOR_BYTES = 32 << 20  # several hundred thousand fixtures; parsed JSON takes twenty times as much memory
DATA_FILES = (TICKS_FILE, BOOKS_FILE, LADDERS_FILE, RESULTS_FILE, QUALITY_FILE, PROOFS_FILE)
_PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"
_FIELDS = {
    "fixture_id": "integer", "series": "integer", "tick_seq": "integer", "ts_ms": "integer", "in_running": "boolean",
    "market_key": "string", "side": "string", "prob_bps": "integer", "odds_milli": "integer", "suspended": "boolean",
}  # fmt: skip
_Hash = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}"
_Name = Annotated[str, Field(pattern=f"^{_NAME}$")]
_Int = Annotated[int, Field(strict=True, ge=-SAFE_INTEGER, le=SAFE_INTEGER)]


def pack_id_of(folder: Path) -> str:
    """Return the pack id of a new pack in this folder: the folder's name.

    Raises
    ------
    PackFormatError
        The name has characters other than letters, digits, dot, hyphen and underscore.
    """
    name = folder.resolve().name
    if not re.fullmatch(_NAME, name):
        raise PackFormatError(f"{name!r} can't be a pack id: use letters, digits, '.', '-' and '_', at most 200")
    return name


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Gap(_Model):
    """A span in which the capture is known to have missed messages.

    ``cause`` is ``None`` if the source does not state it. ``markets`` has the provider's names, and is ``None`` if all markets
    are concerned. ``replayed`` says that the provider sent all messages of the span afterwards, so the capture is complete.
    """

    from_ts_ms: _Int
    to_ts_ms: _Int
    cause: str | None = None
    markets: tuple[str, ...] | None = None
    replayed: Literal[True] | None = None


class Capture(_Model):
    method: str = Field(min_length=1)
    tool: str = Field(min_length=1)
    started_ts_ms: _Int
    ended_ts_ms: _Int
    gaps: tuple[Gap, ...] = ()


class TimeRule(_Model):
    """The rule for reading message times, from its second version on.

    ``skew_s`` is the limit on how much later than its arrival a time may be, ``None`` for history without arrivals.
    ``offset_ms`` is the largest measured offset of the provider's clock, ``refused`` the number of messages whose times were
    refused.
    """

    rule: Annotated[int, Field(strict=True, ge=2, le=2)]
    skew_s: Annotated[int, Field(strict=True, ge=1, le=3_600)] | None
    offset_ms: Annotated[int, Field(strict=True, ge=0, le=600_000)]
    refused: Annotated[int, Field(strict=True, ge=0, le=SAFE_INTEGER)]


class KickoffKind(StrEnum):
    """Kickoffs of a pack: announced before the first tick, or known only afterwards."""

    SCHEDULED = "scheduled"
    ACTUAL = "actual"


class Fixture(_Model):
    """One replayable fixture; ``digest`` covers its series table and ticks, ``books_digest`` and ``ladders_digest`` the layers.

    ``kickoff_ts_ms`` ends the window. ``scheduled_ts_ms`` is the start as first announced, in packs of actual kickoffs only.
    """

    fixture_id: _Int
    names: tuple[str, ...] = ()
    source_id: str | None = None
    kickoff_ts_ms: _Int | None = None
    scheduled_ts_ms: _Int | None = None
    league: Annotated[str, Field(min_length=1, max_length=MAX_LEAGUE)] | None = None
    season: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    rows: _Int = 0
    digest: _Hash | None = None
    books_digest: _Hash | None = None
    ladders_digest: _Hash | None = None


class Raw(_Model):
    """A file of the provider's messages in ``raw/``; the digest covers its decompressed content."""

    name: Annotated[str, Field(pattern=r"^[^./\\\x00-\x1f][^/\\\x00-\x1f]{0,254}$")]
    digest: _Hash


class SourceFile(_Model):
    """A file that was imported and is not kept; the digest covers its original bytes."""

    name: str = Field(min_length=1, max_length=1000)
    digest: _Hash


class PackManifest(_Model):
    """The manifest of a pack; ``content_hash`` covers everything but ``pack_id`` and the SHA-256 of files.

    ``sources``, ``margin_fallbacks``, ``kickoff``, ``max_close_age_s``, ``books``, ``ladders``, ``reading`` and
    of a fixture ``scheduled_ts_ms``, ``league``, ``season``, ``books_digest`` and ``ladders_digest`` are left out of descriptor
    and hash while ``None``. Kickoffs are scheduled by default. ``books`` names the books whose own prices the pack keeps,
    ``ladders`` is the number of levels that it keeps of each side's ladder.
    """

    pack_id: _Name
    provenance: str = Field(pattern=r"^(genuine|synthetic|imported)-[a-z0-9][a-z0-9.-]*$|^unknown$")
    closing_policy: ClosingPolicy = ClosingPolicy.LAST_STATE
    closing_source: str = "consensus"
    margin: str = "as-delivered"
    consensus: str = "as-delivered"
    normaliser: str | None = None
    recipe: dict[str, _Int] | None = None
    capture: Capture | None = None
    fixtures: tuple[Fixture, ...] = ()
    raw: tuple[Raw, ...] = ()
    results: _Hash | None = None
    sources: tuple[SourceFile, ...] | None = None
    margin_fallbacks: _Int | None = None
    kickoff: KickoffKind | None = None
    max_close_age_s: Annotated[int, Field(strict=True, ge=1, le=MAX_CLOSE_AGE_S)] | None = None
    books: tuple[str, ...] | None = None
    ladders: Annotated[int, Field(strict=True, ge=1, le=MAX_LEVELS)] | None = None
    reading: TimeRule | None = None
    ticks_sha256: _Hash | None = None
    results_sha256: _Hash | None = None
    quality_sha256: _Hash | None = None
    books_sha256: _Hash | None = None
    ladders_sha256: _Hash | None = None
    proofs_sha256: _Hash | None = None

    @field_validator("fixtures")
    @classmethod
    def _in_order(cls, fixtures: tuple[Fixture, ...]) -> tuple[Fixture, ...]:
        ids = [fixture.fixture_id for fixture in fixtures]
        if ids != sorted(set(ids)):
            raise ValueError("fixtures must be listed once each, in order of fixture_id")
        return fixtures

    @model_validator(mode="after")
    def _scheduled_with_actual(self) -> PackManifest:
        if self.kickoff is not KickoffKind.ACTUAL and any(fixture.scheduled_ts_ms is not None for fixture in self.fixtures):
            raise ValueError("scheduled_ts_ms goes with actual kickoffs only")
        return self

    @model_validator(mode="after")
    def _books_named(self) -> PackManifest:
        if self.books is not None and (not self.books or list(self.books) != sorted(set(self.books))):
            raise ValueError("books must be named once each, in order")
        if self.books is None and any(fixture.books_digest is not None for fixture in self.fixtures):
            raise ValueError("books_digest stands in packs that name their books only")
        return self

    @model_validator(mode="after")
    def _ladders_counted(self) -> PackManifest:
        if self.ladders is None and any(fixture.ladders_digest is not None for fixture in self.fixtures):
            raise ValueError("ladders_digest stands in packs that keep ladders only")
        return self

    @property
    def content_hash(self) -> str:
        return content_hash({"schema": PACK_SCHEMA} | self.content)

    @property
    def content(self) -> dict[str, object]:
        own = self.model_copy(update={"fixtures": ()}).model_dump(mode="json", exclude=set(_FILES))
        if own["capture"] is not None:
            own["capture"]["gaps"] = [_without_defaults(gap) for gap in own["capture"]["gaps"]]
        fixtures = [_without_defaults(vars(fixture)) for fixture in self.fixtures]  # plain values, which need no dump
        return _without_defaults(own | {"fixtures": fixtures})


_OPTIONAL = (
    "sources", "margin_fallbacks", "kickoff", "max_close_age_s", "books", "ladders", "reading", "scheduled_ts_ms", "league",
    "season", "books_digest", "ladders_digest", "cause", "markets", "replayed",
)  # fmt: skip
_FILES = (
    "pack_id", "ticks_sha256", "results_sha256", "quality_sha256", "books_sha256", "ladders_sha256", "proofs_sha256",
)  # fmt: skip


def _without_defaults(own: Mapping[str, object]) -> dict[str, object]:
    """Leave out optional fields that are ``None``."""
    return {key: value for key, value in own.items() if value is not None or key not in _OPTIONAL}


def pack_files(manifest: PackManifest) -> list[str]:
    digests = {
        BOOKS_FILE: manifest.books_sha256,
        LADDERS_FILE: manifest.ladders_sha256,
        RESULTS_FILE: manifest.results_sha256,
        QUALITY_FILE: manifest.quality_sha256,
        PROOFS_FILE: manifest.proofs_sha256,
    }
    return [TICKS_FILE, *(name for name, digest in digests.items() if digest), *(f"raw/{raw.name}" for raw in manifest.raw)]


def descriptor(manifest: PackManifest, sizes: Mapping[str, int]) -> bytes:
    """Return the bytes of the descriptor, which any Data Package v2 tool reads; ``sizes`` are bytes by file name.

    Raises
    ------
    PackFormatError
        The descriptor exceeds ``MAX_DESCRIPTOR_BYTES``.
    """
    content = orjson.dumps(
        {
            "$schema": _PROFILE,
            "name": manifest.pack_id,
            "title": f"{manifest.pack_id} ({manifest.provenance})",
            "resources": list(_resources(manifest, sizes)),
            "clvlab": {"schema": PACK_SCHEMA, **manifest.content, "content_hash": manifest.content_hash},
        },
        option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
    )
    _check_size(len(content), f"{DESCRIPTOR} of {manifest.pack_id!r}")
    return content


def _check_size(size: int, where: str) -> None:
    if size > MAX_DESCRIPTOR_BYTES:
        raise PackFormatError(f"{where} has {size:,} bytes, the limit is {MAX_DESCRIPTOR_BYTES:,}")


def _resources(manifest: PackManifest, sizes: Mapping[str, int]) -> Iterator[Mapping[str, object]]:
    from clvlab.packs.ladders import LADDERS  # imported where a pack is written: a backtest reads no ladders

    parquet = {"format": "parquet", "mediatype": "application/vnd.apache.parquet"}
    ladders, results = (
        {name: "integer" if dtype.is_integer() else "string" for name, dtype in schema.items()} for schema in (LADDERS, RESULTS)
    )
    for path, digest, kind, fields in (
        (TICKS_FILE, manifest.ticks_sha256, parquet, _FIELDS),
        (BOOKS_FILE, manifest.books_sha256, parquet, {name: _FIELDS.get(name, "string") for name in BOOK_ROWS}),
        (LADDERS_FILE, manifest.ladders_sha256, parquet, ladders),
        (RESULTS_FILE, manifest.results_sha256, parquet, results),
        (QUALITY_FILE, manifest.quality_sha256, {"format": "json", "mediatype": "application/json"}, None),
        (PROOFS_FILE, manifest.proofs_sha256, {"format": "jsonl", "mediatype": "application/jsonl"}, None),
    ):
        if path in sizes:
            described = {"name": path.partition(".")[0], "path": path, **kind, "bytes": sizes[path], "hash": digest}
            schema = {"fields": [{"name": name, "type": of} for name, of in fields.items()]} if fields else None
            yield described | ({"schema": schema} if schema else {})


class _Resource(BaseModel):
    path: Literal["ticks.parquet", "books.parquet", "ladders.parquet", "results.parquet", "quality.json", "proofs.jsonl"]
    hash: _Hash


class _Descriptor(BaseModel):
    name: _Name
    resources: Annotated[list[_Resource], Field(min_length=1, max_length=6)]
    clvlab: dict[str, object]

    @field_validator("resources")
    @classmethod
    def _each_once(cls, resources: list[_Resource]) -> list[_Resource]:
        paths = [resource.path for resource in resources]
        if paths[0] != TICKS_FILE or len(set(paths)) != len(paths):
            raise ValueError(f"resources must be {TICKS_FILE} first, and each file once")
        return resources


def read_manifest(folder: Path) -> tuple[PackManifest, str]:
    """Read the descriptor of a pack folder, as ``parse_manifest``.

    Raises
    ------
    PackFormatError
        The descriptor is missing, too large or a symbolic link, and as ``parse_manifest``.
    """
    path = folder / DESCRIPTOR
    links = [p.name for p in (folder, *folder.rglob("*")) if p.is_symlink()]
    if links:
        raise PackFormatError(f"pack {str(folder)!r} holds a symbolic link, {links[0]!r}; packs are plain files")
    try:
        content = file_bytes(path, MAX_DESCRIPTOR_BYTES)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise PackFormatError(f"no pack at {str(folder)!r}: it has no {DESCRIPTOR}") from error
    except FileError as error:
        raise PackFormatError(str(error)) from error
    return parse_manifest(content, str(path))


def parse_manifest(content: bytes, where: str) -> tuple[PackManifest, str]:
    """Return manifest and stated ``content_hash`` of a descriptor; errors call it ``where``.

    Raises
    ------
    PackFormatError
        The content is too large or no JSON, a key is unknown or missing, or a path leaves the folder.
    """
    _check_size(len(content), repr(where))
    try:
        outer = _Descriptor.model_validate(orjson.loads(content))
        own = dict(outer.clvlab)
        schema, stated = own.pop("schema", None), own.pop("content_hash", None)
        missing = PackManifest.model_fields.keys() - own.keys() - {*_FILES, *_OPTIONAL}
        if missing:
            raise PackFormatError(f"{where!r}: clvlab lacks {sorted(missing)}")
        if schema != PACK_SCHEMA:
            raise PackFormatError(f"{where!r}: clvlab.schema is {schema!r}, this version reads {PACK_SCHEMA!r}")
        if not isinstance(stated, str):
            raise PackFormatError(f"{where!r}: clvlab.content_hash is {stated!r:.80}, not a text")
        hashes = {resource.path.partition(".")[0] + "_sha256": resource.hash for resource in outer.resources}
        if own.keys() & {*_FILES}:
            raise PackFormatError(f"{where!r}: clvlab has unknown keys {sorted(own.keys() & {*_FILES})}")
        manifest = PackManifest.model_validate(own | hashes | {"pack_id": outer.name})
        if (manifest.books is None) != (manifest.books_sha256 is None):
            raise PackFormatError(f"{where!r} names books where there is no {BOOKS_FILE}, or none where there is one")
        if (manifest.ladders is None) != (manifest.ladders_sha256 is None):
            raise PackFormatError(f"{where!r} keeps ladders where there is no {LADDERS_FILE}, or none where there is one")
        return manifest, stated
    except (orjson.JSONDecodeError, ValidationError) as error:
        raise PackFormatError(f"{where!r} is no pack descriptor: {_first(error)}") from error


def _first(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    wrong = error.errors()[0]
    return f"{'.'.join(str(part) for part in wrong['loc'])}: {wrong['msg']}, found {wrong['input']!r:.80}"


# Facts of fixtures that are known beforehand: names, league, season and the source's id.


_FIRST_MONTH = 7  # first month of a season that spans two years
_DATED = re.compile(r"[^|]+\|(\d{4})-(\d{2})-\d{2}\|")


def about(fixtures: Iterable[Fixture]) -> pl.DataFrame:
    rows = [(one.fixture_id, *_sides(one), league_of(one), season_of(one), one.source_id) for one in fixtures]
    return pl.DataFrame(rows, schema=ABOUT, orient="row")


def league_of(fixture: Fixture) -> str | None:
    """Return the league of a fixture from the pack or its source's id; ``None`` where neither names one.

    Examples
    --------
    >>> league_of(Fixture(fixture_id=1, source_id="E0|2025-08-15|Arsenal|Leeds")), league_of(Fixture(fixture_id=2))
    ('E0', None)
    """
    named, bar, _ = (fixture.source_id or "").partition("|")
    return fixture.league or (named if bar and named else None)


def season_of(fixture: Fixture) -> str | None:
    """Return the season of a fixture from the pack or the date in its source's id; ``None`` where neither names one.

    Examples
    --------
    >>> season_of(Fixture(fixture_id=1, source_id="E0|2025-08-15|Arsenal|Leeds"))
    '2025-26'
    """
    dated = _DATED.match(fixture.source_id or "")
    if fixture.season or not dated:
        return fixture.season
    first = int(dated[1]) - (int(dated[2]) < _FIRST_MONTH)
    return f"{first}-{(first + 1) % 100:02}"


def _sides(fixture: Fixture) -> tuple[str | None, str | None]:
    home, away = (*fixture.names, None, None)[:2]
    return home, away


# How far the origin of a pack's messages is shown, and by whom.


class Grade(StrEnum):
    """The evidence for the origin of a pack's messages, in ascending order; a label alone is no evidence.

    Attributes
    ----------
    NOT_SHOWN
        The pack has no messages, or they were not normalised again.
    SELF_CONSISTENT
        Its own messages, normalised again, give its ticks; the holder of the pack may have written them.
    WITNESSED
        Its segments are also in a log. By the operator's stated times, each was entered within a day of its first message.
    WITNESSED_LATE
        Its segments are in a log, and some were entered later: their author may have known the outcome.
    """

    NOT_SHOWN = "not shown"
    SELF_CONSISTENT = "self-consistent"
    WITNESSED = "witnessed"
    WITNESSED_LATE = "witnessed late"


def grade_of(*, is_genuine: bool) -> Grade:
    """Return the grade that a pack shows by itself; it never shows that a provider sent the messages.

    Examples
    --------
    >>> grade_of(is_genuine=True).value
    'self-consistent'
    """
    return Grade.SELF_CONSISTENT if is_genuine else Grade.NOT_SHOWN
