import bz2
import gzip
import io
import json
import tarfile
from contextlib import suppress

import polars as pl
import pytest
import yaml

from clvlab import import_odds
from clvlab.errors import SourceError
from clvlab.packs.synthetic import Recipe, build
from clvlab.sources.importer import import_options, import_source
from clvlab.sources.providers import IMPORTERS
from clvlab.sources.recognition import LOOKED_FOR, recognise_file, recognition_of
from tests.commands import clvlab
from tests.samples.__main__ import SOURCES as SAMPLES

LONG = "fixture,time,side,odds\nm,2026-01-02T12:00:00Z,a,2.0\nm,2026-01-02T12:00:00Z,b,2.0\n"
SEASON = "Div,Date,Time,HomeTeam,AwayTeam,FTHG,FTAG,FTR,PSCH,PSCD,PSCA\nE0,13/08/2021,20:00,Ash,Elm,2,1,H,2.0,3.5,4.0\n"
PORTAL = "date,time,home,away,1,X,2\n01/03/2026,15:00,Ash,Elm,2.00,3.50,4.00\n"
TEXTS = {"csv": LONG, "football-data": SEASON, "oddsportal": PORTAL}

# The source recognised in each file of real odds, or the content of a file of no source.
REAL = {
    "betfair-stream/*.bz2": "betfair",
    "betfair-stream/catalogue-*.json": "JSON with the keys marketId, marketName",
    "football-data/*.csv.gz": "football-data",
    "other/BBL14_All_Markets.csv.gz": "betfair-csv",
    "other/BBL14_LICENSE.txt": "text that begins with",
    "other/kalshi_orderbook.json.gz": "kalshi",
    "other/nhl_snapshots_sample.tar.gz": "a tar archive of ./data/heartbeat.csv, ",
    "polymarket/*/*.jsonl.gz": "polymarket",
    "polymarket/fixtures.json": "polymarket",
    "the-odds-api/*_ticks.parquet": "the-odds-api",
    "the-odds-api/*_fixtures.csv": "the fixtures of The Odds API's changes: give the file NAME_ticks.parquet",
    "the-odds-api/worldcup_h2h_consensus.parquet": "Parquet with the columns",
    "the-odds-api/raw-sample/*.json.gz": "the-odds-api",
    "txline/*.jsonl.gz": "txline",
}


@pytest.mark.realdata
def test_every_file_of_real_odds_is_recognised_or_refused_for_what_it_holds(realdata):
    known = {file: content for pattern, content in REAL.items() for file in realdata.glob(pattern)}
    others = [file for file in realdata.rglob("*") if file.is_file() and file not in known]  # that came since

    for file, content in known.items():
        if content in IMPORTERS:
            assert recognise_file(file).source == content, file
        else:
            with pytest.raises(SourceError, match="is of no source that is known") as refused:
                recognise_file(file)
            assert f"it holds {content}" in str(refused.value), file
    for file in others:
        with suppress(SourceError):
            assert recognise_file(file).source in IMPORTERS


@pytest.mark.realdata
def test_each_pattern_of_real_odds_has_files(realdata):
    assert [pattern for pattern in REAL if not any(realdata.glob(pattern))] == []


@pytest.mark.realdata
@pytest.mark.parametrize("source", ["betfair", "football-data", "polymarket", "the-odds-api", "txline"])
def test_folders_of_real_odds_are_recognised_by_their_files(realdata, source):
    folder = realdata / ("betfair-stream" if source == "betfair" else source)

    assert recognition_of([folder]).source == source


@pytest.mark.parametrize("source", SAMPLES)
def test_samples_are_recognised_and_imported_without_their_source(tmp_path, source):
    (tmp_path / "sample").mkdir()
    SAMPLES[source].write(tmp_path / "sample")
    assets = tmp_path / "sample.yml"
    options = ["--mapping", assets] if assets.exists() else ["--time-zone", "UTC"]

    code, out, err = clvlab(tmp_path, "packs", "import", "sample", "--out", "p", *options)

    assert code == 0, err
    assert out.startswith(f"Recognised {source}, for ")
    for file in (tmp_path / "sample").iterdir():
        assert recognise_file(file).source == source


COUSINS = {
    "as it is": lambda text: text.encode(),
    "marked as UTF-8": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "packed": lambda text: gzip.compress(text.encode()),
    "packed otherwise": lambda text: bz2.compress(text.encode()),
    "with the lines of Windows": lambda text: text.replace("\n", "\r\n").encode(),
}


@pytest.mark.parametrize("cousin", COUSINS)
@pytest.mark.parametrize("source", TEXTS)
@pytest.mark.parametrize("name", ["mine.csv", "no ending"])
def test_a_table_is_recognised_and_imported_however_it_is_named_and_packed(tmp_path, cousin, source, name):
    (tmp_path / name).write_bytes(COUSINS[cousin](TEXTS[source]))

    report = import_source(None, [tmp_path / name], tmp_path / "p", import_options(time_zone="UTC"))

    assert (report.recognised.source, report.quality.fixtures) == (source, 1)


@pytest.mark.parametrize("delimiter", ";\t|")
def test_other_delimiters_are_read_where_the_source_can_and_named_where_it_cant(tmp_path, delimiter):
    for source, text in TEXTS.items():
        (tmp_path / source).write_text(text.replace(",", delimiter))

    assert recognition_of([tmp_path / "oddsportal"]).source == "oddsportal"
    assert import_source(None, [tmp_path / "csv"], tmp_path / "p").quality.fixtures == 1
    with pytest.raises(SourceError, match=r"a season of football-data whose cells are separated by .* save it with commas"):
        recognition_of([tmp_path / "football-data"])


NOTHINGS = {
    "nothing": b"",
    "nothing.": b" \n\n",
    "bytes that are no text": b"\x00\x01\x02",
    "a zip archive, which has to be unpacked": b"PK\x03\x04rest",
    "a 7z archive, which has to be unpacked": b"7z\xbc\xaf\x27\x1crest",
    "a RAR archive, which has to be unpacked": b"Rar!\x1a\x07rest",
    "bytes compressed with Zstandard, which has to be unpacked": b"\x28\xb5\x2f\xfdrest",
    "a spreadsheet, which has to be saved as CSV": b"PK\x03\x04" + bytes(26) + b"[Content_Types].xml",
    "text in UTF-16, which has to be saved as UTF-8": LONG.encode("utf-16"),
    "JSON with the keys a": b'{"a": 1}',
    "JSON with '\\[\\]'": b"[]",
    "JSON with '7'": b"[7]",
    "JSON that breaks off or is not valid, at its line 1": b'[{"sport_key": "s", "commence_time"',
    "Parquet that can't be read": b"PAR1 and no more",
    "text that begins with 'hello'": b"hello\nworld\n",
    "a CSV with the columns a, b, which name no fixture": b"a,b\n1,2\n",
    "nothing\\. Name": gzip.compress(b""),
}


@pytest.mark.parametrize("held", NOTHINGS)
def test_what_is_no_source_is_refused_with_what_was_looked_for(tmp_path, held):
    (tmp_path / "x").write_bytes(NOTHINGS[held])

    with pytest.raises(SourceError, match=f"'x' is of no source that is known: it holds {held}") as refused:
        recognition_of([tmp_path / "x"])

    assert all(f"\n  {source}: " in str(refused.value) for source in IMPORTERS)
    assert LOOKED_FOR.keys() == IMPORTERS.keys()


def test_a_file_that_was_cut_off_is_recognised_and_then_refused_for_that(tmp_path):
    whole = gzip.compress("".join(f'{{"FixtureId": {n}, "SuperOddsType": "{n * 7919}"}}\n' for n in range(9000)).encode())
    (tmp_path / "odds_1.jsonl.gz").write_bytes(whole[: len(whole) // 2])

    assert recognition_of([tmp_path / "odds_1.jsonl.gz"]).source == "txline"
    with pytest.raises(SourceError, match=r"odds_1\.jsonl\.gz"):
        import_source(None, [tmp_path / "odds_1.jsonl.gz"], tmp_path / "p")


def test_a_pack_and_its_ticks_need_no_import(tmp_path):
    build(Recipe(1, 2, 20), tmp_path / "pack")

    with pytest.raises(SourceError, match="is a pack already"):
        recognition_of([tmp_path / "pack"])
    with pytest.raises(SourceError, match="the ticks of a pack, which needs no import"):
        recognition_of([tmp_path / "pack" / "ticks.parquet"])


def test_parquet_under_another_name_is_recognised_and_has_to_be_renamed(tmp_path):
    pl.read_csv(LONG.encode()).write_parquet(tmp_path / "x.dat")

    with pytest.raises(SourceError, match=r"it holds Parquet of parquet, and its name does not end in \.parquet: rename it"):
        recognition_of([tmp_path / "x.dat"])


def test_python_leaves_the_source_out_as_none_and_a_frame_needs_one(tmp_path):
    (tmp_path / "mine.csv").write_text(LONG)

    assert import_odds(None, tmp_path / "mine.csv", tmp_path / "p").quality.ticks == 1
    with pytest.raises(SourceError, match="a frame does not tell its source: name it"):
        import_odds(None, pl.read_csv(LONG.encode()), tmp_path / "q")


def test_files_of_several_sources_are_named(tmp_path):
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    for n in (1, 2):
        (tmp_path / f"portal{n}").write_text(PORTAL)

    with pytest.raises(
        SourceError,
        match=r"several sources: csv, for csv has .*; football-data, .*; oddsportal, .*, as 2 more files have",
    ):
        recognition_of([tmp_path])
    with pytest.raises(SourceError, match="there is no file in"):
        recognition_of([(tmp_path / "empty").mkdir() or tmp_path / "empty"])


def test_a_tar_of_streams_is_betfairs_and_any_other_is_named_by_what_it_holds(tmp_path):
    for name, member in (("own.tar", "1.234.bz2"), ("other.tar", "odds.csv"), ("packed.tar", "odds.csv.bz2")):
        with tarfile.open(tmp_path / name, "w") as tar:
            tar.addfile(tarfile.TarInfo(member), io.BytesIO())

    assert recognition_of([tmp_path / "own.tar"]).source == "betfair"
    for name, member in (("other.tar", "odds.csv"), ("packed.tar", "odds.csv.bz2")):
        with pytest.raises(SourceError, match=f"it holds a tar archive of {member}\\."):
            recognition_of([tmp_path / name])


def test_a_folder_is_recognised_however_many_files_of_no_source_come_first_in_it(tmp_path):
    for n in range(200):
        (tmp_path / f"a{n:03}.txt").write_text(f"day {n}\n")
    (tmp_path / "z.csv").write_text(LONG)

    assert recognition_of([tmp_path]).source == "csv"


def test_a_table_with_a_mapping_is_ones_own(tmp_path):
    (tmp_path / "x.csv").write_text("id;when;H;A\n7;2026-01-02T12:00Z;2.0;2.0\n")
    pl.DataFrame({"id": [7], "when": ["2026-01-02T12:00Z"], "H": [2.0], "A": [2.0]}).write_parquet(tmp_path / "x.parquet")
    mapping = {"columns": {"fixture": "id", "time": "when"}, "sides": {"part1": "H", "part2": "A"}}
    options = import_options(mapping=mapping)

    for name, source in (("x.csv", "csv"), ("x.parquet", "parquet")):
        report = import_source(None, [tmp_path / name], tmp_path / source, options)
        assert (report.recognised.source, report.quality.ticks) == (source, 1)


WRONG = [("csv", "football-data"), ("oddsportal", "csv"), ("football-data", "oddsportal"), ("kalshi", "csv"), ("txline", "csv")]


@pytest.mark.parametrize(("named", "own"), WRONG)
def test_a_wrong_source_says_which_one_it_looks_like(tmp_path, named, own):
    (tmp_path / "x.csv").write_text(TEXTS[own])

    with pytest.raises(SourceError, match=rf"; by its content this is {own}, for x\.csv has the columns "):
        import_source(named, [tmp_path / "x.csv"], tmp_path / "p")


def test_a_right_source_and_a_file_of_none_say_nothing_of_others(tmp_path):
    (tmp_path / "own.csv").write_text(LONG + "m,x,a,2.0\n")
    (tmp_path / "none.csv").write_text("a,b\n1,2\n")

    for name in ("own.csv", "none.csv"):
        with pytest.raises(SourceError) as refused:
            import_source("csv", [tmp_path / name], tmp_path / "p")
        assert "by its content" not in str(refused.value)


def test_the_first_word_is_a_source_where_files_follow_and_else_a_file(tmp_path):
    for name in ("csv", "a.csv", "b.csv"):
        (tmp_path / name).write_text(LONG.replace("\nm,", f"\n{name},"))

    assert clvlab(tmp_path, "packs", "import", "csv", "a.csv", "--out", "named")[0] == 0
    code, out, _ = clvlab(tmp_path, "packs", "import", "a.csv", "b.csv", "csv", "--out", "told")
    assert (code, out.splitlines()[1][:25]) == (0, "Read 6 messages of 3 files"[:25])
    assert clvlab(tmp_path, "packs", "import", "csv", "--out", "alone")[0] == 0
    code, _, err = clvlab(tmp_path, "packs", "import", "txline", "--out", "none")
    assert (code, "name a file or folder" in err) == (2, True)


def test_a_mapping_is_distinguished_from_another_by_its_keys(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps({"trades": []}))
    (tmp_path / "table.yml").write_text(yaml.safe_dump({"columns": {"fixture": "id"}, "sides": {"a": "b"}}))

    with pytest.raises(SourceError, match="kalshi takes a mapping of fixtures, not of a table's columns"):
        import_source(None, [tmp_path / "x.json"], tmp_path / "p", import_options(mapping=tmp_path / "table.yml"))
