"""What markets, reasons and tiers are called where people read them; the keys stay beside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from re import fullmatch

from clvlab.answers.runs import Metrics
from clvlab.law.schema import Reason

_TYPES = {
    "1X2_PARTICIPANT_RESULT": "Match result",
    "OVERUNDER_PARTICIPANT_GOALS": "Over/Under {line} goals",
    "ASIANHANDICAP_PARTICIPANT_GOALS": "Asian handicap {line}",
}
_HALVES = {"half=1": "first half", "half=2": "second half"}

REASONS: Mapping[str, str] = {
    Reason.WAIT_UNSCORED: "the agent waited",
    Reason.MARKET_KEY_MISSING: "no market was named",
    Reason.SIDE_MISSING: "no side was named",
    Reason.MARKET_NOT_ALLOWED: "the window does not allow the market",
    Reason.OUTSIDE_WINDOW: "decided outside of the window",
    Reason.ENTRY_MARKET_ABSENT: "the market had no price yet",
    Reason.ENTRY_SUSPENDED: "the market was suspended at the entry",
    Reason.ENTRY_SIDE_MISSING: "the side had no price at the entry",
    Reason.CLOSING_MARKET_ABSENT: "the market has no close",
    Reason.CLOSING_SUSPENDED: "the market was suspended at the close",
    Reason.CLOSING_STALE: "the closing price is too old",
    Reason.CLOSING_SIDE_MISSING: "the side has no price at the close",
    Reason.PENDING_HORIZON: "decided too close to the close",
    Reason.SCORED: "scored",
}
"""Why a decision is scored or not, in words."""


def market_name(market_key: str) -> str:
    """Return what people call a market; a key of another form stays as it is.

    Examples
    --------
    >>> market_name("OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5")
    'Over/Under 1.5 goals, first half'
    >>> market_name("1X2_PARTICIPANT_RESULT||"), market_name("ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.5"), market_name("h2h")
    ('Match result', 'Asian handicap -0.5', 'h2h')
    """
    kind, period, parameters = (*market_key.split("|"), "", "")[:3]
    known = _TYPES.get(kind)
    line = fullmatch(r"line=([+-]?[0-9.]+)", parameters)
    if known is None or market_key.count("|") > 2 or (period and period not in _HALVES) or bool(line) != ("{line}" in known):
        return market_key
    named = known.format(line=line[1]) if line else known
    return f"{named}, {_HALVES[period]}" if period else named


def market_names(market_keys: Iterable[str]) -> dict[str, str]:
    """Return a name for each key; where several keys would have one name they keep their keys.

    Examples
    --------
    >>> market_names(["1X2_PARTICIPANT_RESULT||", "1X2_PARTICIPANT_RESULT", "h2h"])["1X2_PARTICIPANT_RESULT"]
    '1X2_PARTICIPANT_RESULT'
    """
    named = {key: market_name(key) for key in market_keys}
    taken = list(named.values())
    return {key: name if taken.count(name) == 1 else key for key, name in named.items()}


def sample_tier(metrics: Metrics) -> str:
    """Return how large the sample is, as the law grades it: no word on the mean.

    Examples
    --------
    >>> import clvlab as cl
    >>> sample_tier(cl.backtest("starter", "cumulative-drift").report["metrics"])
    'sample: medium (129 decisions)'
    """
    return f"sample: {metrics['clv_confidence']} ({metrics['valid_count']:,} decisions)"
