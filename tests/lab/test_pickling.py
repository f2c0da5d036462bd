"""What a notebook holds goes to another process, and says the same there."""

import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

import cloudpickle
import polars as pl
import pytest

import clvlab as cl
from clvlab.agents.registry import template
from clvlab.errors import UnknownFixtureError, UnsupportedError
from tests.factories import ERRORS

DRIFT = "cumulative-drift"
GRID = {"warmup_ticks": [10, 20]}


@cl.strategy
def favourites(ticks, *, least_bps=6000):
    return ticks.filter(pl.col("prob_bps") >= least_bps).unique("series", keep="first", maintain_order=True)


@pytest.fixture(scope="module")
def lab():
    with cl.Lab() as lab:
        yield lab


MADE = {
    "result": 'cl.backtest("starter", DRIFT)',
    "kept result": 'lab.backtest("starter", DRIFT)',
    "reopened result": 'lab.open_run(lab.backtest("starter", DRIFT).run_id)',
    "competition": 'lab.compete("starter", ["baseline", DRIFT])',
    "leaderboard": 'lab.compete("starter", ["baseline", DRIFT]).leaderboard',
    "comparison": 'lab.compete("starter", ["baseline", DRIFT]).compare()',
    "sheet": 'cl.backtest("starter", DRIFT).tear_sheet(resamples=100, draws=5)',
    "sweep": 'cl.sweep("starter", DRIFT, GRID, progress=False)',
    "kept sweep": 'lab.sweep("starter", DRIFT, GRID, progress=False)',
    "walk": 'cl.walk_forward("season", DRIFT, GRID, folds=3, progress=False)',
    "pack": 'cl.open_pack("starter")',
    "packs": "cl.packs()",
    "agents": "cl.agents()",
    "verification": 'cl.backtest("starter").verify()',
}


@pytest.fixture(scope="module")
def made_by(lab):
    """What a notebook holds, by its name."""
    return cache(lambda name: eval(MADE[name], globals() | {"lab": lab}))


@pytest.mark.parametrize("library", [pickle, cloudpickle])
@pytest.mark.parametrize("name", MADE)
def test_a_result_comes_back_as_it_went(made_by, name, library):
    made = made_by(name)

    back = pickle.loads(library.dumps(made))

    assert back.frame.equals(made.frame)
    assert repr(back).partition("; next:")[0] == repr(made).partition("; next:")[0]


def test_a_run_has_the_same_bytes_in_another_process(made_by, tmp_path):
    made = [made_by(name) for name in ("result", "reopened result")]
    (tmp_path / "runs").write_bytes(pickle.dumps([(one, one.run) for one in made]))
    code = (
        "import pickle, sys\n"
        "for result, run in pickle.load(open(sys.argv[1], 'rb')):\n"
        "    print(run.verify().passed, run.manifest_hash, result.run.evidence_hash, result.tear_sheet(draws=5).clv.mean)"
    )

    done = subprocess.run([sys.executable, "-c", code, tmp_path / "runs"], capture_output=True, text=True, check=True)

    assert [line.split() for line in done.stdout.splitlines()] == [
        ["True", one.run.manifest_hash, one.run.evidence_hash, str(one.tear_sheet(draws=5).clv.mean)] for one in made
    ]


def backtested(agent, **options):
    return cl.backtest("starter", agent, **options).run_id


def test_agents_go_to_other_processes_and_make_the_same_runs():
    drift = template(DRIFT)
    own = [favourites, favourites.with_params(least_bps=7000), cl.isolated(favourites, timeout_s=30)]
    here = [*(backtested(agent, audit=False) for agent in own), backtested(drift)]

    back = [pickle.loads(pickle.dumps(agent)) for agent in (*own, drift)]
    again = [*(backtested(agent, audit=False) for agent in back[:3]), backtested(back[3])]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        there = pool.submit(cloudpickle.loads(cloudpickle.dumps(backtested)), drift).result()

    assert again == here
    assert there == here[3]


def test_a_limit_of_an_agent_goes_with_it():
    agent = cl.isolated(favourites, timeout_s=30)

    assert pickle.loads(pickle.dumps(agent)).limits == agent.limits


def test_a_sweep_seals_where_it_came_to_unless_its_runs_are_kept_elsewhere(made_by):
    free = pickle.loads(pickle.dumps(made_by("sweep")))
    kept = pickle.loads(pickle.dumps(made_by("kept sweep")))

    assert free.best().seal().run.verify().passed
    assert kept.best().scores.height == free.best().scores.height
    with pytest.raises(UnsupportedError, match="stayed in another process: seal there"):
        kept.best().seal()


def test_a_laboratory_stays_where_it_is(lab):
    with pytest.raises(UnsupportedError, match="a laboratory stays in its process"):
        pickle.dumps(lab)


def test_an_error_comes_back_with_its_facts_and_its_sentence():
    error = UnknownFixtureError(1, "starter", (2, 3))

    back = pickle.loads(pickle.dumps(error))

    assert (type(back), str(back), back.fixture_id, back.pack_id) == (UnknownFixtureError, str(error), 1, "starter")


def test_every_error_can_be_pickled():
    for kind in ERRORS:
        error = kind.__new__(kind, "a", "b")

        assert type(pickle.loads(pickle.dumps(error))) is kind


@pytest.mark.parametrize("module", [cl, cl.packs, cl.agents], ids=lambda module: module.__name__)
def test_a_module_that_can_be_called_goes_to_another_process_by_its_name(module):
    assert cloudpickle.loads(cloudpickle.dumps(module)) is module
    assert cloudpickle.loads(cloudpickle.dumps(lambda: module.__name__))() == module.__name__
