"""What people read of a competition: its match, its decisions in bounded pages, and what happened."""

from itertools import islice

import pytest

from clvlab.arena.application import Application
from clvlab.arena.events import EventKind, event
from clvlab.arena.runs.decisions import DecisionFilter
from clvlab.errors import PageError, UnknownCompetitionError
from clvlab.law.schema import Action
from clvlab.store import competitions as rows
from tests.arena.test_competitions import register_misfit
from tests.factories import ALICE, make_competition

MARKETS = ("TOTALS||line=2", "TOTALS||line=2.5", "1X2_PARTICIPANT_RESULT||")
FOLLOWED = {"fixture_id": 7, "names": ["Ash", "Birch"], "kickoff_ts_ms": 1_800_000_000_000, "league": "Tree League"}
ALL = DecisionFilter()


def acted(number, agent_id="a", action="BACK"):
    market = None if action == "WAIT" else MARKETS[number % 3]
    return event(EventKind.AGENT_ACTION, "run_1", {
        "agent_id": agent_id, "fixture_id": 7, "tick_seq": number, "ts_ms": number, "action": action, "market_key": market,
        "side": None if market is None else "over", "stake": 5, "limit_odds_milli": None, "reason": "I know", "confidence": 1.0,
        "claimed_edge_bps": 900,
    })  # fmt: skip


def live(application, events=()):
    """A live competition whose run has reported these events."""
    made = make_competition(application, "baseline", source_mode="live", pack_id=None)
    started = event(EventKind.COMPETITION_STARTED, "run_1", {"agents": [], "fixture": FOLLOWED})
    with application.competitions.database.write() as connection:
        rows.append(connection, made, 5, [started, *events])
        rows.change(connection, made, status="running", started_seq=0)
    return made


def story(application, competition_id, wanted=ALL, cursor=None, before=None, limit=25, happenings=15):
    return application.stories.of(competition_id, wanted, cursor, before, limit, happenings)


def pages(application, competition_id, wanted=ALL, limit=25):
    cursor = None
    while True:
        found = story(application, competition_id, wanted, cursor, limit=limit).decisions
        yield found
        if (cursor := found.following) is None:
            return


@pytest.fixture(scope="module")
def service():
    found = Application()
    found.start()
    yield found
    found.close()


@pytest.fixture(scope="module")
def long_log(service):
    """1300 decisions, of which every hundredth is another agent's, and every seventh waits."""
    return live(service, [acted(n, "b" if n % 100 == 0 else "a", "WAIT" if n % 7 == 0 else "BACK") for n in range(1300)])


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        (ALL, lambda n: True),  # noqa: ARG005
        (DecisionFilter(agent_id="b"), lambda n: n % 100 == 0),
        (DecisionFilter(action=Action.WAIT), lambda n: n % 7 == 0),
        (DecisionFilter(market_key="TOTALS||line=2"), lambda n: n % 3 == 0 and n % 7),  # and not of line=2.5
        (DecisionFilter(agent_id="nobody"), lambda n: False),  # noqa: ARG005
    ],
)
def test_pages_of_a_live_run_have_each_decision_once_the_newest_first(service, long_log, wanted, passes):
    found = list(islice(pages(service, long_log, wanted), 200))

    listed = [one["ts_ms"] for page in found for one in page.decisions]
    assert listed == [n for n in reversed(range(1300)) if passes(n)]
    assert all(len(page.decisions) <= 25 for page in found)
    assert {page.run_id for page in found} == {None}


def test_a_live_page_reads_a_bounded_part_of_the_log(service, long_log):
    """Whatever its filters let through."""
    read, original = [], rows._unpacked
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_unpacked", lambda of: read.append(of.first_seq) or original(of))
        for wanted in (ALL, DecisionFilter(agent_id="nobody"), DecisionFilter(agent_id="b")):
            read.clear()
            found = story(service, long_log, wanted)
            assert len(read) <= 500 + 20, wanted
            assert found.decisions.following is not None


def test_nothing_that_an_agent_claims_and_no_score_is_in_a_live_decision(service, long_log):
    first = story(service, long_log).decisions.decisions[0]

    assert (first["clv_bps"], first["reason"]) == (None, None)
    assert not {"confidence", "claimed_edge_bps", "stake"} & first.keys()


def test_a_live_match_has_the_names_that_its_start_knew(service, long_log):
    found = story(service, long_log)

    assert (found.fixture.names, found.fixture.league) == (("Ash", "Birch"), "Tree League")
    assert found.owner.startswith("did:")
    assert service.stories.fixtures([long_log])[long_log] == found.fixtures


def test_an_agent_that_fails_before_the_seal_is_named(application):
    failed = event(EventKind.AGENT_ERROR, "run_1", {"agent_id": "a", "error": "ValueError", "tick_seq": 1})

    assert story(application, live(application, [acted(1), failed])).stopped == {"a": "ValueError"}


def test_happenings_are_paged_and_hold_no_decision(application):
    gaps = [event(EventKind.FEED_GAP, "run_1", {"from_ts_ms": n, "to_ts_ms": n + 1}) for n in range(40)]
    made = live(application, [one for n in range(40) for one in (acted(n), gaps[n])])

    seen, before = [], None
    while True:
        found = story(application, made, before=before)
        assert len(found.happenings) <= 15
        seen += found.happenings
        if (before := found.earlier) is None:
            break

    assert [one["seq"] for one in seen] == [*range(80, 0, -2), 0]
    assert {one["kind"] for one in seen} == {"FEED_GAP", "COMPETITION_STARTED"}


def test_a_draft_has_no_decision_and_knows_its_match_if_it_names_a_pack(service):
    bound, free = make_competition(service), make_competition(service, source_mode="live", pack_id=None)

    assert story(service, bound).fixture.names == ("Birch North", "Glen North")
    assert story(service, free).fixture is None
    assert story(service, free).decisions.decisions == ()
    assert story(service, free).happenings == []
    with pytest.raises(UnknownCompetitionError):
        story(service, "comp_none")


def test_sealed_decisions_have_scores_and_filters_are_exact(service):
    made = make_competition(service, "baseline", "cumulative-drift")
    service.competitions.start(ALICE, made)
    run_id = service.competitions.state(made)["run_id"]
    rows_of_it = service.decisions.page(run_id, ALL, limit=200)["decisions"]

    found = [one for page in pages(service, made, limit=4) for one in page.decisions]

    assert [one["seq"] for one in found] == [one["seq"] for one in rows_of_it]
    assert [one["clv_bps"] for one in found] == [one["clv_bps"] for one in rows_of_it]
    keys = {one["market_key"] for one in rows_of_it}
    assert set(story(service, made).decisions.markets) == keys
    for key in keys:
        listed = story(service, made, DecisionFilter(market_key=key), limit=200).decisions
        assert {one["market_key"] for one in listed.decisions} == {key}
        assert listed.total == sum(one["market_key"] == key for one in rows_of_it)
    assert story(service, made, DecisionFilter(action=Action.WAIT)).decisions.total == 0


def test_a_page_that_was_live_when_it_was_linked_begins_again_at_the_seal(service, long_log):
    made = make_competition(service, "baseline")
    service.competitions.start(ALICE, made)
    linked = story(service, long_log).decisions.following

    assert story(service, made, cursor=linked).decisions == story(service, made).decisions


@pytest.mark.parametrize("cursor", ["live.", "live.x", "live.-1", "7", "live." + 20 * "9", "live.²"])
def test_a_cursor_of_no_page_is_refused_by_name(service, long_log, cursor):
    with pytest.raises(PageError, match="was not given by a page"):
        story(service, long_log, cursor=cursor)


def test_a_competition_whose_pack_is_gone_has_no_match_and_its_decisions_still(service):
    made = make_competition(service, "baseline")
    service.competitions.start(ALICE, made)
    with service.competitions.database.write() as connection:
        rows.change(connection, made, pack_id="gone")

    found = story(service, made)

    assert found.fixture is None
    assert found.decisions.total > 0


def test_an_agent_that_failed_is_named_with_the_class_of_its_error_alone(service):
    made = make_competition(service, "baseline")
    register_misfit(service, made)
    service.competitions.start(ALICE, made)

    assert story(service, made).stopped == {"model": "AgentError"}
