"""Whatever a source holds, an import gives a pack or one of our errors, and leaves nothing half written."""

import copy
import random
import tempfile
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clvlab.errors import ClvlabError
from clvlab.packs.importers.importing import import_source
from clvlab.packs.importers.source import Options
from clvlab.packs.reader import verify_pack

DEFINITION = {
    "status": "OPEN", "inPlay": False, "marketTime": "2022-04-15T06:00:00.000Z", "eventId": "9", "eventTypeId": "2",
    "marketType": "MATCH_ODDS", "numberOfWinners": 1, "bettingType": "ODDS", "eventName": "Ash v Elm",
    "runners": [{"id": 1, "status": "ACTIVE", "name": "Ash", "hc": 0}, {"id": 2, "status": "ACTIVE", "name": "Elm"}],
}  # fmt: skip
FULL = {"id": 1, "atb": [[1.9, 10]], "atl": [[2.1, 10]], "ltp": 2.0}
BEST = {"id": 2, "batb": [[0, 1.9, 10]], "batl": [[0, 2.1, 9]]}
OPENING = {"id": "1.1", "img": True, "marketDefinition": DEFINITION, "rc": [FULL, BEST]}
STREAM = [
    {"op": "mcm", "clk": None, "pt": 1_650_000_000_000, "mc": [OPENING]},
    {"op": "mcm", "clk": "x", "pt": 1_650_000_001_000, "mc": [{"id": "1.1", "rc": [{"id": 1, "atb": [[1.9, 0], [1.8, 3]]}]}]},
]
SNAPSHOT = {"timestamp": "2026-07-04T12:00:00Z", "data": [{
    "id": "e", "sport_key": "s", "commence_time": "2026-07-04T17:00:00Z", "home_team": "Ash", "away_team": "Elm",
    "bookmakers": [{"key": "a", "title": "A", "last_update": "2026-07-04T11:59:00Z", "markets": [
        {"key": "spreads", "last_update": "2026-07-04T11:59:00Z", "outcomes": [
            {"name": "Ash", "price": 1.9, "point": -1.5}, {"name": "Elm", "price": 1.9, "point": 1.5}]}]}],
}]}  # fmt: skip
MESSAGE = {
    "FixtureId": 7, "MessageId": "a", "Ts": 1_700_000_000_000, "Bookmaker": "TXLineStablePriceDemargined", "InRunning": False,
    "SuperOddsType": "OU", "MarketParameters": "line=1.5", "MarketPeriod": None, "PriceNames": ["over", "under"],
    "Prices": [2833, 1545], "Pct": ["35.298", "64.725"],
}  # fmt: skip
SOURCES = {
    "betfair": ("1.1", STREAM),
    "the-odds-api": ("x.json", [SNAPSHOT]),
    "txline": ("odds_7.jsonl", [MESSAGE, MESSAGE | {"MessageId": "b", "Ts": 1_700_000_001_000}]),
}
VALUES = [
    None,
    True,
    -1,
    0,
    1e308,
    2**60,
    "",
    "x",
    "\x00",
    "NaN",
    [],
    [1],
    [[1, 2]],
    {},
    {"id": 1},
    0.5,
    "2026-01-01",
    "Infinity",
]


def places(value, path=()):
    """Every place in a document, its own included."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def damaged(documents, dice):
    """A copy with one to three places replaced or taken away."""
    found = copy.deepcopy(documents)
    for _ in range(dice.randint(1, 3)):
        *path, last = dice.choice([place for place in places(found) if place])
        parent = found
        for key in path:
            parent = parent[key]
        if isinstance(parent, dict) and dice.random() < 0.3:
            del parent[last]
        else:
            parent[last] = copy.deepcopy(dice.choice(VALUES))
    return found


@pytest.mark.parametrize("source", SOURCES)
@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_a_damaged_document_becomes_a_pack_or_an_error_of_ours(source, seed):
    name, documents = SOURCES[source]
    dice = random.Random(seed)
    text = b"\n".join(orjson.dumps(document) for document in damaged(documents, dice))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(text)
        try:
            import_source(source, [path], Path(folder) / "p", Options(lenient=dice.random() < 0.8, min_books=1))
        except ClvlabError:
            assert [entry.name for entry in Path(folder).iterdir()] == [name]
        else:
            verify_pack(Path(folder) / "p")


@pytest.mark.parametrize("source", ["csv", "football-data"])
@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_a_damaged_table_becomes_a_pack_or_an_error_of_ours(source, seed):
    text = {
        "csv": b"fixture,time,side,odds,kickoff,result\nm,2026-01-02T12:00:00Z,a,2.0,2026-01-02T13:00:00Z,won\n"
        b"m,2026-01-02T12:00:00Z,b,2.0,2026-01-02T13:00:00Z,lost\n",
        "football-data": b"Div,Date,Time,HomeTeam,AwayTeam,FTHG,FTAG,FTR,PSCH,PSCD,PSCA,AHCh,PCAHH,PCAHA\n"
        b"E0,13/08/2021,20:00,Ash,Elm,2,1,H,2.0,3.5,4.0,-0.5,1.9,1.9\n",
    }[source]
    dice = random.Random(seed)
    content = bytearray(text)
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(content))
        content[at : at + dice.randint(0, 3)] = dice.choice(
            [b"", b",", b"\n", b'"', b"\xff", b"\x00", b"-", b"9", b"e9", b"nan"]
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.csv"
        path.write_bytes(bytes(content))
        try:
            import_source(source, [path], Path(folder) / "p", Options(lenient=dice.random() < 0.8))
        except ClvlabError:
            assert [entry.name for entry in Path(folder).iterdir()] == ["x.csv"]
        else:
            verify_pack(Path(folder) / "p")
