"""One decision as HTML: the market, the proposal, the score with its reason, and unverified claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from clvlab.api.runs import AgentAction, InspectorRecord, PolicyVerdict, UntrustedMetadata
from clvlab.errors import MissingLibraryError
from clvlab.law.schema import Action, Reason
from clvlab.report import axes as drawing
from clvlab.report.explorer.figure import CLOCK, LATEST_MS, SYMBOLS, clock, side_colour
from clvlab.report.explorer.view import MarketView, MarkOutcome
from clvlab.report.html import Html, card, time_element
from clvlab.runs.inspector import quote_of
from clvlab.statistics.verdict import Tone
from clvlab.words import REASON_RULES, REASONS, amount, market_name, odds, percent, seconds, side_name


def reasoning(record: InspectorRecord) -> str:
    """Return how the law scores: the first failed rule, or the sums of CLV and edge."""
    law = record["recompute"]
    if law["reason"] != Reason.SCORED:
        return REASON_RULES[law["reason"]]
    entry, close = law["entry_prob_bps"], law["close_prob_bps"]
    quote = quote_of(record)
    edge = law["recomputed_edge_bps"]
    sums = f"CLV = close {close:,} - entry {entry:,} = {law['clv_bps']:+,} bps of probability."
    if edge is None:
        return sums
    at = f"the price {odds(quote)}" if quote is not None else f"the fair price of {entry:,} bps"
    return f"{sums} Edge = close {close:,} bps at {at}: {amount(edge)} of the stake, not used for ranking."


def record_card(seq: int, record: InspectorRecord, *, known: bool = True, teams: Sequence[str] = ()) -> Html:
    """Show an inspector record with the names of its fixture's teams; hide what depends on the close until it is ``known``."""
    action, state = record["agent_action"], record["market_state"]
    key = action["market_key"] or ""
    return card(
        "record.html",
        f"Decision {seq:,} of {record['agent_id']}",
        known=known,
        done=_action(action, teams),
        tone=_tone(record, known=known),
        clv_bps=record["recompute"]["clv_bps"],
        reasoning=reasoning(record),
        law=_law(record),
        state=state,
        sides=[(side_name(key, own["side"], teams), own) for own in state["sides"]] if state else [],
        age=None if state is None or state["suspended"] else seconds(state["age_ms"] / 1000),
        chosen=action["side"],
        stake=action["stake"] or "none",
        proposed={
            "time": time_element(record["ts_ms"], f"{clock(record['ts_ms'])} UTC"),
            "stake": action["stake"],
            "limit, decimal odds": odds(action["limit_odds_milli"]),
        },
        raw={
            "fixture": str(record["fixture_id"]),
            "price update": f"tick {record['tick_seq']:,}",
            "action": action["type"],
            "market": action["market_key"],
            "side": action["side"],
            "reason": record["recompute"]["reason"] if known else "not known yet",
        },
        gate=_gate(record["policy"]),
        policy=record["policy"],
        claims=_claims(record["untrusted_llm_metadata"]),
    )


def _tone(record: InspectorRecord, *, known: bool) -> Tone | None:
    """Return the tone of a score; ``None`` if the score is not yet known or does not exist."""
    clv = record["recompute"]["clv_bps"]
    if not known or clv is None:
        return None
    return Tone.BEATS if clv > 0 else Tone.LOSES if clv < 0 else Tone.UNCLEAR


def _gate(policy: PolicyVerdict | None) -> str:
    if policy is None:
        return "no bet proposed"
    return "allowed" if all(phase["allowed"] for phase in (policy["pre"], policy["post"])) else "refused"


def _action(action: AgentAction, teams: Sequence[str]) -> str:
    if action["type"] == Action.WAIT:
        return "No bet"
    key, side = action["market_key"], action["side"]
    return f"Bet on {side_name(key or '', side, teams) if side else 'no side'}, {market_name(key) if key else 'no market'}"


def _law(record: InspectorRecord) -> dict[str, object]:
    law = record["recompute"]
    age, kind = law["closing_age_ms"], (law["close_kind"] or "none").replace("_", " ")
    return {
        "scored": REASONS[law["reason"]],
        "entry, close": f"{percent(law['entry_prob_bps']) or 'none'}, {percent(law['close_prob_bps']) or 'none'}",
        "closed by": kind if age is None else f"{kind}, {seconds(age / 1000)} after the last price update",
    }


def _claims(claims: UntrustedMetadata) -> Mapping[str, object]:
    edge = claims["claimed_edge_bps"]
    values = {"reason": claims["reason"], "confidence": claims["confidence"]}
    return values | {"claimed edge": None if edge is None else amount(edge)}


# The explorer without a widget: a picture of the market and a table of its decisions.


_MAX_ROWS = 12
STILL = (8.4, 3.6)  # inches


def market_card(names: str, line: str, view: MarketView) -> Html:
    """Show a view: a sentence, the picture, the first decisions."""
    rows = view.decided.head(_MAX_ROWS).with_columns(at=CLOCK)
    try:
        picture, missing = drawing.svg(lambda ax: draw(view, ax), f"line of {view.market}", STILL), ""
    except MissingLibraryError as error:
        picture, missing = None, str(error)
    return card(
        "market.html",
        f"{names}: {view.market}",
        line=line,
        picture=picture,
        missing=missing,
        decisions=[
            (seq, time_element(row["ts_ms"], row["at"]), view.side(row["side"]), percent(row["prob_bps"]), clv, row["outcome"])
            for row in rows.iter_rows(named=True)
            for seq, clv in [(str(row["seq"]), _clv(row["clv_bps"]))]
        ],
        height=view.decided.height,
    )


def _clv(clv_bps: int | None) -> str:
    return "" if clv_bps is None else amount(clv_bps)


def draw(view: MarketView, ax: Any) -> None:
    """Draw a view on axes of matplotlib."""
    for number, side in enumerate(view.sides):
        line = view.lines.filter(pl.col("side") == side)
        probs = (line["prob_bps"] / 100).to_numpy()
        label = _plain(view.side(side))
        ax.step(_times(line["ts_ms"]), probs, where="post", color=side_colour(number), linewidth=1.2, label=label)
    for start, end in zip(*(_times(view.suspensions[name]) for name in ("from_ts_ms", "to_ts_ms")), strict=True):
        ax.axvspan(start, end, color=drawing.GREY, alpha=0.2, linewidth=0)
    if view.close:
        ax.axvline(_times(pl.Series([view.close.ts_ms]))[0], color=drawing.GREY, linestyle="--", linewidth=1, label="close")
    for outcome in MarkOutcome:
        marks = view.marks.filter(pl.col("outcome") == outcome)
        if marks.height:
            colour, _, marker = SYMBOLS[outcome]
            ax.scatter(
                _times(marks["ts_ms"]),
                (marks["prob_bps"] / 100).to_numpy(),
                color=colour,
                marker=marker,
                s=26,
                zorder=3,
                label=outcome.value,
            )
    start, end = _times(pl.Series(view.span_ms))
    if start < end:
        ax.set_xlim(start, end)
    now = f" (replay at {clock(view.now_ms)})" if view.now_ms is not None else ""
    ax.set(xlabel=f"time, UTC{now}", ylabel="consensus probability, %")
    if view.sides or view.marks.height:
        ax.legend(ncols=6, loc="lower left", bbox_to_anchor=(0, 1))


def _times(ts_ms: pl.Series) -> np.ndarray:
    return ts_ms.clip(None, LATEST_MS).to_numpy().astype("datetime64[ms]")


def _plain(text: str) -> str:
    """Escape a name for matplotlib, which reads mathematics and hides leading underscores."""
    return drawing.SHIELD + text.replace("$", r"\$")
