"""The look-ahead audit: whether what an agent decided by a tick depends on what came after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

import polars as pl

from clvlab.engine.agent import Agent, asked
from clvlab.engine.replay import located
from clvlab.errors import AgentError, ClvlabError
from clvlab.law.schema import DECISIONS
from clvlab.law.tape import Tape

__all__ = ["LookaheadReport", "lookahead_audit", "prefix"]

_ORDER = ["ts_ms", "fixture_id", "tick_seq"]
_PPM_DIGITS = 6  # a confidence is sealed in millionths
Message = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LookaheadReport:
    """What the audit found.

    Attributes
    ----------
    agent_id
        Who was audited.
    cuts
        Prefixes that were compared with the whole.
    moved
        ``DECISIONS`` that differ, with ``change``: ``vanished`` (made only when later ticks are known) or ``appeared`` (made,
        and taken back when later ticks are known); and the last message of the first prefix that shows it: ``cut_ts_ms``,
        ``cut_fixture_id``, ``cut_tick_seq``. Empty when the agent passed.
    decisions
        ``DECISIONS`` over all that was audited.
    whole
        Whether that was the whole tape, and not some of its fixtures.
    """

    agent_id: str
    cuts: int
    moved: pl.DataFrame
    decisions: pl.DataFrame
    whole: bool = True

    @property
    def passed(self) -> bool:
        return self.moved.is_empty()

    def __repr__(self) -> str:
        audited = f"Look-ahead audit of {self.agent_id!r}"
        if self.passed:
            return f"{audited}: passed, decisions on {self.cuts} prefixes equal those on the whole tape"
        first = self.moved.row(0, named=True)
        what = " ".join(str(first[name]) for name in ("action", "market_key", "side") if first[name] is not None)
        story = "is not made when" if first["change"] == "vanished" else "is made, and later taken back, when"
        return (
            f"{audited}: FAILED, {self.moved.height} decision(s) depend on later ticks; the first, {what} at tick "
            f"{first['tick_seq']} of fixture {first['fixture_id']}, {story} the tape ends at tick {first['cut_tick_seq']} of "
            f"fixture {first['cut_fixture_id']}; all of them stand in .moved"
        )


def lookahead_audit(agent: Agent, tape: Tape, *, cuts: int = 24, seed: int = 0, max_rows: int = 1_000_000) -> LookaheadReport:
    """Compare an agent's decisions on prefixes of a tape with the prefixes of its decisions.

    A third of the prefixes end anywhere, and are asked before the whole; a third, as far as there are some, where the agent
    decided at a message without prices, where a fill from behind shows; the others where it decided, where a peek at the next
    message shows. The same seed cuts at the same messages. An agent that passes may still look ahead where no cut fell, or
    know the tape from a call before the audit.

    A prefix numbers its series anew: an agent that computes with the number, and does not only group by it, fails.

    Parameters
    ----------
    agent
        Any agent; it is asked once for the whole and once for each prefix.
    tape
        What it decides on.
    cuts
        Number of prefixes, at least 1.
    seed
        Chooses the messages at which the tape is cut.
    max_rows
        A longer tape is audited on some of its fixtures, until this many rows are reached.

    Raises
    ------
    AgentError
        The agent fails on a prefix, is not deterministic, or ``cuts`` is less than 1.
    DecisionError
        Decisions that can't be sealed.
    """
    if cuts < 1:
        raise AgentError(f"an audit needs at least 1 cut, not {cuts}")
    part = _some_fixtures(tape, max_rows, seed)
    report = _audited(agent, part, cuts, seed)
    if part is not tape and report.decisions.is_empty():
        deciding = asked(agent, tape)["fixture_id"].unique()
        report = _audited(agent, _some_fixtures(tape, max_rows, seed, frozenset(deciding)), cuts, seed)
    return report if part is tape else replace(report, whole=False)


def _audited(agent: Agent, tape: Tape, cuts: int, seed: int) -> LookaheadReport:
    """Ask on prefixes anywhere, then on the whole, then on prefixes that end where it decided.

    The first come before the whole, shortest first: what an agent keeps from one call to the next then knows no later tick.
    """
    ordered = tape.messages.sort(_ORDER).select(_ORDER)
    early = {cut: _asked_early(agent, prefix(tape, cut)) for cut in sorted(_chosen(ordered, -(-cuts // 3), seed))}
    whole = asked(agent, tape)
    timed = located(tape, whole).select(*DECISIONS, "ts_ms")
    acted = timed.select(_ORDER).unique().sort(_ORDER)
    unpriced = tape.rows.select("tick_seq", "prob_bps", fixture_id=_fixtures(tape)).filter(pl.col("prob_bps").is_null())
    blind = acted.join(unpriced, on=["fixture_id", "tick_seq"], how="semi", maintain_order="left")
    late = dict.fromkeys(_chosen(blind, cuts // 3, seed) + _chosen(acted, cuts, seed + 1))
    chosen = [cut for cut in late if cut not in early][: cuts - len(early)]
    answers = early | {cut: _asked_early(agent, prefix(tape, cut)) for cut in chosen}
    found = [_moved(timed.clear(), (0, 0, 0), "vanished"), *(_compared(timed, answers[cut], cut) for cut in sorted(answers))]
    moved = pl.concat(found).unique([*DECISIONS, "change"], keep="first", maintain_order=True)
    if moved.height and not asked(agent, tape).equals(whole):
        raise AgentError(
            f"agent {agent.identity.agent_id!r} is not deterministic: asked twice over the same tape it answers twice"
        )
    return LookaheadReport(agent.identity.agent_id, len(answers), moved, whole)


def prefix(tape: Tape, last: Message) -> Tape:
    """Give the tape as it was after a message (ts_ms, fixture_id, tick_seq): everything later is gone.

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


def _asked_early(agent: Agent, tape: Tape) -> pl.DataFrame:
    """Ask on a prefix, and say so where the agent fails there."""
    try:
        return asked(agent, tape)
    except ClvlabError:
        raise
    except Exception as error:  # an agent is foreign code
        failure = f"{type(error).__name__}: {error}"
        raise AgentError(f"agent {agent.identity.agent_id!r} fails on a prefix of the tape with {failure}") from error


def _compared(timed: pl.DataFrame, then: pl.DataFrame, cut: Message) -> pl.DataFrame:
    """Find the decisions by a cut that later messages change."""
    by_then = timed.filter(_until(cut))
    key = [pl.col(name).round(_PPM_DIGITS) if name == "confidence" else pl.col(name) for name in DECISIONS]
    vanished = by_then.join(then, on=key, how="anti", nulls_equal=True, maintain_order="left")
    appeared = then.join(by_then, on=key, how="anti", nulls_equal=True, maintain_order="left")
    return pl.concat([_moved(vanished, cut, "vanished"), _moved(appeared, cut, "appeared")])


def _moved(decisions: pl.DataFrame, cut: Message, change: str) -> pl.DataFrame:
    names = ("cut_ts_ms", "cut_fixture_id", "cut_tick_seq")
    return decisions.select(
        *DECISIONS, pl.lit(change).alias("change"), *(pl.lit(v, pl.Int64).alias(n) for n, v in zip(names, cut, strict=True))
    ).sort("fixture_id", "tick_seq", maintain_order=True)


def _some_fixtures(tape: Tape, max_rows: int, seed: int, deciding: frozenset[int] = frozenset()) -> Tape:
    """Keep whole fixtures in seeded order, those with decisions first, until the rows are reached."""
    if tape.rows.height <= max_rows:
        return tape
    sizes = dict(tape.series.group_by("fixture_id").agg(pl.col("rows").sum()).iter_rows())
    kept: list[int] = []
    total = 0
    for fixture_id in sorted(sizes, key=lambda one: (one not in deciding, _hashed(seed, one))):
        total += sizes[fixture_id]
        if kept and total > max_rows:
            break
        kept.append(fixture_id)
    return tape.keep(_fixtures(tape).is_in(pl.Series(kept, dtype=pl.Int64).implode()))


def _chosen(messages: pl.DataFrame, count: int, seed: int) -> list[Message]:
    """Choose distinct messages by hash: the same for the same seed on every machine."""
    height = messages.height
    rows = dict.fromkeys(_hashed(seed, number) % height for number in range(4 * count)) if height else {}
    return [messages.row(row) for row in list(rows)[:count]]


def _hashed(seed: int, number: int) -> int:
    return int.from_bytes(sha256(f"{seed}/{number}".encode()).digest()[:8])
