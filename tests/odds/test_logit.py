from decimal import Decimal, localcontext

import polars as pl

from clvlab.odds.integers import micro_logits, micro_logits_of


def test_the_committed_table_is_the_rounded_logarithm():
    table = micro_logits().to_list()

    with localcontext() as context:
        context.prec = 40
        for bps in range(0, 10_001, 7):
            p = min(max(bps, 1), 9999)
            exact = (Decimal(p) / Decimal(10_000 - p)).ln() * 1_000_000
            assert abs(exact - table[bps]) <= Decimal("0.5")


def test_the_table_rises_and_is_symmetric():
    table = micro_logits()

    assert table.len() == 10_001
    assert (table.diff().drop_nulls() >= 0).all()
    assert (table + table.reverse() == 0).all()


def test_a_null_probability_has_no_logit():
    assert micro_logits_of(pl.Series([5000, None], dtype=pl.Int32)).to_list() == [0, None]
