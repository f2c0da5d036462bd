"""Numbers, durations, times, markets and codes in words, shared by the command line, notebooks, pages and reports.

A missing figure (``None``) stays ``None`` if it may be missing, because each caller has its own words for that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from math import log10
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # imported where it is used, so that a first backtest waits for nothing else
    from clvlab.law.markets import Market

TO_MINUTE = "%Y-%m-%d %H:%M"
TO_SECOND = f"{TO_MINUTE}:%S"
TO_DAY = "%-d %b %Y"  # as Polars reads it; ``day`` writes the same wherever Python runs
_MOST_DIGITS = 3
_UNITS_S = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def count(number: int | None) -> str | None:
    return None if number is None else f"{number:,}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun, in the plural unless it is one.

    Examples
    --------
    >>> counted(1, "fixture"), counted(6168, "decision"), counted(2, "entry", "entries")
    ('1 fixture', '6,168 decisions', '2 entries')
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def tally(counts: Mapping[str, int]) -> str:
    """Return counts by name; empty without any.

    Examples
    --------
    >>> tally({"scored": 1200, "closing_stale": 3}), tally({})
    ('scored 1,200, closing_stale 3', '')
    """
    return ", ".join(f"{name} {number:,}" for name, number in counts.items())


def named_tally(counts: Mapping[str, int], names: Mapping[str, str]) -> str:
    """Return counts by the names of their codes; empty without any.

    Examples
    --------
    >>> named_tally({"scored": 1200, "closing_stale": 3}, REASONS)
    'scored: 1,200; the closing price is too old: 3'
    """
    return "; ".join(f"{names.get(code, code)}: {number:,}" for code, number in counts.items())


def signed(number: float, digits: int = 1) -> str:
    """Return a number with its sign; zero has none, even after rounding.

    Examples
    --------
    >>> signed(1234.56), signed(-0.04)
    ('+1,234.6', '0.0')
    """
    return f"{number:+,.{digits}f}" if round(number, digits) else f"{0:.{digits}f}"


def signed_like(number: float, *others: float) -> str:
    """Return a number with its sign, rounded to the digits that the number and its neighbours justify.

    A bound other than zero is never shown as zero, up to three decimals.

    Examples
    --------
    >>> signed_like(34.2, 34.2, -6.1, 76.8), signed_like(0.04, 12.0, 0.04, 24.0), signed_like(0.0)
    ('+34', '+0.04', '0')
    """
    together = others or (number,)
    spread = (max(together) - min(together)) / 2 or abs(together[0])
    digits = 0 if spread <= 0 else min(max(1 - int(log10(spread) // 1), 0), _MOST_DIGITS)
    while digits < _MOST_DIGITS and any(one and not round(one, digits) for one in together):
        digits += 1
    return f"{number:+,.{digits}f}" if round(number, digits) else "0"


def estimate(mean: float, low: float | None, high: float | None, unit: str = "") -> str:
    """Return a mean with its unit and its interval, if any, rounded to justified digits.

    Examples
    --------
    >>> estimate(34.2, -6.1, 76.8, "bps"), estimate(15, None, None)
    ('+34 bps [-6, +77]', '+15')
    """
    behind = f" {unit}" if unit else ""
    if low is None or high is None:
        return f"{signed_like(mean)}{behind}"
    texts = [signed_like(number, mean, low, high) for number in (mean, low, high)]
    return f"{texts[0]}{behind} [{texts[1]}, {texts[2]}]"


def plus(number: float, digits: int = 0) -> str:
    """Return a number that always has a sign; zero after rounding is ``+0``.

    Examples
    --------
    >>> plus(1250.4), plus(-0.04, 1)
    ('+1,250', '+0.0')
    """
    return f"{number:+z,.{digits}f}"


def amount(number: float, unit: str = "bps", digits: int = 0) -> str:
    """Return a number that always has a sign, with its unit.

    Examples
    --------
    >>> amount(-1250), amount(-0.3), amount(12.34, "%", 1)
    ('-1,250 bps', '+0 bps', '+12.3 %')
    """
    return f"{plus(number, digits)} {unit}"


def mean_clv(mean_bps: float | None) -> str:
    """Return a mean CLV, as in the law's ranking, without an interval.

    Examples
    --------
    >>> mean_clv(-3.456), mean_clv(None)
    ('-3.46 bps of probability', 'no scored action')
    """
    return "no scored action" if mean_bps is None else f"{mean_bps:+z.2f} bps of probability"


def interval(low: float | None, high: float | None, form: str = "z.2f") -> str:
    """Return the bounds of an interval to append to its mean; empty where there are none.

    Examples
    --------
    >>> interval(-6.1, 76.8, "+.1f"), interval(None, None)
    (' [-6.1, +76.8]', '')
    """
    return "" if low is None or high is None else f" [{low:{form}}, {high:{form}}]"


def with_interval(mean: str, low: float | None, high: float | None, digits: int = 1) -> str:
    """Return a mean and its interval as spoken text for a picture.

    Examples
    --------
    >>> with_interval("+34.2", -6.1, 76.8), with_interval("+34.2", None, None)
    ('+34.2, interval -6.1 to +76.8', '+34.2, no interval')
    """
    return (
        f"{mean}, no interval"
        if low is None or high is None
        else f"{mean}, interval {plus(low, digits)} to {plus(high, digits)}"
    )


def percent(prob_bps: int | None) -> str | None:
    """Return basis points of probability as percent.

    Examples
    --------
    >>> percent(5430)
    '54.30 %'
    """
    return None if prob_bps is None else f"{prob_bps / 100:.2f} %"


def share(part: float | None) -> str | None:
    """Return a share of one as percent.

    Examples
    --------
    >>> share(0.0451), share(1.0), share(None)
    ('4.5%', '100.0%', None)
    """
    return None if part is None else f"{part:.1%}"


def odds(odds_milli: int | None) -> str | None:
    """Return decimal odds from thousandths.

    Examples
    --------
    >>> odds(1950)
    '1.950'
    """
    return None if odds_milli is None else f"{odds_milli / 1000:.3f}"


def p_value(p: float | None) -> str | None:
    """Return a p-value with two significant digits.

    Examples
    --------
    >>> p_value(0.04712), p_value(1e-05), p_value(None)
    ('0.047', '1e-05', None)
    """
    return None if p is None else f"{p:.2g}"


def short_p_value(p: float) -> str:
    """Return a p-value in short form: two decimals, or three if it is small, without the leading zero.

    Examples
    --------
    >>> short_p_value(0.19), short_p_value(0.047), short_p_value(0.0004), short_p_value(1.0)
    ('p .19', 'p .047', 'p < .001', 'p 1')
    """
    if p < 0.001:
        return "p < .001"
    if p > 0.995:
        return "p 1"
    return f"p {p:.3f}".replace("0.", ".", 1) if p < 0.0995 else f"p {p:.2f}".replace("0.", ".", 1)


def nonempty(facts: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in facts.items() if text}


def yes(value: object) -> str:
    return "yes" if value else "no"


def moment(ts_ms: int) -> str:
    """Return a time to the second; milliseconds beyond the calendar stay a number.

    Examples
    --------
    >>> moment(1_767_225_600_999), moment(10**17)
    ('2026-01-01 00:00:00 UTC', '100000000000000000 ms')
    """
    found = utc(ts_ms)
    return f"{ts_ms} ms" if found is None else f"{found:{TO_SECOND}} UTC"


def minute(ts_ms: int) -> str:
    """Return a time to the minute; only the day for midnight.

    Examples
    --------
    >>> minute(1_767_225_600_000), minute(1_767_229_259_000)
    ('2026-01-01', '2026-01-01 01:00 UTC')
    """
    found = datetime.fromtimestamp(ts_ms / 1000, UTC)
    return f"{found:%Y-%m-%d}" if ts_ms % 86_400_000 == 0 else f"{found:{TO_MINUTE}} UTC"


def clock(ts_ms: int) -> str:
    """Return a day and time of day by name, to the minute; milliseconds beyond the calendar stay a number.

    Examples
    --------
    >>> clock(1_767_387_600_000), clock(10**17)
    ('Fri 2 Jan 2026, 21:00 UTC', '100000000000000000 ms')
    """
    found = utc(ts_ms)
    return f"{ts_ms} ms" if found is None else f"{found:%a} {day(found)}, {found:%H:%M} UTC"


def local_minute(when: datetime) -> str:
    """Return a time to the minute in the time zone of this machine.

    Examples
    --------
    >>> from datetime import timedelta, timezone
    >>> here = datetime(2026, 1, 2, 9, 30).astimezone()  # as this machine reads it
    >>> local_minute(here.astimezone(timezone(timedelta(hours=5))))
    '2026-01-02 09:30'
    """
    return f"{when.astimezone():{TO_MINUTE}}"


def utc(ts_ms: int) -> datetime | None:
    """Return the time of milliseconds since 1970; ``None`` beyond the calendar."""
    try:
        return datetime.fromtimestamp(ts_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def day(when: date, *, year: bool = True) -> str:
    """Return a day, with its year or without.

    Examples
    --------
    >>> from datetime import date
    >>> day(date(2026, 1, 2)), day(date(2026, 1, 2), year=False)
    ('2 Jan 2026', '2 Jan')
    """
    return f"{when.day} {when:%b %Y}" if year else f"{when.day} {when:%b}"


def span(seconds: float) -> str:
    """Return a duration in easily read units.

    Examples
    --------
    >>> [span(seconds) for seconds in (0.4, 119, 150, 7_500, 200_000)]
    ['0 s', '119 s', '2 min', '2 h 5 min', '2 d 7 h']
    """
    whole = max(0, int(seconds))
    minutes, hours = whole // 60, whole // 3600
    if whole < 120:
        return f"{whole} s"
    if minutes < 120:
        return f"{minutes} min"
    if hours < 48:
        return f"{hours} h {minutes % 60} min"
    return f"{hours // 24} d {hours % 24} h"


def span_by_units(length_ms: int | None) -> str | None:
    """Return a duration in its two largest units.

    Examples
    --------
    >>> span_by_units(3_725_000), span_by_units(999)
    ('1 h 2 min', '0 s')
    """
    if length_ms is None:
        return None
    parts, rest = [], abs(length_ms) // 1000
    for size, unit in _UNITS_S:
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number:,} {unit}")
    return ("-" if length_ms <= -1000 else "") + (" ".join(parts[:2]) or "0 s")


def span_in_one(seconds: int) -> str:
    """Return a duration in the largest unit that fits at least twice.

    Examples
    --------
    >>> span_in_one(119), span_in_one(5_400), span_in_one(-259_200)
    ('119 s', '90.0 min', '-3.0 d')
    """
    for size, unit in _UNITS_S[:-1]:
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds} s"


class Quantiles(Protocol):
    min: int
    p05: int
    median: int
    p95: int
    max: int


def spread(found: Quantiles | None, word: Callable[[int], str], what: str = "") -> str:
    """Return the distribution of a quantity in words: its median, the range of most values, and its extremes.

    Examples
    --------
    >>> spread(None, span_in_one)
    'none'
    """
    if found is None:
        return "none"
    least, low, median, high, most = (word(of) for of in (found.min, found.p05, found.median, found.p95, found.max))
    return f"median {median}{what} (5-95 %: {low} to {high}; {least} to {most})"


def seconds(length_s: float) -> str:
    """Return a duration in whole seconds.

    Examples
    --------
    >>> seconds(59.5), seconds(3600)
    ('60 s', '3,600 s')
    """
    return f"{length_s:,.0f} s"


def close_facts(report: Mapping[str, Any], no_age: str = "none") -> dict[str, str]:
    """Return a report's facts about its closes by name: kinds, ages, source and gaps; ``no_age`` if no market closed."""
    age = report["closing_age_ms"]
    ages = (
        f"median {seconds(age['median'] / 1000)}, at most {seconds(age['max'] / 1000)}" if age["median"] is not None else no_age
    )
    origin = f"{report['provenance']}, origin {report.get('grade', 'not shown')}"
    facts = {
        "decisions by close": tally(report["close_kinds"]) or "none",
        "age of the close": ages,
        "source of the close": f"{report['closing_source']} ({origin})",
    }
    facts |= {"gaps": tally(report["gaps"]) or "none"} if "gaps" in report else {}
    return facts | ({"verification": report["pack_verification"]} if "pack_verification" in report else {})


def sample(tier: str, decisions: int) -> str:
    """Return the size of a sample with the law's grade, without a word on the mean.

    Examples
    --------
    >>> sample("medium", 129)
    'medium (129 decisions)'
    """
    return f"{tier} ({counted(decisions, 'decision')})"


def market_name(market_key: str) -> str:
    """Return the common name of a market; a key that is not read stays as it is.

    Examples
    --------
    >>> market_name("OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5"), market_name("totals_h1||point=1.5")
    ('Over/Under 1.5 goals, first half', 'Over/Under 1.5, first half')
    >>> market_name("1X2_PARTICIPANT_RESULT||"), market_name("ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.5"), market_name("cards")
    ('Match result', 'Asian handicap -0.5', 'cards')
    """
    from clvlab.law.markets import named_market

    read = _read(market_key)
    return market_key if read is None else named_market(read)


def side_name(market_key: str, side: str, names: Sequence[str] = ()) -> str:
    """Return the common name of a side: the team of a fixture with two names, or its role; others stay as they are.

    Examples
    --------
    >>> side_name("1X2_PARTICIPANT_RESULT||", "part1", ("Ash", "Birch")), side_name("h2h||", "away"), side_name("h2h||", "Ash")
    ('Ash', 'away', 'Ash')
    >>> side_name("totals||point=2.5", "Over"), side_name("cards", "part1")
    ('over', 'part1')
    """
    from clvlab.law.markets import Role, role_of

    read = _read(market_key)
    role = None if read is None else role_of(side, read)
    if role is None:
        return side
    teams = {Role.HOME: 0, Role.AWAY: 1}
    return names[teams[role]] if role in teams and len(names) == 2 else role.value


def match_name(names: Sequence[str], fixture_id: int) -> str:
    """Return who plays; the number of a fixture whose names are not known.

    Examples
    --------
    >>> match_name(("Ash", "Birch"), 12), match_name((), 12)
    ('Ash – Birch', 'fixture 12')
    """
    return " – ".join(names) or f"fixture {fixture_id}"


def owner_name(owner: str | None) -> str | None:
    """Return the id of an owner; words for a run that was requested without a token.

    Examples
    --------
    >>> owner_name("did:web:ash"), owner_name("anonymous"), owner_name(None)
    ('did:web:ash', 'a visitor without a token', None)
    """
    return "a visitor without a token" if owner == "anonymous" else owner


def side_of_market(market_key: str | None, side: str | None, names: Sequence[str] = ()) -> str:
    """Return market and side of a proposal by their common names.

    Examples
    --------
    >>> side_of_market("1X2_PARTICIPANT_RESULT||", "part1"), side_of_market(None, None), side_of_market("cards", None)
    ('Match result, home', 'no market', 'cards')
    """
    if market_key is None:
        return "no market"
    return market_name(market_key) + ("" if side is None else f", {side_name(market_key, side, names)}")


def market_names(market_keys: Iterable[str]) -> dict[str, str]:
    """Return a name for each key; keys that would get the same name stay as they are.

    Examples
    --------
    >>> market_names(["1X2_PARTICIPANT_RESULT||", "1X2_PARTICIPANT_RESULT", "h2h"])["1X2_PARTICIPANT_RESULT"]
    '1X2_PARTICIPANT_RESULT'
    """
    named = {key: market_name(key) for key in market_keys}
    taken = list(named.values())
    return {key: name if taken.count(name) == 1 else key for key, name in named.items()}


def side_names(sides: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a name for each side of (market key, side); sides whose name is not their own alone stay as they are.

    Examples
    --------
    >>> side_names([("1X2_PARTICIPANT_RESULT||", "part1"), ("totals||point=2.5", "Over"), ("cards", "part2")])
    {'part1': 'home', 'Over': 'over', 'part2': 'part2'}
    """
    found: dict[str, set[str]] = defaultdict(set)
    for market_key, side in sides:
        found[side].add(side_name(market_key, side))
    named = {side: names.pop() if len(names) == 1 else side for side, names in found.items()}
    taken = list(named.values())
    return {side: name if taken.count(name) == 1 else side for side, name in named.items()}


def kinds_of(market_keys: Iterable[str]) -> dict[str, str]:
    """Return the kind of each market without its line: its source's type, or words if several types mean one kind.

    Examples
    --------
    >>> kinds_of(["totals||point=2.5", "alternate_totals||point=3", "h2h||", "corners||point=9.5"])["alternate_totals||point=3"]
    'total'
    >>> kinds_of(["OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5"])
    {'OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5': 'OVERUNDER_PARTICIPANT_GOALS|half=1'}
    """
    from clvlab.law.markets import key_parts

    types = {key: "|".join(key_parts(key)[:2]).rstrip("|") for key in market_keys}
    words = {key: ", ".join(filter(None, (read.kind, *read.scope))) for key in types if (read := _read(key))}
    spelt: dict[str, set[str]] = defaultdict(set)
    for key, word in words.items():
        spelt[word].add(types[key])
    return {key: words[key] if key in words and len(spelt[words[key]]) > 1 else name for key, name in types.items()}


def _read(market_key: str) -> Market | None:
    from clvlab.law.markets import Market, UnreadKey

    read = Market.parse(market_key)
    return None if isinstance(read, UnreadKey) else read


REASONS: Mapping[str, str] = {
    "wait_unscored": "the agent waited",
    "market_key_missing": "no market was named",
    "side_missing": "no side was named",
    "market_not_allowed": "the window does not allow the market",
    "outside_window": "decided outside of the window",
    "entry_market_absent": "the market had no price yet",
    "entry_suspended": "the market was suspended at the entry",
    "entry_side_missing": "the side had no price at the entry",
    "closing_market_absent": "the market has no close",
    "closing_suspended": "the market was suspended at the close",
    "closing_stale": "the closing price is too old",
    "closing_side_missing": "the side has no price at the close",
    "pending_horizon": "decided too close to the close",
    "scored": "scored",
}
"""Why a decision is scored or not, by the code of the law, in the form for a table."""

CLOSE_KINDS: Mapping[str, str] = {
    "in_running": "start of play",
    "kickoff": "kickoff",
    "tape_end": "end of the prices",
    "duration": "end of the duration",
    "stop": "last price",
}
"""The event that ends the window of a market, by the code of the law."""

REASON_FINDINGS: Mapping[str, str] = {
    "wait_unscored": "The agent waited. Silence is neither skill nor failure, and is not scored.",
    "market_key_missing": "It names no market.",
    "side_missing": "It names no side of its market.",
    "market_not_allowed": "Its market is not one that this run scores.",
    "outside_window": "It came after the window had ended.",
    "entry_market_absent": "The market had no price when it was made.",
    "entry_suspended": "The market was suspended when it was made, so no bet was possible.",
    "entry_side_missing": "Its side had no price when it was made.",
    "closing_market_absent": "The market has no closing state.",
    "closing_suspended": "The market was suspended at the close, so it has no closing price.",
    "closing_stale": "The closing price is older than the pack allows.",
    "closing_side_missing": "Its side has no closing price.",
    "pending_horizon": "It came too close to the close, and is not scored.",
    "scored": "Both the entry and the close are known, so the decision is scored.",
}
"""The law's finding on a decision, in a sentence."""

REASON_RULES: Mapping[str, str] = {
    "wait_unscored": "An abstention is valid and is never scored.",
    "market_key_missing": "The action names no market.",
    "side_missing": "The action names no side.",
    "market_not_allowed": "The window's allowlist has no prefix of this market.",
    "outside_window": "The decision came at or after the end of the window.",
    "entry_market_absent": "The market had not been quoted when the agent decided.",
    "entry_suspended": "The market was suspended when the agent decided.",
    "entry_side_missing": "The market had no price for this side when the agent decided.",
    "closing_market_absent": "The market has no price update inside the window.",
    "closing_suspended": "The market was suspended at the close.",
    "closing_stale": "The last price update before the close is older than the pack's limit.",
    "closing_side_missing": "The market had no price for this side at the close.",
    "pending_horizon": "The decision is nearer to the close than the horizon: valid, and not scored.",
}
"""The first rule that a decision failed, in a sentence."""

REFUSALS: Mapping[str, str] = {
    "quote_missing": "no odds were on offer",
    "quote_stale": "the odds were too old",
    "slippage_over_max": "the odds were too far below the limit",
    "edge_below_min": "the edge was below the minimum",
    "stake_over_max": "the stake was above the maximum",
    "kill_switch_on": "the kill switch was on",
    "market_not_allowed": "the market is not allowed",
    "venue_not_allowed": "the venue is not allowed",
    "warmup": "during the warm-up",
    "cooldown_active": "too soon after the last bet",
    "stake_missing": "no stake was named",
    "prob_out_of_range": "the probability is outside of the allowed range",
    "order_cap": "the number of bets was used up",
    "exposure_cap": "the stakes on the market or match were used up",
}
"""Why the policy refused a bet."""

CHECK_QUESTIONS: Mapping[str, str] = {
    "evidence_integrity": "Are the stored bytes the ones that were sealed?",
    "llm_boundary": "Is the code that scores separate from models and networks?",
    "metrics_recomputed": "Do the scores follow again from the sealed evidence alone?",
    "manifest_bound": "Does the manifest bind this run, its evidence and its scores?",
    "policy_obeyed": "Did the policy allow everything that was executed?",
    "receipt_separation": "Is the evidence free of venue receipts?",
    "anchor": "Was the manifest hash written to a public chain?",
}
"""The question of each check of a verification."""

CHECK_MEANINGS: Mapping[str, str] = {
    "evidence_integrity": "The bytes of the evidence have the hash that was sealed.",
    "llm_boundary": "Scoring code imports only an allow-list without language models; this stops accidents, not attackers.",
    "metrics_recomputed": "Every score follows from the evidence, and none is missing or added.",
    "manifest_bound": "The manifest binds the run, its inputs, its evidence and its scores.",
    "policy_obeyed": "Every execution passed both phases of the policy gate.",
    "receipt_separation": "No venue receipt is in the evidence.",
    "anchor": "The manifest's hash is on the chain, in a transaction by a trusted key.",
}
"""The meaning of each passed check."""

VERDICTS: Mapping[str, str] = {"pass": "passes", "fail": "fails", "pending": "pending", "not_applicable": "does not apply"}

GRADES: Mapping[str, str] = {"not shown": "not confirmed", "self-consistent": "agrees with its raw messages"}
"""How a pack shows the origin of its odds, by the grade in its answer."""

RUN_KINDS: Mapping[str, str] = {
    "competition": "Competition",
    "deploy": "Deployed agent",
    "seat": "Seat",
    "backtest": "Backtest",
    "live": "Live run",
}

RUN_STATUSES: Mapping[str, str] = {
    "queued": "It waits for a free worker.",
    "running": "It is being replayed, scored and sealed.",
    "failed": "It failed before the seal.",
}
"""What happens to a run without a seal."""

CAUSALITY: Mapping[str, str] = {
    "template": "a template of clvlab, whose code uses no later price update",
    "transcript": "repeats recorded decisions; their author may have known later prices",
    "stepped": "saw each price update only after its answer to the previous one; its author may have known past prices",
    "stepped-blocks": (
        "saw each block of price updates only after its answer to the previous block; blocks end at unpredictable places, and "
        "later updates were visible only within a block; its author may have known past prices"
    ),
    "asked": "answered from elsewhere, one price update at a time",
    "audited-process": "decided the same when later price updates were cut off, in its own processes",
    "audited-sandbox": "decided the same when later price updates were cut off, in processes that could read nothing else",
    "live": "decided before later price updates existed",
    "unchecked": "not checked: it may have seen later price updates",
    "tick-by-tick": "got one price update at a time",
    "prefix-audit": "decided the same when later price updates were cut off",
}
"""How it was shown that an agent did not look ahead."""

_DECIDED: Mapping[str, str] = {
    "template": "a template of clvlab",
    "transcript": "recorded decisions",
    "stepped": "own code, one price update at a time",
    "stepped-blocks": "own code, some price updates at a time",
    "asked": "answers from elsewhere",
    "audited-process": "own code, audited",
    "audited-sandbox": "own code, audited in a sandbox",
    "live": "live decisions",
    "unchecked": "own code, not checked",
    "tick-by-tick": "own code, one price update at a time",
    "prefix-audit": "own code, audited",
    "mixed": "several ways",
}
_KNOWN: Mapping[str, str] = {
    "live": "before the prices existed",
    "committed-before": "committed before the prices existed",
    "held-back": "over prices that were held back",
    "history": "over past prices",
}


def basis(causality: str, knowledge: str) -> str:
    """Return in a few words how an agent decided, and when prices became known.

    Examples
    --------
    >>> basis("template", "history"), basis("asked", "live")
    ('a template of clvlab, over past prices', 'answers from elsewhere, before the prices existed')
    """
    return f"{_DECIDED.get(causality, causality)}, {_KNOWN.get(knowledge, knowledge)}"


BLINDNESS: Mapping[str, str] = {
    "open": "nothing was hidden from the agent",
    "aliased": "names, ids and dates were hidden from the agent; prices and gaps were visible, and about ten price updates "
    "identify the match to anyone with the pack",
    "held-back": "names, ids and dates were hidden from the agent, and its pack was held back; other copies of the pack are "
    "possible",
    "live": "answered from elsewhere, within seconds of each price update",
}
"""What a seat hid from an agent that answered from elsewhere."""
_SEEN_BEFORE = ("open", "aliased")  # others than the operator had the pack

HIDES: Mapping[str, str] = {
    "open": "nothing",
    "aliased": "names, ids and dates",
    "held-back": "names, ids and dates; its pack is held back",
}
"""What a seat hides, in a table."""


def seats(playing: int, sealed: int, abandoned: int) -> str:
    """Return what became of seats.

    Examples
    --------
    >>> seats(1, 3, 2), seats(0, 0, 0)
    ('3 sealed, 1 playing, 2 abandoned', 'none')
    """
    found = {"sealed": sealed, "playing": playing, "abandoned": abandoned}
    return ", ".join(f"{number:,} {name}" for name, number in found.items() if number) or "none"


def seat_power(edge_bps: int, fixtures: int | None, entrants: int) -> str:
    """Say how many fixtures would show an edge in a competition of seats, to two digits.

    Examples
    --------
    >>> seat_power(50, 1136, 3).partition(":")[0]
    'A true mean of 50 bps needs about 1,100 fixtures'
    >>> seat_power(50, None, 0).partition(".")[0]
    'Too few seats are sealed to estimate how many fixtures tell 50 bps from luck'
    """
    if fixtures is None:
        few = f"Too few seats are sealed to estimate how many fixtures tell {edge_bps} bps from luck"
        return f"{few}. The estimate needs an entrant with five fixtures."
    about = round(fixtures, 2 - len(str(fixtures)))  # two digits: the error that it follows from has no more
    spread = "its only entrant" if entrants == 1 else f"the median of {entrants:,} entrants"
    return (
        f"A true mean of {edge_bps} bps needs about {counted(about, 'fixture')}: in four of five samples of that size it is "
        f"told from luck. The estimate uses the spread of {spread} with five fixtures or more."
    )


def seats_taken(over_pack: int, abandoned: int, of_owner: int, packs: int) -> str:
    """Return in words how many seats an owner took, which the store of a service counts, and no log signs.

    Examples
    --------
    >>> seats_taken(3, 1, 12, 2)
    'Its owner took 3 seats over this pack (1 abandoned), and 12 seats over 2 packs. The store of this service counts them.'
    """
    over, of_all = counted(over_pack, "seat"), f"{counted(of_owner, 'seat')} over {counted(packs, 'pack')}"
    return (
        f"Its owner took {over} over this pack ({abandoned:,} abandoned), and {of_all}. The store of this service counts them."
    )


def row_seats(taken: int, abandoned: int, packs: int) -> str:
    """Return in words how many seats the owner of a row took.

    Examples
    --------
    >>> row_seats(12, 1, 2)
    'its owner took 12 seats over 2 packs (1 abandoned)'
    """
    return f"its owner took {counted(taken, 'seat')} over {counted(packs, 'pack')} ({abandoned:,} abandoned)"


def causality(label: str, blind: object = None) -> str:
    """Return in words how it was shown that an agent did not look ahead; ``blind`` is what its seat hid.

    Examples
    --------
    >>> causality("asked", "open").partition("; ")[2]
    'nothing was hidden from the agent; earlier knowledge of prices is possible'
    """
    evidence, hidden = CAUSALITY.get(label, label), BLINDNESS.get(str(blind))
    return (
        evidence
        if label not in ("asked", "live") or hidden is None
        else f"{evidence}; {hidden}" + ("; earlier knowledge of prices is possible" if blind in _SEEN_BEFORE else "")
    )
