import sys
import threading

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt

from clvlab.report import axes as drawing
from clvlab.report.export import optional
from tests.waiting import PATIENCE_S


def test_the_drawing_escapes_its_name():
    shown = drawing.svg(lambda ax: ax.plot([1, 2]), '"><script>')

    assert "<script" not in shown
    assert shown.startswith('<svg role="img"')


def test_text_is_no_formula_and_a_letter_that_the_font_lacks_is_no_warning():
    shown = drawing.svg(lambda ax: ax.set_title("$\\frac$ 勝者 $x$"), "market")

    assert "$\\frac$ 勝者 $x$" in shown


def test_pictures_drawn_at_once_are_each_as_if_drawn_alone():
    """A style is a setting of the whole process: two pictures at once would take it from each other."""
    alone = drawing.svg(lambda ax: ax.text(0, 0, "here"), "a")
    before, first_is_done, drawn = dict(mpl.rcParams), threading.Event(), []

    def second(ax):
        first_is_done.wait(PATIENCE_S)
        ax.text(0, 0, "here")

    other = threading.Thread(target=lambda: drawn.append(drawing.svg(second, "a")))

    def first(ax):
        other.start()
        other.join(0.2)  # as far as it gets
        ax.text(0, 0, "here")

    drawn.append(drawing.svg(first, "a"))
    first_is_done.set()
    other.join()

    assert drawn == [alone, alone]
    assert dict(mpl.rcParams) == before


def test_a_figure_of_pyplot_is_shown_in_the_ink_of_the_page_and_stays_black_in_files():
    plt.switch_backend("agg")
    ax = drawing.axes_or_new(None)
    ax.plot([1, 2], [3, 4], label="line")
    ax.set(title="a <title>", xlabel="time")
    ax.legend()

    shown = ax.figure._repr_html_()

    assert "currentColor" in shown
    assert "#000000" not in shown
    assert "#ffffff" not in shown
    assert 'aria-label="a &lt;title&gt;"' in shown
    assert ax.get_legend().get_texts()[0].get_color() == "black"
    assert ax.figure.get_facecolor() == (1, 1, 1, 1)
    plt.close(ax.figure)


def test_axes_of_ones_own_are_drawn_on_as_they_are():
    ax = object()

    assert drawing.axes_or_new(ax) is ax


def test_an_interrupt_while_a_library_is_imported_leaves_it_whole(tmp_path, monkeypatch):
    (tmp_path / "interrupted_library.py").write_text(
        "import signal, threading\n"
        "signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)\n"
        "threading.main_thread().join(0.2)\n"
        "WHOLE = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(KeyboardInterrupt):
        optional("interrupted_library", "a test")

    assert optional("interrupted_library", "a test").WHOLE
    del sys.modules["interrupted_library"]
