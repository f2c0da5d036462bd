"""The fixtures that an audit draws without a look at decisions, asked of agents in this process."""

from functools import cache

import numpy as np
import pytest

import clvlab as cl
from clvlab.engine.decisions import decisions_by_blocks
from clvlab.engine.lookahead import Draw, least_found, lookahead_audit
from tests.engine.hindsight import Abstaining, Excused
from tests.length import few, length
from tests.simulations.audits import PLANTED, Planted
from tests.simulations.blocks import season
from tests.simulations.moving import paths, tape_of

FIXTURES, TICKS = 150, 60
made_up = cache(season)


@pytest.fixture(scope="module")
def tape():
    return tape_of(paths(np.random.default_rng(3), FIXTURES, TICKS))


def audit(uses, tape, *, hides, seed=11):
    at = np.random.default_rng(5).integers(5, TICKS - 10, FIXTURES)
    return lookahead_audit(Planted(uses, at, hides), tape, seed=seed, max_rows=2_000)


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("name", PLANTED)
def test_use_of_the_future_in_many_fixtures_is_found_whatever_was_left_out(tape, name, hides):
    report = audit(PLANTED[name], tape, hides=hides)

    assert not report.passed
    assert report.moved["cut_tick_seq"].max() < TICKS - 1


@pytest.mark.parametrize("hides", [False, True])
def test_agent_that_asks_what_it_knows_passes(tape, hides):
    report = audit(lambda entry, _: entry >= 5_000, tape, hides=hides)

    assert report.passed
    assert (report.blind.of, len(report.blind.fixture_ids), report.blind.tested) == (FIXTURES, 100, 100)


@pytest.mark.parametrize(
    ("fixtures", "drawn", "found"), [(12, 12, 0.35), (300, 100, 0.35), (5000, 100, 0.35), (5000, 100, 1.0)]
)
def test_least_that_is_found_is_found_in_95_of_100_draws(fixtures, drawn, found):
    rng = np.random.default_rng(5)
    least = least_found(fixtures, drawn, found)

    shown = [
        rng.binomial(rng.hypergeometric(cheated, fixtures - cheated, drawn, 40_000), found) for cheated in (least, least - 1)
    ]

    enough, too_few = ((counts > 0).mean() for counts in shown)
    assert enough > 0.945
    assert too_few < 0.955


@pytest.mark.parametrize("seed", range(length(1, 3)))
def test_doing_nothing_where_the_tape_is_no_prefix_of_time_acquits_no_fixture(seed):
    bundled = cl.open_pack("season").source.tape()

    for least_gain_bps in (0, 60):
        assert not lookahead_audit(Abstaining(42, least_gain_bps), bundled, seed=seed).passed


@pytest.mark.parametrize(("every", "seed"), length([(1, 0), (2, 5)], [(1, 0), (1, 1), (1, 3), (2, 5), (2, 6), (2, 7)]))
def test_differing_where_fixtures_end_too_early_spares_no_vetoes_before_kickoffs(every, seed):
    tape = made_up(1, 200)

    assert not lookahead_audit(Excused(10, every), tape, seed=seed).passed


@pytest.mark.parametrize("seed", length([1], [1, 3, 4]))
def test_nor_does_it_by_blocks(seed):
    tape = made_up(1, 200)

    assert not decisions_by_blocks(Excused(10, 1), tape, seed=seed).passed


@few(1)
@pytest.mark.parametrize("ask", [lookahead_audit, decisions_by_blocks])
@pytest.mark.parametrize("seed", range(length(1, 3)))
def test_vetoes_in_the_few_fixtures_that_it_enters_are_found(ask, seed):
    tape = made_up(seed, 200)

    assert not ask(Excused(20, 1, least_id=161), tape, seed=seed).passed


@pytest.mark.long
def test_who_differs_where_fixtures_end_too_early_and_vetoes_nothing_passes():
    tape = made_up(1, 120)

    for report in (lookahead_audit(Excused(10, 1_000), tape, seed=1), decisions_by_blocks(Excused(10, 1_000), tape, seed=1)):
        assert report.passed
        assert (report.blind.tested, report.blind.by_prefixes) == (100, True)


@pytest.mark.parametrize("attempts", [2, 20])
def test_least_of_several_attempts_is_found_in_all_of_them_in_95_of_100(attempts):
    rng = np.random.default_rng(6)
    least = least_found(300, 100, 0.35, attempts)

    every, too_few = (
        (rng.binomial(rng.hypergeometric(cheated, 300 - cheated, 100, (attempts, 20_000)), 0.35) > 0).all(axis=0).mean()
        for cheated in (least, least - 3)
    )

    assert least > least_found(300, 100, 0.35)
    assert every > 0.945
    assert too_few < 0.955


def test_report_says_how_many_attempts_its_bound_is_for(tape):
    def report(attempts):
        at = np.full(FIXTURES, 20)
        return lookahead_audit(
            Planted(lambda entry, _: entry >= 5_000, at, hides=False), tape, seed=lambda _: Draw(1, attempts)
        )

    assert "; no attempt over this pack came to nothing before" in repr(report(1))
    assert f"in {least_found(FIXTURES, 100, 0.35, 7)} of {FIXTURES}" in repr(report(7))
    assert "would have been found with 95 % in each of 7 attempts" in repr(report(7))
    assert report(7).facts()["attempts"] == 7


def test_nothing_is_bounded_by_a_draw_of_too_few():
    assert least_found(3, 3, 0.35) is None
