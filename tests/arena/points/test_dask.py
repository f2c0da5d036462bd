"""A search on a cluster: any machines that can read the pack's folder."""

import os
import signal

import pytest
from distributed import Client, LocalCluster

from clvlab.arena import packs
from clvlab.base import parallel
from clvlab.law.closing import Window
from clvlab.runs.search.scorer import sums_at, sums_of_tasks
from clvlab.runs.search.search import search_of
from tests.frames import assert_all_equal

SEARCH = search_of(packs.open_pack("starter"), "cumulative-drift", None, Window(), {})
POINTS = [{"warmup_ticks": warmup, "cooldown_s": 60} for warmup in range(60)]
TASKS = [(SEARCH, params) for params in POINTS]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the worker that is killed
def test_a_cluster_that_loses_a_worker_finds_what_this_process_finds(monkeypatch):
    monkeypatch.setattr(parallel, "_ALONE_S", 1e-9)
    monkeypatch.setattr(parallel, "_TASK_S", 0.0)
    local = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**local) as cluster, Client(cluster) as client:
        sums = sums_of_tasks(TASKS, len(TASKS), client.get_executor())
        found = [next(sums)]
        os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
        found += sums

    assert_all_equal(found, sums_at(TASKS))
