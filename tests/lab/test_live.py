import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import AgentError, DecisionError, FeedError, PolicyError, UnknownAgentError, UnsupportedError, WindowError
from clvlab.sources.providers import FEEDS
from tests.live import FIXTURE, MESSAGES, Around, Cutting, Pausing, interrupting, played
from tests.service.serving import api


class Swings(cl.TickAgent):
    """Backs the first side now and then."""

    def on_tick(self, book):
        return book.back(book.sides()[0], stake=5) if book.tick_seq % 40 == 7 else None


@cl.strategy(markets=("1X2",))
def risers(ticks, *, rise_bps=80):
    rise = pl.col("prob_bps") - pl.col("prob_bps").shift(3).over("series")
    return ticks.filter(rise >= rise_bps)


@pytest.fixture(params=["memory", pytest.param("file", marks=pytest.mark.long)])
def lab(request, tmp_path):
    with cl.Lab(None if request.param == "memory" else tmp_path / "lab.db") as lab:
        yield lab


@pytest.fixture
def here():
    with cl.Lab() as lab:
        yield lab


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("CLVLAB_REPLAY_SPEED", "1e12")
        with api(tmp_path_factory.mktemp("keys"), devfeed=True, live_folder=folder) as running:
            yield running


@pytest.fixture
def remote(served):
    with cl.Lab(served.url, token=served.token()) as lab:
        yield lab


def decided(result):
    """Lines of decisions and closes."""
    kinds = (b'{"kind":"DECISION"', b'{"kind":"MARKET_CLOSE"')
    return [line for line in result.run.source.events.splitlines() if line.startswith(kinds)]


class TestALiveRun:
    def test_is_kept_verified_and_read_again(self, lab):
        made = lab.live("cumulative-drift", played(), fixture=FIXTURE)

        again = lab.open_run(made.run_id)
        assert repr(made).startswith(f"Live paper of cumulative-drift on '{made.pack.pack_id}': Not distinguishable")
        assert lab.verify(made).passed
        assert again.verify().passed
        assert pl.DataFrame(again.scores).equals(pl.DataFrame(made.scores))
        assert again.report == made.report
        assert made.report["mode_label"] == "Live paper"
        assert again.tear_sheet(resamples=50, draws=5).clv == made.tear_sheet(resamples=50, draws=5).clv
        assert again.explore(FIXTURE).view.sides
        row = lab.runs().frame.row(0, named=True)
        assert (row["kind"], row["status"], row["agents"]) == ("live", "sealed", "cumulative-drift")

    def test_shows_itself_under_its_own_label(self, here):
        alone = here.live("baseline", Cutting(40), fixture=FIXTURE)
        several = here.live(["baseline", "cumulative-drift"], played(), fixture=FIXTURE)

        assert "Live paper of baseline on live-" in alone._repr_html_()
        assert "<th>gaps</th><td>cut 1</td>" in alone._repr_html_()
        assert repr(alone.report).startswith(f"Report {alone.run_id} of baseline")
        assert "Live paper of 2 agents on " in several._repr_html_()
        assert several.agent_ids == ["baseline", "cumulative-drift"]
        assert several.tear_sheet("baseline", resamples=50, draws=5).agent_id == "baseline"
        with pytest.raises(UnsupportedError, match="only a backtest has a report"):
            _ = several.report

    def test_equals_the_backtest_of_the_pack_that_it_captured(self, lab):
        agents = {"risers": (risers, {"rise_bps": 60}), "drift": "cumulative-drift"}

        live = lab.live(agents, played(), fixture=FIXTURE)
        replayed = lab.compete(live.pack.pack_id, agents, audit=False)

        assert decided(live) == decided(replayed)
        assert live.pack.pack_id in lab.packs().frame["pack_id"]
        found = lab.compare([live, replayed])
        assert found.frame["mean_clv_bps"].n_unique() == 2
        assert lab.sql(f"select count(*) from ticks where pack_id = '{live.pack.pack_id}'").frame.item() > MESSAGES

    def test_of_a_tick_agent_of_ones_own(self, here):
        live = here.live(Swings(), played(), fixture=FIXTURE)

        assert live.agent_ids == ["Swings"]
        assert decided(live) == decided(here.backtest(live.pack.pack_id, Swings()))

    def test_over_a_made_up_feed_is_not_ranked(self, here):
        here.live("baseline", played(), fixture=FIXTURE)

        assert here.leaderboard().frame.is_empty()

    def test_over_a_providers_feed_is_ranked(self, here):
        feed = Around()
        feed.provenance = "genuine-replay"  # says the feed; of the pack its raw messages would have to bear it out

        here.live("baseline", feed, fixture=FIXTURE)

        assert here.leaderboard().frame.select("agent_id", "source_mode").rows() == [("baseline", "all-live")]

    def test_is_a_trial_over_its_pack_as_its_replay_is(self, here):
        live = here.live("cumulative-drift", played(), fixture=FIXTURE)
        grid = {"warmup_ticks": [5, 7]}

        trials = here.sweep(live.pack.pack_id, "cumulative-drift", grid, resamples=1_000).trials
        here.backtest(live.pack.pack_id, "cumulative-drift")

        assert trials == 3
        assert here.sweep(live.pack.pack_id, "cumulative-drift", grid, resamples=1_000).trials == 3

    def test_is_watched_while_it_lasts(self, here):
        seen = []

        made = here.live("cumulative-drift", played(), fixture=FIXTURE, progress=seen.append)

        last = seen[-1]
        assert last.messages == MESSAGES
        assert last.frame.select("valid", "reason", "clv_bps").unique().rows() == [(True, "pending_closing", None)]
        assert last.frame.height == made.scores.height
        assert repr(last).startswith(f"Live run {made.run_id}: {MESSAGES} messages")

    def test_stands_as_running_until_it_is_gone_on_with(self, lab):
        with pytest.raises(KeyboardInterrupt):
            lab.live("baseline", Pausing(30), fixture=FIXTURE, progress=interrupting(30))
        before = lab.runs().frame.row(0, named=True)

        made = lab.live("baseline", played(), fixture=FIXTURE)

        assert (before["run_id"], before["status"]) == (made.run_id, "running")
        assert lab.runs().frame["status"].to_list() == ["sealed"]
        assert [gap.cause for gap in made.pack.manifest.capture.gaps] == ["restart"]

    def test_goes_on_in_another_process_over_the_same_file(self, tmp_path):
        with cl.Lab(tmp_path / "lab.db") as first, pytest.raises(KeyboardInterrupt):
            first.live(risers, Pausing(30), fixture=FIXTURE, progress=interrupting(30))
        (begun,) = (tmp_path / "lab.live").iterdir()

        with cl.Lab(tmp_path / "lab.db") as second:
            made = second.live(risers, played(), fixture=FIXTURE)

        assert made.run_id == begun.name
        assert (tmp_path / "lab.packs" / made.pack.pack_id).is_dir()

    def test_that_fails_is_on_record_with_its_cause(self, here):
        @cl.strategy
        def broken(_ticks):
            raise ValueError("no ticks")

        with pytest.raises(DecisionError, match="no ticks"):
            here.live(broken, played(), fixture=FIXTURE)

        assert here.runs().frame["status"].to_list() == ["failed"]


class TestWhatIsAsked:
    def test_the_feed_may_be_named_or_that_of_the_environment(self, here, monkeypatch):
        monkeypatch.setenv("CLVLAB_REPLAY_SPEED", "1e12")
        named = here.live("baseline", "replay", fixture=FIXTURE)
        monkeypatch.setenv("CLVLAB_FEED", "replay")

        assert here.live("baseline").report["n_fixtures"] == 1
        assert named.report["fixture_id"] == FIXTURE

    @pytest.mark.parametrize(
        ("asked", "error", "said"),
        [
            ({"feed": "radio"}, FeedError, f"there is no feed 'radio': name one of {', '.join(FEEDS)}"),
            ({"feed": 7}, FeedError, "a feed is named, or is an object that can be listened to, not 7"),
            ({"feed": None}, FeedError, "no feed is named"),
            ({"fixture": "90000000"}, FeedError, "a fixture is named by its id"),
            ({"fixture": 7}, FeedError, "the feed has no fixture 7"),
            ({"grace_s": 1.5}, FeedError, "a whole number of seconds"),
            ({"grace_s": -1}, FeedError, "not -1 s"),
            ({"until": "noon"}, FeedError, "until is a datetime with a time zone, or seconds from now"),
            ({"window": "full"}, WindowError, "a window is a clvlab.Window"),
            ({"policy": 3}, PolicyError, "a policy is a clvlab.PolicyEnvelope"),
            ({"agents": "nobody"}, UnknownAgentError, "unknown agent 'nobody'"),
            ({"agents": 7}, AgentError, "a mapping from names to agents, not 7"),
            ({"agents": []}, DecisionError, "unique ids"),
        ],
    )
    def test_what_can_t_be_followed_is_refused_and_nothing_is_on_record(self, here, asked, error, said):
        given = {"agents": "baseline", "feed": played(), "fixture": FIXTURE} | asked

        with pytest.raises(error, match=said):
            here.live(given.pop("agents"), given.pop("feed"), **given)

        assert here.runs().frame.is_empty()

    def test_a_feed_whose_messages_nobody_can_read_is_refused(self, here):
        feed = Cutting(1)
        feed.name = "radio"

        with pytest.raises(FeedError, match="messages of 'radio' can't be read"):
            here.live("baseline", feed, fixture=FIXTURE)


class TestAtAService:
    def test_one_template_is_deployed_and_several_compete(self, remote):
        lines = []

        alone = remote.live("cumulative-drift", fixture=FIXTURE, progress=lambda view: lines.append(view.line))
        several = remote.live({"first": "baseline", "second": ("cumulative-drift", {"warmup_ticks": 10})}, progress=False)

        assert alone.verify().passed
        assert repr(alone).startswith("Deploy of cumulative-drift on 'live-")
        assert several.agent_ids == ["first", "second"]
        assert remote.runs().frame["kind"].to_list() == ["competition", "deploy"]
        assert all(line.endswith(" messages") for line in lines)

    @pytest.mark.parametrize(
        ("agents", "asked", "said"),
        [
            (risers, {}, "risers.* is code of yours: follow in a Lab\\(\\) here"),
            ("baseline", {"grace_s": 5}, "follows its own feed"),
            ("baseline", {"until": 3600}, "follows its own feed"),
            ("baseline", {"window": cl.Window(min_clv_horizon_s=5)}, "follows its own feed"),
        ],
    )
    def test_what_it_can_t_do_is_refused(self, remote, agents, asked, said):
        with pytest.raises(UnsupportedError, match=said):
            remote.live(agents, **asked)
