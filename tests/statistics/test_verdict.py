import pytest

from clvlab.statistics.verdict import SEARCH, Phrases, Tone, verdict


@pytest.mark.parametrize(
    ("low", "high", "tone", "begins"),
    [
        (6.0, 77.0, "beats", "Beats the closing line: "),
        (-77.0, -6.0, "loses", "Loses to the closing line: "),
        (-6.0, 77.0, "unclear", "Not distinguishable from zero: "),
        (0.0, 77.0, "unclear", "Not distinguishable from zero: "),
        (-77.0, 0.0, "unclear", "Not distinguishable from zero: "),
    ],
)
def test_only_an_interval_that_leaves_zero_out_is_a_verdict(low, high, tone, begins):
    found = verdict((low + high) / 2, low, high, fixtures=300)

    assert found.tone == tone
    assert found.sentence.startswith(begins)


def test_a_mean_without_an_interval_is_no_verdict_however_high():
    found = verdict(900.0, fixtures=4)

    assert found.tone is Tone.UNCLEAR
    assert "too few for an interval" in found.sentence
    assert "Beats" not in found.sentence


def test_without_a_mean_there_is_nothing_to_judge():
    found = verdict(None, fixtures=0)

    assert (found.tone, str(found)) == (Tone.NOTHING, "Nothing to judge: no decision was scored.")


def test_what_the_interval_does_not_know_of_is_said_unless_it_lies_below_zero():
    assert SEARCH in verdict(5.0, 1.0, 9.0, fixtures=50).sentence
    assert SEARCH in verdict(5.0, -1.0, 11.0, fixtures=50).sentence
    assert SEARCH not in verdict(-5.0, -9.0, -1.0, fixtures=50).sentence


def test_few_fixtures_are_called_few():
    assert "over 6 fixtures, which are few" in verdict(5.0, 1.0, 9.0, fixtures=6).sentence
    assert "few" not in verdict(5.0, 1.0, 9.0, fixtures=60).sentence


def test_a_bound_beside_zero_is_never_spelt_as_zero():
    assert "[+0.2, " in verdict(50.0, 0.2, 99.8, fixtures=80).sentence


def test_other_questions_have_words_of_their_own():
    words = Phrases("a is ahead of b", "a is behind b", "a and b can't be told apart")

    found = verdict(1.5, 0.5, 2.5, fixtures=40, unit="%", wording=words, caveat="")

    assert found.sentence == "a is ahead of b: +1.5 % [+0.5, +2.5] over 40 fixtures."
