from clvlab.arena.application import Application
from clvlab.arena.report_requests import BacktestRunRequest
from tests.factories import ALICE

REQUEST = {"pack_id": "starter", "fixture_id": 90000001, "window_id": "w1", "market_allowlist": [""]}
DEPLOY = {"strategy": "baseline", "source_mode": "replay", "pack_id": "starter"}


def test_what_waits_what_is_taken_up_and_how_long_the_log_is(database_url):
    now = [1_000_000]
    application = Application(database_url, clock=lambda: now[0])
    empty = application.measures()
    application.backtests.run(BacktestRunRequest(**REQUEST))
    for _ in range(2):
        application.deploys.deploy(ALICE, DEPLOY)
        now[0] += 5_000

    waiting = application.measures()
    while application.jobs.run_one():
        pass
    done = application.measures()
    application.close()

    assert (dict(empty.queue_age_s), empty.log_entries, sum(empty.stored_bytes.values())) == ({}, 0, 0)
    assert (waiting.queue_age_s, waiting.jobs["queued"]) == ({"deploy": 10.0}, 2)
    assert waiting.stored_bytes["public"] > waiting.stored_bytes["owners"] == 0
    assert (dict(done.queue_age_s), done.jobs["done"]) == ({}, 3)
    assert done.stored_bytes["owners"] > 0
    assert (waiting.log_entries, done.log_entries) == (4, 6)


def test_a_job_whose_worker_is_gone_waits_again_once_its_lease_ran_out(database_url):
    now = [1_000_000]
    application = Application(database_url, clock=lambda: now[0], lease_ms=30_000)
    application.deploys.deploy(ALICE, DEPLOY)
    application.jobs._claim()

    held = application.measures()
    now[0] += 42_000
    left = application.measures()
    application.close()

    assert (dict(held.queue_age_s), dict(left.queue_age_s)) == ({}, {"deploy": 12.0})
