import csv
import json

import pytest

from tests.commands import clvlab

BETS = """\
placed_at,match,market,pick,odds,stake
2026-01-02T09:00Z,Birch North - Glen North,1X2,home,+110,£10
2026-01-02T09:00Z,Birch North - Glen North,1X2,X,3.5,£5
2026-01-02T09:00Z,Nobody - Nowhere,1X2,home,2.0,£5
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bets.csv").write_text(BETS)
    return tmp_path


def test_bets_are_graded_sealed_and_told(folder):
    files = ["--rows", "rows.csv", "--unmatched", "left.csv", "--html", "s.html"]
    code, out, err = clvlab(folder, "bets", "grade", "bets.csv", "--pack", "starter", *files)

    assert code == 0, err
    assert out.startswith("bets: Not distinguishable from zero, ")
    assert "3 bets, 2 on the tape, as 2 decisions" in out
    assert "guessed by their names: time from 'placed_at'" in out
    assert "untrusted, by the bettor's own prices" in out
    assert "fixture_unknown" in out
    assert clvlab(folder, "verify", "latest")[0] == 0
    rows, left = (list(csv.DictReader((folder / name).read_text().splitlines())) for name in ("rows.csv", "left.csv"))
    assert [row["own_odds_milli"] for row in rows] == ["2100", "3500", "2000"]
    assert [row["reason"] for row in left] == ["fixture_unknown"]
    assert "<html" in (folder / "s.html").read_text()


def test_a_grading_is_json_for_programs(folder):
    code, out, _ = clvlab(folder, "bets", "grade", "bets.csv", "--pack", "starter", "--json")

    told = json.loads(out)
    assert code == 0
    assert told["bets"]["unmatched"][0]["row"] == 3
    assert told["bets"]["decisions"] == told["metrics"]["action_count"] == 2


def test_columns_are_named_and_left_out(folder):
    named = ["--column", "time=placed_at", "--column", "stake="]
    code, out, _ = clvlab(folder, "bets", "grade", "bets.csv", "--pack", "starter", *named, "--json")

    assert code == 0
    assert "stake" not in json.loads(out)["bets"]["columns"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--column", "time"], "--column takes MEANING=COLUMN, not 'time'"),
        (["--column", "tim=placed_at"], "did you mean 'time'"),
        (["--column", "time=placed"], "did you mean 'placed_at'"),
        (["--odds-format", "hongkong"], "unknown odds format 'hongkong'"),
        (["--time-format", "noon"], "strptime"),
    ],
)
def test_a_wrong_option_is_named(folder, options, said):
    code, _, err = clvlab(folder, "bets", "grade", "bets.csv", "--pack", "starter", *options)

    assert code == 2
    assert said in " ".join(err.split())
    assert not (folder / "runs").exists()


def test_a_grading_is_committed_to_in_a_log(folder):
    code, out, err = clvlab(folder, "bets", "grade", "bets.csv", "--pack", "starter", "--log", "log.db", "--json")

    assert code == 0, err
    manifest = json.loads((folder / json.loads(out)["run_folder"] / "manifest.json").read_text())
    assert manifest["commit_index"] == 0
