"""Jobs of a process that performs none: left to others, who take them at once."""

import logging
import re
import time

import pytest

from clvlab.arena.application import Application
from clvlab.arena.report_requests import BacktestRunRequest
from clvlab.errors import BusyError
from tests.factories import ALICE, make_competition
from tests.postgres import listening
from tests.waiting import until

REQUEST = BacktestRunRequest(pack_id="starter", fixture_id=90000000, window_id="full", market_allowlist=[""])


@pytest.fixture
def answering(emptied_postgres_url):
    opened = Application(emptied_postgres_url, workers=0)
    yield opened
    opened.close()


@pytest.fixture
def working(emptied_postgres_url):
    opened = Application(emptied_postgres_url, workers=1, unasked=True)
    yield opened
    opened.close()


def test_what_is_asked_for_where_nobody_performs_is_performed_by_a_worker_while_its_caller_waits(answering, working):
    working.start()
    answering.start()

    report = answering.backtests.run(REQUEST)
    competition = answering.competitions.start(ALICE, make_competition(answering, "baseline"))

    assert answering.jobs.lanes == {"jobs": 0, "anchors": 0, "live": 0}
    assert working.jobs.lanes == {"jobs": 1, "anchors": 0, "live": 0}
    assert answering.runs.verify(report["run_id"])["verified"]
    assert competition["status"] == "finalized"
    assert answering.jobs.counts() == {"queued": 0, "leased": 0, "done": 2, "failed": 0}


def test_without_a_worker_jobs_wait_and_so_does_their_caller(answering, monkeypatch):
    monkeypatch.setattr("clvlab.arena.jobs._PATIENCE_S", 0.2)
    answering.start()

    with pytest.raises(BusyError):
        answering.backtests.run(REQUEST)

    assert answering.jobs.counts() == {"queued": 1, "leased": 0, "done": 0, "failed": 0}


def test_jobs_that_nobody_takes_are_told_to_the_operator(answering, monkeypatch, caplog):
    monkeypatch.setattr("clvlab.arena.jobs._UNTAKEN_MS", 20)
    monkeypatch.setattr("clvlab.arena.jobs._PATIENCE_S", 0.1)
    with caplog.at_level(logging.WARNING, logger="clvlab.jobs"):
        answering.start()
        time.sleep(0.2)
        before = list(caplog.messages)
        with pytest.raises(BusyError):
            answering.backtests.run(REQUEST)
        until(lambda: caplog.messages)

    assert before == []
    told = r"a job has waited for \d+ s, and this process performs none: see to `clvlab service worker`"
    assert re.fullmatch(told, caplog.messages[0])


def test_a_caller_who_waits_is_woken_by_the_end_of_the_job_elsewhere(answering, working, emptied_postgres_url, monkeypatch):
    monkeypatch.setattr("clvlab.arena.jobs._POLL_S", 3600)
    for application in (answering, working):
        application.start()
    listening(emptied_postgres_url, 2)

    assert answering.backtests.run(REQUEST)
