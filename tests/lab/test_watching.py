import io
import sys
from types import SimpleNamespace

import polars as pl
import pytest

from clvlab.application.live.view import LIVE_DECISIONS
from clvlab.lab.drawing import watching
from clvlab.lab.drawing.watching import RemoteView, watched

ROW = ("<b>me</b>", 7, 3, 1000, "BACK", "1X2||", "part1", 5, 4000, 2400, True, "pending_closing", None)


def view(messages, rows=0):
    frame = pl.DataFrame([ROW] * rows, schema=LIVE_DECISIONS, orient="row")
    return SimpleNamespace(
        line=f"{messages} messages", count=rows, frame=frame, decisions=lambda since=0: frame[max(0, since) :]
    )


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Shell:
    """What IPython's display module does with a handle, remembered."""

    def __init__(self):
        self.shown = []

    def display(self, drawn, display_id):
        assert display_id
        self.shown.append(drawn)
        return self

    def update(self, drawn):
        self.shown.append(drawn)


@pytest.fixture
def shell(monkeypatch):
    shell = Shell()
    monkeypatch.setattr(watching, "notebook", lambda: shell)
    return shell


def test_the_caller_s_own_is_called():
    told = []

    with watched("a run", progress=told.append) as look:
        look(view(1))

    assert [one.line for one in told] == ["1 messages"]


@pytest.mark.parametrize("asked", [True, False])
def test_where_nobody_looks_nothing_is_shown(asked, capfd):
    with watched("a run", progress=asked) as look:
        look(view(1))

    assert capfd.readouterr() == ("", "")


def test_a_terminal_shows_a_line(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())

    with watched("a run", progress=True) as look:
        look(view(12))

    assert "a run" in sys.stderr.getvalue()


def test_a_notebook_follows_with_the_newest_decisions_and_keeps_the_end(shell):
    with watched("a run", progress=True) as look:
        for n in range(9):
            look(view(n, n))

    first, *_, last = shell.shown
    assert repr(first) == "a run"
    assert repr(last) == "a run: 8 messages"
    assert last._repr_html_().count("pending_closing") == 5
    assert "<b>" not in last._repr_html_()
    assert len(shell.shown) == 3  # begun, the first look, the end: what comes within half a second is left out


def test_a_run_elsewhere_has_a_line_alone(shell):
    with watched("a run", progress=True) as look:
        look(RemoteView("31 messages"))

    assert repr(shell.shown[-1]) == "a run: 31 messages"
    assert "Newest decisions" not in shell.shown[-1]._repr_html_()
