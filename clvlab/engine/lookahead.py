"""The look-ahead audit tests whether an agent's decisions up to a tick depend on later ticks."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import count
from math import comb

import polars as pl

from clvlab.base.progress import report
from clvlab.engine.agent import Agent, decisions_of, fresh, unchecked_decisions
from clvlab.engine.replay import locate, replay
from clvlab.errors import AgentError, ClvlabError
from clvlab.law.closing import Window
from clvlab.law.clv import scores
from clvlab.law.positions import positions
from clvlab.law.schema import DECISIONS, Reason
from clvlab.law.tape import Tape
from clvlab.words import counted

_ORDER = ["ts_ms", "fixture_id", "tick_seq"]
_KEY = ["fixture_id", "tick_seq", "market_key", "side", "action"]
_FEWEST_CUTS = 12
_BLIND_FIXTURES, _BLIND_PARTS = 100, 8
_FOUND = 0.35  # least share of drawn fixtures that reveal a planted veto or entry; python -m tests.simulations.audits
_FOUND_BY_ONE = 0.05  # the same share for fixtures with one cut anywhere; same simulation
_MISSED = 0.05
_JUDGED_ROWS = 100_000_000  # of all prefixes that judge drawn fixtures once decisions in them differ
_PPM_DIGITS = 6  # a confidence is sealed in millionths
Message = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Draw:
    """The seed of an audit's cuts, and the number of attempts, this one included; ``None`` if they are not counted."""

    seed: int
    attempts: int | None = None


Drawing = Callable[[str], Draw]  # takes the hash of the answers on the whole tape, which is unknown before these answers
DrawingOf = Callable[[str, str], Draw]  # the same, with the agent's id as first argument


@dataclass(frozen=True, slots=True)
class BlindDraw:
    """Fixtures that were drawn independently of the decisions.

    Attributes
    ----------
    of
        Number of fixtures on the tape.
    fixture_ids
        Fixtures that were drawn.
    tested
        Number of drawn fixtures that the bound is computed from.
    attempts
        Number of audits, of which this may be the luckiest; ``None`` if they are not counted.
    by_prefixes
        Whether one prefix of the whole tape judged each fixture; otherwise ten cuts of its own messages judged it. Prefixes
        are for an agent that looks across fixtures, whose answers differ if fixtures end at different times.
    """

    of: int
    fixture_ids: tuple[int, ...]
    tested: int
    attempts: int | None = None
    by_prefixes: bool = False

    @property
    def least(self) -> int | None:
        """Smallest number of cheated fixtures that the audit finds with 95 %; ``None`` if no number suffices.

        If attempts are counted, the number holds for each of them. It is about use of messages that are later by at least a
        fifth of the fixture's messages. Use of nearer messages is found less often.
        """
        return least_found(self.of, self.tested, _FOUND_BY_ONE if self.by_prefixes else _FOUND, self.attempts or 1)

    def __str__(self) -> str:
        drawn = f"{len(self.fixture_ids)} of {counted(self.of, 'fixture')} were drawn without a look at decisions"
        if self.by_prefixes:
            drawn += f", and decided otherwise where others ended, so prefixes of the whole tape judged {self.tested} of them"
        if self.least is None:
            return f"{drawn}: too few to bound in how many later messages were used"
        share = f"{self.least} of {self.of} ({self.least / self.of:.1%})"
        return (
            f"{drawn}: use of messages a fifth of a fixture later, in {share}, would have been found with 95 %"
            f"{_of_attempts(self.attempts)}"
        )


def _of_attempts(attempts: int | None) -> str:
    if attempts is None:
        return "; attempts are not counted"
    return "; no attempt over this pack came to nothing before" if attempts == 1 else f" in each of {attempts} attempts"


def least_found(fixtures: int, drawn: int, found: float, attempts: int = 1) -> int | None:
    """Return the smallest number of cheated fixtures that blind draws find with 95 %; ``None`` if even all are too few.

    The chance of finding no cheated fixture is a sum over k. Each term is the hypergeometric chance that k cheated fixtures are
    drawn, times ``1 - found`` to the power of k. Several attempts share the remaining 5 % equally.
    """

    def missed(cheated: int) -> float:
        ways = comb(fixtures, drawn)
        shares = (
            comb(cheated, k) * comb(fixtures - cheated, drawn - k) / ways * (1 - found) ** k
            for k in range(min(cheated, drawn) + 1)
        )
        return sum(shares)

    enough = bisect_left(range(fixtures + 1), 1, key=lambda cheated: int(missed(cheated) <= _MISSED / attempts))
    return enough if enough <= fixtures else None


@dataclass(frozen=True, slots=True)
class LookaheadReport:
    """Result of an audit. ``decisions`` cover the whole tape, or the audited part for an agent that failed.

    ``cuts`` are the last messages (ts_ms, fixture_id, tick_seq) of all prefixes. ``moved`` has the ``DECISIONS`` that differ.
    Its ``change`` is ``vanished`` for a decision made only with later ticks, and ``appeared`` for a decision made only without
    them. ``cut_*`` is the first such cut.
    """

    agent_id: str
    seed: int
    cuts: tuple[Message, ...]
    moved: pl.DataFrame
    decisions: pl.DataFrame
    fixture_ids: tuple[int, ...]
    blind: BlindDraw | None = None

    @property
    def passed(self) -> bool:
        return self.moved.is_empty()

    def with_failed(self, failed: int) -> LookaheadReport:
        """Return the report with the failed audits of its run counted as attempts."""
        if self.blind is None or self.blind.attempts is None:
            return self
        return replace(self, blind=replace(self.blind, attempts=self.blind.attempts + failed))

    def facts(self) -> dict[str, int | bool | None]:
        found: dict[str, int | bool | None] = {"passed": self.passed, "seed": self.seed, "prefixes": len(self.cuts)}
        if self.blind is None:
            return found
        return found | {
            "fixtures": self.blind.of,
            "drawn_blindly": len(self.blind.fixture_ids),
            "found_with_95_percent_in": self.blind.least,
            "attempts": self.blind.attempts,
        }

    def __repr__(self) -> str:
        audited = f"Look-ahead audit of {self.agent_id!r}"
        if self.passed:
            on = f"{counted(len(self.cuts), 'prefix', 'prefixes')} of {counted(len(self.fixture_ids), 'fixture')}"
            drawn = f"; {self.blind}" if self.blind else ""
            return f"{audited}: passed, decisions on {on} equal those on the whole tape{drawn}"
        first = self.moved.row(0, named=True)
        what = " ".join(str(first[name]) for name in ("action", "market_key", "side") if first[name] is not None)
        story = "is not made when" if first["change"] == "vanished" else "is made, and later taken back, when"
        return (
            f"{audited}: FAILED, {self.moved.height} decision(s) depend on later ticks; the first, {what} at tick "
            f"{first['tick_seq']} of fixture {first['fixture_id']}, {story} the tape ends at tick {first['cut_tick_seq']} of "
            f"fixture {first['cut_fixture_id']}; all of them stand in .moved"
        )


def lookahead_audit(
    agent: Agent,
    tape: Tape,
    *,
    seed: int | Drawing,
    cuts: int = 24,
    window: Window | None = None,
    max_rows: int = 100_000,
) -> LookaheadReport:
    """Compare an agent's decisions on prefixes of a tape with the prefixes of its decisions.

    1. A process decides over the whole tape, before the cuts are drawn.
    2. Another process gets prefixes that end anywhere, the shortest first, and finally the whole tape.
    3. A third process gets prefixes that end where the agent decided.
    4. A tape of more than ``max_rows`` is audited on some fixtures, drawn by the agent's gains, if the agent decides the same
       on these fixtures alone. Otherwise the whole tape is audited with fewer cuts.
    5. Fixtures are drawn blindly and cut at messages of their own, where abstaining shows as much as acting. If decisions in a
       fixture differ, prefixes of the whole tape judge.

    A third of the cuts fall anywhere. A third fall where the agent decided without prices, because a fill from later shows
    there. The others fall where the agent gained. An agent that passes may still look ahead between the cuts, or know the tape
    by heart. A prefix numbers its series from 0, so an agent that computes with the number fails. The seed must be unknown to
    the agent, for example from ``secrets``.
    """
    if cuts < 1:
        raise AgentError(f"an audit needs at least 1 cut, not {cuts}")
    with _started(agent) as processes:
        whole = decisions_of(processes.whole, tape)
        processes.end("whole")
        plan = _Plan(agent, window or Window(), cuts, max_rows, drawn(seed, whole))
        end_blind = partial(processes.end, "blind")
        if tape.rows.height <= max_rows:
            return _checked_blindly(plan, tape, _audited(plan, tape, whole, processes), processes.blind, end_blind)
        some = _some_fixtures(tape, max_rows, plan, locate(tape, whole))
        with fresh(agent, silent=True) as other:
            alone = _decisions_alone(other, some)
        report = _audited(plan, some, alone, processes)
        if not report.passed:
            return report
        if _same(whole.filter(pl.col("fixture_id").is_in(report.fixture_ids)), alone):
            return _checked_blindly(plan, tape, replace(report, decisions=whole), processes.blind, end_blind)
    plan = replace(plan, cuts=max(_FEWEST_CUTS, cuts * max_rows // tape.rows.height))
    with _started(agent, silent=True) as processes:
        return _checked_blindly(
            plan, tape, _audited(plan, tape, whole, processes), processes.blind, partial(processes.end, "blind")
        )


def _decisions_alone(agent: Agent, some: Tape) -> pl.DataFrame:
    try:
        return decisions_of(agent, some)
    except ClvlabError as error:
        error.add_note(f"on {counted(some.series['fixture_id'].n_unique(), 'fixture')} of the tape alone")
        raise


def drawn(seed: int | Drawing, whole: pl.DataFrame) -> Draw:
    if isinstance(seed, int):
        return Draw(seed)
    # The seed is drawn after the answers are fixed. An agent that knew the seed could behave well at exactly the cuts.
    answers = whole.select(*DECISIONS).sort(_KEY, nulls_last=False).write_csv()
    return seed("sha256:" + sha256(answers.encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class _Plan:
    agent: Agent
    window: Window
    cuts: int
    max_rows: int
    draw: Draw
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def seed(self) -> int:
        return self.draw.seed

    def report_question(self) -> None:
        """Report one more question to the agent; what differs is asked about again, beyond the usual number."""
        usual = self.cuts + _BLIND_PARTS + 3
        report("checking for look-ahead", min(next(self.numbers), usual), usual)


@dataclass(frozen=True, slots=True)
class _Processes:
    """Four processes without earlier data, started together because a start takes longer than most answers."""

    whole: Agent
    first: Agent
    second: Agent
    blind: Agent
    end: Callable[[str], None]


@contextmanager
def _started(agent: Agent, *, silent: bool = False) -> Iterator[_Processes]:
    growing = {"silent": True, "grows": True}
    options = {"whole": {"silent": silent}, "first": growing, "second": growing, "blind": {"silent": True}}
    with ExitStack() as running:
        # Each process ends before the next one is asked, because a living process could pass its data to the next one.
        own = {name: running.enter_context(ExitStack()) for name in options}
        processes = {name: own[name].enter_context(fresh(agent, **options_of)) for name, options_of in options.items()}
        yield _Processes(**processes, end=lambda name: own[name].close())


def _audited(plan: _Plan, tape: Tape, whole: pl.DataFrame, processes: _Processes) -> LookaheadReport:
    agent, cuts, seed = plan.agent, plan.cuts, plan.seed
    anywhere = sorted(_chosen(tape.messages.select(_ORDER).sort(_ORDER), -(-cuts // 3), seed))
    answers = _prefix_decisions(processes.first, tape, anywhere, plan)
    plan.report_question()
    grown = unchecked_decisions(processes.first, tape)
    processes.end("first")
    timed = locate(tape, whole)
    later = [cut for cut in _informative(tape, timed, plan) if cut not in answers][: cuts - len(answers)]
    answers |= _prefix_decisions(processes.second, tape, sorted(later), plan)
    processes.end("second")
    moved = _moved_by(timed, answers)
    name = agent.identity.agent_id
    if not _same(whole, grown):
        with fresh(agent, silent=True, grows=True) as fourth:  # not of the same addresses in memory as the first
            again = decisions_of(fourth, tape)
        if not _same(whole, again):
            raise AgentError(f"agent {name!r} is not deterministic: asked again over the same tape it answers differently")
        if moved.is_empty():
            raise AgentError(f"agent {name!r} remembers: after shorter tapes it decides on this one differently than at once")
    fixture_ids = tuple(tape.series["fixture_id"].unique().sort())
    return LookaheadReport(name, seed, tuple(sorted(answers)), moved, whole, fixture_ids)


def _moved_by(timed: pl.DataFrame, answers: Mapping[Message, pl.DataFrame]) -> pl.DataFrame:
    timed = timed.select(*DECISIONS, "ts_ms")
    found = [_moved(timed.clear(), (0, 0, 0), "vanished"), *(_compared(timed, answers[cut], cut) for cut in sorted(answers))]
    return pl.concat(found).unique([*DECISIONS, "change"], keep="first", maintain_order=True)


def _checked_blindly(
    plan: _Plan, tape: Tape, report: LookaheadReport, process: Agent, end: Callable[[], None]
) -> LookaheadReport:
    """Compare decisions in blindly drawn fixtures, and judge differences on prefixes of the tape."""
    if not report.passed:
        return report
    fixture_ids = tape.series["fixture_id"].unique().to_list()
    drawn = sorted(fixture_ids, key=lambda one: _hashed(plan.seed + 4, one))[:_BLIND_FIXTURES]
    tested = len(drawn)
    timed = locate(tape, report.decisions)
    scored = timed.join(_gains(tape, timed, plan.window), on=["fixture_id", "tick_seq"], how="semi")
    timed = timed.select(*DECISIONS, "ts_ms")
    some = _of_fixtures(tape, drawn)
    cuts = _own_cuts(plan, some, scored)
    differ = _differing(plan, some, timed, process, cuts)
    end()
    # An agent that looks across fixtures differs without cheating. If such an agent were excused, it could answer freely. So
    # prefixes judge both kinds of fixtures, and an agent gains nothing by differing.
    if differ:
        judged = {one for one, _ in zip(differ, range(-(-plan.cuts // 2)), strict=False)}
        judged |= {cuts[one][-1] for one in drawn[: plan.cuts // 2]}
        tested = min(len(drawn), max(plan.cuts, _JUDGED_ROWS // tape.rows.height))
        judged |= {cuts[one][_hashed(plan.seed + 16, one) % _BLIND_PARTS] for one in drawn[:tested]}
        with fresh(plan.agent, silent=True, grows=True) as growing:
            for number, cut in enumerate(sorted(judged), start=1):
                moved = _compared(timed, _prefix_decisions(growing, tape, [cut], plan)[cut], cut)
                if moved.height:
                    return replace(report, cuts=tuple(sorted({*report.cuts, *sorted(judged)[:number]})), moved=moved)
    blind = BlindDraw(len(fixture_ids), tuple(sorted(drawn)), tested, plan.draw.attempts, by_prefixes=bool(differ))
    return replace(report, blind=blind)


def _differing(
    plan: _Plan, tape: Tape, timed: pl.DataFrame, process: Agent, cuts: Mapping[int, Sequence[Message]]
) -> list[Message]:
    """Return the cuts, at most one for each fixture, at which decisions differ when every fixture ends at its cut."""
    found: dict[int, list[Message]] = defaultdict(list)
    rows = tape.rows.select("tick_seq", fixture_id=_fixtures(tape))
    for ends in zip(*(sorted(own) for own in cuts.values()), strict=True):
        until = pl.DataFrame(ends, schema={"until_ms": pl.Int64, "fixture_id": pl.Int64, "until": pl.Int64}, orient="row")
        kept = rows.join(until, on="fixture_id", how="left", maintain_order="left").select(
            pl.col("tick_seq") <= pl.col("until")
        )
        plan.report_question()
        try:
            then = unchecked_decisions(process, tape.keep(kept.to_series()))
        except ClvlabError as error:
            error.add_note(f"on {counted(len(ends), 'fixture')} of the tape, each cut at a message of its own")
            raise
        by_then = timed.join(until, on="fixture_id", how="inner").filter(pl.col("tick_seq") <= pl.col("until"))
        fixture_ids = {fixture_id for frame in _differences(by_then, then) for fixture_id in frame["fixture_id"]}
        for cut in ends:
            if cut[1] in fixture_ids:
                found[cut[1]].append(cut)
    return [found[one][_hashed(plan.seed + 5, one) % len(found[one])] for one in cuts if one in found]


def _own_cuts(plan: _Plan, tape: Tape, scored: pl.DataFrame) -> dict[int, list[Message]]:
    """Return the cuts of each fixture, as messages with bounded rows. Hashes give the order of fixtures.

    One message is taken from each of several equal parts, and two where decisions score. For a fixture without a scored
    decision, the two come from other fixtures, by number of message and by time to kickoff.
    """
    sizes = dict(tape.series.group_by("fixture_id").agg(pl.col("rows").sum()).iter_rows())
    kickoffs = dict(tape.fixtures.select("fixture_id", "kickoff_ts_ms").iter_rows())
    at = scored.select(_ORDER).unique().sort(_ORDER)
    own = at.partition_by("fixture_id", as_dict=True)
    chosen: dict[int, list[Message]] = {}
    for (fixture_id,), messages in tape.messages.group_by("fixture_id", maintain_order=True):
        count = max(1, messages.height * min(plan.max_rows, sizes[fixture_id]) // sizes[fixture_id])
        drawn = [_hashed(plan.seed + 6 + number, fixture_id) for number in range(_BLIND_PARTS + 2)]
        places = [(number * 2**64 + one) * count // (_BLIND_PARTS * 2**64) for number, one in enumerate(drawn[:_BLIND_PARTS])]
        there = own.get((fixture_id,), at)
        for number, one in enumerate(drawn[_BLIND_PARTS:]) if there.height else ():
            ts_ms, other, tick_seq = there.row(one % there.height)
            kickoff, its = kickoffs.get(fixture_id), kickoffs.get(other)
            if number and kickoff is not None and its is not None:
                places.append(messages["ts_ms"].search_sorted(ts_ms - its + kickoff, side="right") - 1)
            else:
                places.append(messages["tick_seq"].search_sorted(tick_seq, side="right") - 1)
        chosen[fixture_id] = messages.select(_ORDER)[[min(max(place, 0), count - 1) for place in places]].rows()
    return {one: chosen[one] for one in sorted(chosen, key=lambda one: _hashed(plan.seed + 5, one))}


def _same(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    if one.height != other.height:
        return False
    return one.equals(other) or one.sort(_KEY, nulls_last=False).equals(other.sort(_KEY, nulls_last=False))


def _prefix_decisions(agent: Agent, tape: Tape, cuts: Sequence[Message], plan: _Plan) -> dict[Message, pl.DataFrame]:
    """Return the decisions on each prefix. The next is cut while an answer is awaited. An error gets a note of its prefix."""
    answers = {}
    with ThreadPoolExecutor(1) as cutter:
        prefixes = [cutter.submit(prefix, tape, cut) for cut in cuts[:1]]
        for number, cut in enumerate(cuts):
            own = prefixes.pop().result()
            prefixes = [cutter.submit(prefix, tape, coming) for coming in cuts[number + 1 : number + 2]]
            plan.report_question()
            try:
                answers[cut] = unchecked_decisions(agent, own)
            except ClvlabError as error:
                error.add_note(f"on the prefix of the tape that ends at tick {cut[2]} of fixture {cut[1]}")
                raise
    return answers


def _informative(tape: Tape, timed: pl.DataFrame, plan: _Plan) -> list[Message]:
    """Return messages at which the agent decided: some without prices, then the messages where it gained."""
    window, cuts, seed = plan.window, plan.cuts, plan.seed
    unpriced = tape.rows.select("tick_seq", "prob_bps", fixture_id=_fixtures(tape)).filter(pl.col("prob_bps").is_null())
    acted = timed.select(_ORDER).unique().sort(_ORDER)
    blind = acted.join(unpriced, on=["fixture_id", "tick_seq"], how="semi", maintain_order="left")
    gained = _gains(tape, timed, window).join(acted, on=["fixture_id", "tick_seq"]).sort(_ORDER)
    weighted = _weighted(gained.select(*_ORDER, "gain"), cuts, seed + 1)
    at = [(ts_ms, fixture_id, tick_seq) for ts_ms, fixture_id, tick_seq in weighted]
    return list(dict.fromkeys([*_chosen(blind, cuts // 3, seed), *at, *_chosen(acted, cuts, seed + 2)]))


def _gains(tape: Tape, timed: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Return the gain of scored decisions by (fixture_id, tick_seq). A loss or zero counts as 1."""
    replayed = replay(tape, timed, window)
    scored = scores(positions(*replayed.lines), window, tape.max_close_age_s)
    return (
        scored.filter(pl.col("reason") == Reason.SCORED)
        .group_by("fixture_id", "tick_seq")
        .agg(gain=pl.col("clv_bps").clip(0).sum() + 1)
    )


def prefix(tape: Tape, last: Message) -> Tape:
    """Return the tape up to a message (ts_ms, fixture_id, tick_seq), without a content hash.

    Messages of one millisecond are in order of fixture and tick.
    """
    return tape.keep(tape.rows.select("ts_ms", "tick_seq", fixture_id=_fixtures(tape)).select(_until(last)).to_series())


def _fixtures(tape: Tape) -> pl.Series:
    return tape.series["fixture_id"].gather(tape.rows["series"])


def _until(last: Message) -> pl.Expr:
    ts_ms, fixture_id, tick_seq = last
    same_ms, same_fixture = pl.col("ts_ms") == ts_ms, pl.col("fixture_id") == fixture_id
    earlier_there = (pl.col("fixture_id") < fixture_id) | (same_fixture & (pl.col("tick_seq") <= tick_seq))
    return (pl.col("ts_ms") < ts_ms) | (same_ms & earlier_there)


def _compared(timed: pl.DataFrame, then: pl.DataFrame, cut: Message) -> pl.DataFrame:
    by_then = timed.filter(_until(cut))
    if _same(by_then.select(*DECISIONS), then):
        return _moved(timed.clear(), cut, "vanished")
    vanished, appeared = _differences(by_then, then)
    return pl.concat([_moved(vanished, cut, "vanished"), _moved(appeared, cut, "appeared")])


def _differences(one: pl.DataFrame, other: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    key = [pl.col(name).round(_PPM_DIGITS) if name == "confidence" else pl.col(name) for name in DECISIONS]
    join = partial(pl.DataFrame.join, on=key, how="anti", nulls_equal=True, maintain_order="left")
    return join(one, other), join(other, one)


def _moved(decisions: pl.DataFrame, cut: Message, change: str) -> pl.DataFrame:
    names = ("cut_ts_ms", "cut_fixture_id", "cut_tick_seq")
    return decisions.select(
        *DECISIONS, pl.lit(change).alias("change"), *(pl.lit(v, pl.Int64).alias(n) for n, v in zip(names, cut, strict=True))
    ).sort("fixture_id", "tick_seq", maintain_order=True)


def _some_fixtures(tape: Tape, max_rows: int, plan: _Plan, timed: pl.DataFrame) -> Tape:
    """Keep whole fixtures up to ``max_rows``: first fixtures drawn by gains, then fixtures with decisions."""
    sizes = dict(tape.series.group_by("fixture_id").agg(pl.col("rows").sum()).iter_rows())
    gained = _gains(tape, timed, plan.window).group_by("fixture_id").agg(pl.col("gain").sum()).sort("fixture_id")
    drawn = {row[0]: place for place, row in enumerate(_weighted(gained, len(sizes), plan.seed + 3))}
    deciding = frozenset(timed["fixture_id"])
    kept: list[int] = []
    total = 0
    for fixture_id in sorted(sizes, key=lambda one: (drawn.get(one, len(sizes)), one not in deciding, _hashed(plan.seed, one))):
        total += sizes[fixture_id]
        if kept and total > max_rows:
            break
        kept.append(fixture_id)
    return _of_fixtures(tape, kept)


def _of_fixtures(tape: Tape, fixture_ids: Sequence[int]) -> Tape:
    return tape.keep(_fixtures(tape).is_in(pl.Series(fixture_ids, dtype=pl.Int64).implode()))


def _chosen(messages: pl.DataFrame, count: int, seed: int) -> list[Message]:
    """Return distinct messages chosen by hash. The same seed chooses the same messages on every machine."""
    height = messages.height
    rows = dict.fromkeys(_hashed(seed, number) % height for number in range(4 * count)) if height else {}
    return [messages.row(row) for row in list(rows)[:count]]


def _weighted(weighed: pl.DataFrame, count: int, seed: int) -> list[tuple[int, ...]]:
    """Return distinct rows without their last column, ``gain``, drawn in proportion to it."""
    until = weighed["gain"].cum_sum()
    drawn = [_hashed(seed, number) % until[-1] for number in range(4 * count)] if weighed.height else []
    rows = until.search_sorted(pl.Series(drawn, dtype=pl.Int64), side="right").unique(maintain_order=True)
    return [weighed.row(row)[:-1] for row in rows[:count]]


def _hashed(seed: int, number: int) -> int:
    return int.from_bytes(sha256(f"{seed}/{number}".encode()).digest()[:8])
