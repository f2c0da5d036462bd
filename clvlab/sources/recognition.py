"""Recognition of a source by the content of its files: each source has a shape of its own.

A table with unknown columns is refused, with a list of the known shapes.
"""

from __future__ import annotations

import csv
import io
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import orjson
import pyarrow.parquet as pq

from clvlab.base.invocation import command
from clvlab.base.names import printable
from clvlab.errors import SourceError
from clvlab.odds.formats import OddsFormat
from clvlab.packs.files import whole
from clvlab.packs.manifest import DESCRIPTOR
from clvlab.packs.rows import unreadable
from clvlab.sources.archives import SHEETS, ArchiveKind, head_of, is_a_line, kind_of
from clvlab.sources.betfair import runners as betfair_runners
from clvlab.sources.kalshi.messages import parts_of
from clvlab.sources.polymarket import pmxt
from clvlab.sources.scrapers import oddsharvester, oddsportal
from clvlab.sources.tables import trades
from clvlab.sources.tables.rows import delimiter_of, header_of
from clvlab.words import counted

# Columns of probabilities in a table without odds, recognised by their names and sums.


_SIDES = {
    "part1": ("home", "team1", "1", "h"), "draw": ("draw", "tie", "x", "d"), "part2": ("away", "team2", "2", "a"),
}  # fmt: skip
_SIDE_OF = {word: side for side, words in _SIDES.items() for word in words}
_WORDS = "|".join(sorted(_SIDE_OF, key=len, reverse=True))
_COLUMN = re.compile(
    rf"(?P<before>.*?)(?P<side>{_WORDS})(?P<after>(?:team)?(?:win|wins)?(?:probability|prob|pct|percent|chance|odds?|p)?)"
)
_BEFORE = re.compile(r"(?:implied|fair|model|avg|close|closing)?(?:probability|prob|pct|percent|chance|win|odds?|p)?(?:of)?")
_ROWS = 200
_OFF = 0.02  # largest distance of a sum from 1 that rounding to two places explains


@dataclass(frozen=True, slots=True)
class Probabilities:
    """Columns by side, whether they are percent, and the number of rows that agree."""

    sides: Mapping[str, str]
    percent: bool
    rows: int

    def __str__(self) -> str:
        *first, last = self.sides.values()
        return f"{', '.join(first)} and {last}, which sum to {'100 %' if self.percent else '1'} in {counted(self.rows, 'row')}"


def probabilities_of(text: str) -> Probabilities | None:
    r"""Return the columns of probabilities in the head of a table; ``None`` without them.

    Their names mean the home team, the away team and maybe the draw. Every row that is not blank holds numbers from 0 to 1, or
    from 0 to 100. Nine rows of ten sum to about 1 or 100, which odds never do.

    Examples
    --------
    >>> str(probabilities_of("date,home,away,p_home,p_draw,p_away\nd,Ash,Elm,.5,.3,.2\n"))
    'p_home, p_draw and p_away, which sum to 1 in 1 row'
    """
    lines = [line for line in text.splitlines() if line.strip()][: _ROWS + 1]
    header = header_of(lines[0]) if lines else []
    try:
        rows = (
            [row for row in csv.reader(lines[1:], delimiter=delimiter_of(lines[0])) if len(row) == len(header)] if lines else []
        )
    except csv.Error:
        return None
    for sides in _styles(header):
        places = [header.index(column) for column in sides.values()]
        numbers = [[_number(row[place]) for place in places] for row in rows if any(row[place].strip() for place in places)]
        known = [[number for number in row if number is not None] for row in numbers]
        if not known or any(len(row) < len(places) or min(row) < 0 for row in known):
            continue
        sums = [sum(row) for row in known]
        whole = 100 if median(sums) > 2 else 1
        near = sum(abs(total - whole) <= _OFF * whole for total in sums)
        if near * 10 >= len(sums) * 9 and all(max(row) <= whole for row in known):
            return Probabilities(sides, percent=whole == 100, rows=near)
    return None


def _styles(header: Sequence[str]) -> list[dict[str, str]]:
    """Return columns by side whose names have one style; those with a draw come first."""
    teams: dict[tuple[str, str, int], dict[str, str]] = defaultdict(dict)
    draws: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for column in header:
        named = _COLUMN.fullmatch("".join(letter for letter in column.lower() if letter.isalnum()))
        if not named or not _BEFORE.fullmatch(named["before"]):
            continue
        side, before, after = _SIDE_OF[named["side"]], named["before"], named["after"]
        word = _SIDES[side].index(named["side"])
        if side == "draw":
            draws[before, after].setdefault(word, column)
        else:
            teams[before, after, word].setdefault(side, column)
    found = []
    for (before, after, word), sides in teams.items():
        own = draws.get((before, after.removeprefix("team")), {})
        draw = own.get(word, next(iter(own.values()), None))
        if {"part1", "part2"} <= sides.keys():
            two = {"part1": sides["part1"], "part2": sides["part2"]}
            found += [two] if draw is None else [{"part1": two["part1"], "draw": draw, "part2": two["part2"]}, two]
    return sorted(found, key=len, reverse=True)


def _number(text: str) -> float | None:
    try:
        return float(text.strip().removesuffix("%"))
    except ValueError:
        return None


_MAX_ALIKE = 50
_LIKE_BYTES = 1 << 16
_MAX_LISTED = 12
_SEASON = ("Date", "HomeTeam", "AwayTeam"), ("Date", "Home", "Away", "League")
_SEASON_ODDS = ("PSH", "PSCH", "AvgH", "AvgCH", "MaxH", "MaxCH", "B365H", "B365CH", "BbAvH", "BFEH", "BFECH", "FTR", "Res")
_CHANGES = ("event_id", "commence_time", "bookmaker", "outcome", "snapshot_commit_time")
_MARKET = re.compile(r"1\.\d.*|(.*-)?[\d.]+\.bz2")
_EVENT = ("sport_key", "commence_time", "home_team", "away_team")
_LONG = ("fixture", "time", "side", "odds")
LOOKED_FOR: Mapping[str, str] = {
    "betfair": 'lines of JSON with "op":"mcm"',
    "betfair-csv": "a CSV of runners with EVENT_ID, SELECTION_ID and BSP, or best prices such as BEST_BACK_PRICE_60_MIN_PRIOR",
    "csv": f"a CSV with the columns {', '.join(_LONG)}, or a mapping that says what they are",
    "football-data": "a CSV with Date, HomeTeam, AwayTeam and odds such as PSH or AvgH",
    "kalshi": 'JSON with "candlesticks", "trades", "markets" or order books of tickers',
    "oddsharvester": "JSON or CSV with match_date, home_team, away_team and columns that end in _market",
    "oddsportal": "a CSV with a date, home, away, and odds such as 1, X, 2",
    "parquet": "Parquet with the columns of csv, or a mapping",
    "pmxt": f"Parquet with {', '.join(pmxt.COLUMNS)}",
    "polymarket": f'lines of JSON with "native_price", or a folder with {"fixtures.json"}',
    "the-odds-api": f'JSON with "{_EVENT[0]}" and "{_EVENT[1]}", or Parquet with {_CHANGES[2]} and {_CHANGES[4]}',
    "trades": "a CSV or Parquet with yes_price and taker_side",
    "txline": 'lines of JSON with "FixtureId" and "SuperOddsType"',
}


Finding = tuple[str, str, str] | tuple[str, str, str, Mapping[str, Any]]  # source, reason, delimiter, mapping


@dataclass(frozen=True, slots=True)
class Recognition:
    """A source, the file that shows it, the reason, a CSV's delimiter, and columns recognised by their content."""

    source: str
    file: str
    why: str
    delimiter: str = ","
    mapping: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.source}, for {self.file} has {self.why}"


def recognition_of(paths: Sequence[Path], mapping: Mapping[str, Any] | None = None) -> Recognition:
    """Return the source of files or folders; ``mapping`` is the caller's meaning of columns.

    Raises
    ------
    SourceError
        No known source fits, or several do; the message lists the known shapes.
    """
    found: dict[str, list[Recognition]] = {}
    why_not: list[SourceError] = []
    seen: dict[tuple[ArchiveKind, str], list[Recognition]] = {}
    for path in paths:
        for file in _files_of(path):
            likeness = _likeness(file)
            alike = seen.setdefault(likeness, [])
            if len({one.source for one in alike}) == 1 and len(alike) >= (1 if likeness[0] is ArchiveKind.TEXT else _MAX_ALIKE):
                found[alike[0].source].append(alike[0])
                continue
            try:
                one = recognise_file(file, mapping)
            except SourceError as error:
                if not path.is_dir():
                    raise
                why_not.append(error)
                continue
            alike.append(one)
            found.setdefault(one.source, []).append(one)
    if len(found) > 1:
        several = "; ".join(f"{files[0]}{_and_others(len(files) - 1)}" for files in found.values())
        raise SourceError(f"the files are of several sources: {several}: name one before the files to read its own")
    if not found:
        raise why_not[0] if why_not else SourceError(f"there is no file in {', '.join(map(str, paths))}")
    return next(iter(found.values()))[0]


def _likeness(file: Path) -> tuple[ArchiveKind, str]:
    """Return the mark by which files are grouped: the header of a table, the ending of another file."""
    head = head_of(file, _LIKE_BYTES)
    kind = kind_of(head)
    return kind, head.partition(b"\n")[0].decode(errors="replace") if kind is ArchiveKind.TEXT else "".join(file.suffixes[-2:])


def _and_others(count: int) -> str:
    return f", as {count:,} more files have" if count else ""


def _files_of(path: Path) -> list[Path]:
    """Return a file, or the files of a folder that show its source."""
    if not path.is_dir():
        return [path]
    if (path / DESCRIPTOR).is_file():
        raise SourceError(f"{str(path)!r} is a pack already, which needs no import: {command('packs', 'show', path)}")
    if (path / "fixtures.json").is_file():
        return [path / "fixtures.json"]
    return [file for file in sorted(path.rglob("*")) if file.is_file()]


def recognise_file(path: Path, mapping: Mapping[str, Any] | None = None) -> Recognition:
    """Return the source of one file.

    Raises
    ------
    SourceError
        No known source fits.
    """
    found = _finding(path, mapping or {})
    if isinstance(found, str):
        looked = "".join(f"\n  {source}: {what}" for source, what in LOOKED_FOR.items())
        raise SourceError(
            f"{printable(path.name)!r} is of no source that is known: it holds {found}. Name the source before the file: "
            f"{command('packs', 'import', 'csv', path, '--out', 'FOLDER')}\nLooked for:{looked}"
        )
    return Recognition(found[0], printable(path.name), *found[1:])


def content_of(path: Path) -> str:
    found = _finding(path, {})
    return found if isinstance(found, str) else f"files of {found[0]}, for they have {found[1]}"


def probabilities_in(path: Path) -> str | None:
    """Return a description of the probabilities that a table holds instead of odds; ``None`` without them."""
    head = head_of(path) if path.is_file() else b""
    found = probabilities_of(head.decode("utf-8-sig", errors="replace")) if kind_of(head) is ArchiveKind.TEXT else None
    return None if found is None else f"it holds probabilities, not odds, in the columns {found}"


def is_of_betfair(path: Path) -> bool:
    head = head_of(path)
    return kind_of(head) is ArchiveKind.TAR and not isinstance(_of_tar(path, head, {}), str)


def _finding(path: Path, mapping: Mapping[str, Any]) -> Finding | str:
    """Return source, reason and delimiter; for an unknown source, a description of the file's content."""
    head = head_of(path)
    inspect: Callable[[Path, bytes, Mapping[str, Any]], Finding | str] = _INSPECTIONS.get(kind_of(head), _foreign)
    return inspect(path, head, mapping)


def _foreign(_path: Path, head: bytes, _mapping: Mapping[str, Any]) -> str:
    kind = kind_of(head)
    packed = dict.fromkeys(
        (ArchiveKind.ZIP, ArchiveKind.SEVEN_ZIP, ArchiveKind.RAR, ArchiveKind.ZSTANDARD), ", which has to be unpacked"
    )
    mend = {**packed, ArchiveKind.UTF_16: ", which has to be saved as UTF-8"}
    if kind is ArchiveKind.ZIP and any(head[30 : 30 + len(name)] == name for name in SHEETS):
        return "a spreadsheet, which has to be saved as CSV"
    return f"{kind.value}{mend.get(kind, '')}"


def _of_parquet(path: Path, _head: bytes, mapping: Mapping[str, Any]) -> Finding | str:
    try:
        columns = pq.read_schema(path).names
    except unreadable() as error:
        return f"Parquet that can't be read: {str(error).splitlines()[0]}"
    if {"fixture_id", "tick_seq", "prob_bps"} <= {*columns} or {"series", "tick_seq", "prob_bps"} <= {*columns}:
        return "the ticks of a pack, which needs no import"
    if {"event_type", "asset_id", "bids", "asks"} <= {*columns}:
        return "pmxt", "the columns event_type, asset_id, bids and asks", ""
    changes = "the-odds-api", f"the columns {_CHANGES[2]}, {_CHANGES[3]} and {_CHANGES[4]}", ""
    found = changes if {*_CHANGES} <= {*columns} else _of_columns(columns, mapping, "parquet")
    if found is None:
        return f"Parquet with the columns {_list(columns)}"
    if found[0] != "trades" and path.suffix != ".parquet":
        return f"Parquet of {found[0]}, and its name does not end in .parquet: rename it"
    return found


def _of_text(_path: Path, head: bytes, mapping: Mapping[str, Any]) -> Finding | str:
    try:
        text = head.decode("utf-8-sig", errors="strict")
    except UnicodeDecodeError as error:
        cut_off = error.start > len(head) - 4  # the end of the head may be within a letter
        text = head[: error.start].decode("utf-8-sig") if cut_off else head.decode("cp1252", errors="replace")
    first = next((line for line in text.splitlines() if line.strip()), "")
    columns, delimiter = header_of(first), delimiter_of(first)
    if len(columns) < 2:
        return f"text that begins with {first[:60]!r}"
    named = {*columns}
    if any({*season} <= named for season in _SEASON) and named & {*_SEASON_ODDS}:
        if delimiter != ",":
            return f"a season of football-data whose cells are separated by {delimiter!r}: save it with commas"
        return "football-data", f"the columns Date, {columns[3] if len(columns) > 3 else columns[-1]} and their like", delimiter
    if {*oddsharvester.NEEDED} <= named and any(column.endswith(oddsharvester.ENDING) for column in columns):
        market = next(column for column in columns if column.endswith(oddsharvester.ENDING))
        return "oddsharvester", f"the columns match_date and {market}", delimiter
    if {*_EVENT} <= named and "event_id" in named:
        return "the fixtures of The Odds API's changes: give the file NAME_ticks.parquet next to it"
    if mapping.get("odds_format") != OddsFormat.PROBABILITY and not mapping.get("sides") and not mapping.get("probabilities"):
        odds = oddsportal.columns_of(columns)
        fair = probabilities_of(text)
        if fair is not None and (odds is None or {*odds.sides.values()} & {*fair.sides.values()}):
            return _of_probabilities(fair, columns, delimiter)
    if (runners := betfair_runners.shape_of(columns)) is not None:
        return "betfair-csv", f"the columns {', '.join(runners)}", delimiter
    found = _of_columns(columns, mapping, "csv")
    if found is not None:
        return found[0], found[1], delimiter, found[3] if len(found) == 4 else {}
    if (usual := oddsportal.columns_of(columns)) is not None:
        present = [usual.named["date"], usual.named["home"], usual.named["away"], *usual.sides.values()]
        return "oddsportal", f"the columns {', '.join(present)}", delimiter
    own = mapping.get("columns")
    lacks = f", nor {own['fixture']!r:.80} as the mapping says" if isinstance(own, Mapping) and "fixture" in own else ""
    return f"a CSV with the columns {_list(columns)}, which name no fixture, time and odds{lacks}"


def _of_probabilities(found: Probabilities, columns: Sequence[str], delimiter: str) -> Finding | str:
    """Recognise a table of probabilities, which can be read without odds if its rows have a time."""
    if {"fixture", "time"} <= {*columns} and "odds" not in columns:
        mapping = {"probabilities": found.sides, "percent": found.percent}
        return "csv", f"the columns fixture and time, and probabilities without odds in {found}", delimiter, mapping
    return (
        f"probabilities, not odds: the columns {found}. Nobody offers them to be bet, and the table does not say when they "
        "stood. To value bets by them give a CSV with a fixture, a time and odds besides them, and a mapping of them, as "
        f"probabilities: {{{', '.join(f'{side}: {column}' for side, column in found.sides.items())}}}; if they are prices of "
        "an exchange, say so by --odds-format probability"
    )


def _of_columns(columns: Sequence[str], mapping: Mapping[str, Any], table: str) -> Finding | None:
    """Recognise a table by columns that both CSV and Parquet can have."""
    named = {*columns}
    price = next((column for column in trades.PRICES if column in named), None)
    if price is not None and "taker_side" in named:
        return "trades", f"the columns {price} and taker_side", ""
    meanings = mapping.get("columns")
    if isinstance(meanings, Mapping) and meanings.get("fixture") in named:
        return table, f"columns, and a mapping names that of the fixture, {meanings['fixture']!r}", ""
    if {*_LONG} <= named:
        return table, f"the columns {', '.join(_LONG)}", ""
    fair = (*_LONG[:3], "probability")
    if {*fair} <= named:
        return table, f"the columns {', '.join(fair)}, and no odds", "", {"columns": {"probability": "probability"}}
    return None


def _list(columns: Sequence[str]) -> str:
    return ", ".join(columns[:_MAX_LISTED]) + (f" and {len(columns) - _MAX_LISTED} more" if len(columns) > _MAX_LISTED else "")


def _of_json(path: Path, head: bytes, _mapping: Mapping[str, Any]) -> Finding | str:
    try:
        if is_a_line(head):
            document = orjson.loads(head.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0])
        else:
            document = orjson.loads(whole(path).removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        return f"JSON that breaks off or is not valid, at its line {error.lineno}: {error.msg}"
    except SourceError as error:
        return f"JSON that can't be read: {error}"
    found = of_document(document)
    if found is not None:
        return *found, ""
    some = document[0] if isinstance(document, list) and document else document
    keys = f"the keys {_list([str(key) for key in some])}" if isinstance(some, dict) and some else f"{str(some)[:60]!r}"
    return f"JSON with {keys}"


def of_document(document: Any) -> tuple[str, str] | None:
    """Return the source of a JSON document and the reason, or ``None``."""
    some = document[0] if isinstance(document, list) and document else document
    if not isinstance(some, dict):
        return None
    if some.get("op") == "mcm":
        return "betfair", '"op":"mcm"'
    if {"FixtureId", "SuperOddsType"} <= some.keys():
        return "txline", '"FixtureId" and "SuperOddsType"'
    if {"native_price", "market_ref"} <= some.keys():
        return "polymarket", '"native_price" and "market_ref"'
    if {"fixture_id", "event_slug", "kickoff_ts"} <= some.keys():
        return "polymarket", '"event_slug" and "kickoff_ts" of fixtures'
    if {*_EVENT} <= some.keys():
        return "the-odds-api", f'"{_EVENT[0]}" and "{_EVENT[1]}"'
    if {"timestamp", "data"} <= some.keys() and "previous_timestamp" in some:
        return "the-odds-api", '"timestamp", "previous_timestamp" and "data"'
    if {*oddsharvester.NEEDED} <= some.keys():
        return "oddsharvester", '"match_date", "home_team" and "away_team"'
    if (parts := parts_of(some)) is not None:
        return "kalshi", f"{parts[0][0]}s of Kalshi's tickers" if parts else "an answer of Kalshi"
    return None


def _of_tar(path: Path, head: bytes, _mapping: Mapping[str, Any]) -> Finding | str:
    names: list[str] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(head), mode="r|") as tar:
            names.extend(member.name for member in islice((member for member in tar if member.isfile()), _MAX_LISTED))
    except (tarfile.TarError, EOFError, OSError):
        pass  # the head ends within a member: the names before it are enough
    if path.suffix == ".tar" and any(_MARKET.fullmatch(Path(name).name) for name in names):
        return "betfair", f"files named as Betfair's markets, such as {names[0]}", ""
    return f"a tar archive of {_list([printable(name) for name in names]) or 'nothing that is a file'}"


_INSPECTIONS: Mapping[ArchiveKind, Callable[[Path, bytes, Mapping[str, Any]], Finding | str]] = {
    ArchiveKind.PARQUET: _of_parquet,
    ArchiveKind.TEXT: _of_text,
    ArchiveKind.JSON: _of_json,
    ArchiveKind.TAR: _of_tar,
}
