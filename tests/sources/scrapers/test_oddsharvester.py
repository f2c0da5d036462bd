import csv
import io
import json
import random
from datetime import UTC, datetime

import pytest

from clvlab.errors import SourceError
from clvlab.odds.consensus import Consensus
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_options, import_source
from clvlab.sources.source import fixture_id_of
from tests.length import length
from tests.samples import oddsharvester
from tests.samples.walks import KICKOFF
from tests.sources.plain import states_by_time

KICKOFF_MS = round(KICKOFF.timestamp() * 1000)
MATCH, GOALS = "1X2_PARTICIPANT_RESULT||", "OVERUNDER_PARTICIPANT_GOALS||line=2.5"
BOOK = {"1": "2.00", "X": "3.50", "2": "4.00", "bookmaker_name": "Birch", "period": "FullTime", "submarket_name": "1X2"}
ROW = {
    "scraped_date": "2026-03-03 15:00:00 UTC", "match_date": "2026-03-01 15:00:00 UTC", "home_team": "Ash", "away_team": "Elm",
    "match_link": "x#1", "1x2_market": [BOOK],
}  # fmt: skip


def imported(tmp_path, *rows, content=None, name="matches.json", source="oddsharvester", lenient=False, **options):
    (tmp_path / name).write_text(json.dumps(rows) if content is None else content)
    return import_source(source, [tmp_path / name], tmp_path / "p", import_options(lenient=lenient, **options)).quality


def at(tmp_path):
    return {(ts_ms, key): state for (_, ts_ms, key), state in states_by_time(verify_pack(tmp_path / "p")).items()}


def test_a_row_that_was_scraped_after_the_match_is_its_close_and_says_that_nothing_can_be_entered_before(tmp_path):
    quality = imported(tmp_path, ROW)

    ((when, (_, odds)),) = at(tmp_path).items()
    assert (when, odds) == ((KICKOFF_MS - 1000, MATCH), {"part1": 2000, "draw": 3500, "part2": 4000})
    assert quality.notes["markets that can't be entered before their close: they were seen once"] == 1
    assert "synthetic" in verify_pack(tmp_path / "p").manifest.consensus


def test_a_match_names_its_league_if_its_row_does(tmp_path):
    imported(tmp_path, ROW | {"league_name": "Grove"}, ROW | {"match_link": "x#2", "league_name": None}, ROW)

    assert {one.source_id: one.league for one in verify_pack(tmp_path / "p").manifest.fixtures} == {"x#1": "Grove", "x#2": None}


@pytest.mark.parametrize(("league", "message"), [("g" * 201, "has 201 letters"), (7, "league_name 7 is no name of a league")])
def test_a_league_that_is_none_is_refused(tmp_path, league, message):
    with pytest.raises(SourceError, match=message):
        imported(tmp_path, ROW | {"league_name": league})


def test_a_row_that_was_scraped_before_the_match_is_a_quote_of_that_time(tmp_path):
    imported(tmp_path, ROW | {"scraped_date": "2026-03-01 12:00:00 UTC"})

    assert list(at(tmp_path)) == [(KICKOFF_MS - 3 * 3_600_000, MATCH)]


@pytest.mark.parametrize("how", ["json", "lines", "csv", "semicolons"])
def test_json_lines_and_csv_of_the_same_matches_give_the_same_ticks(tmp_path, how):
    rows = oddsharvester.rows()
    content = {
        "json": json.dumps(rows, indent=4), "lines": "".join(json.dumps(row) + "\n" for row in rows),
        "csv": oddsharvester.as_csv(rows), "semicolons": "\ufeff" + semicolons(oddsharvester.as_csv(rows)),
    }[how]  # fmt: skip
    imported(tmp_path, content=content, name="scraped.txt", source=None, time_zone="UTC")
    found = states_by_time(verify_pack(tmp_path / "p"))
    (tmp_path / "other").mkdir()
    imported(tmp_path / "other", *rows, time_zone="UTC")

    assert found == states_by_time(verify_pack(tmp_path / "other" / "p"))


def semicolons(text):
    out = io.StringIO()
    csv.writer(out, delimiter=";").writerows(csv.reader(io.StringIO(text)))
    return out.getvalue()


def test_histories_need_the_zone_of_their_times(tmp_path):
    with pytest.raises(SourceError, match=r"matches\.json:1: .* has no time zone: name the zone of such times, as time_zone="):
        imported(tmp_path, *oddsharvester.rows())


BAD_ROWS = {
    "no match": {"home_team": "Elm"},
    "is no time": {"match_date": None},
    "the books of 1x2 are no list": {"1x2_market": "[{'1': open('x')}]"},
    "are no list of books": {"1x2_market": ["x"]},
    "has the sides": {"1x2_market": [{"1": "2.0"}]},
    "a book with 3 sides has 1 histories": {"1x2_market": [BOOK | {"odds_history_data": [{}]}]},
    "KeyError: 'away_team'": {"away_team": ...},
}


@pytest.mark.parametrize("reason", BAD_ROWS)
def test_a_row_that_cant_be_read_is_refused_whole(tmp_path, reason):
    bad = {key: value for key, value in (ROW | {"match_link": "x#2"} | BAD_ROWS[reason]).items() if value is not ...}

    with pytest.raises(SourceError, match=rf"matches\.json:2: .*{reason}"):
        imported(tmp_path, ROW, bad)
    quality = imported(tmp_path, ROW, bad, lenient=True)

    assert (quality.ticks, quality.fixtures, quality.refused_rows) == (1, 1, 1)


def test_a_price_that_cant_be_read_costs_its_market_and_not_the_match(tmp_path):
    other = [{"odds_over": "1.9", "odds_under": "1.9", "bookmaker_name": "Birch", "period": "FullTime"}]
    row = ROW | {"1x2_market": [BOOK | {"1": "x"}], "over_under_2_5_market": other}

    with pytest.raises(SourceError, match=r"matches\.json:1: 'x' is no price"):
        imported(tmp_path, row)
    quality = imported(tmp_path, row, lenient=True)

    assert (quality.ticks, quality.suspended_ticks, quality.refused[0].reason, quality.refused_rows) == (2, 1, "no odds", 1)


def test_dashes_and_blocked_outcomes_are_no_price_and_double_chances_are_left_out(tmp_path):
    books = [BOOK | {"X": "-"}, BOOK | {"bookmaker_name": "Cedar", "blocked_outcomes": ["2"]}]
    chances = [{"1X": "1.3", "12": "1.3", "X2": "1.9", "bookmaker_name": "Birch", "period": "FullTime"}]

    quality = imported(tmp_path, ROW | {"1x2_market": books, "double_chance_market": chances})

    assert (quality.ticks, quality.suspended_ticks) == (1, 1)
    assert quality.notes["markets of double chances were left out: their sides overlap"] == 1


def test_lines_come_from_the_submarket_before_the_column_and_average_odds_have_a_book_of_that_name(tmp_path):
    lines = [{"odds_over": "1.5", "odds_under": "2.6", "submarket_name": f"Over/Under +{line}"} for line in ("1.5", "2.25")]

    imported(tmp_path, ROW | {"1x2_market": [], "over_under_2_5_market": lines})

    assert [key for _, key in at(tmp_path)] == [GOALS.replace("2.5", line) for line in ("1.5", "2.25")]


def test_a_kickoff_that_moved_is_the_last_one_and_agents_see_the_first_one(tmp_path):
    first = ROW | {"scraped_date": "2026-02-28 15:00:00 UTC"}
    moved = ROW | {"scraped_date": "2026-03-01 12:00:00 UTC", "match_date": "2026-03-01 16:00:00 UTC"}

    imported(tmp_path, moved, first)

    (fixture,) = verify_pack(tmp_path / "p").manifest.fixtures
    assert (fixture.kickoff_ts_ms, fixture.scheduled_ts_ms) == (KICKOFF_MS + 3_600_000, KICKOFF_MS)


def plain_messages(rows):
    """Return the odds of each book as they change: (match, market, book) -> time -> odds by side."""
    named = {"1": "part1", "X": "draw", "2": "part2", "odds_over": "over", "odds_under": "under"}
    found = {}
    for row in rows:
        kickoff = datetime.strptime(row["match_date"], "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
        close = round(kickoff.timestamp() * 1000) - 1000
        for market, key in (("1x2_market", MATCH), ("over_under_2_5_market", GOALS)):
            for book in row[market]:
                sides = [label for label in book if label in named]
                times = {}
                for side, history in zip(sides, book["odds_history_data"], strict=True):
                    for one in [history["opening_odds"], *history["odds_history"]]:
                        moment = datetime.fromisoformat(one["timestamp"]).replace(tzinfo=UTC)
                        times.setdefault(round(moment.timestamp() * 1000), {})[named[side]] = one["odds"]
                now, own = {}, found.setdefault((fixture_id_of(row["match_link"]), key, book["bookmaker_name"]), {})
                for ts_ms in sorted(times):
                    now = now | times[ts_ms]
                    own[ts_ms] = dict(now)
                own[close] = {named[side]: float(book[side]) for side in sides}
    return found


@pytest.mark.parametrize("seed", range(length(4, 40)))
def test_the_prices_on_offer_agree_with_a_plain_loop_over_histories(tmp_path, seed):
    dice = random.Random(seed)
    rows = oddsharvester.rows(seed)
    dice.shuffle(rows)

    imported(tmp_path, *rows, time_zone="UTC")

    messages = plain_messages(rows)
    age_ms = Consensus(min_books=1, max_age_s=86_400).max_age_s * 1000
    for (fixture, ts_ms, key), (_, odds) in states_by_time(verify_pack(tmp_path / "p")).items():
        best = {}
        for (own_fixture, own_key, _), times in messages.items():
            before = [then for then in times if then <= ts_ms]
            if (own_fixture, own_key) != (fixture, key) or not before or ts_ms - max(before) > age_ms:
                continue
            last = times[max(before)]
            if len(last) == len(odds):
                best = {side: max(best.get(side, 0), round(price * 1000)) for side, price in last.items()}
        assert {side: price or 0 for side, price in odds.items()} == {side: best.get(side, 0) for side in odds}
    assert {(f, t, k) for (f, k, _), times in messages.items() for t in times} == states_by_time(
        verify_pack(tmp_path / "p")
    ).keys()
