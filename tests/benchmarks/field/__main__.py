"""``python -m tests.benchmarks.field [--env FOLDER] [--only PART ...] [--rounds 3] [--largest N] [--json FILE] [--docs]``.

Measures clvlab beside other tools, in an environment of its own that holds them. What is measured is kept in the JSON file, so
that parts and sizes can be measured anew one by one; ``--docs`` renders that file into the documentation and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks.field import page, pictures
from tests.benchmarks.field.code import lines_of
from tests.benchmarks.field.environment import made
from tests.benchmarks.field.measuring import NOTHING, Limits, measured
from tests.benchmarks.field.parts import PARTS

_ROOT = Path(__file__).parents[3]
_ROOMY = 16 * 2**30  # bytes that a hundred million ticks want
_ROOMY_LARGEST, _LARGEST = 100_000_000, 10_000_000


def main() -> int:
    """Measure, print tables, keep them; 1 if tools that must agree do not."""
    asked = _arguments()
    if asked.docs:
        _document(json.loads(asked.json.read_bytes()))
        return 0
    if not asked.here:
        return _in_environment(asked.env)
    return _measure(asked)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.field", description="Measure clvlab beside the field.")
    parser.add_argument(
        "--env", type=Path, metavar="FOLDER", help="environment to make or to use again; a temporary one without"
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smallest", type=float, default=0, help="no size below this")
    parser.add_argument("--largest", type=float, help="no size beyond this, the smallest apart; by default what memory allows")
    parser.add_argument(
        "--patience", type=float, default=300, metavar="SECONDS", help="tools that would take longer are left out"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where measured parts are kept, beside those that are there")
    parser.add_argument("--docs", action="store_true", help="render the JSON file into the documentation")
    parser.add_argument("--here", action="store_true", help="measure in this environment, with what is installed")
    parser.add_argument("--missing", nargs=2, action="append", default=[], help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.rounds < 1:
        parser.error(f"--rounds must be 1 or more, not {asked.rounds}")
    if asked.docs and not asked.json:
        parser.error("--docs needs --json")
    return asked


def _in_environment(folder: Path | None) -> int:
    """Make the environment, and do the same there."""
    with tempfile.TemporaryDirectory(prefix="clvlab-field-env-") as temporary:
        python, lacking = made((folder or Path(temporary)).resolve())
        missing = [text for name, reason in lacking.items() for text in ("--missing", name, reason)]
        command = [str(python), "-m", "tests.benchmarks.field", *sys.argv[1:], "--here", *missing]
        return subprocess.run(command, check=False).returncode


def _measure(asked: argparse.Namespace) -> int:
    versions, missing = _versions(dict(asked.missing))
    largest = asked.largest or (_ROOMY_LARGEST if psutil.virtual_memory().available >= _ROOMY else _LARGEST)
    kept: dict[str, Any] = json.loads(asked.json.read_bytes()) if asked.json and asked.json.exists() else {"parts": {}}
    limits = Limits(asked.rounds, asked.patience)
    for name in asked.only:
        part = PARTS[name]
        sizes = [size for size in part.sizes if asked.smallest <= size <= max(largest, part.sizes[0])]
        if not sizes:
            raise SystemExit(f"{name} has no size from {asked.smallest:,.0f} to {largest:,.0f}")
        for size in sizes:
            before = {key: kept["parts"].get(name, NOTHING)[key] for key in NOTHING}
            kept["parts"][name] = measured(part, size, limits, missing, before) | {
                "versions": {tool.package: versions.get(tool.package) for tool in part.tools.values()},
                "lines": {label: lines_of(tool.code) for label, tool in part.tools.items() if tool.code},
            }
            if asked.json:
                asked.json.write_text(json.dumps(kept, indent=1) + "\n")
        _print(name, kept["parts"][name])
    return 1 if any(kept["parts"][name]["different"] for name in asked.only) else 0


def _print(name: str, part: dict[str, Any]) -> None:
    if any(tool.beside for tool in PARTS[name].tools.values()):
        sys.stdout.write(f"\n{page.compared({name: part})}\n")
    sys.stdout.write(f"\n{page.growth(name, part)}\n")
    sys.stdout.writelines(f"note: {text}\n" for text in dict.fromkeys(note["text"] for note in part["notes"]))
    different = ", ".join(f"{row['size']:,}" for row in part["different"])
    sys.stdout.write(f"DIFFERENT at {different}\n" if different else "equal: the tools that were measured agree\n")


def _versions(lacking: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Give the versions of what is installed, and why the rest is not."""
    versions, missing = {}, {}
    for package in {tool.package for part in PARTS.values() for tool in part.tools.values()}:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            missing[package] = lacking.get(package, f"{package} is not installed here, and was left out")
    return versions, missing


def _document(kept: dict[str, Any]) -> None:
    pictures.draw(kept, _ROOT / "docs" / "explanation" / "pictures")
    for block, name in page.PAGES.items():
        path = _ROOT / name
        path.write_text(page.rendered(path.read_text(encoding="utf-8"), kept, block), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
