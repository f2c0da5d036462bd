import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import PackFormatError, PackTamperedError
from clvlab.packs.quality import QualityAccount, Spread
from clvlab.packs.reader import load_pack
from clvlab.packs.rows import results_digest, sorted_results
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_options, import_source
from tests.factories import MARKET, make_tape, message
from tests.length import whole_only

pytestmark = pytest.mark.long

DAMAGED = """fixture,time,market,side,odds,book,kickoff
m1,2026-01-02T12:00:00Z,a,home,2.0,x,2026-01-02T15:00:00Z
m1,2026-01-02T12:00:00Z,a,away,1.8,x,2026-01-02T15:00:00Z
m1,2026-01-02T12:00:00Z,a,home,2.1,y,2026-01-02T15:00:00Z
m1,2026-01-02T12:00:00Z,a,away,1.8,y,2026-01-02T15:00:00Z
m1,2026-01-02T12:00:00Z,a,away,1.8,y,2026-01-02T15:00:00Z
m1,2026-01-02T14:00:00Z,a,home,0.9,x,2026-01-02T15:00:00Z
m1,2026-01-02T14:00:00Z,a,away,1.8,x,2026-01-02T15:00:00Z
m1,yesterday,a,home,2.0,x,2026-01-02T15:00:00Z
m1,2026-01-02T14:50:00Z,b,home,2.0,x
m1,2026-01-02T15:10:00Z,a,home,1.1,x,2026-01-02T15:00:00Z
m1,2026-01-02T15:10:00Z,a,away,9.0,x,2026-01-02T15:00:00Z
m2,2026-01-02T12:00:00Z,a,home,2.0,x,
m2,2026-01-02T12:00:00Z,a,away,2.0,x,
"""


@pytest.fixture
def damaged(tmp_path):
    (tmp_path / "odds.csv").write_text(DAMAGED)
    return tmp_path / "odds.csv"


def test_a_report_beyond_its_limit_is_not_read(damaged, tmp_path, monkeypatch):
    import_source("csv", [damaged], tmp_path / "p", import_options(lenient=True))
    pack = load_pack(tmp_path / "p")
    monkeypatch.setattr("clvlab.packs.reader.MAX_DESCRIPTOR_BYTES", 10)

    with pytest.raises(PackFormatError, match=r"quality.json of 'p' has [0-9,]+ bytes, the limit is 10"):
        _ = pack.quality


def test_the_report_is_right_on_a_file_damaged_on_purpose(damaged, tmp_path):
    report = import_source("csv", [damaged], tmp_path / "p", import_options(lenient=True))

    found = report.quality
    assert {row.reason: (row.count, row.examples[0].partition(": ")[0]) for row in found.refused} == {
        "no odds": (1, "odds.csv:7"),
        "a time, fixture or flag can't be read": (1, "odds.csv:9"),
        "a row is too wide or narrow": (1, "odds.csv:10"),
    }
    assert found.notes == {
        "book messages without a price for every side": 1,
        "quotes that repeat another were dropped": 1,
    }
    assert (found.messages, found.fixtures, found.fixtures_without_kickoff, found.markets, found.ticks) == (12, 2, 1, 2, 4)
    assert (found.suspended_ticks, found.suspended_share) == (0, 0.0)
    assert found.books_per_tick == Spread(n=4, min=1, p05=1, median=1, p95=2, max=2)
    assert (found.book_overround_bps.n, found.book_overround_bps.min, found.book_overround_bps.max) == (4, 0, 560)
    assert found.first_tick_before_kickoff_s == Spread(n=1, min=10_800, p05=10_800, median=10_800, p95=10_800, max=10_800)
    assert found.last_tick_before_kickoff_s.max == 3600
    assert found.largest_gap_s.max == 7200
    assert (found.closing_age_s.min, found.closing_age_s.max) == (0, 3600)
    assert (found.markets_without_close, found.markets_suspended_at_close) == (0, 0)


def test_a_pack_shows_its_report_again_in_python_and_on_the_command_line(damaged, tmp_path):
    pack = cl.import_odds("csv", damaged, tmp_path / "p", lenient=True)

    def shown(*options):
        command = [sys.executable, "-m", "clvlab", "packs", "show", str(tmp_path / "p"), *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert pack.quality.ticks == 4
    assert "3 of 12" in pack._repr_html_()
    assert "refused 3" in shown()
    assert "odds.csv:7" in shown()
    assert json.loads(shown("--json"))["quality"]["schema"] == "clvlab-quality/1"


def test_one_of_a_thing_is_no_plural(tmp_path):
    (tmp_path / "odds.csv").write_text("".join(DAMAGED.splitlines(keepends=True)[:3]))

    pack = cl.import_odds("csv", tmp_path / "odds.csv", tmp_path / "p")

    assert ": 1 fixture, 2 rows;" in repr(pack)
    assert repr(pack.quality).startswith("Read 2 messages of 1 file: 1 tick, 0 of them suspended;")


def test_a_report_that_was_changed_is_noticed(damaged, tmp_path):
    import_source("csv", [damaged], tmp_path / "p", import_options(lenient=True))
    path = tmp_path / "p" / "quality.json"
    path.write_text(path.read_text().replace('"count": 1', '"count": 0'))

    with pytest.raises(PackTamperedError, match=r"quality\.json"):
        _ = load_pack(tmp_path / "p").quality
    with pytest.raises(PackTamperedError, match=r"quality\.json"):
        verify_pack(tmp_path / "p")


def test_the_report_stays_outside_the_content_hash(damaged, tmp_path):
    first = import_source("csv", [damaged], tmp_path / "a", import_options(lenient=True)).manifest

    assert "quality" not in json.dumps(first.content)
    assert first.model_copy(update={"quality_sha256": None}).content_hash == first.content_hash


def test_sources_are_named_with_their_digests_and_belong_to_the_content(damaged, tmp_path):
    manifest = import_source("csv", [damaged], tmp_path / "p", import_options(lenient=True)).manifest

    assert [(source.name, source.digest[:7]) for source in manifest.sources] == [("odds.csv", "sha256:")]
    assert manifest.model_copy(update={"sources": None}).content_hash != manifest.content_hash


def test_packs_that_were_not_imported_have_no_report_and_keep_their_hash():
    pack = cl.open_pack("starter")

    assert pack.quality is None
    assert pack.content_hash == "sha256:b53a395a0cb0b4c77bb09206da4618ae2b60ea338722ca2bb8ad33cebc568cd0"


def test_suspended_markets_and_those_without_a_close_are_counted():
    sides = {"draw": 3000, "part1": 4000, "part2": 3000}
    tape = make_tape(
        [
            message(0, 0, sides),
            message(1, 50, dict.fromkeys(sides)),
            message(2, 200, {"over": 5000, "under": 5000}, market_key="OU"),
        ],
        {1: 100},
    )
    account = QualityAccount()

    account.add(tape)
    found = account.report(files=0, fixtures=[100_000])

    assert (found.markets, found.ticks, found.suspended_ticks) == (2, 3, 1)
    assert (found.markets_without_close, found.markets_suspended_at_close, found.closing_age_s) == (1, 1, None)


def test_a_spread_gives_values_that_were_observed():
    assert Spread.of({}) is None
    assert Spread.of({1: 90, 7: 10}) == Spread(n=100, min=1, p05=1, median=1, p95=7, max=7)


RESULTS = pl.DataFrame(
    {"fixture_id": [2, 1], "market_key": [MARKET, MARKET], "side": ["a", "b"], "result": ["won", "void"], "detail": ["x", None]}
)


def test_results_are_hashed_in_order_of_their_key():
    assert results_digest(RESULTS) == results_digest(RESULTS.reverse())


@pytest.mark.parametrize(
    "rows", [RESULTS.with_columns(result=pl.lit("maybe")), RESULTS.with_columns(side=None), pl.concat([RESULTS, RESULTS])]
)
def test_results_that_are_none_or_twice_are_refused(rows):
    with pytest.raises(PackFormatError):
        sorted_results(rows.cast({"side": pl.String}))


def test_changed_results_are_noticed(tmp_path):
    (tmp_path / "o.csv").write_text("fixture,time,side,odds,result\nm,1767355200,h,2.0,won\nm,1767355200,a,2.0,lost\n")
    import_source("csv", [tmp_path / "o.csv"], tmp_path / "p", import_options())
    path = tmp_path / "p" / "results.parquet"
    pl.read_parquet(path).with_columns(result=pl.lit("void")).write_parquet(path)

    with pytest.raises(PackTamperedError, match=r"results\.parquet"):
        verify_pack(tmp_path / "p")


MEMORY = """
import re, sys
from pathlib import Path
from clvlab.sources.importer import import_source
from clvlab.sources.source import Options
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
import_source("csv", [Path(sys.argv[1])], Path(sys.argv[2]), Options(chunk_rows=20_000))
print(peak() - before)
"""


@whole_only
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process its peak memory")
def test_memory_grows_with_the_chunk_and_not_with_the_file(tmp_path):
    used = []
    for n in (1, 8):
        lines = [
            f"m{fixture},{1_767_355_200 + tick},1X2||,{side},{2 + tick % 7 / 10},b{tick % 3}"
            for fixture in range(20 * n)
            for tick in range(1000)
            for side in ("home", "away")
        ]
        (tmp_path / f"{n}.csv").write_text("fixture,time,market,side,odds,book\n" + "\n".join(lines) + "\n")
        command = [sys.executable, "-c", MEMORY, str(tmp_path / f"{n}.csv"), str(tmp_path / f"pack{n}")]
        used.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))

    assert 0 < used[1] < used[0] * 2
