"""What a plan holds out stays shut, however it is come by."""

import json
import pickle
import shutil

import pytest
from typer.testing import CliRunner

import clvlab as cl
from clvlab.arena.log.operations import open_log
from clvlab.arena.run_store import KeptRuns
from clvlab.arena.searches import Searches
from clvlab.cli.app import app
from clvlab.errors import HeldOutError, PackTamperedError, StatisticsError
from clvlab.runs.spec import backtest_spec
from clvlab.sources.capture.replay import ReplayFeed
from clvlab.store.database import Database
from tests.factories import kept_run, write_quotes
from tests.logs import audited

GRID = {"warmup_ticks": [3, 5]}
MATCHES = 10


def odds(folder, name="mine", *, twins=(), step=1):
    """Write odds of matches, one a day; the second of two twins is quoted as the first."""
    like = [twins[0] if match in twins else match for match in range(MATCHES)]
    return write_quotes(folder / f"{name}.csv", [(match, f"2026-03-{match + 1:02d}") for match in like], step)


@pytest.fixture
def lab(tmp_path):
    with cl.Lab(tmp_path / "lab.db") as made:
        yield made


def log_of(tmp_path):
    with open_log(tmp_path / "lab.db") as log, log.read() as rows:
        return [rows.entry(index) for index in range(rows.size())]


def test_a_pack_that_was_opened_before_the_plan_is_bound_by_it(lab, tmp_path):
    pack = lab.import_odds("csv", odds(tmp_path))
    other = lab.import_odds("csv", odds(tmp_path, "other"))
    plan = lab.plan(pack, "cumulative-drift", GRID, hold_out=0.5)

    for one in (pack, other, pickle.loads(pickle.dumps(pack))):
        with pytest.raises(HeldOutError):
            one.ticks(list(plan.held_out))
        with pytest.raises(HeldOutError):
            _ = one.price_path(fixture_ids=plan.held_out).frame
        assert set(one.ticks(list(plan.training))["fixture_id"]) == set(plan.training)


def test_a_pack_outlives_its_laboratory(tmp_path):
    with cl.Lab(tmp_path / "lab.db") as lab:
        pack = lab.import_odds("csv", odds(tmp_path))

    assert pack.ticks().height == 2 * 40 * MATCHES


@pytest.mark.parametrize("shift", [True, False])
def test_no_replay_plays_what_is_held_out(lab, tmp_path, shift):
    plan = lab.plan("starter", "cumulative-drift", GRID, hold_out=0.5)
    feed = ReplayFeed(pack=cl.open_pack("starter").source, speed=1e9, shift=shift)

    with pytest.raises(HeldOutError):
        lab.live("cumulative-drift", feed, fixture=plan.held_out[0], progress=False)
    with pytest.raises(HeldOutError):
        lab.live("cumulative-drift", feed, progress=False)
    with pytest.raises(HeldOutError):
        lab.capture(feed, tmp_path / "captured", fixtures=plan.held_out[:1], progress=False)
    captured = lab.capture(feed, tmp_path / "captured", fixtures=plan.training[:1], progress=False)
    assert captured.fixture_ids == plan.training[:1]


def test_a_plan_made_meanwhile_refuses_one_over_the_same_fixtures(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'lab.db'}")
    searches, pack = Searches(database, "local", lambda: 1), cl.open_pack("starter").source
    held = pack.fixture_ids[:6]
    payload = {"fixture_ids": list(pack.fixture_ids)}

    searches.plan(payload | {"grid": 1}, pack, held)
    with pytest.raises(HeldOutError):
        searches.plan(payload | {"grid": 2}, pack, held)  # the pack was opened before the first plan

    assert len(log_of(tmp_path)) == 1
    database.close()


def test_a_run_that_was_asked_for_before_the_plan_is_not_committed_to_after_it(tmp_path):
    kept = KeptRuns(f"sqlite:///{tmp_path / 'lab.db'}")
    run, pack = backtest_spec(cl.open_pack("starter").source), cl.open_pack("starter").source

    kept.searches.plan({"fixture_ids": list(pack.fixture_ids)}, pack, pack.fixture_ids[:6])
    with pytest.raises(HeldOutError):
        kept_run(kept, run)

    assert [b'"kind":"PLAN"' in entry for entry in log_of(tmp_path)] == [True]
    kept.close()


def test_without_kickoffs_a_hold_out_is_random_or_named(lab, tmp_path):
    lines = odds(tmp_path).read_text().splitlines()
    without = [",".join([*line.split(",")[:2], *line.split(",")[3:]]) for line in lines]
    (tmp_path / "bare.csv").write_text("\n".join(without) + "\n")
    pack = lab.import_odds("csv", tmp_path / "bare.csv")

    with pytest.raises(StatisticsError, match="has no kickoff: hold out by='random', or name the fixtures"):
        lab.plan(pack, "cumulative-drift", GRID, hold_out=0.5)
    assert len(lab.plan(pack, "cumulative-drift", GRID, hold_out=0.5, by="random").held_out) == 5


def test_no_run_in_a_folder_is_committed_to_in_its_log(lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = lab.plan("starter", "cumulative-drift", GRID, hold_out=0.5)
    asked = ["backtest", "starter", "--log", str(tmp_path / "lab.db"), "--fixture"]

    refused = CliRunner().invoke(app, [*asked, str(plan.held_out[0])])
    done = CliRunner().invoke(app, [*asked, str(plan.training[0])])

    assert isinstance(refused.exception, HeldOutError)
    assert (done.exit_code, len(log_of(tmp_path))) == (0, 3)


def test_a_fixture_and_its_twin_are_held_out_together_or_not_at_all(lab, tmp_path):
    pack = lab.import_odds("csv", odds(tmp_path, twins=(2, 7)))
    digests = {one.fixture_id: one.digest for one in pack.source.manifest.fixtures}
    first, second = (one for one in digests if list(digests.values()).count(digests[one]) == 2)
    others = [one for one in digests if one not in (first, second)]

    with pytest.raises(StatisticsError, match=f"fixture {first} .* while {second} is searched"):
        lab.plan(pack, "cumulative-drift", GRID, hold_out=[first, *others[:4]])
    assert log_of(tmp_path) == []
    assert lab.plan(pack, "cumulative-drift", GRID, hold_out=[first, second, *others[:3]]).sweep(progress=False).trials == 2


def test_a_pack_that_changed_since_is_neither_searched_nor_opened(lab, tmp_path):
    lab.import_odds("csv", odds(tmp_path))
    with cl.Lab(tmp_path / "elsewhere.db") as elsewhere:
        elsewhere.import_odds("csv", odds(tmp_path, step=2))
    folder = tmp_path / "folder" / "mine"
    shutil.copytree(tmp_path / "lab.packs" / "mine", folder)
    plan = lab.plan(folder, "cumulative-drift", GRID, hold_out=0.5)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "elsewhere.packs" / "mine", folder)

    for call in (plan.open, lambda: plan.open({"warmup_ticks": 3}), lambda: plan.sweep(progress=False)):
        with pytest.raises(PackTamperedError, match=plan.plan_id):
            call()

    assert len(log_of(tmp_path)) == 1  # nothing was opened
    assert dict(plan.frame.rows())["opened"] == "not yet"


def test_trials_over_the_same_fixtures_under_another_name_count(lab, tmp_path):
    lab.sweep(lab.import_odds("csv", odds(tmp_path, "one")), "cumulative-drift", GRID, progress=False)
    renamed = lab.import_odds("csv", odds(tmp_path, "two"))

    facts = dict(lab.plan(renamed, "cumulative-drift", GRID, hold_out=0.5).frame.rows())

    assert facts["trials over these fixtures' packs before the plan"] == "2"


def test_the_card_says_which_other_plans_opened_the_same_fixtures(lab, tmp_path):
    first = lab.plan("starter", "cumulative-drift", GRID, hold_out=0.5)
    assert dict(first.frame.rows())["opened by other plans"] == "never"
    first.open({"warmup_ticks": 3})  # entries 1 to 3

    second = lab.plan("starter", "cumulative-drift", {"warmup_ticks": [7]}, hold_out=0.5)
    second.open({"warmup_ticks": 7})

    assert dict(second.frame.rows())["opened by other plans"] == "1 before it, as 1"
    assert dict(first.frame.rows())["opened by other plans"] == f"1 since, as {second.index + 1}"
    assert "opened once, with 1 opening by other plans" in repr(second)
    assert audited(log_of(tmp_path)).broken == []


def test_an_audit_says_which_plans_were_opened(lab, tmp_path):
    plan = lab.plan("starter", "cumulative-drift", GRID, hold_out=0.5)
    plan.open({"warmup_ticks": 3})
    plan.open({"warmup_ticks": 5}, again=True)

    found = CliRunner().invoke(app, ["log", "audit", str(tmp_path / "lab.db")])
    facts = json.loads(CliRunner().invoke(app, ["log", "audit", str(tmp_path / "lab.db"), "--json"]).stdout)

    assert f"{plan.plan_id} of laboratory, planned at entry 0: opened 2 times" in " ".join(found.stdout.split())
    assert [len(one["opened"]) for one in facts["plans"]] == [2]
