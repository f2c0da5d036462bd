"""Agents that try to get past the audit, or at what scores them; each is refused, or gains nothing."""

import gc
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import clvlab as cl
from clvlab.agents.isolation.agent import IsolatedAgent, isolated
from clvlab.agents.isolation.process import AgentProcess
from clvlab.agents.isolation.sandbox import can_lock_in
from clvlab.arena.packs import open_pack
from clvlab.arena.replays import prices_again, replay_run
from clvlab.engine import decisions, lookahead
from clvlab.engine import run as shards
from clvlab.engine.lookahead import lookahead_audit
from clvlab.engine.run import run
from clvlab.errors import AgentError, AgentFailedError, LookaheadError
from clvlab.law.closing import Window
from clvlab.law.schema import Causality
from clvlab.law.tape import Tape
from clvlab.proof.verify import verify
from tests.factories import performed
from tests.length import length

pytestmark = pytest.mark.long

sandboxed = pytest.mark.skipif(not can_lock_in(), reason="the kernel or libseccomp can't lock a process in")
SEEDS = range(length(1, 2))
KEY = ["fixture_id", "tick_seq"]


@pytest.fixture(scope="module")
def season():
    pack = open_pack("season")
    return pack.tape(pack.fixture_ids[:30])


def peeked(ticks):
    """Back what rises at the next message, at some ticks only."""
    rises = pl.col("prob_bps").shift(-1).over("series") - pl.col("prob_bps") > 60
    return ticks.filter(rises, pl.col("tick_seq") % 5 == 0).with_columns(action=pl.lit("BACK"))


def waits(ticks):
    nothing = pl.lit(None, pl.String)
    return ticks.unique(KEY, keep="first", maintain_order=True).with_columns(
        action=pl.lit("WAIT"), market_key=nothing, side=nothing, stake=pl.lit(None, pl.Int64)
    )


PADDINGS = {
    "a WAIT at every tick": waits,
    "a BACK on a market that is not there at every tick": lambda ticks: waits(ticks).with_columns(
        action=pl.lit("BACK"), market_key=pl.lit("nowhere|"), side=pl.lit("nobody"), stake=pl.lit(1)
    ),
    "a BACK on a side that is not there": lambda ticks: ticks.with_columns(
        action=pl.lit("BACK"), side=pl.lit("nobody"), stake=pl.lit(1)
    ).unique([*KEY, "market_key"], keep="first", maintain_order=True),
    "a BACK in play": lambda ticks: ticks.filter("in_running").with_columns(action=pl.lit("BACK"), stake=pl.lit(1)),
    "a BACK too close to the close": lambda ticks: ticks.filter(
        pl.col("tick_seq") > pl.col("tick_seq").max().over("fixture_id") - 3, ~pl.col("in_running")
    ).with_columns(action=pl.lit("BACK"), stake=pl.lit(1)),
}


@pytest.mark.parametrize("padding", length(list(PADDINGS)[-2:], list(PADDINGS)))
def test_peek_at_the_next_message_shows_however_it_is_padded(season, padding):
    pad = PADDINGS[padding]

    @cl.strategy(agent_id="padded")
    def padded(ticks):
        both = [part.select(*KEY, "market_key", "side", "action", stake=pl.lit(5)) for part in (peeked(ticks), pad(ticks))]
        return pl.concat(both).unique([*KEY, "market_key", "side", "action"], keep="first", maintain_order=True)

    alone = run(season, [isolated(padded)], Window())
    assert alone.outcomes["mean_clv_bps"].item() > 25
    for seed in SEEDS:
        with pytest.raises(LookaheadError):
            run(season, [isolated(padded)], Window(), audit_seed=seed)


def found_by_frames():
    frame, tapes = sys._getframe(), []
    while frame is not None:
        tapes += [value for value in frame.f_locals.values() if isinstance(value, Tape)]
        frame = frame.f_back
    return tapes


def found_by_collector():
    return [value for value in gc.get_objects() if isinstance(value, Tape)]


@pytest.mark.parametrize("search", [found_by_frames, found_by_collector], ids=["frames", "gc"])
def test_walk_to_the_whole_tape_finds_no_later_tick(season, search):
    class Searching:
        identity = cl.strategy(agent_id="searching")(lambda ticks: ticks).identity

        def decide(self, tape):
            longest = max([tape, *search()], key=lambda other: other.rows.height)
            closes = longest.rows.group_by("series").agg(close=pl.col("prob_bps").last())
            rises = longest.rows.join(closes, on="series", maintain_order="left").filter(
                pl.col("close") - pl.col("prob_bps") > 600
            )
            names = longest.series.with_row_index("series").select("series", "fixture_id", "market_key", "side")
            found = rises.join(names, on="series").select(*KEY, "market_key", "side")
            shown = tape.messages.select(KEY)
            return cl.strategy(agent_id="searching")(lambda _: found).decide(tape).join(shown, on=KEY, how="semi")

    searching = isolated(Searching())

    assert run(season, [searching], Window()).outcomes["mean_clv_bps"].item() > 100
    with pytest.raises(LookaheadError):
        run(season, [searching], Window(), audit_seed=3)


PATCHES = """
from dataclasses import replace

import polars as pl
import clvlab
from clvlab.engine import agent, decisions, lookahead, replay, run as shards
from clvlab.law import closing, clv
from clvlab.law import positions

def better(*arguments, **options):
    made = original(*arguments, **options)
    states = replace(made.closes.states, prob_bps=made.closes.states.prob_bps + 300)
    return replace(made, closes=replace(made.closes, states=states))

original = replay.with_states
shards.with_states = replay.with_states = better
lookahead._compared = lambda timed, then, cut: lookahead._moved(timed.clear(), cut, "vanished")
lookahead.lookahead_audit = decisions.lookahead_audit = None
agent.is_registered = lambda agent: True

@clvlab.strategy
def peek(ticks):
    return ticks.filter(pl.col("prob_bps").shift(-1).over("series") - pl.col("prob_bps") > 60)

@clvlab.strategy
def plain(ticks):
    return ticks.filter(pl.col("tick_seq") == 3)
"""


@pytest.fixture
def patching(tmp_path):
    file = tmp_path / "patching.py"
    file.write_text(PATCHES)
    return file


def test_agent_that_replaces_the_audit_is_audited_all_the_same(patching):
    before = (lookahead._compared, decisions.lookahead_audit)

    with pytest.raises(LookaheadError):
        performed(open_pack("season"), f"{patching}:peek")

    assert (lookahead._compared, decisions.lookahead_audit) == before


def test_agent_that_replaces_the_engine_is_sealed_with_the_closes_of_the_ticks(patching):
    test = performed(open_pack("starter"), f"{patching}:plain")

    assert prices_again(test.sealed, "starter").agrees
    assert replay_run(test.sealed, agents=[isolated(f"{patching}:plain")]).agrees


def test_closes_made_up_by_a_patched_engine_do_not_survive_the_ticks(patching, monkeypatch):
    """Whoever runs the engine may patch it: the run is sound, and the agent's file would patch the replay alike."""
    original = shards.with_states

    def better(*arguments, **options):
        made = original(*arguments, **options)
        states = replace(made.closes.states, prob_bps=made.closes.states.prob_bps + 300)
        return replace(made, closes=replace(made.closes, states=states))

    with monkeypatch.context() as patched:
        patched.setattr(shards, "with_states", better)
        forged = performed(open_pack("starter"), f"{patching}:plain")

    assert verify(forged.sealed, forged.receipts).passed
    for outcome in (
        prices_again(forged.sealed),
        prices_again(forged.sealed, "starter"),
        replay_run(forged.sealed, forged.receipts, agents=[isolated(f"{patching}:plain")]),
    ):
        assert not outcome.agrees
        assert "the ticks of pack 'starter' do not give the line with seq" in outcome.detail


class Ahead(cl.TickAgent):
    """Reads the row after the one it is shown, in the columns behind the book."""

    def on_tick(self, book):
        prices, row = book._columns["prob_bps"], book._rows[book.market_key]
        if row + 1 < len(prices) and 0 < prices[row] < prices[row + 1] - 60:
            return book.back(book.sides()[0])
        return None


def test_tick_agent_that_reads_ahead_is_refused(season):
    with pytest.raises(LookaheadError):
        run(season, [isolated(Ahead())], Window(), audit_seed=1)


@sandboxed
def test_agent_that_reads_the_file_of_the_pack_is_refused():
    @cl.strategy
    def reader(ticks):
        whole = pl.read_parquet(Path(cl.__file__).parents[1] / "packs" / "season" / "ticks.parquet")
        return ticks.filter(pl.col("tick_seq") == whole["tick_seq"].max())

    with pytest.raises(AgentFailedError, match=r"Permission denied|No such file"):
        performed(open_pack("season"), reader)


@sandboxed
def test_agent_that_leaves_closes_for_a_later_call_is_refused(tmp_path):
    left = str(tmp_path / "closes.parquet")

    @cl.strategy
    def leaver(ticks):
        shown = ticks.collect()
        if not Path(left).exists() or pl.read_parquet(left).height < shown.height:
            shown.write_parquet(left)
        longest = pl.read_parquet(left)
        rises = pl.col("prob_bps").last().over("series") - pl.col("prob_bps") > 600
        return longest.filter(rises).join(shown, on=["series", *KEY], how="semi")

    with pytest.raises(AgentFailedError, match=r"Permission denied|Operation not permitted|No such file"):
        performed(open_pack("starter"), leaver)
    assert not Path(left).exists()


def test_agent_that_remembers_what_it_was_asked_before_is_refused(season):
    memory = {}

    class Learner(cl.TickAgent):
        def on_tick(self, book):
            memory[book.fixture_id, book.market_key] = max(memory.get((book.fixture_id, book.market_key), 0), book.tick_seq)
            return book.wait(str(memory[book.fixture_id, book.market_key])) if book.tick_seq < 3 else None

    agent = isolated(Learner())
    first, again = agent.decide(season), agent.decide(season)

    assert not first.equals(again)  # a process that is kept remembers, so nothing that it says is sealed
    assert (
        run(season, [agent], Window())
        .evidence.decisions["reason"]
        .equals(run(season, [agent], Window()).evidence.decisions["reason"])
    )


def test_template_that_is_made_by_hand_is_an_agent_of_ones_own():
    from clvlab.agents.registry import template
    from clvlab.agents.template import Template

    made = template("baseline")
    mine = Template("baseline", "baseline", made.config, lambda tape, config: made.rule(tape, config))

    with pytest.raises(AgentError, match="Template is code of your own"):
        run(open_pack("starter").tape(), [mine], Window())
    sealed = performed(open_pack("starter"), mine).verification.started["agents"][0]
    assert sealed["causality"] != "template"
    assert sealed["source_sha256"] is not None


def test_isolated_agent_with_methods_of_ones_own_is_refused():
    """They would run where runs are scored, and could name any label."""
    with pytest.raises(AgentError, match="can't extend IsolatedAgent"):

        class Mine(IsolatedAgent):
            audited = Causality.TEMPLATE


def test_process_is_asked_when_those_that_were_asked_before_have_ended(season, monkeypatch):
    """Two that live at one time can tell each other by the time that things take what each was shown."""
    beside, running = [], []

    class Watched(AgentProcess):
        def decisions(self, tape, **configured):
            beside.append(len(set(running) - {self}))
            running.append(self)
            return super().decisions(tape, **configured)

        def close(self):
            super().close()
            running[:] = [one for one in running if one is not self]

    monkeypatch.setattr("clvlab.agents.isolation.agent.AgentProcess", Watched)
    alone = cl.strategy(agent_id="alone")(lambda ticks: ticks.filter(pl.col("tick_seq") == 3))

    for max_rows in (season.rows.height, season.rows.height // 2):
        lookahead_audit(isolated(alone), season, seed=1, max_rows=max_rows)

    assert len(beside) > 40
    assert set(beside) == {0}
