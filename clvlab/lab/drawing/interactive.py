"""Results with a live face: a widget where there is a kernel, and a picture and a table everywhere else."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

from clvlab.drawing.showing import Shown, optional
from clvlab.errors import MissingLibraryError

NOTE = '<p class="quiet">A still picture. Run this cell in JupyterLab, with clvlab[notebook] installed, to explore.</p>'
# The still picture and the widget are two outputs of a cell, one after the other: where the second one lives, the first one
# steps aside. In a page without widgets this style is not there either, and the picture stays.
_ASIDE = "".join(
    f"{cell}:has(.clvlab-still):has(+ {cell} .clvlab-live){{display:none!important}}"
    for cell in (".jp-OutputArea-child", ".output_container")
)
_STYLE = f"""<style>{_ASIDE}
.clvlab-live :focus-visible{{outline:2px solid #3b82c4!important;outline-offset:1px}}
.clvlab-live button[data-pick]{{all:unset;cursor:pointer;text-decoration:underline;text-underline-offset:2px}}
.clvlab-live [data-pick]{{cursor:pointer}}
.clvlab-live tr:has([data-pick]):hover{{background:rgba(128,128,128,.15)}}
.clvlab-live tr.chosen{{box-shadow:inset 3px 0 #3b82c4;font-weight:600}}
</style>"""


class Interactive(Shown):
    """A result that is also a widget.

    A cell shows both faces: JupyterLab the widget, and a viewer without a kernel, as an exported page is, the HTML.
    """

    @cached_property
    def widget(self) -> Any:
        """The ipywidgets widget, the same at each call; ``display(result.widget)`` shows it alone.

        Raises
        ------
        MissingLibraryError
            ipywidgets is not installed, or what the widget needs besides.
        """
        make = optional("ipywidgets", "a widget")
        box = self._build()
        box.children = (make.HTML(_STYLE, layout={"display": "none"}), *box.children)
        box.add_class("clvlab-live")
        return box

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
        return {kind: content for kind, content in view.items() if kind != "text/plain"}

    def _still(self) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": f'<div class="clvlab-still">{self._repr_html_()}</div>'}
