import subprocess
import sys
import time

import pytest

from clvlab.arena.application import Application
from clvlab.arena.deploys.config import DeployConfig
from clvlab.arena.deploys.job import spec_of
from clvlab.arena.packs import bundled_catalog
from clvlab.arena.runs.binding import bind
from clvlab.errors import LeaseLostError
from clvlab.runs.execute import perform
from clvlab.runs.progress import to_listener
from tests.factories import ALICE, make_competition
from tests.length import length
from tests.waiting import settled, until

pytestmark = pytest.mark.long

BODY = {"strategy": "cumulative-drift", "source_mode": "replay", "pack_id": "season"}


@pytest.fixture(params=["sqlite", "postgresql"])
def durable_url(request, tmp_path):
    return f"sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def evidence_hash(record):
    """Evidence hash of a deployed run, computed anew from its record."""
    own = bind(bundled_catalog(), "season", record["replay_binding"]["fixture_id"])
    plan = spec_of(DeployConfig.model_validate(record["config"]), own, record["instance_id"])
    return perform(plan).sealed.evidence_hash


@pytest.mark.parametrize("delay_s", length([0.1, 0.35], [0.0, 0.05, 0.1, 0.2, 0.35, 0.6]))
def test_a_process_killed_at_any_moment_leaves_work_that_is_done_once(durable_url, delay_s):
    application = Application(durable_url, lease_ms=500)
    competition_id = make_competition(application, "baseline", "cumulative-drift", pack_id="season")
    deployed = [application.deploys.deploy(ALICE, BODY | {"fixture_id": 90000000 + n}) for n in range(4)]
    command = [sys.executable, "-m", "tests.arena.crashing", durable_url, competition_id]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    time.sleep(delay_s)
    process.kill()
    process.communicate()

    application.start()
    counts = settled(application)
    if application.competitions.state(competition_id)["status"] == "draft":  # killed before the claim
        application.competitions.start(ALICE, competition_id)

    assert counts["failed"] == 0
    state = application.competitions.state(competition_id)
    assert (state["status"], state["proof_card"]["run"]["status"]) == ("finalized", "sealed")
    kinds = [event["kind"] for event in application.competitions.events(competition_id, -1)]
    decisions = application.runs.sealed_run(state["run_id"]).scores.count(b"\n")
    assert kinds.count("AGENT_ACTION") == kinds.count("LAW_RESULT") == decisions
    assert [kinds.count(kind) for kind in ("COMPETITION_STARTED", "PROOF_ANCHOR", "COMPETITION_FINALIZED")] == [1, 1, 1]
    for answer in deployed:
        card = application.runs.card(answer["run_id"])
        record = application.deploys.instance(ALICE, answer["instance_id"])
        assert card["evidence"]["evidence_hash"] == evidence_hash(record)
        assert application.runs.verify(answer["run_id"])["verified"]
    assert len(application.runs.page()["runs"]) == 5
    assert application.log.state()["owners"] == [{"owner": ALICE, "committed": 5, "sealed": 5, "abandoned": 0, "open": 0}]
    assert application.leaderboard.rebuild() == []
    application.close()


def test_a_late_worker_can_not_store_what_another_stored_already(durable_url):
    now = [1_800_000_000_000]
    slow = Application(durable_url, clock=lambda: now[0])
    fast = Application(durable_url, clock=lambda: now[0] + 3_600_000)
    answer = slow.deploys.deploy(ALICE, BODY)
    job = slow.jobs._claim()

    assert fast.jobs.run_one()
    sealed = fast.runs.card(answer["run_id"])
    with pytest.raises(LeaseLostError):
        slow.jobs.handlers["deploy"].perform(job, to_listener)

    assert sealed["run"]["status"] == "sealed"
    assert slow.runs.card(answer["run_id"]) == sealed
    assert slow.leaderboard.rows()["rows"][0]["runs"] == 1
    for application in (slow, fast):
        application.close()


def test_a_worker_that_is_only_slow_keeps_its_job(durable_url):
    application = Application(durable_url, lease_ms=2_000)
    application.deploys.deploy(ALICE, BODY)
    job = application.jobs._claim()

    with application.jobs._attempts.at(job, visible=True):
        time.sleep(3)
        stolen = application.jobs._claim()
    after = until(application.jobs._claim)

    assert stolen is None
    assert after.attempt == 2
    application.close()


def test_services_share_the_work_of_one_database(durable_url):
    services = [Application(durable_url, workers=2) for _ in range(3)]
    answers = [services[0].deploys.deploy(ALICE, BODY | {"fixture_id": 90000000 + n}) for n in range(12)]

    for service in services:
        service.start()
    counts = settled(services[1])

    assert counts == {"queued": 0, "leased": 0, "done": 12, "failed": 0}
    for answer in answers:
        events = services[2].deploys.runtime_events(ALICE, answer["instance_id"])["events"]
        assert [event["type"] for event in events].count("RUN_SEALED") == 1
        assert {event["session_id"] for event in events[1:]} == {f"{answer['run_id']}/1"}
    assert services[0].leaderboard.rows()["rows"][0]["runs"] == 12
    for service in services:
        service.close()


def test_a_job_whose_worker_dies_again_and_again_is_given_up_with_a_cause(tmp_path):
    now = [0]
    application = Application(f"sqlite:///{tmp_path / 'store.db'}", clock=lambda: now[0])
    answer = application.deploys.deploy(ALICE, BODY)
    for _ in range(10):  # ten workers claim it, and none is heard of again
        assert application.jobs._claim() is not None
        now[0] += 3_600_000

    assert application.jobs.run_one()

    card = application.runs.card(answer["run_id"])
    assert (card["run"]["status"], "10 attempts" in card["run"]["cause"]) == ("failed", True)
    application.close()


@pytest.mark.parametrize("jump_ms", [-86_400_000 * 3650, 86_400_000 * 3650])
def test_a_clock_that_jumps_while_work_is_queued_and_leased_loses_none_of_it(durable_url, jump_ms):
    now = [1_800_000_000_000]
    application = Application(durable_url, clock=lambda: now[0])
    answers = [application.deploys.deploy(ALICE, BODY | {"fixture_id": 90000000 + n}) for n in range(3)]
    application.jobs._claim()  # whose worker dies

    now[0] += jump_ms
    while application.jobs.run_one():
        pass

    assert application.jobs.counts() == {"queued": 0, "leased": 0, "done": 3, "failed": 0}
    assert all(application.runs.card(answer["run_id"])["run"]["status"] == "sealed" for answer in answers)
    application.close()
