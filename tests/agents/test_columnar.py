import hashlib
from textwrap import dedent

import polars as pl
import pytest

import clvlab as cl
from clvlab.agents.columnar import RepeatedTape, strategy
from clvlab.agents.isolation.agent import isolated
from clvlab.engine.run import run
from clvlab.errors import AgentError, DecisionError, LookaheadError, SchemaError
from clvlab.law.closing import Window
from clvlab.law.schema import Causality
from clvlab.proof.evidence import read_evidence
from tests.factories import AUDITED, MARKET, make_agent, make_decisions, make_own_run, make_tape, message

TAPE = make_tape(
    [
        message(0, 0, {"part1": (4000, 2500), "part2": (6000, 1600)}),
        message(1, 60, {"part1": (4500, 2200), "part2": (5500, 1800)}),
        message(2, 90, {"over": (5000, 2000), "under": (5000, 2000)}, market_key="OU|"),
        message(3, 120, {"part1": (5000, 2000), "part2": (5000, 2000)}),
    ],
    {1: 600},
)
NAMED = ["fixture_id", "tick_seq", "market_key", "side"]


@strategy
def rising(ticks, *, rise_bps=100):
    """Back what rose since the message before."""
    return ticks.filter(pl.col("prob_bps") - pl.col("prob_bps").shift(1).over("series") >= rise_bps)


def test_strategy_runs_where_a_template_runs():
    result = make_own_run(TAPE, rising)

    assert result.scores.select("tick_seq", "side", "clv_bps").rows() == [(1, "part1", 500), (3, "part1", 0)]
    assert result.evidence.decisions["stake"].to_list() == [100, 100]


def test_seal_names_the_source_the_parameters_and_how_causality_was_shown():
    agent = read_evidence(make_own_run(TAPE, rising.with_params(rise_bps=600), audit_seed=1).sealed.events).started["agents"][0]

    source = dedent(
        '''\
        @strategy
        def rising(ticks, *, rise_bps=100):
            """Back what rose since the message before."""
            return ticks.filter(pl.col("prob_bps") - pl.col("prob_bps").shift(1).over("series") >= rise_bps)
        '''
    )
    assert agent["source_sha256"] == "sha256:" + hashlib.sha256(source.encode()).hexdigest()
    assert agent["config"] == {"markets": [""], "rise_bps": 600, "stake": 100}
    assert (agent["agent_id"], agent["strategy"], agent["causality"]) == ("rising", "rising", AUDITED)


def test_two_agents_of_one_name_have_runs_of_their_own():
    def decided(side):
        if side == "part1":

            def same(ticks):
                return ticks.filter(pl.col("side") == "part1")
        else:

            def same(ticks):
                return ticks.filter(pl.col("side") == "part2")

        return strategy(same)

    one, other = (make_own_run(TAPE, decided(side)).sealed for side in ("part1", "part2"))

    assert one.run_id != other.run_id


def test_ticks_come_series_by_series_in_order_of_time():
    seen = []

    @strategy(markets=("1X2",), stake=7)
    def watcher(ticks):
        seen.append(ticks.collect())
        return ticks.head(1)

    decided = watcher.decide(TAPE)

    assert seen[0].select("side", "tick_seq", "prob_bps").rows() == [
        ("part1", 0, 4000), ("part1", 1, 4500), ("part1", 3, 5000), ("part2", 0, 6000), ("part2", 1, 5500), ("part2", 3, 5000),
    ]  # fmt: skip
    assert decided["stake"].to_list() == [7]


def test_all_columns_of_a_decision_are_taken():
    row = {
        "fixture_id": 1, "tick_seq": 1, "market_key": MARKET, "side": "part1", "action": "BACK", "stake": 5,
        "limit_odds_milli": 2100, "reason": "why", "confidence": 1, "claimed_edge_bps": 30,
    }  # fmt: skip

    decided = strategy(lambda _ticks: pl.DataFrame([row])).decide(TAPE)

    assert decided.drop("agent_id").to_dicts() == [row]


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (None, "must return a polars frame, not NoneType"),
        ([1], "not list"),
        (pl.DataFrame({"fixture_id": [1]}), "without tick_seq, market_key, side"),
        (pl.DataFrame({name: ["x"] for name in NAMED}), "fixture_id is String"),
        (pl.DataFrame({"fixture_id": [1], "tick_seq": [0], "market_key": [""], "side": [""], "confidance": [1]}), "confidence"),
        (pl.DataFrame({"fixture_id": [1], "tick_seq": [2**40], "market_key": [""], "side": [""]}), "tick_seq"),
    ],
    ids=["nothing", "a list", "columns missing", "texts for integers", "a typo", "a tick that does not fit"],
)
def test_malformed_decisions_are_refused_with_an_example(returned, says):
    def wrong(_ticks):
        return returned

    with pytest.raises(SchemaError, match=says) as caught:
        make_own_run(TAPE, strategy(wrong))

    assert "wrong" in str(caught.value)
    if not isinstance(returned, pl.DataFrame) or len(returned.columns) == 1:
        assert "@clvlab.strategy" in str(caught.value)


def test_columns_of_ones_own_are_left_out():
    decided = strategy(lambda ticks: ticks.with_columns(my_signal=pl.lit(1)).head(1)).decide(TAPE)

    assert "my_signal" not in decided.columns


def claim(**claims):
    values = {key: pl.lit(value) for key, value in claims.items()}
    return strategy(agent_id="bold")(lambda ticks: ticks.head(1).with_columns(**values))


@pytest.mark.parametrize(("confidence", "raw"), [(float("nan"), "nan"), (1.5, "1.5"), (-0.1, "-0.1"), (float("inf"), "inf")])
def test_confidence_that_is_no_probability_is_recorded_and_left_out_of_brier(confidence, raw):
    result = make_own_run(TAPE, claim(confidence=confidence))

    assert result.evidence.decisions.select("confidence_ppm", "confidence_raw").row(0) == (None, raw)
    assert result.outcomes["brier"].to_list() == [None]


@pytest.mark.parametrize(
    ("claims", "says"), [({"claimed_edge_bps": 10**18}, "claimed_edge_bps"), ({"reason": "x" * 10**4}, "limit of 2000 bytes")]
)
def test_claim_beyond_its_limit_is_refused(claims, says):
    with pytest.raises(DecisionError, match=says) as caught:
        make_own_run(TAPE, claim(**claims))

    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("wrong", [{"market_key": "nowhere"}, {"side": "nobody"}])
def test_market_or_side_that_does_not_exist_is_recorded_and_not_scored(wrong):
    result = make_own_run(TAPE, claim(**wrong))

    assert result.scores["valid"].to_list() == [False]


def test_parameter_without_a_default_is_refused():
    with pytest.raises(AgentError, match="'threshold' of bare needs a default"):

        @strategy
        def bare(ticks, threshold):
            return ticks.head(threshold)


def test_unknown_parameter_is_refused():
    with pytest.raises(AgentError, match="no parameter 'fall_bps'; it has: rise_bps"):
        rising.with_params(fall_bps=1)


def test_what_is_no_function_is_refused():
    with pytest.raises(AgentError, match="not 5"):
        strategy(5)


def test_agent_that_looks_ahead_is_not_sealed_unless_asked():
    peeking = strategy(agent_id="peeking")(lambda ticks: ticks.filter(pl.col("prob_bps").shift(-1).over("series") > 4500))

    with pytest.raises(LookaheadError, match=r"peeking.*depend on later ticks.*Nothing was sealed"):
        make_own_run(TAPE, peeking, audit_seed=1)
    unchecked = make_own_run(TAPE, peeking)

    assert read_evidence(unchecked.sealed.events).started["agents"][0]["causality"] == Causality.UNCHECKED


def test_agent_that_looks_ahead_does_not_stop_the_others():
    peeking = strategy(agent_id="peeking")(lambda ticks: ticks.filter(pl.col("prob_bps").shift(-1).over("series") > 4500))

    result = run(TAPE, [isolated(peeking), make_agent(make_decisions({}))], Window(), audit_seed=1)

    evidence = read_evidence(result.sealed.events)
    assert [error["error"] for error in evidence.errors] == ["LookaheadError"]
    assert set(evidence.decisions["agent_id"]) == {"a"}


def test_strategy_backtests_a_pack_by_name_of_its_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import clvlab, polars as pl\n\n@clvlab.strategy\ndef first(ticks, *, n=1):\n"
        "    return ticks.filter(pl.col('side') == 'part1', pl.col('tick_seq') < n)\n"
    )

    one, many = (cl.backtest("starter", f"{file}:first", params={"n": n}, audit=False) for n in (1, 9))

    assert 1 <= one.scores.height < many.scores.height
    for where, says in ((f"{file}:second", "it has: first"), (f"{tmp_path}/none.py:first", "no Python file")):
        with pytest.raises(AgentError, match=says):
            cl.backtest("starter", where)
    file.write_text("1 / 0")
    with pytest.raises(AgentError, match="does not run: ZeroDivisionError"):
        cl.backtest("starter", f"{file}:first")


@strategy(markets=("1X2",))
def averaging(ticks, *, alpha=0.5, shown=False, row=None):
    """Compute what differs in the last bit when it is computed in another order, and change what was shown."""
    if row is not None:  # one row is divided otherwise than several
        ticks = ticks.filter(pl.col("fixture_id") == 90_000_000 + row, pl.col("tick_seq") == row, pl.col("side") == "draw")
        return ticks.with_columns(confidence=pl.col("to_close_s"))
    mean = pl.col("prob_bps").ewm_mean(alpha=alpha).over("series")
    found = ticks.with_columns(confidence=mean / pl.col("prob_bps").sum().over("fixture_id"), reason=pl.col("home"))
    if shown:
        frame = found.collect()
        frame.insert_column(0, pl.lit(1).alias("own"))
        frame[0, "prob_bps"] = 1
        found = frame
    return found.filter(pl.col("prob_bps") > 2000)


@pytest.mark.parametrize("most_rows", [0, 10**9])
def test_a_strategy_that_is_asked_about_a_tape_again_decides_as_about_another_one(most_rows):
    tape = cl.open_pack("starter").source.tape()
    repeated = RepeatedTape(tape, most_rows)

    for alpha, shown in ((0.5, True), (0.25, True), (0.1, False), (0.25, False), (0.5, True)):
        agent = averaging.with_params(alpha=alpha, shown=shown)
        assert repeated.decide(agent).equals(agent.decide(tape))
    for row in range(12):
        agent = averaging.with_params(row=row)
        assert repeated.decide(agent).equals(agent.decide(tape))


def test_ticks_of_a_large_tape_are_not_held():
    small, large = RepeatedTape(TAPE, TAPE.rows.height), RepeatedTape(TAPE, TAPE.rows.height - 1)
    for tape in (small, large):
        for _ in range(3):
            tape.decide(rising)

    assert (small._named is None, large._named is None) == (False, True)
