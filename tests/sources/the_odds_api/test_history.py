import csv
import gzip
import random
import statistics
from datetime import UTC, datetime
from fractions import Fraction

import orjson
import polars as pl
import pyarrow.parquet as pq
import pytest

import clvlab as cl
from clvlab.errors import SourceError
from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.odds.margin import Margin
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_source
from clvlab.sources.source import Options, fixture_id_of
from tests.factories import seen_kickoffs
from tests.length import length

KICKOFF = "2026-07-04T17:00:00Z"


def market(key, outcomes, updated="2026-07-04T11:59:00Z"):
    return {
        "key": key,
        "last_update": updated,
        "outcomes": [dict(zip(("name", "price", "point"), outcome, strict=False)) for outcome in outcomes],
    }


def book(key, *markets):
    return {"key": key, "title": key, "last_update": "2026-07-04T11:59:00Z", "markets": list(markets)}


def event(*books, event_id="e1", sport="soccer_x", commence=KICKOFF, home="Ash", away="Elm"):
    return {
        "id": event_id,
        "sport_key": sport,
        "commence_time": commence,
        "home_team": home,
        "away_team": away,
        "bookmakers": books,
    }


def h2h(home, draw, away):
    return market("h2h", [("Ash", home), ("Draw", draw), ("Elm", away)])


def historical(at, *events, single=False):
    return {"timestamp": at, "previous_timestamp": None, "next_timestamp": None, "data": events[0] if single else list(events)}


def written(folder, name, answer):
    folder.mkdir(exist_ok=True)
    text = orjson.dumps(answer)
    (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return folder


def imported(tmp_path, folder, *, lenient=False, **options):
    options = {"min_books": 1} | options
    report = import_source("the-odds-api", [folder], tmp_path / "p", Options(lenient=lenient, **options))
    return report, verify_pack(tmp_path / "p").tape().ticks().collect()


def ms(text):
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)


def test_historical_live_single_and_packed_answers_become_ticks_of_one_fixture(tmp_path):
    first, second, third = (
        event(book("a", h2h(2.0, 3.5, 4.0))),
        event(book("a", h2h(2.1, 3.5, 3.8))),
        event(book("a", h2h(2.2, 3.4, 3.6))),
    )
    folder = written(tmp_path / "in", "one.json", historical("2026-07-04T12:00:00Z", first))
    written(folder, "two.json.gz", historical("2026-07-04T12:05:00Z", second, single=True))
    written(folder, "live_2026-07-04T121000+0000.json", [third])
    written(folder, "event_2026-07-04T13:15:00+01:00.json", third)

    report, ticks = imported(tmp_path, folder)

    assert ticks["ts_ms"].unique().sort().to_list() == [ms(f"2026-07-04T12:{m:02}:00Z") for m in (0, 5, 10, 15)]
    assert ticks["fixture_id"].unique().to_list() == [fixture_id_of("e1")]
    (fixture,) = report.manifest.fixtures
    assert (fixture.names, fixture.source_id, fixture.kickoff_ts_ms) == (("Ash", "Elm"), "e1", ms(KICKOFF))


def test_the_sport_is_the_league_of_snapshots_and_of_changes(tmp_path):
    matches = [event(book("a", h2h(2.0, 3.5, 4.0)), event_id=f"e{n}", sport="soccer_epl") for n in (1, 2)]
    games = [event(book("a", h2h(2.0, 3.5, 4.0)), event_id="e3", sport="soccer_spain_la_liga")]
    folder = tmp_path / "raw"
    written(folder, "a.json", historical("2026-07-04T12:00:00Z", *matches))
    written(folder, "b.json", historical("2026-07-04T12:00:00Z", *games))
    over, under = (0, "a", "totals", "Over", 2.5, 1.9), (0, "a", "totals", "Under", 2.5, 1.9)
    (tmp_path / "more").mkdir()
    path = changes(tmp_path / "more", over, under, fixtures="e1,soccer_epl,2026-07-04T17:00:00Z,Ash,Elm")

    imported(tmp_path, folder)
    import_source("the-odds-api", [path], tmp_path / "changes", Options(min_books=1))

    pack = cl.open_pack(tmp_path / "p")
    assert [one.league for one in verify_pack(tmp_path / "changes").manifest.fixtures] == ["soccer_epl"]
    assert {one.league for one in pack.source.manifest.fixtures} == {"soccer_epl", "soccer_spain_la_liga"}
    assert pack.where(league="soccer_epl").fixture_ids == tuple(sorted(map(fixture_id_of, ("e1", "e2"))))
    assert len(pack.where(league="soccer_spain_la_liga").fixture_ids) == 1


def test_changes_without_a_sport_name_no_league_and_a_sport_that_is_too_long_is_refused(tmp_path):
    over, under = (0, "a", "totals", "Over", 2.5, 1.9), (0, "a", "totals", "Under", 2.5, 1.9)
    path = changes(tmp_path, over, under, fixtures="e1,,2026-07-04T17:00:00Z,Ash,Elm")
    long = event(book("a", h2h(2.0, 3.5, 4.0)), sport="s" * 201)

    imported(tmp_path, path)

    assert [one.league for one in verify_pack(tmp_path / "p").manifest.fixtures] == [None]
    with pytest.raises(SourceError, match=r"sport_key 'sss.*has 201 letters"):
        imported(tmp_path / "q", written(tmp_path / "raw", "a.json", historical("2026-07-04T12:00:00Z", long)))
    with pytest.raises(SourceError, match=r"has 201 letters"):
        imported(tmp_path / "r", changes(tmp_path, over, under, fixtures=f"e1,{'s' * 201},2026-07-04T17:00:00Z,Ash,Elm"))


def test_sides_and_points_make_the_market_whatever_the_order_of_outcomes(tmp_path):
    spread, totals = (
        market("spreads", [("Elm", 1.9, 1.5), ("Ash", 1.95, -1.5)]),
        market("totals", [("Under", 1.8, 2.5), ("Over", 2.05, 2.5)]),
    )
    folder = written(tmp_path / "in", "a.json", historical("2026-07-04T12:00:00Z", event(book("a", spread, totals))))

    _, ticks = imported(tmp_path, folder, margin=Margin.MULTIPLICATIVE)

    assert ticks.select("market_key", "side", "prob_bps", "odds_milli").rows() == [
        ("spreads||point=-1.5", "part1", 4935, 1950),
        ("spreads||point=-1.5", "part2", 5065, 1900),
        ("totals||point=2.5", "over", 4675, 2050),
        ("totals||point=2.5", "under", 5325, 1800),
    ]


def test_american_and_decimal_files_say_the_same(tmp_path):
    for name, prices in (("d", (2.5, 3.0, 3.5)), ("a", (150, 200, 250))):
        written(tmp_path / name, "x.json", historical("2026-07-04T12:00:00Z", event(book("b", h2h(*prices)))))
        import_source("the-odds-api", [tmp_path / name], tmp_path / f"pack-{name}", Options(min_books=1))

    first, second = (verify_pack(tmp_path / f"pack-{name}").manifest.fixtures for name in ("d", "a"))
    assert first == second


def test_a_book_that_leaves_a_line_no_longer_counts_there(tmp_path):
    at_25, at_3 = (
        market("totals", [("Over", 1.9, 2.5), ("Under", 1.9, 2.5)]),
        market("totals", [("Over", 1.9, 3), ("Under", 1.9, 3)]),
    )
    folder = written(tmp_path / "in", "1.json", historical("2026-07-04T12:00:00Z", event(book("a", at_25), book("b", at_25))))
    written(folder, "2.json", historical("2026-07-04T12:05:00Z", event(book("a", at_3), book("b", at_25))))
    written(folder, "3.json", historical("2026-07-04T12:10:00Z", event(book("a", at_3), book("b", at_3))))

    _, ticks = imported(tmp_path, folder)

    states = ticks.group_by("ts_ms", "market_key").agg(pl.first("suspended")).sort("ts_ms", "market_key")
    assert states.drop("ts_ms").rows() == [
        ("totals||point=2.5", False), ("totals||point=2.5", False), ("totals||point=3", False),
        ("totals||point=2.5", True), ("totals||point=3", False),
    ]  # fmt: skip


def test_a_snapshot_of_another_type_of_market_withdraws_nothing(tmp_path):
    totals = market("totals", [("Over", 1.9, 2.5), ("Under", 1.9, 2.5)])
    folder = written(tmp_path / "in", "1.json", historical("2026-07-04T12:00:00Z", event(book("a", totals))))
    written(folder, "2.json", historical("2026-07-04T12:05:00Z", event(book("a", h2h(2.0, 3.5, 4.0)))))

    _, ticks = imported(tmp_path, folder)

    assert not ticks["suspended"].any()


def test_a_snapshot_of_other_books_withdraws_nothing(tmp_path):
    folder = written(tmp_path / "in", "1.json", historical("2026-07-04T12:00:00Z", event(book("us", h2h(2.0, 3.5, 4.0)))))
    written(folder, "2.json", historical("2026-07-04T12:00:02Z", event(book("eu", h2h(2.2, 3.4, 3.6)))))

    _, ticks = imported(tmp_path, folder)

    assert ticks.filter(side="part1").sort("tick_seq")["odds_milli"].to_list() == [2000, 2200]


def test_an_event_that_is_no_longer_listed_is_withdrawn_by_the_books_that_list_others(tmp_path):
    both = [event(book("a", h2h(2.0, 3.5, 4.0))), event(book("a", h2h(2.0, 3.5, 4.0)), event_id="e2")]
    folder = written(tmp_path / "in", "1.json", historical("2026-07-04T12:00:00Z", *both))
    written(folder, "2.json", historical("2026-07-04T12:05:00Z", both[1]))

    _, ticks = imported(tmp_path, folder)

    gone = ticks.filter(fixture_id=fixture_id_of("e1")).sort("tick_seq")
    assert gone.group_by("ts_ms").agg(pl.first("suspended")).sort("ts_ms")["suspended"].to_list() == [False, True]


def test_the_kickoff_is_the_last_one_and_a_move_is_noted(tmp_path):
    later = "2026-07-04T18:30:00Z"
    folder = written(tmp_path / "in", "z.json", historical("2026-07-04T12:00:00Z", event(book("a", h2h(2.0, 3.5, 4.0)))))
    written(folder, "a.json", historical("2026-07-04T12:05:00Z", event(book("a", h2h(2.0, 3.5, 4.0)), commence=later)))

    report, _ = imported(tmp_path, folder)

    assert report.manifest.fixtures[0].kickoff_ts_ms == ms(later)
    assert seen_kickoffs(verify_pack(tmp_path / "p").tape()) == [ms(KICKOFF)]
    assert report.quality.notes["fixtures whose kickoff moved"] == 1


BAD = {
    "no answer of The Odds API v4.*no event|neither an event": {"message": "Usage quota has been reached"},
    "has no time zone": historical("2026-07-04T12:00:00", event()),
    "American odds.*and decimal odds": historical("2026-07-04T12:00:00Z", event(book("a", h2h(-150, 3.5, 250)))),
    "import one sport at a time": historical(
        "2026-07-04T12:00:00Z",
        event(book("a", h2h(2.0, 3.5, 4.0))),
        event(book("a", h2h(2.0, 3.5, 4.0)), event_id="e2", sport="tennis"),
    ),
    "1.0 is no price": historical("2026-07-04T12:00:00Z", event(book("a", h2h(2.0, 3.5, 4.0)), book("b", h2h(1.0, 3.5, 4.0)))),
    "0 is no price": historical("2026-07-04T12:00:00Z", event(book("a", h2h(0, 3.5, 4.0)))),
    "-2.5 is no price": historical("2026-07-04T12:00:00Z", event(book("a", h2h(-2.5, 3.5, 4.0)))),
    "None is no price": historical("2026-07-04T12:00:00Z", event(book("a", h2h(None, 3.5, 4.0)))),
    "has one side, 'over'": historical("2026-07-04T12:00:00Z", event(book("a", market("totals", [("Over", 1.9, 2.5)])))),
    "'over' is priced 1.9 and 2.0|over is priced 1.9 and 2.0": historical(
        "2026-07-04T12:00:00Z",
        event(book("a", market("totals", [("Over", 1.9, 2.5), ("Under", 1.9, 2.5), ("Over", 2.0, 2.5)]))),
    ),
    "KeyError: 'commence_time'": historical(
        "2026-07-04T12:00:00Z", {"id": "e", "sport_key": "s", "home_team": "a", "away_team": "b"}
    ),
    "must be texts": historical("2026-07-04T12:00:00Z", event(book("a"), home=None)),
    "is no number": historical(
        "2026-07-04T12:00:00Z", event(book("a", market("totals", [("Over", 1.9, "x"), ("Under", 1.9, "x")])))
    ),
}


@pytest.mark.parametrize("reason", BAD)
def test_what_cant_be_read_is_refused_with_file_place_and_reason_or_counted(tmp_path, reason):
    folder = written(tmp_path / "in", "bad.json", BAD[reason])
    written(folder, "good.json", historical("2026-07-04T12:10:00Z", event(book("a", h2h(2.0, 3.5, 4.0)))))

    with pytest.raises(SourceError, match=rf"bad\.json:\d+: .*({reason})"):
        imported(tmp_path, folder)
    assert not (tmp_path / "p").exists()
    report, _ = imported(tmp_path, folder, lenient=True)

    (refused,) = report.quality.refused
    assert refused.count == 1
    assert refused.examples[0].startswith("bad.json:")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"null"])
def test_a_file_that_is_no_answer_is_refused(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)

    with pytest.raises(SourceError, match=r"x\.json:1"):
        imported(tmp_path, tmp_path / "x.json")


def test_a_snapshot_cut_off_is_refused_or_counted(tmp_path):
    folder = written(tmp_path / "in", "a.json.gz", historical("2026-07-04T12:00:00Z", event(book("a", h2h(2.0, 3.5, 4.0)))))
    cut = folder / "b.json.gz"
    cut.write_bytes((folder / "a.json.gz").read_bytes()[:-9])

    with pytest.raises(SourceError, match=r"b\.json\.gz: can't be read to its end"):
        imported(tmp_path, folder)
    report, _ = imported(tmp_path, folder, lenient=True)

    assert report.quality.refused_rows == 1


def test_a_weight_of_a_book_that_is_not_there_is_refused(tmp_path):
    folder = written(tmp_path / "in", "a.json", historical("2026-07-04T12:00:00Z", event(book("a", h2h(2.0, 3.5, 4.0)))))

    with pytest.raises(SourceError, match="no book is named 'A'; the source has a"):
        imported(tmp_path, folder, weights={"A": 2})
    assert not (tmp_path / "p").exists()


def test_names_that_no_pack_can_hold_are_refused_or_counted(tmp_path):
    odd = market("totals\n", [("Over", 1.9, 2.5), ("Under", 1.9, 2.5)])
    folder = written(tmp_path / "in", "a.json", historical("2026-07-04T12:00:00Z", event(book("a", odd, h2h(2.0, 3.5, 4.0)))))

    with pytest.raises(SourceError, match="no control character"):
        imported(tmp_path, folder)
    report, _ = imported(tmp_path, folder, lenient=True)

    assert report.quality.refused_rows == 2


def changes(tmp_path, *rows, name="x", fixtures="e1,soccer_x,2026-07-04T17:00:00Z,Ash,Elm"):
    """Rows as (minute, book, market, outcome, point, decimal odds)."""
    at = [datetime(2026, 7, 4, 12, row[0]) for row in rows]  # noqa: DTZ001 - as the source has them
    pl.DataFrame(
        {
            "event_id": ["e1"] * len(rows),
            "commence_time": [datetime(2026, 7, 4, 17)] * len(rows),  # noqa: DTZ001
            "bookmaker": [row[1] for row in rows],
            "market": [row[2] for row in rows],
            "outcome": [row[3] for row in rows],
            "point": pl.Series([row[4] for row in rows], dtype=pl.Float64),
            "market_last_update": at,
            "snapshot_commit_time": at,
            "price_decimal": pl.Series([row[5] for row in rows], dtype=pl.Float64),
        }
    ).write_parquet(tmp_path / f"{name}_ticks.parquet")
    (tmp_path / f"{name}_fixtures.csv").write_text(f"event_id,sport_key,commence_time,home_team,away_team\n{fixtures}\n")
    return tmp_path / f"{name}_ticks.parquet"


def test_an_outcome_that_did_not_change_keeps_its_price(tmp_path):
    path = changes(
        tmp_path,
        (0, "a", "totals", "Over", 2.5, 1.9),
        (0, "a", "totals", "Under", 2.5, 1.9),
        (5, "a", "totals", "Over", 2.5, 2.1),
    )

    _, ticks = imported(tmp_path, path)

    assert ticks["odds_milli"].to_list() == [1900, 1900, 2100, 1900]


def test_a_bad_line_of_the_fixtures_of_changes_costs_no_more_than_itself(tmp_path):
    path = changes(
        tmp_path,
        (0, "a", "totals", "Over", 2.5, 1.9),
        (0, "a", "totals", "Under", 2.5, 1.9),
        fixtures="e1,s,2026-07-04T18:30:00Z,Ash,Elm\ne1,s,2026-07-04T18:30:00Z,Oak,Elm\ne2,s,soon,Ash,Elm\ne3,s\ne4,s,1,2,3,4",
    )

    report, ticks = imported(tmp_path, path, lenient=True)

    assert ticks.height == 2
    assert {row.reason: row.count for row in report.quality.refused} == {
        "a fixture can't be read": 3,
        "a fixture is listed twice": 1,
    }
    with pytest.raises(SourceError, match=r"_fixtures\.csv:3: fixture 'e1' is listed twice"):
        import_source("the-odds-api", [path], tmp_path / "q")


def test_changes_are_read_from_their_folder_too(tmp_path):
    (tmp_path / "in").mkdir()
    changes(tmp_path / "in", (0, "a", "totals", "Over", 2.5, 1.9), (0, "a", "totals", "Under", 2.5, 1.9))

    assert import_source(None, [tmp_path / "in"], tmp_path / "p").quality.ticks == 1
    changes(tmp_path / "in", (0, "a", "totals", "Over", 2.5, 1.9), name="other")
    with pytest.raises(SourceError, match=r"give one file \*_ticks\.parquet, not .*_ticks\.parquet, .*_ticks\.parquet"):
        import_source("the-odds-api", [tmp_path / "in"], tmp_path / "q")


def test_of_changes_agents_see_the_first_kickoff(tmp_path):
    path = changes(
        tmp_path,
        (0, "a", "totals", "Over", 2.5, 1.9),
        (0, "a", "totals", "Under", 2.5, 1.9),
        fixtures="e1,soccer_x,2026-07-04T18:30:00Z,Ash,Elm",
    )

    imported(tmp_path, path)

    tape = verify_pack(tmp_path / "p").tape()
    assert tape.fixtures["kickoff_ts_ms"].to_list() == [ms("2026-07-04T18:30:00Z")]
    assert seen_kickoffs(tape) == [ms(KICKOFF)]


def test_a_book_between_two_lines_quotes_none_of_them(tmp_path):
    path = changes(
        tmp_path,
        (0, "a", "spreads", "Ash", -1.5, 1.9), (0, "a", "spreads", "Elm", 1.5, 1.9),
        (5, "a", "spreads", "Ash", -2.0, 1.9),
        (9, "a", "spreads", "Elm", 2.0, 1.9),
    )  # fmt: skip

    _, ticks = imported(tmp_path, path)

    states = ticks.group_by("ts_ms", "market_key").agg(pl.first("suspended")).sort("ts_ms")
    assert states.drop("ts_ms").rows() == [
        ("spreads||point=-1.5", False),
        ("spreads||point=-1.5", True),
        ("spreads||point=-2", False),
    ]


def test_a_price_that_is_none_is_refused_and_its_side_is_not_known_from_there(tmp_path):
    path = changes(
        tmp_path,
        (0, "a", "totals", "Over", 2.5, 1.9), (0, "a", "totals", "Under", 2.5, 1.9),
        (5, "a", "totals", "Over", 2.5, float("nan")),
        (9, "a", "totals", "Over", 2.5, 2.0),
    )  # fmt: skip

    with pytest.raises(SourceError, match=r"x_ticks\.parquet:3: a: nan .* is no price"):
        imported(tmp_path, path)
    _, ticks = imported(tmp_path, path, lenient=True)

    assert ticks.group_by("ts_ms").agg(pl.first("suspended")).sort("ts_ms")["suspended"].to_list() == [False, True, False]


def test_a_point_that_is_no_number_is_refused_or_counted(tmp_path):
    path = changes(tmp_path, (0, "a", "totals", "Over", float("nan"), 1.9), (0, "a", "totals", "Under", 2.5, 1.9))

    with pytest.raises(SourceError, match=r"x_ticks\.parquet:1: .*nan"):
        imported(tmp_path, path)


@pytest.mark.parametrize(
    ("fixtures", "text"),
    [("e2,s,2026-07-04T17:00:00Z,A,B", "event e1 is not in"), ("e1,s,2026-07-04T17:00:00,A,B", "time zone")],
)
def test_changes_need_a_sound_list_of_fixtures(tmp_path, fixtures, text):
    path = changes(tmp_path, (0, "a", "totals", "Over", 2.5, 1.9), (0, "a", "totals", "Under", 2.5, 1.9), fixtures=fixtures)

    with pytest.raises(SourceError, match=text):
        imported(tmp_path, path)


def test_memory_holds_a_chunk_and_the_pack_is_the_same_for_every_size_of_it(tmp_path):
    books = [book(name, h2h(2.0 + n / 10, 3.5, 4.0)) for n, name in enumerate("abc")]
    folder = tmp_path / "in"
    for minute in range(3):
        answer = historical(f"2026-07-04T12:{minute:02}:00Z", *(event(*books, event_id=f"e{n}") for n in range(5)))
        written(folder, f"{minute}.json", answer)

    hashes = set()
    for n, rows in enumerate((1, 10, 100_000)):
        report = import_source("the-odds-api", [folder], tmp_path / f"p{n}", Options(chunk_rows=rows))
        hashes.add(report.manifest.content_hash)

    assert len(hashes) == 1


def power(odds):
    low, high = 0.0, 100.0
    for _ in range(200):
        k = (low + high) / 2
        low, high = (k, high) if sum((1 / o) ** k for o in odds) > 1 else (low, k)
    return [(1 / o) ** low for o in odds]


@pytest.mark.long
@pytest.mark.realdata
@pytest.mark.parametrize("name", length(["worldcup"], ["worldcup", "mlb"]))
def test_the_close_of_real_markets_is_that_of_a_plain_recomputation(realdata, tmp_path, name):
    folder, dice = realdata / "the-odds-api", random.Random(11)
    with (folder / f"{name}_fixtures.csv").open(newline="") as file:
        fixtures = {row["event_id"]: row for row in csv.DictReader(file)}
    expected = {}
    for event in dice.sample(sorted(fixtures), 30):
        rows = pq.read_table(folder / f"{name}_ticks.parquet", filters=[("event_id", "=", event)]).to_pylist()
        expected |= {(event, key): close for key, close in plain_closes(rows, fixtures[event])}
    chosen = dice.sample(sorted(expected), 50)

    import_source("the-odds-api", [folder / f"{name}_ticks.parquet"], tmp_path / "p", Options(lenient=True))

    tape = verify_pack(tmp_path / "p").tape()
    wanted = pl.DataFrame([(fixture_id_of(event), key) for event, key in chosen], ["fixture_id", "market_key"], orient="row")
    closes = market_closes(tape, wanted, fixture_closes(tape, Window())).rows_by_key(["fixture_id", "market_key"], named=True)
    series = tape.series.rows_by_key(["fixture_id", "market_key"], named=True)
    for event, key in chosen:
        (close,) = closes[fixture_id_of(event), key]
        at = close["close_row"] - close["market_start"]
        found = {side["side"]: tape.rows["prob_bps"][side["start"] + at] for side in series[fixture_id_of(event), key]}
        assert (tape.rows["ts_ms"][close["close_row"]], found) == expected[event, key], (event, key)
    assert sum(None not in expected[market][1].values() for market in chosen) >= 10


def plain_closes(rows, fixture):
    """The last consensus before the kickoff of every market of an event: (market key, (time, side -> basis points))."""
    kickoff = round(datetime.fromisoformat(fixture["commence_time"]).timestamp() * 1000)
    books = quotes_by_books(rows, {fixture["home_team"]: "part1", fixture["away_team"]: "part2"})
    for kind, line in {(kind, line) for kind, history in books for _, line, _, _ in history if line != BETWEEN}:
        sides, times = set(), set()
        for _, history in (book for book in books if book[0] == kind):
            before = BETWEEN
            for at, now, _, prices in history:
                sides |= prices.keys() if now == line else set()
                times |= {at} if line in (now, before) and at < kickoff else set()
                before = now
        if times and len(sides) > 1:
            key = f"{kind}||" + ("" if line is None else f"point={line:g}")
            yield key, (max(times), consensus_at(max(times), line, sides, [of for name, of in books if name == kind]))


BETWEEN = "two lines"


def quotes_by_books(rows, names):
    """What each book says of each type of market in turn: [(type, [(time, line, when confirmed, side -> odds)])]."""
    changes = {}
    for row in rows:
        at, seen = (
            round(row[key].replace(tzinfo=UTC).timestamp() * 1000) for key in ("snapshot_commit_time", "market_last_update")
        )
        side = names.get(row["outcome"], row["outcome"].lower())
        line = -row["point"] if row["point"] and "spread" in row["market"] and side == "part2" else row["point"]
        price = row["price_decimal"]
        sound = price is not None and 1001 <= round(price * 1000) <= 10**8
        of_book = changes.setdefault((row["market"], row["bookmaker"]), {})
        of_book.setdefault(at, []).append((side, line, price if sound else None, min(seen, at)))
    books = []
    for (kind, _), of_book in changes.items():
        known, history = {}, []
        for at in sorted(of_book):
            known |= {side: (line, price) for side, line, price, _ in of_book[at]}
            lines = {line for line, _ in known.values()}
            seen = max(seen for *_, seen in of_book[at])
            prices = {side: price for side, (_, price) in known.items()}
            history.append((at, lines.pop() if len(lines) == 1 else BETWEEN, seen, prices))
        books.append((kind, history))
    return books


def consensus_at(now, line, sides, histories):
    fair = []
    for history in histories:
        _, at_line, seen, prices = max((quote for quote in history if quote[0] <= now), default=(0, BETWEEN, 0, {}), key=first)
        if at_line == line and now - seen <= 86_400_000 and prices.keys() == sides and None not in prices.values():
            fair.append(dict(zip(prices, power(prices.values()), strict=True)))
    if len(fair) < 3:
        return dict.fromkeys(sides)
    medians = {side: Fraction(statistics.median(book[side] for book in fair)) for side in sides}
    exact = {side: median * 10_000 / sum(medians.values()) for side, median in medians.items()}
    whole = {side: int(share) for side, share in exact.items()}
    by_remainder = sorted(sides, key=lambda side: (whole[side] - exact[side], side))
    return {side: whole[side] + (side in by_remainder[: 10_000 - sum(whole.values())]) for side in sides}


def first(quote):
    return quote[0]
