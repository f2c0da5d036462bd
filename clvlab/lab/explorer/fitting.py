"""A widget of no height that makes plotly figures beside it follow the width of the cell.

The figure widget draws before its cell stands on the page, at a width of its own, and looks again only when the window changes.
"""

from __future__ import annotations

from typing import Any

from clvlab.drawing.showing import optional

_ESM = """
export default {
  render({ el }) {
    let width = -1;
    const tell = () => window.dispatchEvent(new Event("resize"));
    const seen = new ResizeObserver(() => {
      if (el.clientWidth !== width) { width = el.clientWidth; tell(); }
    });
    seen.observe(el);
    document.addEventListener("plotlywidget-after-render", tell);
    return () => { seen.disconnect(); document.removeEventListener("plotlywidget-after-render", tell); };
  },
};
"""


def fitter() -> Any:
    """Make the widget.

    Raises
    ------
    MissingLibraryError
        anywidget is not installed.
    """
    anywidget = optional("anywidget", "the explorer")
    return type("Fitter", (anywidget.AnyWidget,), {"_esm": _ESM})(layout={"width": "100%", "height": "0px", "margin": "0"})
