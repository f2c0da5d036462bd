"""Agents that are asked step by step: each message after the answer to the one before."""

import json
import os
import random
import select
import stat
import struct
import time
from itertools import pairwise

import polars as pl
import pytest

import clvlab as cl
from clvlab.agents.isolation.agent import isolated, step_by_step
from clvlab.agents.isolation.code import code_of
from clvlab.agents.isolation.limits import ProcessLimits
from clvlab.agents.isolation.process import AgentProcess
from clvlab.agents.isolation.sandbox import can_lock_in
from clvlab.agents.isolation.steps import Stepper, answered, steps
from clvlab.agents.ticks import TickFollower
from clvlab.engine.run import run
from clvlab.errors import AgentError, AgentFailedError, ArgumentError
from clvlab.law.actions import decisions_of
from clvlab.law.closing import Window
from clvlab.proof import clv_verify
from clvlab.proof.evidence import read_evidence
from clvlab.store.folder import write_run
from tests.factories import make_tape, message

pytestmark = pytest.mark.skipif(not can_lock_in(), reason="the kernel or libseccomp can't lock a process in")
TAPE = make_tape(
    [
        message(0, 0, {"part1": 5000, "part2": 5000}),
        message(1, 100, {"part1": 5500, "part2": 4500}),
        message(2, 200, {"part1": 5600, "part2": 4400}),
    ]
)


class Drift(cl.TickAgent):
    """Backs what has come in by four points since its first price."""

    def __init__(self):
        self.first = {}

    def on_tick(self, book):
        backs = []
        for side in book.sides():
            prob, key = book.prob_bps(side), (book.fixture_id, book.market_key, side)
            if prob is None or prob - self.first.setdefault(key, prob) < 400:
                continue
            self.first[key] = 10_000
            backs.append(book.back(side, reason=f"{book.fixture.home} {book.age_ms()} {book.in_running}"))
        return backs or None


class Everything(cl.TickAgent):
    """Says what it is told, at every message."""

    def on_tick(self, book):
        seen = [(side, book.prob_bps(side), book.odds_milli(side)) for side in book.sides()]
        return book.wait(f"{book.market_key} {book.suspended()} {book.ts_ms} {book.fixture} {seen}"[:1000])


def decisions(test):
    return read_evidence(test.run.source.events).decisions


@pytest.mark.parametrize("agent", [Drift(), Everything()], ids=["drift", "everything"])
def test_decisions_are_those_of_an_agent_that_is_audited(agent):
    one, other = (cl.backtest("starter", agent, stepped=stepped) for stepped in (True, False))

    assert decisions(one).height > 0
    assert decisions(one).equals(decisions(other))
    assert one.scores.equals(other.scores)


def test_seal_says_stepped_and_every_verifier_reads_it(tmp_path):
    test = cl.backtest("starter", Drift(), stepped=True)

    [agent] = read_evidence(test.run.source.events).started["agents"]
    assert agent["causality"] == "stepped"
    assert test.run.verify().passed
    assert not any(clv_verify.verify(write_run(test.run.source, tmp_path))["checks"].values())


class Waiting(cl.TickAgent):
    """Looks for a message that waits to be read, in every pipe that it has."""

    def on_tick(self, book):
        waiting = select.poll()
        for number in range(3, 64):
            try:
                is_pipe = stat.S_ISFIFO(os.fstat(number).st_mode)
            except OSError:  # no file of this number
                continue
            if is_pipe:
                waiting.register(number, select.POLLIN)
        found = [number for number, what in waiting.poll(0) if what & select.POLLIN]
        return book.wait(f"{found}")


def test_no_later_message_waits_where_the_process_could_read_it():
    decided = isolated(Waiting(), stepped=True).decide(TAPE)

    assert set(decided["reason"]) == {"[]"}
    assert decided["tick_seq"].to_list() == [0, 1, 2]


def test_a_message_says_nothing_of_later_ones():
    whole = list(steps(TAPE))

    assert [at for at, _ in whole] == [(1, 0), (1, 1), (1, 2)]
    for count in (1, 2):
        assert list(steps(TAPE.keep(TAPE.rows["tick_seq"] < count))) == whole[:count]
    assert all(len(first) > len(second) for (_, first), (_, second) in pairwise(whole[:2]))  # names come once


def test_an_answer_counts_at_the_message_that_was_asked_about():
    answer = b'[[1,2,"BACK","m","s",100,null,null,null,null]]'

    assert answered(answer, (1, 2))[0][2:5] == ("BACK", "m", "s")
    for at in ((1, 1), (1, 3), (2, 2)):
        with pytest.raises(AgentError, match="it decided at"):
            answered(answer, at)


@pytest.mark.parametrize("answer", [b"{", b"1", b"[1]", b"null", b"[" * 100_000])
def test_bytes_that_are_no_decisions_are_refused(answer):
    with pytest.raises(AgentFailedError, match="no decisions"):
        answered(answer, (1, 2))


@pytest.mark.parametrize("seed", range(10))
def test_a_message_says_nothing_of_markets_that_come_later(seed):
    """Markets lie on the tape by fixture and name, and their numbers there count those that are still to come."""
    tape = made_up(seed)
    last = tape.rows["ts_ms"].max() // 2
    part = list(steps(tape.keep(tape.rows["ts_ms"] <= last)))

    assert part == list(steps(tape))[: len(part)]


WAIT = [1, 2, "WAIT", None, None, None, None, None, None, None]


@pytest.mark.parametrize(
    ("column", "value"), [(0, True), (1, 2.0), (2, None), (3, 1.5), (5, 1.5), (7, ["x"]), (8, "0.5"), (9, {}), (10, 1)]
)
def test_decision_of_other_types_is_refused(column, value):
    other = [*WAIT[:column], value, *WAIT[column + 1 :]]

    with pytest.raises(AgentFailedError, match="of other types"):
        answered(json.dumps([WAIT, other]).encode(), (1, 2))
    assert len(answered(json.dumps([WAIT]).encode(), (1, 2))) == 1


class Long(cl.TickAgent):
    """Says as much as one answer may hold, at every message."""

    def on_tick(self, book):
        return book.wait("x" * 1_000_000)


MANY = make_tape([message(n, n, {"part1": 5000, "part2": 5000}) for n in range(60)])


def test_answers_take_no_more_memory_together_than_those_to_one_question():
    with pytest.raises(AgentFailedError, match=r"\d decisions in 3\d,\d{3},\d{3} bytes, more than there can be"):
        isolated(Long(), stepped=True).decide(MANY)


class Loud(cl.TickAgent):
    """Prints a tenth of what may be printed, at every message."""

    def on_tick(self, book):
        print(f"{book.tick_seq:104857}")


def test_what_is_printed_is_bounded_over_all_steps(capsys):
    isolated(Loud(), stepped=True).decide(MANY)

    assert 900_000 < len(capsys.readouterr().out) <= 1 << 20


class Failing(cl.TickAgent):
    def on_tick(self, book):
        if book.tick_seq == 1:
            raise ValueError("enough")


def test_an_agent_that_fails_between_two_steps_is_told_by_its_own_words():
    with pytest.raises(AgentFailedError, match="enough"):
        isolated(Failing(), stepped=True).decide(TAPE)


class Slow(cl.TickAgent):
    def on_tick(self, book):
        while book.tick_seq == 1:
            time.sleep(60)


def test_an_agent_that_gives_no_answer_to_a_step_is_ended():
    with pytest.raises(AgentFailedError, match="no answer in 3 s"):
        isolated(Slow(), stepped=True, timeout_s=3).decide(TAPE)


def test_process_that_was_asked_step_by_step_can_be_asked_again():
    agent = isolated(Everything(), stepped=True)

    assert agent.decide(TAPE).equals(agent.decide(TAPE))


def test_template_and_what_is_no_answer_are_refused():
    with pytest.raises(AgentError, match="needs no isolation"):
        cl.backtest("starter", "baseline", stepped=True)
    with pytest.raises(ArgumentError, match="stepped is True or False, not 1"):
        cl.backtest("starter", Drift(), stepped=1)


def test_limits_and_parameters_are_kept_when_an_agent_is_asked_step_by_step():
    agent = step_by_step(isolated(Drift(), timeout_s=7))

    assert (agent.steps, agent.blocks, agent.limits.timeout_s) == (True, False, 7)
    assert isolated(agent, timeout_s=8).steps
    assert agent.as_sealed("other", {}).steps


def made_up(seed):
    """Tape of fixtures whose messages come at one another's times, some in play, some without a price."""
    dice, messages = random.Random(seed), []
    for fixture_id in range(1, 1 + dice.randint(1, 4)):
        ts_s = dice.randint(0, 5)
        for tick_seq in range(dice.randint(1, 30)):
            ts_s += dice.choice([0, 0, 1, 7])
            key, sides = dice.choice([("1X2", ("draw", "part1", "part2")), ("OU||line=2.5", ("over", "under"))])
            priced = dice.random() < 0.9
            quotes = {side: dice.randint(1, 9999) if priced else None for side in sides}
            messages.append(message(tick_seq, ts_s, quotes, market_key=key, fixture_id=fixture_id, in_running=ts_s > 60))
    return make_tape(messages, {1: 50.0})


@pytest.mark.parametrize("markets", [("",), ("OU",)])
@pytest.mark.parametrize("seed", range(30))
def test_step_by_step_an_agent_is_told_what_it_is_told_of_the_whole(seed, markets):
    tape, agent = made_up(seed), Everything()
    agent.markets = markets
    stepper = Stepper(TickFollower(agent))

    answers = [(at, stepper.take(step)) for at, step in steps(tape)]

    decided = decisions_of([one for at, answer in answers if answer for one in answered(answer, at)], "Everything")
    assert decided.equals(agent.decide(tape))


def test_tape_is_sorted_before_any_code_of_the_agent_runs(monkeypatch, request):
    """It takes the longer the more messages there are."""
    process, loaded = AgentProcess(code_of(Everything()), ProcessLimits.of()), []
    request.addfinalizer(process.close)

    def watched(tape):
        loaded.append(process._loaded)
        yield from steps(tape)

    monkeypatch.setattr("clvlab.agents.isolation.process.steps", watched)

    assert len(process.stepped(TAPE, **isolated(Everything()).configured)) == 3
    assert loaded == [False]


class Again(Everything):
    pass


def test_nothing_that_has_seen_a_tape_lives_beside_an_agent_that_is_asked_step_by_step(monkeypatch):
    """Another process of the same author, which knows how it all ends, would tell it by the work that it does."""
    beside, living = [], set()

    class Watched(AgentProcess):
        def decisions(self, tape, **configured):
            living.add(self)
            return super().decisions(tape, **configured)

        def stepped(self, tape, **configured):
            beside.append(len(living))
            living.add(self)
            return super().stepped(tape, **configured)

        def close(self):
            super().close()
            living.discard(self)

    monkeypatch.setattr("clvlab.agents.isolation.agent.AgentProcess", Watched)
    whole = isolated(cl.strategy(agent_id="a")(lambda ticks: ticks.filter(pl.col("tick_seq") == 1)))
    whole.decide(TAPE)  # its process is kept

    result = run(TAPE, [whole, isolated(Everything(), stepped=True), isolated(Again(), stepped=True)], Window(), audit_seed=1)

    assert beside == [0, 0]
    assert result.evidence.decisions.height == 3 + 3 + 2


class Ahead(cl.TickAgent):
    """Answers the next messages by way of the pipe, before they come, and so gets several that it has answered."""

    def on_tick(self, book):
        if book.tick_seq == 0:
            for number in range(3, 64):
                try:
                    os.write(number, struct.pack("<cQ", b"S", 0))
                except OSError:  # no file of this number, or none to write to
                    continue
        return book.back("part1")


def test_an_answer_that_was_written_ahead_stands_and_a_later_one_counts_nowhere():
    with pytest.raises(AgentError, match="it decided at"):
        isolated(Ahead(), stepped=True).decide(TAPE)
