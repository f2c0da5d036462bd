"""A pack that is replayed shard by shard gives the bytes that it gives at once."""

from dataclasses import dataclass, replace
from itertools import chain, pairwise

import polars as pl
import pytest

import clvlab as cl
from clvlab.agents.isolation.agent import isolated
from clvlab.agents.registry import TEMPLATES, template
from clvlab.arena import packs
from clvlab.arena.replays import prices_again, replay_run
from clvlab.engine.agent import Identity, register
from clvlab.engine.run import run
from clvlab.errors import AgentFailedError, LookaheadError, PackTooLargeError, SettingsError
from clvlab.law.closing import Window
from clvlab.packs import reader
from clvlab.packs.manifest import Fixture
from clvlab.packs.reader import shards_of
from clvlab.runs import shards
from clvlab.runs.execute import perform
from clvlab.runs.run import reopen
from clvlab.runs.shards import memory_bytes, sharded
from clvlab.runs.spec import ReplaySpec

PACK = packs.open_pack("starter")
DRIFT, BASELINE = template("cumulative-drift", {"cooldown_s": 60}), template("baseline")


@pytest.fixture
def large(monkeypatch):
    """Make the pack too large to be replayed at once, with five shards; return how to make it small again."""
    small = shards.WHOLE_ROWS
    monkeypatch.setattr(reader, "SHARD_ROWS", sum(f.rows for f in PACK.manifest.fixtures[:3]))
    monkeypatch.setattr(shards, "WHOLE_ROWS", 0)
    return lambda: monkeypatch.setattr(shards, "WHOLE_ROWS", small)


def performed(*agents, fixtures=None, audit=True):
    return perform(ReplaySpec(pack=PACK, agents=agents, fixtures=fixtures, audit=audit))


def assert_same(sharded_run, whole):
    assert (sharded_run.sealed, sharded_run.receipts) == (whole.sealed, whole.receipts)
    assert sharded_run.scores.equals(whole.scores)
    assert sharded_run.markets_matched == whole.markets_matched > 0


@pytest.mark.parametrize("fixtures", [None, PACK.fixture_ids[1::2], PACK.fixture_ids[:1]], ids=["all", "some", "one"])
def test_templates_seal_the_same_bytes(large, fixtures):
    found = performed(DRIFT, BASELINE, fixtures=fixtures)
    assert reopen(PACK, found.sealed, found.receipts).markets_matched == found.markets_matched

    large()

    assert_same(found, performed(DRIFT, BASELINE, fixtures=fixtures))


def test_agents_of_ones_own_seal_the_same_bytes(large, monkeypatch):
    monkeypatch.setenv("CLVLAB_MEMORY_MB", "1")

    @cl.strategy
    def early(ticks):
        return ticks.filter(pl.col("tick_seq") == 40).with_columns(action=pl.lit("BACK"))

    class Falling(cl.TickAgent):
        def __init__(self):
            self.seen = {}

        def on_tick(self, book):
            side, market = book.sides()[0], (book.fixture_id, book.market_key)
            before, now = self.seen.get(market), book.prob_bps(side)
            self.seen[market] = now
            return book.back(side) if before and now and now < before - 40 else None

    agents, fixtures = (isolated(early), isolated(Falling())), PACK.fixture_ids[:8]
    found = performed(*agents, fixtures=fixtures)
    assert len(ReplaySpec(pack=PACK, agents=agents, fixtures=fixtures).shards) > 1

    large()

    assert_same(found, performed(*agents, fixtures=fixtures))


@pytest.mark.usefixtures("large")
def test_a_look_ahead_is_refused_shard_by_shard(monkeypatch):
    monkeypatch.setenv("CLVLAB_MEMORY_MB", "1")

    @cl.strategy
    def peeking(ticks):
        later = pl.col("prob_bps").shift(-20).over("fixture_id", "market_key", "side") > pl.col("prob_bps") + 100
        return ticks.filter(later & (pl.col("tick_seq") < 200)).with_columns(action=pl.lit("BACK"))

    with pytest.raises(LookaheadError):
        performed(isolated(peeking))


@dataclass(frozen=True, eq=False)
class Tired:
    """Decides as ``baseline`` until it is asked about a late fixture; passes for a template."""

    last: int
    error: type[Exception] = ValueError

    def __post_init__(self):
        register(self)

    @property
    def identity(self):
        return Identity("tired", "tired", "1")

    def decide(self, tape):
        if max(tape.binding.fixture_ids) >= self.last:
            raise self.error("tired")
        return template("baseline", agent_id="tired").decide(tape)


def test_nothing_is_left_of_an_agent_that_fails_in_a_late_shard(large, monkeypatch):
    monkeypatch.setattr(shards, "_reason_for_whole", lambda *_: None)
    monkeypatch.setenv("CLVLAB_MEMORY_MB", "1")
    tired = Tired(PACK.fixture_ids[7])
    found = performed(DRIFT, tired)
    assert found.evidence.errors == [{"agent_id": "tired", "error": "ValueError", "fixture_id": None, "tick_seq": None}]

    large()

    assert_same(found, performed(DRIFT, tired))


@pytest.mark.usefixtures("large")
def test_the_error_of_the_last_agent_ends_the_run(monkeypatch):
    monkeypatch.setattr(shards, "_reason_for_whole", lambda *_: None)
    monkeypatch.setenv("CLVLAB_MEMORY_MB", "1")

    with pytest.raises(Exception, match="'tired' failed with ValueError: tired"):
        performed(Tired(PACK.fixture_ids[7]))


@pytest.mark.usefixtures("large")
def test_an_agent_that_looks_across_fixtures_is_asked_once_or_refused_by_name(monkeypatch):
    @cl.strategy(agent_id="ranking")
    def ranking(ticks):
        first = ticks.filter(pl.col("tick_seq") == 30)
        return first.filter(pl.col("prob_bps") == pl.col("prob_bps").max()).with_columns(action=pl.lit("BACK"))

    agent = isolated(ranking)

    class Counting(cl.TickAgent):
        def __init__(self):
            self.count = 0

        def on_tick(self, book):
            self.count += 1
            return book.back(book.sides()[0]) if self.count % 100 == 0 else None

    counting = isolated(Counting())
    for one in (agent, counting):
        assert sharded(PACK, PACK.fixture_ids, [DRIFT, one]) == (PACK.fixture_ids,)

    monkeypatch.setenv("CLVLAB_MEMORY_MB", "1")
    with pytest.raises(
        PackTooLargeError, match=r"'ranking' must see all fixtures at once: .* at once differ from those in two"
    ):
        ReplaySpec(pack=PACK, agents=[DRIFT, agent])
    with pytest.raises(PackTooLargeError, match="'Counting' must see all fixtures at once"):
        ReplaySpec(pack=PACK, agents=[counting])
    with pytest.raises(PackTooLargeError, match=r"'llm' must see all fixtures at once: its template .* 1 MB may be used here"):
        ReplaySpec(pack=PACK, agents=[template("llm")])


@pytest.mark.usefixtures("large")
def test_an_agent_that_fails_on_a_sample_is_refused_with_what_it_said(monkeypatch):
    monkeypatch.setenv("CLVLAB_MEMORY_MB", "1")
    agent = Tired(0, lambda text: AgentFailedError("ValueError", text))

    with pytest.raises(PackTooLargeError, match=r"it fails when it is asked about \d+ of them \(.*tired"):
        ReplaySpec(pack=PACK, agents=[agent])


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "much", "²"])
def test_a_memory_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("CLVLAB_MEMORY_MB", text)

    with pytest.raises(SettingsError, match=f"positive whole number, not {text!r}"):
        memory_bytes()


def test_half_of_what_the_machine_or_the_container_has_may_be_used(monkeypatch, tmp_path):
    monkeypatch.delenv("CLVLAB_MEMORY_MB", raising=False)
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(shards, "_CGROUP", limit)
    machine = memory_bytes()
    assert machine > 1 << 20

    limit.write_text("max\n")
    assert memory_bytes() == machine
    limit.write_text("4096\n")
    assert memory_bytes() == 2048


@pytest.mark.parametrize("name", [name for name, (model, _) in TEMPLATES.items() if model.by_fixture])
def test_templates_decide_about_each_fixture_by_itself(name):
    agent, ids = template(name), PACK.fixture_ids
    at_once = agent.decide(PACK.tape())
    apart = pl.concat(agent.decide(PACK.tape(own)) for own in (ids[::4], ids[1::4], ids[2::4], ids[3::4]))

    assert at_once.height > 0
    assert at_once.sort(at_once.columns).equals(apart.sort(at_once.columns))


@pytest.mark.parametrize("rows", [[], [0], [5], [11], [3, 3, 3, 3], [10, 0, 1, 0], [0, 0, 12, 1, 9, 1]])
def test_shards_are_whole_fixtures_in_their_order_and_no_larger_than_they_must(monkeypatch, rows):
    monkeypatch.setattr(reader, "SHARD_ROWS", 10)
    fixtures = [Fixture(fixture_id=number, rows=count) for number, count in enumerate(rows)]
    cut = list(shards_of(fixtures))

    assert list(chain.from_iterable(cut)) == fixtures
    assert all(len(shard) == 1 or sum(fixture.rows for fixture in shard) <= 10 for shard in cut)
    assert all(sum(f.rows for f in (*one, other[0])) > 10 for one, other in pairwise(cut))


def test_a_run_is_replayed_shard_by_shard_as_it_is_at_once(large):
    found = performed(DRIFT, BASELINE)
    tape = PACK.tape()
    late = tape.rows["series"] > tape.rows["series"].max() * 2 // 3
    better = tape.rows.with_columns(odds_milli=pl.when(late).then(pl.col("odds_milli") + 1).otherwise("odds_milli"))
    forged = run(replace(tape, rows=better), [DRIFT, BASELINE], Window()).sealed
    sharded_replays = replay_run(found.sealed, found.receipts), prices_again(found.sealed), prices_again(forged)

    large()

    assert sharded_replays == (replay_run(found.sealed, found.receipts), prices_again(found.sealed), prices_again(forged))
    assert [one.agrees for one in sharded_replays] == [True, True, False]
