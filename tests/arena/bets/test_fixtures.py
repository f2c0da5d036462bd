"""Fixtures, markets and sides that bets name: exactly, or not at all."""

import re

import pytest

from clvlab.base.times import days_of
from clvlab.bets.columns import Meaning
from clvlab.bets.fixtures import FixtureNames, Unmatched
from clvlab.bets.positions import position_of
from clvlab.bets.record import Row
from clvlab.packs.manifest import Fixture
from clvlab.packs.matching.names import TeamAliases

DAY = 86_400_000
START = 1_772_323_200_000  # 2026-03-01 00:00 UTC


def fixture(fixture_id, *names, day=0.0, source_id=None, kickoff=True):
    kickoff_ms = START + int(day * DAY) if kickoff else None
    return Fixture(fixture_id=fixture_id, names=names, source_id=source_id, kickoff_ts_ms=kickoff_ms)


def told(text=None, home=None, away=None, kickoff=None, day=0.0):
    cells = {Meaning.FIXTURE: text, Meaning.HOME: home, Meaning.AWAY: away, Meaning.KICKOFF: kickoff}
    span = days_of([kickoff], None, None)[0]
    return Row(1, cells, START + int(day * DAY), None, span, kickoff is not None and span is None, None, 100, None, None)


KNOWN = [
    fixture(1, "Atlético de Madrid", "Bodø/Glimt", day=1.8, source_id="abc"),
    fixture(2, "Oak", "Elm", day=1.8, source_id="7"),
    fixture(3, "Oak", "Elm", day=9.8),
    fixture(4, "Ash v Birch", day=1.8),
    fixture(5, "Oak", "Yew", kickoff=False),
    fixture(7, "St. Ives", "Fir-Town", day=1.8),
    fixture(8, "Reds", "Blues", day=2.0),
    fixture(9, "Reds", "Blues", day=2.2),
]


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (told("1"), 1), (told("1.0"), 1), (told("1e0"), 1), (told("abc"), 1), (told("ATLETICO DE MADRID - Bodo Glimt"), 1),
        (told(home="atlético  de madrid", away="Bodø Glimt"), 1), (told("Bodø/Glimt @ Atletico de Madrid"), 1),
        (told("ash - birch"), 4), (told("St Ives v Fir Town"), 7), (told("oak vs. yew"), 5),
        (told("Oak - Elm", kickoff="2026-03-02"), 2), (told("Oak - Elm", kickoff="2026-03-03T10:00Z"), 2),
        (told("Oak - Elm", kickoff="2026-03-10"), 3), (told("Oak - Elm", day=5), 3), (told("Oak - Elm", day=1.5), 2),
        (told("Oak - Elm", day=15, kickoff="2026-03-02"), 2),
        (told("Reds - Blues", kickoff="2026-03-03T00:00Z"), 8),
        (told("nothing known", home="Oak", away="Yew"), 5),
    ],
)  # fmt: skip
def test_a_fixture_is_found_by_its_id_or_by_both_names(row, found):
    assert FixtureNames(KNOWN).find(row).fixture_id == found


@pytest.mark.parametrize(
    ("row", "reason", "said"),
    [
        (told("7"), "fixture_ambiguous", r"source's id of another \(2, 7\)"),
        (told("Oak - Elm"), "fixture_ambiguous", r"add a column of kickoffs, or name it by its id \(2, 3\)"),
        (told("Reds - Blues", day=1.9), "fixture_ambiguous", r"\(8, 9\)"),
        (told("Oak - Elm", day=40), "fixture_ambiguous", r"\(2, 3\)"),
        (told("Reds - Blues", kickoff="2026-03-03"), "fixture_ambiguous", r"within a day of its kickoff.*\(8, 9\)"),
        (told("Oak - Elm", kickoff="2026-03-06"), "kickoff_differs", "within a day"),
        (told("Oak - Yew", kickoff="2026-03-06"), "kickoff_differs", "no kickoff in the pack"),
        (told("Elm - Oak"), "teams_swapped", "the other way round"),
        (told("Oak @ Elm"), "teams_swapped", "the other way round"),
        (told("Oka - Yew"), "fixture_unknown", "is it 'Oak - Yew'?"),
        (told("Oak"), "fixture_unknown", "does not name two teams"),
        (told("99"), "fixture_unknown", "no fixture has the id '99'"),
        (told("1.5"), "fixture_unknown", "no fixture has the id"),
        (told(), "fixture_unknown", "no fixture is named"),
        (told(home="Oak"), "fixture_unknown", "no fixture is named"),
    ],
)
def test_a_fixture_that_is_not_sure_is_not_matched(row, reason, said):
    found = FixtureNames(KNOWN).find(row)

    assert isinstance(found, Unmatched)
    assert found.reason == reason
    assert re.search(said, found.detail)


RESULT, TOTAL, HALF = (
    "1X2_PARTICIPANT_RESULT||",
    "OVERUNDER_PARTICIPANT_GOALS||line=2.5",
    "OVERUNDER_PARTICIPANT_GOALS|half=1|line=2.5",
)
LINE, OTHER = "ASIANHANDICAP_PARTICIPANT_GOALS||line=-0.5", "ASIANHANDICAP_PARTICIPANT_GOALS||line=0.5"
MARKETS = {
    RESULT: ("draw", "part1", "part2"), TOTAL: ("over", "under"), HALF: ("over", "under"), LINE: ("part1", "part2"),
    OTHER: ("part1", "part2"), "CORRECT_SCORE||": ("-1", "1", "1-0", "any other"), "WINNER|quarter=1|": ("Elm", "Oak"),
}  # fmt: skip
TEAMS = (frozenset({"oak"}), frozenset({"elm"}))


@pytest.mark.parametrize(
    ("market", "side", "found"),
    [
        (RESULT, "part1", (RESULT, "part1")), ("1x2", "X", (RESULT, "draw")), ("Match Odds", "elm", (RESULT, "part2")),
        ("match winner", "OAK", (RESULT, "part1")), ("match result", "2", (RESULT, "part2")),
        ("Over/Under 2.5", "Over", (TOTAL, "over")), ("O/U", "under 2.5", (TOTAL, "under")),
        ("totals (2.50)", "o", (TOTAL, "over")),
        ("Over/Under 2.5 goals, first half", "over 2.5", (HALF, "over")),
        (LINE.lower(), "away", (LINE, "part2")), ("CORRECT_SCORE", "1-0", ("CORRECT_SCORE||", "1-0")),
        ("correct score", "-1", ("CORRECT_SCORE||", "-1")),
    ],
)  # fmt: skip
def test_a_market_goes_by_its_key_or_a_name_that_fits_it_alone(market, side, found):
    assert position_of(market, side, MARKETS, TEAMS) == found


@pytest.mark.parametrize(
    ("market", "side", "reason"),
    [
        ("Over/Under", "over", "market_unknown"),  # on which line?
        ("OVERUNDER_PARTICIPANT_GOALS", "over 2.5", "market_ambiguous"),  # in which half?
        ("Over/Under 2.5", "over 3.5", "market_unknown"),
        ("Asian handicap -0.5", "away", "market_unknown"),  # whose line?
        ("Asian handicap", "home", "market_unknown"),
        ("ASIANHANDICAP_PARTICIPANT_GOALS||line=-1", "home", "market_unknown"),
        ("moneyline", "Oak", "market_unknown"),  # of two sides or of three?
        ("corners", "over", "market_unknown"),
        ("winner", "draw no bet", "side_unknown"),
        ("1X2", "over", "side_unknown"),
        ("1X2", "-1", "side_unknown"),
        ("1X2", "+1", "side_unknown"),
        ("correct score", "0-1", "side_unknown"),
        ("Over/Under 2.5", "over -2.5", "side_unknown"),
    ],
)
def test_a_market_or_side_that_is_not_sure_is_not_matched(market, side, reason):
    assert position_of(market, side, MARKETS, TEAMS).reason == reason


def test_a_moneyline_is_a_market_of_two_sides():
    two = {"h2h||": ("part1", "part2"), "1X2|half=1|": ("draw", "part1", "part2")}

    assert position_of("Moneyline", "Oak", two, TEAMS) == ("h2h||", "part1")
    assert position_of("1X2", "Oak", {"h2h||": ("part1", "part2")}, TEAMS).reason == "market_unknown"


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("Spurs v Wolverhampton Wanderers", 1), ("tottenham - wolves", 1), ("USA v Korea Republic", 2),
        ("The Lilywhites v Wolves", 1), ("the lilywhites v The Old Gold", 1), ("The Old Gold v Spurs", "teams_swapped"),
        ("Spurs Women v Wolves", "fixture_unknown"), ("Old Gold v Spurs", "fixture_unknown"),
    ],
)  # fmt: skip
def test_a_team_is_found_by_any_of_its_names(named, found):
    known = [fixture(1, "Tottenham Hotspur", "Wolves"), fixture(2, "United States", "South Korea")]
    aliases = TeamAliases((("the lilywhites", "spurs"), ("the old gold", "wolverhampton")))

    place = FixtureNames(known, aliases).find(told(named))

    assert (place.reason if isinstance(place, Unmatched) else place.fixture_id) == found


def test_a_side_is_found_by_any_name_of_its_team():
    names = FixtureNames([], TeamAliases((("the old gold", "wolves"),)))
    teams = names.teams_of(fixture(1, "Spurs", "Wolverhampton Wanderers"))

    for side in ("Wolves", "wolverhampton", "The Old Gold"):
        assert position_of("1X2", side, MARKETS, teams) == (RESULT, "part2")
    assert position_of(LINE, "Wolves +0.5", MARKETS, teams) == (LINE, "part2")
    assert position_of("1X2", "Old Gold", MARKETS, teams).reason == "side_unknown"


def test_hints_are_of_the_first_few_unknown_fixtures():
    names = FixtureNames([fixture(number, f"Oak{number}", "Elm") for number in range(50)])

    said = [names.find(told(f"Oka{number} - Elm")).detail for number in range(50)]

    assert ["; is it 'Oak" in one for one in said] == [True] * 20 + [False] * 30


def test_teams_of_one_name_stand_for_neither_side():
    assert position_of("1X2", "Oak", MARKETS, (TEAMS[0], TEAMS[0])).reason == "side_ambiguous"
