import json

import duckdb
import polars as pl
import pytest

from clvlab.arena import packs
from clvlab.errors import AgentError
from clvlab.law.closing import Window
from clvlab.runs.search import scorer
from clvlab.runs.search.scorer import sums_at
from clvlab.runs.search.search import search_of
from clvlab.runs.search.sums import POINT_SUMS, KeptSums, search_points
from tests.frames import assert_all_equal

DIGEST = "clvlab.derived.digest"
SEARCH = search_of(packs.open_pack("starter"), "cumulative-drift", None, Window(), {})
POINTS = [{"warmup_ticks": warmup} for warmup in (5, 10, 20, 40)]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "sums"


@pytest.fixture
def computed(monkeypatch):
    """The points that were computed."""
    points = []

    def counted(tasks):
        points.extend(params for _, params in tasks)
        return sums_at(tasks)

    monkeypatch.setattr(scorer, "sums_at", counted)
    return points


def found(folder, points=POINTS):
    return list(search_points(SEARCH, points, len(points), kept=KeptSums(folder)))


def test_a_search_that_is_repeated_computes_nothing(folder, computed):
    first = found(folder)
    computed.clear()

    assert_all_equal(found(folder), first)
    assert computed == []


def test_a_search_with_other_points_computes_those_alone(folder, computed):
    found(folder, POINTS[1:3])
    computed.clear()

    assert_all_equal(found(folder), sums_at((SEARCH, params) for params in POINTS))
    assert computed == [POINTS[0], POINTS[3]]


def test_a_search_that_broke_off_goes_on_where_it_stopped(folder, computed):
    with pytest.raises(AgentError):
        found(folder, [*POINTS[:2], {"warmup_ticks": -1}, *POINTS[2:]])
    computed.clear()

    found(folder)

    assert computed == POINTS[2:]


def edited(file, _others):
    frame = pl.read_parquet(file, hive_partitioning=False)
    metadata = pl.read_parquet_metadata(file)
    frame.with_columns(pl.col("clv_sums") + 100_000).write_parquet(file, metadata={DIGEST: metadata[DIGEST]})


def of_another_point(file, others):
    file.write_bytes(others[0].read_bytes())


def of_another_point_that_says_to_be_this_one(file, others):
    frame = pl.read_parquet(others[0], hive_partitioning=False).with_columns(point=pl.lit(file.stem))
    frame.write_parquet(file, metadata={DIGEST: pl.read_parquet_metadata(others[0])[DIGEST]})


def cut_short(file, _others):
    file.write_bytes(file.read_bytes()[:-100])


def empty(file, _others):
    file.write_bytes(b"")


@pytest.mark.parametrize("damage", [edited, of_another_point, of_another_point_that_says_to_be_this_one, cut_short, empty])
def test_a_file_that_is_not_as_it_was_written_is_computed_again(folder, computed, damage):
    first = found(folder)
    file, *others = sorted(folder.rglob("*.parquet"))
    damage(file, others)
    computed.clear()

    with pytest.warns(UserWarning, match=rf"{file.name}.* computed again"):
        assert_all_equal(found(folder), first)
    assert len(computed) == 1
    assert len(found(folder)) == 4
    assert len(computed) == 1


def test_a_file_of_before_there_were_digests_is_computed_again_and_nothing_said(folder, computed):
    first = found(folder)
    file, *_ = sorted(folder.rglob("*.parquet"))
    pl.read_parquet(file, hive_partitioning=False).with_columns(pl.col("clv_sums") + 1).write_parquet(file)
    computed.clear()

    assert_all_equal(found(folder), first)
    assert len(computed) == 1


def test_sums_stay_known_where_the_folder_is_moved(folder, computed, tmp_path):
    first = found(folder)
    computed.clear()

    assert_all_equal(found(folder.rename(tmp_path / "moved")), first)
    assert computed == []


def test_two_searches_write_the_same_bytes(folder, tmp_path):
    found(folder)
    found(tmp_path / "again", POINTS[::-1])

    first, again = ({path.name: path.read_bytes() for path in root.rglob("*.parquet")} for root in (folder, tmp_path / "again"))
    assert first == again


def test_the_folder_is_a_partitioned_dataset(folder):
    sums = found(folder)

    rows = duckdb.sql(f"SELECT * FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true)").pl()

    assert [*POINT_SUMS, "agent", "law", "pack"] == rows.columns
    assert set(rows["agent"]) == {"cumulative-drift"}
    assert {json.loads(params)["warmup_ticks"] for params in rows["params"]} == {5, 10, 20, 40}
    assert rows["clv_sums"].sum() == pytest.approx(sum(one["clv_sums"].sum() for one in sums))
    assert [path.name for path in folder.rglob(".*")] == []
