"""``python -m tests.package``: wheel and source archive, what is inside, and the demo from the wheel in fresh environments.

On the oldest and the newest Python, where they are there, the evidence must have the same hashes.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("python3.11", "python3.13")
HASH = re.compile(r"sha256:[0-9a-f]{64}")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="clvlab-package-") as name:
        folder = Path(name)
        run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
        (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
        look_at_wheel(zipfile.ZipFile(wheel).namelist())
        with tarfile.open(archive) as file:
            look_at_archive(file.getnames())
        found = {python: demo(python, wheel, folder / python.name) for python in filter(None, map(interpreter, PYTHONS))}
    for python, hashes in found.items():
        print(f"{python.name}: {' '.join(hashes)}")
    if not found or len(set(found.values())) != 1:
        print("no Python ran the demo, or evidence differs from one to another")
        return 1
    return 0


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def look_at_wheel(names):
    top = {name.partition("/")[0] for name in names}
    assert top == {"clvlab", "clvlab_service", "clvlab-0.1.0.dist-info"}, top
    for needed in (
        "clvlab/py.typed",
        "clvlab_service/py.typed",
        "clvlab/proof/clv_verify.py",
        "clvlab_service/pages/assets/live.js",
        "clvlab_service/pages/assets/style.css",
        "clvlab_service/pages/templates/run.html",
        "clvlab/packs/bundled/catalog.json",
        "clvlab/packs/matching/team-aliases.toml",
    ):
        assert needed in names, needed
    strange = [name for name in names if "/." in name or name.endswith((".pyc", ".so", ".db", ".key", ".pem", ".log"))]
    assert strange == [], strange


def look_at_archive(names):
    parts = {name.split("/")[1] for name in names if "/" in name}
    assert {"clvlab", "service", "tests", "docs", "packs", "notebooks", "pyproject.toml", "constraints.txt"} <= parts, parts


def interpreter(name):
    """Find an interpreter on the path, or among those of pyenv; null if there is none that works."""
    versions = Path.home() / ".pyenv" / "versions"
    places = [shutil.which(name), *sorted(versions.glob(f"{name.removeprefix('python')}*/bin/{name}"))]
    for place in filter(None, places):
        if not subprocess.run([place, "-c", ""], capture_output=True, check=False).returncode:
            return Path(place)
    return None


def demo(python, wheel, folder):
    """Give the hashes of the demo's evidence, from an environment that holds the wheel and what it asks for."""
    run(python, "-m", "venv", folder)
    run(folder / "bin" / "pip", "install", "--quiet", "--no-compile", "--constraint", ROOT / "constraints.txt", wheel)
    said = run(folder / "bin" / "clvlab", "demo", cwd=folder)
    return tuple(HASH.search(line)[0] for line in said.splitlines() if line.lstrip().startswith("evidence hash"))


if __name__ == "__main__":
    sys.exit(main())
