"""Jobs of a process that ends: given back where it says so, and counted only where it does not."""

import threading
import time

import pytest

from clvlab.arena.application import Application
from clvlab.arena.run_jobs import ReplayJobs
from clvlab.errors import ShuttingDownError, StoreError, StoreUnreachableError
from clvlab.store import jobs as job_rows
from tests.factories import ALICE
from tests.length import few
from tests.waiting import PATIENCE_S

BODY = {"strategy": "baseline", "source_mode": "replay", "pack_id": "starter", "fixture_id": 90000000}
LEASE_MS = 30_000


@pytest.fixture
def opened(database_url):
    """Opens applications over one database, with a clock that stands where the test puts it."""
    made, now = [], [1_800_000_000_000]

    def another():
        made.append(Application(database_url, clock=lambda: now[0], workers=1))
        return made[-1]

    another.now = now
    yield another
    for application in made:
        application.close(0)


def row(application, run_id):
    with application._database.read() as connection:
        return dict(connection.execute(job_rows.jobs.select().where(job_rows.jobs.c.run_id == run_id)).mappings().one())


def test_a_process_that_ends_gives_back_what_it_computes_and_another_does_it_at_once(opened, halted):
    begun, go_on = halted
    ending, other = opened(), opened()
    run_id = ending.deploys.deploy(ALICE, BODY)["run_id"]
    ending.start()
    assert begun.wait(PATIENCE_S)

    started = time.monotonic()
    ending.close(0.2)
    took_s = time.monotonic() - started
    assert other.jobs.run_one()
    done = other.runs.card(run_id)
    go_on.set()

    assert took_s >= 0.2
    assert done["run"]["status"] == "sealed"
    job = row(other, run_id)
    assert (job["status"], job["attempt"], job["postponed"]) == ("done", 2, 1)
    assert other.runs.card(run_id) == done


def test_a_process_that_ends_waits_for_what_is_soon_done(opened, halted):
    begun, go_on = halted
    ending, other = opened(), opened()
    run_id = ending.deploys.deploy(ALICE, BODY)["run_id"]
    ending.start()
    assert begun.wait(PATIENCE_S)

    threading.Timer(0.2, go_on.set).start()
    ending.close(PATIENCE_S)

    job = row(other, run_id)
    assert (job["status"], job["attempt"], job["postponed"]) == ("done", 1, 0)


def test_who_waits_for_a_run_is_told_that_the_process_ends(opened, halted):
    begun, go_on = halted
    ending, other = opened(), opened()
    run_id = ending.deploys.deploy(ALICE, BODY)["run_id"]
    told = []

    def wait():
        try:
            ending.jobs.settle(run_id)
        except ShuttingDownError as error:
            told.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(PATIENCE_S)
    ending.jobs.stop(0)
    go_on.set()
    waiting.join(PATIENCE_S)

    assert len(told) == 1
    assert row(other, run_id)["status"] == "queued"
    assert other.jobs.settle(run_id)["status"] == "sealed"


def test_ordinary_restarts_use_no_attempts_up(opened):
    application = opened()
    run_id = application.deploys.deploy(ALICE, BODY)["run_id"]
    for _ in range(25):
        job = application.jobs._claim()
        with application._database.write() as connection:
            assert job_rows.give_back(connection, job)

    assert application.jobs.run_one()

    assert application.runs.card(run_id)["run"]["status"] == "sealed"


def test_kills_in_a_row_use_few_attempts_up(opened):
    application = opened()
    run_id = application.deploys.deploy(ALICE, BODY)["run_id"]
    for _ in range(120):  # every other second for four minutes
        application.jobs._claim()
        opened.now[0] += 2_000
    assert row(application, run_id)["attempt"] <= 4

    opened.now[0] += 3_600_000
    assert application.jobs.run_one()

    assert application.runs.card(run_id)["run"]["status"] == "sealed"


@few(1)
def test_a_job_that_kills_its_process_every_time_is_given_up_within_two_hours(opened):
    application = opened()
    run_id = application.deploys.deploy(ALICE, BODY)["run_id"]
    begun, kills = opened.now[0], 0
    while (job := row(application, run_id))["status"] != "failed":
        if job["attempt"] - job["postponed"] == 10:
            application.jobs.run_one()
        elif application.jobs._claim():
            kills += 1
        opened.now[0] += 10_000
        assert opened.now[0] - begun < 7_200_000

    assert kills == 10
    assert "10 attempts" in application.runs.card(run_id)["run"]["cause"]


def test_a_database_that_goes_away_uses_no_attempts_up(opened, monkeypatch):
    application = opened()
    run_id = application.deploys.deploy(ALICE, BODY)["run_id"]
    real, failures = ReplayJobs.perform, []

    def perform(self, job, tell):
        if len(failures) < 15:
            failures.append(job.attempt)
            raise StoreUnreachableError("the database does not answer")
        real(self, job, tell)

    def unreachable(*_):
        raise StoreError("it does not answer yet")

    monkeypatch.setattr(ReplayJobs, "perform", perform)
    for number in range(15):
        with monkeypatch.context() as patch:
            if number % 2:
                patch.setattr(job_rows, "postpone", unreachable)
            with pytest.raises(StoreUnreachableError):
                application.jobs.run_one()
        application.jobs._postponing.postpone_remembered()
        opened.now[0] += 400_000

    assert application.jobs.run_one()

    assert application.runs.card(run_id)["run"]["status"] == "sealed"
    assert row(application, run_id)["postponed"] == 15
