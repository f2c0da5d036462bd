"""Agents of live runs that answer another question, or differ after a restart: they fail, and the others continue."""

import orjson
import pytest

import clvlab as cl
from clvlab.agents.registry import template
from clvlab.arena.replays import replay_run
from clvlab.runs.live.journal import Answers, Failure, Journal
from clvlab.runs.live.spec import LiveSpec, follow
from clvlab.sources.capture.feed import FeedMessage, Stop
from tests.live import FIXTURE, MESSAGES, Around, Pausing, played

OWN = """
import clvlab as cl
import clvlab.agents.ticks as ticking


class Own(cl.TickAgent):
    "Has its process answer whatever it returns."

    agent_id = "own"

    def decided_at(self, book):
        return (book.fixture_id, book.tick_seq)

    def on_tick(self, book):
        ticking._checked = lambda answer, book: answer
        if book.tick_seq == 50:
            claims = (None, None, None)
            return [(*self.decided_at(book), "BACK", book.market_key, book.sides()[0], 100, None, *claims)]


class Earlier(Own):
    def decided_at(self, book):
        return (book.fixture_id, 2)


class Later(Own):
    def decided_at(self, book):
        return (book.fixture_id, 100_000)


class Elsewhere(Own):
    def decided_at(self, book):
        return (17, book.tick_seq)


class Claiming(cl.TickAgent):
    agent_id = "own"

    def on_tick(self, book):
        claims = {3: float("nan"), 9: float("inf"), 12: -0.0}
        if book.tick_seq in claims:
            return book.back(book.sides()[0], confidence=claims[book.tick_seq])


class Quiet(cl.TickAgent):
    agent_id = "own"

    def on_tick(self, book):
        return book.back(book.sides()[0]) if book.tick_seq == 3 else None


class LastHour:
    "Decides by the kickoff."

    identity = ticking.Identity("own", "last-hour", "1")

    def decide(self, tape):
        import polars as pl
        from clvlab.law.schema import DECISIONS

        (kickoff,) = tape.fixtures["kickoff_ts_ms"]
        ticks = tape.ticks().collect().filter(pl.col("prob_bps") > 6000, pl.col("ts_ms") > (kickoff or 0) - 3_600_000)
        given = {"agent_id": pl.lit("own"), "action": pl.lit("BACK"), "stake": pl.lit(1)}
        absent = {name: pl.lit(None) for name in ("limit_odds_milli", "reason", "confidence", "claimed_edge_bps")}
        return ticks.with_columns(**given, **absent).select(pl.col(name).cast(dtype) for name, dtype in DECISIONS.items())


last_hour = LastHour()
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("agents") / "own.py"
    path.write_text(OWN)
    return path


def plan_of(*agents, feed=None):
    feed = feed or played()
    (fixture,) = [one for one in feed.fixtures() if one.fixture_id == FIXTURE]
    return LiveSpec(feed=feed, fixture=fixture, agents=[template("baseline"), *agents], origin_id="live_of_a_test")


def errors(done):
    return [(error["agent_id"], error["error"]) for error in done.evidence.errors]


@pytest.mark.parametrize("name", ["Earlier", "Later", "Elsewhere"])
def test_a_decision_at_another_message_than_the_agent_was_asked_at_is_its_error(source, tmp_path, name):
    done = follow(plan_of(cl.isolated(f"{source}:{name}")), tmp_path / "run", Stop())

    assert errors(done) == [("own", "LookaheadError")]
    assert "asked at tick 50" in done.causes["own"]
    assert set(done.scores["agent_id"]) == {"baseline"}


def test_claims_that_are_no_numbers_are_the_same_when_the_agent_is_asked_again(source, tmp_path):
    stop, agent = Stop(), cl.isolated(f"{source}:Claiming")

    def told(message, _):
        if message.tick_seq == 30:
            stop.set()

    paused = follow(plan_of(agent, feed=Pausing(40)), tmp_path / "run", stop, on_message=told)
    done = follow(plan_of(agent), tmp_path / "run", Stop())

    assert paused is None
    assert errors(done) == []
    assert done.evidence.decisions.filter(agent_id="own")["confidence_raw"].to_list() == ["nan", "inf", None]


def test_a_file_that_changes_under_an_agent_is_its_error_and_no_other_agents(source, tmp_path):
    model = tmp_path / "model.bin"
    model.write_text("before")

    def told(message, _):
        if message.tick_seq == 100:
            model.write_text("after")

    done = follow(plan_of(cl.isolated(f"{source}:Quiet", reads=[model])), tmp_path / "run", Stop(), on_message=told)

    assert errors(done) == [("own", "AgentError")]
    assert set(done.scores["agent_id"]) == {"baseline"}


class Moving(Around):
    """Says another kickoff than was announced, or none."""

    def __init__(self, by_ms):
        super().__init__()
        self.by_ms = by_ms

    def listen(self, stop, fixture_ids=(), after=None):
        for item in super().listen(stop, fixture_ids, after):
            said = orjson.loads(item.text)
            said["kickoff_ts_ms"] = None if self.by_ms is None else said["kickoff_ts_ms"] + self.by_ms
            yield FeedMessage(orjson.dumps(said), item.received_ts_ms, item.provider_ts_ms, item.mark)


@pytest.mark.parametrize("by_ms", [None, 7_200_000])
def test_an_agent_that_looks_at_the_kickoff_equals_its_replay_when_that_moves_or_is_not_said(source, tmp_path, by_ms):
    agent = cl.isolated(f"{source}:last_hour")

    done = follow(plan_of(agent, feed=Moving(by_ms)), tmp_path / "run", Stop())

    assert done.scores["agent_id"].to_list().count("own") > 3
    found = replay_run(done.sealed, pack=done.pack.folder, agents=[agent])
    assert found.agrees, found.detail


def test_a_transcript_that_goes_on_after_the_match_equals_its_replay(tmp_path):
    ticks = (5, 200, MESSAGES + 1)
    transcript = [{"fixture_id": FIXTURE, "tick_seq": tick_seq, "action": "WAIT"} for tick_seq in ticks]

    done = follow(plan_of(template("llm", {"transcript": transcript})), tmp_path / "run", Stop())

    assert done.scores["agent_id"].to_list().count("llm") == 2
    assert replay_run(done.sealed, pack=done.pack.folder).agrees


def test_who_has_failed_once_has_failed_whatever_is_written_of_the_message_later(tmp_path):
    decision = (FIXTURE, 3, "BACK", "1X2||", "draw", 1, None, None, None, None)
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write(3, 0, Answers({"a": [decision], "b": [decision]}, {"c": Failure("TimedOut", "30 s")}))
    journal.write(3, 0, Answers({"a": [decision]}, {"b": Failure("LookaheadError", "otherwise")}))
    journal.close()

    again = Journal(tmp_path / "journal.jsonl")
    again.close()

    assert again.known[3].failed.keys() == {"b", "c"}
    assert again.known[3].decided == journal.known[3].decided == {"a": [decision]}
