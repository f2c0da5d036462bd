"""What a face takes it passes on: every face seals a question alike, and each of its fields shows in what is sealed.

Fields are found by introspection, so that a new one is tried too: it needs a value here, or a reason why it shapes no run.
"""

import json
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.core import TyperArgument
from typer.main import get_command

import clvlab as cl
from clvlab.arena.competitions.requests import AgentEntry, CompetitionConfig
from clvlab.arena.deploys.config import DeployConfig
from clvlab.arena.packs import bundled_catalog
from clvlab.arena.report_requests import BacktestRunRequest, PackBacktestRequest, PolicyLimits
from clvlab.cli.app import app
from clvlab.errors import AgentError, ArgumentError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.packs.catalog import Catalog
from clvlab.proof.evidence import read_evidence
from clvlab.sources.capture.replay import ReplayFeed
from tests.booked import write_booked
from tests.commands import clvlab
from tests.faces import CommandError, Face, parameters
from tests.length import few, length
from tests.live import FIXTURE, played
from tests.service.serving import api

PACK, OTHER = "booked", "other"
FIXTURES = (1, 2, 3)


@cl.strategy
def own(ticks, *, least_bps=6000):
    return ticks.filter(pl.col("prob_bps") >= least_bps).unique("series", keep="first", maintain_order=True)


WINDOW = {
    "window_id": st.sampled_from(["mine", "é"]),
    "end_rule": st.sampled_from(["manual_stop", "fixed_duration"]),
    "duration_s": st.integers(1, 20_000),
    "min_clv_horizon_s": st.sampled_from([0, 600]),
    "market_allowlist": st.sampled_from([("1X2",), ("1X2", "OU"), ("OU||line=2.5",)]),
    "close_source": st.sampled_from(["ash", "birch"]),
}
POLICY = {
    "market_allowlist": st.sampled_from([("1X2",), ()]),
    "venue_allowlist": st.sampled_from([(), ("paper", "other")]),
    "execution_mode": st.just("dry_run"),
    "max_stake": st.sampled_from([0, 5, 20_000]),
    "max_exposure_per_market": st.sampled_from([0, 500]),
    "max_exposure_per_fixture": st.sampled_from([0, 500]),
    "max_orders": st.sampled_from([0, 2]),
    "cooldown_s": st.sampled_from([1, 600]),
    "warmup_ticks": st.sampled_from([1, 30]),
    "min_prob_bps": st.sampled_from([0, 3_000]),
    "max_prob_bps": st.sampled_from([7_000, 10_000]),
    "require_quote": st.just(value=False),
    "max_quote_age_s": st.sampled_from([0, 60]),
    "max_slippage_bps": st.sampled_from([0, 10_000]),
    "min_edge_bps": st.sampled_from([-10_000, 0]),
    "kill_switch": st.just(value=True),
}
PARAMS = {
    "baseline": {"stake": st.integers(1, 99), "warmup_ticks": st.integers(1, 5), "min_prob_bps": st.just(4_000)},
    "cumulative-drift": {"stake": st.integers(1, 99), "warmup_ticks": st.integers(1, 5), "markets": st.just(["OU"])},
}


@st.composite
def some(draw, values, made=dict):
    """Some fields with values that differ from their defaults."""
    names = draw(st.sets(st.sampled_from(sorted(values)), max_size=4))
    return made(**{name: draw(values[name]) for name in sorted(names)})


def window_of(**own):
    """A window of these fields, whose end rule and duration go together."""
    if "duration_s" in own:
        own["end_rule"] = "fixed_duration"
    elif own.get("end_rule") == "fixed_duration":
        own["duration_s"] = 3_600
    return Window(**own)


@dataclass(frozen=True)
class Asked:
    """A question of a backtest over the pack, whatever face it is put to."""

    agent: str = "baseline"
    params: dict = field(default_factory=dict)
    fixtures: tuple[int, ...] | None = None
    window: Window = field(default_factory=Window)
    policy: PolicyEnvelope = field(default_factory=PolicyEnvelope)

    @property
    def limits(self):
        """The limits that differ from the defaults, as JSON."""
        own = {one.name: getattr(self.policy, one.name) for one in fields(PolicyEnvelope)}
        return {name: value for name, value in plain(own).items() if value != plain(getattr(PolicyEnvelope(), name))}


@st.composite
def questions(draw):
    agent = draw(st.sampled_from(sorted(PARAMS)))
    fixtures = draw(st.none() | st.sets(st.sampled_from(FIXTURES), min_size=1).map(tuple))
    return Asked(agent, draw(some(PARAMS[agent])), fixtures, draw(some(WINDOW, window_of)), draw(some(POLICY, PolicyEnvelope)))


def plain(value):
    """A value as JSON has it."""
    return json.loads(json.dumps(value))


def told(events):
    """What evidence says was asked: RUN_STARTED without the ids of who asked."""
    started = read_evidence(events).started
    return {name: value for name, value in started.items() if name not in ("run_id", "origin_id")}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A catalog of two packs, which keep their books."""
    folder = tmp_path_factory.mktemp("packs")
    for seed, name in enumerate((PACK, OTHER), 1):
        write_booked(folder / name, seed, name, payout=9_200_000 + 500_000 * seed)
        Catalog(folder).admit(name)
    return folder


@pytest.fixture(scope="module")
def service(tmp_path_factory, shelf):
    made = {"packs": shelf, "live_folder": tmp_path_factory.mktemp("live"), "devfeed": True}
    most = dict.fromkeys(("max_owner_deploys", "max_owner_drafts", "max_owner_starts", "max_owner_live"), 10_000)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CLVLAB_REPLAY_SPEED", "1e12")
        with api(tmp_path_factory.mktemp("keys"), **made | most) as running:
            yield running


@pytest.fixture(scope="module")
def remote(service):
    with cl.Lab(service.url, token=service.token()) as lab:
        yield lab


@pytest.fixture(scope="module")
def here():
    with cl.Lab() as lab:
        yield lab


class TestOneQuestion:
    """Every field of a window, a policy and a template goes through every face that takes it."""

    def test_every_field_of_a_window_and_of_a_policy_is_drawn(self):
        assert set(WINDOW) == {one.name for one in fields(Window)}
        assert set(POLICY) == {one.name for one in fields(PolicyEnvelope)}

    @settings(max_examples=length(6, 100))
    @given(asked=questions(), apart=st.booleans())
    def test_is_sealed_alike_by_every_face(self, asked, apart, shelf, here, remote, service, tmp_path_factory):
        sealed = {
            "notebook": cl.backtest(shelf / PACK, **keywords(asked)).run.source.events,
            "notebook, the close apart": cl.backtest(shelf / PACK, **keywords(asked, apart=apart)).run.source.events,
            "laboratory": here.backtest(shelf / PACK, **keywords(asked)).run.source.events,
            "several packs": here.backtests([shelf / PACK, shelf / PACK], **several(asked))[1].run.source.events
            if asked.fixtures is None
            else None,
            "laboratory at a service": remote.backtest(PACK, **keywords(asked, apart=apart)).run.source.events,
            "command line": by_command(shelf, tmp_path_factory.mktemp("runs"), words(asked)),
            "HTTP": by_http(service, body(asked)),
        }
        only = {events for events in sealed.values() if events is not None}

        assert len(only) == 1, {face: told(events) for face, events in sealed.items() if events is not None}
        shows(told(only.pop()), asked)


def keywords(asked, *, apart=False):
    """Arguments of ``backtest``; the book to close by apart from the window, or in it."""
    own = {one.name: getattr(asked, one.name) for one in fields(Asked)}
    if apart and asked.window.close_source is not None:
        own |= {"window": replace(asked.window, close_source=None), "close": asked.window.close_source}
    return own


def several(asked):
    """Arguments of ``backtests``, which replays packs whole."""
    return {name: value for name, value in keywords(asked).items() if name != "fixtures"}


def words(asked):
    """Words of the command line."""
    window = {
        "window_id": "--window-id",
        "end_rule": "--end-rule",
        "duration_s": "--duration-s",
        "min_clv_horizon_s": "--horizon-s",
        "market_allowlist": "--market",
        "close_source": "--close",
    }
    found = ["--agent", asked.agent]
    for name, value in asdict(asked.window).items():
        if value != getattr(Window(), name):
            found += [word for one in (value if isinstance(value, tuple) else [value]) for word in (window[name], one)]
    for option, named in (("--param", asked.params), ("--policy", asked.limits)):
        found += [word for name, value in named.items() for word in (option, f"{name}={json.dumps(value)}")]
    return found + [word for one in asked.fixtures or () for word in ("--fixture", one)]


def body(asked):
    """Body of ``POST /backtests``."""
    own = {"fixture_ids": asked.fixtures, "strategy": asked.agent, "params": asked.params, "policy": asked.limits}
    return {"pack_id": PACK} | own | asdict(asked.window)


def shows(started, asked):
    """Require what was asked to stand in RUN_STARTED."""
    (agent,) = started["agents"]
    window = {name: value for name, value in plain(asdict(asked.window)).items() if name != "close_source" or value}
    assert started["window"] | window == started["window"]
    assert started["window"].get("close_source") == asked.window.close_source
    assert started["policy"] == asked.policy.payload(asked.window.market_allowlist)
    assert started["binding"]["fixture_ids"] == list(asked.fixtures or FIXTURES)
    assert agent["strategy"] == asked.agent
    assert agent["config"] | plain(asked.params) == agent["config"]


def by_command(shelf, folder, said):
    """Evidence of ``clvlab backtest``."""
    code, out, err = clvlab(folder, "backtest", shelf / PACK, *said, "--json")
    assert code == 0, err
    return (folder / json.loads(out)["run_folder"] / "events.jsonl").read_bytes()


def by_http(service, asked):
    """Evidence of a backtest that was posted."""
    made = service.nobody.post("/backtests", json=asked)
    assert made.status_code in (200, 201, 202), made.text
    with cl.Client(service.url) as client:
        client.wait_for_report(made.json()["backtest_id"])
        return client.evidence(made.json()["run_id"])


OWN = """
import polars as pl
import clvlab as cl

@cl.strategy
def own(ticks, *, least_bps=6000):
    return ticks.filter(pl.col("prob_bps") >= least_bps).unique("series", keep="first", maintain_order=True)


class Once(cl.TickAgent):
    def on_tick(self, book):
        return book.back(book.sides()[0]) if book.tick_seq == 3 else None
"""
BETS = """fixture,time,market,side,odds,stake
1,1970-01-01T00:10Z,1X2||,part1,2.10,10
2,1970-01-01T00:20Z,1X2||,part1,2.10,5
"""
KEPT, SHOWN = "where a run is kept", "how a run is shown"
DONE = "how it is computed; the same comes out"
LABEL = "a label of the interface, stored and echoed"
READ = "how a record is read: tests/lab/test_grade_bets.py"
ENDS = "when a live run is sealed, of which no seal speaks: tests/arena/live"
REACH = "what the agent of a sweep may reach stands in the seal of its best"


def alone(values, made, *left_out):
    """One field with a value that differs from its default."""
    names = sorted(set(values) - set(left_out))
    return st.sampled_from(names).flatmap(lambda name: values[name].map(lambda value: made(**{name: value})))


ONE_WINDOW, ONE_POLICY = alone(WINDOW, window_of), alone(POLICY, PolicyEnvelope)
STAKE = st.integers(1, 99).map(lambda stake: {"stake": stake})
SOME_OR_ALL = st.sampled_from([[2, 3], "all"])
SOME_FIXTURES = st.sampled_from([[1], [2, 3]])
DRIFT = st.just("cumulative-drift")


def options(name):
    """The options of a command, and its arguments."""
    found = get_command(app)
    for word in name.split():
        found = found.commands[word]
    return {one.name: one for one in found.params}


@dataclass(frozen=True)
class Places:
    """Where questions are put."""

    shelf: Path
    runs: Path
    service: object
    here: cl.Lab
    there: cl.Lab

    def pack(self, name, place="here"):
        return name if place == "there" else self.shelf / name


@pytest.fixture(scope="module")
def places(shelf, service, here, remote, tmp_path_factory):
    (shelf / "own.py").write_text(OWN)
    (shelf / "bets.csv").write_text(BETS)
    return Places(shelf, tmp_path_factory.mktemp("kept"), service, here, remote)


def effect(events):
    """What evidence says of a run, but for the configurations that its agents state: they may state what has no effect."""
    started = told(events)
    agents = [{name: one[name] for name in one if not name.startswith("config")} for one in started["agents"]]
    return started | {"agents": agents}, read_evidence(events).decisions.drop("run_id", strict=False).to_dicts()


def of_the_season():
    return ReplayFeed(pack=bundled_catalog().open("season"), speed=1e12, shift=True)


def backtest_at(place):
    def ask(places, pack=PACK, **given):
        return told(getattr(places, place).backtest(places.pack(pack, place), **given).run.source.events)

    return ask


def backtests_at(place):
    def ask(places, packs=(PACK,), **given):
        found = getattr(places, place).backtests([places.pack(name, place) for name in packs], **given)
        return [told(one.run.source.events) for one in found]

    return ask


def compete_at(place):
    def ask(places, pack=PACK, agents=("baseline", "cumulative-drift"), fixtures=(1,), **given):
        asked = {"fixtures": fixtures} | given
        return told(getattr(places, place).compete(places.pack(pack, place), agents, **asked).run.source.events)

    return ask


def sweep_here(places, pack=PACK, agent="baseline", grid=None, **given):
    made = places.here.sweep(places.pack(pack), agent, grid or {"stake": [3]}, progress=False, **given)
    return told(made.sources[0].seal().run.source.events)


def judged_here(_, **given):
    asked = {"resamples": 1_000, "progress": False} | given
    made = cl.sweep("starter", "cumulative-drift", {"warmup_ticks": [10, 20, 40]}, **asked)
    return made.frame.to_dicts(), made.trials, repr(made), made._repr_html_()


def plan_here(_, pack="starter", agent="baseline", grid=None, **given):
    with cl.Lab() as lab:
        return lab.plan(pack, agent, grid or {"stake": [3]}, **{"hold_out": 0.5, **given}).payload


def walk_here(_, pack="season", agent="cumulative-drift", grid=None, **given):
    asked = {"folds": 2, "fixtures": range(FIXTURE, FIXTURE + 16), "progress": False} | given
    found = cl.walk_forward(pack, agent, grid or {"warmup_ticks": [10, 20]}, **asked)
    return found.frame.to_dicts(), repr(found), found._repr_html_()


def grade_here(places, bets="bets.csv", odds=PACK, **given):
    return told(places.here.grade_bets(places.shelf / bets, places.pack(odds), **given).run.source.events)


def live_at(place):
    def ask(places, agents="baseline", **given):
        feed = {} if place == "there" else {"feed": played()}
        asked = feed | {"fixture": FIXTURE, "progress": False} | given
        return effect(getattr(places, place).live(agents, **asked).run.source.events)

    return ask


def deploy_there(places, pack=PACK, agent="baseline", fixture=1, **given):
    return effect(places.there.deploy(pack, agent, fixture=fixture, **given).run.source.events)


def deploy_over_http(places, **given):
    with cl.Client(places.service.url, places.service.token()) as client:
        body = {"strategy": "baseline", "source_mode": "replay", "pack_id": PACK, "fixture_id": 1} | given
        run_id = client.deploy(plain(body))["run_id"]
        assert [one["status"] for one in client.follow(run_id)][-1] == "sealed"
        return effect(client.evidence(run_id))


def compete_over_http(places, **given):
    config = {
        "competition_type": "arena", "source_mode": "replay", "market_scope": "all", "roster_size": 2, "pack_id": PACK,
        "fixture_id": 1,
    }  # fmt: skip
    entry = {"agent_id": "one", "strategy": "baseline"}
    with cl.Client(places.service.url, places.service.token()) as client:
        if "instance_id" in given:
            deployed = {"strategy": "baseline", "source_mode": "replay", "pack_id": PACK, "fixture_id": 1, "stake": 7}
            given["instance_id"] = client.deploy(deployed)["instance_id"]
        made = client.create_competition(
            config | {name: given[name] for name in given if name in CompetitionConfig.model_fields}
        )
        own = entry | {name: given[name] for name in given if name in AgentEntry.model_fields}
        service = places.service
        service.post(f"/competitions/{made['competition_id']}/agents", own)
        return effect(client.evidence(client.start(made["competition_id"])["run_id"]))


def backtest_over_http(**always):
    def ask(places, **given):
        return told(by_http(places.service, plain({"pack_id": PACK} | always | given)))

    return ask


def command(name, *arguments, **always):
    """A command that is given options by the names of its parameters; what it prints as JSON, seals and writes into a log."""

    def ask(places, **given):
        known, said = options(name), []
        for option, value in (always | given).items():
            if isinstance(known[option], TyperArgument):
                continue
            if isinstance(value, bool):
                said += known[option].opts[:1] if value else known[option].secondary_opts
            else:
                several = value if isinstance(value, list) else [value]
                said += [word for one in several for word in (known[option].opts[0], one)]
        own = [given.get(argument, default) for argument, default in arguments]
        folder = Path(tempfile.mkdtemp(dir=places.runs))
        for file in ("own.py", "bets.csv"):
            shutil.copy(places.shelf / file, folder)
        line = [places.pack(word) if word in (PACK, OTHER) else word for word in (*own, *said)]
        code, out, err = clvlab(folder, *name.split(), *line, "--json")
        if code:
            raise CommandError(err)
        answer = json.loads(out)
        if "run_folder" not in answer:
            return answer
        run = folder / answer["run_folder"]
        log = clvlab(folder, "log", "show", given["log"], "--json")[1] if "log" in given else None
        manifest = json.loads((run / "manifest.json").read_bytes())
        return told((run / "events.jsonl").read_bytes()), manifest.get("commit_index"), log

    return ask


OF_A_WINDOW = {"window": ONE_WINDOW, "close": WINDOW["close_source"]}
OF_A_BACKTEST = {
    "pack": st.just(OTHER), "agent": DRIFT, "params": STAKE, "fixtures": SOME_FIXTURES, **OF_A_WINDOW, "policy": ONE_POLICY,
    "audit": (st.just(value=False), {"agent": own}), "stepped": (st.just(value=True), {"agent": own}),
}  # fmt: skip
OF_BACKTESTS = {name: OF_A_BACKTEST[name] for name in ("agent", "params", "window", "policy", "audit")} | {
    "packs": st.just([OTHER, PACK])
}
OF_A_COMPETITION = {name: OF_A_BACKTEST[name] for name in ("pack", "window", "policy")} | {
    "fixtures": st.just([2]), "agents": st.just({"one": "baseline", "two": ("baseline", {"stake": 7})}),
    "audit": (st.just(value=False), {"agents": [own, "baseline"]}),
}  # fmt: skip
OF_A_SEARCH = {
    "pack": st.just(OTHER), "agent": DRIFT, "grid": st.just({"stake": [4]}), "fixtures": SOME_FIXTURES, "window": ONE_WINDOW,
}  # fmt: skip
LIVE_WINDOW = alone(WINDOW, window_of, "close_source")
OF_A_DEPLOY = {
    "agent_id": st.just("mine"), "params": st.just({"warmup_ticks": 20}), "market_allowlist": st.just(["OU"]),
    "warmup_ticks": POLICY["warmup_ticks"], "require_quote": POLICY["require_quote"], "max_quote_age_s": st.just(60),
    "sizing": st.just("fractional_kelly"), "stake": st.integers(1, 99),
    "max_stake": st.just(5),
    "max_exposure_per_market": st.just(500), "max_orders": st.just(2), "cooldown_s": POLICY["cooldown_s"],
    "min_edge_bps": POLICY["min_edge_bps"], "execution_mode": st.just("dry_run"), "end_rule": st.just("manual_stop"),
    "duration_s": (st.integers(1, 9_999), {"end_rule": "fixed_duration", "duration_s": 20_000}),
    "min_clv_horizon_s": WINDOW["min_clv_horizon_s"],
}  # fmt: skip
OF_ONE_FIXTURE = {
    "pack_id": st.just(OTHER), **{name: WINDOW[name] for name in ("window_id", "market_allowlist", "min_clv_horizon_s")},
    "end_rule": st.just("manual_stop"),
    "duration_s": (WINDOW["duration_s"], {"end_rule": "fixed_duration", "duration_s": 9**5}),
}  # fmt: skip
OF_ONES_OWN = {"agent": "own.py:own"}
ASKED_QUICKLY = {"agent": "own.py:Once"}
UNAUDITED = OF_ONES_OWN | {"audit": False}  # what an agent may reach stands in the seal either way
BY_COMMAND = {
    "agent": DRIFT, "param": st.just(["stake=7"]), "fixture": SOME_FIXTURES, "market": st.just(["OU"]),
    "horizon_s": WINDOW["min_clv_horizon_s"],
}  # fmt: skip
LOGGED = {"log": st.just("log.db"), "owner": (st.just("alice"), {"log": "log.db"})}

FACES = {
    "backtest": Face(parameters(cl.Lab.backtest, "self"), backtest_at("here"), OF_A_BACKTEST),
    "backtest at a service": Face(
        parameters(cl.Lab.backtest, "self"), backtest_at("there"), OF_A_BACKTEST | {
            "audit": st.just(value=False), "stepped": st.just(value=True),
        }, refuses=("audit", "stepped"),
    ),
    "backtests": Face(parameters(cl.Lab.backtests, "self"), backtests_at("here"), OF_BACKTESTS, apart={"executor": DONE}),
    "backtests at a service": Face(
        parameters(cl.Lab.backtests, "self"), backtests_at("there"), OF_BACKTESTS | {
            "audit": st.just(value=False), "executor": st.builds(ThreadPoolExecutor, st.just(1)),
        }, refuses=("audit", "executor"),
    ),
    "compete": Face(parameters(cl.Lab.compete, "self"), compete_at("here"), OF_A_COMPETITION),
    "compete at a service": Face(
        parameters(cl.Lab.compete, "self"), compete_at("there"), OF_A_COMPETITION | {
            "audit": st.just(value=False), "fixtures": st.sampled_from([[2], [2, 3], None]),
        }, refuses=("audit", "window", "policy"),
    ),
    "sweep": Face(
        parameters(cl.Lab.sweep, "self"), sweep_here, OF_A_SEARCH | {"policy": ONE_POLICY},
        apart=dict.fromkeys(("executor", "progress"), DONE)
        | dict.fromkeys(("earlier_trials", "by", "level", "resamples", "seed"), "how points are judged: see below"),
    ),
    "judgement of a sweep": Face(
        ("earlier_trials", "by", "level", "resamples", "seed"), judged_here, {
            "earlier_trials": st.just(40), "by": st.sampled_from(["edge", "price_ratio"]), "level": st.just(0.8),
            "resamples": st.just(2_000), "seed": st.just(7),
        },
    ),
    "plan": Face(
        parameters(cl.Lab.plan, "self"),
        plan_here,
        OF_A_SEARCH
        | {
            "pack": st.just("season"),
            "fixtures": st.just(range(FIXTURE, FIXTURE + 11)),
            "hold_out": st.sampled_from([0.4, range(FIXTURE, FIXTURE + 5)]),
            "by": st.just("random"),
            "folds": st.just(3),
            "objective": st.just("edge"),
            "seed": (st.just(7), {"by": "random"}),
        },
    ),
    "walk_forward": Face(
        parameters(cl.Lab.walk_forward, "self"),
        walk_here,
        {
            "pack": (st.just("starter"), {"fixtures": range(FIXTURE, FIXTURE + 12)}),
            "agent": st.just("sharp-momentum-v2"),
            "grid": st.just({"warmup_ticks": [10, 40]}),
            "folds": st.just(3),
            "by": st.just({FIXTURE + number: number % 2 for number in range(16)}),
            "objective": st.sampled_from(["edge", "price_ratio"]),
            "fixtures": st.just(range(FIXTURE, FIXTURE + 11)),
            "window": st.sampled_from([Window(min_clv_horizon_s=6_000), Window(market_allowlist=("1X2",))]),
            "level": st.just(0.8),
        },
        apart=dict.fromkeys(("executor", "progress"), DONE),
    ),
    "grade_bets": Face(
        parameters(cl.Lab.grade_bets, "self"), grade_here, {
            "odds": st.just(OTHER), "window": ONE_WINDOW, "agent_id": st.just("me"), "columns": st.just({"stake": None}),
        }, apart=dict.fromkeys(("bets", "market", "odds_format", "time_zone", "time_format", "team_aliases"), READ),
    ),
    "live": Face(
        parameters(cl.Lab.live, "self"), live_at("here"), {
            "agents": DRIFT, "feed": st.builds(of_the_season),
            "fixture": st.just(FIXTURE + 1), "window": LIVE_WINDOW, "policy": ONE_POLICY,
        }, apart={"until": ENDS, "grace_s": ENDS, "progress": SHOWN},
    ),
    "live at a service": Face(
        parameters(cl.Lab.live, "self"), live_at("there"), {
            "agents": DRIFT, "fixture": st.just(FIXTURE + 1), "feed": st.just("replay"), "window": LIVE_WINDOW,
            "policy": ONE_POLICY, "until": st.just(5), "grace_s": st.just(5),
        }, refuses=("feed", "window", "policy", "until", "grace_s"), apart={"progress": SHOWN},
    ),
    "deploy": Face(
        parameters(cl.Lab.deploy, "self", "settings") | DeployConfig.model_fields.keys(), deploy_there, OF_A_DEPLOY | {
            "pack": st.just(OTHER), "agent": DRIFT, "fixture": st.just(2), "strategy": DRIFT, "pack_id": st.just(OTHER),
            "fixture_id": st.just(2), "source_mode": st.just("live"),
            "kelly_fraction_bps": (st.just(5_000), {"sizing": "fractional_kelly", "pack": OTHER}),
            "fixture_ids": st.just([2, 3]),
        }, refuses=("strategy", "pack_id", "fixture_id", "fixture_ids", "source_mode"),
    ),
    "deploy over HTTP": Face(
        DeployConfig.model_fields, deploy_over_http, {
            "strategy": DRIFT, "pack_id": st.just(OTHER), "fixture_id": st.just(2),
            "fixture_ids": (SOME_OR_ALL, {"fixture_id": None}),
        },
        apart={"source_mode": "a live run replays nothing: tests/service/test_live.py"}
        | dict.fromkeys((*OF_A_DEPLOY, "kelly_fraction_bps"), "a deploy of a laboratory sends it: see above"),
    ),
    "competition over HTTP": Face(
        CompetitionConfig.model_fields.keys() | AgentEntry.model_fields.keys(), compete_over_http, {
            "execution_mode": st.just("dry_run"), "pack_id": st.just(OTHER), "fixture_id": st.just(2),
            "fixture_ids": (SOME_OR_ALL, {"fixture_id": None}), "scoring_window": st.just("PT1H"),
            "agent_id": st.just("two"), "strategy": DRIFT, "config": STAKE,
            "proof_mode": st.just("verified"), "instance_id": st.just("of one that was deployed"),
        }, apart={
            "competition_type": LABEL, "market_scope": LABEL, "division": LABEL, "roster_size": "how many may enter",
            "source_mode": "a live run replays nothing: tests/service/test_live.py",
        },
    ),
    "backtest of a fixture over HTTP": Face(
        BacktestRunRequest.model_fields, backtest_over_http(fixture_id=1, window_id="full", market_allowlist=[""]),
        OF_ONE_FIXTURE | {"fixture_id": st.just(2)},
    ),
    "backtest of a pack over HTTP": Face(
        PackBacktestRequest.model_fields, backtest_over_http(fixture_ids=None), OF_ONE_FIXTURE | {
            "fixture_ids": SOME_FIXTURES, "strategy": DRIFT, "params": STAKE, "close_source": WINDOW["close_source"],
            "policy": alone(POLICY, dict),
        },
    ),
    "clvlab backtest": Face(
        options("backtest"), command("backtest", ("pack", PACK)), BY_COMMAND | LOGGED | {
            "pack": st.just(OTHER), "end_rule": st.just("manual_stop"), "close": WINDOW["close_source"],
            "duration_s": (WINDOW["duration_s"], {"end_rule": "fixed_duration", "duration_s": 9**5}),
            "policy": st.just(["max_orders=2"]), "audit": (st.just(value=False), OF_ONES_OWN),
            "stepped": (st.just(value=True), OF_ONES_OWN), "reads": (st.just(["bets.csv"]), UNAUDITED),
            "network": (st.just(value=True), UNAUDITED), "window_id": WINDOW["window_id"],
        }, apart={"runs_folder": KEPT, "as_json": SHOWN},
    ),
    "clvlab sweep": Face(
        options("sweep"), command("sweep", ("pack", PACK), grid=["warmup_ticks=0,20"], agent="baseline"), {
            **{name: BY_COMMAND[name] for name in ("agent", "fixture", "market")}, "pack": st.just(OTHER),
            "grid": st.just(["warmup_ticks=0,30"]), "horizon_s": st.just(14_000), "earlier": st.just(40),
        }, apart={"reads": REACH, "network": REACH, "as_json": SHOWN},
    ),
    "clvlab bets grade": Face(
        options("bets grade"), command("bets grade", ("bets", "bets.csv"), pack=PACK), {
            **LOGGED, "pack": st.just(OTHER), "agent_id": st.just("me"), "horizon_s": BY_COMMAND["horizon_s"],
            "column": st.just(["stake="]),
        }, apart=dict.fromkeys(("bets", "market", "odds_format", "time_zone", "time_format", "team_aliases"), READ)
        | dict.fromkeys(("rows", "unmatched", "page", "as_json"), SHOWN) | {"runs_folder": KEPT},
    ),
    "clvlab live": Face(
        options("live"), command("live", ("agent", "baseline"), feed="replay"), {
            **LOGGED, **{name: BY_COMMAND[name] for name in ("param", "market", "horizon_s")}, "agent": DRIFT,
            "fixture": st.just(FIXTURE + 1), "policy": st.just(["max_orders=2"]),
            "reads": (st.just(["bets.csv"]), ASKED_QUICKLY),
            "network": (st.just(value=True), ASKED_QUICKLY),
        }, apart={"feed": "tests/cli/test_live.py", "until": ENDS, "grace_s": ENDS, "out_folder": KEPT, "as_json": SHOWN},
    ),
}  # fmt: skip
TRIED = [(face, name) for face, one in FACES.items() for name in one.values]


class TestEveryField:
    @pytest.mark.parametrize("face", FACES)
    def test_is_tried_or_has_a_reason_why_it_shapes_no_run(self, face):
        FACES[face].check_listed()

    @few(80)
    @pytest.mark.parametrize(("face", "name"), TRIED)
    @settings(max_examples=length(1, 2))
    @given(data=st.data())
    def test_shows_in_what_comes_of_it_or_is_refused_by_name(self, places, face, name, data):
        FACES[face].check_shows(data, name, places)

    def test_of_a_policy_is_a_limit_over_http(self):
        assert set(PolicyLimits.model_fields) == {one.name for one in fields(PolicyEnvelope)}


class Watching(cl.TickAgent):
    def on_tick(self, book):
        return None if book else []


class TestAnUnknownField:
    """What no face takes is refused by name, or named in the answer as ignored."""

    @pytest.mark.parametrize("place", [None, "here", "there"])
    @pytest.mark.parametrize(
        "verb",
        ["backtest", "backtests", "compete", "sweep", "walk_forward", "plan", "grade_bets", "live", "deploy", "compare", "runs",
         "leaderboard", "open_run", "verify"],
    )  # fmt: skip
    def test_of_a_verb_is_refused(self, places, place, verb):
        made = getattr(cl if place is None else getattr(places, place), verb, None)
        if not callable(made) or (place == "here" and verb == "deploy"):
            return
        needed = {"deploy": {"pack": PACK, "agent": "baseline", "fixture": 1}}.get(verb, {})

        with pytest.raises(ArgumentError, match="colour"):
            made(**needed, colour="vermilion")

    @pytest.mark.parametrize(
        "agent",
        ["baseline", own, Watching(), cl.isolated(own), "own.py:own"],
        ids=["template", "strategy", "ticks", "isolated", "file"],
    )
    @pytest.mark.parametrize("verb", ["backtest", "compete", "sweep", "live"])
    def test_of_an_agent_is_refused(self, places, agent, verb, monkeypatch):
        monkeypatch.chdir(places.shelf)
        strange = {"colour": "vermilion"}
        ask = {
            "backtest": lambda: places.here.backtest(places.pack(PACK), agent, params=strange),
            "compete": lambda: places.here.compete(places.pack(PACK), {"one": (agent, strange), "two": "baseline"}),
            "sweep": lambda: places.here.sweep(places.pack(PACK), agent, {"colour": ["vermilion"]}),
            "live": lambda: places.here.live({"one": (agent, strange)}, played(), fixture=FIXTURE),
        }

        with pytest.raises(AgentError, match="colour"):
            ask[verb]()

    @pytest.mark.parametrize("verb", ["backtest", "compete", "live", "deploy"])
    def test_of_a_template_is_refused_at_a_service_too(self, places, verb):
        strange = {"colour": "vermilion"}
        ask = {
            "backtest": lambda: places.there.backtest(PACK, params=strange),
            "compete": lambda: places.there.compete(PACK, {"one": ("baseline", strange), "two": "baseline"}, fixtures=[1]),
            "live": lambda: places.there.live({"one": ("baseline", strange)}, fixture=FIXTURE),
            "deploy": lambda: places.there.deploy(PACK, "baseline", fixture=1, params=strange),
        }

        with pytest.raises(AgentError, match="colour"):
            ask[verb]()

    @given(name=st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20))
    @settings(max_examples=5)
    def test_of_a_body_is_refused_or_named_as_ignored(self, service, name):
        competition = {"competition_type": "arena", "source_mode": "replay", "market_scope": "all", "roster_size": 2}
        made = service.post("/competitions", competition)["competition_id"]
        bodies = {
            "/backtests": {"pack_id": PACK, "fixture_ids": [1]},
            "/competitions": competition,
            f"/competitions/{made}/agents": {"agent_id": "one", "strategy": "baseline"},
            "/agents/deploy": {"strategy": "baseline", "source_mode": "replay", "pack_id": PACK, "fixture_id": 1},
        }

        for path, known in bodies.items():
            if name in known or name in FIELDS:
                continue
            answer = service.alice.post(path, json=known | {name: "vermilion"})
            named = answer.json()["ignored"] if answer.is_success else refused_fields(answer.json())
            assert answer.status_code in (201, 422)
            assert named == [name]


def refused_fields(problem):
    return [one["name"] for one in problem["checks"]] if "checks" in problem else [one["loc"][-1] for one in problem["errors"]]


FIELDS = {
    *DeployConfig.model_fields, *CompetitionConfig.model_fields, *AgentEntry.model_fields, *PackBacktestRequest.model_fields,
    *BacktestRunRequest.model_fields,
}  # fmt: skip
