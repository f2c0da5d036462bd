"""What markets, reasons and tiers are called where people read them; the keys stay beside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from clvlab.answers.runs import Metrics
from clvlab.law.markets import Market, UnreadKey, key_parts, named_market
from clvlab.law.schema import Reason

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
    """Return what people call a market; a key that is not read stays as it is.

    Examples
    --------
    >>> market_name("OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5"), market_name("totals_h1||point=1.5")
    ('Over/Under 1.5 goals, first half', 'Over/Under 1.5, first half')
    >>> market_name("1X2_PARTICIPANT_RESULT||"), market_name("ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.5"), market_name("cards")
    ('Match result', 'Asian handicap -0.5', 'cards')
    """
    read = _read(market_key)
    return market_key if read is None else named_market(read)


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


def kinds_of(market_keys: Iterable[str]) -> dict[str, str]:
    """Return the kind of each market, whatever its line: its type as the source writes it, or words where several mean one.

    Examples
    --------
    >>> kinds_of(["totals||point=2.5", "alternate_totals||point=3", "h2h||", "corners||point=9.5"])["alternate_totals||point=3"]
    'total'
    >>> kinds_of(["OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5"])
    {'OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5': 'OVERUNDER_PARTICIPANT_GOALS|half=1'}
    """
    types = {key: "|".join(key_parts(key)[:2]).rstrip("|") for key in market_keys}
    words = {key: ", ".join(filter(None, (read.kind, *read.scope))) for key in types if (read := _read(key))}
    spelt: dict[str, set[str]] = defaultdict(set)
    for key, word in words.items():
        spelt[word].add(types[key])
    return {key: words[key] if key in words and len(spelt[words[key]]) > 1 else name for key, name in types.items()}


def _read(market_key: str) -> Market | None:
    read = Market.parse(market_key)
    return None if isinstance(read, UnreadKey) else read


def sample_tier(metrics: Metrics) -> str:
    """Return how large the sample is, as the law grades it: no word on the mean.

    Examples
    --------
    >>> import clvlab as cl
    >>> sample_tier(cl.backtest("starter", "cumulative-drift").report["metrics"])
    'sample: medium (129 decisions)'
    """
    return f"sample: {metrics['clv_confidence']} ({metrics['valid_count']:,} decisions)"
