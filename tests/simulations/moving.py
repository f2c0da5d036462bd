"""Decisions that are moved, on tapes whose truth is known: martingales, and those whose favourites all shorten."""

from __future__ import annotations

import numpy as np
import polars as pl

from clvlab.law.closing import Window
from clvlab.law.schema import TICKS
from clvlab.law.tape import Tape
from clvlab.statistics import delay, permute_fixtures
from tests.simulations.families import martingales

_MINUTE_MS = 60_000
_LOOKBACK, _THRESHOLD_BPS = 5, 60


def paths(rng: np.random.Generator, fixtures: int, ticks: int, *, drift_bps: float = 0, edge_bps: float = 0) -> np.ndarray:
    """Probabilities of one of two sides.

    ``drift_bps`` is what every favourite gains from first to last tick; ``edge_bps`` what a side that rose gains at the close.
    """
    found = martingales(rng, fixtures, ticks)
    favourite = np.where(found[:, :1] >= 5000, 1, -1)
    found = found + np.rint(favourite * np.linspace(0, drift_bps, ticks)).astype(int)
    rise = found[:, _LOOKBACK:-1] - found[:, : -_LOOKBACK - 1]
    found[:, -1] += np.rint(edge_bps * np.sign(rise.sum(1))).astype(int)
    return np.clip(found, 100, 9_900)


def tape_of(found: np.ndarray) -> Tape:
    """A tape of one market with two sides, a tick a minute; the last one is the close, at kickoff."""
    fixtures, ticks = found.shape
    number, tick = np.repeat(np.arange(fixtures), ticks), np.tile(np.arange(ticks), fixtures)
    common = {
        "fixture_id": number + 1,
        "tick_seq": tick,
        "ts_ms": tick * _MINUTE_MS,
        "in_running": False,
        "market_key": "WINNER||",
        "suspended": False,
    }
    sides = [
        pl.DataFrame(common | {"side": side, "prob_bps": prob.ravel(), "odds_milli": 10_000_000 // prob.ravel()})
        for side, prob in (("part1", found), ("part2", 10_000 - found))
    ]
    kickoffs = pl.DataFrame({"fixture_id": np.arange(fixtures) + 1, "kickoff_ts_ms": ticks * _MINUTE_MS})
    return Tape.from_ticks(pl.concat(sides).select(pl.col(name).cast(dtype) for name, dtype in TICKS.items()), kickoffs)


def entries(found: np.ndarray) -> pl.DataFrame:
    """What a rule enters that backs whichever side rose by more than a threshold over the last ticks, scored at the close."""
    rise = found[:, _LOOKBACK:-1] - found[:, : -_LOOKBACK - 1]
    fixture, place = np.nonzero(np.abs(rise) > _THRESHOLD_BPS)
    up, tick = rise[fixture, place] > 0, place + _LOOKBACK
    entry, close = found[fixture, tick], found[fixture, -1]
    return pl.DataFrame(
        {
            "fixture_id": fixture + 1,
            "tick_seq": tick,
            "market_key": "WINNER||",
            "side": np.where(up, "part1", "part2"),
            "to_close_s": (found.shape[1] - tick) * 60.0,
            "close_prob_bps": np.where(up, close, 10_000 - close),
            "clv_bps": np.where(up, close - entry, entry - close),
        }
    ).cast({"fixture_id": pl.Int64, "tick_seq": pl.Int64})


def same_series(found: np.ndarray, rng: np.random.Generator) -> float:
    """Mean CLV of the same sides at random ticks of their own series: biased, as a rule chose them by what had been."""
    backed = entries(found)
    path = found[backed["fixture_id"].to_numpy() - 1]
    clv = path[:, -1] - path[np.arange(len(path)), rng.integers(0, found.shape[1], len(path))]
    return float(np.where(backed["side"].to_numpy() == "part1", clv, -clv).mean())


def moved(
    rounds: int, seed: int = 1, *, fixtures: int = 120, ticks: int = 60, draws: int = 199, **truth: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Observed means, means elsewhere, and the p-values of the permutation and of the delay, a row a tape."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(rounds):
        found = paths(rng, fixtures, ticks, **truth)
        tape, scored = tape_of(found), entries(found)
        ends = pl.DataFrame({"fixture_id": np.arange(fixtures) + 1, "end_seq": ticks, "close_ts_ms": ticks * _MINUTE_MS})
        elsewhere = permute_fixtures(tape, scored, Window(), draws=draws, seed=number)
        later = delay(tape, scored, ends, draws=draws, seed=number)
        rows.append((elsewhere.observed, elsewhere.mean, elsewhere.p_value, later.p_value))
    return tuple(np.array(rows).T)


LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5)


def levels(rounds: int, seed: int = 1, *, fixtures: int = 40, ticks: int = 12, draws: int = 199) -> dict[float, float]:
    """How often the p of the permutation is at most each level where there is nothing to know.

    The decisions are themselves moved to random fixtures first, so that draws and decisions are exchangeable.
    """
    rng, p_values = np.random.default_rng(seed), []
    for number in range(rounds):
        found = paths(rng, fixtures, ticks)
        backed = entries(found)
        mixed = rng.permutation(fixtures)
        there = found[mixed[backed["fixture_id"].to_numpy() - 1]]
        entry, first = there[np.arange(len(there)), backed["tick_seq"].to_numpy()], backed["side"].to_numpy() == "part1"
        own = found[backed["fixture_id"].to_numpy() - 1, backed["tick_seq"].to_numpy()]
        favourite = np.where(first, own >= 5000, own < 5000)  # of two equals, the first is the favourite
        up = favourite == (entry >= 5000)
        moved_to = backed.with_columns(
            fixture_id=pl.Series(mixed[backed["fixture_id"].to_numpy() - 1] + 1),
            side=pl.Series(np.where(up, "part1", "part2")),
            clv_bps=pl.Series(np.where(up, there[:, -1] - entry, entry - there[:, -1])),
        )
        if moved_to.height:
            p_values.append(permute_fixtures(tape_of(found), moved_to, Window(), draws=draws, seed=number).p_value)
    return {level: float(np.mean(np.array(p_values) <= level)) for level in LEVELS}


def level_table(rounds: int) -> str:
    """How often the sequential p is at most each level, in seeds of 500 nulls, and what chance allows (two standard errors)."""
    each = [levels(500, seed) for seed in range(1, 1 + max(rounds // 500, 1))]
    lines = [f"{500 * len(each):,} nulls of 40 fixtures x 12 ticks, 199 draws at most | p of the choice is at most it"]
    for level in LEVELS:
        error = 2 * np.sqrt(level * (1 - level) / (500 * len(each)))
        lines.append(f"{level:.2f} +- {error:.4f} | {np.mean([one[level] for one in each]):.4f}")
    return "\n".join(lines)


def table(rounds: int) -> str:
    """Means and how often each p is at most 5 %."""
    lines = [f"{rounds:,} tapes of 120 fixtures x 60 ticks | mean CLV | in other fixtures | choice at 5 % | acting now at 5 %"]
    for name, truth in (
        ("exact martingale", {}),
        ("every favourite gains 150 bps", {"drift_bps": 150}),
        ("what had mostly risen gains 120 bps at the close", {"edge_bps": 120}),
    ):
        observed, elsewhere, choice, now = moved(rounds, **truth)
        means, rejected = (one.mean() for one in (observed, elsewhere)), (np.mean(one <= 0.05) for one in (choice, now))
        lines.append(" | ".join([name, *(f"{mean:+.1f}" for mean in means), *(f"{share:.3f}" for share in rejected)]))
    rng = np.random.default_rng(1)
    biased = np.mean([same_series(paths(rng, 120, 60), rng) for _ in range(rounds)])
    lines.append(f"on the martingales, the same sides at random times of their own series: {biased:+.1f}")
    return "\n".join(lines)
