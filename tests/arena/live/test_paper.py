"""Live runs that somebody sits before: interrupted, gone on with, abandoned, and on record all the way."""

import threading
from datetime import UTC, datetime

import pytest

import clvlab as cl
from clvlab.agents.registry import template
from clvlab.arena.log.operations import open_log
from clvlab.errors import DecisionError, FeedError, FileLockedError, LogError, ReplayError
from clvlab.log.entries import EntryKind
from clvlab.log.log import entry_of
from clvlab.packs.manifest import Fixture
from clvlab.proof.verify import verify
from clvlab.runs.live.feed import chosen
from clvlab.runs.live.paper import run_live
from clvlab.runs.live.request import LiveRequest, until_of, until_ts_ms
from clvlab.runs.run_folder import FolderRecorder
from tests.live import FIXTURE, MESSAGES, Cutting, Ending, Pausing, interrupting, played
from tests.waiting import PATIENCE_S

NOW = 1_800_000_000_000


def clock():
    return NOW


@pytest.fixture
def log(tmp_path):
    with open_log(tmp_path / "log.db", create=True) as opened:
        yield opened


def question(feed=None, *names, **asked):
    agents = [template(name) for name in names or ("cumulative-drift",)]
    return LiveRequest(feed or played(), **{"fixture": FIXTURE, **asked}), agents


def followed(tmp_path, asked, log=None, **options):
    return run_live(*asked, FolderRecorder(tmp_path / "runs", clock, log), tmp_path / "live", **options)


def interrupted(tmp_path, messages, log=None, **asked):
    with pytest.raises(KeyboardInterrupt) as stopped:
        followed(tmp_path, question(Pausing(messages), **asked), log, on_update=interrupting(messages))
    return stopped.value


def entries(log):
    with log.read() as rows:
        return [entry_of(rows, index) for index in range(rows.size())]


class TestOnRecord:
    def test_it_is_committed_to_first_and_concluded_at_the_seal(self, tmp_path, log):
        said = []

        done = followed(tmp_path, question(), log, on_update=lambda _: said.append(len(entries(log))))

        kinds = [entry["kind"] for entry in entries(log)]
        assert (kinds[0], kinds[-1]) == (EntryKind.COMMIT, EntryKind.RESULT)
        assert set(kinds[1:-1]) == {EntryKind.SEGMENT}
        assert entries(log)[0]["content_hash"] is None
        assert done.sealed.commit_index == 0
        assert verify(done.sealed, done.receipts).passed
        assert (tmp_path / "runs" / done.run_id / "events.jsonl").read_bytes() == done.sealed.events
        assert said

    def test_its_folder_bears_its_id_and_the_next_question_begins_another_run(self, tmp_path):
        feed = played()
        first, second = (followed(tmp_path, question(feed)) for _ in range(2))

        assert first.run_id != second.run_id
        assert {path.name for path in (tmp_path / "live").iterdir()} == {first.run_id, second.run_id}
        assert not list((tmp_path / "live").glob("*/asked.json"))

    def test_a_run_that_comes_to_nothing_is_abandoned(self, tmp_path, log):
        @cl.strategy
        def failing(_ticks):
            raise ValueError("no more")

        with pytest.raises(DecisionError, match="no agent is left"):
            followed(tmp_path, (LiveRequest(played(), FIXTURE), [cl.isolated(failing)]), log)

        kinds = [entry["kind"] for entry in entries(log)]
        assert (kinds[0], kinds[-1]) == (EntryKind.COMMIT, EntryKind.ABANDONED)
        assert not list((tmp_path / "live").glob("*/asked.json"))


class TestInterrupted:
    def test_it_is_gone_on_with_under_the_same_id_and_commitment(self, tmp_path, log):
        error = interrupted(tmp_path, 40, log)
        (begun,) = (tmp_path / "live").iterdir()

        done = followed(tmp_path, question(), log)

        assert "the same call continues it" in error.__notes__[0]
        assert done.run_id == begun.name
        assert [entry["kind"] for entry in entries(log)].count(EntryKind.COMMIT) == 1
        assert [(gap.cause, gap.replayed) for gap in done.pack.manifest.capture.gaps] == [("restart", True)]
        assert done.pack.tape([FIXTURE]).messages.height == MESSAGES

    def test_without_a_named_fixture_it_goes_on_with_the_one_that_it_began_with(self, tmp_path):
        interrupted(tmp_path, 20, fixture=None)
        (begun,) = (tmp_path / "live").iterdir()

        done = followed(tmp_path, question(fixture=None))

        assert done.run_id == begun.name

    @pytest.mark.parametrize(
        "other", [{"fixture": 90000001}, {"grace_s": 60}, {"window": cl.Window(min_clv_horizon_s=5)}, {"agent": "baseline"}]
    )
    def test_who_asks_for_something_else_begins_another_run(self, tmp_path, other):
        interrupted(tmp_path, 20)
        (begun,) = (tmp_path / "live").iterdir()

        done = followed(tmp_path, question(None, other.pop("agent", "cumulative-drift"), **other))

        assert done.run_id != begun.name

    def test_an_error_of_who_looks_leaves_it_too(self, tmp_path):
        def look(_):
            raise RuntimeError("the screen is gone")

        with pytest.raises(RuntimeError, match="the screen is gone"):
            followed(tmp_path, question(Pausing(10)), on_update=look)

        assert len(list((tmp_path / "live").glob("*/asked.json"))) == 1

    def test_another_log_or_none_is_refused_as_a_second_commitment_would_come_after_the_data(self, tmp_path, log):
        interrupted(tmp_path, 20, log)

        with pytest.raises(LogError, match="was started under entry 0 of its log"):
            followed(tmp_path, question())
        with open_log(tmp_path / "other.db", create=True) as other:
            with pytest.raises(LogError, match="was started under entry 0 of its log"):
                followed(tmp_path, question(), other)
            assert entries(other) == []
        assert followed(tmp_path, question(), log).sealed.commit_index == 0

    def test_a_log_is_not_named_afterwards(self, tmp_path, log):
        interrupted(tmp_path, 20)

        with pytest.raises(LogError, match="was started without a log"):
            followed(tmp_path, question(), log)

    def test_two_do_not_follow_the_same_run(self, tmp_path):
        shown, over = threading.Event(), threading.Event()

        def look(view):
            if view.messages >= 10:
                shown.set()
                if over.is_set():
                    raise KeyboardInterrupt

        def first():
            with pytest.raises(KeyboardInterrupt):
                followed(tmp_path, question(Pausing(10)), on_update=look)

        thread = threading.Thread(target=first)
        thread.start()
        assert shown.wait(PATIENCE_S)
        with pytest.raises(FileLockedError, match="is being followed already"):
            followed(tmp_path, question())
        over.set()
        thread.join(PATIENCE_S)

        assert followed(tmp_path, question()).pack.tape([FIXTURE]).messages.height == MESSAGES

    def test_what_was_written_down_of_it_and_can_t_be_read_is_said(self, tmp_path):
        interrupted(tmp_path, 20)
        (asked,) = (tmp_path / "live").glob("*/asked.json")
        asked.write_bytes(b'{"question":')

        with pytest.raises(ReplayError, match="remove the folder"):
            followed(tmp_path, question())


class TestAFeedThatEnds:
    def test_in_the_middle_leaves_the_run_to_be_gone_on_with(self, tmp_path, log):
        with pytest.raises(FeedError, match=r"renew CLVLAB_TXLINE_JWT; run_\w+ remains as it is"):
            followed(tmp_path, question(Ending(30)), log)

        done = followed(tmp_path, question(), log)

        assert EntryKind.ABANDONED not in [entry["kind"] for entry in entries(log)]
        assert done.pack.tape([FIXTURE]).messages.height == MESSAGES

    def test_before_its_first_message_abandons_it(self, tmp_path, log):
        with pytest.raises(FeedError, match=r"renew CLVLAB_TXLINE_JWT\nrun_\w+ is abandoned"):
            followed(tmp_path, question(Ending(0)), log)

        assert [entry["kind"] for entry in entries(log)] == [EntryKind.COMMIT, EntryKind.ABANDONED]


class TestTheView:
    def test_shows_decisions_as_valid_and_pending_without_a_clv(self, tmp_path):
        frames = []

        done = followed(tmp_path, question(), on_update=lambda view: frames.append(view.frame))

        last = frames[-1]
        assert last.height == done.scores.height > 0
        assert last.select("valid", "reason", "clv_bps").unique().rows() == [(True, "pending_closing", None)]
        assert last["prob_bps"].to_list() == done.scores["entry_prob_bps"].to_list()
        assert last["odds_milli"].to_list() == done.scores["odds_milli"].to_list()

    def test_says_how_far_it_is_and_how_old_the_data_are(self, tmp_path):
        lines = []

        followed(tmp_path, question(), on_update=lambda view: lines.append(view.line))

        assert f"{MESSAGES} messages" in lines[-1]
        assert "last data" in lines[-1]

    def test_tells_of_gaps_and_of_agents_that_failed(self, tmp_path):
        @cl.strategy
        def failing(ticks):
            if ticks.collect()["tick_seq"].max() > 20:
                raise ValueError("no more")
            return ticks.head(0)

        views = []
        agents = [template("baseline"), cl.isolated(failing)]
        feed = Pausing(60, Cutting(40))
        with pytest.raises(KeyboardInterrupt):
            followed(
                tmp_path,
                (LiveRequest(feed, FIXTURE), agents),
                on_update=lambda view: views.append(view) or (interrupting(1)(view) if view.gaps else None),
            )

        assert [gap.cause for gap in views[-1].gaps] == ["cut"]
        assert views[-1].failures == {"failing": "the agent failed with ValueError: no more"}
        assert "gaps cut 1" in views[-1].line
        assert views[-1].facts["failed"] == "failing: the agent failed with ValueError: no more"
        assert "1 agent failed" in views[-1].line


class TestWhatIsAsked:
    def test_a_fixture_that_is_long_under_way_is_refused(self):
        fixture = Fixture(fixture_id=7, kickoff_ts_ms=NOW - 900_000)

        with pytest.raises(FeedError, match="fixture 7 kicked off 900 s ago: it is followed until 900 s after that"):
            chosen([fixture], 7, NOW, 900)
        assert chosen([fixture], 7, NOW - 1, 900) is fixture
        with pytest.raises(FeedError, match="no fixture that is still to kick off"):
            chosen([fixture], None, NOW, 900)
        with pytest.raises(FeedError, match="the feed has no fixture 8; it has 7"):
            chosen([fixture], 8, NOW, 900)

    def test_an_end_that_is_over_is_refused(self, tmp_path):
        with pytest.raises(FeedError, match="in the past"):
            followed(tmp_path, question(until=datetime(2020, 1, 1, tzinfo=UTC)))

    def test_it_is_sealed_at_its_end(self, tmp_path):
        feed = Pausing(30)
        end = feed.fixtures()[0].kickoff_ts_ms - 1_000_000
        now = [end - 1000]

        def look(view):
            now[0] = end + 1 if view.messages == 30 else now[0]

        done = followed(tmp_path, question(feed, until=1.0), on_update=look, clock=lambda: now[0])

        assert done.pack.tape([FIXTURE]).messages.height == 30

    def test_its_end_stays_where_it_was_when_it_is_gone_on_with(self, tmp_path):
        feed = played()
        end = feed.fixtures()[0].kickoff_ts_ms - 1_000_000
        begun = {"on_update": interrupting(20), "clock": lambda: end - 60_000}
        with pytest.raises(KeyboardInterrupt):
            followed(tmp_path, question(Pausing(20, feed), until=60.0), **begun)

        done = followed(tmp_path, question(feed, until=60.0), clock=lambda: end)

        assert done.pack.tape([FIXTURE]).messages.height == 20

    @pytest.mark.parametrize("text", ["soon", "+soon", "2026-07-11T19:00"])
    def test_an_end_is_a_time_with_its_zone_or_seconds(self, text):
        with pytest.raises(FeedError, match="2026-07-11T19:00Z"):
            until_of(text)
        with pytest.raises(FeedError, match="a datetime with a time zone, or seconds from now"):
            question(until=text)
        assert until_ts_ms(until_of("+1.5"), NOW) == NOW + 1500
        assert until_ts_ms(until_of("2027-01-15T08:00Z"), 0) == NOW

    def test_a_time_of_grace_is_not_negative(self):
        with pytest.raises(FeedError, match="not -1 s"):
            question(grace_s=-1)
