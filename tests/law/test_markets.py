"""What market keys mean, as their sources write them; and that statistics, joins, bets and settling read the same."""

import random

import pytest

from clvlab.bets.positions import position_of
from clvlab.law.closing import Window
from clvlab.law.markets import Market, MarketKind, Role, UnreadKey, may_be_handicap, role_of
from clvlab.packs.matching.markets import market_of
from clvlab.report.moved_lines import priced_lines, unread_markets
from clvlab.sources.football_data import settlement
from clvlab.sources.scrapers.messages import market_key_named
from clvlab.sources.the_odds_api.messages import home_point, market_key_of
from clvlab.words import kinds_of, market_name
from tests.factories import make_run, make_tape, message
from tests.length import length

RESULT, HANDICAP, TOTAL = MarketKind
TX = "_PARTICIPANT_GOALS"
# Key, and what it means: kind, line, period, and what else it says.
SPELLINGS = {
    "txline": [
        ("1X2_PARTICIPANT_RESULT||", RESULT, None, "", {"ways": 3}),
        ("1X2_PARTICIPANT_RESULT|half=1|", RESULT, None, "first half", {"ways": 3}),
        (f"OVERUNDER{TX}||line=2.5", TOTAL, 2.5, "", {"goals": True}),
        (f"OVERUNDER{TX}|half=1|line=0.75", TOTAL, 0.75, "first half", {"goals": True}),
        (f"ASIANHANDICAP{TX}||line=-1.75", HANDICAP, -1.75, "", {"goals": True}),
        (f"ASIANHANDICAP{TX}|half=1|line=0.25", HANDICAP, 0.25, "first half", {"goals": True}),
        (f"ASIANHANDICAP{TX}||line=+0.25", HANDICAP, 0.25, "", {"goals": True}),
    ],
    "the-odds-api": [
        ("h2h||", RESULT, None, "", {}),
        ("h2h_h1||", RESULT, None, "first half", {}),
        ("h2h_3_way||", RESULT, None, "regulation time", {"ways": 3}),  # beside h2h, which counts overtime
        ("h2h_3_way_p2||", RESULT, None, "second period", {"ways": 3}),
        ("spreads||point=-1.5", HANDICAP, -1.5, "", {}),
        ("spreads_q1||point=3.5", HANDICAP, 3.5, "first quarter", {}),
        ("alternate_spreads_h2||point=-0.25", HANDICAP, -0.25, "second half", {"alternate": True}),
        ("totals||point=2.5", TOTAL, 2.5, "", {}),
        ("totals||point=101", TOTAL, 101.0, "", {}),
        ("alternate_totals||point=2.5", TOTAL, 2.5, "", {"alternate": True}),
        ("totals_h1||point=1.25", TOTAL, 1.25, "first half", {}),
        ("totals_1st_5_innings||point=4.5", TOTAL, 4.5, "first 5 innings", {}),
        ("h2h_1st_1_innings||", RESULT, None, "first inning", {}),
        ("alternate_totals_1st_7_innings||point=6", TOTAL, 6.0, "first 7 innings", {"alternate": True}),
        ("team_totals||of=Ash|point=1.5", TOTAL, 1.5, "", {"of": "Ash"}),
        ("alternate_team_totals_q4||of=Ash|point=27.5", TOTAL, 27.5, "fourth quarter", {"of": "Ash", "alternate": True}),
        ("alternate_totals_corners||point=9.5", TOTAL, 9.5, "", {"stat": "corners", "alternate": True}),
        ("alternate_totals_corners_h1||point=4.5", TOTAL, 4.5, "first half", {"stat": "corners", "alternate": True}),
        ("alternate_spreads_cards||point=-0.5", HANDICAP, -0.5, "", {"stat": "cards", "alternate": True}),
        ("corners_1x2||", RESULT, None, "", {"stat": "corners", "ways": 3}),
        ("draw_no_bet||", HANDICAP, 0.0, "", {}),
    ],
    "betfair": [
        ("MATCH_ODDS||", RESULT, None, "", {}),
        ("MATCH_ODDS||market=1.234", RESULT, None, "", {}),
        ("HALF_TIME||", RESULT, None, "first half", {"ways": 3}),
        ("OVER_UNDER_05||", TOTAL, 0.5, "", {"goals": True}),
        ("OVER_UNDER_25||", TOTAL, 2.5, "", {"goals": True}),
        ("OVER_UNDER_25||market=1.234", TOTAL, 2.5, "", {"goals": True}),
        ("OVER_UNDER_105_CORNR||", TOTAL, 10.5, "", {"stat": "corners"}),
        ("OVER_UNDER_45_CARDS||", TOTAL, 4.5, "", {"stat": "cards"}),
        ("FIRST_HALF_GOALS_15||", TOTAL, 1.5, "first half", {"goals": True}),
        ("DRAW_NO_BET||", HANDICAP, 0.0, "", {}),
    ],
    "polymarket": [
        ("moneyline||", RESULT, None, "", {"ways": 2}),
        ("first_half_moneyline||", RESULT, None, "first half", {"ways": 2}),
        ("totals||line=2.5", TOTAL, 2.5, "", {}),
        ("second_half_totals||line=1.5", TOTAL, 1.5, "second half", {}),
    ],
    "oddsharvester": [
        ("home_away|FullIncludingOT|", RESULT, None, "including overtime", {"ways": 2}),
        ("over_under_games|FirstSet|line=9.5", TOTAL, 9.5, "first set", {"stat": "games"}),
        ("over_under_sets||line=2.5", TOTAL, 2.5, "", {"stat": "sets"}),
        ("1X2_PARTICIPANT_RESULT|ThirdQuarter|", RESULT, None, "third quarter", {"ways": 3}),
        ("dnb||", HANDICAP, 0.0, "", {}),
    ],
    "tables": [
        ("1X2", RESULT, None, "", {"ways": 3}),
        ("MONEYLINE||", RESULT, None, "", {"ways": 2}),
        ("totals|FT|line=2.5", TOTAL, 2.5, "", {}),
        ("h2h|HT|", RESULT, None, "first half", {}),
        ("WINNER|quarter=1|", RESULT, None, "first quarter", {}),
        ("ou|1h|total=1", TOTAL, 1.0, "first half", {}),
        ("handicap|set=2|handicap=-1.5", HANDICAP, -1.5, "second set", {}),
        ("totals_h1|half=1|point=1", TOTAL, 1.0, "first half", {}),
        ("OVER_UNDER_25||line=2.5", TOTAL, 2.5, "", {"goals": True}),
    ],
}
READ = [row for rows in SPELLINGS.values() for row in rows]
UNREAD = {
    "corners||point=9.5": "the type 'corners' is not known",
    "": "the type '' is not known",
    "|||": "the type '' is not known",
    "h2h_lay||": "the type 'h2h_lay' is not known",
    "to_qualify||": "the type 'to_qualify' is not known",
    "player_points||of=Ash|point=8.5": "the type 'player_points' is not known",
    "PLACE||selection=1": "the type 'PLACE' is not known",
    "KXEPLGAME-26AUG24ASHELM-ASH||": "the type 'KXEPLGAME-26AUG24ASHELM-ASH' is not known",
    "totals||": "it has no line",
    "OU": "it has no line",
    "spreads_h1||": "it has no line",
    "h2h||point=1": "a result has no line",
    "totals||point=2.3": "the line '2.3' is no multiple of a quarter",
    "totals||point=nan": "the line 'nan' is no multiple of a quarter",
    "totals||point=1e3": "the line '1e3' is no multiple of a quarter",
    "totals||point=٢.٥": "the line '٢.٥' is no multiple of a quarter",
    "totals||point=-2.5": "-2.5 is no line of a total",
    "totals||point=2.5|line=3": "it has the lines 2.5 and 3",
    "OVER_UNDER_25||line=3.5": "it has the lines 2.5 and 3.5",
    "h2h_25||": "a line of 25 tenths stands in the name of a total only",
    "totals||of=Ash|point=1.5": "it is of 'Ash' alone",
    "team_totals||point=1.5": "'team_totals' is one side's total and does not say whose",
    "totals||point=2.5|x": "the parameter 'x' is not known, or stands twice",
    "totals||point=2|point=2": "the parameter 'point=2' is not known, or stands twice",
    "GOALS|half|line=1": "the period 'half' is not known",
    "totals|half=3|line=1": "the period 'half=3' is not known",
    "totals_h1|half=2|point=1": "it has the periods first half and second half",
    "spreads||line=-1.5": "a line of 'spreads' belongs to the team that is named first",
    "first_half_spreads||line=-1.5": "a line of 'spreads' belongs to the team that is named first",
}
SIDES = {RESULT: ("part1", "draw", "part2"), TOTAL: ("over", "under"), HANDICAP: ("part1", "part2")}
TEAMS = (frozenset({"oak"}), frozenset({"elm"}))


@pytest.mark.parametrize(("key", "kind", "line", "period", "more"), READ)
def test_a_key_means_what_its_source_means(key, kind, line, period, more):
    found = Market.parse(key)

    assert found == Market(key, kind, period, line, **more)
    assert found.line == line
    assert Market.parse(key.swapcase()).about == found.about


@pytest.mark.parametrize(("key", "reason"), UNREAD.items())
def test_what_cant_be_read_is_told_by_its_name_in_every_place(key, reason):
    unread = Market.parse(key)

    assert isinstance(unread, UnreadKey)
    assert unread.reason.startswith(reason)
    assert str(unread).startswith(f"{key!r} is not read: {reason}")
    assert market_name(key) == key
    assert market_of(key, SIDES[TOTAL], ()) is None
    assert settlement(unread, 2, 1) == {}
    told = position_of("Over/Under 2.5", "over", {key: SIDES[TOTAL]}, TEAMS)
    assert (told.reason, str(unread) in told.detail) == ("market_unknown", True)


@pytest.mark.parametrize(("key", "kind", "line", "period", "more"), READ)
def test_joins_take_a_key_for_what_it_means(key, kind, line, period, more):
    ours = market_of(key, SIDES[kind], ())
    plain = {RESULT: "h2h", TOTAL: "totals", HANDICAP: "spreads"}[kind] + f"|{period.replace(' ', '')}|"
    plain += "" if line is None else f"point={line}"
    theirs = market_of(plain, SIDES[kind], ())

    scope = (period, more.get("stat", ""), more.get("of", "").casefold())
    assert ours.about == (kind, line, scope)
    if isinstance(Market.parse(plain), Market) and not scope[1] and not scope[2]:
        assert ours.about == theirs.about
    turned = line if kind is not HANDICAP else -line
    assert ours.swapped.about == (kind, turned, scope)


WORDS = {RESULT: "Match result", TOTAL: "Over/Under", HANDICAP: "Handicap"}


@pytest.mark.parametrize(("key", "kind", "line", "period", "more"), READ)
def test_bets_find_a_key_by_words_that_mean_it_and_no_other_scope(key, kind, line, period, more):
    markets = {key: SIDES[kind]}
    side = {RESULT: "Oak", TOTAL: f"over {line}", HANDICAP: f"Elm {-(line or 0) + 0.0:+g}"}[kind]
    words = f"{WORDS[kind]}, {period}".removesuffix(", ")
    found = position_of(words, side, markets, TEAMS)
    elsewhere = position_of(f"{WORDS[kind]} fifth set", side, markets, TEAMS)

    if more.get("stat") or more.get("of"):
        assert found.reason == "market_unknown"
    else:
        assert found == (key, {RESULT: "part1", TOTAL: "over", HANDICAP: "part2"}[kind])
    assert elsewhere.reason == "market_unknown"


@pytest.mark.parametrize(("key", "kind", "line", "period", "more"), READ)
def test_a_key_settles_as_what_it_means(key, kind, line, period, more):
    found = settlement(Market.parse(key), 2, 1)

    if period or more.get("stat") or more.get("of"):
        assert found == {}
    elif kind is RESULT:
        assert found == {"part1": "won", "draw": "lost", "part2": "lost"}
    else:
        over = 3 - line if kind is TOTAL else 1 + line
        half = "half_" if abs(over) == 0.25 else ""
        won = "void" if over == 0 else f"{half}won" if over > 0 else f"{half}lost"
        assert found[SIDES[kind][0]] == won


@pytest.mark.parametrize(("key", "sides"), [
    ("alternate_totals||point=2.5", ("over", "under")),
    ("totals|FT|line=2.5", ("Over", "Under")),
    ("OVER_UNDER_25||market=1.7", ("47973", "47972")),
])  # fmt: skip
def test_a_total_that_moved_closes_at_the_same_line_wherever_it_is_quoted(key, sides):
    nothing = {"over": None, "under": None}
    tape = make_tape(
        [
            message(0, 0, {"over": 5000, "under": 5000}, market_key="totals||point=2.5"),
            message(1, 60, dict(zip(sides, (5400, 4600), strict=True)), market_key=key),
            message(2, 60, {"over": 2000, "under": 8000}, market_key="totals_h1||point=2.5"),
            message(3, 60, {"over": 1000, "under": 9000}, market_key="alternate_totals_corners||point=2.5"),
            message(4, 90, nothing, market_key="totals||point=2.5"),
            message(5, 90, {"over": 4500, "under": 5500}, market_key="corners||point=2.5"),
            message(6, 99, nothing, market_key="corners||point=2.5"),
        ],
        {1: 7200},
    )
    run = make_run(
        tape,
        {"market_key": "totals||point=2.5", "side": "over"},
        {"market_key": "corners||point=2.5", "side": "over", "tick_seq": 5},
    )
    found = priced_lines(run.scores, run.evidence.decisions, lambda _: tape, Window())

    assert found["moved_clv_bps"].to_list() == [400]
    assert found["moved_rule"].to_list()[0].startswith(f"alternate {key}")
    assert [one.key for one in unread_markets(run.scores)] == ["corners||point=2.5"]


PACK = {
    "h2h||": SIDES[RESULT], "totals||point=2.5": SIDES[TOTAL], "alternate_totals||point=2.5": SIDES[TOTAL],
    "alternate_totals||point=3.25": SIDES[TOTAL], "totals_h1||point=2.5": SIDES[TOTAL], "spreads||point=-1.5": SIDES[HANDICAP],
    "alternate_spreads||point=0.25": SIDES[HANDICAP], "spreads_q1||point=3": SIDES[HANDICAP],
    "team_totals||of=Oak|point=2.5": SIDES[TOTAL], "alternate_totals_corners||point=2.5": SIDES[TOTAL],
}  # fmt: skip


@pytest.mark.parametrize(("market", "side", "found"), [
    ("Over/Under 2.5 First Half", "Over", ("totals_h1||point=2.5", "over")),
    ("1st Half Totals", "Under 2.5", ("totals_h1||point=2.5", "under")),
    ("First Half Goals 2.5", "over", ("totals_h1||point=2.5", "over")),
    ("Total (HT)", "over 2.5", ("totals_h1||point=2.5", "over")),
    ("Over/Under 2.5", "over", ("totals||point=2.5", "over")),
    ("Totals", "over 3.25", ("alternate_totals||point=3.25", "over")),
    ("Spread", "Oak -1.5", ("spreads||point=-1.5", "part1")),
    ("Asian Handicap", "Elm (+1.5)", ("spreads||point=-1.5", "part2")),
    ("Handicap", "away -0.25", ("alternate_spreads||point=0.25", "part2")),
    ("Spread 1st quarter", "Oak +3", ("spreads_q1||point=3", "part1")),
    ("spreads||point=-1.5", "Elm +1.5", ("spreads||point=-1.5", "part2")),
])  # fmt: skip
def test_words_of_a_bet_find_the_market_that_means_the_same(market, side, found):
    assert position_of(market, side, PACK, TEAMS) == found


@pytest.mark.parametrize(("market", "side", "reason"), [
    ("Over/Under 2.5 Second Half", "over", "market_unknown"),
    ("Over/Under 2.5 first half", "over 3.5", "market_unknown"),
    ("Asian Handicap -1.5", "Oak", "market_unknown"),  # whose line?
    ("Spread", "Oak +1.5", "market_unknown"),
    ("Spread", "Elm -1.5", "market_unknown"),
    ("spreads||point=-1.5", "Elm -1.5", "side_unknown"),
    ("Spread", "Yew -1.5", "market_unknown"),
])  # fmt: skip
def test_words_of_another_line_half_or_side_find_nothing(market, side, reason):
    assert position_of(market, side, PACK, TEAMS).reason == reason


def test_importers_write_keys_whose_lines_are_read_with_their_sign():
    keys = {market_key_of("alternate_spreads_q1", home_point("alternate_spreads_q1", side, point)) for side, point in (
        ("part1", -3.5), ("part2", 3.5),
    )}  # fmt: skip

    assert [Market.parse(key).line for key in keys] == [-3.5]
    assert Market.parse(market_key_named("over_under_2_5", "FirstHalf", None)).about == (TOTAL, 2.5, ("first half", "", ""))
    assert Market.parse(market_key_named("asian_handicap", "FullTime", "-0.75")).about == (HANDICAP, -0.75, ("", "", ""))
    for key, kind, *_ in SPELLINGS["the-odds-api"]:
        assert may_be_handicap(key.partition("|")[0]) == (kind is HANDICAP and key != "draw_no_bet||")


@pytest.mark.parametrize(("runner", "key", "role"), [
    ("47973", "OVER_UNDER_25||", Role.OVER),
    ("47972", "OVER_UNDER_25||", Role.UNDER),
    ("1222346", "OVER_UNDER_45||", Role.OVER),
    ("5851482", "FIRST_HALF_GOALS_05||", Role.UNDER),
    ("47973", "OVER_UNDER_35||", None),
    ("47973", "MATCH_ODDS||", None),
    ("47973", "totals||point=2.5", None),
    ("over", "h2h||", None),
    ("home", "totals||point=2.5", None),
])  # fmt: skip
def test_a_side_stands_for_what_its_market_can_have(runner, key, role):
    assert role_of(runner, Market.parse(key)) is role


def test_a_bet_on_over_finds_the_runner_of_betfair():
    betfair = {"OVER_UNDER_25||": ("47972", "47973"), "MATCH_ODDS||": ("1", "2", "58805")}

    assert position_of("Over/Under 2.5 Goals", "Over 2.5", betfair, TEAMS) == ("OVER_UNDER_25||", "47973")
    assert market_of("OVER_UNDER_25||", betfair["OVER_UNDER_25||"], ()).roles == {Role.OVER, Role.UNDER}


def test_sides_of_which_two_mean_one_are_not_told_apart():
    assert str(Market.parse("h2h||", ["part1", "home"])) == "'h2h||' is not read: the side 'home' and 'part1' stand for one"
    assert str(Market.parse("h2h||", ["part1", "Ash"])) == "'h2h||' is not read: the side 'Ash' is not understood"
    assert str(Market.parse("corners||", ["part1"])) == "'corners||' is not read: the type 'corners' is not known"
    assert Market.parse("h2h||", ["1", "X", "2"]).sides == (("1", Role.HOME), ("X", Role.DRAW), ("2", Role.AWAY))


def test_kinds_of_markets_are_named_as_their_source_does_and_in_words_where_several_mean_one():
    keys = ["OVER_UNDER_25||", "OVER_UNDER_35||", "h2h_h1||", "totals_h1||point=1", "alternate_totals_h1||point=2", "corners||"]

    assert kinds_of(keys) == {
        "OVER_UNDER_25||": "total", "OVER_UNDER_35||": "total", "h2h_h1||": "h2h_h1", "corners||": "corners",
        "totals_h1||point=1": "total, first half", "alternate_totals_h1||point=2": "total, first half",
    }  # fmt: skip


PIECES = [
    *sorted({part for row in READ for part in row[0].replace("|", "_").split("_") if part}),
    *(
        "_",
        "_",
        "_",
        "|",
        "|",
        "||",
        "=",
        "line=",
        "point=",
        "of=",
        "-",
        "+",
        ".",
        "9" * 400,
        "٢",
        "\ud800",
        "\x00",
        " ",
        "ſ",
        "İ",
    ),
]


@pytest.mark.parametrize("seed", range(length(20, 400)))
def test_any_text_has_one_reading_in_all_places_and_none_raises(seed):
    dice = random.Random(seed)
    for _ in range(200):
        if dice.random() < 0.4:  # a real key, one letter off
            key = dice.choice(READ)[0]
            at = dice.randrange(len(key) + 1)
            key = key[:at] + dice.choice(PIECES) + key[at + dice.randrange(2) :]
        else:
            key = "".join(dice.choice(PIECES) for _ in range(dice.randrange(9)))
        read = Market.parse(key)

        joined = {kind: market_of(key, sides, ()) for kind, sides in SIDES.items()}
        if isinstance(read, UnreadKey):
            assert read.key == key
            assert not any(joined.values())
            assert (market_name(key), settlement(read, 1, 0)) == (key, {})
        else:
            assert joined[read.kind].about == (read.kind, read.line, read.scope)
            assert all(
                market is None or kind is read.kind or {kind, read.kind} == {RESULT, HANDICAP}
                for kind, market in joined.items()
            )
            assert bool(settlement(read, 1, 0)) == (read.scope == ("", "", ""))
            assert read.swapped.swapped == read
        assert position_of(key, SIDES[TOTAL][0], {key: SIDES[TOTAL]}, TEAMS) == (key, "over")
        assert kinds_of([key]).keys() == {key}
