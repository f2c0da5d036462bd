import json
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from clvlab.proof import clv_states, clv_verify
from clvlab.proof.bundle import bundle
from clvlab.proof.closure import violations
from clvlab.store.folder import write_run
from tests.factories import make_sealed_run, make_tape, message

FILES = [Path(module.__file__) for module in (clv_verify, clv_states)]


HEAD = "fixture_id,tick_seq,ts_ms,in_running,market_key,side,prob_bps,odds_milli,suspended,kickoff_ts_ms\n"


@pytest.fixture
def folder(tmp_path):
    return write_run(make_sealed_run(), tmp_path / "runs")


@pytest.fixture
def ticks(tmp_path):
    """The ticks of the sealed run as CSV."""
    tape = make_tape(
        [
            message(0, 0, {"draw": (3000, 3300), "part1": (4000, 2500), "part2": (3000, 3300)}),
            message(1, 60, {"over": (5000, 1950), "under": (5000, 1950)}, market_key="OU|line=2.5"),
            message(2, 300, {"draw": (2500, 4000), "part1": (4500, 2200), "part2": (3000, 3300)}),
            message(0, 0, {"draw": None, "part1": None, "part2": None}, fixture_id=2),
            message(1, 100, {"draw": 2000, "part1": 7000, "part2": 1000}, fixture_id=2),
        ],
        {1: 600, 2: 700},
    )
    path = tmp_path / "ticks.csv"
    tape.ticks().collect().join(tape.fixtures, on="fixture_id").write_csv(path)
    return path


def called(*arguments, cwd, file="clv_verify.py"):
    """Run copies of the files where nothing but the standard library can be imported."""
    for path in FILES:
        shutil.copy(path, cwd)
    command = [sys.executable, "-I", "-S", str(Path(cwd) / file), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_files_stand_alone(folder, ticks, tmp_path):
    done = called(folder, cwd=tmp_path)
    states = called(folder, ticks, cwd=tmp_path, file="clv_states.py")

    assert (done.returncode, done.stderr, states.returncode, states.stderr) == (0, "", 0, "")
    assert [line.split()[:2] for line in done.stdout.splitlines()[:5]] == [
        ["pass", "evidence_integrity:"],
        ["pass", "metrics_recomputed:"],
        ["pass", "manifest_bound:"],
        ["pass", "policy_obeyed:"],
        ["pass", "receipt_separation:"],
    ]
    assert states.stdout.startswith("pass  states_from_ticks:")
    assert states.stdout.splitlines()[1] in done.stdout.splitlines()


def test_failed_check_is_named_and_sets_the_exit_status(folder, tmp_path):
    (folder / "scores.jsonl").write_bytes(b"")

    done = called(folder, cwd=tmp_path)

    assert done.returncode == 1
    assert "fail  metrics_recomputed" in done.stdout


def test_json_says_the_same(folder, tmp_path):
    (folder / "scores.jsonl").write_bytes(b"")

    done = called(folder, "--json", cwd=tmp_path)

    result = json.loads(done.stdout)
    assert (done.returncode, result["verified"]) == (1, True)
    assert {name: verdict for name, (verdict, _) in result["checks"].items()} == {
        "evidence_integrity": "pass",
        "metrics_recomputed": "fail",
        "manifest_bound": "pass",
        "policy_obeyed": "pass",
        "receipt_separation": "pass",
    }


@pytest.mark.parametrize(
    ("file", "arguments"),
    [("clv_verify.py", given) for given in (["nowhere"], ["."], [], ["a", "b"], [".", "--require", "love"])]
    + [("clv_states.py", given) for given in (["nowhere", "clv_states.py"], [".", "nowhere.csv"], ["."], [])],
)
def test_nothing_to_check_exits_with_2(file, arguments, tmp_path):
    done = called(*arguments, cwd=tmp_path, file=file)

    assert done.returncode == 2
    assert done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "change",
    [
        {"prob_bps": pl.col("prob_bps").replace(4000, 4001)},
        {"odds_milli": pl.col("odds_milli").replace(1950, None)},
        {"suspended": ~pl.col("suspended")},
        {"ts_ms": pl.col("ts_ms") + 1},
        {"in_running": pl.lit(value=True)},
        {"kickoff_ts_ms": pl.col("kickoff_ts_ms") - 1},
        {"kickoff_ts_ms": pl.lit(None, pl.Int64)},
        {"fixture_id": pl.col("fixture_id") + 1},
        {"market_key": pl.col("market_key") + "x"},
        {"side": pl.col("side").replace("draw", "tie")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_evidence_that_other_ticks_do_not_give_fails(folder, ticks, change):
    pl.read_csv(ticks).with_columns(**change).write_csv(ticks)

    result = clv_states.verify_states(folder, clv_states.read_ticks(ticks))

    assert result["checks"]["states_from_ticks"]
    assert not any(clv_verify.verify(folder)["checks"].values())


def test_ticks_in_another_order_and_with_more_columns_are_the_same(folder, ticks):
    pl.read_csv(ticks).reverse().with_columns(note=pl.lit("x")).write_csv(ticks)

    assert clv_states.verify_states(folder, clv_states.read_ticks(ticks))["checks"] == {"states_from_ticks": None}


def test_evidence_that_can_not_be_read_has_no_states(folder, ticks):
    (folder / "events.jsonl").write_bytes(b"{}\n")

    assert clv_states.main([str(folder), str(ticks), "--json"]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "fixture_id\n1\n",
        "no,such\ncolumns,here\n",
        "fixture_id,tick_seq\n1.5,x\n",
        "\xff",
        HEAD + "1,,0,false,m,s,,,false,\n",
        HEAD.replace("market_key,side,", "").replace("\n", ",market_key,side\n")
        + 2 * "1,0,0,false,,,false,,m,s\n"
        + "1,1,0,false,,,false,,m\n",
    ],
)
def test_unreadable_ticks_are_refused(folder, tmp_path, text):
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="latin-1")

    assert clv_states.main([str(folder), str(path)]) == 2


def test_evidence_does_not_follow_from_no_ticks(folder, tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("")

    assert clv_states.main([str(folder), str(path)]) == 1


def test_two_messages_at_one_tick_are_refused(folder, ticks):
    frame = pl.read_csv(ticks)
    pl.concat([frame, frame.head(1).with_columns(market_key=pl.lit("zz|"))]).write_csv(ticks)

    assert clv_states.main([str(folder), str(ticks)]) == 2


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_imports_the_standard_library_only(path):
    source = path.read_text()

    assert violations(source, f"proof/{path.name}") == []
    assert "clvlab." not in source
    assert not any(f"import {name}" in source for name in ("polars", "orjson", "pyarrow"))


def test_a_file_of_another_kind_is_no_run_and_a_changed_bundle_still_fails(tmp_path):
    whole = bundle(make_sealed_run(), b"")
    files = {
        "photo": b"\x89PNG",
        "none": b"",
        "cut": whole[:-1],
        "changed": whole[:-1] + b"x",
        "headed": whole.replace(b'"size":', b'"Size":', 1),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)

    done = {name: called(name, cwd=tmp_path) for name in files}

    assert {name: one.returncode for name, one in done.items()} == {"photo": 2, "none": 2, "cut": 2, "changed": 1, "headed": 1}
    assert done["photo"].stderr == "photo is not a run: it is an image\n"
    assert done["none"].stderr == "none is not a run: it is an empty file\n"
    assert (
        done["cut"].stderr
        == f"cut is not a run: it is a bundle that is cut short, with {len(whole) - 1:,} of {len(whole):,} bytes\n"
    )


def test_a_pack_is_no_run(tmp_path):
    (tmp_path / "datapackage.json").write_text("{}")

    done = called(".", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (2, ". is not a run: it is the folder of a pack\n")
