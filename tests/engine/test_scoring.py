"""Scores read from the tape against scores read from the states that a replay writes down."""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from clvlab.engine.agent import Identity, decisions_of
from clvlab.engine.replay import locate, replay
from clvlab.errors import ClvlabError, DecisionError, EvidenceError
from clvlab.law.closing import Window
from clvlab.law.clv import scores
from clvlab.law.positions import positions
from clvlab.runs.inspector import at_close
from clvlab.runs.search import scorer as scoring
from clvlab.runs.search.scorer import Scorer
from clvlab.statistics.measures import FIXTURE_SUMS, MEASURES, counted, without_close
from tests.engine.strategies import MARKETS, decisions, games, windows
from tests.engine.test_replay_properties import tape_of
from tests.factories import make_agent, make_decisions, make_tape, message
from tests.length import length

TICKS = [message(0, 0, {"part1": 5000, "part2": 5000}), message(1, 60, {"part1": 5100, "part2": 4900})]


def by_replay(tape, window, agent):
    found = replay(tape, locate(tape, decisions_of(agent, tape)), window)
    rows = scores(positions(*found.lines), window, tape.max_close_age_s)
    return rows.with_columns(at_close(*found.frames))


@pytest.mark.long
@settings(max_examples=length(60, 500))
@given(st.data())
def test_scores_are_those_of_the_replay(data):
    game, window = data.draw(games()), data.draw(windows())
    tape, agent = tape_of(game), make_agent(data.draw(decisions(game)))

    assert_frame_equal(Scorer(tape, window).scores(agent), by_replay(tape, window, agent))


def test_an_entry_at_the_closing_message_is_marked():
    tape = make_tape(TICKS, {1: 120})
    found = Scorer(tape, Window(min_clv_horizon_s=0)).scores(
        make_agent(make_decisions({"tick_seq": 0}, {"tick_seq": 1}, {"tick_seq": 1, "action": "WAIT"}))
    )

    assert found["at_close"].to_list() == [False, True, False]


def test_a_tick_that_does_not_exist_and_a_price_that_no_market_has_are_refused():
    tape = make_tape(TICKS)
    with pytest.raises(DecisionError, match="'tick_seq': 7"):
        Scorer(tape, Window()).scores(make_agent(make_decisions({"tick_seq": 7})))
    broken = tape.rows.with_columns(prob_bps=pl.lit(10_001, pl.Int32))
    with pytest.raises(EvidenceError, match="a price out of range"):
        Scorer(replace(tape, rows=broken), Window())


@dataclass(frozen=True)
class Returning:
    """Returns a frame as it is."""

    frame: pl.DataFrame
    identity: Identity = Identity("a", "fixed", "1")  # noqa: RUF009

    def decide(self, _tape):
        return self.frame


@st.composite
def frames(draw, game):
    """Rows of the game, mostly in order of side and tick, and now and then something else among them."""
    rows = sorted({(row["fixture_id"], row["market_key"], row["side"], row["tick_seq"]) for row in game.rows})
    picked = draw(st.lists(st.sampled_from(rows), unique=True, max_size=30)) if rows else []
    picked = picked if draw(st.booleans()) else sorted(picked)
    named = [dict(zip(("fixture_id", "market_key", "side", "tick_seq"), row, strict=True)) for row in picked]
    odd = st.sampled_from(
        [
            {"action": "WAIT"}, {"action": "WAIT", "market_key": None, "side": None}, {"action": "SELL"}, {"action": None},
            {"market_key": None}, {"side": None}, {"side": "nobody"}, {"market_key": "absent|"}, {"tick_seq": 99},
            {"tick_seq": None}, {"fixture_id": None}, {"fixture_id": 5}, {"agent_id": "b"}, {"agent_id": None},
            {"agent_id": ""}, {"stake": -1}, {"stake": None}, {"reason": "x" * 2001}, {"confidence": 7.5},
            {"claimed_edge_bps": 2**53}, {"limit_odds_milli": -1}, {"tick_seq": 0}, {"market_key": next(iter(MARKETS))},
        ]
    )  # fmt: skip
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        if named:
            at = draw(st.integers(0, len(named) - 1))
            named.insert(draw(st.integers(0, len(named))), named[at] | draw(st.one_of(odd, st.just({}))))
    frame = make_decisions(*named)
    return draw(st.sampled_from([frame, frame, frame, frame.drop("side"), frame.with_columns(pl.col("stake").cast(pl.String))]))


def sums_by_join(scores):
    """``FIXTURE_SUMS`` of the counted decisions, and a number of others beside them."""
    rows = scores.filter(counted()).select(
        "fixture_id",
        *(
            value.cast(pl.Float64).alias(f"{name}_{part}")
            for name, one in MEASURES.items()
            for part, value in (("sums", one.value), ("lowest", one.lowest), ("highest", one.highest))
        ),
    )
    found = {}
    for row in rows.iter_rows(named=True):
        own = found.setdefault(row["fixture_id"], dict.fromkeys(FIXTURE_SUMS, 0.0) | {"gone": 0})
        own["fixture_id"] = row["fixture_id"]
        for name in MEASURES:
            value, low, high = (row[f"{name}_{part}"] for part in ("sums", "lowest", "highest"))
            if value is not None:
                for part, added in (
                    ("sums", value),
                    ("counts", 1),
                    ("squares", value * value),
                    ("lowest", low),
                    ("highest", high),
                ):
                    own[f"{name}_{part}"] += np.nan if added is None else added
    sums = pl.DataFrame(list(found.values()), schema=FIXTURE_SUMS).drop("gone")
    gone = scores.filter(without_close()).group_by("fixture_id").agg(gone=pl.len().cast(pl.Int64))
    joined = sums.join(gone, on="fixture_id", how="full", coalesce=True)
    return joined.select(pl.col(*FIXTURE_SUMS).fill_null(0)).sort("fixture_id")


def outcome(asked):
    """Return a frame as its types and bytes, or an error as its class, text and notes."""
    try:
        found = asked()
    except ClvlabError as error:
        return type(error), str(error), getattr(error, "__notes__", [])
    return found.schema, [column.to_numpy().tobytes() for column in found], found.null_count().row(0)


@pytest.mark.long
@settings(max_examples=length(150, 3_000))
@given(st.data())
def test_sums_of_rows_scored_beforehand_are_those_of_the_scores(data):
    game, window = data.draw(games()), data.draw(windows())
    tape, prepared = tape_of(game), Scorer(tape_of(game), window)
    prepared._work = scoring._MOST_ROWS

    for frame in (data.draw(frames(game)) for _ in range(3)):
        agent = Returning(frame)
        expected = outcome(lambda agent=agent: sums_by_join(Scorer(tape, window).scores(agent)))

        assert outcome(lambda agent=agent: Scorer(tape, window).sums(agent)) == expected
        assert outcome(lambda agent=agent: prepared.sums(agent)) == expected


def backs(*ticks, **changes):
    return Returning(make_decisions(*({"tick_seq": tick} | changes for tick in ticks)))


@pytest.mark.parametrize(
    ("agent", "located"),
    [
        (backs(0, 1), 0),
        (backs(), 0),
        (backs(0, action="WAIT"), 1),
        (backs(0, market_key="absent|"), 1),
        (backs(0, side="nobody"), 1),
        (Returning(pl.concat([backs(0).frame, backs(1, agent_id="b").frame])), 1),
    ],
)
def test_only_backs_of_one_agent_on_rows_are_summed_without_being_located(agent, located, monkeypatch):
    tape, window, calls = make_tape(TICKS, {1: 120}), Window(min_clv_horizon_s=0), []
    prepared = Scorer(tape, window)
    prepared.sums(backs(0))
    monkeypatch.setattr(scoring, "locate", lambda *asked: calls.append(1) or locate(*asked))

    found = prepared.sums(agent)

    assert len(calls) == located
    assert found.equals(sums_by_join(Scorer(tape, window).scores(agent)))


def test_rows_are_scored_once_decisions_took_as_long_and_never_on_a_tape_that_is_too_large(monkeypatch):
    def rows_scored(most_rows):
        calls = []
        monkeypatch.setattr(scoring, "_MOST_ROWS", most_rows)
        monkeypatch.setattr(scoring, "_POINT_ROWS", 1)
        monkeypatch.setattr(Scorer, "_score_rows", lambda own: calls.append(own._work) or scored(own))
        scorer = Scorer(make_tape(TICKS), Window())
        for _ in range(5):
            scorer.sums(backs(0))
        return calls

    scored = Scorer._score_rows
    assert rows_scored(4) == [4]
    assert rows_scored(3) == []


def test_one_decision_is_summed_as_one_and_not_as_one_of_many():
    """Polars divides one row otherwise than several: 100 x (3901 / 1000 - 1) differs in the last bit."""
    ticks = [message(tick, 60 * tick, {"part1": (2500, 3901), "part2": (7500, 1300)}) for tick in range(5)]
    tape, window = make_tape(ticks, {1: 900}), Window()
    prepared = Scorer(tape, window)
    prepared._work = 1_000

    found = [prepared.sums(backs(*range(count))) for count in (1, 2)]

    assert [one["edge_highest"].item() for one in found] == [290.09999999999997, 290.1 + 290.1]
    assert found[0].equals(sums_by_join(Scorer(tape, window).scores(backs(0))))


@pytest.mark.parametrize("rows_at_once", [1, 5, 1_000])
def test_rows_are_scored_in_slices_of_whole_fixtures(rows_at_once, monkeypatch):
    monkeypatch.setattr(scoring, "_ROWS_AT_ONCE", rows_at_once)
    ticks = [
        message(tick, 60 * tick, {"part1": 5000 + tick, "part2": 5000 - tick}, fixture_id=f)
        for f in (1, 2, 3)
        for tick in range(f)
    ]
    scorer = Scorer(make_tape(ticks, {1: 600, 2: 600, 3: 600}), Window())
    scorer._work = 1_000
    agent = Returning(make_decisions(*({"fixture_id": f, "tick_seq": tick} for f in (3, 1, 2) for tick in range(f))))

    assert scorer.sums(agent).equals(sums_by_join(scorer.scores(agent)))
    assert scorer._scored_rows is not None
