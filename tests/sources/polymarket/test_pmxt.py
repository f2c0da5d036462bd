import json
import random
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import polars as pl
import pytest
import yaml

from clvlab.errors import SourceError
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_options, import_source
from tests.length import length
from tests.plain_ladders import half_up, states_at, states_of
from tests.samples import pmxt
from tests.samples.walks import matches
from tests.sources.plain import state_of, states_by_time

DAY = datetime(2026, 3, 1, tzinfo=UTC)
KEY = "WINNER||"
ONE = {"id": "ash-elm", "names": ["Ash", "Elm"], "kickoff": "2026-03-01T11:00:00Z", "markets": {KEY: {"yes": "7"}}}
OPEN = pmxt.book(DAY + timedelta(hours=12), "7", 40, 42)


def at(hour, seconds=0, ms=0):
    return DAY + timedelta(hours=hour, seconds=seconds, milliseconds=ms)


def imported(tmp_path, hours, fixture=ONE, schema=pmxt.SCHEMA, *, lenient=False, **options):
    folder = tmp_path / "hours"
    folder.mkdir(parents=True, exist_ok=True)
    for hour, rows in hours.items():
        pl.DataFrame(rows, schema=schema, orient="row").write_parquet(folder / pmxt.named(DAY, hour))
    mapping = {"fixtures": [fixture]} | options.pop("assets", {})
    return import_source("pmxt", [folder], tmp_path / "p", import_options(mapping=mapping, lenient=lenient, **options)).quality


def yes(tmp_path):
    rows = verify_pack(tmp_path / "p").tape().ticks().collect().filter(pl.col("side") == "yes")
    return [(ts_ms // 1000 - round(DAY.timestamp()), prob) for ts_ms, prob in rows.select("ts_ms", "prob_bps").rows()]


def test_changes_count_from_a_full_book_on(tmp_path):
    early = pmxt.change(at(12), "7", 41, 3, "BUY")

    quality = imported(tmp_path, {12: [early, OPEN, pmxt.change(at(12, 1), "7", 41, 3, "BUY")]})

    assert yes(tmp_path) == [(12 * 3600, 4100), (12 * 3600 + 1, 4150)]
    assert quality.notes["changes before a full book are not applied"] == 1


def test_an_hour_without_a_file_suspends_from_its_start_until_a_full_book(tmp_path):
    hours = {12: [OPEN], 15: [pmxt.change(at(15), "7", 41, 3, "BUY"), pmxt.book(at(15, 5), "7", 50, 52)]}

    quality = imported(tmp_path, hours)

    assert yes(tmp_path) == [(12 * 3600, 4100), (13 * 3600, None), (15 * 3600 + 5, 5100)]
    assert (quality.notes["hours without a file"], quality.notes["changes before a full book are not applied"]) == (2, 1)
    (gap,) = verify_pack(tmp_path / "p").manifest.capture.gaps
    assert (gap.from_ts_ms, gap.to_ts_ms) == (round(at(13).timestamp()) * 1000, round(at(15).timestamp()) * 1000)


@pytest.mark.parametrize(("kickoff", "last"), [("13:00", 4100), ("13:01", None)])
def test_hours_that_are_missing_before_the_kickoff_leave_no_close_and_the_report_says_so(tmp_path, kickoff, last):
    quality = imported(tmp_path, {12: [OPEN]}, ONE | {"kickoff": f"2026-03-01T{kickoff}:00Z"})

    assert yes(tmp_path)[-1][1] == last
    note = "markets that serve to enter, not to close: the hours before their kickoff are missing"
    assert quality.notes.get(note) == (None if last else 1)


def test_an_empty_hour_is_a_gap_and_not_an_hour_in_which_nothing_moved(tmp_path):
    imported(tmp_path, {12: [OPEN], 13: [], 14: [pmxt.change(at(14), "7", 41, 3, "BUY")]})

    assert yes(tmp_path)[1:] == [(13 * 3600, None)]


def test_a_row_that_cant_be_read_suspends_its_asset_when_lenient(tmp_path):
    rows = [OPEN, pmxt.change(at(12, 5), "7", 41, 3, "HOLD"), pmxt.change(at(12, 6), "7", 41, 3, "BUY")]

    with pytest.raises(SourceError, match=r"T12\.parquet:2: a side is BUY or SELL, not 'HOLD'"):
        imported(tmp_path, {12: rows})
    imported(tmp_path, {12: rows}, lenient=True)

    assert [prob for _, prob in yes(tmp_path)] == [4100, None]


def test_an_hour_that_cant_be_read_is_a_gap_when_lenient(tmp_path):
    folder = tmp_path / "hours"
    folder.mkdir()
    (folder / pmxt.named(DAY, 13)).write_bytes(b"PAR1 broken")

    with pytest.raises(SourceError, match="can't be read to its end as Parquet"):
        imported(tmp_path, {12: [OPEN]})
    quality = imported(tmp_path, {12: [OPEN]}, lenient=True)

    assert (quality.refused_rows, yes(tmp_path)[-1]) == (1, (13 * 3600, None))


def test_a_market_that_does_not_move_has_another_tick_after_a_minute(tmp_path):
    again = [pmxt.change(at(12, seconds), "7", 39, 9, "BUY") for seconds in (30, 59, 60, 61, 120)]

    imported(tmp_path, {12: [OPEN, *again]})

    assert [at_s - 12 * 3600 for at_s, _ in yes(tmp_path)] == [0, 60, 120]


def test_what_is_older_than_what_it_would_change_is_counted_and_leaves_nothing(tmp_path):
    rows = [
        OPEN,
        pmxt.change(at(12, 9), "7", 41, 3, "BUY"),
        pmxt.book(at(12, 8), "7", 10, 12),
        pmxt.change(at(11), "7", 42, 3, "BUY"),
    ]

    quality = imported(tmp_path, {12: rows})

    assert yes(tmp_path) == [(12 * 3600, 4100), (12 * 3600 + 9, 4150)]
    assert quality.notes["books and changes that are older than what they would change are not applied"] == 2


def test_yes_and_no_may_be_two_assets_or_two_sides_of_one(tmp_path):
    two = ONE | {"markets": {KEY: {"yes": "7", "no": "8"}}}

    imported(tmp_path / "one", {12: [OPEN]})
    imported(tmp_path / "two", {12: [OPEN, pmxt.book(at(12), "8", 58, 60)]}, two)

    for name in ("one", "two"):
        (state,) = states_by_time(verify_pack(tmp_path / name / "p")).values()
        assert state == ({"no": 5900, "yes": 4100}, {"no": 1667, "yes": 2381})


@pytest.mark.parametrize(
    "levels", [[["0.40", "25"]], [[0.4, 25.0]], [{"price": 0.4, "size": 25}], '[["0.40","25"]]', '[{"price":"0.4","size":"9"}]']
)
def test_levels_are_pairs_or_objects_as_text_or_lists(tmp_path, levels):
    asks = (
        json.dumps([["0.42", "1"]]) if isinstance(levels, str) else [{"price": 0.42, "size": 1}] * isinstance(levels[0], dict)
    )
    asks = asks or [[type(levels[0][0])(0.42), type(levels[0][1])(1)]]
    row = pl.DataFrame({"timestamp": [at(12)], "market": ["m"], "event_type": ["book"], "asset_id": ["7"], "bids": [levels],
                        "asks": [asks], "price": [None], "size": [None], "side": [None]})  # fmt: skip
    folder = tmp_path / "hours"
    folder.mkdir()
    row.write_parquet(folder / pmxt.named(DAY, 12))

    imported(tmp_path, {})

    assert [prob for _, prob in yes(tmp_path)] == [4100]


def test_files_need_their_hour_in_their_name_and_one_file_an_hour(tmp_path):
    imported(tmp_path, {12: [OPEN]})
    file = tmp_path / "hours" / pmxt.named(DAY, 12)
    (tmp_path / "hours" / "more").mkdir()
    (tmp_path / "hours" / "more" / file.name).write_bytes(file.read_bytes())

    with pytest.raises(SourceError, match="two files are of the hour 2026-03-01T12"):
        import_source("pmxt", [tmp_path / "hours"], tmp_path / "q", import_options(lenient=True))
    file.rename(tmp_path / "other.parquet")
    with pytest.raises(SourceError, match=r"'other.parquet' does not say of which hour"):
        import_source(None, [tmp_path / "other.parquet"], tmp_path / "q")


def test_assets_that_are_not_mapped_are_listed_and_may_be_left_out(tmp_path):
    hours = {12: [OPEN, pmxt.book(at(12), "9" * 70, 1, 2)]}

    with pytest.raises(SourceError, match=r"side of which market '9{70}' is"):
        imported(tmp_path, hours)
    quality = imported(tmp_path, hours, assets={"others": "leave-out"})

    assert quality.notes["rows of assets that the mapping leaves out by `others: leave-out`"] == 1


def plain_states(hours, shares):
    """Make the market's states row by row, each book from all words on it; hours are (hour, rows)."""
    words = {asset: [] for asset in shares}  # (kind, time, levels), of those that count
    last = dict.fromkeys(shares, 0)
    stated, newest, last_state, last_ms = [], 0, (None, None), 0
    sides = dict(zip(shares, ("part1", "draw", "part2"), strict=True))

    def quotes():
        found = {}
        for asset, side in sides.items():
            if words[asset]:
                book_ms = words[asset][0][1]
                levels = {}
                for _, ts_ms, change in words[asset]:
                    for level, size in change.items():
                        if ts_ms >= levels.get(level, (0, 0))[1] and ts_ms >= book_ms:
                            levels[level] = (size, ts_ms)
                full = [level for level, (size, _) in levels.items() if size > 0]
                bids, asks = [p for s, p in full if s == "BUY"], [p for s, p in full if s == "SELL"]
                found[side] = (Fraction(max(bids, default=0), 100), Fraction(min(asks, default=100), 100))
        return found

    before = None
    for hour, rows in hours:
        if before is not None and hour > before + 1 and any(words.values()):
            newest = max(newest, round(at(before + 1).timestamp() * 1000))
            words = {asset: [] for asset in shares}
            nothing = dict.fromkeys(sorted(sides.values()))
            stated.append((newest, (nothing, nothing)))
            last_state, last_ms = (None, None), last_ms
        before = hour
        for moment, _, kind, asset, bids, asks, price, size, side in rows:
            ts_ms = round(moment.timestamp() * 1000)
            if kind == "price_change":
                if not words[asset]:
                    continue
                if ts_ms >= words[asset][0][1]:
                    words[asset].append((kind, ts_ms, {(side, round(price * 100)): size}))
            elif ts_ms >= last[asset]:
                levels = [("BUY", level) for level in json.loads(bids)] + [("SELL", level) for level in json.loads(asks)]
                words[asset] = [(kind, ts_ms, {(s, round(float(v["price"]) * 100)): float(v["size"]) for s, v in levels})]
            last[asset], newest = max(last[asset], ts_ms), max(newest, ts_ms)
            state = state_of(quotes(), sorted(sides.values()))
            plain = (None, None) if None in state[0].values() else state
            if plain != last_state or newest - last_ms >= 60_000:
                stated.append((newest, state))
                last_state, last_ms = plain, newest
    return dict(stated)


@pytest.mark.parametrize("seed", range(length(4, 60)))
def test_books_agree_with_a_plain_loop_whatever_their_order_repeats_and_missing_hours(tmp_path, seed):
    dice = random.Random(seed)
    shares = ("71", "72", "73")
    hours = []
    for hour in sorted(dice.sample(range(10, 16), 4)):
        rows = pmxt.hour_of(dice, DAY, hour, shares, steps=12)
        rows += [pmxt.book(dice.choice(rows)[0], dice.choice(shares), 30, 33) for _ in range(2)]
        rows += dice.sample(rows, 6)
        rows.sort(key=lambda row: row[0] + timedelta(seconds=dice.choice([0, 0, 0, 400, -400])))  # as they arrived
        hours.append((hour, [row for row in rows if dice.random() > 0.05]))
    fixture = ONE | {"markets": {"1X2||": dict(zip(("part1", "draw", "part2"), shares, strict=True))}}

    imported(tmp_path, dict(hours), fixture)

    found = {ts_ms: state for (_, ts_ms, _), state in states_by_time(verify_pack(tmp_path / "p")).items()}
    assert found == plain_states(hours, shares)


def test_the_sample_is_read_as_its_mapping_says(tmp_path):
    (tmp_path / "sample").mkdir()
    pmxt.write(tmp_path / "sample")
    mapping = yaml.safe_load((tmp_path / "sample.yml").read_text())

    import_source("pmxt", [tmp_path / "sample"], tmp_path / "p", import_options(mapping=mapping))

    assert verify_pack(tmp_path / "p").manifest.fixtures[0].names == matches()[0].names


def ladders(tmp_path, side):
    rows = verify_pack(tmp_path / "p").ladders().collect().filter(pl.col("side") == side)
    start_ms = round(at(12).timestamp()) * 1000
    return [(level, ts_ms - start_ms, odds, stake) for *_, level, ts_ms, odds, stake in rows.iter_rows()]


def test_asks_and_bids_are_the_offers_of_yes_and_no_until_an_hour_is_missing(tmp_path):
    hours = {12: [OPEN, pmxt.change(at(12, 1), "7", 42, 3, "SELL")], 14: [pmxt.book(at(14, 5), "7", 50, 52)]}

    imported(tmp_path, hours, ladders=True)

    missing, again = 3_600_000, 2 * 3_600_000 + 5_000
    assert ladders(tmp_path, "yes") == [
        (0, 0, 2381, 1050), (0, 1_000, 2381, 126), (0, missing, None, None), (0, again, 1923, 1300),
        (1, 0, 2326, 1075), (1, missing, None, None), (1, again, 1887, 1325),
    ]  # fmt: skip
    assert ladders(tmp_path, "no")[:2] == [(0, 0, 1667, 1500), (0, missing, None, None)]


def plain_levels(book, side):
    """Return the levels of a side of a book, price in cents -> size of (is_bid, price)."""
    asks = sorted(
        (100 - cents if is_bid else cents, size) for (is_bid, cents), size in book.items() if is_bid == (side == "no")
    )
    levels = [(half_up(Fraction(100_000, cents)), half_up(Fraction(str(size)) * cents)) for cents, size in asks if size]
    return [level for level in levels if level[1]][:10]


@pytest.mark.parametrize("seed", range(length(5, 50)))
def test_ladders_are_those_of_a_plain_book_at_every_time(tmp_path, seed):
    dice = random.Random(seed)
    book, rows, expected = {}, [], {}
    for second in range(150):
        when = at(12, second // 2, ms=dice.choice([0, 500]) * (second % 2))  # some of one time
        if second == 0 or dice.random() < 0.03:
            book = {(is_bid, dice.randint(1, 49) + 50 * (not is_bid)): dice.choice([0.001, 3, 250.5])
                    for is_bid in (True, False) for _ in range(dice.randint(0, 15))}  # fmt: skip
            listed = {way: [(cents / 100, size) for (own, cents), size in book.items() if own == way] for way in (True, False)}
            sides = [[{"price": f"{price:.2f}", "size": str(size)} for price, size in listed[way]] for way in (True, False)]
            row = (when, "0xmarket", "book_snapshot", "7", *map(json.dumps, sides), None, None, None)
        else:
            is_bid = dice.random() < 0.5
            cents, size = dice.randint(1, 49) + 50 * (not is_bid), dice.choice([0, 0, 0.004, 7.25, 40])
            book[is_bid, cents] = size
            row = pmxt.change(when, "7", cents, size, "BUY" if is_bid else "SELL")
        rows.append(row)
        state = {(KEY, side): levels for side in ("no", "yes") if (levels := plain_levels(book, side))}
        expected[round(when.timestamp() * 1000)] = state

    imported(tmp_path, {12: rows}, ladders=True)

    assert states_at(states_of(verify_pack(tmp_path / "p").ladders().collect()), expected) == expected
