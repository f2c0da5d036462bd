"""How much runs take up, who may take up how much, and what is left of a run that was removed."""

from functools import partial

import pytest
from pydantic import ValidationError
from sqlalchemy import func, select

from clvlab.arena.application import Application
from clvlab.arena.caps import Budget
from clvlab.arena.deploys.config import DeployConfig
from clvlab.arena.report_requests import BacktestRunRequest, PackBacktestRequest
from clvlab.errors import PackReplayError, RunRemovedError, StorageSpentError, UnknownBacktestError, UnknownRunError
from clvlab.store.tables import backtest_requests, receipts, reports, run_chunks, runs, usage
from tests.commands import clvlab
from tests.factories import ALICE, make_competition

FIELDS = {"pack_id": "starter", "fixture_id": 90000001, "window_id": "w1", "market_allowlist": [""]}
DAY_MS = 86_400_000


@pytest.fixture
def aging(database_url):
    """An application whose clock the test sets."""
    days = [0.0]
    opened = Application(database_url, clock=lambda: 1_800_000_000_000 + round(days[0] * DAY_MS))
    yield opened, days
    opened.close()


def asked(application, **fields):
    return application.backtests.run(BacktestRunRequest(**FIELDS | fields))


def used(application):
    with application._database.read() as connection:
        return {row.owner: row.bytes for row in connection.execute(select(usage))}


def test_bytes_of_runs_are_counted_by_who_committed_to_them(application):
    asked(application)
    once = used(application)
    asked(application)
    asked(application, window_id="other")
    competition_id = make_competition(application, "baseline", "cumulative-drift")
    application.competitions.start(ALICE, competition_id)

    found = used(application)
    with application._database.read() as connection:
        lines = connection.execute(select(func.sum(func.length(run_chunks.c.lines)))).scalar_one()
        each = dict(connection.execute(select(runs.c.owner, func.sum(runs.c.stored_bytes)).group_by(runs.c.owner)).all())

    assert once.keys() == {"anonymous"}
    assert once["anonymous"] < found["anonymous"] < 2.2 * once["anonymous"]
    assert found == {owner: int(total) for owner, total in each.items()}
    assert found[ALICE] > 0
    assert lines < sum(found.values())


def test_a_run_that_begins_without_room_is_refused_and_leaves_nothing(database_url):
    application = Application(database_url, budget=Budget(public_bytes=1, owner_bytes=1))
    first = asked(application)
    competition_id = make_competition(application, "baseline")
    application.competitions.start(ALICE, competition_id)

    with pytest.raises(StorageSpentError, match=r"runs without an owner take up [\d,]+ bytes of the 1 allowed"):
        asked(application, window_id="other")
    with pytest.raises(StorageSpentError, match="your runs take up"):
        application.competitions.start(ALICE, make_competition(application, "cumulative-drift"))
    with pytest.raises(StorageSpentError, match="your runs take up"):
        application.deploys.deploy(ALICE, {"strategy": "baseline", "source_mode": "replay", "pack_id": "starter"})

    assert asked(application) == first
    assert len(application.runs.page()["runs"]) == 2
    assert application.deploys.page(ALICE)["instances"] == []
    application.close()


@pytest.mark.parametrize("make", [
    lambda names: BacktestRunRequest(**FIELDS | {"market_allowlist": names}),
    lambda names: PackBacktestRequest(pack_id="starter", fixture_ids=None, market_allowlist=names),
    lambda names: PackBacktestRequest(pack_id="starter", fixture_ids=None, policy={"venue_allowlist": names}),
    lambda names: DeployConfig(strategy="baseline", source_mode="replay", market_allowlist=names),
])  # fmt: skip
@pytest.mark.parametrize(
    ("names", "fits"), [(["x" * 200] * 64, True), (["x"] * 65, False), (["é" * 100], True), (["é" * 101], False)]
)
def test_allowlists_of_requests_are_bounded(make, names, fits):
    if fits:
        make(names)
        return
    with pytest.raises(ValidationError, match=r"at most (64|200)"):
        make(names)


def test_old_runs_without_an_owner_are_removed_and_their_hashes_stay(aging):
    application, days = aging
    old = asked(application)
    competition_id = make_competition(application, "baseline")
    own = application.competitions.start(ALICE, competition_id)["run_id"]
    card, log = application.runs.card(old["run_id"]), application.log.state()
    days[0] = 2
    young = asked(application, window_id="other")
    ranked = application.leaderboard.rows()

    removed, freed = application.retention.apply(1)

    assert removed == 1
    assert freed > 1000
    for read in (
        application.runs.card,
        application.runs.verify,
        application.runs.sealed_run,
        application.runs.bundle,
        application.runs.manifest,
        application.runs.checks,
        application.runs.log_standing,
        partial(application.runs.part, part="events", gzipped=True),
        application.decisions.rows,
    ):
        with pytest.raises(RunRemovedError) as gone:
            read(old["run_id"])
        hashes = {"evidence_hash": gone.value.evidence_hash, "manifest_hash": gone.value.manifest_hash}
        assert hashes == card["evidence"]
    for read in (application.backtests.report, application.backtests.look, application.backtests.tear_sheet):
        with pytest.raises(RunRemovedError):
            read(old["backtest_id"])
    assert application.leaderboard.rows() == ranked
    assert application.leaderboard.rebuild() == []
    assert application.log.state()["size"] == log["size"] + 2  # of the younger run
    assert application.runs.verify(young["run_id"])["verified"]
    assert application.runs.verify(own)["verified"]
    assert application.retention.apply(1) == (0, 0)
    with application._database.read() as connection:
        for table in (run_chunks, receipts, reports, backtest_requests):
            assert not connection.execute(select(table).where(table.c.run_id == old["run_id"])).all()


def test_a_removed_run_that_is_asked_for_again_is_sealed_with_the_same_bytes_and_counts_no_second_time(aging):
    application, days = aging
    old = asked(application)
    before = application.runs.card(old["run_id"])
    bundle, ranked, size, taken = (
        application.runs.bundle(old["run_id"]),
        application.leaderboard.rows(),
        application.log.state()["size"],
        used(application),
    )
    days[0] = 2
    application.retention.apply(1)
    assert used(application) == {"anonymous": 0}

    assert asked(application) == old

    after = application.runs.card(old["run_id"])
    assert after["evidence"] == before["evidence"]
    assert application.runs.bundle(old["run_id"]) == bundle
    assert application.leaderboard.rows() == ranked
    assert application.leaderboard.rebuild() == []
    assert (application.log.state()["size"], used(application)) == (size, taken)
    assert application.retention.apply(1) == (0, 0)


def test_a_removed_run_whose_replay_gives_other_bytes_stays_removed(aging):
    application, days = aging
    old = asked(application)
    days[0] = 2
    application.retention.apply(1)
    with application._database.write() as connection:
        connection.execute(runs.update().values(manifest_hash="sha256:" + "0" * 64))

    with pytest.raises(PackReplayError, match="stored with manifest sha256:0000"):
        asked(application)

    with pytest.raises(RunRemovedError):
        application.runs.card(old["run_id"])


def test_unknown_and_unsealed_runs_are_told_from_removed_ones(application):
    with pytest.raises(UnknownRunError, match="unknown run 'run_x'"):
        application.runs.sealed_run("run_x")
    with pytest.raises(UnknownBacktestError):
        application.backtests.report("bt_x")


def test_the_command_removes_what_is_old(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    application = Application(url)
    asked(application)
    application.close()

    said = [clvlab(tmp_path, "service", "retention", "--days", days, "--database-url", url)[:2] for days in ("1", "0")]

    misspelt = clvlab(tmp_path, "service", "retention", "--days", "0", "--database-url", "sqlite:///stor.db")
    assert (misspelt[0] > 0, misspelt[2]) == (True, "error: no database at 'stor.db'\n")
    assert not (tmp_path / "stor.db").exists()
    assert said[0] == (0, "0 runs were removed, 0 bytes are free\n")
    assert said[1][1].startswith("1 run was removed, ")
