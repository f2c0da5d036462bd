import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from clvlab.arena.application import Application
from clvlab.arena.competitions.requests import AgentEntry
from clvlab.arena.runs.runs import RunFilter
from clvlab.errors import StoreError
from clvlab.log.log import commit
from clvlab.store import migrations
from clvlab.store.database import Database
from clvlab.store.migrations import _config
from clvlab.store.runlog import RunLog
from clvlab.store.tables import metadata
from tests.factories import ALICE, BOB, make_competition
from tests.postgres import say

STEPS = [
    (step.revision, step.down_revision or "base", step.module)
    for step in ScriptDirectory.from_config(_config(None)).walk_revisions()
]
FOR_GOOD = {"0010"}
SCHEMAS = Path(__file__).parent / "schemas"


def url_of(kind, request, tmp_path):
    return f"sqlite:///{tmp_path / 'store.db'}" if kind == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """A database with its tables, and an entry in its log."""
    url = url_of(request.param, request, tmp_path)
    database = Database(url)
    with RunLog(database).write() as rows:
        commit(rows, "run_1", "o", "sha256:1", "sha256:2", 5)
    yield database
    database.close()


@pytest.mark.parametrize("module", [module for _, _, module in STEPS], ids=[revision for revision, _, _ in STEPS])
def test_every_migration_can_be_undone_or_says_why_not(module):
    assert callable(module.downgrade)
    assert len(module.downgrade.__doc__) > 20
    if module.revision in FOR_GOOD:
        with pytest.raises(StoreError, match="schema"):
            module.downgrade()


def test_a_database_goes_down_as_far_as_it_can_and_up_again(database):
    undone = []
    for revision, older, _ in STEPS:
        if revision in FOR_GOOD:
            break
        with database.write() as connection:
            migrations.downgrade(connection, older)
            undone.append(MigrationContext.configure(connection).get_current_revision())
            tables = inspect(connection).get_table_names()
        assert "log_entries" in tables

    with database.write() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) != []
        newest = migrations.upgrade(connection)
        differences = compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)
        entries = connection.execute(text("SELECT run_id FROM log_entries")).all()

    assert undone == [older for revision, older, _ in STEPS if revision not in FOR_GOOD]
    assert newest == STEPS[0][0]
    assert differences == []
    assert entries == [("run_1",)]


def test_what_would_lose_something_for_good_is_refused_and_changes_nothing(database):
    with pytest.raises(StoreError, match="no older schema"), database.write() as connection:
        migrations.downgrade(connection, "base")

    with database.write() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata) == []


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_competition_over_several_fixtures_keeps_its_schema_until_it_is_over(kind, request, tmp_path):
    url = url_of(kind, request, tmp_path)
    application = Application(url)
    competition_id = make_competition(application, "baseline", fixture_ids=[90000000, 90000001])
    database = Database(url)

    with pytest.raises(StoreError, match="several fixtures"), database.write() as connection:
        migrations.downgrade(connection, "0012")

    application.competitions.start(ALICE, competition_id)
    application.close()
    with database.write() as connection:
        migrations.downgrade(connection, "0012")
    database.close()
    again = Application(url)
    assert again.competitions.state(competition_id)["status"] == "finalized"
    again.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_rows_of_an_older_leaderboard_get_their_names_ranks_and_facts(kind, request, tmp_path):
    url = url_of(kind, request, tmp_path)
    application = Application(url)
    competition_id = make_competition(application, "baseline", "cumulative-drift", fixture_id=90000000, roster_size=3)
    wait = {"fixture_id": 90000000, "tick_seq": 0, "action": "WAIT"}
    application.competitions.register(
        ALICE, competition_id, AgentEntry(agent_id="llm", strategy="llm", config={"transcript": [wait]})
    )
    application.competitions.start(ALICE, competition_id)
    for owner in (BOB, ALICE):
        application.competitions.start(owner, make_competition(application, "baseline", owner=owner, fixture_id=90000001))
    before = application.leaderboard.rows()
    application.close()
    database = Database(url)
    with database.write() as connection:
        migrations.downgrade(connection, "0010")
        assert connection.execute(text("SELECT count(*) FROM standings")).scalar() == 4
    database.close()

    again = Application(url)

    assert again.leaderboard.rows() == before
    assert {row["causality"] for row in before["rows"]} == {"template", "transcript"}
    assert again.leaderboard.rebuild() == []
    assert again.leaderboard.rows() == before
    again.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def written_at_0010(request, tmp_path):
    """URL of a database that the last version before migration 0011 wrote: a competition with one sealed run."""
    url, dump = url_of(request.param, request, tmp_path), (SCHEMAS / f"0010.{request.param}.sql").read_text()
    if request.param == "postgresql":
        say(url, dump)
    else:
        with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
            connection.executescript(dump)
    return url


@contextmanager
def connected(url):
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def schema_of(connection):
    """All that a database says of its tables."""
    inspector = inspect(connection)
    found = {}
    for name in inspector.get_table_names():
        columns = [column | {"type": str(column["type"])} for column in inspector.get_columns(name)]
        keys = [inspector.get_pk_constraint(name), *inspector.get_foreign_keys(name), *inspector.get_unique_constraints(name)]
        checks = inspector.get_check_constraints(name)
        found[name] = (columns, sorted(map(str, (*keys, *checks, *inspector.get_indexes(name)))))
    triggers = {
        "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name",
        "postgresql": "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY tgname",
    }
    return found, connection.execute(text(triggers[connection.dialect.name])).all()


def test_the_first_migration_makes_the_schema_that_databases_at_0010_have(written_at_0010, tmp_path):
    with connected(written_at_0010) as connection:
        expected = schema_of(connection)
    if written_at_0010.startswith("sqlite"):
        empty = f"sqlite:///{tmp_path / 'empty.db'}"
    else:
        say(written_at_0010, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
        empty = written_at_0010

    with connected(empty) as connection:
        command.upgrade(_config(connection), "0010")
        assert schema_of(connection) == expected


def test_a_database_at_0010_is_upgraded_with_its_runs_rows_and_log(written_at_0010):
    application = Application(written_at_0010)

    (competition,) = application.competitions.page()[0]
    (row,) = application.leaderboard.rows()["rows"]
    verified = application.runs.verify(competition["run_id"])
    (listed,) = application.runs.page(wanted=RunFilter(agent_id="baseline"))["runs"]
    standing = application.runs.log_standing(competition["run_id"])

    assert competition["created_ts_ms"] < competition["updated_ts_ms"]
    assert competition["created_ts_ms"] < listed["created_ts_ms"] < listed["sealed_ts_ms"] <= listed["updated_ts_ms"]
    assert (standing["tree_size"], set(standing["claim"].values())) == (2, {0})
    assert (row["agent_id"], row["total_clv_bps"], row["action_count"], row["causality"]) == ("baseline", -160, 4, "template")
    assert (verified["verified"], "fail" in verified["checks"].values()) == (True, False)
    assert application.leaderboard.rebuild() == []
    with application.runs.database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata) == []
    application.close()


@pytest.mark.parametrize("schema", ["0003", "0007", "0009"])
def test_a_database_of_an_older_schema_is_refused_with_its_schema_and_what_upgrades_it(database, schema):
    with database.write() as connection:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{schema}'"))

    for act in (migrations.upgrade, migrations.check):
        with pytest.raises(StoreError) as refused, database.write() as connection:
            act(connection)
        assert str(refused.value) == (
            f"the database has schema {schema}, and this version upgrades from schema 0010: open it once with clvlab at commit "
            "dea3e48, which brings it to schema 0010, and then with this version"
        )

    with database.write() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == schema
        assert connection.execute(text("SELECT run_id FROM log_entries")).all() == [("run_1",)]
