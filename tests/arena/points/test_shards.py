"""A search over a pack that is scored shard by shard finds what it finds at once."""

from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

import clvlab as cl
from clvlab.arena import packs
from clvlab.base import parallel
from clvlab.errors import PackTooLargeError, UnknownFixtureError
from clvlab.law.closing import Window
from clvlab.packs import reader
from clvlab.runs import shards
from clvlab.runs.search import scorer, sums
from clvlab.runs.search.scorer import point_scores
from clvlab.runs.search.search import search_of
from clvlab.runs.search.sums import KeptSums, search_points
from tests.frames import assert_all_equal
from tests.length import few

PACK = packs.open_pack("starter")
POINTS = [{"warmup_ticks": warmup, "cooldown_s": 60} for warmup in range(5, 12)]
WHOLE = search_of(PACK, "cumulative-drift", PACK.fixture_ids[1:], Window(), POINTS[0])


@pytest.fixture(autouse=True)
def large(monkeypatch):
    """Make the pack too large to be scored at once, and three points too many to wait for the next shard."""
    monkeypatch.setattr(reader, "SHARD_ROWS", sum(f.rows for f in PACK.manifest.fixtures[:3]))
    monkeypatch.setattr(shards, "WHOLE_ROWS", 0)
    monkeypatch.setattr(sums, "_HELD", 3 * len(PACK.fixture_ids))


def cut():
    search = search_of(PACK, "cumulative-drift", PACK.fixture_ids[1:], Window(), POINTS[0])
    assert len(search.parts) > 3
    return search


@few(2)
@pytest.mark.parametrize("count", [0, 1, 3, 4, 7])
def test_sums_of_shards_are_those_of_the_whole(tmp_path, count):
    expected = list(search_points(WHOLE, POINTS[:count], count))
    assert_all_equal(search_points(cut(), POINTS[:count], count), expected)
    for _ in range(2):  # computed, and read
        assert_all_equal(search_points(cut(), iter(POINTS[:count]), count, kept=KeptSums(tmp_path)), expected)


def test_an_executor_of_the_callers_finds_the_same(monkeypatch):
    monkeypatch.setattr(parallel, "_ALONE_S", 1e-9)
    with ThreadPoolExecutor(2) as threads:
        found = list(search_points(cut(), POINTS, len(POINTS), executor=threads))

    assert_all_equal(found, search_points(WHOLE, POINTS, len(POINTS)))


def test_what_is_kept_of_a_shard_is_not_computed_again(tmp_path, monkeypatch):
    list(search_points(cut(), POINTS, len(POINTS), kept=KeptSums(tmp_path)))
    files = set(tmp_path.rglob("*.parquet"))
    assert len(files) == len(POINTS) * len(cut().parts)
    lost = max(files)
    lost.unlink()
    computed, sums_at = [], scorer.sums_at

    def counted(tasks):
        computed.extend(tasks)
        return sums_at(tasks)

    monkeypatch.setattr(scorer, "sums_at", counted)

    assert_all_equal(
        search_points(cut(), POINTS, len(POINTS), kept=KeptSums(tmp_path)), search_points(WHOLE, POINTS, len(POINTS))
    )
    assert len([search for search, _ in computed if len(search.fixture_ids) < len(WHOLE.fixture_ids)]) == 1
    assert lost.is_file()


def test_scores_of_a_point_are_in_sealed_order():
    assert point_scores(cut(), POINTS[0]).equals(point_scores(WHOLE, POINTS[0]))


def test_an_agent_that_looks_across_fixtures_is_scored_at_once_or_refused(monkeypatch):
    @cl.strategy(agent_id="ranking")
    def ranking(ticks, at=30):
        first = ticks.filter(pl.col("tick_seq") == at)
        return first.filter(pl.col("prob_bps") == pl.col("prob_bps").max()).with_columns(action=pl.lit("BACK"))

    assert len(search_of(PACK, ranking, None, Window(), {"at": 20}).parts) == 1
    monkeypatch.setenv("CLVLAB_MEMORY_MB", "1")
    with pytest.raises(PackTooLargeError, match="'ranking'") as error:
        search_of(PACK, ranking, None, Window(), {"at": 20})
    assert error.value.__notes__ == ["at the setting at=20"]


def test_a_fixture_that_the_pack_does_not_have_is_refused():
    with pytest.raises(UnknownFixtureError, match="fixture 5 "):
        search_of(PACK, "baseline", [PACK.fixture_ids[0], 5], Window(), {})
