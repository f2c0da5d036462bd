"""What every face prints of numbers, times and codes."""

import pytest

from clvlab import words
from clvlab.api.runs import RunKind
from clvlab.law.schema import Causality, Reason
from clvlab.proof.checks import CHECKS, Verdict


@pytest.mark.parametrize("say", [words.count, words.percent, words.share, words.odds, words.p_value, words.span_by_units])
def test_of_none_comes_none(say):
    assert say(None) is None
    assert say(0) is not None


@pytest.mark.parametrize(("number", "said"), [(0, "0"), (-1, "-1"), (999, "999"), (1000, "1,000"), (-1_234_567, "-1,234,567")])
def test_thousands_stand_apart(number, said):
    assert words.count(number) == said
    assert words.counted(number, "tick") == f"{said} ticks"


def test_one_alone_is_no_plural():
    assert [words.counted(number, "row") for number in (0, 1, 2, -1)] == ["0 rows", "1 row", "2 rows", "-1 rows"]


@pytest.mark.parametrize("zero", [0, 0.0, -0.0, 0.04, -0.04])
def test_what_rounds_to_zero_has_no_sign_of_its_own(zero):
    assert words.signed(zero) == "0.0"
    assert words.signed(zero, 0) == "0"
    assert words.amount(zero) == "+0 bps"
    assert words.mean_clv(zero / 100) == "+0.00 bps of probability"


@pytest.mark.parametrize(
    ("number", "said"), [(999.4, "+999 bps"), (999.6, "+1,000 bps"), (-999.6, "-1,000 bps"), (-7, "-7 bps"), (7, "+7 bps")]
)
def test_basis_points_have_their_sign(number, said):
    assert words.amount(number) == said
    assert words.signed(number, 0) == said.removesuffix(" bps")


def test_a_bound_beside_zero_is_never_spelt_as_zero():
    assert words.signed_like(-0.04, 30.0, -0.04, 60.0) == "-0.04"
    assert words.signed_like(-0.00001) == "0"
    assert words.estimate(0.0, -0.04, 0.04, "bps") == "0 bps [-0.040, +0.040]"


def test_an_interval_needs_both_ends():
    assert words.interval(-0.001, 2.0) == " [0.00, 2.00]"
    assert words.interval(-1.0, None) == words.interval(None, 1.0) == ""
    assert words.estimate(-1250.4, -2000.0, None, "bps") == "-1,250 bps"


@pytest.mark.parametrize(
    ("p", "said"),
    [
        (0.0, "p < .001"), (0.00099, "p < .001"), (0.001, "p .001"), (0.0994, "p .099"), (0.0995, "p .10"), (0.5, "p .50"),
        (0.995, "p .99"), (0.9951, "p 1"), (1.0, "p 1"),
    ],
)  # fmt: skip
def test_p_values_have_the_digits_that_are_read(p, said):
    assert words.short_p_value(p) == said


@pytest.mark.parametrize(
    ("length_s", "glance", "units", "one", "whole"),
    [
        (0, "0 s", "0 s", "0 s", "0 s"),
        (59.5, "59 s", "59 s", "59.5 s", "60 s"),
        (60, "60 s", "1 min", "60 s", "60 s"),
        (119.9, "119 s", "1 min 59 s", "119.9 s", "120 s"),
        (120, "2 min", "2 min", "2.0 min", "120 s"),
        (3_600, "60 min", "1 h", "60.0 min", "3,600 s"),
        (7_200, "2 h 0 min", "2 h", "2.0 h", "7,200 s"),
        (172_800, "2 d 0 h", "2 d", "2.0 d", "172,800 s"),
        (86_400_000, "1000 d 0 h", "1,000 d", "1,000.0 d", "86,400,000 s"),
    ],
)
def test_lengths_change_their_unit_where_it_is_full(length_s, glance, units, one, whole):
    assert words.span(length_s) == glance
    assert words.span_by_units(int(1000 * length_s)) == units
    assert words.span_in_one(length_s) == one
    assert words.seconds(length_s) == whole


def test_a_length_below_zero_is_told_as_each_face_did():
    assert words.span(-5) == "0 s"
    assert words.span_by_units(-90_500) == "-1 min 30 s"
    assert words.span_by_units(-999) == "0 s"
    assert words.span_in_one(-119) == "-119 s"


@pytest.mark.parametrize(
    ("ts_ms", "said"),
    [
        (0, "1970-01-01 00:00:00 UTC"),
        (-1, "1969-12-31 23:59:59 UTC"),
        (253_402_300_799_999, "9999-12-31 23:59:59 UTC"),
        (253_402_300_800_000, "253402300800000 ms"),
        (10**30, f"{10**30} ms"),
        (-(10**17), "-100000000000000000 ms"),
    ],
)
def test_times_that_no_calendar_has_stay_milliseconds(ts_ms, said):
    assert words.moment(ts_ms) == said
    assert (words.utc(ts_ms) is None) is said.endswith(" ms")


REPORT = {
    "closing_age_ms": {"median": None, "max": None},
    "close_kinds": {},
    "closing_source": "consensus",
    "provenance": "synthetic",
}


def test_a_report_without_closes_says_so_as_each_face_does():
    said = {"decisions by close": "none", "source of the close": "consensus (synthetic, origin not shown)"}

    assert words.close_facts(REPORT) == said | {"age of the close": "none"}
    assert words.close_facts(REPORT, "no scored action") == said | {"age of the close": "no scored action"}


def test_a_report_tells_of_gaps_and_verification_where_it_has_them():
    ages = {"closing_age_ms": {"median": 59_500.0, "max": 3_600_000}, "close_kinds": {"kickoff": 1000, "tape_end": 1}}

    facts = words.close_facts(REPORT | ages | {"grade": "captured", "gaps": {}, "pack_verification": "as read"})

    assert facts == {
        "decisions by close": "kickoff 1,000, tape_end 1",
        "age of the close": "median 60 s, at most 3,600 s",
        "source of the close": "consensus (synthetic, origin captured)",
        "gaps": "none",
        "verification": "as read",
    }


def test_every_code_has_words():
    assert set(words.REASONS) == set(words.REASON_FINDINGS) == set(Reason)
    assert set(words.REASON_RULES) == set(Reason) - {Reason.SCORED}
    assert tuple(words.CHECK_QUESTIONS) == tuple(words.CHECK_MEANINGS) == CHECKS
    assert set(words.VERDICTS) == set(Verdict)
    assert set(words.CAUSALITY) == set(Causality)
    assert set(words.RUN_KINDS) == set(RunKind.__value__.__args__[0].__args__)
