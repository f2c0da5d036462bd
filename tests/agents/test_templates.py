import polars as pl
import pytest

from clvlab.agents.proposals import MAX_BETS, MAX_ENTRIES, bets_sha256, entries_sha256
from clvlab.agents.registry import TEMPLATES, TRANSCRIBED, template
from clvlab.arena.packs import open_pack
from clvlab.errors import AgentError, UnknownAgentError
from clvlab.law.schema import DECISIONS, SAFE_INTEGER, TICKS
from clvlab.law.tape import Tape
from clvlab.proof.canonical import without_floats
from tests.factories import performed
from tests.length import few


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


PRICED = ("baseline", "cumulative-drift", "sharp-momentum-v2")  # those that decide on prices


@pytest.mark.parametrize("strategy", PRICED)
def test_templates_look_at_nothing_in_play(strategy):
    played = tape(*[(*row, True) for row in walk(5000, 5600, 6000, 6500, 7000, 7400, 7800, 8200)])

    assert template(strategy).decide(played).is_empty()


@pytest.mark.parametrize("strategy", TEMPLATES)
def test_templates_decide_nothing_on_an_empty_tape(strategy):
    assert template(strategy).decide(tape()).is_empty()


@pytest.mark.parametrize("strategy", PRICED)
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


S = SAFE_INTEGER
WAITS = [{"fixture_id": 1, "tick_seq": seq, "action": "WAIT"} for seq in range(MAX_ENTRIES + 1)]
BETS = [{"fixture_id": 1, "tick_seq": seq, "market_key": "m", "side": "a"} for seq in range(MAX_BETS + 1)]
PREFIXES = ([], ["m" * 200] * 10_000, ["m" * 201], ["m"] * 10_001)
STAKE = (1, S, 0, S + 1)
SECONDS = (0, S // 1000, -1, S // 1000 + 1)
COUNT = (0, S, -1, S + 1)
LOGIT = (1, 20_000_000, 0, 20_000_001)
PROB = (1, 10_000, 0, 10_001)
SHARE = (0.0, 1.0, -0.001, 1.001)
# Of every parameter: the least and greatest value it takes, one below and one above; null where there is none.
BOUNDS = {
    "baseline": {"markets": PREFIXES, "stake": STAKE, "warmup_ticks": COUNT, "min_prob_bps": PROB},
    "cumulative-drift": {
        "markets": PREFIXES, "stake": STAKE, "min_drift_micro_logits": LOGIT, "persistence_alpha": (1e-9, 1.0, 0.0, 1.001),
        "min_persistence": (-1.0, 1.0, -1.001, 1.001), "warmup_ticks": COUNT, "warmup_s": SECONDS, "cooldown_s": SECONDS,
        "max_prob_bps": PROB,
    },
    "sharp-momentum-v2": {
        "markets": PREFIXES, "stake": STAKE, "families": PREFIXES, "level_alpha": (1e-9, 1.0, 0.0, 1.001),
        "lookback_movements": (2, 500, 1, 501), "min_movements": (2, S, 1, S + 1), "min_z_milli": (0, 1_000_000, -1, 1_000_001),
        "min_scale_micro_logits": LOGIT, "change_allowance_micro_logits": (0, 20_000_000, -1, 20_000_001),
        "change_threshold_micro_logits": (1, S, 0, S + 1), "persistence_movements": (1, 500, 0, 501), "min_persistence": SHARE,
        "warmup_ticks": COUNT, "warmup_s": SECONDS, "cooldown_s": SECONDS, "max_prob_bps": PROB,
    },
    "bets": {
        "markets": PREFIXES, "stake": STAKE, "transcript": ([], BETS[:-1], None, BETS),
        "transcript_sha256": (None, bets_sha256([]), None, "sha256:0"),
    },
    "llm": {
        "markets": PREFIXES, "stake": STAKE, "transcript": ([], WAITS[:-1], None, WAITS),
        "transcript_sha256": (None, entries_sha256([]), None, "sha256:0"),
    },
}  # fmt: skip
FIELDS = [(strategy, field) for strategy, fields in BOUNDS.items() for field in fields]


def test_the_bounds_of_every_parameter_of_every_template_are_known():
    assert {strategy: set(fields) for strategy, fields in BOUNDS.items()} == {
        strategy: set(model.model_fields) for strategy, (model, _) in TEMPLATES.items()
    }


@pytest.mark.parametrize(("strategy", "field"), FIELDS)
def test_a_parameter_at_its_bounds_is_taken_and_runs(strategy, field):
    ticks = open_pack("starter").tape([90000001])

    for value in BOUNDS[strategy][field][:2]:
        agent = template(strategy, {field: value})
        if field != "transcript":  # its entries are about another tape
            agent.decide(ticks)


@pytest.mark.parametrize(("strategy", "field"), FIELDS)
def test_a_parameter_beyond_its_bounds_is_named(strategy, field):
    least, _, below, above = BOUNDS[strategy][field]
    wrong_types = [True, {"a": 1}, object()] + ([float("nan"), float("inf"), "a half"] if isinstance(least, float) else [])

    for value in ([below] if below is not None else []) + [above, *wrong_types]:
        with pytest.raises(AgentError, match=f"{strategy}: parameter {field}"):
            template(strategy, {field: value})


@pytest.mark.parametrize("strategy", TEMPLATES)
def test_an_unknown_parameter_is_named_beside_the_known_ones(strategy):
    with pytest.raises(AgentError, match=r"no parameter 'nonsense'; it has: markets, stake"):
        template(strategy, {"nonsense": 1})


def test_an_unknown_template_names_what_there_is():
    with pytest.raises(UnknownAgentError, match="baseline, cumulative-drift, sharp-momentum-v2, llm, bets"):
        template("nobody")


@pytest.mark.parametrize("strategy", TEMPLATES)
def test_a_template_says_what_it_does_what_it_takes_and_where_it_is_from(strategy):
    model, rule = TEMPLATES[strategy]

    assert len(rule.__doc__) > 150
    assert [name for name, field in model.model_fields.items() if len(field.description or "") < 10] == []


@few(3)
@pytest.mark.realdata
@pytest.mark.parametrize("strategy", TEMPLATES)
@pytest.mark.parametrize("source", ["polymarket", "txline"])
def test_every_template_decides_and_seals_over_real_odds(real_pack, source, strategy):
    test = performed(real_pack(source), strategy)

    assert test.verification.passed
    assert test.scores.height > 0 or strategy == "bets"
    assert test.report["metrics"]["action_count"] > 0 or strategy in TRANSCRIBED


def test_sealed_configuration_can_be_run_again():
    sealed = without_floats(template("cumulative-drift", {"min_persistence": -0.25}).identity.config)

    again = template("cumulative-drift", sealed)

    assert sealed["min_persistence"] == "-0.25"
    assert without_floats(again.identity.config) == sealed


def test_what_is_sealed_of_a_template_is_what_it_decides_by_whatever_was_done_to_its_identity():
    agent = template("baseline")
    agent.identity.config["stake"] = 7

    test = performed(open_pack("starter"), agent)

    assert test.agent["config"]["stake"] == 100 == test.evidence.decisions["stake"].max()


@pytest.mark.parametrize("text", ["0,3", "1e-1", "nan", "0.3 ", "--1", ""])
def test_text_that_is_no_decimal_is_no_fraction(text):
    with pytest.raises(AgentError, match="min_persistence"):
        template("cumulative-drift", {"min_persistence": text})
