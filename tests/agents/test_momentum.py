from fractions import Fraction
from itertools import pairwise
from math import floor
from statistics import median

import polars as pl
import pytest
from hypothesis import given, settings

from clvlab.agents.registry import template
from clvlab.odds.integers import micro_logits
from tests.agents.strategies import EAGER, tapes
from tests.factories import make_tape, message
from tests.length import length

STRATEGY = "sharp-momentum-v2"
# Every condition is met by a rise, so that each test sets the one that it is about.
OPEN = {
    "level_alpha": 1.0, "min_movements": 2, "min_z_milli": 0, "change_allowance_micro_logits": 0,
    "change_threshold_micro_logits": 1, "min_persistence": 0.0, "warmup_ticks": 0, "cooldown_s": 0, "max_prob_bps": 10_000,
}  # fmt: skip
LOGITS = micro_logits().to_list()


def walk(*probs, market_key="1X2_PARTICIPANT_RESULT||", step_s=60):
    quotes = [{"a": None, "b": None} if prob is None else {"a": prob, "b": 10_000 - prob} for prob in probs]
    return make_tape([message(n, n * step_s, sides, market_key=market_key) for n, sides in enumerate(quotes)])


def ticks_of(tape, side="a", **params):
    decided = template(STRATEGY, OPEN | params).decide(tape)
    return decided.filter(decided["side"] == side)["tick_seq"].to_list()


def moves(*probs):
    return [LOGITS[b] - LOGITS[a] for a, b in pairwise(probs)]


def test_a_side_that_rises_is_backed_and_one_that_falls_is_not():
    assert ticks_of(walk(5000, 5010, 5000, 5010, 5100)) == [3, 4]
    assert ticks_of(walk(5000, 4990, 4980, 4970)) == []


def test_the_robust_z_is_exact_at_its_threshold():
    probs = (5000, 5010, 5040, 5030, 5600)
    *before, now = moves(*probs)
    z_milli = _z_milli(before, now)

    assert ticks_of(walk(*probs), min_z_milli=z_milli, lookback_movements=3) == [4]
    assert ticks_of(walk(*probs), min_z_milli=z_milli + 1, lookback_movements=3) == []


def test_a_side_that_stood_still_is_measured_by_the_smallest_scale():
    probs = (5000, 5000, 5000, 5000, 5010)
    (move,) = moves(*probs)[-1:]

    assert ticks_of(walk(*probs), min_z_milli=move // 2, min_scale_micro_logits=2000) == [4]
    assert ticks_of(walk(*probs), min_z_milli=move // 2 + 1, min_scale_micro_logits=2000) == []


def test_the_lookback_forgets_older_movements():
    probs = (5000, 5300, 4700, 5300, 5300, 5300, 5300, 5320)

    assert ticks_of(walk(*probs), min_z_milli=3000, lookback_movements=3) == [7]
    assert ticks_of(walk(*probs), min_z_milli=3000, lookback_movements=6) == []


def test_the_change_test_sums_movements_less_their_allowance_above_the_smallest_sum():
    probs = (5000, 4900, 4950, 4960, 5000)
    risen = sum(moves(*probs)[1:]) - 3 * 1500

    config = {"change_allowance_micro_logits": 1500}
    assert ticks_of(walk(*probs), **config, change_threshold_micro_logits=risen) == [4]
    assert ticks_of(walk(*probs), **config, change_threshold_micro_logits=risen + 1) == []


def test_the_change_test_of_a_side_starts_anew():
    tape = make_tape(
        [message(0, 0, {"a": 5000, "b": 5000}), message(1, 60, {"a": 8000, "b": 2000}), message(2, 120, {"a": 7900, "b": 2100})]
        + [message(n, n * 60, {"a": 5000 + n, "b": 5000 - n}, fixture_id=2) for n in range(4)]
    )

    decided = template(STRATEGY, OPEN | {"change_threshold_micro_logits": 100_000}).decide(tape)

    assert decided.filter(decided["fixture_id"] == 2).is_empty()


def test_persistence_is_the_share_of_upward_movements_among_the_last():
    probs = (5000, 5010, 5000, 5010, 5000, 5010)
    asked = {"persistence_movements": 4}

    assert ticks_of(walk(*probs), **asked, min_persistence=0.5) == [3, 5]
    assert ticks_of(walk(*probs), **asked, min_persistence=0.51) == [3]  # 2 of the 3 that there were, then 2 of 4


def test_a_movement_is_measured_from_the_average_of_the_levels_before():
    probs = (5000, 5100, 5100, 5300)
    levels = [LOGITS[prob] for prob in probs]
    averages = [levels[0], (levels[0] + levels[1]) / 2, levels[0] / 4 + levels[1] / 4 + levels[2] / 2]
    assert averages[2] % 1 == 0.75  # rounded up
    *before, now = [level - floor(average + 0.5) for level, average in zip(levels[1:], averages, strict=True)]

    decided = template(STRATEGY, OPEN | {"level_alpha": 0.5}).decide(walk(*probs))

    assert decided["reason"].to_list() == [
        f"movement of {now} micro-logits, robust z {_z_milli(before, now)} thousandths, 3 of 3 upward"
    ]


def _z_milli(before, now, smallest_scale=1000):
    """The robust z by its definition, in exact fractions."""
    middle = Fraction(median(before))
    deviation = Fraction(median(abs(move - middle) for move in before))
    return floor(1000 * (now - middle) / max(Fraction("1.4826") * deviation, smallest_scale))


def test_warm_up_counts_messages_of_the_fixture_and_seconds_since_the_first_price():
    tape = walk(None, 5000, 5010, 5020, 5030, 5040)

    assert ticks_of(tape, warmup_ticks=5) == [5]
    assert ticks_of(tape, warmup_s=240) == [5]
    assert ticks_of(tape, min_movements=3) == [5]


def test_a_market_is_left_alone_during_the_cooldown():
    assert ticks_of(walk(5000, 5010, 5020, 5030, 5040, 5050, 5060), cooldown_s=120) == [3, 5]


def test_other_kinds_of_market_are_looked_at_when_asked_for():
    handicap = walk(5000, 5010, 5020, 5030, market_key="ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.5")

    assert ticks_of(handicap) == []
    assert ticks_of(handicap, families=["ASIAN"]) == [3]
    assert ticks_of(handicap, families=["ASIAN"], markets=["1X2"]) == []


def test_a_side_likelier_than_the_limit_is_left_alone():
    assert ticks_of(walk(5000, 5010, 5020, 5030), max_prob_bps=5029) == []


def test_of_two_sides_the_larger_z_wins_and_then_the_first_in_byte_order():
    both = [{"a": 3000, "b": 3000, "c": 4000}, {"a": 3010, "b": 3010, "c": 3980}] * 2 + [{"a": 3050, "b": 3050, "c": 3900}]
    tape = make_tape([message(n, n * 60, sides) for n, sides in enumerate(both)])

    decided = template(STRATEGY, OPEN | {"min_movements": 3}).decide(tape)

    assert decided.select("tick_seq", "side").rows() == [(4, "a")]


def test_what_is_claimed_is_the_rise_so_far_and_the_rule_of_succession():
    decided = template(STRATEGY, OPEN | {"persistence_movements": 3}).decide(walk(5000, 5040, 5030, 5070))

    assert decided["claimed_edge_bps"].to_list() == [70]
    assert decided["confidence"].to_list() == pytest.approx([3 / 5])


@given(tapes())
@settings(max_examples=length(30, 80))
def test_the_columns_decide_as_a_loop_over_the_messages_does(tape):
    config = template(STRATEGY, EAGER[STRATEGY]).config

    decided = template(STRATEGY, EAGER[STRATEGY]).decide(tape)

    found = decided.sort("fixture_id", "market_key", "tick_seq").select("fixture_id", "market_key", "tick_seq", "side").rows()
    assert found == list(_looped(tape, config))


def _looped(tape, config):
    """Decide message by message, with plain Python."""
    candidates = {}
    seen = tape.ticks().collect().filter(~pl.col("in_running"), pl.col("prob_bps").is_not_null())
    for (fixture_id, market_key, side), rows in seen.partition_by("fixture_id", "market_key", "side", as_dict=True).items():
        if market_key.startswith(config.families):
            market = candidates.setdefault((fixture_id, market_key), {})
            for tick, ts_ms, z_milli, change in _signals(rows.to_dicts(), config):
                market.setdefault((tick, ts_ms), []).append((-z_milli, -change, side))
    for (fixture_id, market_key), ticks in sorted(candidates.items()):
        ready = 0
        for (tick, ts_ms), sides in sorted(ticks.items()):
            if ts_ms >= ready:
                ready = ts_ms + 1000 * config.cooldown_s
                yield fixture_id, market_key, tick, min(sides)[2]


def _signals(rows, config):
    moved, total, smallest, average = [], 0, 0, None
    for row in rows:
        level = LOGITS[row["prob_bps"]]
        if average is None:
            average = float(level)
            continue
        before = floor(average + 0.5)
        average = config.level_alpha * level + (1 - config.level_alpha) * average
        now = level - before
        total += now - config.change_allowance_micro_logits
        smallest = min(smallest, total)
        last = [*moved, now][-config.persistence_movements :]
        if (
            now > 0
            and len(moved) >= config.min_movements
            and total - smallest >= config.change_threshold_micro_logits
            and sum(move > 0 for move in last) / len(last) >= config.min_persistence
            and row["tick_seq"] >= config.warmup_ticks
            and row["ts_ms"] - rows[0]["ts_ms"] >= 1000 * config.warmup_s
            and row["prob_bps"] <= config.max_prob_bps
        ):
            z_milli = _z_milli(moved[-config.lookback_movements :], now, config.min_scale_micro_logits)
            if z_milli >= config.min_z_milli:
                yield row["tick_seq"], row["ts_ms"], z_milli, total - smallest
        moved.append(now)
