from contextlib import contextmanager
from contextvars import copy_context
from threading import Event, Thread
from threading import enumerate as enumerate_threads

import pytest

from clvlab.base import progress
from clvlab.base.progress import ReportClock, Watch, each, is_heard, listening, muted, patience_s, report
from clvlab.errors import SettingsError
from tests.waiting import PATIENCE_S


class Drawing:
    """A drawing that remembers its states; ``seen`` is set when one of the awaited stage was drawn."""

    def __init__(self, awaited="second"):
        self.states, self.awaited, self.seen, self.ended = [], awaited, Event(), False

    @contextmanager
    def __call__(self):
        yield self.draw
        self.ended = True

    def draw(self, state):
        self.states.append(state)
        if state.stage == self.awaited:
            self.seen.set()


def test_a_report_that_nobody_listens_to_does_nothing():
    assert not is_heard()

    report("reading", 1, 2)


def test_parts_are_reported_as_they_are_finished():
    heard = []

    with listening(lambda *told: heard.append(told)):
        assert list(each("reading", "ab", 2)) == ["a", "b"]

    assert heard == [("reading", 0, 2), ("reading", 1, 2), ("reading", 2, 2)]
    assert not is_heard()


def test_the_listener_s_error_ends_the_work():
    def cancel(*_):
        raise RuntimeError("cancelled")

    with listening(cancel), pytest.raises(RuntimeError, match="cancelled"):
        list(each("reading", "ab"))


def test_parts_of_work_may_be_muted_and_are_still_part_of_it():
    heard = []

    with listening(lambda *told: heard.append(told)):
        with listening(muted):
            report("a part")
            assert is_heard()
        report("the whole")

    assert heard == [("the whole", 0, 0)]


def test_a_thread_reports_in_a_copy_of_the_context_only():
    heard = []

    with listening(lambda *told: heard.append(told[0])):
        threads = [Thread(target=report, args=("alone",)), Thread(target=copy_context().run, args=(report, "in a copy"))]
        for thread in threads:
            thread.start()
            thread.join()

    assert heard == ["in a copy"]


def test_a_watch_draws_the_newest_report_and_then_ends():
    drawing = Drawing()

    with Watch(drawing, after_s=0).watching():
        report("first", 1, 4)
        report("second", 3, 4)
        assert drawing.seen.wait(PATIENCE_S)

    last = drawing.states[-1]
    assert (last.stage, last.done, last.total) == ("second", 3, 4)
    assert last.elapsed_s >= 0
    assert drawing.ended


@pytest.mark.parametrize("after_s", [600, float("inf")])
def test_quick_work_is_not_drawn(after_s):
    drawing = Drawing()

    with Watch(drawing, after_s=after_s).watching():
        report("second", 1, 2)

    assert drawing.states == []


def test_a_watch_ends_with_an_error_of_the_work():
    drawing = Drawing()

    def interrupted():
        report("second")
        assert drawing.seen.wait(PATIENCE_S)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Watch(drawing, after_s=0).watching():
        interrupted()

    assert drawing.ended
    assert not is_heard()


def states(monkeypatch, *moments):
    """Return what a watch says at moments: (second, stage, done of 100)."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    watch, found = Watch(Drawing(), after_s=0), []
    for now[0], stage, done in moments:
        watch(stage, done, 100)
        found.append(watch.state.left_s)
    return found


def test_the_time_left_is_that_of_the_stage_at_its_own_speed(monkeypatch):
    found = states(monkeypatch, (10, "read", 20), (12, "read", 40), (14, "read", 60), (20, "write", 0), (22, "write", 50))

    assert found == [None, 6, 4, None, 2]


@pytest.mark.parametrize(
    "moments", [[(1, "read", 5), (1.5, "read", 50)], [(1, "read", 5), (9, "read", 5)], [(1, "read", 50), (9, "read", 5)]]
)
def test_no_time_left_is_said_after_less_than_a_second_or_without_a_step_forward(moments, monkeypatch):
    assert states(monkeypatch, *moments)[-1] is None


@pytest.mark.parametrize(("turn_s", "reports"), [(0.001, 10), (0.25, 4), (5.0, 4)])
def test_a_loop_reports_ten_times_a_second_whatever_a_turn_takes(turn_s, reports, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    clock, found = ReportClock(), 0

    for number in range(round(max(1, 4 * turn_s) / turn_s)):
        now[0] = number * turn_s
        found += clock()

    assert found == reports


@pytest.mark.parametrize(("text", "seconds"), [("", 1), ("0", 0), ("2.5", 2.5), ("inf", float("inf"))])
def test_the_seconds_before_progress_is_shown_are_a_setting(text, seconds, monkeypatch):
    monkeypatch.setenv("CLVLAB_PROGRESS_AFTER_S", text)

    assert patience_s() == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_a_setting_that_is_no_number_of_seconds_is_refused(text, monkeypatch):
    monkeypatch.setenv("CLVLAB_PROGRESS_AFTER_S", text)

    with pytest.raises(SettingsError, match=repr(text)):
        patience_s()


def test_a_thread_that_an_interrupt_meets_at_its_start_ends_too(monkeypatch):
    drawing = Drawing()

    def interrupted(thread):
        start(thread)
        raise KeyboardInterrupt

    start = Thread.start
    monkeypatch.setattr(Thread, "start", interrupted)

    with pytest.raises(KeyboardInterrupt), Watch(drawing, after_s=3600).watching():
        pass

    assert "clvlab-progress" not in {thread.name for thread in enumerate_threads()}
