"""What holds of an import whatever its source: it ends with a whole pack, or with none."""

import gzip
import re
import signal
import subprocess
import sys
from dataclasses import replace

import orjson
import pytest

import clvlab as cl
from clvlab.errors import ArgumentError, OddsError, PackFormatError, SourceError, WindowError
from clvlab.law.schema import TICKS, ClosingPolicy
from clvlab.odds.margin import Margin
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_files, import_source
from clvlab.sources.source import ImportStats, Options, SourceData
from tests.length import few
from tests.packs.test_writer import BROKEN, MANIFEST, ticks
from tests.packs.test_writer import message as tick
from tests.samples.__main__ import SOURCES
from tests.sources.betfair.test_history import OPENING, change, offers, stream

HEADER = "fixture,time,side,odds"
ROWS = [f"m{n},{1_767_355_200 + n},{side},2.0" for n in range(500) for side in ("home", "away")]

KILLED = """
import os, signal, sys
from pathlib import Path
from clvlab.sources.importer import import_source
from clvlab.sources.source import Options

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

source, out, moment = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
told = lambda text: die() if text.endswith(moment) else None
sys.addaudithook(lambda event, args: die() if event == moment and str(args[1]) == str(out) else None)
import_source("csv", [source], out, Options(chunk_rows=100, progress=told))
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "odds.csv"
    path.write_text("\n".join([HEADER, *ROWS]) + "\n")
    return path


@few(1)
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system can't kill a process without a word")
@pytest.mark.parametrize("moment", ["600 rows read", "300 ticks written", "500 ticks written", "os.rename"])
def test_an_import_that_is_killed_leaves_no_pack_and_may_be_repeated(table, tmp_path, moment):
    out = tmp_path / "p"

    killed = subprocess.run([sys.executable, "-c", KILLED, str(table), str(out), moment], check=False)

    assert killed.returncode == -signal.SIGKILL
    assert not out.exists()
    import_source("csv", [table], out)
    assert len(verify_pack(out).fixture_ids) == 500


@pytest.mark.parametrize("limit", [0, -1, True, 3600.0, "3600", 9_007_199_255])
def test_a_limit_that_is_no_positive_number_of_seconds_is_refused(limit):
    with pytest.raises(WindowError, match=f"max_close_age_s must be a whole number of seconds from 1 .*, not {limit!r}"):
        Options(max_close_age_s=limit)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("margin", "magic", OddsError), ("odds_format", "roman", OddsError), ("min_books", 0, OddsError),
        ("max_age_s", -1, OddsError), ("max_overround", 30, OddsError), ("weights", ["a"], OddsError),
        ("closing", "average", OddsError), ("time_zone", 1, SourceError), ("lenient", "no", ArgumentError),
        ("books", "yes", ArgumentError), ("ladders", "yes", ArgumentError), ("progress", "print", ArgumentError),
        ("mapping", ["time"], SourceError),
    ],
)  # fmt: skip
def test_options_are_checked_whoever_makes_them(name, value, error):
    with pytest.raises(error, match=re.escape(repr(value))):
        replace(Options(), **{name: value})


def test_options_are_of_one_form_however_they_are_written():
    assert Options(margin="power", weights=None, closing=["average"]) == Options(
        margin=Margin.POWER, weights={}, closing=("average",)
    )


def test_an_import_that_gives_no_tick_is_refused_with_a_reason(tmp_path):
    (tmp_path / "odds.csv").write_text(f"{HEADER}\nm,soon,home,2.0\n")

    with pytest.raises(SourceError, match=r"no tick could be made of odds\.csv; refused 1, as odds\.csv:2: 'soon' is no"):
        import_source("csv", [tmp_path / "odds.csv"], tmp_path / "p", Options(lenient=True))
    assert [path.name for path in tmp_path.iterdir()] == ["odds.csv"]


def without(column):
    """Ticks of two messages, of which the first lacks a value."""
    at = list(TICKS).index(column)
    return [(*row[:at], None, *row[at + 1 :]) for row in tick(0, 1000, [4000, 6000])] + tick(1, 2000, [4000, 6000])


LACKING = {f"no {column}": without(column) for column in ("tick_seq", "ts_ms", "in_running", "suspended")}


@pytest.mark.parametrize("policy", ClosingPolicy)
@pytest.mark.parametrize("rule", [*BROKEN, *LACKING])
def test_ticks_of_a_source_that_break_a_rule_are_refused_and_nothing_is_left(tmp_path, rule, policy):
    rows = (BROKEN | LACKING)[rule]

    def normalise(*_):
        account = ImportStats(lenient=False)
        return SourceData([ticks(*rows)], MANIFEST.fixtures, account, "imported", "x", "none", "none", closing_policy=policy)

    with pytest.raises(PackFormatError, match="the first is"):
        import_files({}, normalise, tmp_path / "p")
    assert list(tmp_path.iterdir()) == []


def test_of_a_table_that_is_cut_off_the_rows_before_are_kept_when_lenient(tmp_path):
    path = tmp_path / "odds.csv.gz"
    path.write_bytes(gzip.compress("\n".join([HEADER, *ROWS, ""]).encode())[:-8])

    with pytest.raises(SourceError, match=r"odds\.csv\.gz: can't be read to its end"):
        import_source("csv", [path], tmp_path / "p")
    report = import_source("csv", [path], tmp_path / "p", Options(lenient=True))

    assert (report.quality.messages, report.quality.ticks) == (1000, 500)
    (refused,) = report.quality.refused
    assert (refused.count, refused.examples) == (1, ("odds.csv.gz",))
    assert refused.reason.startswith("a file can't be read to its end: Compressed file ended")


MESSAGE = {
    "FixtureId": 1, "MessageId": "a", "Ts": 1_772_370_000_000, "Bookmaker": "TXLineStablePriceDemargined", "BookmakerId": 10021,
    "SuperOddsType": "1X2_PARTICIPANT_RESULT", "GameState": None, "InRunning": False, "MarketParameters": None,
    "MarketPeriod": None, "PriceNames": ["part1", "part2"], "Prices": [1900, 1900], "Pct": ["50.000", "50.000"],
}  # fmt: skip


def without_books(source, folder):
    """Files of a source that says one price a side, and the mapping that they need."""
    match source:
        case "betfair":
            stream(folder, OPENING, change(5, rc=[offers(1, 1.95, 2.05)]))
        case "txline":
            (folder / "odds_1.jsonl").write_bytes(orjson.dumps(MESSAGE))
        case _:
            SOURCES[source].write(folder / "files")
            return folder / "files", folder / "files.yml"
    return folder, None


@pytest.mark.parametrize("source", ["kalshi", "trades", "txline"])
def test_a_source_without_depth_takes_no_ladders(tmp_path, source):
    (tmp_path / "files").mkdir()
    path, mapping = without_books(source, tmp_path)

    with pytest.raises(SourceError, match=f"{source}/. reads no ladders: leave ladders out"):
        cl.import_odds(source, path, tmp_path / "pack", mapping=mapping, ladders=True)

    assert not (tmp_path / "pack").exists()


@pytest.mark.parametrize("source", ["betfair", "kalshi", "pmxt", "trades", "txline"])
@pytest.mark.parametrize("option", [{"books": True}, {"max_overround": 0.2}])
def test_a_source_without_books_takes_no_option_of_books(tmp_path, source, option):
    (tmp_path / "files").mkdir()
    path, mapping = without_books(source, tmp_path)
    cl.import_odds(source, path, tmp_path / "fine", mapping=mapping)

    with pytest.raises(SourceError, match=f"{source}/. reads no single books"):
        cl.import_odds(source, path, tmp_path / "pack", mapping=mapping, **option)

    assert not (tmp_path / "pack").exists()
