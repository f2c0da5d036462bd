import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.length import whole_only

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[1]


def reported(tmp_path, module, options):
    """The report of a benchmark that must succeed."""
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", module, *options.split(), "--json", str(report)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(report.read_bytes())


def test_the_benchmark_command_reports_every_job_and_its_jobs_agree(tmp_path):
    said = reported(tmp_path, "tests.benchmarks", "--ticks 20000 --decisions 500 --rounds 1 --here")
    assert said["notes"] == []
    assert {figure["job"].partition(",")[0] for figure in said["figures"]} == {
        "replay",
        "content hash",
        "seal",
        "verify",
        "anchor",
        "gate",
        "agent baseline",
        "agent tick by tick",
        "agent cumulative-drift",
        "agent sharp-momentum-v2",
        "store",
        "bundle",
        "statistics",
        "explorer",
        "import",
    }
    assert {figure["name"] for figure in said["figures"]} >= {
        "Polars script",
        "DuckDB",
        "scored",
        "sealed",
        "digest pass",
        "packs verify, whole",
        "500 decisions",
        "stand-alone",
        "second opinion by SQL",
        "season pack",
        "import clvlab, without duckdb or fastapi",
    }
    assert len(said["equalities"]) == 15
    assert all(said["equalities"].values())
    assert all(figure["value"]["min"] > 0 for figure in said["figures"])


@whole_only
def test_the_benchmark_of_the_service_reports_every_job(tmp_path):
    said = reported(tmp_path, "tests.benchmarks.http", "--seconds 0.2 --rounds 1 --clients 2 --messages 100 --fixtures 8")
    assert {figure["job"].partition(",")[0] for figure in said["figures"]} == {
        "healthz",
        "leaderboard",
        "proof card",
        "one decision",
        "verify",
        "backtest",
        "healthz while a competition runs",
        "healthz while 2 clients backtest 8 fixtures each and a competition of ten runs",
    }
    assert all(figure["value"]["min"] > 0 for figure in said["figures"])
    assert said["settings"]["decisions of the verified run"] >= 500


@whole_only
def test_the_benchmark_of_tiles_reports_every_job_and_its_audit_is_sound(tmp_path):
    said = reported(tmp_path, "tests.benchmarks.tiles", "--entries 700 --more 100 --rounds 1")
    assert [figure["name"] for figure in said["figures"]] == [
        "exported as tiles", "files of 100 new entries", "exported again, 100 more", "audited over HTTP",
    ]  # fmt: skip
    assert list(said["equalities"].values()) == [True]


@whole_only
def test_the_benchmark_of_imports_reports_every_job(tmp_path):
    figures = reported(tmp_path, "tests.benchmarks.imports", "--scale 0.01 --rounds 1")["figures"]
    assert {figure["job"] for figure in figures} == {"margin removal", "exchange stream", "changes to a pack"}
    assert {figure["name"] for figure in figures} >= {"power", "shin, the package", "to a written pack"}
    assert all(figure["value"]["min"] > 0 for figure in figures)


@whole_only
def test_the_benchmark_of_progress_reports_every_job(tmp_path):
    found = reported(tmp_path, "tests.benchmarks.progress", "--rounds 1 --mb 1 --fixtures 6")
    assert found["jobs"].keys() == {"hash a file", "verify a pack", "backtest", "tear sheet"}
    assert all(job["ratio"] > 0 for job in found["jobs"].values())


@whole_only
def test_the_benchmark_of_isolated_agents_reports_every_size_and_they_decide_as_here(tmp_path):
    said = reported(tmp_path, "tests.benchmarks.isolation", "--ticks 32000 --rounds 1")
    assert len({figure["job"] for figure in said["figures"]}) == 1 + 2 * 5
    assert list(said["equalities"].values()) == [True]


@whole_only
def test_the_benchmark_of_many_fixtures_reports_every_size(tmp_path):
    said = reported(tmp_path, "tests.benchmarks.fixtures", "--fixtures 64 --rounds 1")
    assert {figure["job"] for figure in said["figures"]} == {"1 fixtures", "6 fixtures", "64 fixtures", "growth"}
    growing = [figure for figure in said["figures"] if figure["ratio"]]
    assert [figure["baseline"] for figure in growing] == ["4 x 4", "16 x 4"] * 4
    assert all(figure["value"]["min"] > 0 for figure in said["figures"])
    assert list(said["equalities"].values()) == [True]


@whole_only
def test_the_benchmark_of_streams_reports_every_number_of_watchers_and_each_is_sent_the_log(tmp_path):
    said = reported(tmp_path, "tests.benchmarks.streams", "--watchers 1 --rounds 1 --seconds 0.2 --messages 60")
    assert [figure["name"] for figure in said["figures"] if figure["ratio"]] == ["1 watchers", "4 watchers", "16 watchers"]
    assert list(said["equalities"].values()) == [True]


def test_the_benchmark_of_seats_reports_few_and_many_and_no_decision_is_lost_or_doubled(tmp_path):
    said = reported(tmp_path, "tests.benchmarks.seats", "--seats 2 --many 4 --seconds 3 --ticks 5")
    assert {figure["job"] for figure in said["figures"]} == {"2 seats", "4 seats at once"}
    assert said["equalities"] == {"no decision of 4 seats was lost or doubled": True}


@whole_only
def test_the_benchmark_of_captures_reports_every_size_and_all_is_written(tmp_path):
    said = reported(tmp_path, "tests.benchmarks.capture", "--messages 200 --rounds 1 --shorter 100")
    assert [figure["name"] for figure in said["figures"]] == [
        *(f"{count:,} of {size:,} B" for size in (200, 2000) for count in (200, 800, 3200)),
        "at half",
        "at the end",
    ]
    assert list(said["equalities"].values()) == [True]


@whole_only
def test_the_benchmark_of_watched_live_runs_reports_every_number_of_watchers_and_each_is_sent_the_log(tmp_path):
    said = reported(tmp_path, "tests.benchmarks.watching", "--watchers 1 3 --rounds 1 --messages 60 --every-ms 5")
    assert [figure["job"] for figure in said["figures"] if figure["ratio"]] == ["1 watchers"] * 2 + ["3 watchers"] * 2
    assert said["settings"]["decisions of a match"] > 0
    assert list(said["equalities"].values()) == [True]


@whole_only
def test_the_benchmark_of_searches_reports_every_size(tmp_path):
    said = reported(tmp_path, "tests.benchmarks.searching", "--rounds 1 --scale 0.1")
    named = [(figure["job"].partition(",")[0], figure["name"]) for figure in said["figures"]]
    assert [name for job, name in named if job == "family judged"] == [f"{n} configurations" for n in ("62", "250", "1,000")]
    assert [name for job, name in named if job == "walked forward"] == ["3 points", "12 points", "50 points"]


def test_seasons_are_measured(tmp_path):
    plain, books = reported(tmp_path, "tests.benchmarks.seasons", "--seasons 1")["figures"]

    assert plain["matches"] == books["matches"] == 380
    assert plain["size"] == 0 < books["size"]
