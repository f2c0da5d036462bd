"""Names and fixtures as sources write them, and what must not be taken for the same."""

import random

import pytest

from clvlab.packs.matching.fixtures import ListedFixture
from clvlab.packs.matching.markets import market_of
from clvlab.packs.matching.matching import gaps_of, matched
from clvlab.packs.matching.names import likeness
from tests.packs.matching.labelled import Source, judged, made, odds_api, shared

HOUR = 3_600_000
T = 1_767_225_600_000


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Man United", "Manchester United FC"),
        ("Nott'm Forest", "NOTTINGHAM FOREST"),
        ("M'gladbach", "Borussia Mönchengladbach"),
        ("1. FC Köln", "FC Koln"),
        ("Bodø/Glimt", "Bodo Glimt"),
        ("Paris Saint-Germain", "PSG"),
        ("Queens Park Rangers", "QPR"),
        ("Brighton & Hove Albion", "Brighton"),
        ("St. Louis Cardinals", "St Louis Cardinals"),
        ("LA Dodgers", "Los Angeles Dodgers"),
        ("Korea Republic", "South Korea"),
        ("Côte d'Ivoire", "Ivory Coast"),
        ("Türkiye", "Turkey"),
        ("Ein Frankfurt", "Eintracht Frankfurt"),
        ("Sheffield Utd", "Sheffield United"),
        ("Wolverhamton Wanderers", "Wolverhampton Wanderers"),
        ("Arsenal Women", "Arsenal WFC"),
    ],
)
def test_names_of_one_team_are_alike(one, other):
    assert likeness(one, other) == likeness(other, one) >= 0.85


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Man United", "Man City"),
        ("Manchester United", "Leeds United"),
        ("Sheffield United", "Sheffield Wednesday"),
        ("Real Madrid", "Atletico Madrid"),
        ("Real Madrid", "Real Sociedad"),
        ("Borussia Dortmund", "Borussia Mönchengladbach"),
        ("North Korea", "South Korea"),
        ("Austria", "Australia"),
        ("Iran", "Iraq"),
        ("Slovakia", "Slovenia"),
        ("Arsenal", "Arsenal Women"),
        ("Barcelona", "Barcelona B"),
        ("England", "England U21"),
        ("England U19", "England U21"),
        ("New York Mets", "New York Yankees"),
        ("Chicago White Sox", "Boston Red Sox"),
        ("", "Arsenal"),
        ("...", "!!!"),
    ],
)
def test_names_of_two_teams_are_not(one, other):
    assert likeness(one, other) == likeness(other, one) < 0.72


def listing(*fixtures, probs=(5000, 3000, 2000)):
    """List fixtures (home, away, kickoff in hours) with prices of a market of three sides."""
    found, prices = {}, {}
    for number, (home, away, hours, *own) in enumerate(fixtures, start=1):
        kickoff = None if hours is None else T + round(hours * HOUR)
        market = market_of("1X2||", ["part1", "draw", "part2"], (home, away))
        found[number] = ListedFixture(number, (home, away), kickoff, (market,))
        times = [(kickoff or T) - 60 * HOUR, (kickoff or T) - HOUR]
        quotes = own[0] if own else probs
        named = zip(("part1", "draw", "part2"), quotes, strict=True)
        prices[number] = {("1X2||", side): (times, [prob, prob]) for side, prob in named}
    return found, prices


def match(first, second):
    (one, ours), (other, theirs) = first, second
    found = matched([*one.values()], [*other.values()], gaps_of(one, other, ours.__getitem__, theirs.__getitem__))
    return [(pair.first, pair.second, pair.swapped) for pair in found.pairs], [refused.reason for refused in found.refused]


A, L = "Arsenal", "Leeds"
EVEN, SWAPPED = (3600, 2900, 3500), (2000, 3000, 5000)


@pytest.mark.parametrize(
    ("first", "second", "pairs", "reason"),
    [
        ([(A, L, 0)], [("ARSENAL FC", "Leeds Utd", 0.2)], [(1, 1, False)], None),
        ([(A, L, 0)], [(L, A, 0, SWAPPED)], [(1, 1, True)], None),
        ([(A, L, 0)], [(A, L, 24)], [(1, 1, False)], None),
        ([(A, L, 0)], [(A, L, -24)], [(1, 1, False)], None),
        ([(A, L, 0)], [(A, L, 40)], [], None),
        ([(A, L, 0)], [(A, L, 0, SWAPPED)], [], "in one order, not by the prices"),
        ([(A, L, 0)], [(L, A, 0)], [], "the other way round, not by the prices"),
        ([(A, L, 0, EVEN)], [(L, A, 0, EVEN)], [(1, 1, True)], None),
        ([(A, L, 0)], [(A, L, 0, (8000, 1500, 500))], [], "not those of one match"),
        ([(A, L, 0)], [(A, L, 24, (6000, 2500, 1500))], [], "not those of one match"),
        ([(A, L, 0)], [(A, L, 0), (A, L, 24)], [], "several matches"),
        ([(A, L, 0), (A, L, 24)], [(A, L, 0)], [], "several matches"),
        ([(A, L, 0), (A, L, 24)], [(A, L, 0.1), (A, L, 24)], [(1, 1, False), (2, 2, False)], None),
        ([(A, L, 0), (A, L, 24)], [(A, L, 24), (A, L, 48)], [], "several matches"),
        ([(A, L, 0), (A, L, 5)], [(A, L, 0), (A, L, 5)], [(1, 1, False), (2, 2, False)], None),
        ([(A, L, 0), (A, L, 1)], [(A, L, 0.5)], [], "several matches"),
        ([(A, L, 0), (A, L, 0)], [(A, L, 0)], [], "several matches"),
        ([(A, L, None)], [(A, L, 0)], [], "no kickoff"),
        ([(A, L, 0)], [(A, L, 0), (L, A, None)], [(1, 1, False)], "no kickoff"),
        ([("Man United", A, 0)], [("Man City", A, 0)], [], None),
        ([("Man Utd", A, 0)], [("Manchester United", A, 0), ("Manchester City", A, 0)], [(1, 1, False)], None),
        ([("Sheffield", A, 0)], [("Sheffield United", A, 0), ("Sheffield Wednesday", A, 0)], [], "several matches"),
        ([("AC Milan", "Inter Milan", 0)], [("AC Milan", "Inter", 0)], [(1, 1, False)], None),
        ([("Milan", "Inter Milan", 0)], [("Milan", "Milan B", 0)], [], None),
        ([(A, "Arsenal Women", 0)], [(A, "Arsenal WFC", 0)], [(1, 1, False)], None),
        ([(A, A, 0)], [(A, A, 0)], [], "which team is which"),
    ],
)
def test_what_is_taken_and_what_is_refused(first, second, pairs, reason):
    found, reasons = match(listing(*first), listing(*second))

    assert found == pairs
    assert (reasons == []) if reason is None else any(reason in one for one in reasons)


def test_where_teams_play_on_following_days_a_day_decides():
    series = [(A, L, 24 * day) for day in (0, 1, 2, 10)]
    found, reasons = match(listing(*series), listing((A, L, 11 * 24)))

    assert found == []
    assert "following days" in reasons[0]


def test_matching_does_not_depend_on_the_order_of_fixtures():
    one = [(A, L, 0), ("Everton", "Fulham", 3), ("Wolves", "Burnley", 5), (A, "Fulham", 70)]
    found, _ = match(listing(*one), listing(*one))
    turned, _ = match(listing(*one[::-1]), listing(*one[::-1]))

    assert [(a, b) for a, b, _ in found] == [(n, n) for n in range(1, 5)] == [(a, b) for a, b, _ in turned]


@pytest.mark.parametrize(
    ("key", "sides", "roles"),
    [
        ("h2h||", ["Arsenal FC", "Draw", "Leeds United"], {"Arsenal FC": "home", "Draw": "draw", "Leeds United": "away"}),
        ("MATCH_ODDS||", ["1", "X", "2"], {"1": "home", "X": "draw", "2": "away"}),
        ("winner_away||", ["Yes", "No"], {"Yes": "away"}),
        ("will_leeds_win||", ["yes", "no"], {"yes": "away"}),
        ("will_it_rain||", ["yes", "no"], None),
        ("winner||", ["yes", "no"], None),
        ("home_clean_sheet||", ["yes", "no"], None),  # not who wins
        ("KXGAMETOTAL-26MAR01ARSLEE-2||", ["yes", "no"], None),
        ("leeds_first_half||", ["yes", "no"], None),
        ("btts_home||", ["yes", "no"], None),
        ("top_scorer||", ["Kane", "Saka"], None),
        ("h2h||", ["Arsenal", "Arsenal FC"], None),
    ],
)
def test_sides_are_understood_or_left_alone(key, sides, roles):
    found = market_of(key, sides, (A, L))

    assert (None if found is None else {side: role.value for side, role in found.sides}) == roles


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("totals||point=2.5", "OVERUNDER_PARTICIPANT_GOALS||line=2.5"),
        ("1X2_PARTICIPANT_RESULT||", "h2h||"),
    ],
)
def test_markets_of_two_sources_are_about_the_same(one, other):
    sides = ["over", "under"] if "total" in one else ["part1", "draw", "part2"]

    assert market_of(one, sides, ()).about == market_of(other, sides, ()).about
    assert (
        market_of("totals||point=2", ["over", "under"], ()).about != market_of("totals||point=2.5", ["over", "under"], ()).about
    )
    assert market_of("h2h|HT|", ["part1", "part2"], ()).about != market_of("h2h||", ["part1", "part2"], ()).about


def test_a_handicap_turns_with_the_teams():
    line = market_of("spreads||point=-1.5", ["part1", "part2"], ())

    assert line.swapped.about == ("handicap", 1.5, ("", "", ""))
    assert line.swapped.swapped == line


@pytest.mark.realdata
@pytest.mark.parametrize("seed", [20_261_123, 7])
def test_at_least_95_of_100_labelled_pairs_are_matched_none_wrong_none_inverted(realdata, seed):
    found = judged(*made(shared(realdata), seed))

    assert found.share >= 0.95
    assert (found.wrong, found.inverted) == (0, 0)
    assert found.counted >= 180


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["worldcup", "kbo"])
def test_sources_that_have_some_of_the_same_matches_never_match_two(realdata, name):
    matches, pairs = odds_api(realdata / "the-odds-api", name), []
    for seed in range(5):
        draw, sources = random.Random(seed), (Source(), Source())
        for number, one in enumerate(matches):
            for source in draw.choice([sources, sources[:1], sources[1:]]):
                source.add(number, one, "h2h||", {side: (one.early[side], one.late[side]) for side in one.late})
        first, second = sources
        pairs += match((first.listed, first.prices), (second.listed, second.prices))[0]

    assert len(pairs) > 15
    assert all(one == other and not turned for one, other, turned in pairs)


@pytest.mark.realdata
def test_sources_whose_sides_stand_the_other_way_round_are_not_joined(realdata):
    matches = odds_api(realdata / "the-odds-api", "worldcup")
    first, second, truth = made(matches, pairs=60, alone=20)
    for number in second.prices:
        markets = {side: (market, side) for market, side in second.prices[number]}
        if {"part1", "part2"} <= markets.keys():
            own = second.prices[number]
            own[markets["part1"]], own[markets["part2"]] = own[markets["part2"]], own[markets["part1"]]
    found = judged(first, second, truth)
    turned = {number for number, (other, _) in truth.items() if any(side == "part1" for _, side in second.prices[other])}

    assert found.wrong == 0
    taken = found.right + found.inverted + found.claimed_taken
    assert taken <= len(truth) - 0.8 * len(turned)


@pytest.mark.realdata
def test_the_nine_matches_of_polymarket_are_found_among_those_of_the_odds_api(realdata, tmp_path):
    import clvlab as cl

    odds = cl.import_odds("the-odds-api", realdata / "the-odds-api/worldcup_ticks.parquet", tmp_path / "odds", lenient=True)
    venue = cl.import_odds("polymarket", realdata / "polymarket", tmp_path / "venue")
    joined = cl.join_sources([odds, venue])
    taken = joined.matching.filter(outcome="taken")

    assert taken["names"].to_list() == taken["other_names"].to_list()
    assert (taken.height, taken["turned"].any(), joined.matching.filter(outcome="refused").height) == (9, False, 0)
    assert taken["price_gap_bps"].max() < 200
    closed = cl.backtest(joined, "cumulative-drift", window=cl.Window(close_source="polymarket"))
    assert closed.run.verify().passed
    assert closed.scores["valid"].any()
