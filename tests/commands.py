"""Commands called in this process, or many in one other: most of the time of a process of their own is that of its imports."""

import json
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from unittest.mock import patch

from clvlab.base.invocation import command
from clvlab.cli import main
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[1]


def clvlab(folder, *args, stdin=""):
    """Give exit code, output and errors of ``clvlab`` in a folder."""
    out, err = (TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    given = patch.multiple(sys, argv=["clvlab", *map(str, args)], stdin=StringIO(stdin))
    with chdir(folder), given, redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    return code, *(text.buffer.getvalue().decode() for text in (out, err))


def typed(folder, *words):
    """How a command of ``clvlab`` is typed in a folder, as hints say it there."""
    with chdir(folder):
        return command(*words)


def apart(folder, calls, *, start=(), timeout_s=PATIENCE_S):
    """Give the same of several calls, made one after the other in one process.

    Each is the environment it has besides, and its arguments; ``start`` is the command that starts the process.
    """
    done = subprocess.run(
        [*start, sys.executable, "-m", "tests.commands", str(folder)],
        input=json.dumps(calls, default=str),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(answer) for answer in json.loads(done.stdout)]


def _called(folder, environment, args):
    with patch.dict(os.environ, environment):
        return clvlab(folder, *args)


if __name__ == "__main__":
    print(json.dumps([_called(sys.argv[1], *call) for call in json.load(sys.stdin)]))
