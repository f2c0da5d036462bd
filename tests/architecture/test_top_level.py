"""What stands at the top level of the project: what is meant to, and nothing that was left there."""

import subprocess
from pathlib import Path

import pytest

from tests.length import OVER_POSTGRESQL

ROOT = Path(__file__).parents[2]
MEANT = {
    "CHANGELOG.md", "LICENSE", "README.md", "clvlab", "constraints.txt", "docs", "notebooks", "packs", "pyproject.toml",
    "service", "tests",
}  # fmt: skip


def test_nothing_else_is_kept_at_the_top_level():
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout: git can't be asked what is kept")
    kept = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")

    assert {path.split("/")[0] for path in kept if path and not path.startswith(".")} == MEANT


@pytest.mark.parametrize("folder", OVER_POSTGRESQL, ids=lambda folder: folder.name)
def test_modules_that_run_over_postgresql_too_are_there(folder):
    assert {path.stem for path in folder.rglob("test_*.py")} >= OVER_POSTGRESQL[folder]
