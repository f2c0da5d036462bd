"""Pictures by matplotlib as SVG, in the colours of the page and with reproducible bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO, StringIO
from re import DOTALL, sub
from threading import RLock
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

from clvlab.report.export import optional
from clvlab.report.html import Html, escape_text, visible
from clvlab.report.svg import BLUE as BLUE
from clvlab.report.svg import GREY as GREY
from clvlab.report.svg import RED as RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHIELD = "\u200b"  # put before a name, because matplotlib hides names that begin with an underscore
_INK = "#010203"  # replaced by the colour of the surrounding text
_STYLE = {
    "svg.hashsalt": "clvlab",
    "svg.fonttype": "none",
    "text.parse_math": False,  # a name with two dollar signs is not a formula
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
_STYLING = RLock()  # matplotlib's settings belong to the whole process, so two concurrent pictures would mix them up
_INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")


def axes_or_new(ax: Axes | None) -> Any:
    """Return the axes, or the axes of a new pyplot figure, which a notebook shows in the colours of its theme."""
    if ax is not None:
        return ax
    pyplot = optional("matplotlib.pyplot", "a plot")
    with _STYLING, pyplot.rc_context(_STYLE):
        figure, new = pyplot.subplots(figsize=(6.4, 3.6))
    # A notebook asks for this format first; files of the figure stay black on white.
    figure._repr_html_ = partial(_page_part, figure)
    return new


def _page_part(figure: Any) -> str:
    with _STYLING, optional("matplotlib", "a plot").rc_context(_STYLE), without_warnings():
        black = _ink(figure, _INK)
        try:
            width = figure.get_size_inches()[0] * 96
            return f'<div style="max-width:{width:.0f}px">{_svg_of(figure, _title(figure))}</div>'
        finally:
            for restore in black:
                restore()


def _title(figure: Any) -> str:
    titles = (ax.get_title(place) for ax in figure.axes for place in ("left", "center", "right"))
    return "; ".join(title for title in titles if title) or "figure"


def _ink(figure: Any, colour: str) -> list[Callable[[], object]]:
    """Colour the black parts, hide the frames of legends, and return the functions that undo both."""
    same, text = optional("matplotlib.colors", "a plot").same_color, optional("matplotlib.text", "a plot").Text
    figure.draw_without_rendering()  # ticks exist only after the first drawing
    drawn = figure.findobj(text)
    lines = [line for ax in figure.axes for axis in (ax.xaxis, ax.yaxis) for line in axis.get_ticklines()]
    edges = [spine for ax in figure.axes for spine in ax.spines.values()]
    black = [(own.set_color, own.get_color()) for own in drawn]
    black += [(own.set_markeredgecolor, own.get_markeredgecolor()) for own in lines]
    black += [(own.set_edgecolor, own.get_edgecolor()) for own in edges]
    found = [(put, was) for put, was in black if same(was, "black")]
    for put, _ in found:
        put(colour)
    frames = [ax.get_legend().get_frame() for ax in figure.axes if ax.get_legend() is not None]
    seen = [frame.get_visible() for frame in frames]
    for frame in frames:
        frame.set_visible(False)
    undone = [*found, *((frame.set_visible, was) for frame, was in zip(frames, seen, strict=True))]
    return [partial(put, was) for put, was in undone]


def png(draw: Callable[[Any], object], title: str, size: tuple[float, float]) -> bytes:
    """Draw on new axes and return a PNG, black on white, for pages that show no SVG; ``size`` in inches."""
    matplotlib, figures = optional("matplotlib", "a picture"), optional("matplotlib.figure", "a picture")
    content = BytesIO()
    with _STYLING, matplotlib.rc_context(_STYLE), without_warnings():
        figure = figures.Figure(figsize=size, layout="tight")
        draw(figure.add_subplot())
        figure.savefig(content, format="png", dpi=96, metadata={"Software": None, "Title": title})
    return content.getvalue()


def svg(draw: Callable[[Any], object], title: str, size: tuple[float, float] = (4.8, 3.0)) -> Html:
    """Draw on new axes and return the SVG element; ``title`` is for screen readers, ``size`` in inches."""
    matplotlib = optional("matplotlib", "a picture")
    figures = optional("matplotlib.figure", "a picture")
    with _STYLING, matplotlib.rc_context(_STYLE | dict.fromkeys(_INKED, _INK)), without_warnings():
        figure = figures.Figure(figsize=size, layout="tight")
        draw(figure.add_subplot())
        # The layout runs once, and is then switched off, because with an active layout, saving draws everything twice.
        figure.get_layout_engine().execute(figure)
        figure.set_layout_engine("none")
        return _svg_of(figure, title)


def _svg_of(figure: Any, title: str) -> Html:
    """Return a figure as an SVG element in the colours of the page."""
    text = StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    drawn = sub(r".*?(?=<svg)", "", text.getvalue(), count=1, flags=DOTALL)
    # Inside a page the namespaces are known, and a style element would affect the whole page.
    drawn = sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", drawn, flags=DOTALL)
    head, _, body = drawn.partition(">")
    head = sub(r' (?:xmlns(?::\w+)?|version|width|height)="[^"]*"', "", head)
    head = head.replace("<svg", f'<svg role="img" aria-label="{escape_text(title)}"', 1)
    markup = visible(f"{head}>{body}".replace(SHIELD, ""))
    return Html(markup.replace(_INK, "currentColor"))


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silence the warning about letters that matplotlib's font lacks: they stay text, in the page's fonts."""
    with catch_warnings():
        filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
        yield
