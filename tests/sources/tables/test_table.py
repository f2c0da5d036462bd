import gzip
from dataclasses import replace
from datetime import UTC, datetime

import polars as pl
import pytest

from clvlab.errors import OddsError, SourceError
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_options, import_source
from clvlab.sources.mapping import read_mapping, with_flags
from tests.factories import seen_kickoffs

LONG = "fixture,time,market,side,odds,book,kickoff,result"
ROWS = (
    "m1,2026-01-02T12:00:00Z,1X2||,home,2.0,a,2026-01-02T15:00:00Z,won",
    "m1,2026-01-02T12:00:00Z,1X2||,away,2.0,a,2026-01-02T15:00:00Z,lost",
    "m1,2026-01-02T12:00:00Z,1X2||,home,1.5,b,2026-01-02T15:00:00Z,won",
    "m1,2026-01-02T12:00:00Z,1X2||,away,3.0,b,2026-01-02T15:00:00Z,lost",
)
START = 1_767_355_200_000


def table(tmp_path, *lines, name="odds.csv"):
    text = "".join(line + "\n" for line in lines).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return tmp_path / name


def imported(tmp_path, path, *, lenient=False, **options):
    source = "parquet" if path.suffix == ".parquet" else "csv"
    report = import_source(source, [path], tmp_path / "p", import_options(lenient=lenient, **options))
    return report, verify_pack(tmp_path / "p")


def rows(pack):
    ticks = pack.tape().ticks().collect().sort("tick_seq", "side")
    return ticks.select(pl.col("ts_ms") - START, "market_key", "side", "prob_bps", "odds_milli").rows()


def test_a_long_table_whose_columns_are_named_by_their_meaning_needs_no_mapping(tmp_path):
    report, pack = imported(tmp_path, table(tmp_path, LONG, *ROWS, name="odds.csv.gz"), margin="multiplicative")

    assert rows(pack) == [(0, "1X2||", "away", 4167, 3000), (0, "1X2||", "home", 5833, 2000)]
    assert report.manifest.fixtures[0].kickoff_ts_ms == START + 3 * 3_600_000
    assert pack.results.select("side", "result").rows() == [("away", "lost"), ("home", "won")]


def test_a_wide_table_gives_one_market_of_its_columns(tmp_path):
    path = table(tmp_path, "id;when;H;D;A;won", "7;1767355200;2.0;4.0;4.0;part1", "7;1767355260;;4.0;4.0;part1")
    mapping = {
        "columns": {"fixture": "id", "time": "when", "result": "won"},
        "sides": {"part1": "H", "draw": "D", "part2": "A"},
        "market": "1X2_PARTICIPANT_RESULT||",
        "delimiter": ";",
    }

    _, pack = imported(tmp_path, path, mapping=mapping)

    assert rows(pack)[:3] == [
        (0, "1X2_PARTICIPANT_RESULT||", "draw", 2500, 4000), (0, "1X2_PARTICIPANT_RESULT||", "part1", 5000, 2000),
        (0, "1X2_PARTICIPANT_RESULT||", "part2", 2500, 4000),
    ]  # fmt: skip
    assert pack.tape().ticks().collect().filter(tick_seq=1)["suspended"].all()
    assert dict(pack.results.select("side", "result").iter_rows())["part1"] == "won"


@pytest.mark.parametrize(
    ("form", "prices"),
    [
        ("decimal", ("1.5", "3.0")),
        ("american", ("-200", "+200")),
        ("fractional", ("1/2", "2/1")),
        ("probability", ("0.6666667", "0.3333333")),
    ],
)
def test_odds_of_every_format_say_the_same(tmp_path, form, prices):
    lines = [f"m,1767355200000,{side},{price}" for side, price in zip(("home", "away"), prices, strict=True)]

    _, pack = imported(tmp_path, table(tmp_path, "fixture,time,side,odds", *lines), odds_format=form)

    assert rows(pack) == [(0, "market||", "away", 3333, 3000), (0, "market||", "home", 6667, 1500)]


def test_parquet_is_read_as_csv_is(tmp_path):
    path = table(tmp_path, LONG, *ROWS)
    frame = pl.read_csv(path).with_columns(pl.col("time", "kickoff").str.to_datetime(time_zone="UTC"))
    frame.write_parquet(tmp_path / "odds.parquet")

    import_source("csv", [path], tmp_path / "a", import_options())
    import_source("parquet", [tmp_path / "odds.parquet"], tmp_path / "b", import_options())

    first, second = (verify_pack(tmp_path / name) for name in "ab")
    assert first.manifest.fixtures == second.manifest.fixtures
    assert first.results.equals(second.results)


def test_times_without_a_zone_are_read_in_the_zone_that_is_named(tmp_path):
    path = table(tmp_path, "fixture,time,side,odds", "m,2026-07-02 13:00,home,2.0", "m,2026-07-02 13:00,away,2.0")

    with pytest.raises(SourceError, match="has no time zone"):
        imported(tmp_path, path)
    _, pack = imported(tmp_path, path, time_zone="Europe/London")

    assert pack.tape().rows["ts_ms"][0] == datetime(2026, 7, 2, 12, tzinfo=UTC).timestamp() * 1000


def test_parquet_times_without_a_zone_are_refused_too(tmp_path):
    at = [datetime(2026, 7, 2, 13)] * 2  # noqa: DTZ001
    pl.DataFrame({"fixture": ["m", "m"], "time": at, "side": ["a", "b"], "odds": [2.0, 2.0]}).write_parquet(
        tmp_path / "x.parquet"
    )

    with pytest.raises(SourceError, match=r"x\.parquet:1: column 'time' has no time zone"):
        imported(tmp_path, tmp_path / "x.parquet")


GOOD = ("m,1767355200,home,2.0", "m,1767355200,away,2.0")
BAD = {
    "3 cells under a header of 4": "m,1767355200,home",
    "5 cells under a header of 4": "m,1767355200,home,2.0,",
    "'1.0' as decimal odds": "m,1767355260,home,1.0",
    "'0' as decimal odds": "m,1767355260,home,0",
    "'-3' as decimal odds": "m,1767355260,home,-3",
    "'NaN' as decimal odds": "m,1767355260,home,NaN",
    "'-150' as decimal odds": "m,1767355260,home,-150",
    "'abc' as decimal odds": "m,1767355260,home,abc",
    "'soon' is not an ISO 8601 time": "m,soon,home,2.0",
    "has no time": "m,,home,2.0",
    "names no fixture": ",1767355260,home,2.0",
    "names no side": "m,1767355260,,2.0",
    "priced? ?home.*twice|prices home": "m,1767355200,home,2.5",
}


@pytest.mark.parametrize("reason", BAD)
def test_a_row_that_cant_be_read_is_refused_with_file_line_and_reason_or_counted(tmp_path, reason):
    path = table(tmp_path, "fixture,time,side,odds", *GOOD, "", BAD[reason])

    with pytest.raises(SourceError, match=rf"odds\.csv:5: .*({reason})"):
        imported(tmp_path, path)
    assert not (tmp_path / "p").exists()
    report, _ = imported(tmp_path, path, lenient=True)

    assert report.quality.refused_rows == 1
    assert list(tmp_path.glob(".unfinished-*")) == []


def test_a_market_with_one_side_is_refused(tmp_path):
    path = table(
        tmp_path,
        "fixture,time,market,side,odds",
        "m,1767355200,a,home,2.0",
        "m,1767355200,b,home,2.0",
        "m,1767355200,b,away,2.0",
    )

    with pytest.raises(SourceError, match=r"odds\.csv:2: a of m has one side, 'home'"):
        imported(tmp_path, path)
    report, pack = imported(tmp_path, path, lenient=True)

    assert report.quality.refused_rows == 1
    assert set(pack.tape().series["market_key"]) == {"b"}


def test_a_repeated_row_is_dropped_and_counted(tmp_path):
    report, pack = imported(tmp_path, table(tmp_path, "fixture,time,side,odds", *GOOD, GOOD[0]))

    assert report.quality.notes["quotes that repeat another were dropped"] == 1
    assert len(rows(pack)) == 2


def test_names_that_are_no_utf_8_are_refused_or_counted(tmp_path):
    path = table(tmp_path, "fixture,time,side,odds", *GOOD)
    path.write_bytes(path.read_bytes() + b"M\xe1laga,1767355200,home,2.0\n")

    with pytest.raises(SourceError, match=r"odds\.csv:4: no UTF-8"):
        imported(tmp_path, path)
    report, _ = imported(tmp_path, path, lenient=True)

    assert report.quality.refused_rows == 1


@pytest.mark.parametrize(
    ("mapping", "text"),
    [
        (None, "columns must say which is fixture and time"),
        ({"columns": {"fixture": "a", "time": "b", "side": "c", "odds": "x"}}, "names 'x'"),
        ({"columns": {"fixture": "a", "time": "b"}}, "either the columns side and odds"),
        ({"columns": {"fixture": "a", "time": "b"}, "sides": {"home": "c"}}, "at least two sides"),
        ({"columns": {"fixture": "a", "time": "b", "colour": "c"}}, "colour"),
        ({"columns": ["a"]}, "columns"),
        ({"sides": {"x": "a", "y": "b"}, "colums": {}}, "colums|fixture"),
    ],
)
def test_a_mapping_that_is_none_is_refused(tmp_path, mapping, text):
    with pytest.raises(SourceError, match=text):
        imported(tmp_path, table(tmp_path, "a,b,c", "1,2,3"), mapping=mapping)


def test_a_mapping_is_read_from_yaml_and_flags_go_first(tmp_path):
    (tmp_path / "m.yml").write_text("columns: {fixture: id, time: t}\nsides: {home: H, away: A}\nmarket: x||\n")

    found = with_flags(tmp_path / "m.yml", {"time": "at"}, {}, "y||")

    assert found == {"columns": {"fixture": "id", "time": "at"}, "sides": {"home": "H", "away": "A"}, "market": "y||"}


@pytest.mark.parametrize("columns", ["[a, b]", "a", "1"])
def test_flags_besides_columns_of_a_file_that_are_no_mapping_are_refused_by_name(tmp_path, columns):
    (tmp_path / "m.yml").write_text(f"columns: {columns}\n")
    found = with_flags(tmp_path / "m.yml", {"time": "a"}, {}, None)

    with pytest.raises(SourceError, match=r"no mapping of columns: columns: Input should be a valid dictionary"):
        imported(tmp_path, table(tmp_path, "a,b,c", "1,2,3"), mapping=found)


@pytest.mark.parametrize("text", ["- a\n", "{", "\xff"])
def test_a_yaml_file_that_is_no_mapping_is_refused(tmp_path, text):
    (tmp_path / "m.yml").write_bytes(text.encode("latin-1"))

    with pytest.raises(SourceError, match=r"m\.yml"):
        read_mapping(tmp_path / "m.yml")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"fixture,time\n"])
def test_a_parquet_file_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "x.parquet").write_bytes(content)

    with pytest.raises(SourceError, match=r"x\.parquet"):
        imported(tmp_path, tmp_path / "x.parquet")


@pytest.mark.parametrize("options", [{"margin": "magic"}, {"odds_format": "roman"}, {"min_books": 0}, {"weights": {"a": -1}}])
def test_options_out_of_bounds_are_refused(tmp_path, options):
    with pytest.raises(OddsError):
        imported(tmp_path, table(tmp_path, LONG, *ROWS), **options)


def test_an_unknown_time_zone_is_refused(tmp_path):
    with pytest.raises(SourceError, match="'Mars/Olympus'"):
        imported(tmp_path, table(tmp_path, LONG, *ROWS), time_zone="Mars/Olympus")


def test_play_ends_the_window_where_the_table_says_that_it_began(tmp_path):
    lines = [
        f"m,{1_767_355_200 + minute * 60},{side},{odds},{playing}"
        for minute, odds, playing in ((0, 2.0, "false"), (5, 2.2, "no"), (9, 3.0, "true"))
        for side in ("home", "away")
    ]

    report, pack = imported(tmp_path, table(tmp_path, "fixture,time,side,odds,in_running", *lines))

    assert report.quality.in_running_ticks == 1
    assert report.quality.closing_age_s.max == 240
    assert pack.tape().rows.filter(tick_seq=2)["in_running"].all()


def test_an_import_tells_how_far_it_is(tmp_path):
    lines = []

    imported(tmp_path, table(tmp_path, LONG, *ROWS), progress=lines.append)

    assert lines == ["4 rows read", "1 of 1 fixture, 1 tick written"]


def moving(tmp_path, *kickoffs):
    """A table that states its kickoff again every minute, as minutes after the start."""
    facts = [(minute, START // 1000 + kickoff * 60) for minute, kickoff in enumerate(kickoffs)]
    lines = [f"m,{START // 1000 + minute * 60},{side},2.0,{at}" for minute, at in facts for side in ("home", "away")]
    return table(tmp_path, "fixture,time,side,odds,kickoff", *lines)


@pytest.mark.parametrize("chunk_rows", [1, 250_000])
def test_a_kickoff_that_moved_is_known_only_afterwards_and_agents_see_the_first_one(tmp_path, chunk_rows):
    options = replace(import_options(), chunk_rows=chunk_rows)

    report = import_source("csv", [moving(tmp_path, 30, 30, 45)], tmp_path / "p", options)

    tape = verify_pack(tmp_path / "p").tape()
    assert report.quality.notes["fixtures whose kickoff moved"] == 1
    assert tape.fixtures["kickoff_ts_ms"].to_list() == [START + 45 * 60_000]
    assert seen_kickoffs(tape) == [START + 30 * 60_000]


def test_a_kickoff_that_stands_still_is_taken_as_announced(tmp_path):
    _, pack = imported(tmp_path, moving(tmp_path, 30, 30))

    assert (pack.manifest.kickoff, seen_kickoffs(pack.tape())) == (None, [START + 30 * 60_000])


def test_kickoffs_that_are_called_actual_are_hidden_from_agents(tmp_path):
    _, pack = imported(tmp_path, moving(tmp_path, 30, 30), mapping={"kickoff_kind": "actual"})

    assert pack.tape().fixtures["kickoff_ts_ms"].to_list() == [START + 30 * 60_000]
    assert seen_kickoffs(pack.tape()) == [None]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_odds_may_stand_in_columns_with_names_of_our_own(tmp_path, ending):
    frame = pl.DataFrame(
        {"event": [7, 7], "line": [START, START + 60_000], "home": [2.0, 2.1], "away": [1.9, 1.8], "market_key": ["a", "b"]}
    )
    path = tmp_path / f"odds.{ending}"
    (frame.write_csv if ending == "csv" else frame.write_parquet)(path)
    mapping = {"columns": {"fixture": "event", "time": "line"}, "sides": {"part1": "home", "part2": "away"}}

    report, pack = imported(tmp_path, path, mapping=mapping)

    assert (report.manifest.fixtures[0].names, report.manifest.fixtures[0].source_id) == ((), "7")
    assert [(row[0], row[4]) for row in rows(pack)] == [(0, 2000), (0, 1900), (60_000, 2100), (60_000, 1800)]


def test_a_column_whose_type_cant_have_its_meaning_is_named(tmp_path):
    at = pl.Series([START, START], dtype=pl.Duration("ms"))
    pl.DataFrame({"fixture": ["m", "m"], "time": at, "side": ["a", "b"], "odds": [2.0, 2.0]}).write_parquet(
        tmp_path / "x.parquet"
    )

    with pytest.raises(SourceError, match=r"column 'time' is duration.* can't be the time"):
        imported(tmp_path, tmp_path / "x.parquet")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_time_that_the_clocks_left_out_is_refused(tmp_path, ending):
    at = pl.Series(["2026-03-29 01:30:00"] * 2)
    frame = pl.DataFrame({"fixture": ["m", "m"], "time": at, "side": ["a", "b"], "odds": [2.0, 2.0]})
    path = tmp_path / f"odds.{ending}"
    if ending == "csv":
        frame.write_csv(path)
    else:
        frame.with_columns(pl.col("time").str.to_datetime()).write_parquet(path)

    with pytest.raises(SourceError, match=r"odds\.\w+:\d: .*clocks"):
        imported(tmp_path, path, time_zone="Europe/London")


@pytest.mark.parametrize("microseconds", [-1, 2**60])
def test_a_parquet_time_beyond_the_calendar_is_refused_by_row(tmp_path, microseconds):
    times = pl.Series([START * 1000, microseconds], dtype=pl.Datetime("us", "UTC"))
    pl.DataFrame({"fixture": ["m", "m"], "time": times, "side": ["a", "b"], "odds": [2.0, 2.0]}).write_parquet(
        tmp_path / "x.parquet"
    )

    with pytest.raises(SourceError, match=r"x\.parquet:2: .*no time from 1970 to 9999"):
        imported(tmp_path, tmp_path / "x.parquet")


FAIR = "fixture,time,market,side,odds,mid,book"
MIDS = {"columns": {"probability": "mid"}}


def test_a_mid_probability_is_the_probability_and_the_price_next_to_it_is_what_was_on_offer(tmp_path):
    path = table(
        tmp_path, FAIR,
        "m,2026-01-02T12:00:00Z,1X2||,home,1.9,0.505,x", "m,2026-01-02T12:00:00Z,1X2||,away,,0.505,x",
        "m,2026-01-02T12:01:00Z,1X2||,home,1.9,0.6,x", "m,2026-01-02T12:01:00Z,1X2||,away,2.2,,x",
        "m,2026-01-02T12:02:00Z,1X2||,home,1.5,0.6,x", "m,2026-01-02T12:02:00Z,1X2||,away,2.2,0.7,x",
        "m,2026-01-02T12:03:00Z,1X2||,home,1.5,0.66,x", "m,2026-01-02T12:03:00Z,1X2||,away,2.9,0.36,x",
    )  # fmt: skip

    report, pack = imported(tmp_path, path, mapping=MIDS)

    assert rows(pack) == [
        (0, "1X2||", "away", 5000, None), (0, "1X2||", "home", 5000, 1900),
        (60_000, "1X2||", "away", None, None), (60_000, "1X2||", "home", None, None),
        (120_000, "1X2||", "away", None, None), (120_000, "1X2||", "home", None, None),
        (180_000, "1X2||", "away", 3529, 2900), (180_000, "1X2||", "home", 6471, 1500),
    ]  # fmt: skip
    notes = report.quality.notes
    assert notes["book messages without a price for every side"] == 1
    assert notes["book messages whose probabilities do not sum to 0.9 to 1.1, taken as suspended"] == 1


def test_mid_probabilities_of_books_keep_their_layer_and_their_median(tmp_path):
    quotes = [("x", 0.50, 1.9), ("y", 0.52, 1.8), ("z", 0.60, "")]
    lines = [
        f"m,2026-01-02T12:00:00Z,1X2||,{side},{odds},{p if side == 'home' else round(1 - p, 2)},{book}"
        for book, p, odds in quotes
        for side in ("home", "away")
    ]

    _, pack = imported(tmp_path, table(tmp_path, FAIR, *lines), mapping=MIDS, books=True)

    assert rows(pack) == [(0, "1X2||", "away", 4800, 1900), (0, "1X2||", "home", 5200, 1900)]
    layer = pack.tape().books.collect().filter(side="home").select("book", "prob_bps", "odds_milli").rows()
    assert layer == [("x", 5000, 1900), ("y", 5200, 1800), ("z", 6000, None)]


@pytest.mark.parametrize("wrong", ["0", "1", "55", "-0.2", "x", "nan"])
def test_what_is_no_probability_is_refused_with_its_line(tmp_path, wrong):
    path = table(tmp_path, FAIR, f"m,1767355200,1X2||,home,1.9,{wrong},x", "m,1767355200,1X2||,away,2.1,0.5,x")

    with pytest.raises(SourceError, match=rf"odds.csv:2: home '{wrong}' is no probability between 0 and 1"):
        imported(tmp_path, path, mapping=MIDS)


def test_a_column_named_probability_means_nothing_unless_it_is_mapped(tmp_path):
    lines = ("fixture,time,side,odds,probability", "m,1767355200,home,2.0,0.9", "m,1767355200,away,2.0,0.1")

    _, pack = imported(tmp_path, table(tmp_path, *lines))

    assert [row[3] for row in rows(pack)] == [5000, 5000]


WIDE = {"columns": {"fixture": "id", "time": "when"}, "sides": {"home": "H", "away": "A"}}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_wide_table_has_a_probability_and_a_result_for_each_side(tmp_path, suffix):
    path = table(tmp_path, "id,when,H,A,mid H,mid A,rH,rA", "7,1767355200,1.9,,0.5,0.5,half_won,void")
    if suffix == "parquet":
        pl.read_csv(path).write_parquet(tmp_path / "odds.parquet")
        path = tmp_path / "odds.parquet"
    mapping = WIDE | {"probabilities": {"home": "mid H", "away": "mid A"}, "results": {"home": "rH", "away": "rA"}}

    _, pack = imported(tmp_path, path, mapping=mapping)

    assert rows(pack) == [(0, "market||", "away", 5000, None), (0, "market||", "home", 5000, 1900)]
    assert pack.results.select("side", "result").rows() == [("away", "void"), ("home", "half_won")]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"results": {"home": "rH"}}, r"results must name the sides \['home', 'away'\], not \['home'\]"),
        ({"probabilities": {"home": "rH", "draw": "rA"}}, "probabilities must name the sides"),
        ({"results": {"home": "rH", "away": "nix"}}, "the mapping names 'nix'"),
        ({"results": {"home": "rH", "away": "rA"}, "columns": WIDE["columns"] | {"result": "rA"}}, "give either a column with"),
        ({"columns": WIDE["columns"] | {"probability": "rA"}}, "write probabilities, a column for each side"),
    ],
)
def test_sides_that_do_not_fit_together_are_refused(tmp_path, more, message):
    path = table(tmp_path, "id,when,H,A,rH,rA", "7,1767355200,1.9,2.0,won,lost")

    with pytest.raises(SourceError, match=message):
        imported(tmp_path, path, mapping=WIDE | more)


def test_a_table_without_the_column_of_probabilities_is_refused_next_to_one_that_has_it(tmp_path):
    table(tmp_path, FAIR, "m,1767355200,1X2||,home,1.9,0.5,x", "m,1767355200,1X2||,away,2.1,0.5,x", name="a.csv")
    table(tmp_path, LONG, *ROWS, name="b.csv")

    with pytest.raises(SourceError, match="the mapping names 'mid'"):
        import_source("csv", [tmp_path], tmp_path / "p", import_options(mapping=MIDS, lenient=False))
