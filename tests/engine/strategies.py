"""Generated tapes, windows and decisions: small, but with every twist the law has a rule for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
from hypothesis import strategies as st

from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import FIXTURES, TICKS, ClosingPolicy
from tests.factories import make_decisions

__all__ = ["Game", "decisions", "games", "policies", "windows"]

MARKETS = {"1X2||": ("draw", "part1", "part2"), "OU|line=2.5": ("over", "under"), 'é|"quoted"|': ("nein", "ja\n", "\u2028")}
FIXTURE_IDS = (-3, 1, 17)
Draw = Callable[[st.SearchStrategy[Any]], Any]


class Game:
    """Ticks, fixtures, closing policy and limit on the age of a close of one generated tape."""

    def __init__(
        self,
        ticks: list[dict[str, Any]],
        kickoffs: dict[int, int | None],
        policy: ClosingPolicy,
        max_close_age_s: int | None,
    ) -> None:
        self.rows = ticks
        self.ticks = pl.DataFrame(ticks, schema=TICKS)
        self.fixtures = pl.DataFrame(sorted(kickoffs.items()), schema=FIXTURES, orient="row")
        self.kickoffs = kickoffs
        self.policy = policy
        self.max_close_age_s = max_close_age_s

    def __repr__(self) -> str:
        return f"Game({self.policy}, {self.max_close_age_s}, {self.kickoffs}, {self.rows})"


@st.composite
def games(draw: Draw) -> Game:
    """Up to three fixtures of up to twelve messages over up to three markets."""
    kickoffs, rows = {}, []
    for fixture_id in draw(st.lists(st.sampled_from(FIXTURE_IDS), unique=True, max_size=3)):
        ts_ms = seq = 0
        starts = draw(st.sampled_from([0, 1_700_000_000_000]))
        for _ in range(draw(st.integers(0, 12))):
            seq += draw(st.sampled_from([1, 1, 1, 5]))
            ts_ms += draw(st.sampled_from([0, 1, 999, 30_000, 60_000, 300_000, 300_001]))
            market = draw(st.sampled_from(sorted(MARKETS)))
            rows += _message(draw, fixture_id, seq - 1, starts + ts_ms, market)
        offset = draw(st.one_of(st.none(), st.sampled_from([-1, 0, ts_ms // 2, ts_ms, ts_ms + 1, ts_ms + 400_000])))
        kickoffs[fixture_id] = None if offset is None else max(0, starts + offset)
    limit_s = draw(st.sampled_from([None, None, 1, 30, 60, 300, 9_007_199_254]))
    return Game(draw(st.permutations(rows)), kickoffs, draw(st.sampled_from(ClosingPolicy)), limit_s)


def _message(draw: Draw, fixture_id: int, seq: int, ts_ms: int, market: str) -> list[dict[str, Any]]:
    silent = draw(st.integers(0, 3)) == 0
    playing = draw(st.integers(0, 7)) == 0
    prices = st.one_of(st.none(), st.integers(0, 10_000))
    quotes = st.one_of(st.none(), st.sampled_from([1001, 1500, 2000, 2_000_000, 100_000_000]))
    probs = {side: None if silent else draw(prices) for side in MARKETS[market]}
    suspended = set(probs.values()) == {None}
    return [
        {
            "fixture_id": fixture_id,
            "tick_seq": seq,
            "ts_ms": ts_ms,
            "in_running": playing,
            "market_key": market,
            "side": side,
            "prob_bps": prob,
            "odds_milli": None if silent else draw(quotes),
            "suspended": suspended,
        }
        for side, prob in probs.items()
    ]


@st.composite
def windows(draw: Draw) -> Window:
    """Every end rule, near and far horizons, allowlists that hold and that refuse."""
    rule = draw(st.sampled_from(["pre_match", "fixed_duration", "manual_stop"]))
    return Window(
        window_id=draw(st.sampled_from(["full", 'é "\\\x07'])),
        end_rule=rule,
        duration_s=draw(st.sampled_from([1, 60, 300, 10_000])) if rule == "fixed_duration" else None,
        min_clv_horizon_s=draw(st.sampled_from([0, 1, 60, 300])),
        market_allowlist=draw(st.sampled_from([("",), ("1X2",), ("OU|", "é"), ()])),
    )


@st.composite
def policies(draw: Draw) -> PolicyEnvelope:
    """Envelopes whose limits are about as tight as the generated decisions are bold."""
    few = st.one_of(st.none(), st.integers(0, 3))
    stakes = st.one_of(st.none(), st.sampled_from([0, 10_000, 2**53 - 1]))
    low, high = sorted([draw(st.integers(0, 10_000)), draw(st.integers(0, 10_000))])
    return PolicyEnvelope(
        market_allowlist=draw(st.sampled_from([None, ("",), ("1X2",), ("OU|", "é"), ()])),
        venue_allowlist=draw(st.sampled_from([("paper",), ("paper",), (), ("elsewhere",)])),
        execution_mode=draw(st.sampled_from(["paper", "dry_run"])),
        max_stake=draw(st.sampled_from([10_000, 2**53 - 1])),
        max_exposure_per_market=draw(stakes),
        max_exposure_per_fixture=draw(stakes),
        max_orders=draw(few),
        cooldown_s=draw(st.sampled_from([0, 1, 60, 300])),
        warmup_ticks=draw(st.integers(0, 4)),
        min_prob_bps=low,
        max_prob_bps=high,
        require_quote=draw(st.booleans()),
        max_quote_age_s=draw(st.sampled_from([0, 30, 900])),
        max_slippage_bps=draw(st.sampled_from([0, 100, 10_000])),
        min_edge_bps=draw(st.one_of(st.none(), st.integers(-10_000, 20_000))),
        kill_switch=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def decisions(draw: Draw, game: Game, agent_id: str = "a") -> pl.DataFrame:
    """``DECISIONS`` at ticks of the game, some on markets and sides that are not there."""
    ticks = sorted({(row["fixture_id"], row["tick_seq"]) for row in game.rows})
    if not ticks:
        return make_decisions()
    one = st.fixed_dictionaries(
        {
            "at": st.sampled_from(ticks),
            "action": st.sampled_from(["BACK", "BACK", "BACK", "WAIT"]),
            "market_key": st.one_of(st.none(), st.sampled_from([*MARKETS, "absent|"])),
            "side": st.one_of(st.none(), st.sampled_from(["part1", "over", "under", "nein", "ja\n", "\u2028", "nobody"])),
            "stake": st.one_of(st.none(), st.integers(0, 20_000), st.integers(0, 2**53 - 1)),
            "limit_odds_milli": st.one_of(st.none(), st.integers(0, 2**31 - 1)),
            "reason": st.one_of(st.none(), st.text(max_size=12)),
            "confidence": st.one_of(st.none(), st.floats(0, 1), st.floats()),
            "claimed_edge_bps": st.one_of(st.none(), st.integers(-(2**53) + 1, 2**53 - 1)),
        }
    )
    found = draw(st.lists(one, max_size=10, unique_by=_key))
    rows = []
    for decision in found:
        fixture_id, tick_seq = decision.pop("at")
        rows.append({"agent_id": agent_id, "fixture_id": fixture_id, "tick_seq": tick_seq} | decision)
    return make_decisions(*rows)


def _key(decision: dict[str, Any]) -> tuple[Any, ...]:
    wait = decision["action"] == "WAIT"
    return (decision["at"], "WAIT") if wait else (decision["at"], "BACK", decision["market_key"], decision["side"])
