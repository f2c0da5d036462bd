"""Agents whose configuration can't be used over what they would be run on: known when they come, not when they run."""

import pytest
from sqlalchemy import update

from clvlab.arena.application import Application
from clvlab.arena.competitions.requests import AgentEntry
from clvlab.errors import EntryError, NotStartableError, PreflightError
from clvlab.store.tables import roster
from tests.factories import ALICE, make_competition

FIXTURE = 90000000
MARKET = "1X2_PARTICIPANT_RESULT||"


def back(**fields):
    return {"fixture_id": FIXTURE, "tick_seq": 20, "action": "BACK", "market_key": MARKET, "side": "part1"} | fields


def wait(**fields):
    return {"fixture_id": FIXTURE, "tick_seq": 0, "action": "WAIT"} | fields


LACKING = [
    (wait(fixture_id=90000001), "fixture 90000001 is not on the tape"),
    (wait(fixture_id=7), "fixture 7 is not on the tape"),
    (wait(tick_seq=325), "no tick 325"),  # one after the last
    (wait(tick_seq=10**6), "no tick 1000000"),
    (back(market_key="ABSENT|"), "no market 'ABSENT|'"),
    (back(market_key=""), "no market ''"),
    (back(side="part3"), "no side 'part3'"),
]
TWICE = [wait(), wait(reason="again")]


def entry(transcript, agent_id="model", **fields):
    return AgentEntry(agent_id=agent_id, strategy="llm", config={"transcript": transcript}, **fields)


def deploy(transcript, **fields):
    return {"strategy": "llm", "source_mode": "replay", "params": {"transcript": transcript}} | fields


@pytest.fixture(scope="module")
def opened():
    """Application in memory that the tests of this module share; each has a competition of its own."""
    application = Application()
    yield application
    application.close()


@pytest.mark.parametrize(("lacking", "cause"), LACKING)
def test_a_registration_names_the_entry_that_the_bound_fixture_lacks(opened, lacking, cause):
    competition_id = make_competition(opened, fixture_id=FIXTURE)

    with pytest.raises(EntryError, match=f"agent 'model' .*transcript entry 1: .*{cause.replace('|', '[|]')}"):
        opened.competitions.register(ALICE, competition_id, entry([wait(), lacking]))

    assert opened.competitions.state(competition_id)["roster"] == []


@pytest.mark.parametrize(("lacking", "cause"), LACKING)
def test_preflight_names_the_entry_that_the_bound_fixture_lacks(opened, lacking, cause):
    before = opened.runs.page()["runs"]

    with pytest.raises(PreflightError) as refused:
        opened.deploys.deploy(ALICE, deploy([lacking], pack_id="starter", fixture_id=FIXTURE))

    assert [failure["name"] for failure in refused.value.failures] == ["params"]
    assert cause in refused.value.failures[0]["message"]
    assert opened.runs.page()["runs"] == before


def test_a_registration_names_the_bet_that_the_bound_fixture_lacks(opened):
    competition_id = make_competition(opened, fixture_id=FIXTURE)
    bets = [{"fixture_id": FIXTURE, "tick_seq": 5, "market_key": "corners", "side": "over"}]

    with pytest.raises(EntryError, match=r"agent 'mine' .*bets: transcript entry 0: .*no market 'corners'"):
        opened.competitions.register(
            ALICE, competition_id, AgentEntry(agent_id="mine", strategy="bets", config={"transcript": bets})
        )


def test_a_transcript_is_not_held_against_a_fixture_that_nobody_named(opened):
    with pytest.raises(PreflightError) as refused:
        opened.deploys.deploy(ALICE, deploy([wait(fixture_id=90000001)], pack_id="starter", fixture_id="90000001"))

    assert [failure["name"] for failure in refused.value.failures] == ["fixture_id"]


def test_what_repeats_itself_is_refused_wherever_it_comes(opened):
    competition_id = make_competition(opened, pack_id=None)

    with pytest.raises(EntryError, match="repeats"):
        opened.competitions.register(ALICE, competition_id, entry(TWICE))
    with pytest.raises(PreflightError, match="repeats"):
        opened.deploys.deploy(ALICE, deploy(TWICE, pack_id="starter"))


def test_what_the_fixture_has_is_taken_and_runs(application):
    competition_id = make_competition(application, fixture_id=FIXTURE)
    transcript = [back(), wait(), wait(tick_seq=324)]

    application.competitions.register(ALICE, competition_id, entry(transcript))

    assert application.competitions.start(ALICE, competition_id)["status"] == "finalized"


def test_a_transcript_that_fits_no_fixture_is_found_when_the_competition_is_bound(database_url, one_pack):
    application = Application(database_url, catalog=one_pack)
    competition_id = make_competition(application, "baseline", pack_id=None)
    application.competitions.register(ALICE, competition_id, entry([wait(fixture_id=90000003)]))

    with pytest.raises(NotStartableError, match=r"agent 'model' .*fixture 90000003 is not on the tape") as refused:
        application.competitions.start(ALICE, competition_id)

    state = application.competitions.state(competition_id)
    assert refused.value.reason == "entry_unusable"
    assert (state["status"], state["latest_seq"], state["replay_binding"]) == ("draft", 0, None)
    application.close()


def test_an_instance_about_another_fixture_is_refused_where_it_can_not_run(application):
    deployed = application.deploys.deploy(ALICE, deploy([wait(fixture_id=90000001)], pack_id="starter", fixture_id=90000001))
    own = AgentEntry(agent_id="model", strategy="llm", instance_id=deployed["instance_id"])
    there, here = (make_competition(application, fixture_id=fixture_id) for fixture_id in (90000001, FIXTURE))

    application.competitions.register(ALICE, there, own)
    with pytest.raises(EntryError, match="fixture 90000001 is not on the tape"):
        application.competitions.register(ALICE, here, own)


def test_a_name_that_can_not_be_sealed_is_refused_also_of_an_instance(opened):
    deployed = opened.deploys.deploy(ALICE, {"strategy": "baseline", "source_mode": "replay", "pack_id": "starter"})
    competition_id = make_competition(opened)
    long = AgentEntry(agent_id="ü" * 150, strategy="baseline", instance_id=deployed["instance_id"])

    with pytest.raises(EntryError, match="1 to 200 bytes"):
        opened.competitions.register(ALICE, competition_id, long)


@pytest.mark.parametrize("changed", [{"strategy": "renamed-since"}, {"config": {"stake": -1}}])
def test_an_agent_that_can_not_be_made_any_more_stops_the_start_by_its_name(application, changed):
    competition_id = make_competition(application, "baseline", "cumulative-drift")
    with application._database.write() as connection:
        connection.execute(update(roster).where(roster.c.agent_id == "baseline").values(**changed))

    with pytest.raises(NotStartableError, match="agent 'baseline'") as refused:
        application.competitions.start(ALICE, competition_id)

    assert refused.value.reason == "entry_unusable"
    assert application.competitions.state(competition_id)["status"] == "draft"
