import tracemalloc
from fractions import Fraction
from random import Random

import numpy as np
import polars as pl
import pytest

from clvlab.errors import StatisticsError
from clvlab.law.schema import TICKS
from clvlab.law.tape import Tape
from clvlab.packs.ladders import LADDERS
from clvlab.statistics.fills import FILLS, ORDERS, FillOutcome, offers_of, quoted_ladders, taken
from tests.booked import frames
from tests.length import length
from tests.plain_fills import fills

NO_KICKOFF = {"fixture_id": pl.Int64, "kickoff_ts_ms": pl.Int64}


def tape_of(ticks):
    frame = pl.DataFrame(ticks, schema=TICKS)
    ids = frame["fixture_id"].unique().sort()
    return Tape.from_ticks(frame, pl.DataFrame({"fixture_id": ids, "kickoff_ts_ms": [None] * len(ids)}, schema=NO_KICKOFF))


def ladders_of(rows):
    return pl.DataFrame(rows, schema=LADDERS).sort("fixture_id", "market_key", "side", "level", "ts_ms")


def tick(seq, ts_ms, probs, *, suspended=False, in_running=False, market="m", fixture_id=1):
    return [
        {
            "fixture_id": fixture_id, "tick_seq": seq, "ts_ms": ts_ms, "in_running": in_running, "market_key": market,
            "side": side, "prob_bps": None if suspended else prob, "odds_milli": None, "suspended": suspended,
        }
        for side, prob in probs.items()
    ]  # fmt: skip


def ladder(ts_ms, levels, *, side="a", market="m", fixture_id=1, first=0):
    return [
        {
            "fixture_id": fixture_id, "market_key": market, "side": side, "level": first + level, "ts_ms": ts_ms,
            "odds_milli": odds, "stake_cents": size,
        }
        for level, (odds, size) in enumerate(levels)
    ]  # fmt: skip


def order(seq, ts_ms, *, agent="x", side="a", market="m", fixture_id=1, limit=None, close=10_000_000):
    return {
        "seq": seq, "agent_id": agent, "fixture_id": fixture_id, "market_key": market, "side": side, "ts_ms": ts_ms,
        "limit_odds_milli": limit, "close_ts_ms": close,
    }  # fmt: skip


EVEN = {"a": 5000, "b": 5000}


def take(ticks, ladders, orders, gaps=None, **how):
    found = taken(offers_of(tape_of(ticks), ladders_of(ladders), pl.DataFrame(orders, schema=ORDERS), gaps), **how)
    return found.rows(named=True)


def test_an_order_takes_level_after_level_and_leaves_the_rest_unfilled():
    offers = ladder(0, [(2000, 1000), (1900, 500)])

    whole, more = (take(tick(0, 0, EVEN), offers, [order(1, 0)], stake_cents=size)[0] for size in (1200, 9000))

    assert (whole["outcome"], whole["filled_cents"], whole["payout"]) == ("filled", 1200, 1000 * 2000 + 200 * 1900)
    assert (more["outcome"], more["filled_cents"], more["payout"]) == ("partly_filled", 1500, 1000 * 2000 + 500 * 1900)


@pytest.mark.parametrize(
    ("outcome", "arranged"),
    [
        ("past_close", {"order": {"close": 5000}, "delay_ms": 5000}),
        ("in_play", {"tick": {"in_running": True}}),
        ("suspended", {"tick": {"suspended": True}}),
        ("no_depth", {"ladder": {"side": "b"}}),
        ("no_offer", {"levels": [(None, None)]}),
        ("limit", {"order": {"limit": 2001}}),
        ("unknown", {"delay_ms": 900_001}),
        ("filled", {"delay_ms": 900_000}),
        ("filled", {"order": {"limit": 2000}}),
        ("filled", {"order": {"limit": 0}}),
        ("filled", {"order": {"close": 5001}, "delay_ms": 5000}),
    ],
)
def test_outcomes(outcome, arranged):
    found = take(
        tick(0, 0, EVEN, **arranged.get("tick", {})),
        ladder(0, arranged.get("levels", [(2000, 1000)]), **arranged.get("ladder", {})),
        [order(1, 0, **arranged.get("order", {}))],
        stake_cents=100,
        delay_ms=arranged.get("delay_ms", 0),
    )[0]

    assert found["outcome"] == outcome
    assert (found["filled_cents"] == 100) == (outcome == "filled")


def test_an_order_that_arrives_at_the_close_or_later_is_never_filled():
    ticks, offers = tick(0, 0, EVEN), ladder(0, [(2000, 10**6)])

    for delay_ms in (60_000, 60_001, 10**6):
        found = take(ticks, offers, [order(1, 0, close=60_000)], stake_cents=100, delay_ms=delay_ms, max_age_ms=10**9)[0]
        assert (found["outcome"], found["filled_cents"], found["payout"]) == ("past_close", 0, 0)


def test_orders_of_an_agent_at_one_state_never_take_the_same_money_twice():
    offers = [*ladder(0, [(2000, 150), (1900, 100)]), *ladder(9000, [(2000, 150)])]
    orders = [order(1, 0), order(2, 1000), order(3, 2000), order(4, 1000, agent="y"), order(5, 9000)]

    found = take(tick(0, 0, EVEN), offers, orders, stake_cents=100)

    assert [one["filled_cents"] for one in found] == [100, 100, 50, 100, 100]
    assert [one["payout"] for one in found] == [200_000, 50 * 2000 + 50 * 1900, 50 * 1900, 200_000, 200_000]


def test_an_order_that_finds_all_offers_taken_says_so():
    found = take(tick(0, 0, EVEN), ladder(0, [(2000, 100)]), [order(1, 0), order(2, 1)], stake_cents=100)

    assert [one["outcome"] for one in found] == [FillOutcome.FILLED, FillOutcome.TAKEN]


def test_a_gap_since_the_last_row_of_the_market_makes_it_unknown_until_the_next():
    ticks, offers = [*tick(0, 0, EVEN), *tick(1, 5000, EVEN)], ladder(0, [(2000, 100)])
    orders = [order(number, ts) for number, ts in enumerate((999, 1000, 3000, 4999, 5000))]

    for key in (None, "m"):
        found = take(ticks, offers, orders, {key: [(1000, 3000)]}, stake_cents=1)
        assert [one["outcome"] for one in found] == ["filled", "unknown", "unknown", "unknown", "filled"]
    other = take(ticks, offers, orders, {"another": [(1000, 3000)]}, stake_cents=1)
    assert {one["outcome"] for one in other} == {"filled"}


def test_a_ladder_that_crosses_is_taken_as_it_stands_and_marked():
    offers = [*ladder(0, [(2100, 100)]), *ladder(0, [(2000, 100)], side="b")]

    found = take(tick(0, 0, EVEN), offers, [order(1, 0)], stake_cents=100)[0]

    assert found["crossed"]
    assert found["payout"] == 210_000
    level = take(tick(0, 0, EVEN), [*ladder(0, [(2000, 1)]), *ladder(0, [(2000, 1)], side="b")], [order(1, 0)], stake_cents=1)
    assert not level[0]["crossed"]


def test_nothing_is_taken_from_no_orders_and_no_ladders():
    empty = take(tick(0, 0, EVEN), [], [], stake_cents=100)
    assert empty == []
    assert take(tick(0, 0, EVEN), [], [order(1, 0)], stake_cents=100)[0]["outcome"] == "no_depth"


def test_an_order_off_the_tape_and_unsorted_ladders_are_refused():
    with pytest.raises(StatisticsError, match="does not have"):
        take(tick(0, 0, EVEN), [], [order(1, 0, side="c")], stake_cents=1)
    rows = pl.DataFrame([*ladder(5, [(2000, 1)]), *ladder(0, [(2000, 1)])], schema=LADDERS)
    with pytest.raises(StatisticsError, match="not sorted"):
        offers_of(tape_of(tick(0, 0, EVEN)), rows, pl.DataFrame([order(1, 0)], schema=ORDERS))


def test_quoted_prices_are_ladders_of_one_level_of_unknown_size():
    rows = [{**one, "odds_milli": 1950} for one in tick(0, 0, EVEN)] + tick(1, 50, EVEN, suspended=True)
    tape = tape_of(rows)
    offers = offers_of(tape, quoted_ladders(tape), pl.DataFrame([order(1, 0), order(2, 60)], schema=ORDERS))

    found = taken(offers, stake_cents=10**9)

    assert found["filled_cents"].to_list() == [10**9, 0]
    assert found["payout"][0] == 1950 * 10**9
    assert found["outcome"].to_list() == ["filled", "suspended"]


def test_the_memory_of_the_best_of_books_does_not_grow_with_their_number():
    events = pl.DataFrame({"ts_ms": range(5_000)}).with_columns(
        fixture_id=1, market_key=pl.lit("M"), side=pl.lit("a"), tick_seq="ts_ms", odds_milli=2000, suspended=False
    )
    tape, peaks = Tape.from_ticks(frames(1)[0], pl.DataFrame({"fixture_id": [1, 2, 3], "kickoff_ts_ms": [None] * 3})), []
    for books in (2, 500):
        rows = events.with_columns(book=pl.format("book {}", pl.col("ts_ms") % books)).sort("book", "tick_seq")
        tracemalloc.start()
        quoted_ladders(tape, rows)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]


@pytest.mark.parametrize("seed", range(5))
def test_the_best_of_books_is_that_of_their_last_open_prices(seed):
    _, books = frames(seed, messages=15)
    books = books.sort("fixture_id", "market_key", "side", "book", "tick_seq")
    tape = Tape.from_ticks(frames(seed, messages=15)[0], pl.DataFrame({"fixture_id": [1, 2, 3], "kickoff_ts_ms": [None] * 3}))

    found = quoted_ladders(tape, books)

    for row in found.sample(40, seed=seed).iter_rows(named=True):
        same = [pl.col(name) == row[name] for name in ("fixture_id", "market_key", "side")]
        last = books.filter(*same, pl.col("ts_ms") <= row["ts_ms"]).group_by("book").last()
        assert row["odds_milli"] == last.filter(~pl.col("suspended"))["odds_milli"].max()


# Both implementations, over cases that neither chose.


def generated(seed):
    random = Random(seed)
    ticks, ladders, orders, gaps = [], [], [], []
    for fixture_id in range(1, random.randint(1, 2) + 1):
        for market in random.sample(["m", "n"], random.randint(1, 2)):
            sides = ["a", "b", "c"][: random.choice([2, 2, 3])]
            now, depth, latest = 1_000_000, {}, {}
            for seq in range(random.randint(1, 12)):
                now += random.choice([0, 1, 400, 3000, 20_000])
                share = [random.randint(500, 4000) for _ in sides]
                probs = {side: 10_000 * own // sum(share) for side, own in zip(sides, share, strict=True)}
                how = {"suspended": random.random() < 0.15, "in_running": random.random() < 0.05}
                ticks += tick(seq, now, probs, market=market, fixture_id=fixture_id, **how)
                for side in sides:
                    if random.random() < 0.75:
                        at = latest[side] = max(now + random.choice([0, 0, 1, 700]), latest.get(side, 0))
                        ladders += _moved(random, depth, at, side, probs[side], market, fixture_id)
    for number in range(random.randint(1, 14)):
        at = random.choice(ticks)
        limit = random.choice([None, None, 0, 1500, 2000, 2600])
        close = random.choice([10**9, 10**9, at["ts_ms"] + random.choice([0, 1, 1000, 5000])])
        same = {name: at[name] for name in ("fixture_id", "side")}
        at_ms = at["ts_ms"] + random.choice([0, 0, 0, 1, 50])
        agent = random.choice("xy")
        orders.append(order(number, at_ms, agent=agent, market=at["market_key"], limit=limit, close=close, **same))
    for _ in range(random.choice([0, 0, 1, 2])):
        since = 1_000_000 + random.randint(-10, 40_000)
        gaps.append((since, since + random.randint(0, 9000), random.choice([None, "m", "n"])))
    how = {
        "stake_cents": random.choice([1, 90, 500, 4000]),
        "delay_ms": random.choice([0, 0, 1, 500, 1000, 7000, 30_000]),
        "max_age_ms": random.choice([900_000, 10_000, 800]),
    }
    return ticks, ladders, orders, gaps, how


def _moved(random, depth, at, side, prob, market, fixture_id):
    """Return rows that move a ladder to another state: levels without a hole, with strictly falling odds."""
    key, odds, rows = (side, market, fixture_id), 10_000_000 // max(prob, 400), []
    old = depth.get(key, [])
    new, best = [], odds + random.randint(-300, 200)  # often above the fair price, so that ladders cross
    for level in range(random.choice([0, 1, 2, 3, 5])):
        best = max(best - random.randint(1, 90), 1001)
        if new and best >= new[-1][0]:
            break
        keeps = level < len(old) and random.random() < 0.4 and (not new or old[level][0] < new[-1][0])
        new.append(old[level] if keeps else (best, random.randint(1, 900)))
        best = new[-1][0]
    for level in range(max(len(old), len(new))):
        was, now = (part[level] if level < len(part) else (None, None) for part in (old, new))
        if was != now:
            rows += ladder(at, [now], side=side, market=market, fixture_id=fixture_id, first=level)
    depth[key] = new
    return rows


def _once(ladders):
    """Keep the last of several rows of one level at one time, as a layer does."""
    last = {tuple(row[name] for name in ("fixture_id", "market_key", "side", "level", "ts_ms")): row for row in ladders}
    return sorted(last.values(), key=lambda row: row["ts_ms"])


def _spans(gaps):
    found = {}
    for since, until, key in gaps:
        found.setdefault(key, []).append((since, until))
    return found


def test_both_implementations_agree_on_generated_cases():
    outcomes, crossed = dict.fromkeys(FillOutcome, 0), 0
    for seed in range(length(250, 1000)):
        ticks, ladders, orders, gaps, how = generated(seed)
        ladders = _once(ladders)

        found = take(ticks, ladders, orders, _spans(gaps), **how)
        plain = fills(ticks, ladders, orders, gaps=gaps, **how)

        for one, other in zip(found, plain, strict=True):
            assert one["outcome"] == other["outcome"], seed
            assert one["filled_cents"] == other["filled_cents"], seed
            assert Fraction(one["payout"], 1000) == other["payout"], seed
            assert one["mid_prob_bps"] == other["mid"], seed
            assert one["crossed"] == other["crossed"], seed
            outcomes[one["outcome"]] += 1
            crossed += one["crossed"]
    assert min(outcomes.values()) >= length(10, 40), outcomes
    assert crossed >= length(25, 100)


def test_taken_less_line_is_minus_the_payout_weighted_distance_from_the_line_at_the_execution():
    checked = 0
    for seed in range(300):
        ticks, ladders, orders, gaps, how = generated(seed)
        ladders = _once(ladders)
        plain = fills(ticks, ladders, orders, gaps=gaps, **how)
        for one, other in zip(take(ticks, ladders, orders, _spans(gaps), **how), plain, strict=True):
            if not one["filled_cents"] or one["mid_prob_bps"] is None:
                continue
            close, line = Fraction(4321), Fraction(one["mid_prob_bps"])
            price = Fraction(10_000 * 1000 * one["filled_cents"], one["payout"])
            profit = close / 10_000 * Fraction(one["payout"], 1000) - one["filled_cents"]
            assert close - price == profit / Fraction(one["payout"], 1000) * 10_000
            distance = sum(Fraction(part * odds) * (Fraction(10_000_000, odds) - line) for part, odds in other["parts"]) / sum(
                part * odds for part, odds in other["parts"]
            )
            assert (close - price) - (close - line) == -distance
            assert one["uncertain"] == pytest.approx(float(sum(p * (1 - Fraction(1000, o)) for p, o in other["parts"])))
            checked += 1
    assert checked > 300


def test_a_taker_without_skill_loses_half_the_spread_over_a_thousand_ladders():
    # a line without a drift, and offers at a known distance from it: the mean over ladders is minus that distance
    rng = np.random.default_rng(7)
    ticks, ladders, orders, closes, half = [], [], [], [], []
    for number in range(1, 1001):
        mid = int(rng.integers(1500, 8500))
        up, down = 10_000 - mid, mid
        close = 10_000 if rng.random() < mid / 10_000 else 0  # a martingale: the line's mean is what it closes at
        assert up + down == 10_000
        ticks += tick(0, 1000, {"a": mid, "b": 10_000 - mid}, fixture_id=number)
        price = mid + int(rng.integers(5, 200))
        odds = round(10_000_000 / price)
        ladders += ladder(0, [(odds, int(rng.integers(1000, 9000))), (odds - 50, 9000)], fixture_id=number)
        orders.append(order(number, 1000, fixture_id=number))
        closes.append(close)
        half.append(10_000_000 / odds - mid)

    found = take(ticks, ladders, orders, stake_cents=1000)

    prices = np.array([10_000_000 * one["filled_cents"] / one["payout"] for one in found])
    value = np.array(closes) - prices
    assert {one["outcome"] for one in found} == {"filled"}
    error = value.std(ddof=1) / np.sqrt(len(value))
    assert abs(value.mean() + np.mean(half)) < 3.3 * error
    against_line = np.array([one["mid_prob_bps"] for one in found]) - prices
    assert against_line == pytest.approx(-np.array(half))


def test_fills_have_their_schema():
    tape = tape_of(tick(0, 0, EVEN))
    found = taken(offers_of(tape, ladders_of([]), pl.DataFrame([order(1, 0)], schema=ORDERS)), stake_cents=1)
    assert dict(found.schema) == FILLS
