"""Jobs that a request performs in its own turn: what others see of them, and what is left when it is cut off."""

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import event, select

from clvlab.arena.application import Application
from clvlab.arena.caps import Budget
from clvlab.arena.report_requests import BacktestRunRequest
from clvlab.arena.runs.in_database import _sums
from clvlab.errors import RunCancelledError, ShuttingDownError, StorageSpentError, StoreUnreachableError
from clvlab.law.metrics import outcomes
from clvlab.proof.verify import verify
from clvlab.store import jobs as store_jobs
from clvlab.store.database import Database
from clvlab.store.tables import jobs as job_table
from tests.factories import ALICE, BOB, make_competition
from tests.waiting import PATIENCE_S, settled, until

REQUEST = BacktestRunRequest(pack_id="starter", fixture_id=90000000, window_id="full", market_allowlist=[""])
TEN_YEARS_MS = 86_400_000 * 3650
KILLED = """
import os, signal, sys
from clvlab.arena.application import Application
from clvlab.arena.run_jobs import ReplayJobs
from tests.arena.test_quick_jobs import REQUEST
ReplayJobs.perform = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
Application(sys.argv[1], lease_ms=500).backtests.run(REQUEST)
"""


@pytest.fixture
def opened(database_url):
    """Opens applications over one database, as processes would; each with a clock that stands where the test puts it."""
    made = []

    def another(**settings):
        now = [1_800_000_000_000]
        made.append(Application(database_url, clock=lambda: now[0], **settings))
        made[-1].now = now
        return made[-1]

    yield another
    for application in made:
        application.close(0)


@contextmanager
def counted(database: Database):
    """Count the transactions of a database that read, and those that may write."""
    counts = {"read": 0, "write": 0}

    def begin(connection):
        counts["write" if connection.get_execution_options().get("clvlab_immediate") else "read"] += 1

    event.listen(database._engine, "begin", begin)
    yield counts
    event.remove(database._engine, "begin", begin)


def job_rows(application):
    with application._database.read() as connection:
        return [dict(row) for row in connection.execute(select(job_table).order_by(job_table.c.job_id)).mappings()]


def entries(application):
    return [entry["entry"].split('"kind":"')[1].split('"')[0] for entry in application.log.entries()["entries"]]


def asked(application):
    wanted = application.backtests.ask(REQUEST)
    application.backtests.enter(wanted, at_once=True)
    return wanted


def test_an_idle_process_only_reads(opened, monkeypatch):
    monkeypatch.setattr("clvlab.arena.jobs._POLL_S", 0.001)
    application = opened()
    application.backtests.run(REQUEST)
    application.start()

    with counted(application._database) as counts:
        until(lambda: counts["read"] >= 100)  # each is a turn of a worker, of which an hour has 1800

    assert counts["write"] == 0


def test_a_worker_that_waits_is_woken_by_a_new_job(opened, monkeypatch):
    monkeypatch.setattr("clvlab.arena.jobs._POLL_S", 3600)
    application = opened(workers=1)
    with counted(application._database) as counts:
        application.start()
        until(lambda: counts["read"] >= 2)  # both of its threads have looked, and wait

    application.competitions.claim(ALICE, make_competition(application, "baseline"))

    assert settled(application)["done"] == 1


def test_a_request_performs_its_job_in_two_transactions_that_write(opened):
    application = opened()
    with counted(application._database) as counts:
        application.backtests.run(REQUEST)

    assert counts["write"] == 2  # the run with its request, job and commitment; the sealed run with its result
    assert entries(application) == ["COMMIT", "RESULT"]


def test_a_job_is_on_record_as_leased_before_it_is_performed_and_nobody_else_takes_it(opened, halted):
    begun, go_on = halted
    own, other = opened(), opened()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(own.backtests.run, REQUEST)
        assert begun.wait(PATIENCE_S)
        (job,), run_id = job_rows(other), other.backtests.ask(REQUEST).run_id

        assert (job["status"], job["attempt"], job["run_id"]) == ("leased", 1, run_id)
        assert other.runs.card(run_id)["run"]["status"] == "running"
        assert entries(other) == ["COMMIT"]
        assert not other.jobs.run_one()
        go_on.set()

        assert answer.result()["run_id"] == run_id
    assert [(row["status"], row["attempt"], row["postponed"]) for row in job_rows(other)] == [("done", 1, 0)]


def test_an_owner_whose_start_was_performed_at_once_comes_after_others(opened):
    application = opened()
    application.competitions.start(ALICE, make_competition(application, "baseline"))
    first, second = (make_competition(application, "baseline", owner=owner, fixture_id=90000001) for owner in (ALICE, BOB))
    for owner, competition_id in ((ALICE, first), (BOB, second)):
        application.competitions.claim(owner, competition_id)

    assert application.jobs._claim().payload["origin_id"] == second


def test_a_process_killed_before_the_run_leaves_a_job_that_is_done_once(database_url):
    killed = subprocess.run([sys.executable, "-c", KILLED, database_url], check=False)
    application = Application(database_url, lease_ms=500)
    (job,) = job_rows(application)

    application.start()
    counts = settled(application)
    card = application.runs.card(job["run_id"])
    (done,) = job_rows(application)
    application.close()

    assert killed.returncode == -signal.SIGKILL
    assert (job["status"], job["attempt"]) == ("leased", 1)
    assert counts == {"queued": 0, "leased": 0, "done": 1, "failed": 0}
    assert (card["run"]["status"], done["attempt"], done["postponed"]) == ("sealed", 2, 0)


@pytest.mark.parametrize("jump_ms", [-TEN_YEARS_MS, 31_000, TEN_YEARS_MS])
def test_a_clock_that_jumps_between_store_and_run_loses_and_doubles_nothing(opened, jump_ms):
    own, other = opened(), opened()
    wanted = asked(own)
    other.now[0] += jump_ms

    assert other.jobs.run_one()  # to the other's clock the lease is over, or begins in the future
    sealed = other.runs.card(wanted.run_id)
    assert own.backtests.settle(wanted)["run_id"] == wanted.run_id  # its lease is lost, and it finds the run sealed

    assert own.runs.card(wanted.run_id) == sealed
    assert entries(own) == ["COMMIT", "RESULT"]
    assert [(row["status"], row["attempt"]) for row in job_rows(own)] == [("done", 2)]
    assert own.leaderboard.rows()["rows"][0]["runs"] == 1


def test_a_late_caller_stores_nothing_of_a_job_that_another_process_took(opened, halted):
    begun, go_on = halted
    own, other = opened(), opened()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(own.backtests.run, REQUEST)
        assert begun.wait(PATIENCE_S)
        other.now[0] += 31_000
        assert other.jobs.run_one()
        sealed = other.runs.card(other.backtests.ask(REQUEST).run_id)
        go_on.set()

        assert answer.result()["run_id"] == sealed["run"]["run_id"]
    assert other.runs.card(sealed["run"]["run_id"]) == sealed
    assert entries(other) == ["COMMIT", "RESULT"]


def test_processes_that_are_asked_for_the_same_at_once_perform_it_once(opened):
    services, together = [opened() for _ in range(3)], threading.Barrier(6)

    def ask(service):
        together.wait(PATIENCE_S)
        return service.backtests.run(REQUEST)

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(ask, services * 2))

    assert all(answer == answers[0] for answer in answers)
    assert [(row["status"], row["attempt"]) for row in job_rows(services[0])] == [("done", 1)]
    assert entries(services[0]) == ["COMMIT", "RESULT"]


def test_a_request_cancelled_between_store_and_run_is_not_sealed_and_can_be_asked_again(opened):
    application = opened()
    wanted = asked(application)
    application.backtests.withdraw(wanted.answer["backtest_id"], wanted.key)

    with pytest.raises(RunCancelledError):
        application.backtests.settle(wanted)
    assert entries(application) == ["COMMIT", "ABANDONED"]

    assert application.backtests.run(REQUEST)["run_id"] == wanted.run_id
    assert entries(application) == ["COMMIT", "ABANDONED", "COMMIT", "RESULT"]


def test_what_no_caller_settles_is_given_back_when_the_process_ends(opened):
    ending, other = opened(), opened()
    asked(ending)

    ending.close(0)

    assert [(row["status"], row["postponed"]) for row in job_rows(other)] == [("queued", 1)]
    assert other.jobs.run_one()


def test_what_is_stored_while_the_process_ends_is_given_back_and_its_caller_told(opened):
    ending, other = opened(), opened()
    wanted = ending.backtests.ask(REQUEST)
    ending.jobs.stop(0)

    ending.backtests.enter(wanted, at_once=True)

    assert [(row["status"], row["postponed"]) for row in job_rows(other)] == [("queued", 1)]
    with pytest.raises(ShuttingDownError):
        ending.backtests.settle(wanted)
    assert other.jobs.run_one()


def test_a_process_that_ends_gives_back_the_job_of_a_request(opened, halted):
    begun, go_on = halted
    ending, other = opened(), opened()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ending.backtests.run, REQUEST)
        assert begun.wait(PATIENCE_S)
        ending.jobs.stop(0)
        assert other.jobs.run_one()
        go_on.set()

        with pytest.raises(ShuttingDownError):
            answer.result()
    assert [(row["status"], row["attempt"], row["postponed"]) for row in job_rows(other)] == [("done", 2, 1)]


def test_a_refused_request_leaves_no_job_behind(opened):
    application = opened(budget=Budget(public_bytes=0))

    with pytest.raises(StorageSpentError):
        application.backtests.run(REQUEST)

    assert job_rows(application) == []
    assert application.jobs._attempts.take(application.backtests.ask(REQUEST).run_id) is None


def test_a_process_without_workers_leaves_the_job_to_others(opened):
    answering, other = opened(workers=0), opened()
    asked(answering)

    assert [row["status"] for row in job_rows(other)] == ["queued"]
    assert other.jobs.run_one()


def test_one_thread_renews_all_leases_of_a_process_and_ends_with_them(opened):
    application = opened(lease_ms=300)
    competitions = [make_competition(application, "baseline", fixture_id=90000000 + number) for number in range(3)]
    for competition_id in competitions:
        application.competitions.claim(ALICE, competition_id)
    claimed = [application.jobs._claim() for _ in competitions]

    def renewing():
        return [thread for thread in threading.enumerate() if thread.name == "clvlab-leases"]

    before = len(renewing())
    contexts = [application.jobs._attempts.at(job, visible=True) for job in claimed]
    for context in contexts:
        context.__enter__()
    first = [row["lease_until_ts_ms"] for row in job_rows(application)]
    application.now[0] += 200
    until(lambda: all(row["lease_until_ts_ms"] > until_ms for row, until_ms in zip(job_rows(application), first, strict=True)))

    assert len(renewing()) == before + 1
    for context in contexts:
        context.__exit__(None, None, None)
    until(lambda: len(renewing()) == before)


def test_a_renewal_under_way_delays_the_end_of_an_attempt_so_that_it_undoes_nothing(opened, monkeypatch):
    application = opened(lease_ms=30)
    application.competitions.claim(ALICE, make_competition(application, "baseline"))
    job, real = application.jobs._claim(), store_jobs.renew
    renewing, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def renew(*arguments):
        renewing.set()
        assert go_on.wait(PATIENCE_S)
        return real(*arguments)

    def attempt():
        with application.jobs._attempts.at(job, visible=True):
            assert renewing.wait(PATIENCE_S)
        ended.set()

    monkeypatch.setattr(store_jobs, "renew", renew)
    with ThreadPoolExecutor(1) as pool:
        attempted = pool.submit(attempt)
        assert renewing.wait(PATIENCE_S)
        left_early = ended.wait(0.2)
        go_on.set()
        attempted.result()

    assert not left_early


@pytest.mark.parametrize("error", [StoreUnreachableError("gone"), RuntimeError("a fault of ours")])
def test_a_lease_that_can_not_be_renewed_once_is_renewed_the_next_time(opened, monkeypatch, error):
    application = opened(lease_ms=30)
    application.competitions.claim(ALICE, make_competition(application, "baseline"))
    job, real, left = application.jobs._claim(), store_jobs.renew, [error]

    def renew(*arguments):
        if left:
            raise left.pop()
        return real(*arguments)

    monkeypatch.setattr(store_jobs, "renew", renew)
    before = job_rows(application)[0]["lease_until_ts_ms"]
    with application.jobs._attempts.at(job, visible=True):
        application.now[0] += 10
        until(lambda: job_rows(application)[0]["lease_until_ts_ms"] > before)

    assert not left


def test_results_without_a_new_fixture_are_the_sums_of_no_decisions(in_memory):
    run_id = in_memory.backtests.run(REQUEST)["run_id"]
    scores = verify(in_memory.runs.sealed_run(run_id)).scores
    none = outcomes(scores.clear(), ("baseline",)).row(0, named=True)

    sums = _sums(scores.clear(), ["baseline"], None)["baseline"]

    assert {name: none[name] for name in none if name in sums} == {name: sums[name] for name in none if name in sums}
    assert set(sums.values()) == {0}
    assert _sums(scores, ["baseline"], outcomes(scores, ("baseline",))) == _sums(scores, ["baseline"], None)
