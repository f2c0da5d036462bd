"""A widget of HTML in which elements can be picked, by pointer and by keyboard: those with a ``data-pick``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clvlab.drawing.showing import optional

# Arrows go from one element to the next as Tab does; the focus stays when the content is drawn anew. JupyterLab is asked to
# keep its shortcuts to itself here, or Enter would edit the cell.
_ESM = """
export default {
  render({ model, el }) {
    el.addEventListener("focusin", event => event.target.setAttribute("data-lm-suppress-shortcuts", "true"));
    const picks = () => [...el.querySelectorAll("[data-pick]")];
    const draw = () => {
      const held = el.contains(document.activeElement) ? document.activeElement.dataset.pick : undefined;
      el.innerHTML = model.get("content");
      if (held !== undefined) (picks().find(p => p.dataset.pick === held) ?? picks()[0])?.focus();
    };
    const pick = target => { if (target) model.send({ pick: target.dataset.pick }); };
    el.addEventListener("click", event => {
      const row = event.target.closest("[data-pick]") ?? event.target.closest("tr")?.querySelector("[data-pick]");
      if (row && el.contains(row) && !String(getSelection())) { row.focus(); pick(row); }
    });
    el.addEventListener("keydown", event => {
      const all = picks(), at = all.indexOf(document.activeElement);
      if (at < 0) return;
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      if (step) all[Math.min(Math.max(at + step, 0), all.length - 1)].focus();
      else if ((event.key === "Enter" || event.key === " ") && all[at].tagName !== "BUTTON") pick(all[at]);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    model.on("change:content", draw);
    draw();
    return () => model.off("change:content", draw);
  },
};
"""


def picker(picked: Callable[[str], object]) -> Any:
    """Make the widget; its ``content`` is the HTML.

    Parameters
    ----------
    picked
        Called with the ``data-pick`` of an element when somebody picks it.

    Raises
    ------
    MissingLibraryError
        anywidget is not installed.
    """
    anywidget, traitlets = optional("anywidget", "this widget"), optional("traitlets", "this widget")
    content = traitlets.Unicode("").tag(sync=True)
    made = type("Picker", (anywidget.AnyWidget,), {"_esm": _ESM, "content": content})(layout={"width": "100%"})
    made.on_msg(lambda _, message, buffers: picked(str(message.get("pick", ""))))  # noqa: ARG005  ipywidgets gives three
    return made
