"""An environment of its own for the field: clvlab from this tree, and what can be installed of the requirements."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

__all__ = ["REQUIREMENTS", "made"]

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_ROOT = Path(__file__).parents[3]


def made(folder: Path) -> tuple[Path, dict[str, str]]:
    """Make an environment, or bring one up to date; give its Python, and why requirements are lacking, by name."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    _installed(python, f"{_ROOT}[service]", check=True)
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    if _installed(python, *wanted) is None:
        return python, {}
    # Together they can't be installed: one by one it shows which of them can't.
    reasons = {line.partition("==")[0]: _installed(python, line) for line in wanted}
    return python, {name: reason for name, reason in reasons.items() if reason is not None}


def _installed(python: Path, *requirements: str, check: bool = False) -> str | None:
    """Install requirements; give the reason if they can't be."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    sys.stderr.write(done.stderr)
    if check:
        raise SystemExit(f"{requirements[0]} can't be installed: {done.stderr.strip()[-500:]}")
    return next((line for line in done.stderr.splitlines() if line.startswith("ERROR")), "pip failed").strip()
