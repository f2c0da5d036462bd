from itertools import product

import pytest

from clvlab.statistics.verdict import RUN, SEARCH, Figure, Tone, difference_phrases, tone_of, verdict

NOTHING = Figure(None, None, None, 0)
INTERVALS = {Tone.BEATS: (1.0, 9.0), Tone.UNCLEAR: (-4.0, 6.0), Tone.LOSES: (-9.0, -1.0)}
SURE = (Tone.BEATS, Tone.LOSES)


def figure(low, high, fixtures=300, n=None):
    return Figure((low + high) / 2, low, high, fixtures, n)


def of(line, price):
    """The verdict on a line and a price by their tones."""
    return verdict(figure(*INTERVALS[line]), figure(*INTERVALS[price]))


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
def test_without_a_price_the_line_alone_is_judged_and_no_price_is_claimed(low, high, tone, begins):
    found = verdict(figure(low, high), NOTHING)

    assert found.tone == tone
    assert found.sentence.startswith(begins)
    assert "over 300 fixtures; no price is in the evidence" in found.sentence
    assert "%" not in found.sentence


CELLS = {
    ("beats", "beats"): ("beats", "Beats the closing line, and pays at its prices: "),
    ("beats", "unclear"): ("unclear", "Beats the closing line, but may not pay at its prices: "),
    ("beats", "loses"): ("loses", "Moves with the market, but loses at its prices: "),
    ("unclear", "beats"): ("unclear", "Pays at its prices, though its CLV may be luck: "),
    ("unclear", "unclear"): ("unclear", "Not distinguishable from zero, by the line or at its prices: "),
    ("unclear", "loses"): ("loses", "Loses at its prices, and its CLV may be luck: "),
    ("loses", "beats"): ("unclear", "Loses to the closing line, yet pays at its prices: "),
    ("loses", "unclear"): ("loses", "Loses to the closing line, and may not pay at its prices: "),
    ("loses", "loses"): ("loses", "Loses to the closing line, and at its prices: "),
}


@pytest.mark.parametrize(("line", "price"), CELLS)
def test_each_pair_of_tones_has_words_and_a_tone_of_its_own(line, price):
    tone, begins = CELLS[line, price]

    found = of(Tone(line), Tone(price))

    assert found.tone == tone
    assert found.sentence.startswith(begins)
    assert " bps [" in found.sentence
    assert "] at the prices taken, if the close is right, over 300 fixtures" in found.sentence


def test_no_pair_of_tones_is_green_unless_both_are_and_none_hides_what_is_shown():
    for line, price in product(INTERVALS, repeat=2):
        found = of(line, price)
        opening = found.sentence.partition(":")[0].lower()

        assert (found.tone is Tone.BEATS) == (line is price is Tone.BEATS)
        if Tone.LOSES in (line, price):
            assert "distinguishable" not in opening
            assert "lose" in opening or "pays for it" in opening
        if price is Tone.LOSES:
            assert found.tone is Tone.LOSES
        assert ("distinguishable" in opening) == (line is price is Tone.UNCLEAR)


def test_the_misleading_headlines_say_what_the_price_says():
    first = verdict(Figure(87, 48, 127, 120), Figure(0.1, -1.7, 1.9, 120))
    second = verdict(Figure(27, -6, 60, 299), Figure(-3.56, -4.27, -2.85, 299))

    assert first.sentence.startswith(
        "Beats the closing line, but may not pay at its prices: +87 bps [+48, +127] of CLV, and +0.1 % [-1.7, +1.9] "
    )
    assert first.tone is Tone.UNCLEAR
    assert second.sentence == (
        "Loses at its prices, and its CLV may be luck: +27 bps [-6, +60] of CLV, and -3.56 % [-4.27, -2.85] at the "
        "prices taken, if the close is right, over 299 fixtures."
    )
    assert second.tone is Tone.LOSES


def test_a_mean_without_an_interval_is_no_verdict_however_high():
    for price in (NOTHING, Figure(90.0, None, None, 4)):
        found = verdict(Figure(900.0, None, None, 4), price)

        assert found.tone is Tone.UNCLEAR
        assert "over 4 fixtures, too few for an interval (5 at least)" in found.sentence
        assert "eats" not in found.sentence
        assert SEARCH not in found.sentence


def test_a_price_of_few_decisions_is_said_to_be_of_few():
    found = verdict(figure(1, 9, 50, 400), Figure(3.0, None, None, 2, 7))

    assert found.sentence.startswith("Beats the closing line, but may not pay at its prices: ")
    assert (
        "+3.0 % at the prices of 7 of 400 decisions (too few fixtures for an interval), if the close is right" in found.sentence
    )


def test_without_a_mean_there_is_nothing_to_judge():
    found = verdict(NOTHING, NOTHING)

    assert (found.tone, str(found)) == (Tone.NOTHING, "Nothing to judge: no decision was scored.")


def test_what_the_intervals_do_not_know_of_is_said_unless_there_is_only_a_loss():
    for line, price in product(INTERVALS, repeat=2):
        assert (SEARCH in of(line, price).sentence) == (Tone.BEATS in (line, price) or Tone.LOSES not in (line, price))
    assert SEARCH in verdict(figure(-1, 11), NOTHING).sentence
    assert SEARCH not in verdict(figure(-9, -1), NOTHING).sentence


def test_few_fixtures_are_called_few():
    assert "over 6 fixtures, which are few" in verdict(figure(1, 9, 6), figure(1, 9, 6)).sentence
    assert "few" not in verdict(figure(1, 9, 60), NOTHING).sentence


def test_a_bound_beside_zero_is_never_spelt_as_zero():
    assert "[+0.2, " in verdict(figure(0.2, 99.8, 80), NOTHING).sentence


def test_a_difference_has_words_of_its_own_for_each_pair_of_tones():
    words = difference_phrases("b", "a")

    found = verdict(figure(0.5, 2.5, 40), figure(-3, -1, 40), wording=words, caveat="")
    alone = verdict(figure(0.5, 2.5, 40), NOTHING, wording=words, caveat="")

    assert found.sentence == (
        "b is ahead of a by the line, but behind at its prices: +1.5 bps [+0.5, +2.5] of CLV, and -2.0 % [-3.0, -1.0] at the "
        "prices taken, if the close is right, over 40 fixtures."
    )
    assert alone.sentence == "b is ahead of a: +1.5 bps [+0.5, +2.5] over 40 fixtures; not both have prices."
    for (line, price), text in words.both.items():
        assert ("ahead" in text) == (Tone.BEATS in (line, price))
        assert ("behind" in text) == (Tone.LOSES in (line, price))
        assert ("told apart" in text) == (line not in SURE and price not in SURE)


def test_words_in_front_keep_every_pair():
    after = RUN.after("Out of sample,", "nothing")

    assert after.both.keys() == RUN.both.keys()
    assert after.both[Tone.BEATS, Tone.LOSES] == "Out of sample, moves with the market, but loses at its prices"
    assert (after.around, after.nothing) == ("Out of sample, not distinguishable from zero", "nothing")


def test_a_tone_without_a_price_is_that_of_the_line():
    assert [tone_of(tone, Tone.NOTHING) for tone in Tone] == list(Tone)


def test_fixtures_are_called_too_few_only_if_they_are():
    """A difference has no interval where one of its means is of a single fixture, however many the other has."""
    few, many = (verdict(Figure(-195.0, None, None, fixtures), NOTHING).sentence for fixtures in (4, 30))

    assert "over 4 fixtures, too few for an interval (5 at least); " in few
    assert "over 30 fixtures, without an interval: one of the means is of a single fixture; " in many
