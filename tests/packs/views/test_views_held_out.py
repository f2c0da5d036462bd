"""What a plan holds out is shut in views and packs together too, whichever came first."""

import itertools
import pickle

import pytest

import clvlab as cl
from clvlab.errors import HeldOutError
from tests.length import few
from tests.packs.views.conftest import write

MIDDLE = "2026-02-20"
GRID = {"warmup_ticks": [20, 40]}


@pytest.fixture
def lab(tmp_path):
    with cl.Lab(tmp_path / "lab.db") as made:
        yield made


@pytest.fixture
def plan(lab):
    return lab.plan("season", "cumulative-drift", GRID, hold_out=0.2)


VIEWS = {
    "of markets": lambda pack, _: pack.where(markets="1X2"),
    "of fixtures": lambda pack, held: pack.where(fixtures=held),
    "with other prices": lambda pack, _: pack.where(max_overround=0.0),
    "of a view": lambda pack, held: pack.where(max_overround=0.0).where(fixtures=held[-10:]),
    "of parts": lambda pack, _: cl.concat([pack.where(before=MIDDLE), pack.where(after=MIDDLE)]),
    "of parts, chosen": lambda pack, held: cl.concat([pack, pack]).where(fixtures=held),
}


def here(lab, opened):
    return cl.open_pack("season") if opened == "elsewhere" else lab._backend.pack("season")


@few(4)
@pytest.mark.parametrize(
    ("view", "opened"),
    [*((name, "here before") for name in VIEWS), *itertools.product(["of a view", "of parts"], ["here after", "elsewhere"])],
)
def test_no_view_is_a_way_to_read_it(lab, view, opened, request):
    view = VIEWS[view]
    held = cl.open_pack("season").fixture_ids[-100:]
    own = view(here(lab, opened), held) if opened != "here after" else None
    plan = request.getfixturevalue("plan")
    own = own or view(here(lab, opened), held)
    assert set(plan.held_out) & set(own.fixture_ids)

    for ask in (
        lambda: lab.backtest(own, "baseline"),
        lambda: lab.sweep(own, "baseline", GRID),
        lambda: lab.backtest(pickle.loads(pickle.dumps(own)), "baseline"),
    ):
        with pytest.raises(HeldOutError):
            ask()
    if opened != "elsewhere":
        with pytest.raises(HeldOutError):
            own.ticks([min(set(plan.held_out) & set(own.fixture_ids))])
        assert set(own.results["fixture_id"]).isdisjoint(plan.held_out)
        assert own.removed.columns == ["filter", "what", "removed", "of"]


def test_a_view_without_it_is_open(lab, plan):
    view = cl.open_pack("season").where(fixtures=plan.training)

    assert lab.backtest(view, "baseline").report["n_fixtures"] == len(plan.training)


def test_a_plan_over_a_view_shuts_the_pack(lab):
    view = cl.open_pack("season").where(markets="1X2")
    plan = lab.plan(view, "cumulative-drift", GRID, hold_out=0.2)

    with pytest.raises(HeldOutError, match=plan.plan_id):
        lab.backtest("season", "baseline")
    with pytest.raises(HeldOutError, match=plan.plan_id):
        lab.backtest(cl.open_pack("season").where(markets="OVER"), "baseline")
    assert plan.open({"warmup_ticks": 20}).run.verify().passed


def test_trials_over_views_count_for_the_pack(lab):
    lab.sweep(cl.open_pack("season").where(markets="1X2"), "cumulative-drift", GRID, progress=False)
    found = lab.sweep("season", "cumulative-drift", {"warmup_ticks": [30]}, progress=False)
    late = lab.sweep(cl.open_pack("season").where(after=MIDDLE), "cumulative-drift", {"warmup_ticks": [30]}, progress=False)
    plan = lab.plan("season", "cumulative-drift", GRID, hold_out=0.2)

    assert (found.earlier_trials, late.earlier_trials) == (2, 3)
    assert "4" in plan.frame["value"].to_list()


def test_trials_over_packs_together_count_for_each(lab, tmp_path):
    first, other = (cl.open_pack(write(tmp_path / name, 1, ids)) for name, ids in (("a", range(1, 9)), ("b", range(20, 28))))
    for pack in (cl.concat([first, other]), first):
        lab.sweep(pack, "baseline", {"warmup_ticks": [1, 2]}, progress=False)

    found = [lab.sweep(pack, "baseline", {"warmup_ticks": [3]}, progress=False) for pack in (first, other)]

    assert [one.earlier_trials for one in found] == [4, 2]
