"""What others call is changed on purpose only, and a reader sees how."""

import difflib
import sys

import pytest

from tests.architecture.snapshots import EXPOSED, exposed


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="other interpreters show other signatures of what is inherited from them"
)
def test_names_and_commands_are_those_that_were_written_down():
    was, now = EXPOSED.read_text(encoding="utf-8").splitlines(), exposed().splitlines()

    changes = list(difflib.unified_diff(was, now, "exposed.txt", "the code", lineterm="", n=0))

    assert changes == [], "if it is meant: python -m tests.architecture.snapshots"
