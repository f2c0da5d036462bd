"""Templates by name."""

from __future__ import annotations

import copyreg
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeGuard

import polars as pl
from pydantic import Field, ValidationError

from clvlab.agents import momentum, proposals
from clvlab.agents.template import MAX_SECONDS, Config, Template, average, back, backs, begins_with_one, cool_down, in_markets
from clvlab.base.names import among, nearest
from clvlab.engine.agent import is_registered, register
from clvlab.engine.live import Follower
from clvlab.errors import AgentError, UnknownAgentError
from clvlab.law.actions import Decision
from clvlab.law.message import Message
from clvlab.law.schema import SAFE_INTEGER
from clvlab.law.tape import Tape
from clvlab.odds.integers import micro_logit_table, micro_logits_of

# ``baseline``: back the favourite of each market once, at its first priced message.


class BaselineConfig(Config):
    """Parameters of ``baseline``."""

    warmup_ticks: int = Field(
        default=0, ge=0, le=SAFE_INTEGER, description="Number of price updates of a fixture before the first proposal."
    )
    min_prob_bps: int = Field(default=5000, ge=1, le=10_000, description="Smallest probability of a backed side, in bps.")


def decide_baseline(tape: Tape, config: BaselineConfig) -> pl.DataFrame:
    """Back the likeliest side of each market at its first price after the warm-up, if it is likely enough.

    Ties go to the side that comes first in byte order. Price updates in play are ignored. The agent claims no edge and no
    confidence. Linear in ticks.

    References
    ----------
    The interface specification, "POST /backtests": one deterministic offline agent. A favourite at first sight is the plain
    yardstick, and backs without looking at any movement.
    """
    series = in_markets(tape, config.markets).select("series", "fixture_id", "market_key", "side", "market_start")
    first = (
        tape.rows.lazy()
        .filter(pl.col("prob_bps").is_not_null(), ~pl.col("in_running"), pl.col("tick_seq") >= config.warmup_ticks)
        .select("series", "tick_seq", "prob_bps")
        .join(series.lazy(), on="series")
        .filter(pl.col("tick_seq") == pl.col("tick_seq").min().over("market_start"))
        .sort("market_start", "prob_bps", "side", descending=[False, True, False])
        .unique("market_start", keep="first", maintain_order=True)
        .filter(pl.col("prob_bps") >= config.min_prob_bps)
        .with_columns(
            reason=pl.format("likeliest side at first sight, {} bps", "prob_bps"),
            claimed_edge_bps=pl.lit(None, pl.Int64),
            confidence=pl.lit(None, pl.Float64),
        )
        .collect(engine="in-memory")
    )
    return backs(first, config.stake)


class BaselineFollower:
    def __init__(self, config: BaselineConfig) -> None:
        self._config = config
        self._seen: set[tuple[int, str]] = set()

    def take(self, message: Message) -> Sequence[Decision]:
        market, config = (message.fixture_id, message.market_key), self._config
        if (
            message.in_running
            or message.suspended
            or message.tick_seq < config.warmup_ticks
            or market in self._seen
            or not begins_with_one(message.market_key, config.markets)
        ):
            return ()
        self._seen.add(market)
        prob, side = min((-prob, side) for side, prob in zip(message.sides, message.prob_bps, strict=True) if prob is not None)
        if -prob < config.min_prob_bps:
            return ()
        return (back(message, side, config.stake, f"likeliest side at first sight, {-prob} bps", None, None),)


# ``cumulative-drift``: back a side whose log-odds have risen since its first price, and keep rising.


class DriftConfig(Config):
    """Parameters of ``cumulative-drift``."""

    min_drift_micro_logits: int = Field(
        default=100_000,
        ge=1,
        le=20_000_000,
        description="Smallest rise in log-odds since the first price, in millionths.",
    )
    persistence_alpha: float = Field(
        default=0.25, gt=0, le=1, allow_inf_nan=False, description="Weight of the newest movement in the average of signs."
    )
    min_persistence: float = Field(
        default=0.3,
        ge=-1,
        le=1,
        allow_inf_nan=False,
        description="Smallest average of signs (+1 up, -1 down, 0 unchanged).",
    )
    warmup_ticks: int = Field(
        default=6, ge=0, le=SAFE_INTEGER, description="Number of priced updates of a market before the first proposal."
    )
    warmup_s: int = Field(
        default=0, ge=0, le=MAX_SECONDS, description="Seconds from the first price of a market to the first proposal."
    )
    cooldown_s: int = Field(
        default=43_200, ge=0, le=MAX_SECONDS, description="Seconds after a position without another proposal on the market."
    )
    max_prob_bps: int = Field(default=9500, ge=1, le=10_000, description="Largest probability of a backed side, in bps.")


def decide_drift(tape: Tape, config: DriftConfig) -> pl.DataFrame:
    """Back a side when its drift and the persistence of its movements reach their thresholds.

    Drift is the side's log-odds minus those at its first price, from a table of integers. Persistence is the exponentially
    weighted mean of the signs of its movements, computed in the order of price updates, so that every machine rounds alike.
    Of two sides of a market at one price update the larger drift wins, ties by byte order. Price updates in play are ignored.
    Linear in ticks.

    The claims are unproven. The edge is the rise in probability since the first price, as if it happened again. The
    confidence is the persistence, moved from [-1, 1] to [0, 1].

    References
    ----------
    S. W. Roberts, "Control chart tests based on geometric moving averages", Technometrics 1 (1959) 239-250, for the average.
    """
    series = in_markets(tape, config.markets).select("series", "fixture_id", "market_key", "side", "market_start")
    rows = tape.rows.filter(pl.col("prob_bps").is_not_null(), ~pl.col("in_running")).select(
        "series", "tick_seq", "ts_ms", "prob_bps"
    )
    level = pl.Series("level", micro_logits_of(rows["prob_bps"]))
    same = pl.col("series") == pl.col("series").shift(1)
    move = pl.when(same).then(pl.col("level") - pl.col("level").shift(1)).otherwise(0)
    walked = (
        rows.with_columns(level)
        .lazy()
        .with_columns(sign=move.sign().cast(pl.Float64))
        .with_columns(
            drift=pl.col("level") - pl.col("level").first().over("series"),
            first_prob_bps=pl.col("prob_bps").first().over("series"),
            seen=pl.int_range(pl.len()).over("series"),
            elapsed_ms=pl.col("ts_ms") - pl.col("ts_ms").first().over("series"),
            persistence=pl.col("sign").ewm_mean(alpha=config.persistence_alpha, adjust=False).over("series"),
        )
        .filter(
            pl.col("drift") >= config.min_drift_micro_logits,
            pl.col("persistence") >= config.min_persistence,
            pl.col("seen") >= config.warmup_ticks,
            pl.col("elapsed_ms") >= 1000 * config.warmup_s,
            pl.col("prob_bps") <= config.max_prob_bps,
        )
        .join(series.lazy(), on="series")
        .sort("market_start", "tick_seq", "drift", "side", descending=[False, False, True, False])
        .unique(["market_start", "tick_seq"], keep="first", maintain_order=True)
        .collect(engine="in-memory")
    )
    picks = walked.filter(cool_down(walked["market_start"], walked["ts_ms"], config.cooldown_s)).with_columns(
        reason=pl.format("drift of {} micro-logits over {} messages", "drift", "seen"),
        claimed_edge_bps=pl.col("prob_bps").cast(pl.Int64) - pl.col("first_prob_bps"),
        confidence=(1 + pl.col("persistence")) / 2,
    )
    return backs(picks, config.stake)


@dataclass(slots=True)
class _DriftSide:
    first_level: int
    first_prob_bps: int
    first_ts_ms: int
    level: int
    persistence: float = 0.0
    seen: int = 0


class DriftFollower:
    def __init__(self, config: DriftConfig) -> None:
        self._config, self._levels = config, micro_logit_table()
        self._sides: dict[tuple[int, str, str], _DriftSide] = {}
        self._ready: dict[tuple[int, str], int] = {}

    def take(self, message: Message) -> Sequence[Decision]:
        config, market = self._config, (message.fixture_id, message.market_key)
        if message.in_running or not begins_with_one(message.market_key, config.markets):
            return ()
        best: tuple[int, str, _DriftSide, int] | None = None
        for name, prob in zip(message.sides, message.prob_bps, strict=True):
            if prob is None:
                continue
            side = self._walked(message, name, prob)
            drift = side.level - side.first_level
            if (
                drift >= config.min_drift_micro_logits
                and side.persistence >= config.min_persistence
                and side.seen >= config.warmup_ticks
                and message.ts_ms - side.first_ts_ms >= 1000 * config.warmup_s
                and prob <= config.max_prob_bps
                and (best is None or drift > best[0])
            ):
                best = drift, name, side, prob
        if best is None or message.ts_ms < self._ready.get(market, message.ts_ms):
            return ()
        self._ready[market] = message.ts_ms + 1000 * config.cooldown_s
        drift, name, side, prob = best
        reason = f"drift of {drift} micro-logits over {side.seen} messages"
        return (back(message, name, config.stake, reason, (1 + side.persistence) / 2, prob - side.first_prob_bps),)

    def _walked(self, message: Message, name: str, prob: int) -> _DriftSide:
        key, level = (message.fixture_id, message.market_key, name), self._levels[prob]
        side = self._sides.get(key)
        if side is None:
            side = self._sides[key] = _DriftSide(level, prob, message.ts_ms, level)
            return side
        sign = float((level > side.level) - (level < side.level))
        side.persistence = average(self._config.persistence_alpha, sign, side.persistence)
        side.level, side.seen = level, side.seen + 1
        return side


_DECIMAL = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,320})?")
_Rule = Callable[[Tape, Any], pl.DataFrame]

_FOLLOWERS: Mapping[str, Callable[[Any], Follower]] = MappingProxyType(
    {
        "baseline": BaselineFollower,
        "cumulative-drift": DriftFollower,
        "sharp-momentum-v2": momentum.MomentumFollower,
    }
)
"""Templates with their own message-by-message code. Other templates decide again at each message."""

TEMPLATES: Mapping[str, tuple[type[Config], _Rule]] = MappingProxyType(
    {
        "baseline": (BaselineConfig, decide_baseline),
        "cumulative-drift": (DriftConfig, decide_drift),
        "sharp-momentum-v2": (momentum.MomentumConfig, momentum.decide),
        "llm": (proposals.LlmConfig, proposals.decide_proposals),
        "bets": (proposals.BetsConfig, proposals.decide_bets),
    }
)

TRANSCRIBED = tuple(strategy for strategy, (model, _) in TEMPLATES.items() if model.repeats)
"""Templates that replay a transcript, which names ticks of a fixture."""


def names_template(agent: object) -> TypeGuard[str]:
    """Return whether ``agent`` is a text that names a template instead of a file. The template may be unknown."""
    return isinstance(agent, str) and not agent.rpartition(":")[0].endswith(".py")


def template(strategy: str, params: Mapping[str, Any] | None = None, *, agent_id: str | None = None) -> Template[Any]:
    """Return the agent of a template; ``AgentError`` names an unknown parameter or a value out of bounds."""
    if strategy not in TEMPLATES:
        raise UnknownAgentError(f"unknown agent {strategy!r:.200}{_hint(strategy)}")
    model, rule = TEMPLATES[strategy]
    try:
        config = model.model_validate({name: _fraction(model, name, value) for name, value in dict(params or {}).items()})
    except ValidationError as error:
        raise AgentError(f"{strategy}: {_refusal(model, error)}") from error
    return register(Template(agent_id or strategy, strategy, config, rule, _FOLLOWERS.get(strategy)))


def of_sealed_config(agent_id: str, strategy: str, config: Mapping[str, Any]) -> Template[Any]:
    """Return the template's agent that a sealed run names. Keys unknown to the template are dropped; they had no effect."""
    fields = TEMPLATES[strategy][0].model_fields if strategy in TEMPLATES else config
    return template(strategy, {name: value for name, value in config.items() if name in fields}, agent_id=agent_id)


def _reduced(agent: Template[Any]) -> Any:
    if not is_registered(agent):
        # An object that was only unpickled is not registered, so it can't pass for a template of clvlab's.
        return object.__reduce_ex__(agent, 4)
    return _made, (agent.strategy, agent.config.model_dump(mode="json"), agent.agent_id)


def _made(strategy: str, params: Mapping[str, Any], agent_id: str) -> Template[Any]:
    return template(strategy, params, agent_id=agent_id)


copyreg.pickle(Template, _reduced)


def _hint(strategy: str) -> str:
    known = f"use one of {', '.join(TEMPLATES)}"
    if strategy.endswith(".py"):
        return f": an agent in a file is named as {strategy}:name, with the name that it has there"
    if ":" in strategy:
        return f": the file of an agent ends in .py, as file.py:name; otherwise {known}"
    meant = nearest(strategy, TEMPLATES)
    return f": {known}" if meant is None else f": did you mean {meant!r}? If not, {known}"


_KINDS = {
    "int_type": "must be a whole number", "int_from_float": "must be a whole number", "float_type": "must be a number",
    "tuple_type": "must be a list", "string_type": "must be a text", "bool_type": "must be True or False",
}  # fmt: skip


def _refusal(model: type[Config], error: ValidationError) -> str:
    wrong = error.errors()[0]
    name = ".".join(str(part) for part in wrong["loc"])
    if wrong["type"] == "extra_forbidden" and len(wrong["loc"]) == 1:
        return f"no parameter {name!r}{among(name, model.model_fields)}"
    field = model.model_fields.get(str(wrong["loc"][0]))
    default = "" if field is None or len(wrong["loc"]) > 1 else f"; the default is {_default_text(field.default)}"
    reason = _KINDS.get(wrong["type"], wrong["msg"].replace("Input should be", "must be").removeprefix("Value error, "))
    return f"parameter {name} = {wrong['input']!r:.80}: {reason}{default}"


def _default_text(default: object) -> str:
    return repr(list(default)) if isinstance(default, tuple) else repr(default)


def _fraction(model: type[Config], name: str, value: Any) -> Any:
    """Accept a fraction also as decimal text, its sealed form, so that a sealed configuration can be run again."""
    known = model.model_fields.get(name)
    is_fraction = known is not None and known.annotation is float
    return float(value) if is_fraction and isinstance(value, str) and _DECIMAL.fullmatch(value) else value
