"""The look-ahead audit: whether what an agent decided by a tick depends on what came after it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from math import comb

import polars as pl

from clvlab.engine.agent import Agent, decisions_of, fresh, unchecked_decisions
from clvlab.engine.replay import locate, replay
from clvlab.errors import AgentError, ClvlabError
from clvlab.law.closing import Window
from clvlab.law.clv import scores
from clvlab.law.positions import positions
from clvlab.law.schema import DECISIONS, Reason
from clvlab.law.tape import Tape

_ORDER = ["ts_ms", "fixture_id", "tick_seq"]
_KEY = ["fixture_id", "tick_seq", "market_key", "side", "action"]
_FEWEST_CUTS = 12
_BLIND_FIXTURES, _BLIND_PARTS = 100, 8
_FOUND = 0.35  # least share of drawn fixtures in which a planted veto or entry shows; python -m tests.simulations.audits
_FOUND_BY_ONE = 0.05  # and of fixtures that are cut once, anywhere; same simulation
_MISSED = 0.05
_JUDGED_ROWS = 100_000_000  # of all prefixes by which drawn fixtures are judged once decisions in them differ
_PPM_DIGITS = 6  # a confidence is sealed in millionths
Message = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Draw:
    """What the cuts of an audit are chosen by, and among how many audits it may be the lucky one; null if nobody counts."""

    seed: int
    attempts: int | None = None


Drawing = Callable[[str], Draw]  # given the hash of what is answered on the whole tape: who draws knows it then, and not before
DrawingOf = Callable[[str, str], Draw]  # the same, given the id of the agent first


@dataclass(frozen=True, slots=True)
class BlindDraw:
    """Fixtures that were drawn without a look at what was decided.

    Attributes
    ----------
    of
        How many fixtures the tape has.
    fixture_ids
        Those that were drawn.
    tested
        How many of them this bounds anything by.
    attempts
        Among how many audits this may be the lucky one; null where nobody counts them.
    by_prefixes
        Whether each was judged by one prefix of the whole tape: of an agent that answers differently where fixtures end at
        different times, as one may that looks from one fixture to another. Else it was cut at ten messages of its own.
    """

    of: int
    fixture_ids: tuple[int, ...]
    tested: int
    attempts: int | None = None
    by_prefixes: bool = False

    @property
    def least(self) -> int | None:
        """In how many fixtures decisions must use later messages to be found with 95 %; null if nothing suffices.

        In each of all attempts, if they are counted. Messages that come at least a fifth of the fixture's messages later: use
        of nearer ones shows less often.
        """
        return least_found(self.of, self.tested, _FOUND_BY_ONE if self.by_prefixes else _FOUND, self.attempts or 1)

    def __str__(self) -> str:
        drawn = f"{len(self.fixture_ids)} of {self.of} fixture(s) were drawn without a look at decisions"
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
    """Return the least number of cheated fixtures that blind draws find with 95 %; null where all of them would not do.

    The chance that none is found is the sum over k of the hypergeometric chance that k of them are drawn, times the chance
    that a drawn one does not show, to the power of k. Of several attempts each must find it with a share of the 5 % left.

    Parameters
    ----------
    fixtures
        How many there are.
    drawn
        How many of them are tested.
    found
        Chance that a cheated fixture shows where it is tested, from 0 to 1.
    attempts
        How many draws there were, each with fixtures of its own.
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
    """What the audit found.

    Attributes
    ----------
    agent_id
        Who was audited.
    seed
        What the cuts were chosen by; nobody knew it before the audit.
    cuts
        The last message (ts_ms, fixture_id, tick_seq) of every prefix that was compared with the whole.
    moved
        ``DECISIONS`` that differ, with ``change``: ``vanished`` (made only when later ticks are known) or ``appeared`` (made,
        and taken back when later ticks are known); and the last message of the first prefix that shows it: ``cut_ts_ms``,
        ``cut_fixture_id``, ``cut_tick_seq``. Empty when the agent passed.
    decisions
        ``DECISIONS`` over the whole tape; of an agent that failed, over what was audited.
    fixture_ids
        Which fixtures the prefixes were of.
    blind
        What was drawn without a look at decisions; null of an agent that failed before.
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

    def beside(self, failed: int) -> LookaheadReport:
        """Return the report of one among audits of which some failed: each was an attempt, if those are counted."""
        if self.blind is None or self.blind.attempts is None:
            return self
        return replace(self, blind=replace(self.blind, attempts=self.blind.attempts + failed))

    def facts(self) -> dict[str, int | bool | None]:
        """Return what can be said of it in numbers, as JSON values."""
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
            on = f"{len(self.cuts)} prefixes of {len(self.fixture_ids)} fixture(s)"
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

    Steps: 1. a process is shown the whole, and what it answers is fixed before the cuts are drawn; 2. another is shown prefixes
    that end anywhere, the shortest first, and at last the whole: what it keeps from one to the next knows no later tick; 3. a
    third, which is asked when both have ended, is shown prefixes that end where the agent decided, the shortest first. No
    process in which a prefix is decided has held a later tick, so there is nothing to find in its memory; and the agent's code
    can't reach the comparison. 4. Of a longer tape, this is done with some of its fixtures, the likelier the more the agent
    gains in them, and what it decided must be the same on these; where it is not, as that of an agent which looks from one
    fixture to another, it is done again with the whole tape and fewer cuts. 5. Beside these, fixtures are drawn without a look
    at decisions, and each is cut at messages of its own: abstaining shows there as much as acting. If any differs, prefixes of
    the whole tape judge, as what came earlier in other fixtures may be used; they end at such cuts, whether decisions differed
    there or not.

    A third of the prefixes end anywhere; a third, as far as there are some, where it decided at a message without prices, where
    a fill from behind shows; the others where it made a decision that scores, the more likely the more it gained: abstentions
    and worthless positions draw no cut there. An agent that passes may still look ahead where no cut fell, or know the tape
    by heart.

    A prefix numbers its series anew: an agent that computes with the number, and does not only group by it, fails.

    Parameters
    ----------
    agent
        A template or an isolated agent.
    tape
        What it decides on.
    seed
        Chooses the messages at which the tape is cut, or draws what does. An agent that knows it can dodge: take one from
        ``secrets``.
    cuts
        Number of prefixes, at least 1.
    window
        What scores; the default window without one.
    max_rows
        A longer tape is audited on some of its fixtures, until this many rows are reached. The blind draw has as many fixtures
        of any tape, and of each at most this many rows.

    Raises
    ------
    AgentError
        The agent answers differently when it is asked again, or ``cuts`` is less than 1.
    AgentFailedError
        It fails; a note says on which prefix.
    DecisionError
        Decisions that can't be sealed.
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
            alone = _asked_alone(other, some)
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


def _asked_alone(agent: Agent, some: Tape) -> pl.DataFrame:
    try:
        return decisions_of(agent, some)
    except ClvlabError as error:
        error.add_note(f"on {some.series['fixture_id'].n_unique()} fixture(s) of the tape alone")
        raise


def drawn(seed: int | Drawing, whole: pl.DataFrame) -> Draw:
    """Return what an audit is drawn by, once it is known what is decided over the whole tape."""
    if isinstance(seed, int):
        return Draw(seed)
    answers = whole.select(*DECISIONS).sort(_KEY, nulls_last=False).write_csv()
    return seed("sha256:" + sha256(answers.encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class _Plan:
    """What every part of an audit needs to know."""

    agent: Agent
    window: Window
    cuts: int
    max_rows: int
    draw: Draw

    @property
    def seed(self) -> int:
        return self.draw.seed


@dataclass(frozen=True, slots=True)
class _Processes:
    """Four that have seen nothing: what they start with takes longer than most answers, so they start side by side."""

    whole: Agent
    first: Agent
    second: Agent
    blind: Agent
    end: Callable[[str], None]


@contextmanager
def _started(agent: Agent, *, silent: bool = False) -> Iterator[_Processes]:
    """Start processes, each of which is ended before the next one is asked: one that lives could tell it what it has seen."""
    growing = {"silent": True, "grows": True}
    options = {"whole": {"silent": silent}, "first": growing, "second": growing, "blind": {"silent": True}}
    with ExitStack() as running:
        own = {name: running.enter_context(ExitStack()) for name in options}
        processes = {name: own[name].enter_context(fresh(agent, **given)) for name, given in options.items()}
        yield _Processes(**processes, end=lambda name: own[name].close())


def _audited(plan: _Plan, tape: Tape, whole: pl.DataFrame, processes: _Processes) -> LookaheadReport:
    """Ask on prefixes of a tape what was decided over the ``whole`` of it."""
    agent, cuts, seed = plan.agent, plan.cuts, plan.seed
    anywhere = sorted(_chosen(tape.messages.select(_ORDER).sort(_ORDER), -(-cuts // 3), seed))
    answers = _asked_on_prefixes(processes.first, tape, anywhere)
    grown = unchecked_decisions(processes.first, tape)
    processes.end("first")
    timed = locate(tape, whole)
    later = [cut for cut in _telling(tape, timed, plan) if cut not in answers][: cuts - len(answers)]
    answers |= _asked_on_prefixes(processes.second, tape, sorted(later))
    processes.end("second")
    moved = _moved_by(timed, answers)
    name = agent.identity.agent_id
    if not _same(whole, grown):
        with fresh(agent, silent=True) as fourth:
            again = decisions_of(fourth, tape)
        if not _same(whole, again):
            raise AgentError(f"agent {name!r} is not deterministic: asked again over the same tape it answers differently")
        if moved.is_empty():
            raise AgentError(f"agent {name!r} remembers: after shorter tapes it decides on this one differently than at once")
    fixture_ids = tuple(tape.series["fixture_id"].unique().sort())
    return LookaheadReport(name, seed, tuple(sorted(answers)), moved, whole, fixture_ids)


def _moved_by(timed: pl.DataFrame, answers: Mapping[Message, pl.DataFrame]) -> pl.DataFrame:
    """Find the decisions that prefixes were answered otherwise, each by the first that shows it."""
    timed = timed.select(*DECISIONS, "ts_ms")
    found = [_moved(timed.clear(), (0, 0, 0), "vanished"), *(_compared(timed, answers[cut], cut) for cut in sorted(answers))]
    return pl.concat(found).unique([*DECISIONS, "change"], keep="first", maintain_order=True)


def _checked_blindly(
    plan: _Plan, tape: Tape, report: LookaheadReport, process: Agent, end: Callable[[], None]
) -> LookaheadReport:
    """Compare decisions in fixtures that were drawn without a look at them; what differs is judged on prefixes of the tape.

    An agent that differs and is no cheat by that, as it looks from one fixture to another, can answer as it likes where
    fixtures end at different times. That it is the same elsewhere shows nothing: prefixes judge fixtures of either kind, one
    anywhere in each that was drawn, so that nothing is gained by differing.
    """
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
    if differ:
        judged = {one for one, _ in zip(differ, range(-(-plan.cuts // 2)), strict=False)}
        judged |= {cuts[one][-1] for one in drawn[: plan.cuts // 2]}
        tested = min(len(drawn), max(plan.cuts, _JUDGED_ROWS // tape.rows.height))
        judged |= {cuts[one][_hashed(plan.seed + 16, one) % _BLIND_PARTS] for one in drawn[:tested]}
        with fresh(plan.agent, silent=True, grows=True) as growing:
            for number, cut in enumerate(sorted(judged), start=1):
                moved = _compared(timed, _asked_on_prefixes(growing, tape, [cut])[cut], cut)
                if moved.height:
                    return replace(report, cuts=tuple(sorted({*report.cuts, *sorted(judged)[:number]})), moved=moved)
    blind = BlindDraw(len(fixture_ids), tuple(sorted(drawn)), tested, plan.draw.attempts, by_prefixes=bool(differ))
    return replace(report, blind=blind)


def _differing(
    plan: _Plan, tape: Tape, timed: pl.DataFrame, process: Agent, cuts: Mapping[int, Sequence[Message]]
) -> list[Message]:
    """Show all fixtures at once, each as far as one of its cuts, the earliest first: at which the decisions differ.

    One cut of a fixture at most, and in the order of the fixtures: by a hash, so that an agent has no say in which it is.
    """
    found: dict[int, list[Message]] = defaultdict(list)
    rows = tape.rows.select("tick_seq", fixture_id=_fixtures(tape))
    for shown in zip(*(sorted(own) for own in cuts.values()), strict=True):
        until = pl.DataFrame(shown, schema={"until_ms": pl.Int64, "fixture_id": pl.Int64, "until": pl.Int64}, orient="row")
        kept = rows.join(until, on="fixture_id", how="left", maintain_order="left").select(
            pl.col("tick_seq") <= pl.col("until")
        )
        try:
            then = unchecked_decisions(process, tape.keep(kept.to_series()))
        except ClvlabError as error:
            error.add_note(f"on {len(shown)} fixture(s) of the tape, each cut at a message of its own")
            raise
        by_then = timed.join(until, on="fixture_id", how="inner").filter(pl.col("tick_seq") <= pl.col("until"))
        fixture_ids = {fixture_id for frame in _differences(by_then, then) for fixture_id in frame["fixture_id"]}
        for cut in shown:
            if cut[1] in fixture_ids:
                found[cut[1]].append(cut)
    return [found[one][_hashed(plan.seed + 5, one) % len(found[one])] for one in cuts if one in found]


def _own_cuts(plan: _Plan, tape: Tape, scored: pl.DataFrame) -> dict[int, list[Message]]:
    """Choose messages of each fixture, in an order of fixtures that hashes give: rows of a fixture are bounded.

    One is taken from each of several equal parts, and two where decisions score: of a fixture in which none does, at the
    number and at the time to kickoff of such elsewhere.
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
    """Tell whether two frames hold the same decisions, in any order."""
    if one.height != other.height:
        return False
    return one.equals(other) or one.sort(_KEY, nulls_last=False).equals(other.sort(_KEY, nulls_last=False))


def _asked_on_prefixes(agent: Agent, tape: Tape, cuts: Sequence[Message]) -> dict[Message, pl.DataFrame]:
    """Ask on each prefix, the next one being cut while an answer is awaited; say so where the agent fails."""
    answers = {}
    with ThreadPoolExecutor(1) as cutter:
        prefixes = [cutter.submit(prefix, tape, cut) for cut in cuts[:1]]
        for number, cut in enumerate(cuts):
            own = prefixes.pop().result()
            prefixes = [cutter.submit(prefix, tape, coming) for coming in cuts[number + 1 : number + 2]]
            try:
                answers[cut] = unchecked_decisions(agent, own)
            except ClvlabError as error:
                error.add_note(f"on the prefix of the tape that ends at tick {cut[2]} of fixture {cut[1]}")
                raise
    return answers


def _telling(tape: Tape, timed: pl.DataFrame, plan: _Plan) -> list[Message]:
    """Choose messages at which the agent decided: at some that have no prices, then where it gained."""
    window, cuts, seed = plan.window, plan.cuts, plan.seed
    unpriced = tape.rows.select("tick_seq", "prob_bps", fixture_id=_fixtures(tape)).filter(pl.col("prob_bps").is_null())
    acted = timed.select(_ORDER).unique().sort(_ORDER)
    blind = acted.join(unpriced, on=["fixture_id", "tick_seq"], how="semi", maintain_order="left")
    gained = _gains(tape, timed, window).join(acted, on=["fixture_id", "tick_seq"]).sort(_ORDER)
    weighted = _weighted(gained.select(*_ORDER, "gain"), cuts, seed + 1)
    at = [(ts_ms, fixture_id, tick_seq) for ts_ms, fixture_id, tick_seq in weighted]
    return list(dict.fromkeys([*_chosen(blind, cuts // 3, seed), *at, *_chosen(acted, cuts, seed + 2)]))


def _gains(tape: Tape, timed: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Sum what decisions that score gained by (fixture_id, tick_seq), losses and nothing as 1."""
    replayed = replay(tape, timed, window)
    scored = scores(positions(replayed.decisions, replayed.closes), window, tape.max_close_age_s)
    return (
        scored.filter(pl.col("reason") == Reason.SCORED)
        .group_by("fixture_id", "tick_seq")
        .agg(gain=pl.col("clv_bps").clip(0).sum() + 1)
    )


def prefix(tape: Tape, last: Message) -> Tape:
    """Return the tape as it was after a message (ts_ms, fixture_id, tick_seq): everything later is gone.

    Messages of one millisecond are in order of fixture and tick. A prefix has no content hash: it is no whole pack.
    """
    return tape.keep(tape.rows.select("ts_ms", "tick_seq", fixture_id=_fixtures(tape)).select(_until(last)).to_series())


def _fixtures(tape: Tape) -> pl.Series:
    return tape.series["fixture_id"].gather(tape.rows["series"])


def _until(last: Message) -> pl.Expr:
    """Tell whether (ts_ms, fixture_id, tick_seq) is at or before a message."""
    ts_ms, fixture_id, tick_seq = last
    same_ms, same_fixture = pl.col("ts_ms") == ts_ms, pl.col("fixture_id") == fixture_id
    earlier_there = (pl.col("fixture_id") < fixture_id) | (same_fixture & (pl.col("tick_seq") <= tick_seq))
    return (pl.col("ts_ms") < ts_ms) | (same_ms & earlier_there)


def _compared(timed: pl.DataFrame, then: pl.DataFrame, cut: Message) -> pl.DataFrame:
    """Find the decisions by a cut that later messages change."""
    by_then = timed.filter(_until(cut))
    if _same(by_then.select(*DECISIONS), then):
        return _moved(timed.clear(), cut, "vanished")
    vanished, appeared = _differences(by_then, then)
    return pl.concat([_moved(vanished, cut, "vanished"), _moved(appeared, cut, "appeared")])


def _differences(one: pl.DataFrame, other: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the decisions that only the one has, and those that only the other has."""
    key = [pl.col(name).round(_PPM_DIGITS) if name == "confidence" else pl.col(name) for name in DECISIONS]
    join = partial(pl.DataFrame.join, on=key, how="anti", nulls_equal=True, maintain_order="left")
    return join(one, other), join(other, one)


def _moved(decisions: pl.DataFrame, cut: Message, change: str) -> pl.DataFrame:
    names = ("cut_ts_ms", "cut_fixture_id", "cut_tick_seq")
    return decisions.select(
        *DECISIONS, pl.lit(change).alias("change"), *(pl.lit(v, pl.Int64).alias(n) for n, v in zip(names, cut, strict=True))
    ).sort("fixture_id", "tick_seq", maintain_order=True)


def _some_fixtures(tape: Tape, max_rows: int, plan: _Plan, timed: pl.DataFrame) -> Tape:
    """Keep whole fixtures until the rows are reached: drawn by what was gained in them, then where the agent decided."""
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
    """Choose distinct messages by hash: the same for the same seed on every machine."""
    height = messages.height
    rows = dict.fromkeys(_hashed(seed, number) % height for number in range(4 * count)) if height else {}
    return [messages.row(row) for row in list(rows)[:count]]


def _weighted(weighed: pl.DataFrame, count: int, seed: int) -> list[tuple[int, ...]]:
    """Choose distinct rows, each draw with a chance in proportion to the last column, ``gain``; it stays out."""
    until = weighed["gain"].cum_sum()
    drawn = [_hashed(seed, number) % until[-1] for number in range(4 * count)] if weighed.height else []
    rows = until.search_sorted(pl.Series(drawn, dtype=pl.Int64), side="right").unique(maintain_order=True)
    return [weighed.row(row)[:-1] for row in rows[:count]]


def _hashed(seed: int, number: int) -> int:
    return int.from_bytes(sha256(f"{seed}/{number}".encode()).digest()[:8])
