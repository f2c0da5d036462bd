"""``python -m tests.interop.build OUT``: build the Go verifier and witness on the packages that come with Go, offline."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

_SOURCES = Path(__file__).parent / "go"
_PACKAGES = Path("src/cmd/vendor/golang.org/x/mod/sumdb")


class NoGoError(Exception):
    """Go is not installed, or comes without the packages; the message says what to install."""


def go_root() -> Path:
    """Return the folder of Go, as the extra "interop" installs it, or of a ``go`` on the path."""
    found = find_spec("go")
    roots = [] if found is None or not found.origin else [Path(found.origin).parent]
    there = shutil.which("go")
    if there:
        said = subprocess.run([there, "env", "GOROOT"], capture_output=True, text=True, check=True)
        roots.append(Path(said.stdout.strip()))
    for root in roots:
        if (root / "bin" / "go").is_file() and all((root / _PACKAGES / name).is_dir() for name in ("tlog", "note")):
            return root
    raise NoGoError("Go with cmd/vendor is missing: pip install 'clvlab[interop]'")


def build(out: Path) -> dict[str, Path]:
    """Build both programs into a folder, and return their paths by name."""
    root = go_root()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="clvlab-interop-") as name:
        module = Path(name)
        shutil.copytree(_SOURCES, module, dirs_exist_ok=True)
        for package in ("tlog", "note"):  # nothing of Go is part of this project, so it is copied from where it is installed
            shutil.copytree(root / _PACKAGES / package, module / package)
        (module / "go.mod").write_text("module interop\n\ngo 1.24\n")
        settings = {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-trimpath", "CGO_ENABLED": "0", "GOWORK": "off"}
        command = [str(root / "bin" / "go"), "build", "-o", f"{out.resolve()}/", "./verifier", "./witness"]
        subprocess.run(command, cwd=module, env={**os.environ, **settings, "GOROOT": str(root)}, check=True)
    return {program: out / program for program in ("verifier", "witness")}


if __name__ == "__main__":
    try:
        for path in build(Path(sys.argv[1])).values():
            print(path)
    except NoGoError as error:
        raise SystemExit(str(error)) from None
