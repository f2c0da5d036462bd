"""Seeded runs, and forgeries of them by somebody who knows the format and hashes everything again."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from random import Random
from typing import Any

from clvlab.engine.run import run
from clvlab.errors import EvidenceError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import ClosingPolicy
from clvlab.law.tape import Tape
from clvlab.proof import clv_verify
from clvlab.proof.canonical import canonical, sha256
from clvlab.proof.events import receipt_lines
from clvlab.proof.merkle import root_of_lines
from clvlab.proof.seal import SealedRun
from tests.factories import FailingAgent, make_agent, make_decisions, make_tape, message

__all__ = ["ODD", "at_place", "flipped", "forged", "honest", "places", "resealed"]

MARKETS = {"1X2||": ("draw", "part1", "part2"), "OU|line=2.5": ("over", "under"), 'é|"q"|': ("ja\n", "nein")}
Events = list[dict[str, Any]]
BROKEN = (AttributeError, IndexError, KeyError, TypeError, ValueError)


def honest(rng: Random) -> tuple[SealedRun, bytes]:
    """A run of up to three agents over a small random tape, and its receipts."""
    tape = _tape(rng)
    ticks = sorted(set(tape.messages.select("fixture_id", "tick_seq").iter_rows()))
    rule = rng.choice(["pre_match", "pre_match", "fixed_duration", "manual_stop"])
    window = Window(
        end_rule=rule,
        duration_s=rng.choice([1, 60, 300, 10_000]) if rule == "fixed_duration" else None,
        min_clv_horizon_s=rng.choice([0, 60]),
        market_allowlist=rng.choice([("",), ("",), ("1X2",), ("OU|", "é"), ()]),
    )
    policy = PolicyEnvelope(
        max_orders=rng.choice([None, 2]), cooldown_s=rng.choice([0, 60]), require_quote=rng.random() < 0.5,
        max_exposure_per_market=rng.choice([None, 250]), min_edge_bps=rng.choice([None, -500]),
    )  # fmt: skip
    agents = [make_agent(_decisions(rng, ticks), name) for name in rng.choice([["a"], ["a", "b"], ["a", "é"]])]
    failing = [FailingAgent()] if rng.random() < 0.4 else []
    result = run(tape, [*agents, *failing], window, policy=policy)
    sealed, receipts = result.sealed, receipt_lines(result.receipts)
    if rng.random() < 0.4:
        sealed = _lived(result.sealed)
        receipts = receipts.replace(result.sealed.run_id.encode(), sealed.run_id.encode())
    return sealed, receipts


def _lived(sealed: SealedRun) -> SealedRun:
    """The same run as if it had been decided live."""
    events = [json.loads(line) for line in sealed.events.splitlines()]
    _as_live(events)
    return resealed(events, sealed, judged=True)


def _as_live(events: Events) -> None:
    started = events[0]["payload"]
    started |= {"source_mode": "live", "mode_label": "Live paper", "origin_id": "live_1"}
    started["binding"] |= {"pack_id": None, "content_hash": None}
    for agent in started["agents"]:
        agent["causality"] = "live"
    events[-1]["payload"]["content_hash"] = "sha256:" + "d" * 64


def _tape(rng: Random) -> Tape:
    messages, kickoffs = [], {}
    for fixture_id in rng.sample([-3, 1, 17], rng.randint(1, 3)):
        ts_s = rng.choice([0, 1_700_000_000])
        start, playing_from = ts_s, rng.choice([99, 99, rng.randint(0, 12)])
        for seq in range(rng.randint(1, 12)):
            ts_s += rng.choice([0, 1, 30, 60, 300, 301])
            market = rng.choice(sorted(MARKETS))
            silent = rng.random() < 0.3
            quotes = {side: (None, None) if silent else _quote(rng) for side in MARKETS[market]}
            playing = seq >= playing_from
            messages.append(message(seq, ts_s, quotes, market_key=market, fixture_id=fixture_id, in_running=playing))
        kickoffs[fixture_id] = rng.choice([None, start, (start + ts_s) // 2, ts_s, ts_s + 1, ts_s + 400])
    return make_tape(messages, kickoffs, rng.choice(list(ClosingPolicy)))


def _quote(rng: Random) -> tuple[int | None, int | None]:
    return rng.choice([None, 0, 10_000, *(rng.randint(1, 9_999) for _ in range(6))]), rng.choice([None, 1001, 2000, 3300])


def _decisions(rng: Random, ticks: list[tuple[int, int]]) -> Any:
    rows = {}
    for _ in range(rng.randint(0, 10)):
        fixture_id, tick_seq = rng.choice(ticks)
        market = rng.choice([*MARKETS, *MARKETS, "absent|", None])
        side = rng.choice([*MARKETS.get(market, ()), None, "nobody"])
        row = {"fixture_id": fixture_id, "tick_seq": tick_seq, "market_key": market, "side": side}
        row |= {"stake": rng.choice([None, 0, 100, 20_000]), "limit_odds_milli": rng.choice([None, 2100])}
        row |= {"confidence": rng.choice([None, 0.5, 7.5]), "reason": rng.choice([None, "why\n"])}
        if rng.random() < 0.2:
            row |= {"action": "WAIT", "market_key": None, "side": None}
        rows[fixture_id, tick_seq, row["market_key"], row["side"], row.get("action")] = row
    return make_decisions(*rows.values())


# What stands in one line can be replaced by what stands in another, or by what is odd.

ODD = [
    None, True, False, 0, 1, -1, 2, 59, 10_000, 10_001, 2**31 - 1, 2**31, 2**53 - 1, 2**53, 2**64, 1.5, "", "x", "é", "\ud800",
    "BACK", "WAIT", [], {},
]  # fmt: skip


def forged(rng: Random, sealed: SealedRun) -> SealedRun:
    """Change a run here and there, and make of it what an operator can: hashes, order, counts, ids, verdicts, scores."""
    events = [json.loads(line) for line in sealed.events.splitlines()]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        with suppress(*BROKEN):  # what an earlier change left may have nothing to change
            rng.choice(CHANGES)(rng, events)
    if rng.random() < 0.9:
        _in_order(rng, events)
    try:
        return resealed(events, sealed, judged=rng.random() < 0.9)
    except (clv_verify.BrokenError, EvidenceError, *BROKEN):  # then as it stands
        return resealed(events, sealed, judged=False)


def _decided(events: Events) -> Events:
    return [event["payload"] for event in events if event["kind"] == "DECISION"]


def _closed(events: Events) -> Events:
    return [event["payload"] for event in events if event["kind"] == "MARKET_CLOSE"]


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at]
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            found += places(item, (*at, key))
    return found


def at_place(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def _anything(rng: Random, events: Events) -> None:
    event = rng.choice(events)
    place = rng.choice(places(event)[1:])
    inside, key = at_place(event, place[:-1]), place[-1]
    if rng.random() < 0.1 and isinstance(inside, dict):
        del inside[key]
    elif rng.random() < 0.1 and isinstance(inside, list):
        rng.choice([lambda: inside.pop(key), lambda: inside.insert(key, deepcopy(inside[key])), inside.reverse])()
    elif type(inside[key]) is int and rng.random() < 0.6:
        inside[key] += rng.choice([-1000, -60_000, -1, 1, 1000, 60_000])
    else:
        inside[key] = deepcopy(rng.choice(ODD))


def _from_elsewhere(rng: Random, events: Events) -> None:
    """Put what stands in one line into another of its kind."""
    event = rng.choice(events)
    others = [other for other in events if other["kind"] == event["kind"]]
    place = rng.choice(places(event["payload"])[1:])
    at_place(event["payload"], place[:-1])[place[-1]] = deepcopy(at_place(rng.choice(others)["payload"], place))


def _drop(rng: Random, events: Events) -> None:
    events.pop(rng.randrange(1, len(events)))


def _repeat(rng: Random, events: Events) -> None:
    at = rng.randrange(len(events))
    events.insert(at, deepcopy(events[at]))


def _swap(rng: Random, events: Events) -> None:
    a, b = (rng.randrange(len(events)) for _ in range(2))
    events[a], events[b] = events[b], events[a]


def _another_time(rng: Random, events: Events) -> None:
    """Move one decision, or all of a tick, in time; its state stays where it was, and grows older."""
    decisions = _decided(events)
    chosen, delta = rng.choice(decisions), rng.choice([-60_000, -1, 1, 1000, 400_000])
    tick, alone = (chosen["fixture_id"], chosen["tick_seq"]), rng.random() < 0.5
    for decision in decisions:
        if decision is chosen or (not alone and (decision["fixture_id"], decision["tick_seq"]) == tick):
            decision["ts_ms"] += delta
            if decision["market_state"]:
                decision["market_state"]["age_ms"] += delta


def _another_tick(rng: Random, events: Events) -> None:
    rng.choice(_decided(events))["tick_seq"] += rng.choice([-2, -1, 1, 2, 9])


def _states(events: Events) -> list[tuple[dict[str, Any], str]]:
    """Every state with what holds it."""
    held = [(decision, "market_state") for decision in _decided(events)] + [(close, "closing") for close in _closed(events)]
    return [(line, name) for line, name in held if line[name]]


def _another_state(rng: Random, events: Events) -> None:
    """Make one state another message: of another tick, another price, suspended, with other sides, or not there at all."""
    line, name = rng.choice(_states(events))
    state = line[name]
    side = rng.choice(state["sides"])
    rng.choice([
        lambda: line.update({name: None}),
        lambda: state.update(tick_seq=state["tick_seq"] + rng.choice([-1, 1, 2])),
        lambda: side.update(prob_bps=rng.choice([None, 1, 5000])),
        lambda: side.update(odds_milli=rng.choice([None, 1500])),
        lambda: side.update(side="aaa"),
        lambda: state.update(suspended=True, sides=[other | {"prob_bps": None} for other in state["sides"]]),
        lambda: state.update(suspended=not state["suspended"]),
        lambda: state["sides"].pop(),
        lambda: _moved(line, name, rng.choice([-1, 1, 1000])),
    ])()  # fmt: skip


def _moved(line: dict[str, Any], name: str, delta: int) -> None:
    line[name]["ts_ms"] += delta
    if "age_ms" in line[name]:
        line[name]["age_ms"] -= delta


def _state_of_another(rng: Random, events: Events) -> None:
    """Show the state of one line in another, as old as it then is."""
    (line, name), (other, own) = (rng.choice(_states(events)) for _ in range(2))
    state = {key: value for key, value in deepcopy(other[own]).items() if key != "age_ms"}
    line[name] = state | ({"age_ms": line["ts_ms"] - state["ts_ms"]} if name == "market_state" else {})


def _another_end(rng: Random, events: Events) -> None:
    """End the window of a fixture elsewhere, for all of its markets."""
    closes = _closed(events)
    chosen = rng.choice(closes)["fixture_id"]
    name, delta = rng.choice([("end_seq", rng.choice([-1, 1, 3])), ("close_ts_ms", rng.choice([-60_000, -1, 1, 60_000]))])
    for close in closes:
        if close["fixture_id"] == chosen:
            close[name] += delta


def _failure(rng: Random, events: Events) -> None:
    """Let an agent fail, perhaps one that decided or that failed already."""
    agents = [agent["agent_id"] for agent in events[0]["payload"]["agents"]]
    payload = {"agent_id": rng.choice([*agents, "nobody"]), "error": "ValueError", "fixture_id": None, "tick_seq": None}
    events.insert(-1, {"kind": "AGENT_ERROR", "payload": payload, "seq": 0})


def _another_policy(rng: Random, events: Events) -> None:
    window = events[0]["payload"]["window"]
    window["closing_policy"] = rng.choice(["last_state", "last_open"])


def _another_mode(rng: Random, events: Events) -> None:
    """Say live of a replay or the other way round: everywhere, or in some places only."""
    live = [events[0], events[-1]] if rng.random() < 0.3 else deepcopy([events[0], events[-1]])
    _as_live(live)
    started, sealed = events[0]["payload"], events[-1]["payload"]
    rng.choice([
        lambda: started.update({name: live[0]["payload"][name] for name in rng.sample(("source_mode", "mode_label"), 1)}),
        lambda: started.update(source_mode="replay", mode_label="Backtest"),
        lambda: started.update(binding=live[0]["payload"]["binding"]),
        lambda: started.update(binding=started["binding"] | {"pack_id": "starter"}),
        lambda: rng.choice(started["agents"]).update(causality=rng.choice(["live", "template", "unchecked", "Live"])),
        lambda: sealed.update(content_hash=rng.choice([*ODD, "sha256:" + "d" * 64])),
        lambda: sealed.pop("content_hash", None),
    ])()  # fmt: skip


CHANGES: list[Callable[[Random, Events], None]] = [
    _another_mode, _another_mode, _anything, _anything, _from_elsewhere, _drop, _repeat, _swap, _another_time, _another_tick,
    _another_state, _another_state, _state_of_another, _another_end, _failure, _another_policy,
]  # fmt: skip


def _in_order(rng: Random, events: Events) -> None:
    """Sort, number and count the lines, and close every market that is named, as far as they still have what that needs."""
    kinds = ["RUN_STARTED", "DECISION", "AGENT_ERROR", "MARKET_CLOSE", "RUN_SEALED"]
    try:
        events.sort(key=lambda event: (kinds.index(event["kind"]), _key(event)))
        if rng.random() < 0.7:
            named = {
                (line["fixture_id"], line["action"]["market_key"])
                for line in _decided(events)
                if line["action"]["type"] == "BACK" and line["action"]["market_key"] is not None
            }
            events[:] = [
                event
                for event in events
                if event["kind"] != "MARKET_CLOSE" or (event["payload"]["fixture_id"], event["payload"]["market_key"]) in named
            ]
    except BROKEN:  # something that has no order
        return
    for seq, event in enumerate(events):
        event["seq"] = seq
    found, sealed = [event["kind"] for event in events], events[-1]["payload"]
    events[-1]["payload"] = {
        f"{name}s".lower(): found.count(name.upper()) for name in ("agent_error", "decision", "market_close")
    } | ({"content_hash": sealed["content_hash"]} if isinstance(sealed, dict) and "content_hash" in sealed else {})


def _key(event: dict[str, Any]) -> tuple[Any, ...]:
    payload = event["payload"]
    if event["kind"] == "DECISION":
        action = payload["action"]
        names = [part for name in (action["market_key"], action["side"]) for part in (name is not None, name or "")]
        return (payload["ts_ms"], payload["fixture_id"], payload["tick_seq"], payload["agent_id"], *names, action["type"])
    if event["kind"] == "MARKET_CLOSE":
        return (payload["fixture_id"], payload["market_key"])
    return (payload["agent_id"],) if event["kind"] == "AGENT_ERROR" else ()


def resealed(events: Events, sealed: SealedRun, *, judged: bool) -> SealedRun:
    """Seal lines: with ids, verdicts and scores that follow from them if ``judged``, else with hashes only."""
    scores, run_id = sealed.scores, sealed.run_id
    bound = json.loads(sealed.manifest)
    if judged:
        started = events[0]["payload"]
        for agent in started["agents"]:
            named = {"schema": "clvlab-agent-config/1"} | {
                key: agent[key] for key in ("strategy", "strategy_version", "config")
            }
            agent["config_hash"] = sha256(canonical(named))
        started["policy_hash"] = sha256(canonical(started["policy"]))
        run_id = started["run_id"] = "run_" + clv_verify.inputs_hash(started)[7:39]
        evidence = clv_verify.read_evidence(_text(events))
        for seq, verdict in clv_verify.verdicts(evidence):
            events[seq]["payload"]["policy"] = verdict
        evidence = clv_verify.read_evidence(_text(events))
        rows = [canonical(row) for row in clv_verify.score_rows(evidence)]
        scores = b"".join(row + b"\n" for row in rows)
        bound = clv_verify.rebuilt_manifest(_text(events), evidence, rows, bound["commit_index"])
    text = _text(events)
    bound |= {"run_id": run_id, "evidence_hash": sha256(text), "evidence_root": root_of_lines(text)}
    bound |= {"event_count": text.count(b"\n"), "score_root": root_of_lines(scores)}
    return SealedRun(run_id, text, scores, canonical(bound))


def _text(events: Events) -> bytes:
    """Write lines as canonically as they allow."""
    written = (json.dumps(event, ensure_ascii=False, separators=(",", ":"), sort_keys=True) for event in events)
    return b"".join(line.encode(errors="surrogatepass") + b"\n" for line in written)


def flipped(rng: Random, sealed: SealedRun) -> SealedRun:
    """Change bytes of the evidence, and hash it again."""
    text = bytearray(sealed.events)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(text))
        rng.choice([
            lambda at=at: text.__setitem__(at, text[at] ^ 1 << rng.randrange(8)),
            lambda at=at: text.__setitem__(at, rng.choice(b'0123456789-.eE"\\{}[],:\x00\xc3\xff')),
            lambda at=at: text.insert(at, rng.choice(b'0 "\n\\,{')),
            lambda at=at: text.__delitem__(slice(at, at + rng.choice([1, 1, 8]))),
        ])()  # fmt: skip
    events, bound = bytes(text), json.loads(sealed.manifest)
    bound |= {"evidence_hash": sha256(events), "evidence_root": root_of_lines(events), "event_count": events.count(b"\n")}
    return SealedRun(sealed.run_id, events, sealed.scores, canonical(bound))
