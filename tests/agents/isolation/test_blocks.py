"""Agents of one's own, step by step and by blocks, wherever a run is made: their labels, and runs made again."""

import polars as pl
import pytest

import clvlab as cl
from clvlab.agents.isolation.agent import isolated
from clvlab.agents.isolation.sandbox import can_lock_in
from clvlab.agents.registry import template
from clvlab.arena.replays import replay_run
from clvlab.engine.agent import Identity
from clvlab.errors import AgentError, ArgumentError, LookaheadError
from clvlab.law.actions import decisions_of
from clvlab.proof import clv_verify
from clvlab.proof.evidence import read_evidence
from clvlab.store.folder import write_run
from tests.length import length

pytestmark = pytest.mark.skipif(not can_lock_in(), reason="the kernel or libseccomp can't lock a process in")
PRICED = ("baseline", "cumulative-drift", "sharp-momentum-v2")
OWN = """
import polars as pl
import clvlab as cl


@cl.strategy
def rising(ticks, *, rise_bps=300):
    return ticks.filter(pl.col("prob_bps") - pl.col("prob_bps").shift(5).over("series") >= rise_bps)


class Rising(cl.TickAgent):
    def on_tick(self, book):
        first, _ = book.sides()[0], None
        if (book.prob_bps(first) or 0) >= 6000:
            return book.back(first)


agent = Rising()
"""


@cl.strategy
def rising(ticks, *, rise_bps=300):
    return ticks.filter(pl.col("prob_bps") - pl.col("prob_bps").shift(5).over("series") >= rise_bps)


class Favourite(cl.TickAgent):
    def on_tick(self, book):
        return [book.back(side) for side in book.sides() if (book.prob_bps(side) or 0) >= 6000] or None


class AsOwn:
    """A template, as code of one's own."""

    def __init__(self, name):
        self.name = name

    @property
    def identity(self):
        return Identity(self.name, "as-own", "1")

    def decide(self, tape):
        return template(self.name, {}).decide(tape)


class Repeating:
    """Decides at each message that is new by the last one that it has, and repeats what it said at those before."""

    identity = Identity("repeating", "repeating", "1")

    def __init__(self):
        self.seen, self.said = set(), []

    def decide(self, tape):
        first = tape.ticks().filter(pl.col("side") == "part1").collect()
        last = dict(first.group_by("fixture_id", "market_key", maintain_order=True).agg(pl.last("prob_bps")).select(
            pl.concat_str("fixture_id", "market_key", separator="/"), "prob_bps").iter_rows())  # fmt: skip
        for fixture_id, tick_seq, market, prob in first.select("fixture_id", "tick_seq", "market_key", "prob_bps").iter_rows():
            if (fixture_id, tick_seq) not in self.seen and (last[f"{fixture_id}/{market}"] or 0) > (prob or 10_000):
                self.said.append((fixture_id, tick_seq, "BACK", market, "part1", 100, None, None, None, None))
            self.seen.add((fixture_id, tick_seq))
        return decisions_of(self.said, "repeating")


def labels(test):
    return {agent["agent_id"]: agent["causality"] for agent in read_evidence(test.run.source.events).started["agents"]}


def decisions(test):
    return read_evidence(test.run.source.events).decisions


@pytest.mark.parametrize("agent", [rising, *map(AsOwn, length([], PRICED))])
def test_a_strategy_decides_by_blocks_as_it_does_when_audited(agent, tmp_path):
    one, other = (cl.backtest("starter", agent, stepped=stepped) for stepped in (True, False))

    assert decisions(one).height > 0
    assert decisions(one).equals(decisions(other))
    assert one.scores.equals(other.scores)
    assert (set(labels(one).values()), set(labels(other).values())) == ({"stepped-blocks"}, {"audited-sandbox"})
    assert one.run.verify().passed
    assert not any(clv_verify.verify(write_run(one.run.source, tmp_path))["checks"].values())


def test_one_that_looks_ahead_within_a_block_and_repeats_itself_later_is_found():
    with pytest.raises(LookaheadError, match="depend on later ticks; the first, BACK"):
        cl.backtest("starter", Repeating(), stepped=True)


def test_without_an_audit_nobody_compares_and_the_seal_says_unchecked():
    assert labels(cl.backtest("starter", rising, stepped=True, audit=False)) == {"rising": "unchecked"}
    with pytest.raises(ArgumentError, match="audit=False changes nothing, as no audit is made of Favourite"):
        cl.backtest("starter", Favourite(), stepped=True, audit=False)


def test_both_kinds_compete_beside_a_template():
    test = cl.Lab().compete("starter", [isolated(rising, stepped=True), isolated(Favourite(), stepped=True), "baseline"])

    assert labels(test) == {"Favourite": "stepped", "baseline": "template", "rising": "stepped-blocks"}
    assert test.run.verify().passed


def test_the_best_point_of_a_sweep_is_sealed_as_it_was_asked():
    found = cl.sweep("starter", isolated(rising, stepped=True), {"rise_bps": [300, 400]}, resamples=1_000, progress=False)

    assert found.best().seal().report["agent"]["causality"] == "stepped-blocks"


def test_an_agent_message_by_message_has_no_grid_and_says_so():
    with pytest.raises(AgentError, match="takes no parameters here, as 'rise_bps': make the agent with them"):
        cl.sweep("starter", isolated(Favourite(), stepped=True), {"rise_bps": [300]}, progress=False)


@pytest.mark.parametrize("name", ["rising", "agent"])
def test_run_is_made_again_from_the_file_of_its_agent(tmp_path, name):
    path = tmp_path / "agents.py"
    path.write_text(OWN)
    test = cl.backtest("starter", f"{path}:{name}", stepped=True)

    for stepped in (False, True):
        again = replay_run(test.run.source, agents=[isolated(f"{path}:{name}", stepped=stepped)])

        assert again.agrees, again.detail
        assert "have the same bytes" in again.detail
