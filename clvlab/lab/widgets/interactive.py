"""Interactive results: a widget with a kernel, a picture and a table without one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

from clvlab.errors import MissingLibraryError
from clvlab.lab.widgets.single import single
from clvlab.report.export import Exportable, optional
from clvlab.report.html import Html, render

# The still picture and the widget are two outputs of a cell, one after the other: a live widget hides the picture, and the
# picture hides a widget that is not live, such as that of a notebook which was opened and not run. A page without widgets
# does not have the first style, so the picture stays. The classes are those of Jupyter and of VS Code.
_CELLS = (".jp-OutputArea-child", ".output_container")
_ASIDE = "".join(f"{cell}:has(.clvlab-still):has(+ {cell} .clvlab-live){{display:none!important}}" for cell in _CELLS)
_ALONE = "".join(f"{cell}:has(.clvlab-still)+{cell}:not(:has(.clvlab-live)){{display:none}}" for cell in _CELLS)
_STYLE = f"""<style>{_ASIDE}
.clvlab-live :focus-visible{{outline:2px solid #3b82c4!important;outline-offset:1px}}
.clvlab-live button[data-pick]{{all:unset;cursor:pointer;text-decoration:underline;text-underline-offset:2px}}
.clvlab-live [data-pick]{{cursor:pointer}}
.clvlab-live tr:has([data-pick]):hover{{background:rgba(128,128,128,.15)}}
.clvlab-live tr.chosen{{box-shadow:inset 3px 0 #3b82c4;font-weight:600}}
</style>"""


class Interactive(Exportable):
    """A result that is also a widget.

    A cell has both: JupyterLab shows the widget, and a viewer without a kernel shows the HTML.
    """

    @cached_property
    def widget(self) -> Any:
        """The ipywidgets widget; each call returns the same one.

        Raises
        ------
        MissingLibraryError
            ipywidgets, or another library of the widget, is not installed.
        """
        return self._live()

    def _live(self) -> Any:
        box = self._build()
        box.children = (optional("ipywidgets", "a widget").HTML(_STYLE, layout={"display": "none"}), *box.children)
        box.add_class("clvlab-live")
        return box

    def _display_(self) -> Any:
        """Return the widget for marimo, or without its libraries the card; each display there is a widget of its own."""
        try:
            return optional("marimo", "a cell of marimo").ui.anywidget(single(self._live()))
        except MissingLibraryError:
            return super()._display_()

    @abstractmethod
    def _build(self) -> Any: ...

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:  # noqa: ARG002  IPython names them
        return self._view() | self._still()

    def _ipython_display_(self) -> None:
        """Show picture and widget one after the other: an export that runs the cells keeps only the widget of an output."""
        show = optional("IPython.display", "a notebook").publish_display_data
        show(self._still())
        if view := self._view():
            show(view)

    def _view(self) -> dict[str, Any]:
        try:
            view = self.widget._repr_mimebundle_()
        except MissingLibraryError:  # the HTML says what to install
            return {}
        return view | {"text/plain": "Run this cell for the interactive view."}  # where there are no widgets

    def _still(self) -> dict[str, Any]:
        flat, alt = self._flat()
        still = render("still.html", card=self._repr_html_(), style=Html(_ALONE), flat=flat, alt=alt)
        return {"text/plain": repr(self), "text/html": still}

    def _flat(self) -> tuple[str, str]:
        """Return the picture of the card as PNG in base64, and its description, for pages that show no SVG; may be empty."""
        return "", ""


# A widget of HTML in which elements with a ``data-pick`` can be picked, by pointer and by keyboard.


# Arrow keys go from one element to the next, like Tab; the focus stays when the content is drawn again. JupyterLab's
# shortcuts are off here, because Enter would edit the cell.
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
    """Make the widget; its ``content`` is the HTML."""
    anywidget, traitlets = optional("anywidget", "this widget"), optional("traitlets", "this widget")
    content = traitlets.Unicode("").tag(sync=True)
    made = type("Picker", (anywidget.AnyWidget,), {"_esm": _ESM, "content": content})(layout={"width": "100%"})
    made.on_msg(lambda _, message, buffers: picked(str(message.get("pick", ""))))  # noqa: ARG005  ipywidgets gives three
    return made
