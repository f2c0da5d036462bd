import io
import sys

import pytest

from clvlab.lab import progress
from clvlab.lab.progress import progress_bar, state_display
from clvlab.report.html import Html


class Terminal(io.StringIO):
    def isatty(self):
        return True


def walked(what="a sweep", **options):
    with progress_bar(what, 3, **options) as tell:
        for done in (1, 2, 3):
            tell(done, 3)


def test_the_caller_s_own_is_called():
    told = []

    walked(progress=lambda done, total: told.append((done, total)))

    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("asked", [True, False])
def test_where_nobody_looks_nothing_is_shown(asked, capfd):
    walked(progress=asked)

    assert capfd.readouterr() == ("", "")


def test_a_terminal_shows_a_bar_and_clears_it(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())

    walked(progress=True)

    assert "a sweep" in sys.stderr.getvalue()


class Shell:
    """What IPython's display module does with a handle, remembered."""

    def __init__(self):
        self.shown = []

    def display(self, bar, display_id):
        assert display_id
        self.shown.append(bar)
        return self

    def update(self, bar):
        self.shown.append(bar)


def test_a_notebook_updates_one_line_and_keeps_the_last(monkeypatch):
    shell = Shell()
    monkeypatch.setattr(progress, "_notebook", lambda: shell)

    walked("<b>sweep</b>", progress=True)

    assert [repr(bar) for bar in shell.shown] == [f"<b>sweep</b>: {n} of 3 points" for n in range(4)]
    assert "<progress" in shell.shown[0]._repr_html_()
    assert "<progress" not in shell.shown[3]._repr_html_()
    assert "<b>" not in shell.shown[0]._repr_html_()


class State:
    line, facts, outcome = "7 messages <now>", {"messages": "<7>", "connected": "yes"}, {"messages": "<7>"}


def told(error=None, **options):
    more = {"more": lambda state: Html(f"<p>{len(state.facts)} more</p>")}
    with state_display("Capture of txline", "made into a pack", **options, **more) as tell:
        tell(State())
        if error is not None:
            raise error


def test_a_state_goes_to_the_caller_s_own():
    states = []

    told(progress=states.append)

    assert [state.line for state in states] == ["7 messages <now>"]


@pytest.mark.parametrize("asked", [True, False])
def test_where_nobody_looks_no_state_is_shown(asked, capfd):
    told(progress=asked)

    assert capfd.readouterr() == ("", "")


def test_a_terminal_shows_a_state_in_one_line(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())

    told(progress=True)

    assert "Capture of txline" in sys.stderr.getvalue()


def test_a_notebook_shows_a_state_as_a_table_that_changes(monkeypatch):
    shell = Shell()
    monkeypatch.setattr(progress, "_notebook", lambda: shell)

    told(progress=True)

    first, then, last = shell.shown
    assert repr(first) == "Capture of txline: begins"
    assert repr(then) == "Capture of txline: 7 messages <now>"
    assert "&lt;7&gt;" in then._repr_html_()
    assert "<p>2 more</p>" in then._repr_html_()
    assert repr(last) == "Capture of txline: made into a pack, messages <7>"
    assert "connected" not in last._repr_html_()


def test_a_notebook_says_what_an_interrupt_leaves(monkeypatch):
    shell, stopped = Shell(), KeyboardInterrupt()
    stopped.add_note("The same call goes on with <it>.")
    monkeypatch.setattr(progress, "_notebook", lambda: shell)

    with pytest.raises(KeyboardInterrupt):
        told(stopped, progress=True)

    assert "<p>The same call goes on with &lt;it&gt;.</p>" in shell.shown[-1]._repr_html_()


@pytest.mark.parametrize(("error", "ended"), [(KeyboardInterrupt, "interrupted"), (ValueError, "failed")])
def test_a_notebook_says_how_work_ended(monkeypatch, error, ended):
    shell = Shell()
    monkeypatch.setattr(progress, "_notebook", lambda: shell)

    with pytest.raises(error):
        told(error, progress=True)

    assert repr(shell.shown[-1]) == f"Capture of txline: {ended}, messages <7>"
