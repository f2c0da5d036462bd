import pytest

from clvlab.packs.matches import Match, match_of, overlap

DAY_MS = 86_400_000
QUOTES = tuple(range(1, 9))


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
