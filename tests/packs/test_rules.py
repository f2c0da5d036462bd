"""Broken packs of every kind, judged by a loop over their rows: the same rule breaks, with the same words and the same row."""

import math

import numpy as np
import polars as pl
import pytest

from clvlab.errors import PackFormatError, PackTamperedError
from clvlab.law.schema import TICKS
from clvlab.packs import reader
from clvlab.packs.files import file_sha256
from clvlab.packs.manifest import DESCRIPTOR, TICKS_FILE, Fixture, PackManifest, descriptor
from clvlab.packs.reader import load_pack
from clvlab.packs.rows import STORED
from clvlab.packs.verification import verify_pack
from clvlab.packs.writer import write_pack
from tests.length import length

_SHARD_ROWS = 60
_FIXTURES = range(1, 8)
_EMPTY = 4  # a fixture without ticks
_MARKETS = (("1X2||", ("draw", "part1", "part2")), ("OU||line=2.5", ("over", "under")), ("É|", ("no", "yes")))
_LONG = "n" * 201
_VALUES = {
    "fixture_id": (None, 0, 2, 3, 99), "series": (0, 1, 2, 7), "market_key": (None, "", "OU||line=2.5", "a\x07", _LONG),
    "side": (None, "", "over", "zz", "\x7f", _LONG), "tick_seq": (None, -1, 0, 1, 2**31 - 1),
    "ts_ms": (None, -1, 0, 1_700_000_000_000, 2**53), "in_running": (None, True, False),
    "prob_bps": (None, -1, 0, 4000, 10_000, 10_001), "odds_milli": (None, 1000, 1001, 100_000_001),
    "suspended": (None, True, False),
}  # fmt: skip


def sound_ticks(dice):
    """Rows of fixtures whose markets send in turn; some messages are suspended, or lack the price of a side."""
    rows = []
    for fixture in _FIXTURES:
        now = 1_700_000_000_000
        markets = _MARKETS[: dice.integers(1, 4)]
        for seq in range(0 if fixture == _EMPTY else int(dice.integers(6, 16))):
            key, sides = markets[seq if seq < len(markets) else dice.integers(len(markets))]
            now += int(dice.integers(0, 3)) * 1000
            suspended = dice.random() < 0.1
            prob = np.full(len(sides), 10_000 // len(sides)) + dice.integers(0, 17, len(sides))
            lacking = dice.integers(len(sides)) if dice.random() < 0.1 else None
            for n, side in enumerate(sides):
                priced = not suspended and n != lacking
                row = (int(prob[n]), 9_700_000 // int(prob[n])) if priced else (None, None)
                rows.append((fixture, seq, now, seq > 10, key, side, *row, bool(suspended)))
    return pl.DataFrame(rows, schema=TICKS, orient="row")


def broken(stored, dice):
    """Break the rows of a file in one way: a value, a row, some rows, a message, or their order."""
    edges = [0, stored.height - 1, *range(_SHARD_ROWS - 1, stored.height, _SHARD_ROWS), *range(0, stored.height, _SHARD_ROWS)]
    at = int(dice.choice(edges)) if dice.random() < 0.4 else int(dice.integers(stored.height))
    order = np.arange(stored.height)
    match dice.integers(9):
        case 0 | 1 | 2:
            column = str(dice.choice(list(_VALUES)))
            value = _VALUES[column][dice.integers(len(_VALUES[column]))]
            span = at + (1 if dice.random() < 0.7 else int(dice.integers(2, 9)))
            chosen = pl.int_range(pl.len()).is_between(at, span - 1)
            return stored.with_columns(pl.when(chosen).then(pl.lit(value, STORED[column])).otherwise(column).alias(column))
        case 3:
            column = str(dice.choice(["tick_seq", "ts_ms", "prob_bps", "odds_milli"]))
            step = pl.lit(int(dice.choice([-60, -1, 1, 60])), STORED[column])
            return stored.with_columns(pl.when(pl.int_range(pl.len()) == at).then(pl.col(column) + step).otherwise(column))
        case 4:
            return stored[np.delete(order, slice(at, at + int(dice.integers(1, 4))))]
        case 5:
            return stored[np.insert(order, at, int(dice.integers(stored.height)) if dice.random() < 0.5 else at)]
        case 6:
            other = at + 1 if dice.random() < 0.5 else int(dice.integers(stored.height))
            order[[at, min(other, stored.height - 1)]] = order[[min(other, stored.height - 1), at]]
            return stored[order]
        case 7:
            fixture, tick = stored["fixture_id"][at], stored["tick_seq"][at]
            own = pl.col("fixture_id").eq_missing(fixture) & pl.col("tick_seq").eq_missing(tick)
            changes = (pl.col("tick_seq") + 1, pl.col("ts_ms") - 5000, ~pl.col("suspended"), pl.col("prob_bps") + 20,
                       pl.lit(None, pl.Int32).alias("prob_bps"), ~pl.col("in_running"))  # fmt: skip
            change = changes[dice.integers(len(changes))]
            column = change.meta.output_name()
            return stored.with_columns(pl.when(own).then(change).otherwise(column).alias(column))
        case _:
            fixture = int(dice.choice(_FIXTURES))
            return stored.filter(pl.col("fixture_id") != fixture) if dice.random() < 0.5 else stored.reverse()


def write_broken(folder, stored, manifest, dice):
    """Put rows in place of a pack's, with hashes that hold, and mostly with their true number in the manifest."""
    stored.write_parquet(folder / TICKS_FILE, row_group_size=37)
    counts = dict(stored["fixture_id"].value_counts().iter_rows())
    true = dice.random() < 0.9
    fixtures = [one.model_copy(update={"rows": counts.get(one.fixture_id, 0)} if true else {}) for one in manifest.fixtures]
    made = manifest.model_copy(update={"fixtures": tuple(fixtures), "ticks_sha256": file_sha256(folder / TICKS_FILE)})
    (folder / DESCRIPTOR).write_bytes(descriptor(made, {TICKS_FILE: (folder / TICKS_FILE).stat().st_size}))
    return made


def complaint(stored, manifest, sound, folder):
    """Return what is wrong with a pack: shard by shard, the first check that fails."""
    rows, shards, start = stored.rows(named=True), [[]], 0
    for fixture in manifest.fixtures:
        if shards[-1] and sum(one.rows for one in shards[-1]) + fixture.rows > _SHARD_ROWS:
            shards.append([])
        shards[-1].append(fixture)
    for number, shard in enumerate(shards, 1):
        end = len(rows) if number == len(shards) else start + sum(one.rows for one in shard)
        found = in_shard(rows[start:end], shard, sound, str(folder / TICKS_FILE))
        if found is not None:
            return found
        start = end
    return None


def in_shard(rows, shard, sound, where):
    runs = []
    for row in rows:
        if not runs or (row["fixture_id"], row["series"]) != (runs[-1][0]["fixture_id"], runs[-1][0]["series"]):
            runs.append([])
        runs[-1].append(row)
    names = [tuple(run[0][name] for name in ("fixture_id", "market_key", "side")) for run in runs]
    if names != sorted(names, key=in_order) or len(set(names)) < len(names):
        return PackFormatError("the series of 'p' are not sorted by fixture, market and side")
    ticks = [row["tick_seq"] for row in rows]
    if None in ticks and ticks[0] is not None:  # a tick without a number has no place in their order
        return PackFormatError("the ticks of 'p' are not sorted by series and tick")
    sizes = {}
    for (fixture, *_), run in zip(names, runs, strict=True):
        sizes[fixture] = sizes.get(fixture, 0) + len(run)
    for one in shard:
        size = sizes.pop(one.fixture_id, 0)
        if size != one.rows:
            return PackTamperedError(f"rows of fixture {one.fixture_id} of 'p'", str(one.rows), str(size))
    if sizes:
        return PackFormatError(f"ticks of fixture {min(sizes)}, which 'p' does not declare")
    count = {}
    within = [count.setdefault(fixture, []).append(0) or len(count[fixture]) - 1 for fixture, *_ in names]
    for column in ("market_key", "side"):
        if any(row[column] != run[0][column] for run in runs for row in run):
            return PackFormatError(f"{column} of {where!r} changes inside a series")
    if [run[0]["series"] for run in runs] != within:
        return PackFormatError(f"series of {where!r} changes inside a series")
    text = by_rules(runs)
    if text is not None:
        return PackFormatError(text)
    for one in shard:
        own = [row for row in rows if row["fixture_id"] == one.fixture_id]
        if own != [row for row in sound.rows(named=True) if row["fixture_id"] == one.fixture_id]:
            return PackTamperedError(f"fixture {one.fixture_id} of 'p'", str(one.digest), "other rows")
    return None


def in_order(names):
    return [(part is not None, part.encode() if isinstance(part, str) else part) for part in names]


def first_of(rules, rows, columns):
    for text, rule in rules.items():
        bad = [row for n, row in enumerate(rows) if rule(row, rows[n - 1] if n else None)]
        if bad:
            return sentence(text, bad, columns)
    return None


def sentence(text, bad, columns):
    row = {name: bad[0][name] for name in columns}
    return f"{text}: {len(bad)} row(s), the first is {row}"


def is_wrong(text):
    return not 1 <= len(text.encode()) <= 200 or any(ord(letter) < 32 or ord(letter) == 127 for letter in text)


def outside(value, low, high):
    return value is not None and not low <= value <= high


def by_rules(runs):
    """Return the sentence of the first rule that is broken: of names, of rows, of the sides of a message, of messages."""
    markets = {}
    for run in runs:
        markets.setdefault((run[0]["fixture_id"], run[0]["market_key"]), []).append(run)
    named = [row[0] | {"of": markets[row[0]["fixture_id"], row[0]["market_key"]], "size": len(row)} for row in runs]
    found = first_of(
        {
            "market_key and side must not be null": lambda row, _: None in (row["market_key"], row["side"]),
            "market_key and side must have 1 to 200 bytes and no control character": lambda row, _: any(
                row[name] is not None and is_wrong(row[name]) for name in ("market_key", "side")
            ),
            "a market must have at least two sides": lambda row, _: len(row["of"]) < 2,
            "every message of a market must write one row per side": lambda row, _: row["size"] != len(row["of"][0]),
        },
        named,
        ("fixture_id", "market_key", "side"),
    )
    if found is not None:
        return found
    rows = [row | {"run": number, "at": at} for number, run in enumerate(runs) for at, row in enumerate(run)]
    columns = ("fixture_id", "market_key", "side", "tick_seq", "ts_ms", "prob_bps", "odds_milli")
    needed = ("tick_seq", "ts_ms", "in_running", "suspended")
    found = first_of(
        {
            "tick_seq must not be negative": lambda row, _: row["tick_seq"] is not None and row["tick_seq"] < 0,
            "two rows of a side must not share a tick": lambda row, last: (
                bool(last) and row["run"] == last["run"] and None not in (row["tick_seq"], last["tick_seq"])
                and row["tick_seq"] <= last["tick_seq"]
            ),
            "prob_bps must be 0 to 10000": lambda row, _: outside(row["prob_bps"], 0, 10_000),
            "odds_milli must be 1001 to 100000000": lambda row, _: outside(row["odds_milli"], 1001, 100_000_000),
            "ts_ms must be a time in milliseconds": lambda row, _: outside(row["ts_ms"], 0, 2**53 // 1000 * 1000),
            "tick_seq, ts_ms, in_running and suspended must not be null": lambda row, _: None in [row[name] for name in needed],
            "a suspended message must not carry a probability": lambda row, _: row["suspended"] and row["prob_bps"] is not None,
        },
        rows,
        columns,
    )  # fmt: skip
    if found is not None:
        return found
    first = [markets[row["fixture_id"], row["market_key"]][0][row["at"]] for row in rows]
    for name in needed:
        bad = [row for row, one in zip(rows, first, strict=True) if row[name] != one[name]]
        if bad:
            return sentence(f"the sides of a message must agree on {name}", bad, columns)
    messages = []
    for sides in markets.values():
        for at in zip(*sides, strict=True):
            priced = [row["prob_bps"] for row in at if row["prob_bps"] is not None]
            messages.append(at[0] | {"total": sum(priced), "lacking": len(at) - len(priced), "all": len(at)})
    messages.sort(key=lambda row: (row["fixture_id"], row["tick_seq"], row["market_key"].encode()))
    return first_of(
        {
            "a tick must have one market, and ticks of a fixture must count 0, 1, 2, ...": lambda row, last: row["tick_seq"]
            != (last["tick_seq"] + 1 if last and last["fixture_id"] == row["fixture_id"] else 0),
            "time must not go backwards": lambda row, last: bool(last)
            and last["fixture_id"] == row["fixture_id"] and row["ts_ms"] < last["ts_ms"],
            "the sides of a priced market must sum to 10000 +- 50": lambda row, _: not row["lacking"]
            and math.fabs(row["total"] - 10_000) > 50,
            "a message without any price must be marked suspended": lambda row, _: row["lacking"] == row["all"]
            and not row["suspended"],
        },
        messages,
        ("fixture_id", "market_key", "tick_seq", "ts_ms", "total"),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(length(1, 30)))
def test_a_broken_pack_is_refused_as_a_loop_over_its_rows_refuses_it(seed, tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "SHARD_ROWS", _SHARD_ROWS)
    dice = np.random.default_rng(seed)
    fixtures = tuple(Fixture(fixture_id=number) for number in _FIXTURES)
    manifest = PackManifest(pack_id="p", provenance="unknown", fixtures=fixtures)
    whole = write_pack(sound_ticks(dice), manifest, tmp_path / "p")
    sound = pl.read_parquet(tmp_path / "p" / TICKS_FILE).select(*STORED)
    verify_pack(tmp_path / "p")
    said = set()
    for _ in range(80):
        stored = sound
        for _ in range(int(dice.choice([1, 1, 1, 2, 3]))):
            stored = broken(stored, dice) if stored.height else stored
        made = write_broken(tmp_path / "p", stored, whole, dice)

        expected = complaint(stored, made, sound, tmp_path / "p")

        if expected is None:
            assert load_pack(tmp_path / "p").fixture_ids == verify_pack(tmp_path / "p").fixture_ids
            continue
        with pytest.raises(type(expected)) as found:
            verify_pack(tmp_path / "p")
        words, told = str(expected), str(found.value)
        assert told == words or ("other rows" in words and told.partition(", found")[0] == words.partition(", found")[0])
        said.add(str(expected).partition(":")[0][:40])
    assert len(said) > 10
