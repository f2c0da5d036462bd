from itertools import combinations

import numpy as np
import polars as pl
import pytest

from clvlab.packs.matches import Match, match_of, overlap
from clvlab.packs.matching.prices import are_same_quotes, sketches

DAY_MS = 86_400_000
QUOTES = tuple(range(1, 33))


def match(number, names=("Arsenal", "Chelsea"), kickoffs=(0,), provider="table", source_id=None, quotes=None):
    own = source_id or f"{provider}-{number}"
    return Match(number, f"{provider}{number}", "imported", provider, own, names, kickoffs, quotes)


def none_is_asked(wanted):
    pytest.fail(f"quotes of {sorted(wanted)} were read")


@pytest.mark.parametrize(
    "change", [{}, {"kickoffs": (DAY_MS,)}, {"names": ("Chelsea FC", "Arsenal")}, {"kickoffs": (9 * DAY_MS, 0)}]
)
def test_no_quotes_are_read_where_teams_tell(change):
    found = overlap([match(1, **change)], [match(1, provider="other")], none_is_asked)

    assert (found.same, found.doubtful) == ({1: 0}, {})


def test_no_quotes_are_read_where_ids_tell():
    held = match(1, names=(), kickoffs=(), source_id="x")
    own = [match(7, names=(), kickoffs=(), source_id="x"), match(8, names=(), kickoffs=())]

    assert overlap(own, [held], none_is_asked).same == {7: 0}


def test_no_quotes_are_read_of_matches_of_other_times():
    assert (
        overlap(
            [match(1, kickoffs=(9 * DAY_MS,))], [match(1, provider="other", names=("Leeds", "Burnley"))], none_is_asked
        ).same
        == {}
    )


def test_quotes_are_read_of_those_alone_that_nothing_else_tells():
    asked = []

    def quotes(wanted):
        asked.extend(sorted(wanted))
        return {2: QUOTES}

    own = [match(1, names=("Leeds", "Burnley"), kickoffs=(9 * DAY_MS,)), match(2, names=("a", "b"))]
    found = overlap(own, [match(1, provider="other", quotes=QUOTES)], quotes)

    assert (found.same, asked) == ({2: 0}, [2])


@pytest.mark.parametrize("home", ["T{}", "team{}", "Team {}", "Red Star Team {}"])
def test_teams_that_are_counted_are_not_alike(home):
    numbers = ["1", "5", "05", "12", "96", "98", "1199", "1389", "1399", "1899", "1910"]
    own = [match(place, names=(home.format(one), "Z")) for place, one in enumerate(numbers)]
    held = [match(place, names=(home.format(one), "Z"), provider="other") for place, one in enumerate(numbers)]

    assert overlap(own, held, none_is_asked).same == {place: place for place in range(len(numbers))}


@pytest.mark.parametrize(
    ("one", "other"), [("1. FC Köln", "FC Köln 01/07"), ("Darmstadt 98", "Darmstadt 1898"), ("Schalke04", "Schalke 04")]
)
def test_years_of_clubs_make_no_other_team(one, other):
    assert overlap([match(1, names=(one, "Z"))], [match(1, names=(other, "Z"), provider="other")], none_is_asked).same == {1: 0}


@pytest.mark.parametrize("kept", [4, 8, 11])
def test_few_quotes_that_are_the_same_tell_nothing(kept):
    own, held = match(1, names=("a", "b")), match(1, provider="other", quotes=QUOTES[:kept])

    assert overlap([own], [held], lambda _: {1: QUOTES[:kept]}).same == {}


def test_prices_that_walk_in_steps_at_the_same_seconds_are_not_the_same_quotes():
    chance, fixtures, messages = np.random.default_rng(1), 1_000, 16
    walks = chance.integers(30, 70, (fixtures, 1)) + chance.integers(-2, 3, (fixtures, messages)).cumsum(axis=1)
    series = pl.DataFrame({"fixture_id": np.repeat(np.arange(fixtures), 2), "side_no": np.tile([0, 1], fixtures)})
    rows = pl.DataFrame({
        "series": np.repeat(np.arange(2 * fixtures), messages),
        "tick_seq": np.tile(np.arange(messages), 2 * fixtures),
        "ts_ms": np.tile(np.arange(messages) * 60_000, 2 * fixtures),
        "odds_milli": np.stack([96_000 // walks, 96_000 // (100 - walks)], axis=1).ravel(),
    })  # fmt: skip
    quotes = sketches(rows, series)

    assert len(quotes) == fixtures
    assert [pair for pair in combinations(quotes, 2) if are_same_quotes(quotes[pair[0]], quotes[pair[1]])] == []


@pytest.mark.parametrize("held", [8, 80])
def test_matches_are_found_alike_where_few_and_where_many_are_played_at_a_time(held):
    others = [match(number, (f"Alba {number}", f"Brno {number}"), (number * 1000,), "other") for number in range(held)]
    own = [match(number, (f"Brno {number}", f"Alba {number}"), (number * 1000 + DAY_MS,)) for number in range(held)]

    assert overlap(own, others, none_is_asked).same == {number: number for number in range(held)}


def test_what_has_neither_teams_nor_quotes_is_doubtful():
    found = overlap([match(1, names=())], [match(1, provider="other")], lambda _: {})

    assert (found.same, found.doubtful) == ({}, {1: 0})


def test_what_one_provider_calls_two_is_no_doubt():
    own = match(1, names=(), provider="betfair")

    assert overlap([own], [match(2, names=(), provider="betfair")], lambda _: {}).doubtful == {}


def test_what_generators_made_up_under_the_same_names_is_two():
    own, other = (Match(1, digest, "synthetic", "clvlab", "", ("Ash", "Elm"), (0,)) for digest in ("a", "b"))

    assert overlap([own], [other], none_is_asked).same == {}


def test_a_match_is_made_again_of_its_payload():
    own = match(1, quotes=QUOTES)

    assert match_of(own.payload()) == own
