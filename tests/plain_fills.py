"""The rule ``clvlab-taking/1`` once more: row by row, in plain Python, with fractions. It shares no code with the package."""

from fractions import Fraction


def fills(ticks, ladders, orders, *, stake_cents, delay_ms=0, max_age_ms=900_000, gaps=()):
    """Return a dict per order: outcome, filled_cents, payout (cents, a fraction), mid, parts by level, crossed.

    ``ticks`` and ``ladders`` are dicts of TICKS in order of tick_seq, and of LADDERS in order of time; ``orders`` dicts of
    ORDERS in order of seq; ``gaps`` are triples of from, to and a market key or None.
    """
    used, results = {}, {}
    for order in sorted(orders, key=lambda one: (one["ts_ms"], one["seq"])):
        results[order["seq"]] = _fill(ticks, ladders, order, stake_cents, delay_ms, max_age_ms, gaps, used)
    return [results[order["seq"]] for order in orders]


def _fill(ticks, ladders, order, stake_cents, delay_ms, max_age_ms, gaps, used):
    now = order["ts_ms"] + delay_ms
    market = order["fixture_id"], order["market_key"]
    in_market = [row for row in ticks if (row["fixture_id"], row["market_key"]) == market]
    own = [row for row in in_market if row["side"] == order["side"]]
    state = None
    for row in own:
        if row["ts_ms"] <= now:
            state = row
    offered = [row for row in ladders if (row["fixture_id"], row["market_key"]) == market]
    known = [row["ts_ms"] for row in [*in_market, *offered] if row["ts_ms"] <= now]
    last = max(known, default=None)
    ladder = _ladder(offered, order["side"], now)
    found = {"filled_cents": 0, "payout": Fraction(0), "parts": [], "crossed": False, "mid": state and state["prob_bps"]}

    def no(outcome):
        return {**found, "outcome": outcome}

    if now >= order["close_ts_ms"]:
        return no("past_close")
    if state and state["in_running"]:
        return no("in_play")
    if not any(row["side"] == order["side"] for row in offered):
        return no("no_depth")
    hidden = any(since <= now and (last is None or until > last) for since, until, key in gaps if key in (None, market[1]))
    if state is None or now - last > max_age_ms or hidden:
        return no("unknown")
    if state["suspended"]:
        return no("suspended")
    if not ladder:
        return no("no_offer")
    limit = order["limit_odds_milli"] or 0
    if ladder[0][0] < limit:
        return no("limit")
    changed = max(row["ts_ms"] for row in offered if row["side"] == order["side"] and row["ts_ms"] <= now)
    left = used.setdefault((order["agent_id"], *market, order["side"], changed), [size for _, size in ladder])
    wanted = stake_cents
    for number, (odds, _) in enumerate(ladder):
        if odds < limit or not wanted:
            break
        part = min(wanted, left[number])
        left[number] -= part
        wanted -= part
        if part:
            found["parts"].append((part, odds))
    found["filled_cents"] = stake_cents - wanted
    found["payout"] = sum((Fraction(part * odds, 1000) for part, odds in found["parts"]), Fraction(0))
    if not found["filled_cents"]:
        return no("taken")
    best = [_ladder(offered, side, now)[:1] for side in sorted({row["side"] for row in in_market})]
    if all(best):
        found["crossed"] = sum(Fraction(1000, odds) for ((odds, _),) in best) < 1
    return no("partly_filled" if wanted else "filled")


def _ladder(offered, side, now):
    """Return the levels of a side at a time as (odds, size), best first."""
    levels = {}
    for row in offered:
        if row["side"] == side and row["ts_ms"] <= now:
            levels[row["level"]] = (row["odds_milli"], row["stake_cents"])
    return [levels[level] for level in sorted(levels) if levels[level][0] is not None]
