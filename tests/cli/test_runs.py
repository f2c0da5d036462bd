import json
import re
import shlex
import shutil
import sys
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

import clvlab as cl
from clvlab.arena.packs import open_pack
from clvlab.cli.options import params_of
from clvlab.cli.runs import _show_narrow
from clvlab.cli.search import _spelt
from clvlab.errors import UnknownRunError
from clvlab.report.run_list import find_run, listed_runs
from clvlab.runs.execute import execute
from clvlab.runs.run_folder import FolderRecorder
from clvlab.runs.spec import backtest_spec
from tests.commands import clvlab

SIGNATURES = "cryptography.hazmat.primitives.asymmetric.ed25519"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    ids = []
    for agent in ("baseline", "cumulative-drift"):
        code, out, err = clvlab(folder, "backtest", "starter", "--agent", agent, "--json")
        assert code == 0, err
        ids.append(json.loads(out)["run_id"])
    return folder, ids


def test_a_backtest_says_first_what_its_interval_allows(tmp_path):
    code, out, _ = clvlab(tmp_path, "backtest", "starter", "--fixture", "90000000")

    assert code == 0
    assert out.startswith("baseline: Not distinguishable from zero, by the line or at its prices: ")
    assert "over 1 fixture, too few for an interval" in out.partition("\n")[0]
    assert "1 fixtures" not in out


def test_what_goes_into_a_pipe_has_neither_boxes_nor_colours(made):
    folder, _ = made

    said = "".join(clvlab(folder, *call)[1] for call in (["runs"], ["show", "latest"], ["--help"]))

    assert not [char for char in said if "\u2500" <= char <= "\u257f" or char == "\x1b"]


def test_runs_stay_readable_in_a_narrow_terminal(made, monkeypatch):
    folder, ids = made
    terminal = Console(file=StringIO(), force_terminal=True, width=40, highlight=False, soft_wrap=True, color_system=None)
    monkeypatch.setattr("clvlab.cli.output.out", terminal)

    for run in listed_runs(folder / "runs"):
        _show_narrow(run)

    lines = terminal.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert [line for line in lines if line in ("baseline", "cumulative-drift")] == ["cumulative-drift", "baseline"]
    assert len([line for line in lines if line.startswith("  verified: ")]) == len(ids)


def test_a_proof_is_made_of_the_latest_run(made, tmp_path):
    folder, ids = made

    code, _, err = clvlab(folder, "bundle", "latest", "--out", str(tmp_path / "latest.clv"))

    assert code == 0, err
    assert ids[-1] in clvlab(folder, "verify", str(tmp_path / "latest.clv"))[1]


def test_an_import_without_odds_names_what_is_missing(tmp_path):
    code, _, err = clvlab(tmp_path, "packs", "import", "--out", "mine")

    assert code == 2
    assert "packs import odds.csv --out my-pack" in " ".join(err.split())


def test_runs_are_listed_newest_first_with_their_interval(made):
    folder, ids = made

    code, out, _ = clvlab(folder, "runs", "--json")

    listed = json.loads(out)
    assert code == 0
    assert [run["run_id"] for run in listed] == ids[::-1]
    assert all(one["low"] < one["mean_clv_bps"] < one["high"] for run in listed for one in run["agents"])
    assert {run["verified"] for run in listed} == {None}


def test_a_run_that_was_changed_is_listed_as_not_verified(made, tmp_path):
    folder, ids = made
    shutil.copytree(folder / "runs", tmp_path / "runs")
    scores = tmp_path / "runs" / ids[0] / "scores.jsonl"
    scores.write_bytes(scores.read_bytes()[:-2] + b"\n")

    code, out, _ = clvlab(tmp_path, "runs", "--verify", "--json")

    assert code == 1
    assert {run["run_id"]: run["verified"] for run in json.loads(out)} == {ids[0]: False, ids[1]: True}


def test_several_runs_are_verified_at_once_by_folder_id_prefix_and_latest(made):
    folder, ids = made

    code, out, _ = clvlab(folder, "verify", f"runs/{ids[0]}", ids[1], ids[0][:12], "latest")

    assert code == 0
    assert out.rstrip().endswith("4 of 4 verified")


def test_one_broken_run_among_several_is_named(made, tmp_path):
    folder, ids = made
    shutil.copytree(folder / "runs", tmp_path / "runs")
    events = tmp_path / "runs" / ids[0] / "events.jsonl"
    events.write_bytes(events.read_bytes() + b"\n")

    code, out, _ = clvlab(tmp_path, "verify", *ids)

    assert code == 1
    assert "1 of 2 verified" in out
    assert f"failed: runs/{ids[0]}" in out


def test_what_begins_several_run_ids_or_none_is_refused(made):
    folder, ids = made

    with pytest.raises(UnknownRunError, match=r"2 runs in .* begin with 'run_'"):
        find_run("run_", folder / "runs")
    with pytest.raises(UnknownRunError, match=f"did you mean '{ids[0]}'"):
        find_run(ids[0][:-1] + "?", folder / "runs")


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (("backtest", "seson"), "season"),
        (("backtest", "starter", "--agent", "basline"), "baseline"),
        (("verify", "lates"), "latest"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(call, meant, tmp_path):
    code, _, err = clvlab(tmp_path, *call)

    assert code == 2
    assert f"did you mean '{meant}'?" in err


def test_two_runs_are_compared_by_fixture(made):
    folder, ids = made

    code, out, _ = clvlab(folder, "compare", *ids, "--json")

    (difference,) = json.loads(out)["differences"]
    assert code == 0
    assert (difference["beside"], difference["agent"]) == ("baseline", "cumulative-drift")
    assert difference["low"] < difference["difference_bps"] < difference["high"]


def test_a_sweep_counts_every_trial_and_those_before(tmp_path):
    call = ("sweep", "starter", "--grid", "warmup_ticks=5,10", "--grid", "cooldown_s=0,3600", "--json")

    alone, more = (json.loads(clvlab(tmp_path, *call, *extra)[1]) for extra in ((), ("--earlier", 96)))

    assert (alone["trials"], more["trials"], len(alone["points"])) == (4, 100, 4)
    assert more["best"]["p_family"] > alone["best"]["p_family"] >= alone["best"]["p_alone"]
    assert alone["tone"] == "unclear"
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_names_the_backtest_of_its_best_point(tmp_path):
    fixtures = [word for number in range(90000000, 90000006) for word in ("--fixture", str(number))]
    call = ("sweep", "starter", "--grid", "warmup_ticks=5", *fixtures, "--market", "1X2", "--horizon-s", "600")
    (point,) = json.loads(clvlab(tmp_path, *call, "--json")[1])["points"]

    hint = shlex.split(re.search("Next: (.*)", clvlab(tmp_path, *call)[1])[1])
    code, out, err = clvlab(tmp_path, *hint[hint.index("backtest") :], "--json")

    assert code == 0, err
    metrics = json.loads(out)["metrics"]
    assert (metrics["valid_count"], metrics["avg_clv_bps"]) == (point["n"], pytest.approx(point["mean_clv_bps"], abs=0.01))


@pytest.mark.parametrize("value", ["kickoff", "5", "true", "a b", 5, 0.5, None, [1, 2]])
def test_a_parameter_is_spelt_so_that_it_is_read_as_it_is(value):
    assert params_of([f"x={_spelt(value)}"]) == {"x": value}


def test_a_report_writes_the_tear_sheet_as_a_page(made):
    folder, ids = made

    code, out, err = clvlab(folder, "report", ids[1][:12], "--html", "sheet.html")

    page = (folder / "sheet.html").read_text("utf-8")
    assert code == 0, err
    assert out.startswith("cumulative-drift: ")
    assert page.startswith("<!DOCTYPE html>")
    assert ids[1] in page


def test_a_report_says_what_taking_offers_would_have_paid(made):
    folder, ids = made

    code, out, err = clvlab(folder, "report", ids[1][:12], "--stake", "25", "--delay-s", "5", "--html", "taken.html")
    told = json.loads(clvlab(folder, "report", ids[1][:12], "--stake", "25", "--commission", "kalshi", "--json")[1])

    assert code == 0, err
    assert "Would it have paid? " in out
    assert "orders of 25, 5 s after the decision" in out
    assert "orders of 25, 5 s after the decision" in (folder / "taken.html").read_text("utf-8").replace("\xa0", " ")
    assert told["executable"]["commission"].startswith("kalshi")
    assert clvlab(folder, "report", ids[1][:12], "--commission", "kalshi")[0] == 2
    assert "0.01 to 10,000,000" in clvlab(folder, "report", ids[1][:12], "--stake", "0")[2]


def test_a_report_on_a_run_of_several_agents_is_on_the_one_that_is_named(tmp_path):
    own, other = (backtest_spec(open_pack("starter"), name) for name in ("cumulative-drift", "baseline"))
    both = replace(own, agents=[*own.agents, *other.agents])
    execute(both, FolderRecorder(tmp_path / "runs", lambda: 1_800_000_000_000), lambda *_: None)

    missing = clvlab(tmp_path, "report", "latest", "--stake", "10")
    assert missing[0] != 0
    assert "has 2 agents: name one of baseline, cumulative-drift with --agent-id" in missing[2]
    assert "has no agent 'nobody'" in clvlab(tmp_path, "report", "latest", "--agent-id", "nobody")[2]
    for name in ("cumulative-drift", "baseline"):
        code, out, err = clvlab(tmp_path, "report", "latest", "--agent-id", name, "--stake", "10", "--json")
        assert code == 0, err
        alone, said = cl.backtest("starter", name), json.loads(out)
        assert said["executable"]["summary"] == alone.executable(stake=10).summary.to_dicts()
        assert said["metrics"] == alone.report["metrics"]


def test_the_doctor_names_the_command_for_what_is_missing(tmp_path, monkeypatch):
    from clvlab.arena import installation

    monkeypatch.setattr(installation, "find_spec", lambda module: None if module == "obstore" else object())

    code, out, _ = clvlab(tmp_path, "doctor")

    assert code == 0
    assert f'lacks obstore: {shlex.quote(sys.executable)} -m pip install "clvlab[remote]"' in out
    assert "season     verified" in out


@pytest.mark.parametrize(
    ("lacking", "command", "installs"),
    [
        ("clvlab_service.server", "service serve --dev", 'into this environment: {} -m pip install "clvlab[service]"'),
        (SIGNATURES, "log keygen log.example --out key.txt", 'into this environment: {} -m pip install "clvlab[anchor]"'),
        ("clvlab.anchor.devchain", "devchain", 'into this environment: {} -m pip install "clvlab[anchor]"'),
        ("matplotlib", "report latest --html sheet.html", "into this environment: {} -m pip install matplotlib"),
    ],
)
def test_a_command_that_lacks_a_library_names_what_installs_it_here(made, lacking, command, installs, monkeypatch):
    monkeypatch.setitem(sys.modules, lacking, None)

    code, out, said = clvlab(made[0], *command.split())

    assert (code, out) == (2, "")
    assert said.endswith(f"\n{installs.format(shlex.quote(sys.executable))}\n")


def test_agents_are_compared_over_a_pack_as_their_runs_are(made):
    folder, ids = made
    over_runs = json.loads(clvlab(folder, "compare", *ids, "--json")[1])

    code, out, err = clvlab(folder, "compare", "--pack", "starter", "baseline", "cumulative-drift", "--json")

    assert code == 0, err
    found = json.loads(out)
    assert found["differences"] == over_runs["differences"]
    assert [run["run_id"] for run in found["runs"]] == ids


def test_an_agent_that_is_none_is_refused_by_name(made):
    code, _, err = clvlab(made[0], "compare", "--pack", "starter", "baseline", "cumulative-drifts")

    assert code == 2
    assert "cumulative-drifts" in err


def test_a_bundle_and_a_demo_are_said_as_data(made, tmp_path):
    folder, ids = made
    code, out, _ = clvlab(folder, "bundle", f"runs/{ids[0]}", "--out", "one.clv", "--json")
    assert code == 0
    assert json.loads(out) == {"bundle": "one.clv", "bytes": (folder / "one.clv").stat().st_size}

    code, out, _ = clvlab(tmp_path, "demo", "--json")
    assert code == 0
    found = json.loads(out)
    assert [one["verified"] for one in found] == [True, True]
    assert all((tmp_path / one["run_folder"] / "manifest.json").is_file() for one in found)
