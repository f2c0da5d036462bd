import threading

import matplotlib as mpl

from clvlab.drawing import axes as drawing


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
        first_is_done.wait(5)
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
