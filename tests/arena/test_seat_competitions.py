from itertools import count

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from clvlab.agents.seat import play
from clvlab.arena.application import Application
from clvlab.arena.caps import Caps
from clvlab.arena.packs import bundled_catalog
from clvlab.arena.seats.competitions import _power, _ranked, _results
from clvlab.arena.seats.requests import SeatCompetitionRequest, SeatLimits, SeatRequest
from clvlab.errors import (
    DecisionError,
    HeldBackError,
    NotOwnerError,
    OwnerLimitError,
    PackTamperedError,
    PageError,
    SeatConflictError,
    SeatRulesError,
    SeatTooLongError,
    TransitionError,
    UnknownCompetitionError,
    UnknownFixtureError,
    UnknownPackError,
)
from clvlab.law.schema import Reason
from clvlab.packs.synthetic import Recipe, build
from clvlab.statistics import cluster_mean
from clvlab.statistics.power import power
from tests.arena.seats import FIXTURES, Favourite, action, answered, back, request
from tests.factories import ALICE, BOB

CAROL = "did:key:carol"
NOW = 1_800_000_000_000


def rules(**fields):
    return SeatCompetitionRequest(**{"name": "Spring", "pack_id": "starter", "blind": "open", "fixture_ids": FIXTURES} | fields)


def taken(application, owner, competition_id, agent_id="me", **fields):
    return application.seats.take(owner, SeatRequest(agent_id=agent_id, competition_id=competition_id, **fields))


def sealed(application, owner, competition_id, agent_id="me"):
    start = taken(application, owner, competition_id, agent_id)
    play(Favourite(), start, lambda tick, said: application.seats.act(owner, start["seat_id"], action(tick, *said)))
    application.jobs.require_sealed(start["run_id"])
    return start


def seat_row(number, agent_id="me", owner=ALICE, status="sealed", fixtures=(1,), scores=None):
    scores = [(one, 10, 1, 100, one) for one in fixtures] if scores is None and status == "sealed" else scores
    values = {"seat_id": f"s{number}", "run_id": f"r{number}", "fixture_ids": list(fixtures), "scores": scores}
    return {"owner": owner, "agent_id": agent_id, "status": status} | values


def test_seats_of_a_competition_have_its_rules_and_their_results_stand_in_it(application):
    made = application.seat_competitions.create(ALICE, rules(min_clv_horizon_s=0, tick_s=60, market_allowlist=["1X2"]))
    competition_id = made["competition_id"]

    won = sealed(application, BOB, competition_id)
    open_seat = taken(application, CAROL, competition_id)
    answered(application, CAROL, open_seat, 3)
    application.seats.withdraw(CAROL, taken(application, CAROL, competition_id)["seat_id"])
    found = application.seat_competitions.get(competition_id)

    seat = application.seats.seat(BOB, won["seat_id"])
    assert (seat["competition_id"], seat["tick_s"], seat["fixture_ids"], seat["blind"]) == (
        competition_id,
        60,
        FIXTURES,
        "open",
    )
    assert application.runs.sealed_run(won["run_id"]) is not None
    assert (found["status"], found["entrants"]) == ("open", 2)
    assert found["seats"] == {"playing": 1, "sealed": 1, "abandoned": 1}
    own, other = found["standing"]
    scored = application.decisions.rows(won["run_id"]).filter(pl.col("reason") == Reason.SCORED)
    expected = cluster_mean(scored["clv_bps"], scored["fixture_id"])
    assert (own["owner"], own["fixtures"], own["decisions"], own["run_ids"]) == (BOB, 2, expected.n, [won["run_id"]])
    assert own["mean_clv_bps"] == pytest.approx(expected.mean)
    assert (own["rank"], own["low"]) == (None, None)
    total = application.seats.chain(BOB, won["seat_id"])
    assert (other["answered"], other["ticks"], other["seats"]["abandoned"]) == (3, len(total["ticks"]), 1)
    assert (other["fixtures"], other["mean_clv_bps"], other["run_ids"]) == (0, None, [])
    assert found["power"] == {"edge_bps": 50, "fixtures": None, "entrants": 0}
    owners = [(one["owner"], one["pack_id"], one["seats"]) for one in found["owners"]]
    assert (
        owners
        == [
            (CAROL, "starter", {"playing": 1, "sealed": 0, "abandoned": 1}),
            (BOB, "starter", {"playing": 0, "sealed": 1, "abandoned": 0}),
        ]
        or sorted(owners, key=str) == owners
    )


def test_a_blind_competition_says_nothing_of_what_is_ahead_of_a_seat(in_memory):
    competition_id = in_memory.seat_competitions.create(ALICE, rules(blind="aliased", fixture_ids=None))["competition_id"]
    start = taken(in_memory, BOB, competition_id)
    before = in_memory.seat_competitions.get(competition_id)
    answered(in_memory, BOB, start, 7)

    after = in_memory.seat_competitions.get(competition_id)
    [entrant] = after["standing"]

    assert (entrant["answered"], entrant["ticks"]) == (7, None)
    changed = {"standing", "updated_ts_ms"}
    assert {name: value for name, value in after.items() if name not in changed} == {
        name: value for name, value in before.items() if name not in changed
    }
    text = str(after)
    assert start["seat_id"] not in text
    assert start["run_id"] not in text
    assert not [fixture for fixture in bundled_catalog().open("starter").fixture_ids if str(fixture) in text]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"blind": "aliased"}, "blind of competition .* is open, not aliased"),
        ({"fixture_ids": [FIXTURES[0]]}, "fixture_ids of competition .* not \\[90000000\\]"),
        ({"fixture_ids": "all"}, "not all"),
        ({"pack_id": "season"}, "pack_id of competition .* is starter, not season"),
        ({"end_rule": "manual_stop"}, "end_rule"),
        ({"market_allowlist": ["1X2"]}, "market_allowlist"),
        ({"tick_s": 5}, "tick_s of competition .* is 3600, not 5"),
        ({"max_stake": 200}, "max_stake of competition .* is null, not 200"),
    ],
)
def test_a_seat_names_no_other_rule_than_its_competition(in_memory, fields, said):
    competition_id = in_memory.seat_competitions.create(ALICE, rules())["competition_id"]

    with pytest.raises(SeatRulesError, match=said):
        taken(in_memory, BOB, competition_id, **fields)

    assert taken(in_memory, BOB, competition_id, pack_id="starter", blind="open", fixture_ids=FIXTURES)["seat_id"]


def test_a_stake_over_the_rule_is_refused_and_its_tick_stays_open(in_memory):
    competition_id = in_memory.seat_competitions.create(ALICE, rules(max_stake=100))["competition_id"]
    start = taken(in_memory, BOB, competition_id)
    view = start["next"]["view"]

    with pytest.raises(DecisionError, match="stake 101 at tick 1 is over 100"):
        in_memory.seats.act(BOB, start["seat_id"], action(1, back(view, stake=101)))

    assert in_memory.seats.act(BOB, start["seat_id"], action(1, back(view)))["answered"]["decisions"][0]["stake"] == 100


def test_a_closed_competition_takes_no_seat_and_those_that_play_go_on():
    now = count(NOW)
    application = Application(clock=lambda: next(now))
    competition_id = application.seat_competitions.create(ALICE, rules())["competition_id"]
    ending = application.seat_competitions.create(ALICE, rules(closes_ts_ms=NOW + 10_000))["competition_id"]
    start = taken(application, BOB, competition_id)

    with pytest.raises(NotOwnerError):
        application.seat_competitions.close(BOB, competition_id)
    closed = application.seat_competitions.close(ALICE, competition_id)
    with pytest.raises(TransitionError, match="is closed"):
        application.seat_competitions.close(ALICE, competition_id)
    with pytest.raises(TransitionError, match="is closed: no seat"):
        taken(application, BOB, competition_id)

    assert (closed["status"], closed["closes_ts_ms"] > NOW) == ("closed", True)
    assert application.seats.act(BOB, start["seat_id"], action(1))["next"]["view"]["tick"] == 2
    assert application.seat_competitions.get(ending)["status"] == "open"
    now = count(NOW + 20_000)
    assert application.seat_competitions.get(ending)["status"] == "closed"
    application.close()


def test_bad_competitions_are_refused(in_memory):
    create = in_memory.seat_competitions.create

    with pytest.raises(SeatRulesError, match="closes_ts_ms 5 is over"):
        create(ALICE, rules(closes_ts_ms=5))
    with pytest.raises(UnknownPackError):
        create(ALICE, rules(pack_id="none"))
    with pytest.raises(UnknownFixtureError):
        create(ALICE, rules(fixture_ids=[3]))
    for fields in ({"name": ""}, {"name": "a\nb"}, {"max_stake": 99}, {"blind": "deaf"}, {"closes_ts_ms": -1}, {"tick_s": 0}):
        with pytest.raises(ValidationError):
            rules(**fields)
    with pytest.raises(ValidationError, match="aliased competitions name no fixture_ids"):
        rules(blind="aliased")
    for lost in ("", "seats_none", "x" * 10_000):
        with pytest.raises(UnknownCompetitionError):
            in_memory.seat_competitions.get(lost)
    with pytest.raises(UnknownCompetitionError):
        taken(in_memory, BOB, "seats_none")
    with pytest.raises(PageError):
        in_memory.seat_competitions.page("nowhere")

    assert in_memory.seat_competitions.page()["competitions"] == []


def test_an_owner_has_so_many_open_competitions():
    application = Application(caps=Caps(seat_competitions=1), seats=SeatLimits(ticks=5))
    with pytest.raises(SeatTooLongError):
        application.seat_competitions.create(ALICE, rules(pack_id="season", fixture_ids="all"))
    first = application.seat_competitions.create(ALICE, rules(fixture_ids=None))["competition_id"]

    with pytest.raises(OwnerLimitError, match="competitions of seats that are open"):
        application.seat_competitions.create(ALICE, rules(fixture_ids=None))
    application.seat_competitions.close(ALICE, first)

    assert application.seat_competitions.create(ALICE, rules(fixture_ids=None))["status"] == "open"
    assert application.seat_competitions.create(BOB, rules(fixture_ids=None))["status"] == "open"
    application.close()


def test_a_list_has_pages_newest_first(application):
    made = [application.seat_competitions.create(ALICE, rules(name=f"n {n}"))["competition_id"] for n in range(5)]
    taken(application, BOB, made[1])

    first = application.seat_competitions.page(limit=3)
    last = application.seat_competitions.page(first["next_cursor"], limit=3)

    assert sorted(one["competition_id"] for one in first["competitions"] + last["competitions"]) == sorted(made)
    assert last["next_cursor"] is None
    counts = {
        one["competition_id"]: (one["entrants"], one["seats"]["playing"])
        for one in [*first["competitions"], *last["competitions"]]
    }
    assert counts == dict.fromkeys(made, (0, 0)) | {made[1]: (1, 1)}


def test_another_pack_of_the_same_name_takes_no_seat(in_memory):
    competition_id = in_memory.seat_competitions.create(ALICE, rules())["competition_id"]
    with in_memory._database.write() as connection:
        connection.exec_driver_sql("UPDATE seat_competitions SET content_hash = 'sha256:other'")

    with pytest.raises(PackTamperedError):
        taken(in_memory, BOB, competition_id)


def test_of_each_fixture_the_first_seat_that_is_over_counts_even_if_it_was_given_up():
    found = _results(
        [
            seat_row(1, fixtures=(1, 2)),
            seat_row(2, fixtures=(3,), status="abandoned"),
            seat_row(3, fixtures=(2, 3, 4)),
            seat_row(4, fixtures=(3,), agent_id="other"),
        ]
    )

    assert found[ALICE, "me"].scores["fixture_id"].to_list() == [1, 2, 4]
    assert found[ALICE, "me"].run_ids == ["r3", "r1"]
    assert found[ALICE, "other"].scores["fixture_id"].to_list() == [3]


def test_a_mean_over_few_fixtures_has_no_rank():
    def entrant(agent_id, mean, low, fixtures):
        known = {"agent_id": agent_id, "mean_clv_bps": mean, "low": low, "fixtures": fixtures}
        return {"owner": ALICE, "rank": None} | known

    found = _ranked(
        [
            entrant("lucky", 900.0, None, 4),
            entrant("a", 5.0, -9.0, 5),
            entrant("b", 20.0, 3.0, 90),
            entrant("new", None, None, 0),
        ]
    )

    assert [(one["agent_id"], one["rank"]) for one in found] == [("b", 1), ("a", 2), ("lucky", None), ("new", None)]


@pytest.mark.parametrize("sizes", [(6, 1), (30, 3), (100, 2)])
def test_results_of_sums_are_those_of_decisions(sizes):
    fixtures, most = sizes
    rng = np.random.default_rng(fixtures)
    of = np.repeat(np.arange(fixtures), rng.integers(1, most + 1, fixtures))
    clv = np.rint(rng.standard_t(3, of.size) * 120).astype(int)
    scores = [
        (one, int(clv[of == one].sum()), int((of == one).sum()), int((clv[of == one] ** 2).sum()), one)
        for one in range(fixtures)
    ]

    found = _results([seat_row(n, fixtures=(one[0],), scores=[one]) for n, one in enumerate(scores)])[ALICE, "me"]

    expected = cluster_mean(pl.Series(clv), pl.Series(of))
    assert found.estimate.n == expected.n
    for name in ("mean", "low", "high", "standard_error"):
        assert getattr(found.estimate, name) == pytest.approx(getattr(expected, name))
    assert _power([found]) == {"edge_bps": 50, "fixtures": power(pl.Series(clv), pl.Series(of), 50).needed, "entrants": 1}
    alike = _results([seat_row(n, fixtures=(n,)) for n in range(9)])[ALICE, "me"]
    assert _power([found, alike])["entrants"] == 1


def test_the_stated_power_is_reached():
    """Of seats whose true mean is 50 bps, over as many fixtures as the power names, four of five show it."""
    rng = np.random.default_rng(5)

    def result(fixtures, mean):
        values = np.rint(rng.normal(mean, 150, fixtures)).astype(int)
        return _results([seat_row(n, fixtures=(n,), scores=[(n, int(v), 1, int(v * v), n)]) for n, v in enumerate(values)])[
            ALICE, "me"
        ]

    needed = _power([result(400, 0) for _ in range(9)])["fixtures"]

    shown = np.mean([result(needed, 50).estimate.low > 0 for _ in range(400)])
    assert 0.74 < shown < 0.86


def test_a_seat_in_no_competition_is_in_none(in_memory):
    competition_id = in_memory.seat_competitions.create(ALICE, rules())["competition_id"]
    in_memory.seats.take(BOB, request())

    assert in_memory.seat_competitions.get(competition_id)["standing"] == []
    with pytest.raises(SeatConflictError):
        in_memory.seats.act(BOB, in_memory.seats.page(BOB)["seats"][0]["seat_id"], action(2))
    assert in_memory.seats.page(BOB)["seats"][0]["competition_id"] is None


def test_a_held_back_competition_deals_each_fixture_once_and_is_not_hindsight(application, tmp_path):
    build(Recipe(seed=977, fixtures=2, messages=25), tmp_path / "vault")
    with pytest.raises(UnknownPackError):
        application.seat_competitions.create(ALICE, rules(pack_id="vault", blind="held-back", fixture_ids=None))
    application.seats.held.hold_back(tmp_path / "vault")
    made = application.seat_competitions.create(ALICE, rules(pack_id="vault", blind="held-back", fixture_ids=None))

    for owner in (ALICE, BOB):
        sealed(application, owner, made["competition_id"])
    with pytest.raises(HeldBackError, match="was dealt"):
        taken(application, CAROL, made["competition_id"])
    found = application.seat_competitions.get(made["competition_id"])

    assert (made["hindsight_possible"], found["blind"], found["seats"]["sealed"]) == (False, "held-back", 2)
    assert {one["ticks"] for one in found["standing"]} == {None}
    application.seats.held.release("vault")
    with pytest.raises(HeldBackError, match="opened"):
        taken(application, CAROL, made["competition_id"])


def test_a_competition_of_live_seats_is_refused():
    with pytest.raises(ValidationError, match="live seats have none until the match ends"):
        rules(pack_id=None, blind="live", fixture_ids=None)
