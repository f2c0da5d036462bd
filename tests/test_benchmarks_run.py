import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_benchmark_command_reports_every_job_and_its_jobs_agree(tmp_path):
    report = tmp_path / "report.json"
    sizes = ["--ticks", "20000", "--decisions", "500", "--rounds", "1"]

    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", *sizes, "--json", str(report)], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(report.read_bytes())
    assert said["notes"] == []
    assert {figure["job"].partition(",")[0] for figure in said["figures"]} == {
        "replay",
        "content hash",
        "seal",
        "verify",
        "agent baseline",
        "agent cumulative-drift",
        "agent sharp-momentum-v2",
        "agent tick by tick",
        "gate",
        "statistics",
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
        "season pack",
        "import clvlab, without duckdb or fastapi",
    }
    assert len(said["equalities"]) == 10
    assert all(said["equalities"].values())
    assert all(figure["value"]["min"] > 0 for figure in said["figures"])
