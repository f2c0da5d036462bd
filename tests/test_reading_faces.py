"""What reads runs honours every setting and filter that it takes: each makes a difference to the answer."""

import re
from urllib.parse import parse_qs, urlsplit

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clvlab as cl
from clvlab.lab.results.bets import GradedBets
from clvlab.lab.results.pack import Pack
from clvlab.lab.results.result import Result
from clvlab.lab.results.sweep import Sweep
from clvlab.law.closing import Window
from clvlab.report.tearsheet import TearSheet
from clvlab.statistics import Staking
from tests.booked import write_booked
from tests.faces import Face, parameters
from tests.length import few, length
from tests.live import FIXTURE
from tests.service.serving import BOUND, CONFIG, DEPLOY, api, make_entry
from tests.service.tokens import BOB
from tests.waiting import until

BOTH = ["baseline", "cumulative-drift"]
MEASURED = st.sampled_from(["edge", "price_ratio"])
LEVEL, SEED = st.just(0.8), st.just(7)
NO_LEAGUES = "packs that come with clvlab name none: tests/report/test_selection.py, tests/packs/views"
WINDOWS = st.sampled_from([Window(end_rule="fixed_duration", duration_s=20_000), Window(market_allowlist=("1X2",))])
TOTALS = "OVERUNDER_PARTICIPANT_GOALS"
PLACED = pl.DataFrame(
    [
        {"time": "2026-01-02T09:00Z", "fixture": str(FIXTURE + k), "market": "1X2", "side": "home", "price": "2", "stake": "10"}
        for k in range(8)
    ]
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A laboratory with a competition; its pack of books is beside it."""
    with cl.Lab() as made:
        made.both, made.whole = (made.compete(pack, BOTH) for pack in ("starter", "season"))
        made.season = made.compete("season", BOTH, fixtures=range(FIXTURE, FIXTURE + 100))
        made.drift, made.baseline = made.backtest("starter", "cumulative-drift"), made.backtest("starter")
        made.bets = made.grade_bets(PLACED, "starter")
        made.booked = tmp_path_factory.mktemp("packs") / "booked"
        write_booked(made.booked)
        yield made


def said(shown):
    return repr(shown), shown._repr_html_()


def sheet(lab, **given):
    made = lab.season.tear_sheet(**{"agent_id": "baseline", "resamples": 200, "draws": 20} | given)
    return made.frame.to_dicts(), made.sign_flips, repr(made.permutation), repr(made.delay), made.clv


def compared(lab, runs=("drift", "baseline"), **given):
    return said(lab.compare([getattr(lab, name) for name in runs], **given))


def part(lab, **given):
    made = lab.season.tear_sheet(BOTH[1], resamples=20, draws=2).only(**given)
    return made.clv, made.scored.to_dicts()


def bankroll(lab, **given):
    edge = {} if "training" in given else {"edge": 0.02}
    return said(lab.drift.tear_sheet(resamples=20, draws=2).bankroll(**{**edge, "paths": 50, **given}))


def view(lab, **given):
    made = cl.open_pack(lab.booked if "min_books" in given else "starter").where(**given)
    return made.ticks().hash_rows().sum(), made.source.manifest.max_close_age_s


def audit(_, agent="baseline", tape="starter", **given):
    return cl.lookahead_audit(agent, tape, **{"seed": 1, "cuts": 3} | given).source


def overfitting(_, **given):
    grid = {"warmup_ticks": [5, 10, 20], "cooldown_s": [0, 600, 1_200, 3_600]}
    found = cl.sweep("season", "cumulative-drift", grid, fixtures=range(FIXTURE, FIXTURE + 40), resamples=1_000, progress=False)
    return found.overfitting(**{"blocks": 4} | given).source


FACES = {
    "tear_sheet": Face(
        parameters(Result.tear_sheet, "self"),
        sheet,
        {"agent_id": st.just(BOTH[1]), "level": LEVEL, "resamples": st.just(300), "draws": st.just(30), "seed": SEED},
    ),
    "compare": Face(
        parameters(cl.compare),
        compared,
        {"runs": st.just(["baseline", "drift"]), "by": MEASURED, "level": LEVEL},
    ),
    "compare the agents of a run": Face(
        parameters(Result.compare, "self"),
        lambda lab, **given: said(lab.both.compare(**given)),
        {"by": MEASURED, "level": LEVEL},
    ),
    "leaderboard": Face(
        parameters(cl.leaderboard, "runs"),
        lambda lab, **given: said(cl.leaderboard([lab.both, lab.drift], **given)),
        {"by": MEASURED, "level": LEVEL},
    ),
    "moved_lines": Face(
        parameters(Result.moved_lines, "self"),
        lambda lab, **given: said(lab.whole.moved_lines(**{"agent_id": BOTH[1]} | given)),
        {"agent_id": st.just(BOTH[0]), "level": LEVEL},
    ),
    "power": Face(
        parameters(Result.power, "self"),
        lambda lab, **given: said(lab.season.power(**{"edge": 34, "agent_id": BOTH[1]} | given)),
        {"edge": st.sampled_from([20, None]), "agent_id": st.just(BOTH[0]), "by": MEASURED, "level": LEVEL},
    ),
    "power on a sheet": Face(
        parameters(TearSheet.power, "self"),
        lambda lab, **given: said(lab.season.tear_sheet(BOTH[1]).power(**{"edge": 34} | given)),
        {"edge": st.sampled_from([20, None]), "by": MEASURED},
    ),
    "regress": Face(
        parameters(Result.regress, "self"),
        lambda lab, **given: said(lab.season.regress(**{"formula": "clv_bps ~ odds", "agent_id": BOTH[1]} | given)),
        {"formula": st.sampled_from(["clv_bps ~ side", "edge_pct ~ odds"]), "agent_id": st.just(BOTH[0]), "level": LEVEL},
    ),
    "executable": Face(
        parameters(Result.executable, "self"),
        lambda lab, **given: said(lab.season.executable(**{"agent_id": BOTH[1]} | given)),
        {
            "stake": st.just(80),
            "delay_s": st.just(60),
            "commission": st.just("kalshi"),
            "max_age_s": st.just(1),
            "agent_id": st.just(BOTH[0]),
            "level": LEVEL,
        },
    ),
    "executable of a sheet": Face(
        parameters(TearSheet.executable, "self"),
        lambda lab, **given: said(lab.drift.tear_sheet(resamples=20, draws=2).executable(**given)),
        {"stake": st.just(80), "delay_s": st.just(60), "commission": st.just("kalshi"), "max_age_s": st.just(1)},
    ),
    "executable bets": Face(
        parameters(GradedBets.executable, "self"),
        lambda lab, **given: said(lab.bets.executable(**given)),
        {"stake": st.just(80), "delay_s": st.just(3_600), "commission": st.just("kalshi"), "max_age_s": st.just(1)},
        apart={"agent_id": "bets have one agent", "level": "as for Result.executable; the bets are on few fixtures"},
    ),
    "only": Face(
        parameters(TearSheet.only, "self"),
        part,
        {
            "markets": st.just([TOTALS]),
            "sides": st.just(["over"]),
            "fixtures": st.just([FIXTURE]),
            "since": st.just("2026-01-10"),
            "until": st.just("2026-01-10"),
        },
        apart={"leagues": NO_LEAGUES},
    ),
    "bankroll": Face(
        parameters(TearSheet.bankroll, "self"),
        bankroll,
        {
            "edge": st.just(0.1),
            "training": st.just(range(FIXTURE, FIXTURE + 4)),
            "staking": st.just(Staking("flat", 0.01)),
            "open_s": st.just(10**6),
            "ruin_below": st.just(0.9),
            "paths": st.just(80),
        },
    ),
    "where": Face(
        parameters(Pack.where, "self"),
        view,
        {
            "after": st.just("2026-01-03"),
            "before": st.just("2026-01-03"),
            "fixtures": st.just([FIXTURE]),
            "markets": st.just("1X2"),
            "max_overround": st.just(0.01),
            "min_books": (st.just(3), {"min_books": 1}),
            "drop_close_older_than_s": st.just(1),
        },
        apart=dict.fromkeys(("league", "season"), NO_LEAGUES),
    ),
    "price_path": Face(
        parameters(Pack.price_path, "self"),
        lambda _, **given: said(cl.open_pack("starter").price_path(**given)),
        {"window": WINDOWS, "hours": st.just([12, 2]), "level": LEVEL, "fixture_ids": st.just([FIXTURE, FIXTURE + 1])},
    ),
    "lookahead_audit": Face(
        parameters(cl.lookahead_audit),
        audit,
        {
            "agent": st.just(BOTH[1]),
            "tape": st.just("season"),
            "cuts": st.just(5),
            "seed": SEED,
            "max_rows": (st.just(40_000), {"tape": "season"}),
        },
    ),
    "overfitting": Face(parameters(Sweep.overfitting, "self"), overfitting, {"blocks": st.just(6), "statistic": st.just("t")}),
    "runs": Face(
        parameters(cl.Lab.runs, "self"), lambda lab, **given: lab.runs(**given).frame.to_dicts(), {"limit": st.just(1)}
    ),
}
TRIED = [(face, name) for face, one in FACES.items() for name in one.values]


@pytest.mark.parametrize("face", FACES)
def test_every_setting_is_tried_or_has_a_reason(face):
    FACES[face].check_listed()


@few(33)
@pytest.mark.parametrize(("face", "name"), TRIED)
@settings(max_examples=length(1, 2))
@given(data=st.data())
def test_every_setting_makes_a_difference(lab, face, name, data):
    FACES[face].check_shows(data, name, lab)


RUN, PLAYED, INSTANCE = "/runs/{run_id}/decisions", "/competitions/{competition_id}/events", "/agents/instances/{instance_id}"
PAGED = {"cursor": ..., "limit": 1}
TAKING = "/runs/{run_id}/executable"
FILTERS = {
    "/leaderboard": {"after_rank": 1, "causality": "transcript", "knowledge": "live", "owner": BOB, "grouped": "true", **PAGED},
    "/competitions": {"status": "DRAFT", "owner": BOB, "pack_id": "season", **PAGED},
    PLAYED: {"since_seq": 3, "limit": 1},
    "/agents/instances": {"strategy": "baseline", **PAGED},
    "/arena/seats": PAGED,
    "/arena/competitions": PAGED,
    f"{INSTANCE}/runtime-events": {"since": 1, "limit": 1},
    "/backtests": PAGED,
    "/replay-packs": PAGED,
    "/replay-packs/{pack_id}/fixtures": {"market": "1X2", "after": 1767400000000, "before": 1767400000000, **PAGED},
    "/runs": {"kind": "deploy", "status": "failed", "agent_id": "baseline", "pack_id": "season", "owner": BOB, **PAGED},
    RUN: {
        "agent_id": "twin",
        "fixture_id": 5,
        "market": "1X2",
        "side": "over",
        "reason": "scored",
        "valid": "false",
        "sort": "-clv",
        **PAGED,
    },
    TAKING: {"stake": 80, "delay_s": 60, "commission": "kalshi", "max_age_s": 1, "agent_id": "cumulative-drift"},
    "/log/entries": {"since": 1, "limit": 1},
    "/log/consistency": {"first": 1, "second": 3},
}
APART = {"/arena/seats/{seat_id}": {"wait_s": "says when the answer comes: tests/service/test_seats.py"}}
BESIDE = {"/log/consistency": {"first": 2, "second": 4}, TAKING: {"agent_id": "baseline"}}
FILTERED = [(path, name) for path, filters in FILTERS.items() for name in filters]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A service with runs of two owners and of nobody, and what stands in the places of paths."""
    with api(tmp_path_factory.mktemp("keys")) as running:
        created = running.competition(agents=())
        for entry in (make_entry(), make_entry(agent_id="twin"), make_entry("cumulative-drift")):
            running.post(f"/competitions/{created}/agents", entry)
        run_id = running.post(f"/competitions/{created}/start")["run_id"]
        running.post("/competitions", CONFIG | {"pack_id": "season"}, by=running.bob)
        running.post("/competitions", BOUND, by=running.bob)
        for pack in ("starter", "season"):
            running.post("/backtests", {"pack_id": pack, "fixture_ids": [FIXTURE], "strategy": "cumulative-drift"})
        made = [
            running.post("/agents/deploy", DEPLOY | {"strategy": strategy}, by=by)
            for by, strategy in ((running.alice, "baseline"), (running.alice, "cumulative-drift"), (running.bob, "baseline"))
        ]
        for one in made:
            until(lambda one=one: running.get(f"/runs/{one['run_id']}/progress")["status"] == "sealed")
        for _ in range(2):
            running.post("/arena/seats", {"agent_id": "me", "pack_id": "starter"})
            running.post("/arena/competitions", {"name": "Spring", "pack_id": "starter"})
        places = {"run_id": run_id, "competition_id": created, "instance_id": made[0]["instance_id"], "pack_id": "starter"}
        yield running, places


def asked(served, path, **query):
    running, places = served
    answer = running.alice.get(path.format(**places), params=BESIDE.get(path, {}) | query)
    assert answer.status_code == 200, answer.text
    return answer


def test_every_query_parameter_of_the_service_is_tried(served):
    document = served[0].get("/openapi.json")["paths"]
    declared = {
        path: {one["name"] for one in operations["get"].get("parameters", ()) if one["in"] == "query"}
        for path, operations in document.items()
        if "get" in operations
    }

    tried = {path: set(own) for path, own in (FILTERS | APART).items()}
    assert {path: names for path, names in declared.items() if names} == tried


@few(20)
@pytest.mark.parametrize(("path", "name"), FILTERED)
def test_every_query_parameter_makes_a_difference(served, path, name):
    value = FILTERS[path][name]
    if value is ...:
        first = asked(served, path, limit=1)
        linked = re.search("<(.*)>", first.headers.get("Link", ""))
        value = parse_qs(urlsplit(linked[1]).query)["cursor"][0] if linked else first.json()["next_cursor"]

    assert asked(served, path, **{name: value}).json() != asked(served, path).json()
