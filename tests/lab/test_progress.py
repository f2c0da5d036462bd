import io
import sys
from contextlib import contextmanager
from threading import Event

import pytest

import clvlab as cl
from clvlab.base.progress import listening, report
from clvlab.lab import progress
from clvlab.lab.progress import progress_bar, state_display
from clvlab.report import bars
from clvlab.report.html import Html
from tests.waiting import PATIENCE_S


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setenv("CLVLAB_PROGRESS_AFTER_S", "0")


def walked(what="A sweep", **options):
    with progress_bar(what, "scoring settings", **options) as tell:
        for done in (1, 2, 3):
            tell(done, 3)


def test_the_caller_s_own_is_called():
    told = []

    walked(progress=lambda done, total: told.append((done, total)))

    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.usefixtures("at_once")
def test_where_nobody_looks_nothing_is_shown(asked, capfd):
    walked(progress=asked)

    assert capfd.readouterr() == ("", "")


class Shell:
    """What IPython's display module does with a handle, remembered; ``drawn`` is set by each picture of the awaited stage."""

    def __init__(self, awaited="scoring settings, 2 of 3"):
        self.shown, self.awaited, self.drawn = [], awaited, Event()

    def display(self, bar, display_id):
        assert display_id
        return self.update(bar)

    def update(self, bar):
        self.shown.append(bar)
        if self.awaited in repr(bar):
            self.drawn.set()
        return self


@pytest.mark.usefixtures("at_once")
def test_a_terminal_shows_a_bar_and_clears_it(monkeypatch):
    drawn = Event()

    class Watched(Terminal):
        def write(self, text):
            if "scoring settings, 2 of 3 (66.7%)" in text:
                drawn.set()
            return super().write(text)

    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr(sys, "stderr", Watched())

    with progress_bar("A sweep", "scoring settings", progress=True) as tell:
        tell(2, 3)
        assert drawn.wait(PATIENCE_S)

    assert sys.stderr.getvalue().endswith("\x1b[2K")
    assert sys.stdout.getvalue() == ""


@pytest.mark.parametrize("name", ["stdout", "stderr"])
@pytest.mark.usefixtures("at_once")
def test_without_a_terminal_on_both_sides_there_is_no_bar(name, monkeypatch):
    streams = {"stdout": Terminal(), "stderr": Terminal(), name: io.StringIO()}
    for each, stream in streams.items():
        monkeypatch.setattr(sys, each, stream)

    walked(progress=True)

    assert [stream.getvalue() for stream in streams.values()] == ["", ""]


@pytest.mark.usefixtures("at_once")
def test_a_notebook_updates_one_line_and_keeps_the_last(monkeypatch):
    shell = Shell()
    monkeypatch.setattr(bars, "notebook", lambda: shell)

    with progress_bar("<b>Sweep</b>", "scoring settings", progress=True) as tell:
        tell(2, 3)
        assert shell.drawn.wait(PATIENCE_S)

    live = next(bar for bar in shell.shown if "2 of 3" in repr(bar))
    assert repr(live).startswith("<b>Sweep</b>: scoring settings, 2 of 3 (66.7%)")
    assert '<progress value="2" max="3">' in live._repr_html_()
    assert repr(shell.shown[-1]).startswith("<b>Sweep</b>: finished after ")
    assert "<progress" not in shell.shown[-1]._repr_html_()
    assert "<b>" not in live._repr_html_()


@pytest.mark.parametrize(("error", "ended"), [(KeyboardInterrupt, "interrupted"), (ValueError, "failed")])
@pytest.mark.usefixtures("at_once")
def test_a_notebook_says_how_long_work_ended(monkeypatch, error, ended):
    shell = Shell("reading files")
    monkeypatch.setattr(bars, "notebook", lambda: shell)

    def work():
        report("reading files", 1, 2)
        assert shell.drawn.wait(PATIENCE_S)
        raise error

    with pytest.raises(error), bars.display_progress("Import of odds"):
        work()

    assert repr(shell.shown[-1]).startswith(f"Import of odds: {ended} after ")


def test_quick_work_leaves_nothing_in_a_notebook(monkeypatch):
    shell = Shell()
    monkeypatch.setenv("CLVLAB_PROGRESS_AFTER_S", "600")
    monkeypatch.setattr(bars, "notebook", lambda: shell)

    walked(progress=True)

    assert shell.shown == []


@pytest.mark.usefixtures("at_once")
def test_work_within_work_shows_one_bar(monkeypatch):
    shell = Shell("reading files")
    monkeypatch.setattr(bars, "notebook", lambda: shell)

    with bars.display_progress("Import of odds"), bars.display_progress("Opening of odds"):
        report("reading files", 1, 2)
        assert shell.drawn.wait(PATIENCE_S)

    assert {repr(bar).partition(":")[0] for bar in shell.shown} == {"Import of odds"}


VERBS = {
    "cl.open_pack('starter')": "Opening of starter",
    "cl.backtest('starter')": "Backtest on starter",
    "cl.sweep('starter', 'baseline', {'stake': [1, 2]}).trials": "Sweep of baseline",
    "cl.backtest('starter').tear_sheet(resamples=100, draws=10)._repr_html_()": "Tear sheet of baseline",
    "cl.backtest('starter').run.verify()": "Verification of run_",
    "(lab := cl.Lab()).verify(lab.backtest('starter'))": "Verification of run_",
    "cl.lookahead_audit('baseline', 'starter')": "Look-ahead audit",
}


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_report_what_they_do(verb, monkeypatch):
    heard = []

    @contextmanager
    def remembered(what, _):
        with listening(lambda stage, done=0, total=0: heard.append((what, stage, done, total))):
            yield

    monkeypatch.setattr(bars, "notebook", Shell)
    monkeypatch.setattr(bars, "_display_progress", remembered)

    eval(verb, {"cl": cl})

    whole = [(stage, done, total) for what, stage, done, total in heard if what.startswith(VERBS[verb])]
    assert whole or verb == "cl.open_pack('starter')"  # whose file is hashed once
    assert all(0 <= done <= (total or done) for _, done, total in whole)


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
    monkeypatch.setattr(progress, "notebook", lambda: shell)

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
    monkeypatch.setattr(progress, "notebook", lambda: shell)

    with pytest.raises(KeyboardInterrupt):
        told(stopped, progress=True)

    assert "<p>The same call goes on with &lt;it&gt;.</p>" in shell.shown[-1]._repr_html_()


@pytest.mark.parametrize(("error", "ended"), [(KeyboardInterrupt, "interrupted"), (ValueError, "failed")])
def test_a_notebook_says_how_work_ended(monkeypatch, error, ended):
    shell = Shell()
    monkeypatch.setattr(progress, "notebook", lambda: shell)

    with pytest.raises(error):
        told(error, progress=True)

    assert repr(shell.shown[-1]) == f"Capture of txline: {ended}, messages <7>"
