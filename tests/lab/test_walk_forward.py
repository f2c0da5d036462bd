import matplotlib as mpl
import polars as pl
import pytest
from matplotlib.figure import Figure

import clvlab as cl
from clvlab.errors import AgentError, PackError, StatisticsError
from clvlab.law.closing import fixture_closes
from clvlab.runs.folds import folds_of

mpl.use("Agg")

GRID = {"warmup_ticks": [20, 40], "cooldown_s": [600, 3600]}


@pytest.fixture(scope="module")
def walked():
    return cl.walk_forward("season", "cumulative-drift", GRID, folds=4, objective="edge", progress=False)


@pytest.fixture(scope="module")
def pack():
    return cl.open_pack("season")


def folds(pack, count):
    return folds_of(pack.source, count)


def test_each_fold_is_decided_on_by_what_was_best_before(walked, pack):
    parts = folds(pack, 4)

    for row in walked.frame.iter_rows(named=True):
        train = [one for fold in parts[: row["fold"]] for one in fold]
        best = cl.sweep("season", "cumulative-drift", GRID, fixtures=train, by="edge", progress=False).best()
        assert {name: row[name] for name in GRID} == dict(best.params)
        assert row["train_edge_pct"] == pytest.approx(mean_edge(best.scores))


def mean_edge(scores):
    counted = scores.filter(pl.col("reason") == "scored", ~pl.col("at_close"))
    return counted["edge_bps"].mean() / 100


def test_what_counts_was_decided_after_the_last_training_close(walked, pack):
    parts, tape = folds(pack, 4), pack.source.tape()
    closes = fixture_closes(tape, cl.Window())
    decisions = walked.run.evidence.decisions

    for number, test in enumerate(parts[1:], 1):
        train = [one for fold in parts[:number] for one in fold]
        last = closes.filter(pl.col("fixture_id").is_in(train))["close_ts_ms"].max()
        own = decisions.filter(pl.col("fixture_id").is_in(test))
        assert own["ts_ms"].min() > last
    assert set(decisions["fixture_id"]).isdisjoint(parts[0])


def test_what_was_removed_is_counted(walked, pack):
    parts = folds(pack, 4)
    row = walked.frame.row(0, named=True)

    whole = cl.backtest("season", "cumulative-drift", params={name: row[name] for name in GRID}, fixtures=parts[1])

    kept = walked.run.evidence.decisions.filter(pl.col("fixture_id").is_in(parts[1])).height
    assert whole.scores.height == kept + row["removed"]
    assert walked.removed == walked.frame["removed"].sum()


def test_the_sheet_pools_what_counts(walked):
    assert walked.frame["n"].sum() == walked.sheet.clv.n
    means = walked.frame.select((pl.col("test_edge_pct") * pl.col("n")).sum() / pl.col("n").sum()).item()
    assert walked.sheet.edge.mean == pytest.approx(means)
    assert walked.sheet.source.verification.passed
    assert walked.sheet.source.started["agents"][0]["causality"] == "unchecked"


def test_folds_of_one_s_own_follow_in_their_order(pack):
    half = {one: ("2024" if place < 150 else "2025") for place, one in enumerate(pack.fixture_ids)}

    found = cl.walk_forward("season", "cumulative-drift", {"warmup_ticks": [20]}, by=half, progress=False)

    assert found.frame.select("train_fixtures", "test_fixtures").rows() == [(150, 150)]


def test_a_walk_shows_itself_and_says_what_it_removed(walked):
    drawn = walked.degradation(Figure().add_subplot())

    assert "removed as made before the last training close" in repr(walked)
    assert [label.get_text() for label in drawn.get_xticklabels()] == ["in training", "out of sample"]
    assert walked._repr_html_().count("<svg") == 1


def test_progress_is_told_after_every_point_of_every_fold():
    told = []

    cl.walk_forward(
        "season", "baseline", {"warmup_ticks": [0, 5]}, folds=3, progress=lambda done, total: told.append((done, total))
    )

    assert told == [(done, 6) for done in range(1, 7)]


def test_an_error_names_the_point():
    with pytest.raises(AgentError) as error:
        cl.walk_forward("season", "baseline", {"no_such": [1]}, folds=3, progress=False)

    assert "at the setting no_such=1" in error.value.__notes__


def test_a_grid_without_an_interval_in_training_is_refused():
    nothing = cl.Window("none", market_allowlist=("NOTHING",))

    with pytest.raises(StatisticsError, match="interval in training"):
        cl.walk_forward("season", "baseline", {"warmup_ticks": [0]}, folds=3, window=nothing, progress=False)


def test_an_agent_that_keeps_what_it_saw_sees_one_fold_only():
    @cl.strategy
    def remembering(ticks, *, nth=20):
        seen = globals().setdefault("SEEN", set())
        now = set(ticks.select("fixture_id").unique().collect()["fixture_id"])
        others = len(seen - now)
        seen |= now
        chosen = ticks.sort("fixture_id", "tick_seq").group_by("fixture_id", maintain_order=True)
        return chosen.agg(pl.col("tick_seq", "market_key", "side").slice(nth).first()).with_columns(reason=pl.lit(f"{others}"))

    some = cl.open_pack("season").fixture_ids[:60]

    found = cl.walk_forward("season", remembering, {"nth": [50, 60]}, folds=3, fixtures=some, progress=False)

    assert set(found.run.evidence.decisions["reason"]) == {"0"}


@pytest.mark.parametrize("fixtures", [[1], ["a"], [90000000.0]])
def test_unknown_fixtures_are_named(fixtures):
    with pytest.raises(PackError, match=f"{fixtures[0]}"):
        cl.walk_forward("starter", "cumulative-drift", {"warmup_ticks": [20]}, folds=2, fixtures=fixtures, progress=False)
