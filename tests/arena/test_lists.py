"""Pages of lists: each entry once while others come and go, and no work for the rows that a page does not show."""

import orjson
import pytest

from clvlab.errors import PageError
from clvlab.log.log import commit
from clvlab.store import standings
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog
from clvlab.store.standings import RowQuery
from tests.benchmarks.lists import PAGE, TIMES, filled, reads, result_of, steps

FEW = 70


def counted(rows):
    with filled(rows) as application:
        return {name: steps(application, read) for name, read in reads(application).items()}


def test_a_page_looks_at_as_many_rows_whatever_the_list_holds():
    first, *others = (counted(FEW * times) for times in TIMES)

    assert min(first.values()) > PAGE
    assert all(found == first for found in others)


def test_steps_count_every_row_that_is_looked_at():
    with filled(FEW) as few, filled(4 * FEW) as many:
        found = [steps(application, application.leaderboard.rows) for application in (few, many)]

    assert found[1] > 3.5 * found[0]


@pytest.mark.parametrize("wanted", [RowQuery(), RowQuery(grouped=True), RowQuery(knowledge="history")])
def test_the_leaderboard_is_paged_through_to_its_end_while_rows_are_added(wanted):
    with filled(FEW) as application:
        board, seen, cursor, number = application.leaderboard, [], None, FEW
        there = [row["agent_id"] for row in board.rows(wanted=wanted)["rows"]]
        while True:
            answer, cursor = board.page(cursor, 0, 7, wanted)
            seen += answer["rows"]
            if cursor is None:
                break
            with application._database.write() as connection:  # ahead of all, in the middle, and behind all
                for place, clv in enumerate((10**6, 45, -1)):
                    run = {"run_id": f"run_{place:08}", "agent_id": f"late {number}", "owner": f"did:x:late{number}"}
                    standings.add(connection, [result_of(number, old=False) | run | {"total_clv_bps": clv}], "not_anchored")
                    number += 1

    names = [row["agent_id"] for row in seen]
    assert len(set(names)) == len(names) > len(there)
    assert [name for name in names if name in there] == there
    assert [row["rank"] for row in seen] == list(range(1, len(seen) + 1))


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "1", "1.", ".AAAA", "-1.AAAA", "1.A", "1.AAA", "1.****", "1.A===", "1.\u00e9", "1.AAAA\n", "9" * 20 + ".AAAA"],
)
def test_a_cursor_of_another_list_is_refused(cursor):
    with filled(FEW) as application, pytest.raises(PageError, match="was not given by a page of this list"):
        application.leaderboard.page(cursor)


def test_a_cursor_beyond_the_last_row_is_an_empty_page():
    with filled(FEW) as application:
        assert application.leaderboard.page("70._____w==") == ({"rows": []}, None)


def test_counts_of_the_log_are_those_of_its_entries(database_url):
    database = Database(database_url)
    with RunLog(database).write() as rows:
        for number in range(60):
            owner, pack = f"o{number % 3}", None if number % 5 == 0 else f"sha256:{number % 2}"
            commit(rows, f"run_{number}", owner, "sha256:1", pack, number)
        entries = [orjson.loads(entry) for _, entry in rows.page(0, 1000)]
        for size in (0, 1, 17, 60):
            for owner in ("o0", "o1", "o2", "none"):
                for pack in (None, "sha256:0", "sha256:1"):
                    own = [e for e in entries[:size] if e["owner"] == owner and e.get("content_hash") == pack]
                    assert rows.pack_tally(owner, pack, "COMMIT", size) == len(own)
    database.close()
