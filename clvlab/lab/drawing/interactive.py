"""Results with a live face: a widget where there is a kernel, and a picture and a table everywhere else."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

from clvlab.drawing.showing import Shown
from clvlab.errors import MissingLibraryError

NOTE = '<p class="quiet">A still picture. Run this cell in JupyterLab, with clvlab[notebook] installed, to explore.</p>'


class Interactive(Shown):
    """A result that is also a widget.

    Both faces go into the output of a cell: JupyterLab shows the widget, and a viewer without a kernel the HTML.
    """

    @cached_property
    def widget(self) -> Any:
        """The ipywidgets widget, the same at each call; ``display(result.widget)`` shows it alone.

        Raises
        ------
        MissingLibraryError
            ipywidgets is not installed, or what the widget needs besides.
        """
        return self._build()

    @abstractmethod
    def _build(self) -> Any: ...

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:  # noqa: ARG002  IPython names them
        bundle: dict[str, Any] = {"text/plain": repr(self), "text/html": self._repr_html_()}
        try:
            view = self.widget._repr_mimebundle_()
        except MissingLibraryError:  # the HTML says what to install
            return bundle
        return dict(view) | bundle
