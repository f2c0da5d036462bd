import gzip
import shutil

import orjson
import polars as pl
import pytest

from clvlab.errors import PackFormatError, PackTamperedError, SourceError
from clvlab.packs.files import content_digest, file_sha256
from clvlab.packs.reader import load_pack
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_source
from clvlab.sources.source import Options

MESSAGE = {
    "FixtureId": 7, "MessageId": "a", "Ts": 1_700_000_000_000, "Bookmaker": "TXLineStablePriceDemargined", "BookmakerId": 10021,
    "SuperOddsType": "OVERUNDER_PARTICIPANT_GOALS", "GameState": None, "InRunning": False, "MarketParameters": "line=1.5",
    "MarketPeriod": "half=1", "PriceNames": ["over", "under"], "Prices": [2833, 1545], "Pct": ["35.298", "64.725"],
}  # fmt: skip


def txline(tmp_path, *messages, name="odds_7.jsonl"):
    path = tmp_path / name
    path.write_bytes(b"".join(orjson.dumps(message) + b"\n" for message in messages))
    return path


def later(message, n=1, **changes):
    return message | {"MessageId": f"m{n}", "Ts": message["Ts"] + 1000 * n} | changes


def test_txline_percents_become_basis_points_half_up_and_market_keys_keep_their_parts(tmp_path):
    path = txline(tmp_path, MESSAGE, later(MESSAGE, Pct=["35.005", "64.995"], MarketPeriod=None))

    import_source("txline", [path], tmp_path / "p")

    rows = verify_pack(tmp_path / "p").tape().ticks().collect()
    assert rows.select("market_key", "side", "prob_bps", "odds_milli").rows() == [
        ("OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5", "over", 3530, 2833),
        ("OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5", "under", 6473, 1545),
        ("OVERUNDER_PARTICIPANT_GOALS||line=1.5", "over", 3501, 2833),
        ("OVERUNDER_PARTICIPANT_GOALS||line=1.5", "under", 6500, 1545),
    ]


@pytest.mark.parametrize("change", [{"Pct": ["NA", "NA"]}, {"Prices": [], "Pct": []}])
def test_txline_message_without_percents_suspends_its_market(tmp_path, change):
    path = txline(tmp_path, MESSAGE, later(MESSAGE, **change))

    import_source("txline", [path], tmp_path / "p")

    rows = verify_pack(tmp_path / "p").tape().ticks().collect().filter(pl.col("tick_seq") == 1)
    assert rows["suspended"].all()
    assert rows["prob_bps"].null_count() == 2


BAD_MESSAGES = {
    "must be int": {"Ts": "1700000000001"},
    "must be bool": {"InRunning": 1},
    "is out of range": {"FixtureId": 2**60},
    "must be texts": {"PriceNames": [None, "under"]},
    "OverflowError|Infinity|infinity|integer": {"Pct": ["Infinity", "NA"]},
    "KeyError: 'Pct'": {"Pct": ...},
    "do not belong together": {"Prices": [2833]},
    "sum to 10060": {"Pct": ["35.60", "65.00"]},
    "is not 0 to 100": {"Pct": ["-1", "101"]},
    "decimal odds x 1000": {"Prices": [1000, 1545]},
    "before the message above": {"Ts": 1},
    "appears twice": {"MessageId": "a"},
    "not the stable price": {"Bookmaker": "other"},
    "the sides of": {"PriceNames": ["over", "other"]},
}


@pytest.mark.parametrize("reason", BAD_MESSAGES)
def test_txline_message_that_cant_be_read_is_refused_with_file_line_and_reason(tmp_path, reason):
    bad = {key: value for key, value in later(MESSAGE, **BAD_MESSAGES[reason]).items() if value is not ...}
    path = txline(tmp_path, MESSAGE, bad, later(MESSAGE, 2))

    with pytest.raises(SourceError, match=rf"odds_7\.jsonl:2: .*{reason}"):
        import_source("txline", [path], tmp_path / "strict")
    report = import_source("txline", [path], tmp_path / "lenient", Options(lenient=True))

    assert not (tmp_path / "strict").exists()
    (refused,) = report.quality.refused
    assert (report.quality.messages, refused.count, refused.examples[0].split(": ")[0]) == (2, 1, "odds_7.jsonl:2")
    assert report.manifest.provenance == "imported-txline"


@pytest.mark.parametrize("content", [b"no json\n", b"\xff\xfe\n", b"[]\n"])
def test_a_line_that_is_no_message_is_refused(tmp_path, content):
    path = txline(tmp_path, MESSAGE)
    path.write_bytes(path.read_bytes() + content)

    with pytest.raises(SourceError, match=r"odds_7\.jsonl:2"):
        import_source("txline", [path], tmp_path / "p")


def test_a_cut_off_gzip_is_refused(tmp_path):
    path = tmp_path / "odds_7.jsonl.gz"
    path.write_bytes(gzip.compress(orjson.dumps(MESSAGE) + b"\n")[:-12])

    with pytest.raises(SourceError, match="can't be read to its end"):
        import_source("txline", [path], tmp_path / "p")


@pytest.mark.parametrize("name", ["odds_a (1).jsonl", "odds_é.jsonl"])
def test_a_file_may_have_any_plain_name(tmp_path, name):
    import_source("txline", [txline(tmp_path, MESSAGE, name=name)], tmp_path / "p")

    assert verify_pack(tmp_path / "p").is_genuine


def test_a_folder_of_another_fixture_and_a_backup_file_are_left_unread(tmp_path):
    folder = polymarket(tmp_path, home=[(0, 0.5)], draw=[(60, 0.26)], away=[(10, 0.28)])
    (folder / "999").mkdir()
    (folder / "999" / "home.jsonl").write_text("garbage")
    (folder / "7" / "home.jsonl.bak").write_text("garbage")
    (folder / "7" / "log.bin").write_bytes(b"\x00\x01")

    report = import_source("polymarket", [folder], tmp_path / "p")

    assert report.quality.files == 4
    assert {row.reason: row.examples for row in report.unread} == {
        "text that begins with 'garbage'": ("home.jsonl.bak", "home.jsonl"),
        "bytes that are no text": ("log.bin",),
    }


def test_a_folder_name_that_cant_be_a_pack_id_is_refused(tmp_path):
    with pytest.raises(PackFormatError, match="'my pack' can't be a pack id"):
        import_source("txline", [txline(tmp_path, MESSAGE)], tmp_path / "my pack")


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path):
    path = tmp_path / "odds_7.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * (17 << 20)))

    with pytest.raises(SourceError, match=r"odds_7\.jsonl\.gz:1: a line of more than"):
        import_source("txline", [path], tmp_path / "p")


def test_an_unknown_source_and_a_missing_file_are_named(tmp_path):
    with pytest.raises(SourceError, match=r"unknown source 'x': use one of .*polymarket, .*txline"):
        import_source("x", [tmp_path], tmp_path / "p")
    with pytest.raises(SourceError, match="no such file or folder"):
        import_source("txline", [tmp_path / "gone"], tmp_path / "p")


def polymarket(tmp_path, **quotes):
    folder = tmp_path / "source"
    (folder / "7").mkdir(parents=True)
    fixture = {"fixture_id": 7, "event_slug": "a-b", "home_team": "A", "away_team": "B", "kickoff_ts": 1_700_001_000}
    (folder / "fixtures.json").write_bytes(orjson.dumps([fixture]))
    for name in ("home", "draw", "away"):
        lines = [
            {"ts": 1_700_000_000 + ts, "fixture_id": 7, "market_ref": f"1X2|{name}|full", "native_price": price}
            for ts, price in quotes[name]
        ]
        (folder / "7" / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return folder


def test_polymarket_sides_within_a_minute_are_one_normalised_tick_at_their_last_time(tmp_path):
    folder = polymarket(tmp_path, home=[(0, 0.5)], draw=[(60, 0.26)], away=[(10, 0.28)])

    import_source("polymarket", [folder], tmp_path / "p")

    rows = verify_pack(tmp_path / "p").tape().ticks().collect()
    assert rows.select("ts_ms", "side", "prob_bps", "odds_milli", "suspended").rows() == [
        (1_700_000_060_000, "draw", 2500, 3846, False),
        (1_700_000_060_000, "part1", 4808, 2000, False),
        (1_700_000_060_000, "part2", 2692, 3571, False),
    ]


def test_a_bad_polymarket_fixture_and_one_without_a_file_are_left_out_and_counted(tmp_path):
    folder = polymarket(tmp_path, home=[(0, 0.5)], draw=[(60, 0.26)], away=[(10, 0.28)])
    (fixture,) = orjson.loads((folder / "fixtures.json").read_bytes())
    listed = [fixture, fixture, fixture | {"fixture_id": 8}, fixture | {"fixture_id": "9"}, None]
    (folder / "fixtures.json").write_bytes(orjson.dumps(listed))

    report = import_source("polymarket", [folder], tmp_path / "p", Options(lenient=True))

    assert (report.quality.ticks, report.quality.fixtures_without_ticks) == (1, 1)
    assert {row.reason: row.count for row in report.quality.refused} == {
        "a fixture can't be read": 3,
        "a fixture lacks a file: fixture 8 needs one home.jsonl or home.jsonl.gz, found 0": 1,
    }
    with pytest.raises(SourceError, match=r"fixtures\.json:2: the fixture 7 is listed twice"):
        import_source("polymarket", [folder], tmp_path / "q")


def test_a_polymarket_round_that_lacks_a_side_is_suspended(tmp_path):
    folder = polymarket(tmp_path, home=[(0, 0.5), (61, 0.5)], draw=[(0, 0.26), (61, 0.2)], away=[(62, 0.28)])

    import_source("polymarket", [folder], tmp_path / "p")

    messages = verify_pack(tmp_path / "p").tape().ticks().collect().unique(["tick_seq", "suspended"]).sort("tick_seq")
    assert messages["suspended"].to_list() == [True, False]


@pytest.mark.parametrize("price", [-0.1, 1.5, "NaN", None])
def test_a_polymarket_price_that_is_no_probability_is_refused(tmp_path, price):
    folder = polymarket(tmp_path, home=[(0, price)], draw=[(0, 0.26)], away=[(0, 0.28)])

    with pytest.raises(SourceError, match=r"7-home\.jsonl:1"):
        import_source("polymarket", [folder], tmp_path / "p")


@pytest.mark.realdata
def test_the_real_txline_capture_earns_its_label_and_loses_it_with_any_change(realdata, tmp_path):
    report = import_source("txline", [realdata / "txline"], tmp_path / "good")
    pack = verify_pack(tmp_path / "good")
    assert (report.quality.messages, report.quality.suspended_ticks) == (800, 321)
    assert pack.is_genuine

    raw = tmp_path / "raw-changed"
    shutil.copytree(pack.folder, raw)
    path = sorted((raw / "raw").iterdir())[0]
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(lines[:-1])))
    assert not load_pack(raw).is_genuine
    with pytest.raises(PackTamperedError):
        verify_pack(raw)
    reseal(raw)
    assert not load_pack(raw).is_genuine

    tick = tmp_path / "tick-changed"
    shutil.copytree(pack.folder, tick)
    ticks = pl.read_parquet(tick / "ticks.parquet")
    changed = pl.when(pl.int_range(pl.len()) == 3).then(pl.col("odds_milli") + 1).otherwise("odds_milli").cast(pl.Int32)
    ticks.with_columns(changed.alias("odds_milli")).write_parquet(tick / "ticks.parquet")
    reseal(tick)
    assert not load_pack(tick).is_genuine
    with pytest.raises(PackTamperedError):
        verify_pack(tick)

    label = tmp_path / "label-changed"
    shutil.copytree(pack.folder, label)
    reseal(label, provenance="genuine-other")
    assert not load_pack(label).is_genuine
    with pytest.raises(PackTamperedError):
        verify_pack(label)


def reseal(folder, **labels):
    """Make a changed pack consistent again, hashes and all, as its operator could."""
    path = folder / "datapackage.json"
    content = orjson.loads(path.read_bytes())
    content["resources"][0]["hash"] = file_sha256(folder / "ticks.parquet")
    content["clvlab"].update(labels)
    for raw in content["clvlab"]["raw"]:
        raw["digest"] = content_digest(folder / "raw" / raw["name"])
    path.write_bytes(orjson.dumps(content))
    from clvlab.packs.manifest import read_manifest

    manifest, _ = read_manifest(folder)
    content["clvlab"]["content_hash"] = manifest.content_hash
    path.write_bytes(orjson.dumps(content))


@pytest.mark.realdata
def test_txline_captures_of_one_fixture_follow_each_other_with_a_declared_gap(realdata, tmp_path):
    files = [realdata / "txline" / name for name in ("odds_18209181.jsonl.gz", "inrunning_18209181.jsonl.gz")]

    report = import_source("txline", files, tmp_path / "p")

    assert [(gap.from_ts_ms, gap.to_ts_ms) for gap in report.manifest.capture.gaps] == [(1783207598677, 1783628924849)]
    assert verify_pack(tmp_path / "p").is_genuine


@pytest.mark.realdata
def test_the_real_polymarket_history_is_imported_but_not_genuine(realdata, tmp_path):
    report = import_source("polymarket", [realdata / "polymarket"], tmp_path / "p")

    pack = verify_pack(tmp_path / "p")
    assert (len(pack.fixture_ids), report.quality.messages, report.quality.refused_rows) == (9, 46_780, 0)
    assert not pack.is_genuine
    assert pack.provenance == "imported-polymarket"
