"""A widget of no height that hears the keys pressed in the explorer, and gives what stands there names for screen readers.

JupyterLab is asked to keep its own shortcuts to itself there: ``b`` would put a cell below this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clvlab.drawing.showing import optional

KEYS = {
    " ": "play or pause",
    "ArrowLeft": "a message back",
    "ArrowRight": "a message on",
    "Home": "to the first message",
    "End": "show everything",
    "p": "previous decision",
    "n": "next decision",
    "-": "slower",
    "+": "faster",
}
"""What each key does, by its name in a browser."""

# Whoever types into a field or chooses from a list means the field; a button keeps its own Space and the slider its arrows.
_ESM = """
const FIELDS = "input:not([type=button]), textarea, select, [contenteditable=true]";
export default {
  render({ model, el }) {
    let root = null;
    const press = event => {
      const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
      if (event.ctrlKey || event.metaKey || event.altKey || !model.get("heard").includes(key)) return;
      if (event.target.closest(FIELDS) || (key === " " && event.target.closest("button, summary"))) return;
      if (event.target.closest(".noUi-handle") && /^(Arrow|Home|End)/.test(key)) return;
      event.preventDefault();
      event.stopPropagation();
      model.send({ key });
    };
    const quiet = event => event.target.setAttribute("data-lm-suppress-shortcuts", "true");
    const name = () => {
      root.querySelector(".noUi-handle")?.setAttribute("aria-label", "messages that have come");
      root.querySelector(".clvlab-record")?.setAttribute("aria-live", "polite");
      const chart = root.querySelector(".clvlab-chart");
      if (!chart) return;
      chart.tabIndex = 0;
      chart.setAttribute("role", "group");
      chart.setAttribute("aria-label", model.get("label"));
    };
    const settle = new ResizeObserver(() => {
      if (!root && (root = el.closest(".clvlab-explorer"))) {
        root.addEventListener("focusin", quiet);
        root.addEventListener("keydown", press);
      }
      if (root) name();
    });
    settle.observe(el);
    return () => {
      settle.disconnect();
      root?.removeEventListener("keydown", press);
      root?.removeEventListener("focusin", quiet);
    };
  },
};
"""


def keyboard(pressed: Callable[[str], object], label: str) -> Any:
    """Make the widget.

    Parameters
    ----------
    pressed
        Called with one of ``KEYS``.
    label
        What a screen reader says of the chart.

    Raises
    ------
    MissingLibraryError
        anywidget is not installed.
    """
    anywidget, traitlets = optional("anywidget", "the explorer"), optional("traitlets", "the explorer")
    traits = {"heard": traitlets.List(list(KEYS)).tag(sync=True), "label": traitlets.Unicode(label).tag(sync=True)}
    made = type("Keyboard", (anywidget.AnyWidget,), {"_esm": _ESM, **traits})(layout={"width": "100%", "height": "0px"})
    made.on_msg(lambda _, message, buffers: pressed(str(message.get("key", ""))))  # noqa: ARG005  ipywidgets gives three
    return made
