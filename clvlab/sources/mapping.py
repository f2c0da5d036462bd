"""The meaning of a table's columns: a mapping, a small YAML file, or flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from clvlab.base.names import among, did_you_mean, nearest
from clvlab.errors import SourceError
from clvlab.odds.formats import OddsFormat
from clvlab.packs.manifest import KickoffKind

Meaning = Literal[
    "fixture", "time", "odds", "side", "market", "book", "kickoff", "home", "away", "in_running", "result", "updated", "date",
    "league", "season", "probability",
]  # fmt: skip
_MAX_BYTES = 1 << 20
_LISTED = 15
_NAMED = ("date", "probability")  # the names are not enough: in many tables such columns mean something else


class TableMap(BaseModel):
    """Meaning of a table's columns.

    Attributes
    ----------
    columns
        Meaning -> column. ``fixture`` and ``time`` are needed; a long table also has ``side`` and ``odds``. The others are
        ``market``, ``book``, ``kickoff``, ``home``, ``away``, ``league``, ``season``, ``in_running``, ``updated`` and
        ``result``. Two more must be mapped explicitly, as such columns often mean something else: ``date`` (the day, if
        ``time`` is a time of day) and ``probability`` (without margin, as a mid price).
    sides
        Of a wide table: side -> column of its odds.
    probabilities, results
        Of a wide table, if it has them: side -> column of its probability without margin (as a mid price), and of its
        result. A long table has ``columns`` for them. With probabilities, the odds are only the prices on
        offer; they may be left out, and then no price is on offer.
    percent
        Whether probabilities are percent.
    market
        The market of every row, where no column names it.
    kickoff_kind
        ``scheduled``, or ``actual`` if the kickoffs were known only afterwards, so that agents do not see them.
    time_format
        Format of times, as for ``strptime``; ISO 8601, or unix seconds or milliseconds, if ``None``. If date and time have two
        columns, it is the format of both with a space between.
    odds_format, time_zone, delimiter
        Format of the table; an ``odds_format`` or ``time_zone`` of the import's options takes precedence.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    columns: dict[Meaning, str]
    sides: dict[str, str] = Field(default_factory=dict)
    probabilities: dict[str, str] = Field(default_factory=dict)
    results: dict[str, str] = Field(default_factory=dict)
    percent: bool = False
    market: str = "market||"
    kickoff_kind: KickoffKind = KickoffKind.SCHEDULED
    odds_format: OddsFormat = OddsFormat.DECIMAL
    time_zone: str | None = None
    time_format: str | None = Field(default=None, min_length=2, max_length=100)
    delimiter: str = Field(default=",", min_length=1, max_length=1)

    @property
    def by_side(self) -> list[str]:
        """Columns of a wide table that belong to one side."""
        return [column for named in (self.sides, self.probabilities, self.results) for column in named.values()]

    @property
    def by_name(self) -> dict[str, str]:
        """Of a wide table: side -> column of its odds, or of its probability if it has no odds."""
        return self.sides or self.probabilities

    @property
    def has_fair(self) -> bool:
        return bool(self.probabilities) or "probability" in self.columns

    @model_validator(mode="after")
    def _whole(self) -> TableMap:
        long = {"side", "odds"} & self.columns.keys()
        if "side" in long and "probability" in self.columns:
            long = {"side", "odds"}
        missing = {"fixture", "time"} - self.columns.keys()
        if missing:
            raise ValueError(f"columns must say which is {' and '.join(sorted(missing))}, as in fixture=NAME")
        wide = self.by_name
        if bool(wide) == bool(long) or (long and len(long) < 2):
            raise ValueError("give either the columns side and odds of a long table, or the sides of a wide one")
        if wide and len(wide) < 2:
            raise ValueError(f"a market needs at least two sides, not {list(wide)}")
        if self.results and "result" in self.columns:
            raise ValueError("give either a column with the side that won, or the results of each side")
        for name, texts in (("probabilities", self.probabilities), ("results", self.results)):
            if texts and texts.keys() != wide.keys():
                raise ValueError(f"{name} must name the sides {list(wide)}, not {list(texts)}")
        if wide and "probability" in self.columns:
            raise ValueError("a wide table has no column probability: write probabilities, a column for each side")
        return self


def check_mapping(mapping: Mapping[str, Any] | None, columns: list[str]) -> TableMap:
    """Check a mapping against the columns of a table; without one, columns named by their meaning count.

    Raises
    ------
    SourceError
        A value is not a mapping, or names a column that is missing.
    """
    raw = dict(mapping or {})
    taken = [
        column
        for key in ("sides", "probabilities", "results")
        if isinstance(named := raw.get(key), Mapping)
        for column in named.values()
    ]
    named = {name: name for name in get_args(Meaning) if name in columns and name not in {*taken, *_NAMED}}
    if not (raw.get("sides") or raw.get("probabilities")) and isinstance(raw.get("columns", {}), Mapping):
        raw["columns"] = named | dict(raw.get("columns", {}))
    elif isinstance(raw.get("columns", {}), Mapping):
        raw["columns"] = {n: c for n, c in named.items() if n not in ("side", "odds", "probability")} | dict(
            raw.get("columns", {})
        )
    try:
        found = TableMap.model_validate(raw)
    except ValidationError as error:
        raise SourceError(f"no mapping of columns: {_problem(error, columns)}; the columns are {_list(columns)}") from error
    missing = sorted({*found.columns.values(), *found.by_side} - set(columns))
    if missing:
        meant = did_you_mean(missing[0], columns)
        raise SourceError(f"the mapping names {missing[0]!r}, which is not one of the columns {_list(columns)}{meant}")
    return found


def _problem(error: ValidationError, columns: list[str]) -> str:
    """Return the problem of a mapping: an unknown key, or an ambiguous column, with likely alternatives."""
    wrong = error.errors()[0]
    key, own = str(wrong["loc"][0]) if wrong["loc"] else "", list(TableMap.model_fields)
    if wrong["type"] == "extra_forbidden":
        if key in get_args(Meaning):
            return f"{key!r} stands one level too high: write {{'columns': {{{key!r}: {wrong['input']!r:.80}}}}}"
        return f"it has no key {key!r}{among(key, own)}"
    if wrong["type"] == "literal_error" and key == "columns":
        meaning = str(wrong["loc"][1])
        return f"{meaning!r} is no meaning{among(meaning, get_args(Meaning))}; a mapping goes from the meaning to your column"
    text = wrong["msg"].removeprefix("Value error, ")
    if wrong["loc"]:
        return f"{'.'.join(str(part) for part in wrong['loc'])}: {text}"
    meant = {name: nearest(name, columns) for name in ("fixture", "time", "side", "odds")}
    near = ", ".join(f"{name!r}: {column!r}" for name, column in meant.items() if column is not None and column != name)
    return f"{text}; in Python mapping={{'columns': {{{near or repr('time') + ': ' + repr('your column')}}}}}"


def _list(columns: list[str]) -> str:
    more = f" and {len(columns) - _LISTED} more" if len(columns) > _LISTED else ""
    return ", ".join(repr(column) for column in columns[:_LISTED]) + more


def read_mapping(path: Path) -> dict[str, object]:
    """Read a YAML file of a mapping.

    Raises
    ------
    SourceError
        The file can't be read, or is not a mapping.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise SourceError(f"{path.name}: more than {_MAX_BYTES} bytes is no mapping of columns")
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SourceError(f"{path.name}: can't be read as YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(found, dict):
        raise SourceError(f"{path.name}: a mapping must be a YAML mapping, not {type(found).__name__}")
    return found


def texts_by_name(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    """Return the values of a repeatable option ``NAME=VALUE``.

    Raises
    ------
    SourceError
        A value has another form; the message names the option.
    """
    split = [text.partition("=") for text in texts or ()]
    wrong = ["".join(parts) for parts in split if not all(parts)]
    if wrong:
        raise SourceError(f"{option} takes NAME=VALUE, not {wrong[0]!r}")
    return {name: value for name, _, value in split}


def weights_by_book(option: str, texts: Sequence[str] | None) -> dict[str, int]:
    """Return the weights of books given as ``BOOK=N``.

    Raises
    ------
    SourceError
        A value has another form, or is not a whole number; the message names the option.
    """
    weights = texts_by_name(option, texts)
    wrong = [f"{book}={number}" for book, number in weights.items() if not (number.isascii() and number.isdigit())]
    if wrong:
        raise SourceError(f"{option} takes BOOK=N with a whole number, not {wrong[0]!r}")
    return {book: int(number) for book, number in weights.items()}


def with_flags(
    path: Path | None, columns: Mapping[str, str], sides: Mapping[str, str], market: str | None
) -> Mapping[str, object] | None:
    """Return a file's mapping with the flags added; ``None`` without any."""
    found = {} if path is None else read_mapping(path)
    for key, named in (("columns", columns), ("sides", sides)):
        if named and isinstance(present := found.get(key) or {}, Mapping):  # the check of the mapping refuses other values
            found[key] = {**present, **named}
    if market is not None:
        found["market"] = market
    return found or None
