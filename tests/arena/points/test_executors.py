import os
import signal
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import polars as pl
import pytest
from loky import get_reusable_executor

import clvlab as cl
from clvlab.agents.isolation import process as agent_process
from clvlab.agents.isolation.tapes import write_tape
from clvlab.arena import packs
from clvlab.base import parallel
from clvlab.base.parallel import workers
from clvlab.errors import AgentError, ExecutorError, PackTamperedError
from clvlab.law.closing import Window
from clvlab.runs.search import scorer
from clvlab.runs.search.scorer import sums_at, sums_of_tasks
from clvlab.runs.search.search import search_of
from tests.frames import assert_all_equal
from tests.length import few

PACK = packs.open_pack("starter")
SEARCH = search_of(PACK, "cumulative-drift", None, Window(), {})
POINTS = [{"warmup_ticks": warmup, "cooldown_s": 60} for warmup in range(5, 17)]


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    """Send every point but the first away, one a task."""
    for name, value in {"_ALONE_S": 1e-9, "_WORTH_S": 0.0, "_TASK_S": 0.0}.items():
        monkeypatch.setattr(parallel, name, value)
    monkeypatch.setenv("CLVLAB_WORKERS", "2")


@pytest.fixture(scope="module")
def expected():
    return sums_at(tasks_of(SEARCH, POINTS))


def tasks_of(search, points):
    return ((search, params) for params in points)


def found(executor=None, search=SEARCH, points=POINTS):
    return list(sums_of_tasks(tasks_of(search, points), len(points), executor))


@few(1)
@pytest.mark.parametrize("count", [1, 2])
def test_processes_of_our_own_find_what_this_one_finds(expected, monkeypatch, count):
    monkeypatch.setenv("CLVLAB_WORKERS", str(count))

    assert_all_equal(found(), expected)


def test_an_executor_of_the_callers_finds_the_same(expected):
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        assert_all_equal(found(threads), expected)
        assert_all_equal(found(processes), expected)


def test_a_worker_that_is_killed_costs_nothing(expected):
    sums = sums_of_tasks(tasks_of(SEARCH, POINTS), len(POINTS), None)
    first = [next(sums) for _ in range(3)]
    for process in get_reusable_executor(max_workers=2, env={"POLARS_MAX_THREADS": "1"}, timeout=60)._processes.values():
        os.kill(process.pid, signal.SIGKILL)

    assert_all_equal([*first, *sums], expected)


class Failing(ThreadPoolExecutor):
    """Loses the first tasks."""

    def __init__(self, losses, error):
        super().__init__(1)
        self.losses, self.error = losses, error

    def submit(self, *args):
        if not self.losses:
            return super().submit(*args)
        self.losses -= 1
        lost = Future()
        lost.set_exception(self.error)
        return lost


def test_a_task_that_is_lost_is_sent_again(expected):
    with Failing(2, RuntimeError("the worker is gone")) as executor:
        assert_all_equal(found(executor), expected)


def test_a_task_that_is_lost_again_and_again_is_named():
    with Failing(99, RuntimeError("the worker is gone")) as executor, pytest.raises(ExecutorError) as raised:
        found(executor)
    assert str(raised.value) == ("no answer at the setting warmup_ticks=6, cooldown_s=60 after 3 attempts: the worker is gone")


def test_a_broken_executor_of_the_callers_is_reported():
    gone = Failing(1, BrokenExecutor("all processes are gone"))
    with gone as executor, pytest.raises(ExecutorError, match="after 1 attempts: all processes are gone"):
        found(executor)


def test_an_executor_that_was_shut_down_is_reported():
    with ThreadPoolExecutor(1) as executor:
        pass
    with pytest.raises(ExecutorError, match="after 3 attempts: cannot schedule new futures after shutdown"):
        found(executor)


def test_no_process_is_started_where_nothing_is_left(monkeypatch, expected):
    monkeypatch.setattr(parallel, "_cores", lambda: pytest.fail("started"))

    assert list(sums_of_tasks(iter(()), 1_000, None)) == []
    assert_all_equal(sums_of_tasks(tasks_of(SEARCH, POINTS[:1]), 1_000, None), expected[:1])


def test_an_agent_that_fails_in_another_process_is_reported_with_its_point():
    with pytest.raises(AgentError, match="warmup_ticks") as raised:
        found(points=[*POINTS, {"warmup_ticks": -1}])
    assert raised.value.__notes__ == ["at the setting warmup_ticks=-1"]


@cl.strategy
def first_ticks(ticks, *, least=6000):
    return ticks.filter(pl.col("prob_bps") >= least).unique("series", keep="first", maintain_order=True)


def test_an_agent_of_ones_own_goes_to_other_processes():
    search = search_of(PACK, first_ticks, PACK.fixture_ids[:2], Window(), {})
    points = [{"least": least} for least in (4000, 5000, 6000)]

    assert_all_equal(found(search=search, points=points), sums_at(tasks_of(search, points)))


def test_the_process_of_an_agent_of_ones_own_is_handed_a_tape_once(monkeypatch):
    handed = []
    monkeypatch.setattr(agent_process, "write_tape", lambda tape, folder: handed.append(tape) or write_tape(tape, folder))
    scorer._forget()
    search = search_of(PACK, first_ticks, PACK.fixture_ids[2:4], Window(), {})

    sums_at(tasks_of(search, [{"least": least} for least in (4000, 5000, 6000)]))

    assert len(handed) == 1


def test_a_pack_that_is_not_what_it_was_is_refused():
    with pytest.raises(PackTamperedError):
        found(search=replace(SEARCH, content_hash="sha256:" + "0" * 64))


def test_points_are_taken_as_they_are_needed():
    taken = []

    def points():
        for warmup in range(10_000):
            taken.append(warmup)
            yield {"warmup_ticks": warmup}

    sums = sums_of_tasks(tasks_of(SEARCH, points()), 10_000, None)
    for _ in range(3):
        next(sums)
    sums.close()

    assert len(taken) < 20


def test_a_number_of_workers_that_is_none_is_refused(monkeypatch):
    monkeypatch.setenv("CLVLAB_WORKERS", "two")
    with pytest.raises(ExecutorError, match="'two'"):
        workers()
    monkeypatch.delenv("CLVLAB_WORKERS")
    assert workers() >= 1
