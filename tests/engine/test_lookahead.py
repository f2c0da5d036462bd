import random
import time

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clvlab as cl
from clvlab.agents.columnar import strategy
from clvlab.agents.isolation.agent import isolated
from clvlab.agents.registry import TEMPLATES, template
from clvlab.engine.lookahead import least_found, lookahead_audit, prefix
from clvlab.engine.run import run
from clvlab.errors import AgentError, AgentFailedError, LookaheadError
from clvlab.law.closing import Window
from clvlab.law.schema import DECISIONS
from clvlab.law.tape import Tape
from tests.engine.strategies import games
from tests.factories import make_tape, message
from tests.length import length

pytestmark = pytest.mark.long

PRICE, SERIES = pl.col("prob_bps"), "series"
SOMETIMES = pl.col("tick_seq") % 17 == 0
CHEATS = {
    "future close": lambda ticks: ticks.filter(PRICE.last().over(SERIES) - PRICE > 600, SOMETIMES),
    "global mean": lambda ticks: ticks.filter(PRICE.mean() - 3000 > PRICE, SOMETIMES),
    "backward fill": lambda ticks: ticks.filter(PRICE.fill_null(strategy="backward").over(SERIES) > 8000, SOMETIMES),
    "negative shift": lambda ticks: ticks.filter(PRICE.shift(-1).over(SERIES) - PRICE > 60),
    "rank over the whole tape": lambda ticks: ticks.filter(PRICE.rank().over(SERIES) / pl.len().over(SERIES) < 0.02),
}


@pytest.fixture(scope="module")
def tape():
    return cl.open_pack("season").source.tape()


def audit(rule, tape, *, seed=11, **options):
    return lookahead_audit(isolated(strategy(agent_id="audited")(rule)), tape, seed=seed, **options)


@pytest.mark.parametrize("name", CHEATS)
def test_agent_that_cheats_is_caught_and_the_decision_named(tape, name):
    report = audit(CHEATS[name], tape)

    first = report.moved.row(0, named=True)
    assert not report.passed
    assert f"at tick {first['tick_seq']} of fixture {first['fixture_id']}" in repr(report)
    assert f"the tape ends at tick {first['cut_tick_seq']} of fixture {first['cut_fixture_id']}" in repr(report)


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_pass(tape, name):
    assert lookahead_audit(template(name), tape, seed=1).passed


def test_decision_that_is_taken_back_is_caught(tape):
    last_is_high = PRICE.last().over(SERIES) == PRICE.max().over(SERIES)

    report = audit(lambda ticks: ticks.filter(last_is_high, SOMETIMES), tape)

    assert set(report.moved["change"]) == {"appeared", "vanished"}


def test_same_seed_cuts_at_the_same_messages(tape):
    honest = template("cumulative-drift")

    one, again, other = (lookahead_audit(honest, tape, seed=seed) for seed in (1, 1, 2))

    assert one.cuts == again.cuts
    assert one.cuts != other.cuts
    assert (len(one.cuts), one.seed, other.seed) == (24, 1, 2)


def test_seed_is_one_that_nobody_knew_before():
    first, second = (cl.lookahead_audit("baseline", "starter") for _ in range(2))

    assert first.seed != second.seed


def test_long_tape_is_audited_on_some_of_its_fixtures_and_decided_whole(tape):
    report = audit(lambda ticks: ticks.filter(pl.col("tick_seq") == 5), tape, max_rows=20_000, cuts=2)

    assert report.passed
    assert 1 <= len(report.fixture_ids) < 20
    assert report.decisions["fixture_id"].n_unique() == 300


def backed_unless(dropped):
    """Back what is likelier at a message of every fixture, but where something holds at its end."""
    end = PRICE.filter(~pl.col("in_running")).last().over(SERIES)
    return lambda ticks: ticks.filter(dropped(PRICE, end).not_(), PRICE > 5000, pl.col("tick_seq") == 20, ~pl.col("in_running"))


VETOES = {
    "each loser": lambda price, end: end < price,
    "great losers": lambda price, end: end < price - 300,
    "whatever did not win much": lambda price, end: end < price + 300,
}


@pytest.mark.parametrize("name", VETOES)
@pytest.mark.parametrize("cuts", [1, 24, 100])
def test_leaving_out_what_would_lose_is_caught_on_a_long_tape(tape, name, cuts):
    report = audit(backed_unless(VETOES[name]), tape, max_rows=20_000, cuts=cuts)

    assert not report.passed


def test_leaving_out_by_a_tick_agent_of_its_own_decide_is_caught(tape):
    class Leaving(cl.TickAgent):
        def decide(self, tape):
            ticks = tape.ticks().filter(
                ~pl.col("in_running"), pl.col("prob_bps").last().over("fixture_id", "market_key", "side") > 5000
            )
            backed = (
                ticks.filter(pl.col("tick_seq") == 20)
                .collect()
                .with_columns(agent_id=pl.lit("Leaving"), action=pl.lit("BACK"), stake=pl.lit(1, pl.Int64))
            )
            nothing = [pl.lit(None).alias(name) for name in DECISIONS if name not in backed.columns]
            return backed.with_columns(nothing).select(pl.col(name).cast(kind) for name, kind in DECISIONS.items())

    assert not lookahead_audit(isolated(Leaving()), tape, seed=3, max_rows=20_000).passed


def test_blind_draw_says_in_how_many_fixtures_it_would_have_found_use_of_the_future(tape):
    report = audit(lambda ticks: ticks.filter(pl.col("tick_seq") == 5), tape, max_rows=20_000)

    assert len(report.blind.fixture_ids) == report.blind.tested == 100
    assert report.blind.least == least_found(300, 100, 0.35)
    assert f"use of messages a fifth of a fixture later, in {report.blind.least} of 300" in repr(report)
    assert "attempts are not counted" in repr(report)


def test_blind_draw_does_not_depend_on_what_is_decided(tape):
    busy, idle = (audit(rule, tape, max_rows=20_000) for rule in (lambda ticks: ticks, lambda ticks: ticks.head(0)))

    assert busy.blind.fixture_ids == idle.blind.fixture_ids
    assert busy.fixture_ids != idle.fixture_ids


def test_prefixes_judge_an_agent_that_decides_otherwise_where_other_fixtures_end(tape):
    def crossing(ticks):
        before = pl.col("prob_bps").shift(1)
        return ticks.sort("ts_ms", "fixture_id", "tick_seq", "series").filter(pl.col("prob_bps") >= before)

    report = audit(crossing, tape, max_rows=50_000)

    assert report.passed
    assert (report.blind.tested, report.blind.by_prefixes) == (100, True)
    assert report.blind.least == least_found(300, 100, 0.05)
    assert "decided otherwise where others ended, so prefixes of the whole tape judged 100 of them" in repr(report)


def test_agent_that_behaves_only_while_the_tape_is_short_is_caught(tape):
    def wary(ticks):
        shown = ticks.collect()
        if shown["fixture_id"].n_unique() < 100:
            return shown.filter(pl.col("tick_seq") == 5)
        return shown.filter(PRICE.shift(-1).over(SERIES) - PRICE > 60)

    report = audit(wary, tape, max_rows=50_000)

    assert not report.passed


@pytest.mark.parametrize("fixture", length([77], [0, 77, 299]))
def test_all_that_is_gained_in_one_fixture_draws_the_audit_there(tape, fixture):
    """A WAIT in every other fixture hides nothing, nor does a decision that gains little."""
    one = tape.fixtures["fixture_id"][fixture]

    def lucky(ticks):
        rest = ticks.filter(pl.col("fixture_id") != one).unique("fixture_id", keep="first", maintain_order=True)
        nothing = pl.lit(None, pl.String)
        waits = rest.with_columns(action=pl.lit("WAIT"), market_key=nothing, side=nothing, stake=pl.lit(None, pl.Int64))
        rises = PRICE.filter(~pl.col("in_running")).last().over(SERIES) - PRICE > 400
        risen = ticks.filter(pl.col("fixture_id") == one, rises).with_columns(action=pl.lit("BACK"), stake=pl.lit(1, pl.Int64))
        return pl.concat([waits, risen])

    assert not audit(lucky, tape, max_rows=50_000).passed


def test_agent_that_looks_from_one_fixture_to_another_passes(tape):
    def crossing(ticks):
        before = pl.col("prob_bps").shift(1)
        return ticks.sort("ts_ms", "fixture_id", "tick_seq", "series").filter(pl.col("prob_bps") >= before + 8000)

    report = audit(crossing, tape, max_rows=50_000)

    assert report.passed
    assert len(report.fixture_ids) == 300


@pytest.mark.parametrize(
    ("max_rows", "said"),
    [(10_000_000, "on the prefix of the tape that ends at tick"), (20_000, "on 9 fixtures of the tape alone")],
)
def test_agent_that_fails_on_a_part_is_told_on_which(tape, max_rows, said):
    height = tape.rows.height

    def fragile(ticks):
        frame = ticks.collect()
        if frame.height < height:
            raise ValueError("too short")
        return frame.head(1)

    with pytest.raises(AgentFailedError, match="ValueError: too short") as caught:
        audit(fragile, tape, max_rows=max_rows)

    assert caught.value.kind == "ValueError"
    assert any(note.startswith(said) for note in caught.value.__notes__), caught.value.__notes__


def test_model_of_the_whole_tape_that_is_kept_from_call_to_call_does_not_help(tape):
    kept = []

    def cached(ticks):
        if not kept:
            kept.append(ticks.group_by("series").agg(close=PRICE.last()).collect())
        closes = kept[0].lazy()
        return ticks.join(closes, on="series", maintain_order="left").filter(pl.col("close") - PRICE > 600)

    agent = isolated(strategy(cached))

    alone = run(tape, [agent], Window())
    assert alone.outcomes["mean_clv_bps"][0] > 100
    with pytest.raises(LookaheadError):
        run(tape, [agent], Window(), audit_seed=4)


def test_agent_that_decides_otherwise_after_shorter_tapes_is_called_so():
    tape = make_tape([message(n, n, {"part1": 5000, "part2": 5000}) for n in range(9)], {1: 600})
    calls = []

    def counting(ticks):
        calls.append(1)
        return ticks.filter(pl.col("tick_seq") == 8) if len(calls) > 1 else ticks.filter(pl.col("tick_seq") > 100)

    with pytest.raises(AgentError, match=r"remembers|depend on later ticks"):
        run(tape, [isolated(strategy(counting))], Window(), audit_seed=1)


def test_agent_that_rolls_dice_is_called_so(tape):
    def gambler(ticks):
        return ticks.filter(pl.col("tick_seq").hash(random.getrandbits(32)) % 50 == 0)

    with pytest.raises(AgentError, match="not deterministic"):
        run(tape, [isolated(strategy(gambler))], Window(), audit_seed=1)


def test_agent_that_reads_the_clock_is_called_so(tape):
    def hasty(ticks):
        return ticks.filter(pl.col("tick_seq").hash(time.time_ns() // 1_000_000) % 50 == 0)

    with pytest.raises(AgentError, match="not deterministic"):
        run(tape, [isolated(strategy(hasty))], Window(), audit_seed=1)


def test_seed_of_the_audit_shapes_no_byte():
    tape = make_tape([message(n, n, {"part1": 5000, "part2": 5000}) for n in range(9)], {1: 600})
    agent = isolated(strategy(agent_id="plain")(lambda ticks: ticks.filter(pl.col("side") == "part1")))

    first, second = (run(tape, [agent], Window(), audit_seed=seed) for seed in (1, 2))

    assert first.sealed == second.sealed


def test_audit_without_cuts_is_refused(tape):
    with pytest.raises(AgentError, match="at least 1 cut, not 0"):
        lookahead_audit(template("baseline"), tape, seed=1, cuts=0)


def test_agent_that_does_nothing_passes(tape):
    assert audit(lambda ticks: ticks.head(0), tape, max_rows=20_000).passed


@given(games(), st.randoms(use_true_random=False))
@settings(max_examples=length(20, 50))
def test_prefix_is_the_tape_of_the_messages_until_then(game, dice):
    if not game.rows:
        return
    whole = Tape.from_ticks(game.ticks, game.fixtures, closing_policy=game.policy)
    last = dice.choice(whole.messages.select("ts_ms", "fixture_id", "tick_seq").rows())
    seen = [row for row in game.rows if (row["ts_ms"], row["fixture_id"], row["tick_seq"]) <= last]

    cut = prefix(whole, last)

    built = Tape.from_ticks(pl.DataFrame(seen, schema=game.ticks.schema), game.fixtures, closing_policy=game.policy)
    assert cut.rows.equals(built.rows)
    assert cut.series.equals(built.series)
    assert cut.binding.content_hash is None
