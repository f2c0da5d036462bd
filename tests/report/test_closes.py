"""The same decisions against every close: beside runs that are sealed by each, and a loop over plain rows."""

from dataclasses import replace
from functools import cache

import polars as pl
import pytest

import clvlab as cl
from clvlab.engine.replay import locate, with_seq, with_states
from clvlab.law.clv import scores
from clvlab.law.positions import positions
from clvlab.law.schema import DECISIONS, ClosingPolicy
from clvlab.packs.writer import write_pack
from clvlab.report.breakdowns import closes_table, on_offer_table, scored_by_source
from clvlab.runs.inspector import at_close
from tests import booked
from tests.length import few, length

KEY = ["fixture_id", "tick_seq", "market_key", "side"]


@cl.strategy
def at_random(ticks, *, seed=1):
    """Back some sides of some messages."""
    chosen = pl.struct("fixture_id", "tick_seq", "side").hash(seed) % 5 == 0
    return ticks.filter(chosen).select("fixture_id", "tick_seq", "market_key", "side")


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packs") / "booked"
    booked.write_booked(folder, 4, fixtures=6, messages=60)
    return cl.open_pack(folder)


@pytest.fixture(scope="module")
def closed_by(pack):
    """What the decisions at random come to by a close; look-ahead is not what is asked about them."""
    return cache(lambda close: cl.backtest(pack, at_random, close=close, audit=False))


@pytest.fixture(scope="module")
def sheet(closed_by):
    return closed_by(None).tear_sheet(resamples=100, draws=5)


def counted(done):
    return done.scores.with_columns(at_close=done.source.at_close).filter(pl.col("reason") == "scored", ~pl.col("at_close"))


def test_every_close_says_what_a_run_by_it_says_of_the_same_decisions(closed_by, sheet):
    consensus = counted(closed_by(None)).select(*KEY, of_consensus="clv_bps")
    rows = {row["close"]: row for row in sheet.tables["closes"].iter_rows(named=True)}

    assert list(rows) == ["consensus", *booked.NAMES]
    assert rows["consensus"]["mean_clv_bps"] == pytest.approx(sheet.clv.mean)
    for book in booked.NAMES:
        both = counted(closed_by(book)).join(consensus, on=KEY)
        assert rows[book]["n"] == both.height > 10
        assert rows[book]["mean_clv_bps"] == pytest.approx(both["clv_bps"].mean())
        assert rows[book]["difference_bps"] == pytest.approx((both["clv_bps"] - both["of_consensus"]).mean())
        assert rows[book]["opposite"] == pytest.approx(
            both.select((pl.col("clv_bps") * pl.col("of_consensus") < 0).mean()).item()
        )


def test_what_was_on_offer_is_what_a_loop_finds(sheet):
    _, said = booked.rows_of(4, fixtures=6, messages=60)
    decisions = sheet.scored.select(*KEY, "close_prob_bps").rows()

    def offered(book, fixture, tick, market, side):
        own = [
            (seq, odds)
            for f, m, s, b, seq, _, _, odds, _ in said
            if (f, m, s, b) == (fixture, market, side, book) and seq <= tick
        ]
        return max(own, default=(0, None))[1]

    everywhere = [{book: offered(book, *decision[:4]) for book in booked.NAMES} for decision in decisions]
    for row in sheet.tables["on_offer"].iter_rows(named=True):
        quoted = [(prices, decision[4]) for prices, decision in zip(everywhere, decisions, strict=True) if prices[row["book"]]]
        own = [prices[row["book"]] for prices, _ in quoted]
        best = [max(price for price in prices.values() if price) for prices, _ in quoted]
        edges = [price * close / 100_000 - 100 for price, (_, close) in zip(own, quoted, strict=True)]
        assert row["quoted"] == pytest.approx(len(own) / len(decisions))
        assert row["best"] == pytest.approx(sum(a == b for a, b in zip(own, best, strict=True)) / len(own))
        assert row["mean_edge_pct"] == pytest.approx(sum(edges) / len(edges), abs=0.01)


def test_the_sheet_shows_both_and_a_pack_without_books_neither(sheet):
    other = cl.backtest("starter", "baseline").tear_sheet(resamples=20, draws=2)

    assert "CLV against each close" in sheet._repr_html_()
    assert "Prices of each book" in sheet._repr_html_()
    assert other.tables["closes"].is_empty()
    assert "Prices of each book" not in other._repr_html_()


def test_a_run_closed_by_a_book_has_a_whole_sheet(closed_by):
    found = closed_by("ash").tear_sheet(resamples=100, draws=5)

    assert found.permutation is not None
    assert found.delay is not None
    assert found.tables["closes"]["close"].to_list()[0] == "consensus"


def scored_by_the_law(run, scored):
    """Replay the decisions again for each source, as a run that it closes would."""
    decided = run.evidence.decisions.filter(pl.col("seq").is_in(scored["seq"].implode()))
    named = decided.with_columns(confidence=pl.lit(None, pl.Float64)).select(
        pl.col(name).cast(dtype) for name, dtype in DECISIONS.items()
    )
    tape, found = run.pack.tape(), []
    for source in (None, *run.pack.books):
        window = replace(run.window, close_source=source)
        again = with_seq([with_states(tape, locate(tape, named), window)])
        rows = scores(positions(*again.lines), window, run.pack.manifest.max_close_age_s)
        counts = (pl.col("reason") == "scored") & ~at_close(*again.frames)
        found.append(
            rows.with_columns(pl.when(counts).then(pl.col("clv_bps", "close_prob_bps"))).select(
                "fixture_id", "clv_bps", "close_prob_bps", "odds_milli", source=pl.lit(source or "consensus")
            )
        )
    return pl.concat(found)


def table_by_joins(found):
    """The prices on offer by joins over keys, book by book."""
    n = found.filter(pl.col("source") == "consensus").height
    found = found.with_columns(place=pl.int_range(pl.len()) % n)
    books = found.filter(pl.col("source") != "consensus").with_columns(most=pl.col("odds_milli").max().over("place"))
    offered = books.group_by("source").agg(
        quoted=pl.col("odds_milli").is_not_null().mean(),
        best=(pl.col("odds_milli") == pl.col("most")).mean(),
        behind_best_pct=(100 * (1 - pl.col("odds_milli") / pl.col("most"))).mean(),
    )
    return offered.sort("source")


SHAPES = [
    pytest.param({"fixtures": 1, "messages": 40}, {}, id="one fixture"),
    pytest.param({"fixtures": 7, "messages": 50}, {}, id="seven fixtures"),
    pytest.param({"fixtures": 3, "messages": 2}, {}, id="hardly a message"),
    pytest.param({"fixtures": 6, "messages": 45}, {"closing_policy": ClosingPolicy.LAST_OPEN}, id="the last open message"),
    pytest.param({"fixtures": 6, "messages": 45}, {"max_close_age_s": 900}, id="old closes"),
    pytest.param(
        {"fixtures": 5, "messages": 45}, {"closing_policy": ClosingPolicy.LAST_OPEN, "max_close_age_s": 400}, id="both"
    ),
]  # fmt: skip


@few(3)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(("sizes", "about"), SHAPES)
def test_all_sources_in_one_pass_score_as_the_law_does_for_each(tmp_path, monkeypatch, sizes, about, missing):
    seen = 0
    for seed in range(length(2, 30)):
        ticks, books = booked.frames(seed, **sizes)
        if missing:  # a book without a market, and one without a fixture
            books = books.filter(~((pl.col("book") == "ash") & pl.col("market_key").str.starts_with("OU")))
            books = books.filter(~((pl.col("book") == "birch") & (pl.col("fixture_id") == 1)))
        manifest = booked.manifest(sizes["fixtures"]).model_copy(update=about)
        write_pack(ticks, manifest, tmp_path / f"{seed}", books=books)
        run = cl.backtest(cl.open_pack(tmp_path / f"{seed}"), at_random, audit=False).source
        if seed % 2:
            monkeypatch.setattr("clvlab.packs.reader.SHARD_ROWS", 200)  # several shards
        sheet = cl.backtest(cl.open_pack(tmp_path / f"{seed}"), at_random, audit=False).tear_sheet()

        found = scored_by_source(run, sheet.scored)

        assert (
            found.with_columns(pl.col("source").cast(pl.String))
            .select("fixture_id", "clv_bps", "close_prob_bps", "odds_milli", "source")
            .equals(scored_by_the_law(run, sheet.scored))
        )
        if sheet.scored.height:
            seen += found["clv_bps"].count()
            offered = on_offer_table(found, 0.95)
            by_joins = table_by_joins(found.with_columns(pl.col("source").cast(pl.String)))
            for name in ("quoted", "best", "behind_best_pct"):
                assert offered[name].to_list() == pytest.approx(by_joins[name].to_list(), nan_ok=True)
            assert closes_table(found, 0.95)["close"].to_list()[0] == "consensus"
    assert seen or sizes["messages"] == 2
