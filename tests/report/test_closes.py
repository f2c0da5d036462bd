"""The same decisions against every close: beside runs that are sealed by each, and a loop over plain rows."""

from functools import cache

import polars as pl
import pytest

import clvlab as cl
from tests import booked

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

    assert "Against every close there is" in sheet._repr_html_()
    assert "On offer by book" in sheet._repr_html_()
    assert other.tables["closes"].is_empty()
    assert "On offer by book" not in other._repr_html_()


def test_a_run_closed_by_a_book_has_a_whole_sheet(closed_by):
    found = closed_by("ash").tear_sheet(resamples=100, draws=5)

    assert found.permutation is not None
    assert found.delay is not None
    assert found.tables["closes"]["close"].to_list()[0] == "consensus"
