"""Live deploys and competitions of a service, through kills and hand-overs."""

import json
import subprocess
import sys
import time

import polars as pl
import pytest

from clvlab.agents.registry import template
from clvlab.arena import run_jobs
from clvlab.arena.replays import replay_run
from clvlab.engine.run import run
from clvlab.errors import BindingError, NotStartableError, PreflightError
from clvlab.law.closing import Window
from clvlab.packs.lookup import open_pack
from clvlab.packs.verification import verify_pack
from tests.arena.live.services import live_application
from tests.factories import ALICE, make_competition
from tests.length import length
from tests.waiting import until

FIXTURE = 90000000
DEPLOY = {"strategy": "cumulative-drift", "source_mode": "live", "fixture_id": FIXTURE}


@pytest.fixture
def live(database_url, tmp_path):
    application = live_application(database_url, tmp_path / "live")
    application.start()
    yield application
    application.close()


def sealed(application, run_id):
    """The bytes of a run, once it is sealed."""
    until(lambda: application.runs.card(run_id)["run"]["status"] in ("sealed", "failed"))
    card = application.runs.card(run_id)["run"]
    assert card["status"] == "sealed", card["cause"]
    return application.runs.sealed_run(run_id)


def lines(sealed, *kinds):
    found = [json.loads(line) for line in sealed.events.splitlines()]
    return [line["payload"] for line in found if line["kind"] in kinds]


def captured(tmp_path, run_id):
    (pack,) = (tmp_path / "live" / run_id).glob("live-*")
    return verify_pack(pack)


def assert_whole(pack):
    """Every message of the fixture is there, once and in order."""
    columns = ["market_key", "side", "tick_seq", "prob_bps", "odds_milli", "suspended"]
    played = open_pack("starter").tape([FIXTURE]).ticks().collect()
    in_play = played.filter(pl.col("in_running"))["tick_seq"].min()
    until = played.filter(pl.col("tick_seq") <= in_play).sort("tick_seq", "side")
    assert pack.tape([FIXTURE]).ticks().collect().sort("tick_seq", "side").select(columns).equals(until.select(columns))


def live_competition(application, *strategies):
    config = {"source_mode": "live", "pack_id": None, "fixture_id": FIXTURE, "roster_size": 5}
    return make_competition(application, *strategies, **config)


def test_a_live_deploy_is_told_of_sealed_and_verified(live, tmp_path):
    answer = live.deploys.deploy(ALICE, DEPLOY)
    found = sealed(live, answer["run_id"])

    assert answer["replay_binding"] is None
    assert live.runs.verify(answer["run_id"])["verified"]
    assert_whole(captured(tmp_path, answer["run_id"]))
    told = live.deploys.runtime_events(ALICE, answer["instance_id"])["events"]
    assert [event["type"] for event in told if event["type"] not in ("AGENT_ACTION", "FEED_HEALTH")] == [
        "RUN_QUEUED", "RUN_STARTED", "STATUS_CHANGED", "STATUS_CHANGED", "RUN_SEALED",
    ]  # fmt: skip
    assert len([event for event in told if event["type"] == "AGENT_ACTION"]) == len(lines(found, "DECISION"))
    assert replay_run(found, pack=captured(tmp_path, answer["run_id"]).folder).agrees
    card = live.runs.card(answer["run_id"])
    assert (card["run"]["source_mode"], card["run"]["mode_label"]) == ("live", "Live paper")


def test_a_run_is_not_watched_any_more_when_it_is_kept(live, monkeypatch):
    keep, followed = run_jobs.keep, []
    monkeypatch.setattr(run_jobs, "keep", lambda *given: followed.append(live.live.health()["runs"]) or keep(*given))

    sealed(live, live.deploys.deploy(ALICE, DEPLOY)["run_id"])

    assert followed == [0]


def test_a_live_competition_ends_finalized_and_equals_the_replay_of_its_capture(live, tmp_path):
    competition_id = live_competition(live, "baseline", "cumulative-drift", "sharp-momentum-v2")
    run_id = live.competitions.claim(ALICE, competition_id)
    found = sealed(live, run_id)

    state = live.competitions.state(competition_id)
    assert (state["status"], state["run_id"], state["replay_binding"]) == ("finalized", run_id, None)
    pack = captured(tmp_path, run_id)
    agents = [template(name) for name in ("baseline", "cumulative-drift", "sharp-momentum-v2")]
    replayed = run(pack.tape([FIXTURE]), agents, Window()).sealed
    assert lines(found, "DECISION", "MARKET_CLOSE") == lines(replayed, "DECISION", "MARKET_CLOSE")
    events = live.competitions.events(competition_id, -1)
    said = [event["payload"]["run_seq"] for event in events if event["kind"] == "AGENT_ACTION" and event["evidence"]]
    assert said == list(range(1, len(lines(found, "DECISION")) + 1))
    assert {event["kind"] for event in events if not event["evidence"]} >= {"AGENT_ACTION", "STATUS_CHANGED", "SCORE_UPDATE"}


@pytest.mark.long
@pytest.mark.parametrize("delay_s", length([0.6], [0.1, 0.6, 1.5, 3.0]))
def test_a_run_goes_on_where_its_process_was_killed(database_url, tmp_path, delay_s):
    application = live_application(database_url, tmp_path / "live", speed=40_000)
    deployed = application.deploys.deploy(ALICE, DEPLOY)
    competition_id = live_competition(application, "baseline", "sharp-momentum-v2")
    started = application.competitions.claim(ALICE, competition_id)
    command = [sys.executable, "-m", "tests.arena.live.services", database_url, str(tmp_path / "live"), "40000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(delay_s)
        process.kill()

    application.start()
    try:
        for run_id in (deployed["run_id"], started):
            sealed(application, run_id)
            assert application.runs.verify(run_id)["verified"]
            pack = captured(tmp_path, run_id)
            assert_whole(pack)
            assert all(gap.replayed for gap in pack.manifest.capture.gaps)
    finally:
        application.close()


def test_services_share_live_runs_and_one_that_ends_hands_them_over(database_url, tmp_path):
    first, second = (live_application(database_url, tmp_path / "live", speed=60_000) for _ in range(2))
    first.start()
    run_ids = [first.deploys.deploy(ALICE, DEPLOY)["run_id"] for _ in range(3)]
    until(lambda: first.live.health()["runs"] >= 2)

    second.start()
    first.close(within_s=5)
    try:
        for run_id in run_ids:
            sealed(second, run_id)
            assert_whole(captured(tmp_path, run_id))
    finally:
        second.close()


class TestRefusals:
    def test_without_a_feed_preflight_names_the_settings(self, in_memory):
        with pytest.raises(PreflightError) as refused:
            in_memory.deploys.deploy(ALICE, DEPLOY)

        (check,) = refused.value.failures
        assert check["name"] == "live_feed"
        assert "CLVLAB_FEED" in check["message"]

    def test_a_fixture_that_the_feed_does_not_have_is_named(self, live):
        with pytest.raises(PreflightError) as refused:
            live.deploys.deploy(ALICE, DEPLOY | {"fixture_id": 17})

        (check,) = refused.value.failures
        assert (check["name"], "no fixture 17" in check["message"]) == ("fixture_on_feed", True)

    def test_a_live_deploy_names_no_pack(self, live):
        with pytest.raises(PreflightError) as refused:
            live.deploys.deploy(ALICE, DEPLOY | {"pack_id": "starter"})

        assert [check["name"] for check in refused.value.failures] == ["replay_binding"]

    def test_a_live_competition_names_no_pack(self, live):
        with pytest.raises(BindingError, match="follows the feed"):
            make_competition(live, source_mode="live", pack_id="starter")

    def test_a_live_competition_waits_for_a_feed_and_says_so(self, in_memory):
        competition_id = live_competition(in_memory, "baseline")

        assert "CLVLAB_FEED" in in_memory.competitions.state(competition_id)["cause"]
        with pytest.raises(NotStartableError, match="CLVLAB_FEED") as refused:
            in_memory.competitions.claim(ALICE, competition_id)
        assert refused.value.reason == "no_live_feed"

    def test_without_a_fixture_the_next_to_kick_off_is_followed(self, live):
        answer = live.deploys.deploy(ALICE, DEPLOY | {"fixture_id": None})
        next_one = min(live.live.fixtures(), key=lambda one: one.kickoff_ts_ms)

        (started,) = lines(sealed(live, answer["run_id"]), "RUN_STARTED")
        assert started["binding"]["fixture_ids"] == [next_one.fixture_id]


def test_a_live_run_that_is_cancelled_is_abandoned(database_url, tmp_path):
    application = live_application(database_url, tmp_path / "live", speed=2_000)
    application.start()
    try:
        competition_id = live_competition(application, "baseline")
        run_id = application.competitions.claim(ALICE, competition_id)
        until(lambda: application.live.health()["runs"])
        application.competitions.cancel(ALICE, competition_id)

        until(lambda: application.live.health()["runs"] == 0)
        assert application.runs.card(run_id)["run"]["status"] == "failed"
        assert application.competitions.state(competition_id)["status"] == "draft"
    finally:
        application.close()
