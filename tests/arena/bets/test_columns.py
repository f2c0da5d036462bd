import pytest

from clvlab.bets.columns import Meaning, columns_of
from clvlab.errors import SourceError

BARE = ["time", "fixture", "market", "side"]


@pytest.mark.parametrize(
    ("header", "meant"),
    [
        (["Date", "Time", "Home Team", "Away Team", "Bet Type", "Pick", "Odds", "Wager", "Sportsbook", "Result"],
         ["date", "time", "home", "away", "market", "side", "price", "stake", "book", "result"]),
        (["placed_at", "event_id", "market_key", "selection", "decimal_odds", "amount", "bookmaker", "outcome"],
         ["time", "fixture", "market", "side", "price", "stake", "book", "result"]),
        (["TIMESTAMP", "Match", "Kick-off", "Market", "SELECTION", "Odds Taken", "Units"],
         ["time", "fixture", "kickoff", "market", "side", "price", "stake"]),
    ],
)  # fmt: skip
def test_usual_names_are_read_as_what_they_mean(header, meant):
    found = columns_of(header)

    assert {name: str(meaning) for meaning, name in found.names.items()} == dict(zip(header, meant, strict=True))
    assert found.guessed == set(found.names)
    assert all(repr(name) in found.words for name in header)


def test_what_is_given_stands_and_the_rest_is_guessed():
    found = columns_of([*BARE, "when", "note"], {"time": "when"})

    assert found.names[Meaning.TIME] == "when"
    assert Meaning.TIME not in found.guessed
    assert found.unused == ("time", "note")


def test_a_column_that_is_named_for_nothing_is_not_read():
    assert Meaning.STAKE not in columns_of([*BARE, "stake"], {"stake": None}).names
    assert columns_of([*BARE, "stake"], {"stake": ""}).unused == ("stake",)


def test_a_market_for_every_row_needs_no_column():
    assert columns_of(["time", "fixture", "side"], market="1X2").market == "1X2"


def test_of_two_that_fit_the_one_of_the_own_name_is_read_and_else_neither():
    assert columns_of([*BARE, "price", "odds"]).names[Meaning.PRICE] == "price"
    with pytest.raises(SourceError, match=r"'odds' and 'decimal_odds' could each be the price: .*columns=\{'price': 'odds'\}"):
        columns_of([*BARE, "odds", "decimal_odds"])


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (["fixture", "market", "side"], r"says the time of a bet: .*columns=\{'time': "),
        (["time", "market", "side", "home"], r"says the fixture of a bet: .*or home and away"),
        (["time", "fixture", "side"], r"says the market of a bet: .*or market= for every row"),
        (["time", "fixture", "market", "outcome"], r"says the side of a bet: .*'outcome'"),
    ],
)
def test_what_is_needed_and_not_there_is_named(header, said):
    with pytest.raises(SourceError, match=said):
        columns_of(header)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tme": "time"}, "no column of a bet means 'tme': did you mean 'time'"),
        ({"time": "tme"}, "there is no column 'tme' for time: did you mean 'time'"),
        (["time"], "columns is a mapping"),
    ],
)
def test_a_wrong_name_is_told_with_what_was_meant(given, said):
    with pytest.raises(SourceError, match=said):
        columns_of(BARE, given)
