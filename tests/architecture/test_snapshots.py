"""What others call and are answered is changed on purpose only, and a reader sees how."""

import difflib
import re
import sys

import pytest

from tests.architecture.snapshots import FOLDER, NAMES, write

_HEADING = re.compile(r"=====|\$ |> [A-Z]+ ")
"""Of a part of a text: an operation or a page, a command, a request."""


def differences(name, was, now):
    """What differs between two texts, each change below the heading of its part."""
    was, now = was.splitlines(), now.splitlines()
    for line in difflib.unified_diff(was, now, name, "the code", lineterm="", n=0):
        yield line
        if changed := re.match(r"@@ -(\d+)", line):
            yield from [one for one in was[: int(changed[1])] if _HEADING.match(one)][-1:]


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="other interpreters show other signatures of what is inherited from them"
)
def test_what_is_shown_to_others_is_what_was_written_down(tmp_path):
    write(tmp_path)

    texts = {name: [(folder / name).read_text(encoding="utf-8") for folder in (FOLDER, tmp_path)] for name in NAMES}
    changes = [line for name, (was, now) in texts.items() for line in differences(name, was, now)]
    if changes:
        pytest.fail("\n".join([*changes, "if it is meant: python -m tests.architecture.snapshots"]), pytrace=False)


def test_a_change_is_shown_below_the_heading_of_its_part():
    was = "$ clvlab runs\nexit 0\n\n$ clvlab show\nexit 0\n"

    shown = list(differences("commands.txt", was, was.replace("show\nexit 0", "show\nexit 2")))

    assert shown == ["--- commands.txt", "+++ the code", "@@ -5 +5 @@", "$ clvlab show", "-exit 0", "+exit 2"]
