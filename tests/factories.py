"""Builders of small tapes, decisions, agents and runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from clvlab import errors
from clvlab.agents.isolation.agent import IsolatedAgent, isolated
from clvlab.agents.isolation.sandbox import can_lock_in
from clvlab.arena.application import Application
from clvlab.arena.competitions.requests import AgentEntry, CompetitionConfig
from clvlab.engine.agent import Identity, decisions_of, register
from clvlab.engine.run import RunResult, run
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import DECISIONS, FIXTURES, TICKS, Causality, ClosingPolicy
from clvlab.law.tape import Binding, Tape
from clvlab.proof.seal import SealedRun
from clvlab.runs.execute import execute, perform
from clvlab.runs.spec import backtest_spec

__all__ = [
    "ALICE",
    "AUDITED",
    "BOB",
    "ERRORS",
    "MARKET",
    "FailingAgent",
    "FixedAgent",
    "make_agent",
    "make_competition",
    "make_decisions",
    "make_limited_run",
    "make_mixed_run",
    "make_own_run",
    "make_run",
    "make_sealed_run",
    "make_tape",
    "message",
    "seen_kickoffs",
    "write_quotes",
]

MARKET = "1X2_PARTICIPANT_RESULT||"
ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
AUDITED = (Causality.AUDITED_SANDBOX if can_lock_in() else Causality.AUDITED_PROCESS).value  # as this machine can
Quote = tuple[int | None, int | None] | int | None


@dataclass(frozen=True, eq=False)
class FixedAgent:
    """Returns the same decisions over every tape; passes for a template."""

    identity: Identity
    decisions: pl.DataFrame

    def __post_init__(self) -> None:
        register(self)

    def decide(self, tape: Tape) -> pl.DataFrame:  # noqa: ARG002
        return self.decisions


def message(
    tick_seq: int,
    ts_s: float,
    sides: Mapping[str, Quote],
    *,
    market_key: str = MARKET,
    fixture_id: int = 1,
    in_running: bool = False,
) -> list[dict[str, Any]]:
    """Tick rows of one message; a quote is ``prob_bps``, ``(prob_bps, odds_milli)`` or null, suspended if all are null."""
    quotes = {side: quote if isinstance(quote, tuple) else (quote, None) for side, quote in sides.items()}
    suspended = all(prob is None for prob, _ in quotes.values())
    return [
        {
            "fixture_id": fixture_id,
            "tick_seq": tick_seq,
            "ts_ms": round(ts_s * 1000),
            "in_running": in_running,
            "market_key": market_key,
            "side": side,
            "prob_bps": prob,
            "odds_milli": odds,
            "suspended": suspended,
        }
        for side, (prob, odds) in quotes.items()
    ]


def make_tape(
    messages: Iterable[list[dict[str, Any]]],
    kickoffs_s: Mapping[int, float | None] | None = None,
    closing_policy: ClosingPolicy = ClosingPolicy.LAST_STATE,
    max_close_age_s: int | None = None,
) -> Tape:
    """Tape of some messages; fixtures without an entry in ``kickoffs_s`` have no kickoff."""
    ticks = pl.DataFrame([row for rows in messages for row in rows], schema=TICKS, orient="row")
    kickoffs = dict.fromkeys(ticks["fixture_id"]) | dict(kickoffs_s or {})
    fixtures = pl.DataFrame(
        [(number, None if at is None else round(at * 1000)) for number, at in kickoffs.items()], schema=FIXTURES, orient="row"
    )
    return replace(Tape.from_ticks(ticks, fixtures, closing_policy=closing_policy), max_close_age_s=max_close_age_s)


def make_decisions(*decisions: Mapping[str, Any]) -> pl.DataFrame:
    """``DECISIONS``: each a BACK of ``part1`` in ``MARKET`` at tick 0 of fixture 1 by agent ``a``, save for what is named."""
    default = dict.fromkeys(DECISIONS) | {
        "agent_id": "a", "fixture_id": 1, "tick_seq": 0, "action": "BACK", "market_key": MARKET, "side": "part1", "stake": 100,
    }  # fmt: skip
    return pl.DataFrame([default | dict(decision) for decision in decisions], schema=DECISIONS)


def make_agent(decisions: pl.DataFrame, agent_id: str = "a", **identity: Any) -> FixedAgent:
    """Agent of fixed decisions."""
    return FixedAgent(
        Identity(agent_id, "fixed", "1", **identity),
        decisions.with_columns(agent_id=pl.lit(agent_id)),
    )


def make_run(tape: Tape, *decisions: Mapping[str, Any], window: Window | None = None, **options: Any) -> RunResult:
    """Run of one agent ``a`` with these decisions."""
    return run(tape, [make_agent(make_decisions(*decisions))], window or Window(), **options)


def make_own_run(tape: Tape, *agents: Any, audit_seed: int | None = None, **options: Any) -> RunResult:
    """Run of agents of one's own, in processes of their own."""
    own = [agent if isinstance(agent, IsolatedAgent) else isolated(agent) for agent in agents]
    return run(tape, own, Window(), audit_seed=audit_seed, **options)


@dataclass(frozen=True, eq=False)
class FailingAgent:
    """Raises when asked; passes for a template."""

    identity: Identity = Identity("broken", "fixed", "1")  # noqa: RUF009

    def __post_init__(self) -> None:
        register(self)

    def decide(self, tape: Tape) -> pl.DataFrame:
        raise RuntimeError(f"no decision over {len(tape.binding.fixture_ids)} fixtures")


@cache
def make_mixed_run(pack: str | None = None) -> RunResult:
    """Run with a winner, a loser, a WAIT, an invalid decision, two markets, two fixtures, a failed agent and a full gate.

    ``pack`` is the content hash of a pack that it is bound to.
    """
    tape = make_tape(
        [
            message(0, 0, {"draw": (3000, 3300), "part1": (4000, 2500), "part2": (3000, 3300)}),
            message(1, 60, {"over": (5000, 1950), "under": (5000, 1950)}, market_key="OU|line=2.5"),
            message(2, 300, {"draw": (2500, 4000), "part1": (4500, 2200), "part2": (3000, 3300)}),
            message(0, 0, {"draw": None, "part1": None, "part2": None}, fixture_id=2),
            message(1, 100, {"draw": 2000, "part1": 7000, "part2": 1000}, fixture_id=2),
        ],
        {1: 600, 2: 700},
    )
    decided = make_decisions(
        {"reason": 'it "rises"\n', "confidence": 0.75, "claimed_edge_bps": 120},
        {"side": "part2", "confidence": 7.5, "limit_odds_milli": 3000},
        {"side": "draw"},
        {"tick_seq": 1, "market_key": "OU|line=2.5", "side": "over"},
        {"tick_seq": 2, "action": "WAIT", "market_key": None, "side": None, "stake": None},
        {"fixture_id": 2},
        {"fixture_id": 2, "tick_seq": 1},
    )
    agents = [make_agent(decided, config={"threshold": 0.4, "ticks": 20}), FailingAgent()]
    if pack:
        tape = replace(tape, binding=Binding("a-pack", tape.binding.fixture_ids, pack))
    return run(tape, agents, Window(), policy=PolicyEnvelope(max_orders=2))


def make_sealed_run() -> SealedRun:
    """Bytes of the mixed run."""
    return make_mixed_run().sealed


def make_limited_run() -> RunResult:
    """Run over a pack that scores no close older than 360 s: one as old, one older by a millisecond, one old and suspended."""
    quotes, later = {"over": (5000, 1950), "under": (5000, 1950)}, {"over": (5200, 1900), "under": None}
    tape = make_tape(
        [
            message(0, 0, quotes, market_key="AT|"),
            message(1, 0, quotes, market_key="OVER|"),
            message(2, 0, quotes, market_key="SUSPENDED|"),
            message(3, 10, {"over": None, "under": None}, market_key="SUSPENDED|"),
            message(4, 299.999, later, market_key="OVER|"),
            message(5, 300, later, market_key="AT|"),
            message(6, 650, quotes, market_key="LATE|"),
        ],
        {1: 660},
        max_close_age_s=360,
    )
    backs = [
        {"tick_seq": 2, "market_key": market, "side": side}
        for market in ("AT|", "OVER|", "SUSPENDED|")
        for side in ("over", "under")
    ]
    waits = {"tick_seq": 5, "action": "WAIT", "market_key": None, "side": None, "stake": None}
    late = [{"tick_seq": 6, "market_key": market, "side": "over"} for market in ("LATE|", "OVER|")]
    return make_run(tape, *backs, waits, *late)


@dataclass
class CuriousAgent:
    """Keeps the kickoffs that it is shown."""

    kickoffs: list[int | None] = field(default_factory=list)
    identity: Identity = Identity("curious", "fixed", "1")  # noqa: RUF009

    def decide(self, tape: Tape) -> pl.DataFrame:
        if tape.announced is not None:
            raise AssertionError("an agent is shown the kickoffs of the law beside those of its own")
        self.kickoffs = tape.fixtures["kickoff_ts_ms"].to_list()
        return pl.DataFrame(schema=DECISIONS)


def seen_kickoffs(tape: Tape) -> list[int | None]:
    """Kickoffs of a tape as an agent sees them."""
    agent = CuriousAgent()
    decisions_of(agent, tape)
    return agent.kickoffs


ALICE, BOB = "did:example:alice", "did:example:bob"


def make_competition(application: Application, *strategies: str, owner: str = ALICE, **config: Any) -> str:
    """Competition of ``owner`` over the starter pack, with an agent per strategy of its name; gives its id."""
    fields = {
        "competition_type": "arena",
        "source_mode": "replay",
        "market_scope": "all",
        "roster_size": 2,
        "pack_id": "starter",
    }
    created = application.competitions.create(owner, CompetitionConfig(**fields | config))
    for strategy in strategies:
        application.competitions.register(owner, created["competition_id"], AgentEntry(agent_id=strategy, strategy=strategy))
    return created["competition_id"]


def performed(pack, agent="baseline", **asked):
    """Perform a backtest, and keep nothing."""
    return perform(backtest_spec(pack, agent, **asked))


def write_quotes(path: Path, matches: Iterable[tuple[int, str]], step: int = 1) -> Path:
    """Write odds of matches, each by what it is quoted like and its day; matches that are like one have the same quotes."""
    lines = ["fixture,time,kickoff,market,side,odds"]
    for match, (like, day) in enumerate(matches):
        for minute in range(40):
            prob = 0.4 + 0.01 * ((minute * (like + 3) * step) % 17)
            for side, own in (("home", prob), ("away", 1 - prob)):
                lines.append(f"m{match},{day}T10:{minute:02d}Z,{day}T12:00Z,WINNER||,{side},{1 / own / 1.03:.3f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def kept_run(laboratory, spec):
    """A run that is made in a laboratory, and kept there."""
    return execute(spec, laboratory.recorder_of(spec))
