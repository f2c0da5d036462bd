"""The feed of a service that can't go on, or can't begin."""

from pathlib import Path

import polars as pl
import pytest
from sqlalchemy import select

from clvlab.arena.application import Application, LiveSettings
from clvlab.arena.live import EventWriter
from clvlab.errors import ClvlabError, FeedError, OwnerLimitError
from clvlab.law.message import Message
from clvlab.packs.lookup import open_pack
from clvlab.runs.live.feed import live_settings
from clvlab.runs.live.journal import Answers
from clvlab.runs.progress import Stage
from clvlab.sources.capture.feed import FeedMessage, Stop
from clvlab.store.tables import jobs
from tests.factories import ALICE, BOB, make_competition
from tests.live import FIXTURE, Around, Ending, Pausing, played
from tests.waiting import until


def status(application, run_id):
    return application.runs.card(run_id)["run"]["status"]


def put_off(application):
    """Whether the only job was, or is over."""
    with application._database.read() as connection:
        ((postponed, status),) = connection.execute(select(jobs.c.postponed, jobs.c.status))
    return postponed or status == "failed"


class Refused(Around):
    """Is refused before its first message."""

    def listen(self, *_):
        raise FeedError("the token is not valid any more: renew CLVLAB_TXLINE_JWT")
        yield FeedMessage(b"", 0)


@pytest.fixture
def service(tmp_path):
    """A service of one store whose feeds are these, one after the other."""
    feeds = []
    application = Application(None, live=LiveSettings(lambda: feeds[0], Path(tmp_path), runs=1), lease_ms=600)
    application.start()
    yield application, feeds
    application.close()


def test_a_run_whose_feed_is_refused_in_the_middle_goes_on_when_that_is_mended(service):
    application, feeds = service
    feeds.append(Ending(40))
    competition_id = make_competition(application, "cumulative-drift", source_mode="live", pack_id=None, fixture_id=FIXTURE)
    run_id = application.competitions.claim(ALICE, competition_id)
    until(lambda: put_off(application))

    assert application.competitions.state(competition_id)["status"] == "running"
    feeds[0] = played()
    until(lambda: status(application, run_id) == "sealed")

    assert application.competitions.state(competition_id)["status"] == "finalized"
    assert application.runs.verify(run_id)["verified"]


def test_a_run_whose_feed_is_refused_before_its_first_message_fails_with_the_cause(service):
    application, feeds = service
    feeds.append(Refused())
    deployed = application.deploys.deploy(ALICE, {"strategy": "baseline", "source_mode": "live", "fixture_id": FIXTURE})

    until(lambda: status(application, deployed["run_id"]) == "failed")

    assert "CLVLAB_TXLINE_JWT" in application.runs.card(deployed["run_id"])["run"]["cause"]


def test_messages_that_another_process_told_of_count_in_how_far_a_run_is():
    said, message = [], Message(1, 0, 0, *(False, "1X2||"), ("a", "b"), (5000, 5000), (2000, 2000), suspended=False)
    telling = EventWriter(lambda _: None, lambda *progress: said.append(progress), played(), Stop())
    telling.count_message(message, Answers())
    telling.write_decisions(message, Answers())

    with telling:
        until(lambda: said)

    assert said[0] == (Stage.DECIDING, 2, 2)


def test_a_folder_in_which_nothing_can_be_kept_is_known_before_the_start(tmp_path, monkeypatch):
    monkeypatch.setenv("CLVLAB_FEED", "replay")
    (tmp_path / "file").touch()

    with pytest.raises(FeedError, match=r"CLVLAB_LIVE_FOLDER '.*file': File exists"):
        live_settings(tmp_path / "file", 1, 900)
    with pytest.raises(FeedError, match="CLVLAB_LIVE_FOLDER"):
        live_settings(None, 1, 900, dev=True)


def test_a_pack_for_a_first_look_that_is_not_there_is_known_before_the_start(tmp_path, monkeypatch):
    monkeypatch.setenv("CLVLAB_REPLAY_PACK", "nope")

    with pytest.raises(ClvlabError, match="no pack 'nope'"):
        live_settings(tmp_path / "live", 1, 900, dev=True)


@pytest.mark.parametrize("name", ["starter", "season"])
def test_the_longest_match_for_a_first_look_lasts_two_minutes(tmp_path, monkeypatch, name):
    monkeypatch.setenv("CLVLAB_REPLAY_PACK", name)
    times = open_pack(name).tape().ticks().group_by("fixture_id").agg(last=pl.max("ts_ms"), first=pl.min("ts_ms")).collect()

    settings = live_settings(tmp_path, 1, 900, dev=True)

    assert max(times["last"] - times["first"]) / 1000 / settings.speed == pytest.approx(120, abs=0.1)
    assert live_settings(tmp_path, 1, 900, dev=True, dev_speed=7).speed == 7


def test_live_runs_of_an_owner_beyond_the_cap_are_refused_and_others_are_followed(service):
    """Each holds its place for as long as its match lasts, and a service has few."""
    application, feeds = service
    feeds.append(Pausing(10))
    deploy = {"strategy": "baseline", "source_mode": "live", "fixture_id": FIXTURE}
    first, *_ = [application.deploys.deploy(ALICE, deploy, f"key {number}") for number in range(4)]
    competition_id = make_competition(application, "baseline", source_mode="live", pack_id=None, fixture_id=FIXTURE)

    with pytest.raises(OwnerLimitError, match="you have 4 live runs that are not over, and may have 4 at once"):
        application.deploys.deploy(ALICE, deploy)
    with pytest.raises(OwnerLimitError, match="live runs"):
        application.competitions.claim(ALICE, competition_id)

    assert application.competitions.state(competition_id)["status"] == "draft"
    assert application.deploys.deploy(ALICE, deploy, "key 0")["run_id"] == first["run_id"]
    assert application.deploys.deploy(BOB, deploy)["run_id"]
