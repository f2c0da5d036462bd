import time

import pytest
from sqlalchemy import event

from clvlab.arena.application import Application
from clvlab.errors import StoreFullError, StoreUnreachableError
from tests.factories import ALICE, make_competition
from tests.waiting import settled

BODY = {"strategy": "cumulative-drift", "source_mode": "replay", "pack_id": "season"}


def test_work_goes_on_where_it_was_when_a_lost_database_comes_back(own_postgres):
    application = Application(own_postgres.get_uri(), lease_ms=2_000)
    competition_id = make_competition(application, "baseline", "cumulative-drift", pack_id="season")
    answers = [application.deploys.deploy(ALICE, BODY | {"fixture_id": 90000000 + n}) for n in range(8)]
    application.start()
    time.sleep(0.4)

    own_postgres.stop()

    for ask in (
        application.leaderboard.rows,
        application.ready,
        lambda: application.competitions.start(ALICE, competition_id),
        lambda: application.deploys.deploy(ALICE, BODY, "key"),
    ):
        with pytest.raises(StoreUnreachableError):
            ask()
    own_postgres.ensure_postgres_running()
    counts = settled(application)
    started = application.competitions.start(ALICE, competition_id)
    settled(application)

    assert counts["failed"] == 0
    assert started["status"] == "finalized"
    assert all(application.runs.card(answer["run_id"])["run"]["status"] == "sealed" for answer in answers)
    assert len(application.runs.page()["runs"]) == 9
    assert application.leaderboard.rebuild() == []
    application.close()


def test_a_full_disk_stops_a_seal_and_loses_nothing_of_what_was_there(tmp_path):
    now = [0]
    application = Application(f"sqlite:///{tmp_path / 'store.db'}", clock=lambda: now[0])
    first = application.deploys.deploy(ALICE, BODY)
    assert application.jobs.run_one()

    def kept():
        card = application.runs.card(first["run_id"])
        return card | {"log": None}, application.leaderboard.rows()  # where the run stands in a log that grows

    before = kept()
    second = application.deploys.deploy(ALICE, BODY | {"fixture_id": 90000001})
    pages = [0]

    def limit(connection):
        pages[0] = pages[0] or connection.exec_driver_sql("PRAGMA page_count").scalar_one() + 1
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages[0]}")

    event.listen(application._database._engine, "begin", limit)
    with pytest.raises(StoreFullError):
        application.jobs.run_one()

    assert kept() == before
    assert application.runs.card(second["run_id"])["run"]["status"] in ("queued", "running")
    pages[0] = 10**6
    now[0] += 3_600_000  # the lease runs out
    assert application.jobs.run_one()
    assert application.runs.card(second["run_id"])["run"]["status"] == "sealed"
    assert application.leaderboard.rows()["rows"][0]["runs"] == 2
    assert application.leaderboard.rebuild() == []
    application.close()
