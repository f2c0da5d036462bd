"""What clvlab shows to others, as texts that stand beside this file: a change of it is seen as a difference.

``python -m tests.architecture.snapshots`` writes them anew.

``exposed.txt``
    Public names with their signatures, commands with their options.
``errors.txt``
    HTTP status and exit codes of every error.
``commands.txt``
    What every command prints, and with which code it ends.
``answers.txt``
    What the service answers to every operation, to other requests, and sends over its sockets.
``pages.txt``
    Hashes of its pages.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parent
NAMES = ("exposed.txt", "errors.txt", "commands.txt", "answers.txt", "pages.txt")
_KEPT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR")
_ALIKE = {"COLUMNS": "120", "TERM": "dumb", "NO_COLOR": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"}


def write(folder: Path) -> None:
    """Write every text into a folder, from a process whose environment is the same whoever asks.

    Raises
    ------
    subprocess.CalledProcessError
        Something could not be asked for; what it was stands in its errors.
    """
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    # A hint names clvlab by its path where it is on none of these, and lines break elsewhere.
    kept["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    with TemporaryDirectory() as home:
        subprocess.run(
            [sys.executable, "-m", "tests.architecture.exposed", str(folder)],
            cwd=FOLDER.parents[1],
            env=kept | _ALIKE | {"HOME": home},
            check=True,
        )


if __name__ == "__main__":
    write(FOLDER)
