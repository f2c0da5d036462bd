from decimal import Decimal, localcontext

import numpy as np

from clvlab.odds.integers import micro_probits, normal_bps

HALF = Decimal("0.5")


def normal(z):
    """The normal distribution by its Taylor series, to 30 digits."""
    term = total = z
    k = 0
    while abs(term) > Decimal("1e-34"):
        k += 1
        term = -term * z * z / (2 * k)
        total += term / (2 * k + 1)
    return HALF + total / (2 * Decimal("3.14159265358979323846264338327950288")).sqrt()


def test_the_committed_table_is_where_the_normal_distribution_reaches_half_a_basis_point():
    table = micro_probits().tolist()

    with localcontext() as context:
        context.prec = 40
        for bps in (*range(0, 10_000, 101), 9_999):
            reached = (bps + HALF) / 10_000
            assert normal((table[bps] - HALF) / 1_000_000) <= reached <= normal((table[bps] + HALF) / 1_000_000)


def test_the_table_rises_and_is_symmetric():
    table = micro_probits()

    assert table.size == 10_000
    assert (np.diff(table) > 0).all()
    assert (table + table[::-1] == 0).all()


def test_a_probability_is_rounded_half_up():
    edge = int(micro_probits()[7_000])

    assert normal_bps(np.array([edge - 1, edge])).tolist() == [7_000, 7_001]
