"""Trust closure: the sources that decide a score, what may not stand beside them, and one digest over them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG

TRUST = ("errors.py", "law", "proof")
_PACKAGE = "clvlab"
_CACHE = "__pycache__"
_GUARDED = ("__init__", "errors", "law", "proof")
_IMPORTABLE = ("", ".py", ".pyc", ".pyd", ".so")  # a folder has no suffix


@dataclass(frozen=True, slots=True)
class Closure:
    """The sources, by name relative to the package folder and sorted, and what stands there beside them."""

    sources: dict[str, bytes]
    strays: tuple[str, ...]


def package_folder() -> Path:
    """Folder of the installed package, whose trust folders decide scores here."""
    return Path(__file__).parent.parent


def read_closure(root: Path) -> Closure:
    """Read the sources of a package folder, and list what Python could import in their place."""
    sources, strays = {}, []
    for path, name, mode, state in _entries(root):
        if S_ISLNK(mode):  # what it leads to can be changed from elsewhere
            strays.append(f"{name}: a symbolic link")
        elif path.parent.name == _CACHE:
            if not S_ISREG(mode) or ".pyc" not in path.name:
                strays.append(f"{name}: only bytecode may stand in a cache")
        elif S_ISREG(mode) and path.suffix == ".py":
            sources[name] = content_of(path, state)
        elif not S_ISDIR(mode):
            strays.append(f"{name}: only Python sources may stand in a trust folder")
    # An extension module, and a package, are imported before the source of the same name.
    for path in root.iterdir():
        guarded = path.name.split(".")[0] in _GUARDED and path.name not in (*TRUST, "__init__.py")
        if guarded and path.suffix in _IMPORTABLE:
            strays.append(f"{path.name}: stands beside the source that it may be imported for")
    return Closure({name: sources[name] for name in sorted(sources)}, tuple(sorted(strays)))


def source_digest(root: Path | None = None) -> str:
    """Hash the trust closure: SHA-256 over what ``sha256sum`` prints of its sources, sorted by name.

    Parameters
    ----------
    root
        Package folder; the installed one by default.
    """
    read = read_closure(package_folder() if root is None else root).sources
    lines = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in read.items())
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def foreign_modules(root: Path, sources: Mapping[str, bytes]) -> list[str]:
    """List the modules of the closure that this process did not load from the sources that were read."""
    found = []
    for name, module in [(name, module) for name, module in list(sys.modules.items()) if name.startswith(_PACKAGE)]:
        top, _, rest = name.partition(".")
        if top != _PACKAGE or rest.split(".")[0] not in _GUARDED:
            continue
        stem = rest.replace(".", "/")
        own = [str(root / file) for file in (f"{stem}.py", f"{stem}/__init__.py") if file in sources]
        try:
            origin = module.__file__
        except AttributeError:
            origin = None
        if origin not in own:
            found.append(f"{name} was loaded from {origin or 'nowhere'}")
    return sorted(found)


def state_of(path: Path) -> tuple[int, ...]:
    """Return what changes with a file: its inode, size and times; of a link itself.

    Raises
    ------
    OSError
    """
    found = path.lstat()
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache(maxsize=1024)
def content_of(path: Path, state: tuple[int, ...]) -> bytes:  # noqa: ARG001
    """Read a file, unless it was read in that state before."""
    return path.read_bytes()


def _entries(root: Path) -> Iterator[tuple[Path, str, int, tuple[int, ...]]]:
    """Every file and folder of the closure, its name, mode and state; neither links nor folders in a cache are followed."""
    waiting = [(root / name, name) for name in TRUST]
    for path, name in waiting:
        state = state_of(path)
        yield path, name, state[0], state
        if S_ISDIR(state[0]) and path.parent.name != _CACHE:
            waiting += [(inner, f"{name}/{inner.name}") for inner in path.iterdir()]
