#!/usr/bin/env python3
"""Derive every state in the evidence of a sealed run from the ticks again; needs clv_verify.py next to it, and plain Python.

    python3 clv_states.py RUN ticks.csv [books.csv] [--json]

RUN is a run folder or a bundle that clv_verify.py checks: hashes, scores, verdicts. This file checks one thing more: that the
prices in it are those of the ticks. Columns of the CSV: fixture_id, tick_seq, ts_ms, in_running, market_key, side, prob_bps,
odds_milli, suspended, kickoff_ts_ms; empty fields mean none; other columns are ignored. A run that one book closes needs that
book's states in a second CSV: fixture_id, market_key, side, book, tick_seq, prob_bps, odds_milli, suspended. Exit status 0 when
every state and close follows from the ticks, 1 when one does not, 2 when there is no run, there are no ticks, or the book that
closes the run is missing.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from . import clv_verify
else:
    sys.path.insert(0, str(Path(__file__).resolve().parent))  # python3 -I leaves it out
    import clv_verify


Row = dict[str, Any]  # of a CSV, by column, each value read as its column is


@dataclass
class Fixture:
    """The messages of a fixture: ``ticks`` as (tick_seq, ts_ms, in_running), and the states of each market; in order."""

    kickoff_ts_ms: int | None = None
    ticks: list[tuple[int, int, bool]] = field(default_factory=list)
    markets: dict[str, list[clv_verify.Object]] = field(default_factory=dict)


def fixtures_of(rows: Iterable[Row]) -> dict[int, Fixture]:
    """Group tick rows, one per side of a message and in any order, into fixtures."""
    fixtures: dict[int, Fixture] = {}
    before: dict[int, tuple[Any, ...]] = {}
    for row in sorted(rows, key=lambda row: (row["fixture_id"], row["tick_seq"], row["market_key"], row["side"])):
        fixture = fixtures.setdefault(row["fixture_id"], Fixture(row["kickoff_ts_ms"]))
        states = fixture.markets.setdefault(row["market_key"], [])
        tick = (row["tick_seq"], row["ts_ms"], row["in_running"])
        message = (tick, row["market_key"], row["suspended"], row["kickoff_ts_ms"])
        if not fixture.ticks or fixture.ticks[-1][0] != row["tick_seq"]:
            fixture.ticks.append(tick)
            states.append(_new_state(row, row["ts_ms"]))
        elif before[row["fixture_id"]] != message:
            raise clv_verify.InputError(f"tick {row['tick_seq']} of fixture {row['fixture_id']} is more than one message")
        before[row["fixture_id"]] = message
        states[-1]["sides"].append(_side(row))
    return fixtures


def _new_state(row: Row, ts_ms: int) -> clv_verify.Object:
    return {"sides": [], "suspended": row["suspended"], "tick_seq": row["tick_seq"], "ts_ms": ts_ms}


def _side(row: Row) -> clv_verify.Object:
    return {key: row[key] for key in ("odds_milli", "prob_bps", "side")}


def times_of(fixtures: dict[int, Fixture]) -> dict[int, dict[int, int]]:
    return {number: {seq: ts for seq, ts, _ in fixture.ticks} for number, fixture in fixtures.items()}


def fixtures_by(book: str, fixtures: dict[int, Fixture], rows: Sequence[Row]) -> dict[int, Fixture]:
    """Return fixtures with the states of one book; each state begins at a tick and has its time."""
    own = [row for row in rows if row["book"] == book]
    if not own:
        raise clv_verify.InputError(f"the states are those of the book {book!r}, of which no row is given")
    found = {number: replace(fixture, markets={}) for number, fixture in fixtures.items()}
    times = times_of(fixtures)
    for row in sorted(own, key=lambda row: (row["fixture_id"], row["market_key"], row["tick_seq"], row["side"])):
        fixture_id, tick_seq = row["fixture_id"], row["tick_seq"]
        if tick_seq not in times.get(fixture_id, {}):
            raise clv_verify.InputError(f"{book!r} speaks at tick {tick_seq} of fixture {fixture_id}, where no tick is")
        states = found[fixture_id].markets.setdefault(row["market_key"], [])
        if not states or states[-1]["tick_seq"] != tick_seq:
            states.append(_new_state(row, times[fixture_id][tick_seq]))
        elif states[-1]["suspended"] != row["suspended"] or states[-1]["sides"][-1]["side"] == row["side"]:
            raise clv_verify.InputError(f"{book!r} says two things at tick {tick_seq} of fixture {fixture_id}")
        states[-1]["sides"].append(_side(row))
    return found


def window_end(fixture: Fixture, window: clv_verify.Object) -> tuple[int, int, str]:
    """Return the end of a fixture's window: the first tick outside, the time of the close, and its kind."""
    past_last, last_ts = fixture.ticks[-1][0] + 1, fixture.ticks[-1][1]
    if window["end_rule"] == "manual_stop":
        return past_last, last_ts, "stop"
    if window["end_rule"] == "fixed_duration":
        limit = fixture.ticks[0][1] + 1000 * int(window["duration_s"])
        return next((seq for seq, ts, _ in fixture.ticks if ts > limit), past_last), min(limit, last_ts), "duration"
    for seq, ts, in_running in fixture.ticks:
        if in_running:
            return seq, ts, "in_running"
    kickoff = fixture.kickoff_ts_ms
    if kickoff is not None:
        return next((seq for seq, ts, _ in fixture.ticks if ts >= kickoff), past_last), kickoff, "kickoff"
    return past_last, last_ts, "tape_end"


def state_at(states: Sequence[clv_verify.Object], tick_seq: int) -> clv_verify.Object | None:
    count = bisect_right(states, tick_seq, key=lambda state: state["tick_seq"])
    return states[count - 1] if count else None


def closing_state(states: Sequence[clv_verify.Object], end_seq: int, close_ts_ms: int, policy: str) -> clv_verify.Object | None:
    """Return the state in which a market closes; ``last_open`` looks back past a suspension for at most 300 s."""
    state = state_at(states, end_seq - 1)
    if policy == "last_open" and state and state["suspended"]:
        opened = [other for other in states if other["tick_seq"] < end_seq and not other["suspended"]]
        if opened and close_ts_ms - opened[-1]["ts_ms"] <= clv_verify.LAST_OPEN_MAX_AGE_MS:
            return opened[-1]
    return state


def check_states(evidence: clv_verify.Evidence, fixtures: dict[int, Fixture], books: Sequence[Row] | None = None) -> None:
    """Derive every state in the evidence from the ticks again; raise ``BrokenError`` at the first that differs."""
    window = evidence.started["window"]
    if "close_source" in window:
        if books is None:
            whose = f"the states are those of the book {window['close_source']!r}, and ticks are the consensus alone"
            raise clv_verify.InputError(f"{whose}: name a CSV of the books as well")
        fixtures = fixtures_by(window["close_source"], fixtures, books)
    times = times_of(fixtures)
    for seq, decision in evidence.decisions:
        fixture_id, tick_seq, ts_ms, action = (decision[name] for name in ("fixture_id", "tick_seq", "ts_ms", "action"))
        time = times.get(fixture_id, {}).get(tick_seq)
        clv_verify.require(time == ts_ms, f"seq {seq}: tick {tick_seq} of {fixture_id} is at {time}, not {ts_ms}")
        states = fixtures[fixture_id].markets.get(action["market_key"], []) if action["type"] == "BACK" else []
        state = state_at(states, tick_seq)
        expected = {"age_ms": ts_ms - state["ts_ms"], **state} if state else None
        clv_verify.require(decision["market_state"] == expected, f"seq {seq}: the ticks say {expected}")
    ends = {number: window_end(fixture, window) for number, fixture in fixtures.items()}
    for (fixture_id, market), close in evidence.closes.items():
        end_seq, close_ts_ms, kind = ends[fixture_id]
        states = fixtures[fixture_id].markets.get(market, [])
        expected = {
            "close_kind": kind, "close_ts_ms": close_ts_ms, "end_seq": end_seq, "fixture_id": fixture_id, "market_key": market,
            "closing": closing_state(states, end_seq, close_ts_ms, window["closing_policy"]),
        }  # fmt: skip
        clv_verify.require(close == expected, f"{market} of {fixture_id}: the ticks say {expected}")


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _text(text: str | None) -> str:
    if text is None:
        raise ValueError("a line ends before its last column")
    return text


def _nullable(text: str) -> int | None:
    return int(text) if text else None


_STATE: dict[str, Callable[[str], Any]] = {
    "fixture_id": int, "tick_seq": int, "market_key": _text, "side": _text,
    "prob_bps": _nullable, "odds_milli": _nullable, "suspended": _flag,
}  # fmt: skip


def read_ticks(path: Path) -> dict[int, Fixture]:
    return fixtures_of(_rows(path, "ticks", {**_STATE, "ts_ms": int, "in_running": _flag, "kickoff_ts_ms": _nullable}))


def read_books(path: Path) -> list[Row]:
    return _rows(path, "books", {**_STATE, "book": _text})


def _rows(path: Path, what: str, columns: dict[str, Callable[[str], Any]]) -> list[Row]:
    try:
        texts = csv.DictReader(io.StringIO(clv_verify.read_file(path).decode("utf-8"), newline=""))
        return [{name: read(text[name]) for name, read in columns.items()} for text in texts]
    except (ValueError, KeyError, AttributeError, TypeError, csv.Error) as error:
        raise clv_verify.InputError(f"can't read {what} from {path}: {error!r}") from error


def verify_states(path: Path, ticks: dict[int, Fixture], books: Sequence[Row] | None = None) -> clv_verify.Object:
    """Return the evidence hash of a run folder or bundle, and the fault of its states, or ``None``."""
    found: clv_verify.Object = {"recomputed_evidence_hash": "unread"}
    try:
        events = clv_verify.read_parts(path)["events.jsonl"]
        found["recomputed_evidence_hash"] = clv_verify.sha256(events)
        check_states(clv_verify.read_evidence(events), ticks, books)
    except clv_verify.BrokenError as error:
        return found | {"checks": {"states_from_ticks": str(error)}}
    return found | {"checks": {"states_from_ticks": None}}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Derive the states of a sealed run from ticks.")
    parser.add_argument("run", type=Path, help="a run folder or a bundle")
    parser.add_argument("ticks", type=Path, help="the ticks of its pack, as CSV")
    parser.add_argument("books", type=Path, nargs="?", help="what its books say, as CSV, where one of them closes the run")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    try:
        if not options.run.exists():
            raise clv_verify.InputError(f"nothing at {options.run}")
        found = verify_states(options.run, read_ticks(options.ticks), options.books and read_books(options.books))
    except (clv_verify.InputError, OSError, MemoryError) as error:
        sys.stderr.write(f"{clv_verify.printable(error) or 'there is not enough memory'}\n")
        return 2
    wrong = found["checks"]["states_from_ticks"]
    verdict = ("fail", wrong) if wrong else ("pass", "every state and close in the evidence follows from the ticks")
    if options.json:
        sys.stdout.write(json.dumps(found | {"checks": {"states_from_ticks": verdict}}, indent=2) + "\n")
    else:
        sys.stdout.write(f"{verdict[0]}  states_from_ticks: {clv_verify.printable(verdict[1])}\n")
        sys.stdout.write(f"evidence {found['recomputed_evidence_hash']}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
