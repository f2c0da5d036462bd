"""Entry and close by one book's own states, against a loop over plain rows."""

import json
import random
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import polars as pl
import pytest

import clvlab as cl
from clvlab.arena.replays import prices_again
from clvlab.errors import AgentError, WindowError
from clvlab.law.closing import Window
from clvlab.law.schema import ClosingPolicy
from clvlab.packs.reader import load_pack
from clvlab.packs.writer import write_pack
from clvlab.proof import clv_states, clv_verify
from clvlab.report.headline import headline_of
from clvlab.runs.search.scorer import Scorer
from clvlab.statistics.measures import fixture_sums
from tests import booked
from tests.commands import clvlab
from tests.factories import make_agent
from tests.length import length

STATES = Path(cl.__file__).parent / "proof" / "clv_states.py"


@cl.strategy
def at_random(ticks, *, seed=1):
    """Back some sides of some messages."""
    chosen = pl.struct("fixture_id", "tick_seq", "side").hash(seed) % 7 == 0
    return ticks.filter(chosen).select("fixture_id", "tick_seq", "market_key", "side")


@pytest.fixture(scope="module", params=range(1, length(2, 4)))
def pack(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packs") / "booked"
    booked.write_booked(folder, request.param)
    return cl.open_pack(folder), request.param


@pytest.fixture(scope="module")
def closed_by(pack):
    """What the decisions at random come to by a close; look-ahead is not what is asked about them."""
    return cache(lambda close: cl.backtest(pack[0], at_random, close=close, audit=False))


def plainly(rows, kickoff_ts_ms, decisions, close_source):
    """(reason, CLV) of each decision, by a loop over rows in which the last one at or before a tick counts."""
    ticks, books = rows
    said = [(f, m, s, seq, ts, prob) for f, m, s, book, seq, ts, prob, _, _ in books if book == close_source]
    if close_source is None:
        said = [(f, m, s, seq, ts, prob) for f, seq, ts, _, m, s, prob, _, _ in ticks]
    end = {
        f: min(
            [seq for g, seq, ts, *_ in ticks if g == f and ts >= kickoff_ts_ms],
            default=max(t[1] for t in ticks if t[0] == f) + 1,
        )
        for f in {row[0] for row in ticks}
    }

    def state(fixture, market, side, seq):
        own = [row for row in said if row[:3] == (fixture, market, side) and row[3] <= seq]
        return max(own, key=lambda row: row[3], default=None)

    found = []
    for fixture, seq, market, side in decisions:
        entry, close = state(fixture, market, side, seq), state(fixture, market, side, end[fixture] - 1)
        ts = next(row[2] for row in ticks if row[:2] == (fixture, seq))
        if seq >= end[fixture]:
            found.append(("outside_window", None))
        elif entry is None:
            found.append(("entry_market_absent", None))
        elif entry[5] is None:
            found.append(("entry_suspended", None))
        elif close[5] is None:
            found.append(("closing_suspended", None))
        elif kickoff_ts_ms - ts < 60_000:
            found.append(("pending_horizon", None))
        else:
            found.append(("scored", close[5] - entry[5]))
    return found


@pytest.mark.parametrize("close", [None, *booked.NAMES])
def test_scores_are_those_of_a_plain_loop(pack, closed_by, close, tmp_path):
    _, seed = pack
    done = closed_by(close)
    rows = done.scores.sort("fixture_id", "tick_seq", "market_key", "side")
    named = rows.select("fixture_id", "tick_seq", "market_key", "side").rows()

    expected = plainly(booked.rows_of(seed), 4 * booked.HOUR_MS - 1, named, close)

    assert rows.select("reason", "clv_bps").rows() == expected
    assert {"scored", "entry_suspended"} <= {reason for reason, _ in expected}
    assert done.run.verify().passed
    assert not any(clv_verify.verify(done.run.save(tmp_path))["checks"].values())


def test_points_of_a_search_are_scored_as_runs_are(pack, closed_by):
    opened, _ = pack
    found = cl.sweep(opened, at_random, {"seed": [1, 2]}, window=Window(close_source="birch"), progress=False)

    sealed = closed_by("birch")

    assert found.frame.filter(seed=1)["mean_clv_bps"].item() == pytest.approx(headline_of(sealed.source).clv.mean)


def test_a_run_says_by_whom_it_closes(closed_by):
    own, other = (closed_by(close).run.source for close in (None, "ash"))

    assert b"close_source" not in own.events
    assert b'"window":{"close_source":"ash","closing_policy"' in other.events


@pytest.mark.parametrize("close", [None, *booked.NAMES])
def test_sums_of_rows_scored_beforehand_are_those_of_the_scores(pack, close):
    tape, window = pack[0].source.tape(), Window(close_source=close)
    prepared = Scorer(tape, window)
    prepared._work = tape.rows.height

    for seed in range(5):
        agent = make_agent(at_random.with_params(seed=seed).decide(tape))
        assert prepared.sums(agent).equals(fixture_sums(Scorer(tape, window).scores(agent)))
    assert prepared._scored_rows is not None


@pytest.mark.parametrize("book", ["nobody", "", 7, "x" * 201])
def test_a_book_that_is_not_there_is_refused_by_name(pack, book):
    with pytest.raises(WindowError, match=r"close_source|keeps no book"):
        cl.backtest(pack[0], "baseline", close=book)


def test_closes_by_a_book_need_books():
    with pytest.raises(WindowError, match="import it with books=True"):
        cl.backtest("starter", "baseline", close="ash")


@cl.strategy(books=True)
def steam(_, ticks_by_book, *, rise_bps=500):
    rise = pl.col("prob_bps") - pl.col("prob_bps").shift(1).over("series")
    return ticks_by_book.filter(pl.col("book") == "ash", rise >= rise_bps).unique("series", keep="first", maintain_order=True)


def test_an_agent_is_shown_books_as_they_were_and_says_so_in_the_seal(pack):
    opened, seed = pack
    done = cl.backtest(opened, steam, close="ash")
    last, first = {}, {}
    for fixture, market, side, book, seq, _, prob, _, _ in booked.rows_of(seed)[1]:
        if book == "ash":
            key = (fixture, market, side)
            if prob is not None and last.get(key) is not None and prob - last[key] >= 500:
                first.setdefault(key, seq)
            last[key] = prob

    assert sorted((f, m, s, seq) for (f, m, s), seq in first.items()) == sorted(
        done.scores.select("fixture_id", "market_key", "side", "tick_seq").rows()
    )
    assert done.run.verify().passed
    assert b'"books":true' in done.run.source.events


@cl.strategy(books=True)
def prophet(ticks, ticks_by_book):
    last = ticks_by_book.group_by("fixture_id", "market_key", "side").agg(then=pl.col("prob_bps").last())
    first = ticks.unique(["fixture_id", "market_key", "side"], keep="first", maintain_order=True)
    return first.join(last, on=["fixture_id", "market_key", "side"]).filter(pl.col("then") > pl.col("prob_bps"))


def test_an_agent_that_knows_what_books_will_say_fails_the_audit(pack):
    with pytest.raises(cl.errors.LookaheadError):
        cl.backtest(pack[0], prophet)


def test_books_are_asked_for_in_vain_where_there_are_none():
    with pytest.raises(AgentError, match="the consensus alone"):
        cl.backtest("starter", steam)


def test_a_rule_that_takes_no_books_is_refused():
    with pytest.raises(AgentError, match=r"def alone\(ticks, ticks_by_book\)"):

        @cl.strategy(books=True)
        def alone(ticks):
            return ticks


@cl.strategy
def by_what_is_known(ticks):
    late = pl.col("to_close_s") < 7200
    mine = (pl.col("home") == "Home 2") & (pl.col("league") == "E0") & (pl.col("season") == "2024-25")
    return ticks.filter(late, mine, pl.col("kickoff_ts_ms").is_not_null()).unique("series", keep="first", maintain_order=True)


class Knowing(cl.TickAgent):
    def __init__(self):
        self.done = set()

    def on_tick(self, book):
        known = (book.fixture.home, book.fixture.league, book.fixture.season)
        key = (book.fixture_id, book.market_key)
        if known == ("Home 2", "E0", "2024-25") and book.to_close_s < 7200 and key not in self.done:
            self.done.add(key)
            return [book.back(side) for side in book.sides()]
        return None


def test_what_is_known_of_a_fixture_is_shown_alike_by_columns_and_message_by_message(pack):
    opened, _ = pack
    columns, messages = (cl.backtest(opened, agent, audit=False).scores for agent in (by_what_is_known, Knowing()))
    key = ["fixture_id", "tick_seq", "market_key", "side"]

    assert columns.select(key).sort(key).rows() == messages.select(key).sort(key).rows()
    assert set(columns["fixture_id"]) == {2}


def test_a_pack_that_keeps_books_is_read_in_shards_as_at_once(tmp_path):
    booked.write_booked(tmp_path / "booked", 5, fixtures=9)
    whole = load_pack(tmp_path / "booked").tape()
    parts = [load_pack(tmp_path / "booked").tape([one]).of_book("ash").rows.drop("series") for one in range(1, 10)]

    assert pl.concat(parts).equals(whole.of_book("ash").rows.drop("series"))


def stand_alone(*arguments):
    command = [sys.executable, STATES, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def exported(pack, tmp_path_factory):
    """A folder with the ticks and books of a pack as CSV."""
    folder = tmp_path_factory.mktemp("exported")
    for name, *options in (("ticks.csv",), ("books.csv", "--books")):
        code, _, err = clvlab(folder, "packs", "export", pack[0].source.folder, name, *options)
        assert code == 0, err
    return folder


@pytest.mark.parametrize("close", [None, *booked.NAMES])
def test_states_are_judged_by_rows_of_the_book_that_closes(closed_by, exported, tmp_path, close):
    ticks, books = exported / "ticks.csv", exported / "books.csv"
    run = closed_by(close).run.save(tmp_path / "runs")

    assert stand_alone(run, ticks, books)[0] == 0
    code, said = stand_alone(run, ticks)
    assert code == (0 if close is None else 2)
    assert close is None or f"those of the book '{close}', and ticks are the consensus alone" in said


def another_price(book):
    return pl.when(pl.col("book") == book).then(pl.col("odds_milli") + 1).otherwise("odds_milli").alias("odds_milli")


def another_name(book):
    swapped = {book: "birch", "birch": book}
    return pl.col("book").replace(swapped)


FORGED = {
    "prices": (lambda books: books.with_columns(another_price("ash")), 1, "the ticks say"),
    "books": (lambda books: books.with_columns(another_name("ash")), 1, "the ticks say"),
    "other books": (lambda books: books.with_columns(another_price("birch")), 0, "pass"),
    "messages left out": (lambda books: books.filter(pl.col("tick_seq") > 2), 1, "the ticks say"),
    "order": (lambda books: books.sample(fraction=1, shuffle=True, seed=7), 0, "pass"),
    "the book left out": (lambda books: books.filter(pl.col("book") != "ash"), 2, "'ash', of which no row is given"),
    "ticks": (lambda books: books.with_columns(pl.col("tick_seq") + 10**6), 2, "where no tick is"),
    "twice": (lambda books: pl.concat([books, books.head(1)]), 2, "'ash' says two things at tick"),
    "columns": (lambda books: books.drop("suspended"), 2, "can't read books from"),
}


@pytest.fixture(scope="module")
def by_ash(closed_by, tmp_path_factory):
    return closed_by("ash").run.save(tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize("forgery", FORGED)
def test_rows_of_books_that_are_others_do_not_give_the_states(by_ash, exported, tmp_path, forgery):
    change, code, said = FORGED[forgery]
    change(pl.read_csv(exported / "books.csv", infer_schema=False).cast({"tick_seq": int, "odds_milli": int})).write_csv(
        tmp_path / "books.csv"
    )

    found = stand_alone(by_ash, exported / "ticks.csv", tmp_path / "books.csv")

    assert (found[0], said in found[1]) == (code, True), found


@pytest.mark.parametrize("seed", range(length(6, 200)))
def test_windows_and_policies_of_all_kinds_give_the_states_that_plain_rows_give(tmp_path, seed):
    """Messages a minute and a half apart: behind a suspension ``last_open`` finds an open one, or none that is young enough."""
    draw = random.Random(seed)
    quicker = pl.col("ts_ms") // 4
    ticks, books = (rows.with_columns(quicker) for rows in booked.frames(seed))
    policy = draw.choice(list(ClosingPolicy))
    kept = booked.manifest(kickoff_ts_ms=draw.choice([None, booked.HOUR_MS - 1])).model_copy(update={"closing_policy": policy})
    write_pack(ticks, kept, tmp_path / "booked", books=books)
    rule = draw.choice(["pre_match", "fixed_duration", "manual_stop"])
    seconds = draw.randrange(1, 5000) if rule == "fixed_duration" else None
    book = draw.choice(booked.NAMES)
    window = Window(end_rule=rule, duration_s=seconds, min_clv_horizon_s=0, close_source=book)
    done = cl.backtest(cl.open_pack(tmp_path / "booked"), at_random, window=window, audit=False).run.save(tmp_path / "runs")
    known = ticks.with_columns(kickoff_ts_ms=pl.lit(kept.fixtures[0].kickoff_ts_ms)).to_dicts()
    rows = books.to_dicts()

    def judged(changed=lambda row: row):
        fixtures = clv_states.fixtures_of(known)
        return clv_states.verify_states(done, fixtures, [changed(row) for row in rows])["checks"]["states_from_ticks"]

    assert judged() is None
    shown = [json.loads(line)["payload"] for line in (done / "events.jsonl").read_text().splitlines()]
    used = {
        (one["fixture_id"], one["action"]["market_key"], state["tick_seq"])
        for one in shown
        if (state := one.get("market_state")) is not None
    }
    forged = draw.choice(sorted(used))
    assert judged(lambda row: row | {"odds_milli": 1001} if key_of(row) == forged and row["book"] == book else row)


def key_of(row):
    return row["fixture_id"], row["market_key"], row["tick_seq"]


def test_a_pack_without_books_has_none_to_export(tmp_path):
    code, _, err = clvlab(tmp_path, "packs", "export", "starter", "books.csv", "--books")

    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert "'starter' keeps no books" in err


def test_a_run_closed_by_a_book_that_the_pack_does_not_keep_disagrees_with_it(pack, closed_by, tmp_path):
    opened, seed = pack
    ticks, _ = booked.frames(seed)
    write_pack(ticks, booked.manifest(), tmp_path / "booked")
    run = closed_by("ash").run.source
    bare = load_pack(tmp_path / "booked")
    relabelled = replace(run, events=run.events.replace(opened.content_hash.encode(), bare.content_hash.encode()))

    found = prices_again(relabelled, tmp_path / "booked")

    assert not found.agrees
    assert "'ash'" in found.detail
