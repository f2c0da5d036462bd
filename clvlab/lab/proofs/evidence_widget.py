"""The evidence browser as a widget."""

from __future__ import annotations

import polars as pl

from clvlab.drawing import html
from clvlab.drawing.showing import optional
from clvlab.lab.drawing.picking import picker
from clvlab.lab.proofs.evidence import PAGE, Evidence

_WIDE = {"width": "auto", "max_width": "100%"}
_ROW = {"flex_flow": "row wrap", "align_items": "center", "width": "100%"}


_STYLE = """<style>
.clvlab-browser{container-type:inline-size}
.clvlab-browser .line{display:grid;grid-template-columns:minmax(0,1fr);gap:.6rem}
.clvlab-browser .line pre.bytes{white-space:pre;overflow-wrap:normal;font-size:11px}
@container (min-width:58rem){.clvlab-browser .line{grid-template-columns:minmax(0,1fr) 33rem}}
</style>"""


class EvidenceWidget:
    """Search, kinds, a page of lines and one of them whole; ``box`` is what is displayed."""

    def __init__(self, browser: Evidence) -> None:
        self.browser = browser
        make = optional("ipywidgets", "the evidence browser")
        self.search = make.Text(placeholder="text in a line", description="Find", layout=_WIDE, continuous_update=False)
        counts = browser.kinds.value_counts(sort=True).iter_rows()
        self.kinds = [make.ToggleButton(description=f"{kind} ({n:,})", tooltip=kind, layout=_WIDE) for kind, n in counts]
        self.line = make.BoundedIntText(
            min=0, max=max(len(browser.lines) - 1, 0), description="Line", layout={"width": "11rem"}
        )
        self.earlier = make.Button(description="Earlier lines", layout=_WIDE)
        self.later = make.Button(description="Later lines", layout=_WIDE)
        self.said, self.detail = make.HTML(), make.HTML()
        self.rows = picker(lambda pick: self._choose(int(pick)))
        self.found = list(range(len(browser.lines)))
        for control in (self.search, *self.kinds):
            control.observe(lambda _: self._filter(), "value")
        self.line.observe(lambda _: self._show(), "value")
        self.earlier.on_click(lambda _: self._turn(-1))
        self.later.on_click(lambda _: self._turn(1))
        filters = make.HBox([self.search, *self.kinds], layout=_ROW)
        turning = make.HBox([self.line, self.earlier, self.later, self.said], layout=_ROW)
        style = make.HTML(_STYLE, layout={"display": "none"})
        self.box = make.VBox([style, filters, turning, self.rows, self.detail], layout={"width": "100%"})
        self.box.add_class("clvlab-browser")
        self._show()

    def _filter(self) -> None:
        """Keep the lines that are asked for, and show the first of them, unless the one that is shown is among them."""
        asked = [toggle.tooltip for toggle in self.kinds if toggle.value]
        self.found = self.browser.find(self.search.value, asked)
        if self.found and self.line.value not in self.found:
            self.line.value = self.found[0]  # and so shown
        else:
            self._show()

    def _choose(self, seq: int) -> None:
        self.line.value = seq

    def _place(self) -> int:
        """Return how many of the found lines stand before the one that is shown."""
        return int(pl.Series(self.found, dtype=pl.Int64).search_sorted(self.line.value))

    def _turn(self, pages: int) -> None:
        if self.found:
            self.line.value = self.found[min(max(self._place() + pages * PAGE, 0), len(self.found) - 1)]

    def _show(self) -> None:
        found, at = self.found, self._place()
        first = at - at % PAGE
        shown = found[first : first + PAGE]
        said = f"{first + 1:,} to {first + len(shown):,} of {len(found):,} lines" if shown else "no such line"
        self.said.value = f'<span style="padding:0 .5rem" role="status">{said}</span>'
        self.earlier.disabled, self.later.disabled = first == 0, first + PAGE >= len(found)
        table = self.browser.table(self.browser.rows(shown), self.line.value, live=True) if shown else ""
        self.rows.content = html.block("", table)
        self.detail.value = self.browser.detail(self.line.value) if len(self.browser.lines) else ""
