import json
import pickle
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

import clvlab as cl
from clvlab.arena.replays import replay_run
from clvlab.errors import ArgumentError, OddsError, SourceError, StatisticsError, UnsupportedError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.proof import clv_verify

RESULT = "1X2_PARTICIPANT_RESULT||"
AT = "2026-01-02T09:00Z"


def row(fixture="90000000", side="home", **more):
    return {"time": AT, "fixture": fixture, "market": "1X2", "side": side, "price": "2.0", "stake": "10"} | more


def frame(*rows):
    return pl.DataFrame(list(rows), infer_schema_length=None)


def grade(*rows, **how):
    return cl.grade_bets(frame(*rows), "starter", **how)


@pytest.fixture(scope="module")
def graded():
    rows = [
        row(), row(stake="£5.50"), row(side="X"), row(fixture="90000001"), row(), row(fixture="90000003", price="9.5"),
        row(fixture="90000007"), row(fixture="90000008"), row(fixture="nobody"), row(time="2020-01-01T00:00Z"),
    ]  # fmt: skip
    return grade(*rows)


def test_bets_on_one_side_at_one_tick_are_one_decision_and_the_rows_stay(graded):
    decisions = graded.source.evidence.decisions.filter(fixture_id=90000000)

    assert dict(decisions.select("side", "stake").iter_rows()) == {"part1": 2550, "draw": 1000}  # both sides: two decisions
    assert graded.bets.height == 10
    assert graded.bets.filter(fixture_id=90000000, side="part1")["seq"].n_unique() == 1
    assert graded.flags == {"duplicate": 1, "price_not_offered": graded.flags["price_not_offered"]}
    assert graded.unmatched.select("row", "reason").rows() == [(9, "fixture_unknown"), (10, "before_first_tick")]


def test_the_edge_of_the_law_is_at_the_price_of_the_tape_and_ones_own_stands_beside_it(graded):
    scored = graded.bets.filter(reason="scored")

    assert scored.height > 5
    for one in scored.iter_rows(named=True):
        assert one["edge_bps"] == (2 * one["close_prob_bps"] * one["odds_milli"] + 1000) // 2000 - 10_000
        assert one["edge_own_price_bps"] == (2 * one["close_prob_bps"] * one["own_odds_milli"] + 1000) // 2000 - 10_000
    assert b"own_price" not in graded.run.source.events + graded.run.source.scores + graded.run.source.manifest


def test_the_run_passes_every_verifier_and_replays(graded, tmp_path):
    folder = graded.run.save(tmp_path)

    assert graded.verify().passed
    assert replay_run(graded.run.source, graded.run.receipts).agrees
    done = subprocess.run([sys.executable, clv_verify.__file__, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "\nfail" not in done.stdout


def test_the_run_made_anew_from_its_transcript_is_the_same_bytes(graded):
    again = cl.backtest("starter", "bets", params=graded.params, policy=graded.policy)

    assert again.run.source == graded.run.source


def test_no_bet_is_refused_for_its_size_price_or_age():
    huge = grade(row(stake=f"{SAFE_INTEGER // 100}"), row(fixture="90000001", stake="0.01"))

    assert huge.report["policy"]["refused"] == {}
    assert huge.source.evidence.decisions["stake"].to_list() == [SAFE_INTEGER // 100 * 100, 1]


def test_bets_are_a_result_like_any_other(graded):
    baseline = cl.backtest("starter", "baseline")

    assert graded.agent_ids == ["bets"]
    assert graded.tear_sheet().clv.n == graded.scores.filter(~pl.col("at_close"), reason="scored").height
    assert graded.bankroll(0.02).source.n >= 0
    assert cl.compare([graded, baseline]).names == ["bets", "baseline"]
    assert set(cl.leaderboard([graded, baseline]).frame["agent_id"]) == {"bets", "baseline"}


def test_bets_show_themselves_and_what_rests_on_the_bettors_word(graded):
    shown = graded._repr_html_()

    assert "Not on the tape: 2 bets" in shown
    assert "Untrusted" in shown
    assert "fixture from &#39;fixture&#39;" in shown
    assert repr(graded).startswith("10 bets of bets on 'starter': Not distinguishable")
    assert "2 not on the tape" in repr(graded)
    assert graded.columns["side"] == "side"


def test_cells_are_shown_as_text_and_never_as_html():
    shown = grade(row(fixture="<script>alert(1)</script>", market="<b>"))._repr_html_()

    assert "<script>" not in shown
    assert "<b>" not in shown


def test_graded_bets_go_to_another_process(graded):
    again = pickle.loads(pickle.dumps(graded))

    assert again.bets.equals(graded.bets)
    assert again.run_id == graded.run_id


def test_a_record_of_which_nothing_is_on_the_tape_says_so():
    nothing = grade(row(fixture="nobody"))

    assert nothing.scores.is_empty()
    assert nothing.verify().passed
    assert nothing.unmatched["detail"].to_list() == ["no fixture has the id 'nobody', and it does not name two teams"]
    assert "no decision was scored" in repr(nothing)
    assert "no bet of bets is on the tape" in nothing._repr_html_()


def test_stakes_and_prices_may_be_left_out():
    bare = grade({"time": AT, "fixture": 90000000, "market": "1X2", "side": "home"})

    assert bare.source.evidence.decisions["stake"].to_list() == [100]
    assert bare.bets["edge_own_price_bps"].to_list() == [None]
    assert [note.partition(":")[0] for note in bare.notes] == ["no column of stakes", "no column of prices"]


def test_frames_files_and_pandas_are_read_alike(tmp_path):
    own = frame(row(), row(fixture="90000001", side="X")).with_columns(
        time=pl.lit(datetime(2026, 1, 2, 9, tzinfo=UTC)), price=pl.col("price").cast(pl.Float64), stake=pl.lit(10.0)
    )
    (tmp_path / "bets.csv").write_bytes(own.with_columns(time=pl.lit(AT)).write_csv(separator=";").encode())

    alike = (own, own.lazy(), own.to_pandas(), tmp_path / "bets.csv", own.to_arrow())
    ids = {cl.grade_bets(bets, "starter").run_id for bets in alike}

    assert len(ids) == 1


def test_a_local_time_is_read_in_the_zone_that_is_named():
    local = row(time="2026-01-02 10:00")

    with pytest.raises(SourceError, match="time_zone='Europe/London'"):
        grade(local)
    assert grade(local, time_zone="Europe/Berlin").run_id == grade(row()).run_id


@pytest.mark.parametrize(
    ("bets", "how", "error", "said"),
    [
        (frame(row(price="150"), row(price="2.5")), {}, OddsError, "odds_format="),
        (frame(row(stake="£1"), row(stake="1 EUR")), {}, SourceError, "have no sum"),
        (frame(row(side="BACK")), {}, SourceError, "column of the selection"),
        (frame(row()).clear(), {}, SourceError, "holds no bets"),
        (frame(row()).drop("side"), {}, SourceError, "says the side of a bet"),
        ("no such.csv", {}, SourceError, "no bets can be read at 'no such.csv'"),
        ("bets.xlsx", {}, SourceError, "save it as CSV"),
        ([row()], {}, SourceError, "path of a CSV file or as a frame"),
        (frame(row()), {"odds_format": "americn"}, OddsError, "did you mean 'american'"),
        (frame(row()), {"time_zone": "Londn"}, SourceError, "unknown time zone 'Londn'"),
        (frame(row()), {"market": 5}, ArgumentError, "market is a text"),
        (frame(row()), {"colums": {}}, ArgumentError, "columns"),
    ],
)
def test_what_can_t_be_graded_is_refused_with_what_mends_it(bets, how, error, said):
    with pytest.raises(error, match=said):
        cl.grade_bets(bets, "starter", **how)


def test_a_file_of_bets_beyond_its_limit_is_not_read(tmp_path):
    with (tmp_path / "bets.csv").open("wb") as file:
        file.truncate((64 << 20) + 1)

    with pytest.raises(SourceError, match=r"bets.csv' has 67,108,865 bytes, the limit is 67,108,864"):
        cl.grade_bets(tmp_path / "bets.csv", "starter")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"time,fixture,market,side\n", "holds no bets"),
        (b"", "holds no bets"),
        (b"time,time,fixture,market,side\n1,1,1,1,1\n", "two columns 'time'"),
        (b"time,fixture,market,side\n1,1,1,1,extra\n", "row 1 of bets.csv has 5 cells, and the header 4"),
    ],
)
def test_a_file_that_is_no_record_says_why(tmp_path, content, said):
    (tmp_path / "bets.csv").write_bytes(content)

    with pytest.raises(SourceError, match=said):
        cl.grade_bets(tmp_path / "bets.csv", "starter")


def test_a_file_as_spreadsheets_of_western_windows_save_it(tmp_path):
    text = f"Time;Fixture;Market;Selection;Odds;Stake\r\n{AT};90000000;1X2;1;2,10;£10,50\r\n\r\n{AT};90000001;1X2\r\n"
    (tmp_path / "bets.csv").write_bytes(text.encode("cp1252"))

    graded = cl.grade_bets(tmp_path / "bets.csv", "starter")

    assert graded.bets["stake_cents"].to_list() == [1050, None]
    assert graded.unmatched["reason"].to_list() == ["stake_unreadable"]


def test_results_of_the_pack_count_where_it_has_them():
    said = grade(row(result="won"), row(side="X", result="won"), row(side="X", result="2-1", stake="3"))

    assert said.bets["result"].to_list() == ["lost", "won", "won"]
    assert said.bets["profit_own_price"].to_list() == [-10, 10, 3]
    assert said.bets["flags"].list.contains("result_differs").to_list() == [True, False, False]
    assert said.bets["flags"].list.contains("result_unreadable").to_list() == [False, False, True]


def test_a_kickoff_that_can_t_be_read_is_told():
    said = grade(row("Birch North - Glen North", kickoff="Friday"), row("Birch North - Glen North", kickoff="2026-01-02"))

    assert said.bets["fixture_id"].to_list() == [90000000, 90000000]
    assert said.bets["flags"].list.contains("kickoff_unreadable").to_list() == [True, False]


def test_bookmakers_stand_beside_each_other():
    said = grade(row(book="Ash"), row(side="X", book="Ash"), row(book="Elm", fixture="90000001"))

    assert said.by_book.select("book", "bets", "scored").rows() == [("Ash", 2, 2), ("Elm", 1, 1)]


def test_a_laboratory_keeps_graded_bets_and_shuts_what_a_plan_holds_out():
    lab = cl.Lab()
    kept = lab.grade_bets(frame(row()), "starter", agent_id="mine")
    assert lab.verify(kept.run_id).passed
    assert lab.open_run(kept.run_id).agent_ids == ["mine"]
    plan = lab.plan("starter", "cumulative-drift", {"warmup_ticks": [5, 10]}, hold_out=0.5)

    later = lab.grade_bets(frame(*[row(fixture=str(90000000 + n)) for n in range(12)]), "starter")

    shut = later.unmatched.filter(reason="fixture_held_out")
    assert shut.height == 6
    assert plan.plan_id in shut["detail"][0]


def test_bets_after_the_close_are_in_no_evidence_even_where_the_tape_ends_before_it(tmp_path):
    rows = [
        {"fixture": "m", "time": f"2026-03-01T{hour}:00Z", "kickoff": "2026-03-01T15:00Z", "market": "1X2||", "side": side,
         "odds": odds, "home": "Oak", "away": "Elm"}
        for hour in (10, 12) for side, odds in (("part1", 2.1), ("part2", 1.8))
    ]  # fmt: skip
    cl.import_odds("csv", pl.DataFrame(rows), tmp_path / "mine")
    times = ["09:59", "10:00", "11:59", "12:00", "14:58", "14:59:30", "15:00", "16:00"]

    bets = frame(*[row("Oak v Elm", time=f"2026-03-01T{time}Z") for time in times])
    graded = cl.grade_bets(bets, str(tmp_path / "mine"))

    assert graded.bets["unmatched"].to_list() == ["before_first_tick", *[None] * 5, "after_close", "after_close"]
    assert graded.bets["tick_seq"].to_list() == [None, 0, 0, 1, 1, 1, None, None]
    assert graded.bets["at_close"].to_list()[3:6] == [True, True, True]


def test_of_two_matches_of_the_same_teams_neither_is_guessed(tmp_path):
    rows = [
        {"fixture": fixture, "time": "2026-03-01T10:00Z", "kickoff": kickoff, "market": "1X2||", "side": side, "odds": 2.0,
         "home": "Oak", "away": "Elm"}
        for fixture, kickoff in (("m", "2026-03-01T15:00Z"), ("n", "2026-03-01T20:00Z")) for side in ("part1", "part2")
    ]  # fmt: skip
    pack = cl.import_odds("csv", pl.DataFrame(rows), tmp_path / "twice")

    told = [None, "2026-03-01", rows[2]["kickoff"]]
    bets = [row("Oak v Elm", time="2026-03-01T11:00Z", market="1X2||", kickoff=kickoff) for kickoff in told]

    graded = cl.grade_bets(frame(*bets, bets[0] | {"fixture": "m"}), pack)

    first, second = (one.fixture_id for one in sorted(pack.source.manifest.fixtures, key=lambda one: one.source_id))
    assert graded.bets["unmatched"].to_list() == ["fixture_ambiguous", "fixture_ambiguous", None, None]
    assert graded.bets["fixture_id"].to_list() == [None, None, second, first]


def test_of_two_matches_of_the_same_teams_the_one_is_taken_that_was_quoted_and_had_not_begun(tmp_path):
    rows = [
        {"fixture": fixture, "time": time, "kickoff": kickoff, "market": "1X2||", "side": side, "odds": 2.0,
         "home": "Oak", "away": "Elm"}
        for fixture, time, kickoff in (
            ("m", "2026-03-01T10:00Z", "2026-03-01T15:00Z"), ("n", "2026-03-01T12:00Z", "2026-03-01T20:00Z")
        )
        for side in ("part1", "part2")
    ]  # fmt: skip
    pack = cl.import_odds("csv", pl.DataFrame(rows), tmp_path / "twice")
    times = ["09:00", "11:00", "13:00", "16:00", "21:00"]

    graded = cl.grade_bets(
        frame(*[row("Oak v Elm", time=f"2026-03-01T{time}Z", market="1X2||", kickoff=None) for time in times]), pack
    )

    first, second = (one.fixture_id for one in sorted(pack.source.manifest.fixtures, key=lambda one: one.source_id))
    assert graded.bets["fixture_id"].to_list() == [None, first, None, second, None]
    unclear = "fixture_ambiguous"
    assert graded.bets["unmatched"].to_list() == [unclear, None, unclear, None, unclear]


def test_a_service_grades_nothing():
    with cl.Lab("http://127.0.0.1:9") as lab, pytest.raises(UnsupportedError, match="in a Lab"):
        lab.grade_bets(Path("bets.csv"), "starter")


def test_facts_of_the_rows_are_json(graded):
    facts = json.loads(json.dumps(graded.report))["bets"]

    assert facts["unmatched_reasons"] == {"before_first_tick": 1, "fixture_unknown": 1}
    assert [one["row"] for one in facts["graded"] + facts["unmatched"]] == list(range(1, 11))
    assert facts["graded"][0]["untrusted"].keys() == {"own_odds_milli", "own_result", "edge_own_price_bps", "profit_own_price"}
    assert facts["graded"][0]["edge_bps"] == graded.bets["edge_bps"][0]


def test_a_bet_on_a_half_a_line_beside_the_main_one_and_a_handicap_are_graded_against_the_odds_api(tmp_path):
    priced = {"h2h": [("Ash", None), ("Draw", None), ("Elm", None)], "spreads": [("Ash", -0.75), ("Elm", 0.75)]}
    lines = {"totals": 2.5, "totals_h1": 2.5, "alternate_totals": 3.25}
    priced |= {key: [("Over", point), ("Under", point)] for key, point in lines.items()}
    raw = tmp_path / "raw"
    raw.mkdir()
    for at in (10, 11, 12):
        when = f"2026-07-04T{at}:00:00Z"
        quotes = [
            {
                "key": key,
                "last_update": when,
                "outcomes": [{"name": name, "price": 2 + at / 50, "point": point} for name, point in sides],
            }
            for key, sides in priced.items()
        ]
        event = {
            "id": "e1", "sport_key": "soccer_epl", "commence_time": "2026-07-04T12:30:00Z",
            "home_team": "Ash", "away_team": "Elm",
            "bookmakers": [{"key": "a", "title": "a", "last_update": when, "markets": quotes}],
        }  # fmt: skip
        (raw / f"{at}.json").write_text(json.dumps({"timestamp": when, "data": [event]}))
    pack = cl.import_odds("the-odds-api", raw, tmp_path / "pack", min_books=1)
    placed = [
        ("Over/Under 2.5 First Half", "Over", "totals_h1||point=2.5", "over"),
        ("Over/Under 2.5", "Over 2.5", "totals||point=2.5", "over"),
        ("Totals", "Under 3.25", "alternate_totals||point=3.25", "under"),
        ("Asian Handicap", "Elm +0.75", "spreads||point=-0.75", "part2"),
        ("Asian Handicap", "Elm -0.75", None, None),
    ]
    rows = [("2026-07-04T10:30:00Z", "Ash - Elm", market, side, 2.2, 10) for market, side, *_ in placed]
    bets = pl.DataFrame(rows, schema=["time", "match", "market", "selection", "odds", "stake"], orient="row")

    graded = cl.grade_bets(bets, pack)

    assert graded.bets.select("market_key", "side").rows() == [row[2:] for row in placed]
    assert graded.bets["reason"].to_list() == ["scored"] * 4 + [None]
    assert graded.tear_sheet().only(leagues=["soccer_epl"]).clv.n == 4
    with pytest.raises(StatisticsError, match="its leagues are soccer_epl"):
        graded.tear_sheet().only(leagues=["E0"])


def test_a_file_of_names_finds_teams_that_the_pack_calls_otherwise(tmp_path):
    file = tmp_path / "teams.toml"
    file.write_text('teams = [["Birch North", "The Birches"]]')
    bets = [row(fixture="The Birches v Glen North", side="The Birches"), row(fixture="Birch North v Glen North", side="1")]

    plain, named = grade(*bets), grade(*bets, team_aliases=file)

    assert plain.unmatched.select("row", "reason").rows() == [(1, "fixture_unknown")]
    assert named.unmatched.is_empty()
    assert named.bets["side"].to_list() == ["part1", "part1"]
    file.write_text("teams = [['Birch North']]")
    with pytest.raises(SourceError, match=r"two names or more, .* not \['Birch North'\]"):
        grade(*bets, team_aliases=str(file))


def test_what_bets_would_have_paid_is_at_their_own_stakes(graded):
    own, flat = graded.executable(delay_s=0), graded.executable(stake=3, delay_s=0)

    staked = {(row["fixture_id"], row["side"]): row["stake"] for row in own.frame.iter_rows(named=True)}
    assert staked[90000000, "part1"] == 25.5
    assert staked[90000000, "draw"] == 10
    assert set(flat.frame["stake"]) == {3.0}
    assert "their own stakes" in own.line
    assert own.frame["odds"].equals(flat.frame["odds"])
    by_hand = own.frame.select((pl.col("delayed_pct") * pl.col("stake_filled")).sum() / pl.col("stake").sum()).item()
    assert own.means["delayed", "ordered"][1].mean == pytest.approx(by_hand)


def test_a_bet_above_the_largest_stake_needs_another_one():
    huge = grade(row(stake="20000000"))

    with pytest.raises(StatisticsError, match="above 10,000,000"):
        huge.executable().frame  # noqa: B018
    assert huge.executable(stake=5).frame["stake"].to_list() == [5.0]
