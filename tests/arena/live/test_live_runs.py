"""A live run equals the replay of what it captured, however often it was broken off."""

import json
from dataclasses import replace
from random import Random

import polars as pl
import pytest

import clvlab as cl
from clvlab.agents.registry import template
from clvlab.arena.packs import bundled_catalog
from clvlab.engine.run import run
from clvlab.errors import DecisionError, SourceError
from clvlab.packs.verification import verify_pack
from clvlab.proof.verify import verify
from clvlab.runs.live.spec import LiveSpec, follow
from clvlab.sources.capture.feed import Cut, GapCause, Resumption, Stop
from clvlab.sources.capture.replay import ReplayFeed
from tests.length import length
from tests.live import Cutting, Pausing
from tests.waiting import PATIENCE_S

FIXTURE = 90000000


class Swings(cl.TickAgent):
    """Backs what is likelier than it was two messages ago."""

    def __init__(self):
        self.before = {}

    def on_tick(self, book):
        for side in book.sides():
            now, then = book.prob_bps(side), self.before.get((book.market_key, side), [])
            self.before[book.market_key, side] = [*then[-1:], now]
            if now and len(then) == 2 and then[0] and now > then[0] + 60:
                return book.back(side, stake=20, confidence=now / 10_000)
        return None


@cl.strategy(markets=("1X2",))
def risers(ticks, *, rise_bps=80):
    rise = pl.col("prob_bps") - pl.col("prob_bps").shift(3).over("series")
    return ticks.filter(rise >= rise_bps)


@pytest.fixture(scope="module")
def pack():
    return bundled_catalog().open("starter")


@pytest.fixture
def plan(pack):
    """A plan over a replay that is as fast as can be; every test runs it anew."""
    feed = ReplayFeed(pack=pack, speed=1e12, shift=True)
    agents = [template(name) for name in ("baseline", "cumulative-drift", "sharp-momentum-v2")]
    (fixture,) = [one for one in feed.fixtures() if one.fixture_id == FIXTURE]
    return LiveSpec(feed=feed, fixture=fixture, agents=agents, origin_id="run of a test")


@pytest.fixture
def mixed(plan):
    """The same with an agent of one's own, which has a process of its own."""
    return replace(plan, agents=[*plan.agents, cl.isolated(Swings())])


def lines(sealed, *kinds):
    found = [json.loads(line) for line in sealed.events.splitlines()]
    return [line["payload"] for line in found if line["kind"] in kinds]


def replayed(live, agents):
    return run(live.pack.tape([FIXTURE]), agents, live.window, audit_seed=None).sealed


def test_a_live_run_equals_the_replay_of_its_capture(mixed, tmp_path):
    live = follow(mixed, tmp_path / "run", Stop())

    verify_pack(live.pack.folder)
    assert verify(live.sealed, live.receipts).verified
    assert lines(live.sealed, "DECISION", "MARKET_CLOSE") == lines(replayed(live, mixed.agents), "DECISION", "MARKET_CLOSE")
    assert {line["agent_id"] for line in lines(live.sealed, "DECISION")} == {agent.identity.agent_id for agent in mixed.agents}


def test_a_live_run_says_so_in_its_evidence(plan, tmp_path):
    live = follow(plan, tmp_path / "run", Stop())

    (started,), (sealed,) = lines(live.sealed, "RUN_STARTED"), lines(live.sealed, "RUN_SEALED")
    assert (started["source_mode"], started["mode_label"]) == ("live", "Live paper")
    assert started["binding"] == {"pack_id": None, "fixture_ids": [FIXTURE], "content_hash": None}
    assert {agent["causality"] for agent in started["agents"]} == {"live"}
    assert sealed["content_hash"] == live.pack.content_hash
    assert started["run_id"] == plan.run_id


def test_the_run_is_sealed_at_the_message_that_says_play_began(plan, tmp_path):
    live = follow(plan, tmp_path / "run", Stop())

    messages = live.pack.tape([FIXTURE]).messages
    assert messages["in_running"].sum() == 1
    assert messages["in_running"][-1]


def test_a_columnar_agent_decides_anew_and_equals_its_replay(plan, tmp_path):
    agents = [cl.isolated(risers)]
    live = follow(replace(plan, agents=agents), tmp_path / "run", Stop())

    assert len(lines(live.sealed, "DECISION")) > 3
    assert lines(live.sealed, "DECISION", "MARKET_CLOSE") == lines(replayed(live, agents), "DECISION", "MARKET_CLOSE")


class Breaking:
    """A feed that ends its listener after so many messages, as a process that is stopped does."""

    def __init__(self, feed, breaks, stop):
        self.feed, self.breaks, self.stop = feed, breaks, stop
        self.name, self.provenance, self.health = feed.name, feed.provenance, feed.health

    def fixtures(self):
        return self.feed.fixtures()

    def listen(self, stop, fixture_ids=(), after=None):
        due = self.breaks.pop(0) if self.breaks else None
        for number, item in enumerate(self.feed.listen(stop, fixture_ids, after)):
            yield item
            if number == due:
                self.stop.set()
                return


@pytest.mark.long
@pytest.mark.parametrize("seed", range(length(2, 12)))
def test_a_run_that_is_taken_up_again_ends_with_the_same_lines(plan, mixed, tmp_path, seed):
    plan = mixed if seed == 0 else plan
    whole = follow(plan, tmp_path / "whole", Stop())
    chance, attempts, done = Random(seed), 0, None
    breaks = sorted(chance.sample(range(1, 80), 4))

    while done is None:
        stop = Stop()
        done = follow(replace(plan, feed=Breaking(plan.feed, breaks, stop)), tmp_path / "broken", stop)
        attempts += 1
        newest = max((tmp_path / "broken" / "segments").glob("*.jsonl"))
        if done is None and chance.random() < 0.5:
            with newest.open("ab") as file:
                file.write(b'{"at":17,"mess')  # what a killed process leaves
            with (tmp_path / "broken" / "journal.jsonl").open("ab") as file:
                file.write(b'{"message":99')

    assert attempts == 5
    assert lines(done.sealed, "DECISION", "MARKET_CLOSE") == lines(whole.sealed, "DECISION", "MARKET_CLOSE")
    gaps = done.pack.manifest.capture.gaps
    assert [(gap.cause, gap.replayed) for gap in gaps] == [("restart", True)] * 4
    verify_pack(done.pack.folder)


class Scripted:
    """A feed of a few items, whose messages are those of a replay."""

    name, provenance = "replay", "synthetic-replay"

    def __init__(self, feed, items):
        self.feed, self.items, self.health = feed, items, feed.health

    def fixtures(self):
        return self.feed.fixtures()

    def listen(self, _, fixture_ids=(), after=None):
        yield from self.items(list(self.feed.listen(Stop(), fixture_ids, after)))


def test_a_cut_suspends_what_was_open_and_the_replay_says_the_same(plan, tmp_path):
    def items(messages):
        middle = messages[len(messages) // 2]
        return [
            *messages[: len(messages) // 2],
            Cut(GapCause.CUT, middle.received_ts_ms),
            Resumption(middle.received_ts_ms + 5),
            *messages[len(messages) // 2 :],
        ]

    live = follow(replace(plan, feed=Scripted(plan.feed, items)), tmp_path / "run", Stop())

    tape = live.pack.tape([FIXTURE])
    whole = follow(plan, tmp_path / "whole", Stop()).pack.tape([FIXTURE])
    assert tape.messages.height > whole.messages.height  # a message without prices for each market that was open
    assert lines(live.sealed, "DECISION", "MARKET_CLOSE") == lines(replayed(live, plan.agents), "DECISION", "MARKET_CLOSE")
    (gap,) = live.pack.manifest.capture.gaps
    assert (gap.cause, gap.replayed, gap.to_ts_ms - gap.from_ts_ms) == ("cut", None, 5)


class Failing(cl.TickAgent):
    def on_tick(self, book):
        if book.tick_seq == 30:
            raise RuntimeError("no more")
        return book.back(book.sides()[0]) if book.tick_seq == 3 else None


@pytest.mark.parametrize("breaks", [[], [20, 20]])
def test_an_agent_that_fails_stops_and_the_others_go_on(plan, tmp_path, breaks):
    agents = [*plan.agents[:2], cl.isolated(Failing())]
    done = None
    while done is None:
        stop = Stop()
        feed = Breaking(plan.feed, breaks, stop)
        done = follow(replace(plan, agents=agents, feed=feed), tmp_path / "run", stop)

    (error,) = lines(done.sealed, "AGENT_ERROR")
    assert (error["agent_id"], error["error"]) == ("Failing", "RuntimeError")
    assert {line["agent_id"] for line in lines(done.sealed, "DECISION")} == {"baseline", "cumulative-drift"}
    assert verify(done.sealed, done.receipts).verified
    assert "no more" in done.causes["Failing"]


@cl.strategy
def second_thoughts(ticks):
    return ticks.filter(pl.col("prob_bps") == pl.col("prob_bps").max())


def test_an_agent_that_takes_a_decision_back_gets_an_error(plan, tmp_path):
    done = follow(replace(plan, agents=[plan.agents[0], cl.isolated(second_thoughts)]), tmp_path / "run", Stop())

    assert [error["error"] for error in lines(done.sealed, "AGENT_ERROR")] == ["LookaheadError"]


def test_a_run_whose_agents_all_failed_is_not_sealed(plan, tmp_path):
    with pytest.raises(DecisionError, match=r"no agent is left.*no more"):
        follow(replace(plan, agents=[cl.isolated(Failing())]), tmp_path / "run", Stop())


def test_a_run_ends_as_soon_as_its_last_agent_failed(plan, tmp_path):
    told = []

    with pytest.raises(DecisionError, match=r"^no agent is left: Failing: .*no more$"):
        follow(
            replace(plan, agents=[cl.isolated(Failing())], feed=Pausing(60)),
            tmp_path / "run",
            Stop(),
            on_message=lambda message, _: told.append(message),
        )

    assert len(told) < 60


def test_a_fixture_that_nothing_was_said_of_is_not_sealed(plan, tmp_path):
    with pytest.raises(SourceError, match="no tick could be made"):
        follow(replace(plan, feed=Scripted(plan.feed, lambda _: [])), tmp_path / "run", Stop())


def test_without_a_message_of_play_the_run_is_sealed_by_the_clock(plan, tmp_path):
    """Some seconds after the kickoff as it was announced, though the feed goes on in silence."""
    kickoff = plan.fixture.kickoff_ts_ms
    now, told = [kickoff], []

    def tell(message, _):
        told.append(message)
        now[0] = kickoff + 60_001 if len(told) == 50 else kickoff

    class Silent(Scripted):
        def listen(self, stop, fixture_ids=(), after=None):
            yield from list(self.feed.listen(Stop(), fixture_ids, after))[:50]
            stop.wait(PATIENCE_S)

    plan = replace(plan, feed=Silent(plan.feed, None), grace_s=60)
    live = follow(plan, tmp_path / "run", Stop(), on_message=tell, clock=lambda: now[0])

    assert live.pack.tape([FIXTURE]).messages.height == len(told) == 50
    assert {line["close_kind"] for line in lines(live.sealed, "MARKET_CLOSE")} == {"kickoff"}


def test_a_run_that_is_taken_up_after_its_end_keeps_all_that_was_captured_in_time(plan, tmp_path):
    now, stop = [plan.fixture.kickoff_ts_ms], Stop()
    plan = replace(plan, grace_s=60)
    assert follow(replace(plan, feed=Breaking(plan.feed, [40], stop)), tmp_path, stop, clock=lambda: now[0]) is None
    now[0] += 61_000

    live = follow(plan, tmp_path, Stop(), clock=lambda: now[0])

    assert live.pack.tape([FIXTURE]).messages.height == 41


def test_gaps_of_a_feed_that_is_never_idle_are_told_when_they_end(plan, tmp_path):
    told, gaps = [], []

    follow(
        replace(plan, feed=Cutting(40)),
        tmp_path / "run",
        Stop(),
        on_message=lambda message, _: told.append(message),
        on_idle=lambda tracker: gaps.append((len(told), [gap.cause for gap in tracker.gaps])),
    )

    assert [causes for number, causes in gaps if 40 <= number <= 50] == [["cut"]]


class Markless(Scripted):
    """A feed that can't be resumed, and falls silent after fifty messages."""

    def listen(self, stop, fixture_ids=(), after=None):
        for item in list(self.feed.listen(Stop(), fixture_ids, after))[:50]:
            yield replace(item, mark=None)
        stop.wait(PATIENCE_S)


@pytest.mark.parametrize("died_in", ["pack_capture", "seal_live"])
def test_a_run_that_was_over_when_its_process_died_is_sealed_as_it_was(plan, tmp_path, monkeypatch, died_in):
    """What came after would be a gap up to the close, in which nothing is scored."""
    kickoff = plan.fixture.kickoff_ts_ms
    now, told = [kickoff], []

    def tell(message, _):
        told.append(message)
        now[0] = kickoff + 60_001 if len(told) == 50 else now[0]

    def die(*_, **__):
        raise KeyboardInterrupt

    plan = replace(plan, feed=Markless(plan.feed, None), grace_s=60)
    with monkeypatch.context() as dying:
        dying.setattr(f"clvlab.runs.live.spec.{died_in}", die)
        with pytest.raises(KeyboardInterrupt):
            follow(plan, tmp_path / "run", Stop(), on_message=tell, clock=lambda: now[0])

    live = follow(plan, tmp_path / "run", Stop(), on_message=tell, clock=lambda: now[0])

    assert live.pack.tape([FIXTURE]).messages.height == 50
    assert live.pack.manifest.capture.gaps == ()
    assert set(live.scores["reason"]) == {"scored"}


def test_a_run_that_is_taken_up_again_tells_every_decision_once(plan, tmp_path):
    told, done, breaks = [], None, [25, 60]
    while done is None:
        stop = Stop()
        broken = replace(plan, feed=Breaking(plan.feed, breaks, stop))
        done = follow(broken, tmp_path / "run", stop, on_message=lambda _, answers: told.extend(answers.decided.values()))

    assert sum(map(len, told)) == len(lines(done.sealed, "DECISION"))
