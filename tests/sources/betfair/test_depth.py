"""Ladders of Betfair's stream, against those of a plain reader that keeps every kind of offers, line by line."""

import bz2
import random

import orjson
import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import SourceError, UnsupportedError
from clvlab.packs.ladders import LADDERS
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_source
from clvlab.sources.source import Options
from tests.commands import clvlab
from tests.length import few, length
from tests.plain_ladders import PlainStream, states_at, states_of
from tests.sources.betfair.test_history import OPENING, T, change, definition, imported, offers, stream

_BACKS = (1.01, 1.5, 1.64, 1.9, 1.95, 2, 2.02, 2.1, 3.5, 4.2, 7.6, 17, 24, 50.0, 50.01, 50.02, 110, 480, 490, 500, 990, 1000)
_SIZES = (0, 0, 0.01, 2, 5.37, 10.06, 20.62, 13003.7)


def plainly(messages, *, key="MATCH_ODDS||"):
    """Return time -> (market_key, side) -> levels, after the last message of each time."""
    market, found = PlainStream(), {}
    for message in messages:
        for one in message["mc"]:
            market.apply(one)
        found[message["pt"]] = {named(side, key): levels for side, levels in market.ladders().items()}
    return found


def named(side, key):
    return (f"{key}selection={side[0]}", side[1]) if isinstance(side, tuple) else (key, side)


def offered(dice, way):
    kind = dice.choice([f"at{way}", f"at{way}", f"bat{way}", f"bdat{way}"])
    wide = dice.choice([0, 1, 3, 12])
    if kind[0] == "a":
        return {kind: [[dice.choice(_BACKS), dice.choice(_SIZES)] for _ in range(wide)]}
    return {kind: [[dice.randrange(12), dice.choice(_BACKS), dice.choice(_SIZES)] for _ in range(wide)]}


def generated(dice, count, winners):
    second = 0
    yield change(0, define=definition(numberOfWinners=winners), rc=[{"id": 1}, {"id": 2}], img=dice.random() < 0.5)
    for _ in range(count):
        second += dice.choice([0, 1, 1, 90])
        rc = [{"id": dice.choice([1, 2])} | offered(dice, "b") | offered(dice, "l") for _ in range(dice.randrange(3))]
        yield change(second, rc=rc, img=dice.random() < 0.03)


@pytest.mark.parametrize("seed", range(length(12, 200)))
def test_ladders_are_those_of_a_plain_reader_at_every_time(tmp_path, seed):
    dice = random.Random(seed)
    winners = dice.choice([1, 2])
    messages = list(generated(dice, 150, winners))

    _, pack = imported(tmp_path, stream(tmp_path, *messages), ladders=True, chunk_rows=dice.choice([60, 100_000]))

    expected = plainly(messages)
    assert states_at(states_of(pack.ladders().collect()), expected) == expected


@few(1)
@pytest.mark.realdata
@pytest.mark.parametrize("name", ["1.197931750", "1.197931751", "1.200806927"])
def test_ladders_of_real_files_are_those_of_a_plain_reader_at_every_time(tmp_path, realdata, name):
    path = realdata / "betfair-stream" / f"{name}.bz2"
    import_source("betfair", [path], tmp_path / "p", Options(ladders=True))
    pack = verify_pack(tmp_path / "p")
    messages = [orjson.loads(line) for line in bz2.decompress(path.read_bytes()).splitlines()]

    expected = plainly(messages, key=pack.tape().series["market_key"][0].partition("||")[0] + "||")
    found = states_at(states_of(pack.ladders().collect()), expected)
    assert found == expected
    assert max(len(levels) for state in found.values() for levels in state.values()) == 10
    ticks = pack.tape().ticks().collect().filter(~pl.col("suspended")).sort("ts_ms")
    best = pack.ladders().filter(pl.col("level") == 0).select("market_key", "side", "ts_ms", best="odds_milli").collect()
    held = ticks.join_asof(best.sort("ts_ms"), on="ts_ms", by=["market_key", "side"], check_sortedness=False)
    assert held.filter(pl.col("odds_milli").ne_missing(pl.col("best"))).is_empty()  # the price on offer is the best level


def rows_of(pack, side):
    rows = pack.ladders().filter(pl.col("side") == side).collect()
    assert dict(rows.schema) == LADDERS
    return [(level, (ts_ms - T) // 1000, odds, stake) for *_, level, ts_ms, odds, stake in rows.iter_rows()]


def test_each_change_of_a_level_is_a_row(tmp_path):
    path = stream(
        tmp_path,
        OPENING,
        change(1, rc=[{"id": 1, "atb": [[1.95, 5.5]]}]),
        change(2, rc=[{"id": 1, "atb": [[1.9, 12]]}]),
        change(3, rc=[{"id": 1, "atl": [[2.1, 0]]}]),
        change(4, rc=[{"id": 1, "atb": [[1.95, 0]]}]),
    )

    _, pack = imported(tmp_path, path, ladders=True)

    assert rows_of(pack, "1") == [
        (0, 0, 1900, 1000), (0, 1, 1950, 550), (0, 4, 1900, 1200),
        (1, 1, 1900, 1000), (1, 2, 1900, 1200), (1, 4, None, None),
    ]  # fmt: skip


def test_the_contrary_of_a_runner_is_backed_by_its_lay_offers(tmp_path):
    lay = {"id": 1, "atb": [[1.5, 4]], "atl": [[1.6, 20], [3.0, 10], [1000, 7], [990, 1]]}
    path = stream(tmp_path, change(0, define=definition(numberOfWinners=2, marketType="PLACE"), rc=[lay]))

    _, pack = imported(tmp_path, path, ladders=True)

    assert rows_of(pack, "yes") == [(0, 0, 1500, 400)]
    # 20 x 0.6 at 1.6 / 0.6, then 10 x 2, and two prices that make the same odds: 1 x 989 and 7 x 999
    assert rows_of(pack, "no") == [(0, 0, 2667, 1200), (1, 0, 1500, 2000), (2, 0, 1001, 798_200)]


def test_an_image_ends_the_levels_that_it_does_not_have(tmp_path):
    two = {"id": 1, "atb": [[1.9, 10], [1.8, 20]]}
    path = stream(tmp_path, change(0, define=definition(), rc=[two]), change(5, define=definition(), rc=[{"id": 2}], img=True))

    _, pack = imported(tmp_path, path, ladders=True)

    assert rows_of(pack, "1") == [(0, 0, 1900, 1000), (0, 5, None, None), (1, 0, 1800, 2000), (1, 5, None, None)]


def test_a_message_that_can_not_be_read_ends_the_ladders_until_the_next_image(tmp_path):
    later = change(4, rc=[{"id": 1, "atb": [[1.7, 3]]}])
    image = change(5, define=definition(), rc=[offers(1, 1.6, 1.7)], img=True)
    path = stream(tmp_path, OPENING, change(3, rc=[{"id": 7, "atb": [[1.9, 0]]}]), later, image)

    report, pack = imported(tmp_path, path, ladders=True, lenient=True)

    assert rows_of(pack, "1") == [(0, 0, 1900, 1000), (0, 3, None, None), (0, 5, 1600, 1000)]
    assert report.quality.notes["messages that can't be read end the ladders until the next image"] == 1


def test_virtual_offers_count_where_no_others_came(tmp_path):
    path = stream(
        tmp_path,
        change(0, define=definition(), rc=[{"id": 1, "bdatb": [[0, 1.9, 10], [1, 1.8, 20]]}]),
        change(1, rc=[{"id": 1, "batb": [[0, 1.85, 4]]}]),
        change(2, rc=[{"id": 1, "bdatb": [[0, 1.95, 4]]}]),
        change(3, rc=[{"id": 1, "atb": [[1.7, 6]]}]),
        change(4, rc=[{"id": 1, "batb": [[0, 1.99, 4]]}]),
    )

    _, pack = imported(tmp_path, path, ladders=True)

    assert rows_of(pack, "1") == [
        (0, 0, 1900, 1000), (0, 1, 1850, 400), (0, 3, 1700, 600),
        (1, 0, 1800, 2000), (1, 1, None, None),
    ]  # fmt: skip


def test_files_without_depth_are_refused(tmp_path):
    path = stream(tmp_path, change(0, define=definition(), rc=[{"id": 1, "ltp": 1.9}, {"id": 2, "ltp": 2.1}]))

    with pytest.raises(SourceError, match=r"no offer with a size is in 1\.1\.bz2: a file without depth has no ladders"):
        imported(tmp_path, path, ladders=True)
    assert not (tmp_path / "p").exists()
    _, pack = imported(tmp_path, path)
    with pytest.raises(UnsupportedError, match="keeps no ladders"):
        pack.ladders()


def test_ladders_change_nothing_else_of_a_pack(tmp_path):
    path = stream(tmp_path, *generated(random.Random(1), 100, 2))
    (tmp_path / "with").mkdir()
    (bare, _), (full, pack) = imported(tmp_path, path), imported(tmp_path / "with", path, ladders=True)

    assert bare.manifest.ladders is None
    assert "ladders" not in (tmp_path / "p" / "datapackage.json").read_text()
    assert full.manifest.model_copy(update={"ladders": None, "ladders_sha256": None}) == bare.manifest.model_copy(
        update={"fixtures": tuple(one for one in full.manifest.fixtures)}
    )
    assert [one.digest for one in bare.manifest.fixtures] == [one.digest for one in full.manifest.fixtures]
    assert pack.has_ladders
    assert full.manifest.content_hash != bare.manifest.content_hash


def test_a_notebook_and_a_terminal_import_the_same_ladders(tmp_path):
    path = stream(tmp_path, *generated(random.Random(1), 50, 2))

    pack = cl.import_odds("betfair", path, tmp_path / "mine", ladders=True)
    code, _, err = clvlab(tmp_path, "packs", "import", "betfair", path.name, "--out", "theirs", "--ladders")

    assert (code, err) == (0, "")
    assert pack.content_hash == cl.open_pack(tmp_path / "theirs").content_hash
    assert clvlab(tmp_path, "packs", "export", "theirs", "l.parquet", "--ladders")[0] == 0
    assert pl.read_parquet(tmp_path / "l.parquet").equals(pack.ladders())
    assert pack.ladders(pack.fixture_ids).equals(pack.ladders())
    assert "--books and --ladders" in clvlab(tmp_path, "packs", "export", "theirs", "x.csv", "--ladders", "--books")[2]
    assert "keeps no ladders" in clvlab(tmp_path, "packs", "export", "starter", "x.csv", "--ladders")[2]
