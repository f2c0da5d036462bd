import pytest

from clvlab.arena.jobs import Jobs
from clvlab.arena.report_requests import PackBacktestRequest
from clvlab.errors import (
    BusyError,
    IdempotencyConflictError,
    LeaseLostError,
    NotOwnerError,
    RunCancelledError,
    StoreUnreachableError,
    TransitionError,
)
from clvlab.runs.progress import Stage
from clvlab.store import runs
from tests.factories import ALICE, BOB, make_competition

REQUEST = PackBacktestRequest(pack_id="starter", fixture_ids=[90000000, 90000001])


def claimed(application):
    """A competition whose start is claimed, and its run; nobody performs it."""
    competition_id = make_competition(application, "baseline")
    return competition_id, application.competitions.claim(ALICE, competition_id)


def test_cancelled_competition_is_what_it_was_and_can_start_again(application):
    competition_id, run_id = claimed(application)

    with pytest.raises(NotOwnerError):
        application.competitions.cancel(BOB, competition_id)
    ended = application.competitions.cancel(ALICE, competition_id)

    assert ended == {"competition_id": competition_id, "status": "draft"}
    assert application.competitions.state(competition_id)["cause"] == "cancelled"
    assert application.competitions.events(competition_id, -1)[-1]["kind"] == "COMPETITION_FAILED"
    assert application.runs.card(run_id)["run"]["status"] == "failed"
    assert application.log.state()["owners"] == [{"owner": ALICE, "committed": 1, "sealed": 0, "abandoned": 1, "open": 0}]
    with pytest.raises(RunCancelledError, match=run_id):
        application.competitions.settled_response(competition_id, run_id)
    with pytest.raises(TransitionError, match="draft"):
        application.competitions.cancel(ALICE, competition_id)
    assert application.competitions.start(ALICE, competition_id)["status"] == "finalized"


def test_worker_whose_run_is_cancelled_ends_at_its_next_word_and_stores_nothing(application):
    competition_id, run_id = claimed(application)
    job = application.jobs._claim()
    told = []

    with application.jobs._attempts.at(job, visible=True) as attempt:

        def tell(stage, done=0, total=1):
            told.append(stage)
            if stage == Stage.DECIDING:
                application.competitions.cancel(ALICE, competition_id)
            attempt.tell(stage, done, total)

        with pytest.raises(LeaseLostError, match="not wanted"):
            application.jobs.handlers["competition"].perform(job, tell)

    assert told == [Stage.OPENING, Stage.DECIDING]
    assert application.runs.card(run_id)["run"]["status"] == "failed"
    assert application.jobs.counts() == {"queued": 0, "leased": 0, "done": 0, "failed": 0, "cancelled": 1}


def test_cancel_of_another_process_is_met_at_the_fence(application):
    competition_id, run_id = claimed(application)
    job = application.jobs._claim()
    application.competitions.cancel(ALICE, competition_id)

    with pytest.raises(LeaseLostError):
        application.jobs.handlers["competition"].perform(job, lambda *_: None)

    assert application.competitions.state(competition_id)["status"] == "draft"
    assert application.competitions.claim(ALICE, competition_id) == run_id
    assert application.jobs.run_one()
    assert application.competitions.state(competition_id)["status"] == "finalized"


def test_backtest_is_cancelled_when_the_last_who_asked_withdraws(application):
    first, second = application.backtests.ask(REQUEST), application.backtests.ask(REQUEST, "mine")
    for asked in (first, second):
        application.backtests.enter(asked)
    backtest_id = first.answer["backtest_id"]

    after_one = application.backtests.withdraw(backtest_id, first.key)
    with pytest.raises(NotOwnerError):
        application.backtests.withdraw(backtest_id, first.key)
    after_both = application.backtests.withdraw(backtest_id, "mine")

    assert (after_one["status"], after_both["status"], after_both["cause"]) == ("queued", "failed", "cancelled")
    assert application.backtests.run(REQUEST)["run_id"] == first.run_id
    assert application.jobs.state(first.run_id)["status"] == "sealed"


def test_progress_is_seen_by_other_processes_and_ends_with_the_run(application, monkeypatch):
    monkeypatch.setattr("clvlab.arena.jobs._NOTED_S", -1)
    _, run_id = claimed(application)
    job = application.jobs._claim()
    with application.jobs._attempts.at(job, visible=True) as attempt:
        with application._database.write() as connection:
            runs.mark(connection, run_id, runs.RunStatus.RUNNING, ts_ms=1)
        attempt.tell(Stage.DECIDING, 1, 2)
        here = application.jobs.state(run_id)
    there = application.jobs.state(run_id)  # from the database, as another process reads it

    assert here == there == here | {"status": "running", "stage": "deciding", "done": 1, "total": 2}
    application.jobs.handlers["competition"].perform(job, lambda *_: None)
    assert application.jobs.state(run_id) == here | {"status": "sealed", "stage": None, "done": None, "total": None}


def test_whoever_asks_while_another_withdraws_keeps_the_run(application, monkeypatch):
    first, second = application.backtests.ask(REQUEST, "first"), application.backtests.ask(REQUEST, "second")
    application.backtests.enter(first)
    cancel = Jobs.cancel

    def joined(*given, **options):
        application.backtests.enter(second)
        return cancel(*given, **options)

    monkeypatch.setattr(Jobs, "cancel", joined)
    state = application.backtests.withdraw(first.answer["backtest_id"], "first")

    assert state["status"] == "queued"
    assert application.backtests.settle(second)["run_id"] == first.run_id


def test_a_key_whose_attempt_failed_keeps_no_later_request_from_being_cancelled(application):
    kept, later = application.backtests.ask(REQUEST, "kept"), application.backtests.ask(REQUEST)
    application.backtests.enter(kept)
    application.jobs.cancel(kept.run_id, "broken")
    application.backtests.enter(later)

    assert application.backtests.withdraw(later.answer["backtest_id"], later.key)["status"] == "failed"
    with pytest.raises(IdempotencyConflictError, match="kept"):
        application.backtests.ask(REQUEST.model_copy(update={"window_id": "other"}), "kept")


def test_a_key_that_was_withdrawn_stands_for_its_backtest_for_good(application):
    asked = application.backtests.ask(REQUEST, "mine")
    application.backtests.enter(asked)
    application.backtests.withdraw(asked.answer["backtest_id"], "mine")

    with pytest.raises(IdempotencyConflictError, match="mine"):
        application.backtests.ask(REQUEST.model_copy(update={"window_id": "other"}), "mine")


def test_progress_that_can_not_be_noted_ends_no_run(application, monkeypatch):
    monkeypatch.setattr("clvlab.arena.jobs._NOTED_S", -1)
    monkeypatch.setattr("clvlab.store.jobs.note_progress", broken)
    _, run_id = claimed(application)

    assert application.jobs.run_one()

    assert application.jobs.state(run_id)["status"] == "sealed"


def broken(*_):
    raise StoreUnreachableError("the database does not answer")


def test_waiting_ends_by_time_and_not_by_news_of_others(in_memory, monkeypatch):
    _, run_id = claimed(in_memory)
    in_memory.jobs._claim()
    monkeypatch.setattr("clvlab.arena.jobs._PATIENCE_S", 0.3)
    news = []

    monkeypatch.setattr(in_memory._hub, "wait", lambda *news_of_others: news.append(news_of_others))
    with pytest.raises(BusyError):
        in_memory.jobs.settle(run_id)

    assert len(news) > 1
