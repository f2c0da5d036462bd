"""The explorer as a widget: controls that move an ``Exploration``, and a plotly figure that shows its view."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from clvlab.drawing import html
from clvlab.drawing.showing import optional
from clvlab.lab.explorer.exploration import Exploration
from clvlab.lab.explorer.figure import clock, layout, selection_ring, traces
from clvlab.lab.explorer.fitting import fitter
from clvlab.lab.explorer.record import record_html
from clvlab.lab.explorer.view import Market
from clvlab.lab.proofs.verdicts import verdicts_html
from clvlab.proof.verify import verify

_MOST_FIXTURES = 300  # in the list at once; the search narrows it
_SEARCH = "name or number"
_STEPS = 60  # of the replay, from the first message to the last
_CONFIG = {
    "displaylogo": False,
    "doubleClick": "autosize",
    "modeBarButtons": [["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "autoScale2d"], ["toImage"]],
    "responsive": True,
}
# The ink of the figure follows the page, whatever its theme; what plotly draws on its own ground keeps its own.
_STYLE = """<style>
.clvlab-explorer{color:var(--jp-content-font-color1,inherit)}
.clvlab-explorer .infolayer text,.clvlab-explorer .xaxislayer-above text,.clvlab-explorer .yaxislayer-above text
{fill:currentColor!important}
.clvlab-explorer .js-plotly-plot{width:100%}
</style>"""


class ExplorerWidget:
    """Controls and picture of an explorer; ``box`` is what is displayed."""

    def __init__(self, explorer: Exploration) -> None:
        self.explorer = explorer
        self.widgets = optional("ipywidgets", "the explorer")
        self.fitter = fitter()
        self.graphs = optional("plotly.graph_objects", "the explorer")
        self._quiet = False  # while the code itself moves a control
        self._controls()
        self.figure = self.graphs.FigureWidget()
        self.figure.set_trait("_config", _CONFIG)
        self.box = self._box()
        self.drawn: Market | None = None
        self.seq: int | None = None
        explorer.followers.append(self._follow)
        self._follow()

    def _controls(self) -> None:
        make, wide = self.widgets, {"width": "auto", "max_width": "100%"}
        self.search = make.Text(placeholder=_SEARCH, description="Find", layout=wide, continuous_update=False)
        self.fixture = make.Dropdown(description="Fixture", layout=wide)
        self.market = make.Dropdown(description="Market", layout=wide)
        self.play = make.Play(interval=400, min=0, layout={"width": "auto"})
        self.slider = make.IntSlider(description="Replay", min=0, readout=False, layout={"flex": "1 1 12rem", "width": "auto"})
        self.now = make.HTML()
        self.previous = make.Button(description="Previous decision", layout={"width": "auto"})
        self.following = make.Button(description="Next decision", layout={"width": "auto"})
        self.verify = make.Button(description="Verify the run", button_style="primary", layout={"width": "auto"})
        self.summary, self.record, self.verdict = make.HTML(), make.HTML(), make.HTML()
        for widget, name in ((self.record, "record"), (self.verdict, "verdict"), (self.verify, "verify")):
            widget.add_class(f"clvlab-{name}")
        make.jslink((self.play, "value"), (self.slider, "value"))
        self.search.observe(lambda _: self._list_fixtures(), "value")
        self.fixture.observe(self._when(self._choose_fixture), "value")
        self.market.observe(self._when(self._choose_market), "value")
        self.slider.observe(self._when(self._move), "value")
        self.previous.on_click(lambda _: self._step(-1))
        self.following.on_click(lambda _: self._step(1))
        self.verify.on_click(lambda _: self._verify())
        self._list_fixtures()

    def _box(self) -> Any:
        make = self.widgets
        row = {"flex_flow": "row wrap", "align_items": "center", "width": "100%"}
        parts = [
            make.HTML(_STYLE, layout={"display": "none"}),
            make.HBox([self.search, self.fixture, self.market], layout=row),
            make.HBox([self.play, self.slider, self.now], layout=row),
            self.summary,
            self.figure,
            self.fitter,
            make.HBox([self.previous, self.following, self.verify], layout=row),
            self.record,
            self.verdict,
        ]
        box = make.VBox(parts, layout={"width": "100%"})
        box.add_class("clvlab-explorer")
        return box

    def _when(self, act: Any) -> Any:
        """Run an act when a person moved the control, not when the code did."""
        return lambda _: None if self._quiet else act()

    def _list_fixtures(self) -> None:
        """Offer the fixtures whose name or number holds what was searched for; the chosen one stays in the list."""
        rows = self.explorer.fixtures
        asked = self.search.value.strip().lower()
        held = pl.concat_str(pl.col("fixture_id").cast(pl.String), pl.lit(" "), "names").str.to_lowercase()
        found = rows.filter(held.str.contains(asked, literal=True)).head(_MOST_FIXTURES)
        chosen = rows.filter(pl.col("fixture_id") == self.explorer.fixture_id)
        listed = pl.concat([found, chosen]).unique("fixture_id", keep="first", maintain_order=True)
        options = [(f"{names or fixture} ({count:,} decisions)", fixture) for fixture, names, count in listed.iter_rows()]
        self._set(self.fixture, options=options, value=self.explorer.fixture_id)
        self.search.placeholder = _SEARCH if rows.height <= _MOST_FIXTURES else f"{_SEARCH}, in {rows.height:,} fixtures"

    def _set(self, control: Any, **values: Any) -> None:
        self._quiet = True
        try:
            for name, value in values.items():
                setattr(control, name, value)
        finally:
            self._quiet = False

    def _choose_fixture(self) -> None:
        if self.fixture.value is not None:
            self.explorer.show(self.fixture.value)

    def _choose_market(self) -> None:
        self.explorer.show(self.explorer.fixture_id, self.market.value)

    def _follow(self) -> None:
        """Show what the explorer now shows, whoever moved it: a control, or a line of code."""
        if self.drawn is not self.explorer.market:
            self._open()
        else:
            self._redraw()
        for control in (self.slider, self.play):
            self._set(control, value=self.explorer.view.position)
        self._say()

    def _open(self) -> None:
        """Draw another market: other sides, so other traces."""
        explorer, self.drawn = self.explorer, self.explorer.market
        if self.fixture.value != explorer.fixture_id:
            self._list_fixtures()
        options = [(f"{key} ({count:,})", key) for key, count in explorer.markets.iter_rows()]
        self._set(self.market, options=options, value=explorer.market.market_key if options else None)
        for control in (self.slider, self.play):
            self._set(control, max=max(explorer.view.messages, 1))
        self.play.step = max(1, explorer.view.messages // _STEPS)
        self.record.value, self.seq = "", None
        self._set_figure(explorer.view)

    def _set_figure(self, view: Any) -> None:
        figure, self._quiet = self.figure, True  # a new range is no zoom
        try:
            with figure.batch_update():
                figure.data = ()
                figure.update_layout(layout(view))
            figure.add_traces(traces(view))
        finally:
            self._quiet = False
        for trace in figure.data:
            if trace.mode == "markers":
                trace.on_click(self._clicked)
        figure.layout.on_change(self._zoomed, "xaxis.range")

    def _move(self) -> None:
        whole = self.slider.value >= self.explorer.view.messages
        self.explorer.seek(None if whole else self.slider.value, self.explorer.span_ms)

    def _zoomed(self, _: Any, limits: Any) -> None:
        """Draw what is seen in full detail."""
        if self._quiet or not limits:
            return
        span_ms = (_ts_ms(limits[0]), _ts_ms(limits[1]))
        self.explorer.seek(self.explorer.position, None if span_ms == self.explorer.market.span_ms else span_ms)

    def _redraw(self) -> None:
        figure = self.figure
        with figure.batch_update():
            for trace, new in zip(figure.data, traces(self.explorer.view, self.seq), strict=True):
                trace.update({name: value for name, value in new.items() if name in _MOVING})
        self._show_record()

    def _say(self) -> None:
        explorer = self.explorer
        now = explorer.view.now_ms
        said = "everything shown" if now is None else f"{clock(now)} UTC" if now else "before the first message"
        self.now.value = f'<span style="padding:0 .5rem">{said}</span>'
        self.summary.value = html.block("", f"<p>{html.escape(explorer.line)}.</p>")

    def _clicked(self, trace: Any, points: Any, _: Any) -> None:
        if points.point_inds:
            self._open_record(int(trace.customdata[points.point_inds[0]]))

    def _step(self, by: int) -> None:
        """Open the decision before or after the open one, in order of time."""
        seqs = self.explorer.frame["seq"].to_list()
        if not seqs:
            return
        at = seqs.index(self.seq) + by if self.seq in seqs else (0 if by > 0 else -1)
        self._open_record(seqs[at % len(seqs)])

    def _open_record(self, seq: int) -> None:
        self.seq = seq
        ring = selection_ring(self.explorer.view, seq)
        self.figure.data[-1].update(x=ring["x"], y=ring["y"])
        self._show_record()

    def _show_record(self) -> None:
        """Show the record of the chosen decision, unless the replay has not come to it."""
        seq, explorer = self.seq, self.explorer
        if seq is None or seq not in explorer.frame["seq"]:
            self.record.value = ""
        else:
            self.record.value = record_html(seq, explorer.record(seq), known=explorer.known)

    def _verify(self) -> None:
        self.verify.disabled, self.verdict.value = True, html.block("Recomputing the seven checks ...")
        try:
            source = self.explorer.source
            self.verdict.value = verdicts_html(verify(source.run, source.receipts))
        finally:
            self.verify.disabled = False


def _ts_ms(limit: float | str) -> int:
    """Read an end of an axis of dates: a number as we set it, a text as plotly gives it after a zoom."""
    return int(np.datetime64(limit.replace(" ", "T"), "ms").astype(np.int64)) if isinstance(limit, str) else int(limit)


_MOVING = frozenset({"x", "y", "text", "customdata", "showlegend", "name"})
