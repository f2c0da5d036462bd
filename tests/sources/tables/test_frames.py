import hashlib
from datetime import UTC, date, datetime, timedelta, timezone

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import clvlab as cl
from clvlab.errors import SourceError
from clvlab.sources.tables.files import frame_csv

ROWS = {
    "fixture": ["m"] * 4,
    "time": [datetime(2026, 3, 1, 12, tzinfo=UTC)] * 2 + [datetime(2026, 3, 1, 13, tzinfo=UTC)] * 2,
    "market": ["1X2||"] * 4,
    "side": ["home", "away"] * 2,
    "odds": [2.1, 1.8, 2.2, None],
}
FRAME = pl.DataFrame(ROWS)
WRITTEN = b"""fixture,time,market,side,odds
m,2026-03-01T12:00:00.000000Z,1X2||,home,2.1
m,2026-03-01T12:00:00.000000Z,1X2||,away,1.8
m,2026-03-01T13:00:00.000000Z,1X2||,home,2.2
m,2026-03-01T13:00:00.000000Z,1X2||,away,
"""


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        FRAME.lazy(),
        FRAME.to_arrow(),
        FRAME.to_pandas(),
        FRAME.to_pandas().set_index("fixture"),
        FRAME.with_columns(pl.col("side").cast(pl.Categorical), pl.col("odds").fill_null(float("nan"))),
        FRAME.with_columns(pl.col("time").dt.convert_time_zone("Asia/Tokyo").dt.cast_time_unit("ns")),
        FRAME.rename({"odds": " odds "}),
    ],
    ids=["polars", "lazy", "arrow", "pandas", "index", "categories", "zone", "blanks"],
)
@pytest.mark.parametrize("source", ["csv", "parquet"])
def test_what_people_hold_is_imported_as_one_csv(tmp_path, frame, source):
    (tmp_path / "frame.csv").write_bytes(WRITTEN)

    assert frame_csv(frame, source) == WRITTEN
    pack = cl.import_odds(source, frame, tmp_path / "of-frame")
    of_file = cl.import_odds("csv", tmp_path / "frame.csv", tmp_path / "of-file")

    assert pack.content_hash == of_file.content_hash
    (named,) = pack.source.manifest.sources
    assert (named.name, named.digest) == ("frame.csv", f"sha256:{hashlib.sha256(WRITTEN).hexdigest()}")


def test_a_mapping_and_its_delimiter_are_those_of_columns(tmp_path):
    wide = pl.DataFrame({"id": [7], "when": ["2026-01-02 12:00"], "H": [110], "A": [-120]})
    mapping = {
        "columns": {"fixture": "id", "time": "when"}, "sides": {"home": "H", "away": "A"}, "odds_format": "american",
        "delimiter": ";",
    }  # fmt: skip

    pack = cl.import_odds("csv", wide, tmp_path / "wide", mapping=mapping, time_zone="Europe/London")

    assert pack.ticks()["odds_milli"].to_list() == [1833, 2100]


def test_a_laboratory_keeps_the_pack_of_a_frame_once():
    lab = cl.Lab()

    first = lab.import_odds("csv", FRAME, "mine")

    assert lab.import_odds("csv", FRAME.to_pandas(), pack_id="mine").content_hash == first.content_hash
    assert "mine" in list(lab.packs().frame["pack_id"])


def test_a_season_is_written_as_its_source_writes_it():
    season = pd.DataFrame(
        {"Div": ["E0", "E0"], "Date": pd.to_datetime(["2026-03-01", "2026-03-02"]), "FTHG": [2, None], "B365H": [2.5, 3.0]}
    )

    assert frame_csv(season, "football-data") == b"Div,Date,FTHG,B365H\nE0,01/03/2026,2,2.5\nE0,02/03/2026,,3.0\n"
    assert frame_csv(pl.DataFrame({"Date": [date(2026, 3, 1)]}), "football-data") == b"Date\n01/03/2026\n"


def test_a_season_gives_the_pack_of_its_file(tmp_path):
    head = "Div,Date,Time,HomeTeam,AwayTeam,FTHG,FTAG,FTR,PSH,PSD,PSA,PSCH,PSCD,PSCA\n"
    (tmp_path / "frame.csv").write_text(f"{head}E0,01/03/2026,15:00,Oak,Elm,2,1,H,2.1,3.4,3.6,2.05,3.5,3.75\n")

    of_file = cl.import_odds("football-data", tmp_path / "frame.csv", tmp_path / "of-file")
    pack = cl.import_odds("football-data", pd.read_csv(tmp_path / "frame.csv"), tmp_path / "of-frame")

    assert pack.content_hash == of_file.content_hash
    assert pack.results is not None


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME["odds"], "a single column is no table of odds"),
        (FRAME.with_columns(extra=pl.lit([1, 2])), r"column 'extra' is List\(Int64\), which no table of odds has: drop it"),
        (FRAME.with_columns(extra=timedelta(hours=1)), "column 'extra' is Duration"),
        (pd.DataFrame({"odds": [2.1, "x"], "time": [1, 2]}), "the frame can't be read: .*: .*; make each column one type"),
        (FRAME.with_columns(odds=pl.lit(value=True)), "column 'odds' is bool and can't be the odds"),
    ],
)
def test_a_frame_that_is_no_table_of_odds_is_refused(tmp_path, frame, message):
    with pytest.raises(SourceError, match=message):
        cl.import_odds("csv", frame, tmp_path / "p")

    assert not (tmp_path / "p").exists()


def test_times_of_any_offset_are_written_in_utc():
    kolkata = timezone(timedelta(hours=5, minutes=30))
    table = pa.table({"fixture": ["m"], "side": ["home"], "odds": [2.0], "time": [datetime(2026, 3, 1, 12, tzinfo=kolkata)]})

    assert frame_csv(table, "csv").splitlines()[1] == b"m,home,2.0,2026-03-01T06:30:00.000000Z"
