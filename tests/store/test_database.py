import gc
import sqlite3
import warnings
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, func, insert, select, text

from clvlab.api.backtests import StoredReport
from clvlab.api.competitions import AgentErrorCause, CompetitionSummaryResponse, RosterEntry, RuntimeEvent
from clvlab.api.runs import RunSummary
from clvlab.errors import StoreError, StoreFullError, StoreUnreachableError
from clvlab.log.log import commit
from clvlab.store import migrations, tables
from clvlab.store.competitions import CompetitionRow
from clvlab.store.database import Database, columns, rows
from clvlab.store.instances import InstanceRow
from clvlab.store.runlog import RunLog
from clvlab.store.runs import RunLife, RunRow
from clvlab.store.standings import ResultRow, StandingRow
from clvlab.store.tables import idempotency, instances, metadata
from clvlab.store.uploads import UploadRow


@pytest.fixture
def database(database_url):
    opened = Database(database_url)
    yield opened
    opened.close()


def instance(number, record=None):
    return {
        "instance_id": f"inst_{number}", "owner": "did:a", "template": "baseline", "run_id": "run_1", "record": record or {},
        "next_event_id": 1, "created_ts_ms": 0,
    }  # fmt: skip


def count(database):
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(instances)).scalar_one()


def test_migrations_make_exactly_the_tables_of_the_code(database):
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata) == []


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (tables.runs, RunRow), (tables.runs, RunSummary), (tables.runs, RunLife), (tables.reports, StoredReport),
        (tables.agent_errors, AgentErrorCause),
        (tables.competitions, CompetitionRow), (tables.competitions, CompetitionSummaryResponse), (tables.roster, RosterEntry),
        (tables.instances, InstanceRow), (tables.runtime_events, RuntimeEvent), (tables.uploads, UploadRow),
        (tables.agent_results, ResultRow), (tables.standings, StandingRow),
    ],
)  # fmt: skip
def test_a_row_may_be_null_wherever_its_columns_may(table, kind):
    hints = get_type_hints(kind)

    nullable = [column.name for column in columns(table, kind) if column.nullable]

    assert [name for name in nullable if type(None) not in get_args(hints[name])] == []


def test_a_row_has_the_fields_of_its_type_in_their_order_under_plain_names(database):
    with database.write() as connection:
        connection.execute(insert(instances), instance(1, {"config": {"stake": 5}}))
        connection.execute(insert(instances), instance(2))
        query = select(*columns(instances, InstanceRow)).order_by(instances.c.instance_id)
        found = rows(connection, query, InstanceRow)

    assert [list(row) for row in found] == 2 * [list(InstanceRow.__annotations__)]
    assert {type(name) for row in found for name in row} == {str}
    assert [row["record"] for row in found] == [{"config": {"stake": 5}}, {}]


def test_log_of_an_older_schema_keeps_its_entries_and_goes_on(postgres_url, tmp_path):
    for url in (postgres_url, f"sqlite:///{tmp_path / 'old.db'}"):
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            config = Config(attributes={"connection": connection})
            config.set_main_option("script_location", str(Path(migrations.__file__).parent))
            command.upgrade(config, "0010")
            for statement in (
                "INSERT INTO log_entries (idx, kind, run_id, owner, entry) VALUES (0, 'COMMIT', 'run_1', 'o', :bytes)",
                "INSERT INTO log_nodes (level, idx, hash) VALUES (0, 0, :bytes)",
            ):
                connection.execute(text(statement), {"bytes": b"{}"})
        engine.dispose()

        opened = Database(url)
        with RunLog(opened).write() as rows:
            assert (rows.size(), rows.entry(0)) == (1, b"{}")
            assert (rows.pack_tally("o", None, "COMMIT", 1), rows.pack_tally("o", "sha256:1", "COMMIT", 1)) == (1, 0)
            assert commit(rows, "run_2", "o", "sha256:2", "sha256:1", 5) == 1
            assert (rows.pack_tally("o", None, "COMMIT", 2), rows.pack_tally("o", "sha256:1", "COMMIT", 2)) == (1, 1)
        with pytest.raises(StoreError, match="append-only"), opened.write() as connection:
            connection.execute(text("UPDATE log_entries SET content_hash = 'sha256:1' WHERE idx = 0"))
        opened.close()


def test_a_database_that_nobody_closed_lets_its_connections_go_without_a_warning(database_url):
    database = Database(database_url)
    with database.read() as one, database.read() as other:
        assert one is not other
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del database, one, other
        gc.collect()
    assert told == []


def test_a_connection_in_use_is_closed_when_its_transaction_ends_after_the_database_was_closed(emptied_postgres_url):
    database = Database(emptied_postgres_url)

    with database.read() as connection:
        used = connection.connection.driver_connection
        database.close()
        connection.execute(text("SELECT 1"))

    assert used.closed


def test_a_transaction_that_fails_leaves_nothing(database):
    def write():
        with database.write() as connection:
            connection.execute(insert(instances).values(instance(1)))
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        write()

    assert count(database) == 0


def test_a_row_that_breaks_a_rule_of_its_table_is_refused_with_all_of_its_transaction(database):
    key = {"owner": "did:a", "key": "k", "fingerprint": "f", "instance_id": "absent", "created_ts_ms": 0}

    def write():
        with database.write() as connection:
            connection.execute(insert(instances).values(instance(1)))
            connection.execute(insert(idempotency).values(key))

    with pytest.raises(StoreError, match="refused"):
        write()

    assert count(database) == 0


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, True]}, {"text": 'nul \x00, quote ", é, \U0001f600'}, {}])
def test_json_comes_back_as_it_was(database, value):
    with database.write() as connection:
        connection.execute(insert(instances).values(instance(1, value)))

    with database.read() as connection:
        assert connection.execute(select(instances.c.record)).scalar_one() == value


def test_what_was_written_is_there_after_opening_again(postgres_url, tmp_path):
    for url in (postgres_url, f"sqlite:///{tmp_path / 'store.db'}"):
        first = Database(url)
        with first.write() as connection:
            connection.execute(insert(instances).values(instance(1)))
        first.close()

        again = Database(url)
        assert count(again) == 1
        again.close()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://nobody@127.0.0.1:1/none",
        "sqlite:////nowhere/at/all/store.db",
        "mysql://localhost/none",
        "no url",
    ],
)
def test_a_database_that_is_configured_and_not_there_is_an_error_not_a_fallback(url):
    with pytest.raises(StoreUnreachableError):
        Database(url)


def test_a_file_that_is_no_database_is_named(tmp_path):
    path = tmp_path / "store.db"
    path.write_bytes(b"not a database, though long enough to look like one" * 100)

    with pytest.raises(StoreUnreachableError, match="not a database"):
        Database(f"sqlite:///{path}")


def test_a_schema_of_a_later_version_is_refused(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    Database(url).close()
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()

    with pytest.raises(StoreError, match="9999"):
        Database(url)


def test_a_file_is_written_ahead_and_flushed_at_every_commit(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'store.db'}")

    with database.read() as connection:
        pragmas = [connection.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("journal_mode", "synchronous")]

    assert pragmas == ["wal", 2]
    database.close()


def test_a_full_disk_keeps_what_was_committed_and_nothing_of_the_rest(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'store.db'}")
    with database.write() as connection:
        connection.execute(insert(instances).values(instance(1)))
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
    with database.write() as connection:
        connection.execute(text(f"PRAGMA max_page_count={pages + 4}"))

    def fill():
        with database.write() as connection:
            for number in range(2, 200):
                connection.execute(insert(instances).values(instance(number, {"text": "x" * 1000})))

    with pytest.raises(StoreFullError):
        fill()

    assert count(database) == 1
    with database.write() as connection:
        connection.execute(text("PRAGMA max_page_count=1000000"))
        connection.execute(insert(instances).values(instance(2)))
    assert count(database) == 2
    database.close()


def test_migrations_are_part_of_the_package():
    import clvlab.store.migrations

    assert list((Path(clvlab.store.migrations.__file__).parent / "versions").glob("0010_*.py"))


@pytest.mark.parametrize("text_id", ["nul \x00", "lone \ud800", "\x00", "x" * 100_000])
def test_an_id_that_no_database_can_hold_is_found_nowhere(database, text_id):
    with database.read() as connection:
        assert connection.execute(select(instances).where(instances.c.instance_id == text_id)).first() is None


def test_a_reading_transaction_sees_one_state_throughout(postgres_url, tmp_path):
    for url in (postgres_url, f"sqlite:///{tmp_path / 'store.db'}"):
        database = Database(url)
        with database.read() as connection:
            before = connection.execute(select(func.count()).select_from(instances)).scalar_one()
            with database.write() as other:
                other.execute(insert(instances).values(instance(1)))
            during = connection.execute(select(func.count()).select_from(instances)).scalar_one()

        assert (before, during, count(database)) == (0, 0, 1)
        database.close()
