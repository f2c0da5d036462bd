import importlib

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from clvlab.arena.application import Application
from clvlab.arena.competitions.requests import AgentEntry
from clvlab.errors import StoreError
from clvlab.log.log import commit
from clvlab.store import migrations
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog
from clvlab.store.tables import metadata
from tests.factories import ALICE, BOB, make_competition

config = Config()
config.set_main_option("script_location", str(importlib.import_module("clvlab.store.migrations").__path__[0]))
STEPS = [
    (step.revision, step.down_revision or "base", step.module) for step in ScriptDirectory.from_config(config).walk_revisions()
]
FOR_GOOD = {"0003", "0004", "0005"}


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
    with pytest.raises(StoreError, match="schema 0004"), database.write() as connection:
        migrations.downgrade(connection, "0004")

    with database.write() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata) == []


def test_uploads_on_record_are_not_dropped(database):
    row = "('o', 'p', 'sha256:1', 'x', false, '[]', 1, '{}', 1)"
    with database.write() as connection:
        connection.execute(text(f"INSERT INTO uploads VALUES {row}"))

    with pytest.raises(StoreError, match="has uploads"), database.write() as connection:
        migrations.downgrade(connection, "0006")

    with database.write() as connection:
        assert connection.execute(text("SELECT owner FROM uploads")).all() == [("o",)]


def test_deflated_runs_are_not_left_to_a_version_that_can_not_read_them(tmp_path):
    application = Application(f"sqlite:///{tmp_path / 'store.db'}")
    application.deploys.deploy(ALICE, {"strategy": "baseline", "source_mode": "replay", "pack_id": "starter"})
    assert application.jobs.run_one()
    application.close()
    database = Database(f"sqlite:///{tmp_path / 'store.db'}")

    with pytest.raises(StoreError, match="deflated"), database.write() as connection:
        migrations.downgrade(connection, "0007")

    database.close()


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
