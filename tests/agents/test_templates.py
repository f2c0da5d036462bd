import polars as pl
import pytest

from clvlab.agents.registry import TEMPLATES, template
from clvlab.application.packs import open_pack
from clvlab.errors import AgentError, UnknownAgentError
from clvlab.law.schema import DECISIONS, TICKS
from clvlab.law.tape import Tape


def tape(*rows):
    """Rows of (tick_seq, ts_s, market, side, prob_bps[, in_running])."""
    ticks = [
        (1, seq, ts * 1000, bool(rest), market, side, prob, None if prob is None else 2000, prob is None)
        for seq, ts, market, side, prob, *rest in rows
    ]
    fixtures = pl.DataFrame(
        {"fixture_id": [1], "kickoff_ts_ms": [None]}, schema={"fixture_id": pl.Int64, "kickoff_ts_ms": pl.Int64}
    )
    return Tape.from_ticks(pl.DataFrame(ticks, schema=TICKS, orient="row"), fixtures)


def walk(*probs, market="m", step_s=60):
    return [
        row
        for n, prob in enumerate(probs)
        for row in ((n, n * step_s, market, "a", prob), (n, n * step_s, market, "b", None if prob is None else 10_000 - prob))
    ]


def picks(frame):
    return frame.sort("tick_seq", "market_key").select("tick_seq", "market_key", "side").rows()


def test_baseline_backs_the_favourite_at_first_sight_of_a_market_once():
    decided = template("baseline").decide(tape(*walk(4000, 7000, 8000)))

    assert picks(decided) == [(0, "m", "b")]
    assert decided.schema == pl.Schema(DECISIONS)


def test_baseline_looks_at_the_first_priced_message_after_the_warm_up_only():
    ticks = tape(*walk(None, 9000, None, 4900, 8000))

    assert picks(template("baseline", {"warmup_ticks": 2, "min_prob_bps": 5101}).decide(ticks)) == []
    assert picks(template("baseline", {"warmup_ticks": 2, "min_prob_bps": 5100}).decide(ticks)) == [(3, "m", "b")]


def test_baseline_breaks_ties_by_the_bytes_of_the_side():
    assert picks(template("baseline").decide(tape(*walk(5000)))) == [(0, "m", "a")]


DRIFT = {"warmup_ticks": 1, "min_drift_micro_logits": 80_000, "min_persistence": 0.2, "cooldown_s": 120}


def test_drift_backs_a_rising_side_again_only_after_the_cooldown():
    decided = template("cumulative-drift", DRIFT).decide(tape(*walk(5000, 5300, 5600, 5900, 6200)))

    assert picks(decided) == [(1, "m", "a"), (3, "m", "a")]
    assert decided["claimed_edge_bps"].to_list() == [300, 900]


def test_drift_measures_log_odds_since_first_sight():
    # ln(0.52 / 0.48) = 0.080043 and ln(0.5199 / 0.4801) = 0.079642
    assert picks(template("cumulative-drift", DRIFT).decide(tape(*walk(5000, 5199)))) == []
    assert picks(template("cumulative-drift", DRIFT).decide(tape(*walk(5000, 5200)))) == [(1, "m", "a")]


def test_drift_needs_movements_that_persist():
    jumpy = tape(*walk(5000, 5600, 5500, 5400, 5300))
    config = DRIFT | {"warmup_ticks": 2}

    assert picks(template("cumulative-drift", config).decide(jumpy)) == []


def test_drift_waits_for_the_warm_up_in_messages_and_seconds():
    ticks = tape(*walk(5000, 5300, 5600, 5900))

    assert picks(template("cumulative-drift", DRIFT | {"warmup_ticks": 3}).decide(ticks)) == [(3, "m", "a")]
    assert picks(template("cumulative-drift", DRIFT | {"warmup_s": 180}).decide(ticks)) == [(3, "m", "a")]


@pytest.mark.parametrize("strategy", TEMPLATES)
def test_templates_look_at_nothing_in_play(strategy):
    played = tape(*[(*row, True) for row in walk(5000, 5600, 6000, 6500, 7000, 7400, 7800, 8200)])

    assert template(strategy).decide(played).is_empty()


@pytest.mark.parametrize("strategy", TEMPLATES)
def test_templates_decide_nothing_on_an_empty_tape(strategy):
    assert template(strategy).decide(tape()).is_empty()


@pytest.mark.parametrize("strategy", TEMPLATES)
def test_templates_propose_in_their_markets_only(strategy):
    ticks = open_pack("starter").tape()

    chosen = template(strategy, {"markets": ["1X2", "OVERUNDER_PARTICIPANT_GOALS|half=1"]}).decide(ticks)["market_key"]

    assert set(chosen) == {"1X2_PARTICIPANT_RESULT||", "OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5"}
    assert template(strategy, {"markets": []}).decide(ticks).is_empty()


@pytest.mark.parametrize("strategy", TEMPLATES)
def test_decisions_on_a_prefix_are_the_prefix_of_the_decisions(strategy):
    whole = open_pack("starter").tape([90000001])
    ticks = whole.ticks().collect()
    decided = template(strategy).decide(whole)

    for cut in (0, 1, 50, 200, 333):
        prefix = Tape.from_ticks(ticks.filter(pl.col("tick_seq") < cut), whole.fixtures)
        assert picks(template(strategy).decide(prefix)) == picks(decided.filter(pl.col("tick_seq") < cut))


@pytest.mark.parametrize("strategy", TEMPLATES)
def test_a_fixture_is_decided_alike_alone_and_among_others(strategy):
    pack = open_pack("starter")
    together = template(strategy).decide(pack.tape()).filter(pl.col("fixture_id") == 90000004)

    alone = template(strategy).decide(pack.tape([90000004]))

    assert picks(alone) == picks(together)


@pytest.mark.parametrize(
    ("strategy", "params"),
    [
        ("baseline", {"stake": 0}),
        ("baseline", {"stake": 2**53}),
        ("baseline", {"stake": True}),
        ("baseline", {"stake": "5"}),
        ("baseline", {"min_prob_bps": 0}),
        ("baseline", {"min_prob_bps": 10_001}),
        ("baseline", {"warmup_ticks": -1}),
        ("baseline", {"nonsense": 1}),
        ("cumulative-drift", {"min_drift_micro_logits": 0}),
        ("cumulative-drift", {"min_drift_micro_logits": 20_000_001}),
        ("cumulative-drift", {"persistence_alpha": 0.0}),
        ("cumulative-drift", {"persistence_alpha": 1.01}),
        ("cumulative-drift", {"persistence_alpha": float("nan")}),
        ("cumulative-drift", {"min_persistence": 1.5}),
        ("cumulative-drift", {"min_persistence": -1.5}),
        ("cumulative-drift", {"warmup_ticks": -1}),
        ("cumulative-drift", {"warmup_s": -1}),
        ("cumulative-drift", {"cooldown_s": -1}),
        ("cumulative-drift", {"cooldown_s": 2**53}),
        ("cumulative-drift", {"max_prob_bps": 10_001}),
    ],
)
def test_a_parameter_out_of_bounds_is_named(strategy, params):
    with pytest.raises(AgentError, match=f"parameter {next(iter(params))}"):
        template(strategy, params)


def test_an_unknown_template_names_what_there_is():
    with pytest.raises(UnknownAgentError, match="baseline, cumulative-drift"):
        template("nobody")
