from itertools import pairwise

import pytest

import clvlab as cl
from clvlab.errors import StatisticsError
from clvlab.runs.folds import folds_of, hold_out_of, in_order_of_kickoff


@pytest.fixture(scope="module")
def pack():
    return cl.open_pack("season").source


def kickoffs(pack):
    return {one.fixture_id: one.kickoff_ts_ms for one in pack.manifest.fixtures}


def test_folds_are_of_equal_size_follow_in_time_and_hold_all(pack):
    found = folds_of(pack, 7)

    times = kickoffs(pack)
    assert sorted(one for fold in found for one in fold) == sorted(pack.fixture_ids)
    assert max(map(len, found)) - min(map(len, found)) <= 1
    for before, after in pairwise(found):
        assert max(times[one] for one in before) <= min(times[one] for one in after)


def test_a_mapping_names_the_folds_and_their_order(pack):
    ids = pack.fixture_ids[:30]

    found = folds_of(pack, 99, {one: "b" if one % 2 else "a" for one in ids}, ids)

    assert found == [tuple(one for one in ids if one % 2 == 0), tuple(one for one in ids if one % 2)]


@pytest.mark.parametrize("folds", [1, 0, -1, 2.0, "3", True, None])
def test_folds_that_can_t_be_are_named(pack, folds):
    with pytest.raises(StatisticsError, match=f"not {folds!r}"):
        folds_of(pack, folds)


def test_folds_of_too_few_fixtures_and_fixtures_without_a_fold_are_refused(pack):
    with pytest.raises(StatisticsError, match="at least 5 fixtures each, not of 4, 4"):
        folds_of(pack, 2, fixtures=pack.fixture_ids[:8])
    with pytest.raises(StatisticsError, match=f"fixture {pack.fixture_ids[1]} of 'season' has no fold"):
        folds_of(pack, 2, {pack.fixture_ids[0]: 1})
    with pytest.raises(StatisticsError, match="must have an order"):
        folds_of(pack, 2, {one: "a" if one % 2 else 1 for one in pack.fixture_ids})
    with pytest.raises(StatisticsError, match="'season'"):
        folds_of(pack, 2, "season")


def test_the_last_to_kick_off_are_held_out(pack):
    held = hold_out_of(pack, 0.3)

    assert len(held) == 90
    assert set(held) == set(in_order_of_kickoff(pack)[-90:])


def test_a_seed_holds_out_the_same_and_another_others(pack):
    one, again, other = (hold_out_of(pack, 0.5, "random", seed) for seed in (1, 1, 2))

    assert one == again != other
    assert len(one) == 150


@pytest.mark.parametrize("hold_out", [0, 1, 1.5, -0.1, "x", None, True, float("nan")])
def test_a_share_that_is_none_is_named(pack, hold_out):
    with pytest.raises(StatisticsError, match=f"not {hold_out!r}"):
        hold_out_of(pack, hold_out)


@pytest.mark.parametrize("hold_out", [0.001, 0.999, [90000000], list(range(90000000, 90000300))])
def test_both_sides_need_fixtures(pack, hold_out):
    with pytest.raises(StatisticsError, match="at least 5 fixtures, and leaves as many"):
        hold_out_of(pack, hold_out)


def test_strange_fixtures_and_ways_to_choose_are_named(pack):
    with pytest.raises(StatisticsError, match="fixture 7 can't be held out"):
        hold_out_of(pack, [7])
    with pytest.raises(StatisticsError, match="not 'shoe size'"):
        hold_out_of(pack, 0.3, "shoe size")
