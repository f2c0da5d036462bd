"""The request of an upload: empty for an archive of a pack, else the source and options of the import."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from clvlab.odds.formats import OddsFormat
from clvlab.odds.margin import Margin
from clvlab.sources.importer import OPTIONS, import_options
from clvlab.sources.mapping import texts_by_name, weights_by_book, with_flags
from clvlab.sources.source import Options

_PackId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]
_Text = Annotated[str, Field(max_length=200)]
_Texts = Annotated[list[_Text], Field(max_length=100)]
_Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
# Sources that come as one file, and its default name.
_FILES = {
    "betfair": "upload.tar",
    "betfair-csv": "upload.csv",
    "csv": "upload.csv",
    "football-data": "upload.csv",
    "oddsharvester": "upload.json",
    "oddsportal": "upload.csv",
    "parquet": "upload.parquet",
    "the-odds-api": "upload.json",
    "txline": "odds_upload.jsonl",
}
_OF_AN_ARCHIVE = {"pack_id"}


class UploadRequest(BaseModel):
    """How to read an upload.

    Attributes
    ----------
    pack_id
        Id of the new pack of a source file; for an archive, the id that it must have.
    source
        Importer of a source file; null means an archive of a pack.
    filename
        Name of the source file; it is stored in the pack, and its ending shows the compression.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    pack_id: _PackId | None = Field(default=None, description="Id of the new pack; an archive must have this id.")
    source: (
        Literal[
            "betfair", "betfair-csv", "csv", "football-data", "oddsharvester", "oddsportal", "parquet", "the-odds-api", "txline"
        ]
        | None
    ) = Field(default=None, description="Importer of a source file; without it the body is an archive of a pack.")
    filename: _PackId | None = Field(default=None, description="Name of the source file; its ending selects the reader.")
    lenient: bool = Field(
        default=True, description="Skip and count unreadable data; false refuses the file at the first fault."
    )
    margin: Margin = Field(default=Margin.POWER, description="Method of margin removal.")
    min_books: _Count | None = Field(default=None, description="Smallest number of fresh books for a price.")
    max_age_s: _Count | None = Field(default=None, description="Seconds after which a book's quote is stale.")
    max_overround: float | None = Field(
        default=None,
        description="Largest overround of a book's price update, 0.3 for 30 %; above it the market counts as suspended.",
    )
    books: bool = Field(default=False, description="Keep each book's quotes, so that a single book can be the closing source.")
    ladders: bool = Field(default=False, description="betfair: keep the offers of each side, ten levels with their stakes.")
    weight: _Texts = Field(default=[], description="`BOOK=N`: weight of a book in the median.")
    odds_format: OddsFormat | None = Field(default=None, description="Format of prices.")
    time_zone: _Text | None = Field(default=None, description="IANA time zone of times that name none.")
    closing: _Texts = Field(default=[], description="football-data: closing columns, the preferred one first.")
    column: _Texts = Field(default=[], description="csv, parquet: `MEANING=COLUMN`.")
    side: _Texts = Field(default=[], description="csv, parquet: `SIDE=COLUMN` of a wide table.")
    market: _Text | None = Field(default=None, description="csv, parquet: the market of every row.")
    max_close_age_s: _Count | None = Field(default=None, description="Oldest closing price that scores, in seconds.")

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if self.source is not None and self.pack_id is None:
            raise ValueError("a source file needs a pack_id for the pack that is made of it")
        superfluous = sorted(self.model_fields_set - _OF_AN_ARCHIVE - {"source"}) if self.source is None else []
        if superfluous:
            raise ValueError(f"{superfluous[0]} needs a source: an archive already holds a pack")
        return self

    @property
    def stored_name(self) -> str:
        return "archive" if self.source is None else self.filename or _FILES[self.source]

    def options(self) -> Options:
        own = {name: getattr(self, name) for name in OPTIONS if name in UploadRequest.model_fields}
        own |= {"weights": weights_by_book("weight", self.weight), "closing": self.closing or None}
        columns, sides = texts_by_name("column", self.column), texts_by_name("side", self.side)
        return import_options(**own, mapping=with_flags(None, columns, sides, self.market))
