"""One decision as HTML: what was known, what was proposed, what the law says and why, and, fenced off, what is only claimed."""

from __future__ import annotations

from clvlab.api.runs import AgentAction, InspectorRecord, MarketState, PolicyVerdict, UntrustedMetadata
from clvlab.drawing import html
from clvlab.lab.explorer.figure import clock
from clvlab.law.schema import Action, Reason
from clvlab.runs.inspector import quote_of
from clvlab.words import REASON_RULES, amount, odds, percent, seconds


def reasoning(record: InspectorRecord) -> str:
    """Say how the law comes to its result: the first rule that failed, or the sums behind CLV and edge."""
    law = record["recompute"]
    if law["reason"] != Reason.SCORED:
        return REASON_RULES[law["reason"]]
    entry, close = law["entry_prob_bps"], law["close_prob_bps"]
    quote = quote_of(record)
    edge = law["recomputed_edge_bps"]
    said = f"CLV = close {close:,} - entry {entry:,} = {law['clv_bps']:+,} bps of probability."
    if edge is None:
        return said
    at = f"the price {odds(quote)}" if quote is not None else f"the fair price of {entry:,} bps"
    return f"{said} Edge = close {close:,} bps at {at}: {amount(edge)} of the stake, which ranks nothing."


def record_html(seq: int, record: InspectorRecord, *, known: bool = True) -> str:
    """Show an inspector record.

    Parameters
    ----------
    seq, record
        Number of the event, and what ``Run.decision`` gives for it.
    known
        Whether the close has come; if not, everything that depends on it stays hidden.
    """
    action, policy = record["agent_action"], record["policy"]
    proposed = {
        "time (UTC)": clock(record["ts_ms"]),
        "fixture, tick": f"{record['fixture_id']}, {record['tick_seq']:,}",
        "stake": action["stake"],
        "limit, decimal odds": odds(action["limit_odds_milli"]),
    }
    return html.block(
        f"Decision {seq:,} of {record['agent_id']}",
        _headline(record, known=known),
        html.section("The law", *_law(record, known=known)),
        html.section("Known at entry", _state(record["market_state"], action["side"])),
        html.details(f"Proposed: stake {action['stake'] or 'none'}", html.section("", html.facts(proposed))),
        html.details(f"Policy gate: {_gate(policy)}", html.section("", _policy(policy))),
        html.fence("Claimed by the agent: recorded, never scored", _claims(record["untrusted_llm_metadata"])),
    )


def _headline(record: InspectorRecord, *, known: bool) -> str:
    """Say what was done and, once that is known, what the law gives for it."""
    done, clv = _action(record["agent_action"]), record["recompute"]["clv_bps"]
    if not known or clv is None:
        return f"<p><strong>{html.escape(done)}</strong></p>"
    tone = "beats" if clv > 0 else "loses" if clv < 0 else "unclear"
    return html.verdict(f"{done}: CLV {amount(clv)}", tone)


def _gate(policy: PolicyVerdict | None) -> str:
    if policy is None:
        return "nothing asked for"
    return "allowed" if all(phase["allowed"] for phase in (policy["pre"], policy["post"])) else "refused"


def _action(action: AgentAction) -> str:
    if action["type"] == Action.WAIT:
        return "WAIT"
    return f"BACK {action['side'] or 'no side'} in {action['market_key'] or 'no market'}"


def _law(record: InspectorRecord, *, known: bool) -> list[str]:
    law = record["recompute"]
    if not known:
        return ['<p class="quiet">The replay has not come to the close: CLV and verdict are hidden.</p>']
    age = law["closing_age_ms"]
    facts = {
        "reason": law["reason"],
        "entry, close": f"{percent(law['entry_prob_bps']) or 'none'}, {percent(law['close_prob_bps']) or 'none'}",
        "closed by": law["close_kind"] if age is None else f"{law['close_kind']}, {seconds(age / 1000)} after the last message",
    }
    return [f"<p>{html.escape(reasoning(record))}</p>", html.facts(facts)]


def _state(state: MarketState | None, chosen: str | None) -> str:
    if state is None:
        return '<p class="quiet">No market state.</p>'
    note = (
        "suspended" if state["suspended"] else f"message at tick {state['tick_seq']:,}, {seconds(state['age_ms'] / 1000)} old"
    )
    rows = [
        (
            f"{own['side']} (chosen)" if own["side"] == chosen else own["side"],
            percent(own["prob_bps"]),
            odds(own["odds_milli"]),
        )
        for own in state["sides"]
    ]
    return f'<p class="quiet">{html.escape(note)}</p>' + html.table(["side", "probability", "decimal odds"], rows)


def _policy(policy: PolicyVerdict | None) -> str:
    if policy is None:
        return '<p class="quiet">A WAIT asks for nothing.</p>'
    rows = [
        (name, "allowed" if phase["allowed"] else "refused", ", ".join(phase["reasons"]))
        for phase, name in ((policy["pre"], "before the quote"), (policy["post"], "after the quote"))
    ]
    return html.table(["phase", "verdict", "reasons"], rows)


def _claims(claims: UntrustedMetadata) -> str:
    edge = claims["claimed_edge_bps"]
    shown = {"reason": claims["reason"], "confidence": claims["confidence"]}
    return html.facts(shown | {"claimed edge": None if edge is None else amount(edge)})
