"""Commands called in this process: most of the time of a process of their own is that of its imports."""

import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from unittest.mock import patch

from clvlab.cli import main


def clvlab(folder, *args):
    """Give exit code, output and errors of ``clvlab`` in a folder."""
    out, err = (TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    given = patch.multiple(sys, argv=["clvlab", *map(str, args)], stdin=StringIO())
    with chdir(folder), given, redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    return code, *(text.buffer.getvalue().decode() for text in (out, err))
