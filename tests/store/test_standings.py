"""Rows of the leaderboard as they are kept: in order of rank, named, and grouped, whatever comes in which order."""

import itertools
import random

import pytest

from clvlab.store import runs, standings
from clvlab.store.database import Database
from clvlab.store.sketches import GROUPS_COMPARED
from clvlab.store.standings import RowQuery
from clvlab.store.tables import RUN_COUNTS, SUMS
from tests.store.test_sketches import sketch

RUN = {
    "kind": "backtest",
    "origin_id": None,
    "source_mode": "replay",
    "mode_label": "Backtest",
    "lineage": {},
    "created_ts_ms": 0,
}
OWNER = "did:web:a.example"


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request):
    database = Database(None if request.param == "sqlite" else request.getfixturevalue("postgres_url"))
    yield database
    database.close()


@pytest.fixture
def add(database):
    """Adds a sealed run of one agent, or of several with the same decisions."""
    numbers = iter(range(10**6))

    def added(*agent_ids, ticks=(1,), owner=OWNER, clv=0, actions=1, fixtures=1, **fields):
        run_id = f"run_{next(numbers)}"
        sums = dict.fromkeys(SUMS, 0) | {"action_count": actions, "total_clv_bps": clv}
        facts = {
            "strategy": "baseline", "causality": "template", "config_hash": "sha256:1", "knowledge": "history",
            "commit_index": None, "sketch": None if ticks is None else sketch(ticks),
        }  # fmt: skip
        rest = {
            "max_drawdown": 0,
            "fixtures": fixtures,
            "proof_mode": "reproducible",
            "source_mode": "replay",
            "failing": False,
        }
        with database.write() as connection:
            runs.add(connection, RUN | {"run_id": run_id, "owner": owner})
            results = [
                {"run_id": run_id, "agent_id": agent_id, "owner": owner, **sums, **rest, **facts, **fields}
                for agent_id in agent_ids
            ]
            standings.add(connection, results, "not_anchored")
        return run_id

    return added


def ranked(database, after=0, limit=None, **wanted):
    with database.read() as connection:
        return standings.ranked(connection, RowQuery(**wanted), after, limit)


def groups(database, owner=OWNER):
    return {row["agent_id"]: row["first_alike"] for row in ranked(database) if row["owner"] == owner}


def test_rows_are_ranked_by_mean_with_none_last_and_ties_by_code_point(database, add):
    drawn = random.Random(1)
    names = ["a", "B", "b", "a b", "ä", "z", "\U0001f3b2", "\uff5a", "é", "e\u0301", "_", "Z", "10", "9", "", "~"]
    for name in names:
        actions = drawn.choice([0, 1, 3, 7])
        add(name, clv=drawn.choice([-1, 0, 2, 1, 10**9]) if actions else 0, actions=actions)

    found = ranked(database)

    def mean(row):
        return row["total_clv_bps"] / row["action_count"] if row["action_count"] else None

    by_hand = sorted(found, key=lambda row: (mean(row) is None, -(mean(row) or 0.0), row["label"]))
    assert [row["label"] for row in found] == [row["label"] for row in by_hand]
    assert [row["label"] for row in ranked(database, 3, 4)] == [row["label"] for row in by_hand[3:7]]
    assert len(found) == len(names)


def test_a_row_moves_when_its_mean_does(database, add):
    add("a", clv=10)
    add("b", clv=5)
    add("a", clv=-20, actions=2)

    assert [(row["agent_id"], row["total_clv_bps"], row["action_count"]) for row in ranked(database)] == [
        ("b", 5, 1), ("a", -10, 3),
    ]  # fmt: skip


def test_identical_decisions_under_many_names_are_one_group_and_of_another_owner_another(database, add):
    add("c", "a", "b", ticks=range(40))
    add("d", ticks=range(40))
    add("e", ticks=range(30))
    add("a", ticks=range(40), owner="did:web:b.example")

    assert groups(database) == {"a": "a", "b": "a", "c": "a", "d": "a", "e": "e"}
    assert [row["label"] for row in ranked(database, grouped=True)] == ["a", "a@b.example", "e"]
    with database.read() as connection:
        alike = standings.others_alike(connection, [(OWNER, "a"), (OWNER, "e")])
    assert alike == {(OWNER, "a"): ["b", "c", "d"]}


@pytest.mark.parametrize("order", ["abc", "bac", "cba", "bca"])
def test_rows_that_grow_one_after_the_other_are_one_group_again_when_all_have_grown(database, add, order):
    add("a", "b", "c", ticks=range(10))
    for number, agent_id in enumerate(order, start=1):
        add(agent_id, ticks=range(100, 110))
        assert len(set(groups(database).values())) == (1 if number == 3 else 2)

    assert groups(database) == dict.fromkeys("abc", "a")


def test_those_who_decided_like_a_row_that_went_another_way_stay_together(database, add):
    add("a", "b", "c", ticks=range(10))

    add("a", ticks=range(100, 200))

    assert groups(database) == {"a": "a", "b": "b", "c": "b"}


def test_what_adds_nothing_moves_no_row_to_another_group_and_changes_no_fact(database, add):
    add("a", "b", ticks=range(10))

    add("a", ticks=(), fixtures=0, actions=0, config_hash="sha256:2", causality="transcript")

    assert groups(database) == {"a": "a", "b": "a"}
    row = ranked(database)[0]
    assert (row["causality"], row["config_hash"], row["hindsight_possible"], row["runs"]) == ("template", "sha256:1", False, 2)


def test_facts_that_differ_are_mixed_and_null(database, add):
    add("a", knowledge="committed-before", commit_index=3)
    add("a", strategy="llm", causality="transcript", config_hash="sha256:2", knowledge="committed-before", commit_index=7)
    before = ranked(database)[0]
    add("a", knowledge="history")

    facts = ("strategy", "causality", "config_hash", "knowledge", "commit_index", "hindsight_possible")
    assert [before[name] for name in facts] == ["mixed", "mixed", None, "committed-before", 7, False]
    assert [ranked(database)[0][name] for name in facts] == ["mixed", "mixed", None, "history", None, True]


def test_pooled_again_rows_are_what_they_were(database, add):
    add("c", "a", "b", ticks=range(40), clv=3)
    add("a", ticks=range(60, 80), config_hash="sha256:2")
    add("b", ticks=range(60, 80))
    add("a", ticks=None, owner="did:web:b.example", actions=0)
    before = ranked(database)

    with database.write() as connection:
        standings.pool_all(connection)

    assert ranked(database) == before


def test_the_revision_changes_with_every_row_and_with_nothing_else(database, add):
    def revision():
        with database.read() as connection:
            return standings.revision(connection)

    seen = [revision()]
    run_id = add("a")
    seen += [revision(), revision()]
    with database.write() as connection:
        standings.count_failing(connection, run_id, failing=True)
    seen.append(revision())
    with database.write() as connection:
        standings.count_failing(connection, run_id, failing=True)
        standings.count_anchor(connection, "run_unknown", "not_anchored", "pending")
    seen.append(revision())
    with database.write() as connection:
        standings.count_anchor(connection, run_id, "not_anchored", "anchored")
    seen.append(revision())

    assert [number for number, (one, other) in enumerate(itertools.pairwise(seen)) if one != other] == [0, 2, 4]
    assert len(set(seen)) == 4


def test_counts_are_those_of_runs_that_bring_something(database, add):
    add("a")
    add("a", fixtures=0)

    row = ranked(database)[0]
    assert {name: row[name] for name in RUN_COUNTS if row[name]} == {"runs": 2, "counted_runs": 1}


def test_a_row_is_compared_with_no_more_than_so_many_groups(database, add, monkeypatch):
    assert GROUPS_COMPARED >= 100  # as many names as an owner may have
    monkeypatch.setattr("clvlab.store.standings.GROUPS_COMPARED", 2)
    for number in range(4):
        add(f"a{number}", ticks=range(1000 * number, 1000 * number + 9))

    add("old", ticks=range(9))
    add("new", ticks=range(3000, 3009))

    assert (groups(database)["old"], groups(database)["new"]) == ("old", "a3")
