"""Evidence of the same runs over versions of Python and Polars and numbers of threads: ``python -m tests.matrix``.

Each cell is a process of its own, whose runs must have the bytes of all other cells. An interpreter that is not installed is
shown as such. Other interpreters than this one get an environment in a temporary folder, with clvlab and its constraints.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
THREADS = (1, 2, 16)
_AGENTS = ("baseline", "cumulative-drift", "sharp-momentum-v2")


@dataclass(frozen=True)
class Cell:
    """One combination: an interpreter, folders that come first on its path, and what it is called."""

    python: str
    path: tuple[str, ...]
    name: str
    polars: str
    threads: int

    def digest(self) -> str:
        """Run the cell, and return the digest of all its evidence; ``RuntimeError`` with its output if it fails."""
        places = [*self.path, str(ROOT), str(ROOT / "service")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(places), "POLARS_MAX_THREADS": str(self.threads)}
        command = [self.python, "-m", "tests.matrix", "--cell"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
        if done.returncode:
            raise RuntimeError(f"{self.name}, Polars {self.polars}, {self.threads} threads: {done.stderr[-2000:]}")
        stated: dict[str, str] = json.loads(done.stdout)
        if (stated["python"], stated["polars"], stated["threads"]) != (self.name, self.polars, str(self.threads)):
            raise RuntimeError(f"the cell ran as {stated}")
        return stated["digest"]


def evidence() -> dict[str, str]:
    """Return what this process is, and the digest of the evidence, scores and manifests of its runs and of a pack it makes."""
    import polars as pl

    import clvlab as cl
    from clvlab.packs.lookup import open_pack
    from clvlab.packs.verification import verify_pack
    from clvlab.sources.importer import import_source
    from tests.provider import message

    found = hashlib.sha256()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        messages = [message(number, fixture_id) for number in range(60) for fixture_id in (7, 9)]
        (folder / "odds_1.jsonl").write_text("".join(json.dumps(one) + "\n" for one in messages))
        import_source("txline", [folder / "odds_1.jsonl"], folder / "odds")
        found.update(verify_pack(folder / "odds").content_hash.encode())
        for pack in ("starter", str(folder / "odds")):
            found.update(open_pack(pack).content_hash.encode())
            for agent in _AGENTS:
                sealed = cl.backtest(pack, agent).run.source
                for content in (sealed.events, sealed.scores, sealed.manifest):
                    found.update(hashlib.sha256(content).digest())
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}", "polars": pl.__version__,
        "threads": str(pl.thread_pool_size()), "digest": found.hexdigest(),
    }  # fmt: skip


def ends_of_polars() -> tuple[str, str]:
    """Return the oldest version of Polars that the project allows, and the one that is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (bound,) = (found[1] for one in project["dependencies"] if (found := re.fullmatch(r"polars>=([0-9.]+)", one)))
    return ".".join([*bound.split("."), "0", "0"][:3]), importlib.metadata.version("polars")


def with_polars(version: str, folder: Path, python: str = sys.executable) -> tuple[str, ...]:
    """Return the folders to put first on the path for a version of Polars: none for the installed one."""
    if python == sys.executable and version == ends_of_polars()[1]:
        return ()
    place = folder / f"polars-{version}"
    if not place.exists():
        wanted = [f"polars=={version}", f"polars-runtime-32=={version}"]
        command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place), *wanted]
        subprocess.run(command, check=True, capture_output=True)
    return (str(place),)


def _environment(python: str, folder: Path) -> str:
    """Return the interpreter of an environment with clvlab for another Python than this one."""
    place = folder / Path(python).name
    subprocess.run([python, "-m", "venv", str(place)], check=True, capture_output=True)
    own = str(place / "bin" / "python")
    command = [own, "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt", ".[client]"]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return own


def cells(pythons: Sequence[str], threads: Sequence[int], folder: Path) -> Iterator[Cell | str]:
    """Return the cells, and in place of an interpreter that is not there its version."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    for version in pythons:
        found = sys.executable if version == here else shutil.which(f"python{version}")
        if found is None:
            yield version
            continue
        python = found if version == here else _environment(found, folder)
        for polars in dict.fromkeys(ends_of_polars()):
            path = with_polars(polars, folder, python)
            yield from (Cell(python, path, version, polars, count) for count in threads)


def main() -> int:
    """Print a row for each cell; 1 if two cells differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cell", action="store_true", help="print what this process is and its digest, as JSON")
    parser.add_argument("--pythons", default=",".join(PYTHONS))
    parser.add_argument("--threads", default=",".join(map(str, THREADS)))
    asked = parser.parse_args()
    if asked.cell:
        print(json.dumps(evidence()))
        return 0
    digests = set()
    print("| Python | Polars | threads | SHA-256 of all evidence |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="clvlab-matrix-") as name:
        for cell in cells(asked.pythons.split(","), [int(one) for one in asked.threads.split(",")], Path(name)):
            if isinstance(cell, str):
                print(f"| {cell} | | | not installed |")
                continue
            digest = cell.digest()
            digests.add(digest)
            print(f"| {cell.name} | {cell.polars} | {cell.threads} | `{digest[:16]}...` |", flush=True)
    print("equal bytes in all cells" if len(digests) == 1 else f"{len(digests)} different results")
    return 0 if len(digests) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
