"""Command lines of clvlab for hints, as users can type them in this environment."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

_NAME = "clvlab"
_SCRIPTS = (_NAME, f"{_NAME}.exe")


def command(*words: object) -> str:
    """Return a command of clvlab as it can be typed in this folder. Without words, return only the program.

    Every hint of a next command is made here: ``clvlab`` is not on the path unless its environment is activated, and a path
    may have spaces. In evidence, over HTTP or in a browser the program is named ``clvlab`` instead. A path that is a bare
    name gets ``./`` in front; otherwise a command could take it for a pack of the catalog or for an option.

    Examples
    --------
    >>> command("show", "my runs/run_1", "--decisions", 5).endswith("clvlab show 'my runs/run_1' --decisions 5")
    True
    """
    return shlex.join([*_program(), *(_no_name(word) if isinstance(word, Path) else str(word) for word in words)])


def _program() -> list[str]:
    script = _script()
    if script is None:
        return [_typed(sys.executable), "-m", _NAME]
    on_path = shutil.which(_NAME)  # another environment's program does not count
    return [_NAME] if on_path is not None and script.samefile(on_path) else [_typed(script)]


def _script() -> Path | None:
    called = Path(sys.argv[0])
    if called.name in _SCRIPTS and called.is_file():
        return called

    from importlib.metadata import PackageNotFoundError, distribution  # takes as long as all of this module

    try:
        files = distribution(_NAME).files or ()
    except PackageNotFoundError:
        return None
    scripts = (Path(os.path.normpath(file.locate())) for file in files if file.name in _SCRIPTS)
    return next((script for script in scripts if script.is_file()), None)


def _typed(path: str | Path) -> str:
    try:
        folder = Path.cwd()
    except OSError:  # the folder was removed
        return str(path)
    place = folder / path
    return _no_name(os.path.relpath(place)) if place.is_relative_to(folder) else str(place)


def _no_name(path: str | Path) -> str:
    text = str(path)
    return text if os.sep in text else f".{os.sep}{text}"
