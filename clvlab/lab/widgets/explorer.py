"""The explorer in a notebook: a widget, or a picture and a table."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from clvlab.errors import MissingLibraryError
from clvlab.lab.widgets.interactive import Interactive
from clvlab.report.axes import png
from clvlab.report.explorer.exploration import Exploration, matching
from clvlab.report.explorer.figure import (
    clock,
    layout,
    legend,
    reach,
    selection_ring,
    traces,
)
from clvlab.report.explorer.page import STILL, draw, market_card, record_card
from clvlab.report.explorer.view import ReplayMarket
from clvlab.report.export import optional
from clvlab.report.html import Html, card, render, time_element, times_script
from clvlab.report.proofs.verification import verification_card
from clvlab.words import counted, market_names

# The widget: controls that move an ``Exploration``, and a plotly figure of its view.


# An invisible widget that fits the plotly figures next to it to the width of the cell.
#
# The figure widget draws before its cell is on the page, at a default width, and checks the width again only when the
# window changes.


_FITTING_ESM = """
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
    """Make the widget."""
    anywidget = optional("anywidget", "the explorer")
    return type("Fitter", (anywidget.AnyWidget,), {"_esm": _FITTING_ESM})(
        layout={"width": "100%", "height": "0px", "margin": "0"}
    )


# An invisible widget that receives the keys pressed in the explorer, names its parts for screen readers, and adds the reader's
# own time to times in UTC.
#
# The shortcuts of JupyterLab are off there: ``b`` would put a cell below this one.


KEYS = {
    " ": "play or pause",
    "ArrowLeft": "one price update back",
    "ArrowRight": "one price update forward",
    "Home": "before the first price update",
    "End": "all price updates",
    "p": "previous decision",
    "n": "next decision",
    "-": "slower",
    "+": "faster",
}
"""What each key does, by its name in a browser."""

# A field or list with the focus gets its keys; a button keeps Space, and the slider keeps its arrow keys.
_KEYS_ESM = """
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
      root.querySelector(".noUi-handle")?.setAttribute("aria-label", "price updates replayed");
      root.querySelector(".clvlab-record")?.setAttribute("aria-live", "polite");
      const chart = root.querySelector(".clvlab-chart");
      if (!chart) return;
      chart.tabIndex = 0;
      chart.setAttribute("role", "group");
      chart.setAttribute("aria-label", model.get("label"));
    };
    const parts = new MutationObserver(() => addReaderTimes(root));
    const settle = new ResizeObserver(() => {
      if (!root && (root = el.closest(".clvlab-explorer"))) {
        root.addEventListener("focusin", quiet);
        root.addEventListener("keydown", press);
        parts.observe(root, { childList: true, subtree: true });
      }
      if (root) { name(); addReaderTimes(root); }
    });
    settle.observe(el);
    return () => {
      settle.disconnect();
      parts.disconnect();
      root?.removeEventListener("keydown", press);
      root?.removeEventListener("focusin", quiet);
    };
  },
};
"""


def keyboard(pressed: Callable[[str], object], label: str) -> Any:
    """Make the widget."""
    anywidget, traitlets = optional("anywidget", "the explorer"), optional("traitlets", "the explorer")
    traits = {"heard": traitlets.List(list(KEYS)).tag(sync=True), "label": traitlets.Unicode(label).tag(sync=True)}
    traits["_esm"] = times_script() + _KEYS_ESM
    made = type("Keyboard", (anywidget.AnyWidget,), traits)(layout={"width": "100%", "height": "0px"})
    made.on_msg(lambda _, message, buffers: pressed(str(message.get("key", ""))))  # noqa: ARG005  ipywidgets gives three
    return made


# The style of the explorer: the layout of its parts, in the colours of the page.


# Colours of the figure follow the theme of the page; parts on plotly's own background keep plotly's colours. The record
# is next to the chart if there is room, otherwise below it.
STYLE = """<style>
.clvlab-explorer{color:var(--jp-content-font-color1,var(--vscode-editor-foreground,inherit));container-type:inline-size}
.clvlab-explorer .infolayer text,.clvlab-explorer .xaxislayer-above text,.clvlab-explorer .yaxislayer-above text
{fill:currentColor!important}
.clvlab-explorer .js-plotly-plot{width:100%}
.clvlab-explorer .clvlab-stage{display:grid;grid-template-columns:minmax(0,1fr);gap:.5rem 1rem;align-items:start;width:100%}
.clvlab-explorer .clvlab-record{margin:0;overflow:visible;height:auto;width:auto!important;min-width:0}
.clvlab-explorer .clvlab-record>*{min-width:0;width:100%}.clvlab-explorer .clvlab-chart{min-width:0}
.clvlab-explorer .clvlab-record .clvlab{font-size:12px;overflow-wrap:anywhere}
.clvlab-explorer .clvlab-record :is(th,td){padding-right:.4rem}
.clvlab-explorer kbd{font:inherit;border:1px solid rgba(128,128,128,.6);border-radius:3px;padding:0 .3em}
.clvlab-explorer .legend{display:flex;flex-wrap:wrap;gap:0 1.1rem;list-style:none;margin:0;padding:0 0 0 3.2rem}
.clvlab-explorer .legend li{margin:0;white-space:nowrap}.clvlab-explorer .legend span{font-weight:700}
.clvlab-explorer .clvlab-record .clvlab h4{margin-top:0}.clvlab-explorer .own-time{font-size:inherit}
.clvlab-explorer .own-time::before{content:"("}.clvlab-explorer .own-time::after{content:")"}
@container (min-width:44rem){.clvlab-explorer .clvlab-stage{grid-template-columns:minmax(0,1fr) clamp(17rem,28%,22rem)}}
</style>"""


_MOST_FIXTURES = 300  # largest number in the list at once; the search narrows it
_SEARCH = "team, date or number"
_STEPS = 60  # number of steps of the replay, from the first message to the last
_SPEEDS = {"¼×": 1600, "½×": 800, "1×": 400, "2×": 200, "4×": 100}  # milliseconds a step; a step takes some 40
_CONFIG = {
    "displaylogo": False,
    "doubleClick": "autosize",
    "modeBarButtons": [["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "autoScale2d"], ["toImage"]],
    "responsive": True,
}
_LABEL = "Chart of the market. The buttons Previous decision and Next decision open its decisions."


class ExplorerWidget:
    """Controls and picture of an explorer, in ``box``."""

    def __init__(self, explorer: Exploration) -> None:
        self.explorer = explorer
        self.widgets = optional("ipywidgets", "the explorer")
        self.fitter = fitter()
        self.graphs = optional("plotly.graph_objects", "the explorer")
        self._quiet = False  # true while the code itself moves a control
        self._controls()
        self.keyboard = keyboard(self.press, _LABEL)
        self.figure = self.graphs.FigureWidget()
        self.figure.set_trait("_config", _CONFIG)
        self.box = self._box()
        self.drawn: ReplayMarket | None = None
        self.seq: int | None = None
        explorer.followers.append(self._follow)
        self._follow()
        # Only this puts the traces into the figure's state. A page that is slow to load the figure misses the messages that
        # added them, and would show empty axes.
        self.figure._repr_mimebundle_()

    def _controls(self) -> None:
        make, wide = self.widgets, {"width": "auto", "max_width": "100%"}
        self.search = make.Text(placeholder=_SEARCH, description="Find", layout=wide, continuous_update=False)
        self.fixture = make.Dropdown(description="Fixture", layout=wide)
        self.market = make.Dropdown(description="Market", layout=wide)
        self.play = make.Play(interval=_SPEEDS["1×"], min=0, layout=wide)
        self.slider = make.IntSlider(description="Replay", min=0, readout=False, layout={"flex": "1 1 12rem", "width": "auto"})
        speeds = [*_SPEEDS.items()]
        self.speed = make.Dropdown(description="Speed", options=speeds, value=self.play.interval, layout={"width": "10rem"})
        self.now = make.HTML()
        self.back, self.on = (make.Button(description=text, layout=wide) for text in ("◂ Update", "Update ▸"))
        self.back.tooltip, self.on.tooltip = "one price update back", "one price update forward"
        self.previous = make.Button(description="Previous decision", layout=wide)
        self.following = make.Button(description="Next decision", layout=wide)
        self.verify = make.Button(description="Verify the run", button_style="primary", layout=wide)
        self.summary, self.legend, self.record, self.verdict = (make.HTML() for _ in range(4))
        for widget, name in ((self.record, "record"), (self.verdict, "verdict"), (self.verify, "verify")):
            widget.add_class(f"clvlab-{name}")
        make.jslink((self.play, "value"), (self.slider, "value"))
        self.play.moves = self.slider  # where widgets are shown without such links
        self.speed.observe(lambda _: setattr(self.play, "interval", self.speed.value), "value")
        self.search.observe(lambda _: self._search(), "value")
        self.fixture.observe(self._when(self._choose_fixture), "value")
        self.market.observe(self._when(self._choose_market), "value")
        self.slider.observe(self._when(self._move), "value")
        self.back.on_click(lambda _: self._go(-1))
        self.on.on_click(lambda _: self._go(1))
        self.previous.on_click(lambda _: self._step(-1))
        self.following.on_click(lambda _: self._step(1))
        self.verify.on_click(lambda _: self._verify())
        self._list_fixtures(self.explorer.fixtures)

    def _box(self) -> Any:
        make = self.widgets
        row = {"flex_flow": "row wrap", "align_items": "center", "width": "100%"}
        chart = make.VBox([self.legend, self.figure, self.fitter, self.keyboard])
        chart.add_class("clvlab-chart")
        stage = make.Box([chart, self.record])
        stage.add_class("clvlab-stage")
        parts = [
            make.HTML(STYLE, layout={"display": "none"}),
            make.HBox([self.search, self.fixture, self.market], layout=row),
            make.HBox([self.play, self.back, self.on, self.slider, self.now, self.speed], layout=row),
            make.HBox([self.previous, self.following, self.verify], layout=row),
            self.summary,
            stage,
            self.verdict,
        ]
        box = make.VBox(parts, layout={"width": "100%"})
        box.add_class("clvlab-explorer")
        return box

    def press(self, key: str) -> None:
        """Act on one of ``KEYS``."""
        match key:
            case " ":
                if not self.play.playing and self.slider.value >= self.slider.max:
                    self.slider.value = 0
                self.play.playing = not self.play.playing
            case "ArrowLeft" | "ArrowRight":
                self._go(-1 if key == "ArrowLeft" else 1)
            case "Home":
                self.slider.value = 0
            case "End":
                self.slider.value = self.slider.max
            case "p" | "n":
                self._step(-1 if key == "p" else 1)
            case "-" | "+":
                intervals = list(_SPEEDS.values())
                at = intervals.index(self.speed.value) + (1 if key == "+" else -1)
                self.speed.value = intervals[min(max(at, 0), len(intervals) - 1)]

    def _go(self, messages: int) -> None:
        self.play.playing = False
        self.slider.value = min(max(self.slider.value + messages, 0), self.slider.max)

    def _when(self, act: Any) -> Any:
        """Return a handler that acts only when a person moved the control, not the code."""
        return lambda _: None if self._quiet else act()

    def _search(self) -> None:
        """List the matching fixtures, and choose the first unless the chosen one matches."""
        found = matching(self.explorer.fixtures, self.search.value)
        self._list_fixtures(found)
        if found.height and self.explorer.fixture_id not in found["fixture_id"]:
            self.explorer.show(found["fixture_id"][0])
        else:
            self._say()

    def _list_fixtures(self, found: pl.DataFrame) -> None:
        rows = self.explorer.fixtures
        chosen = rows.filter(pl.col("fixture_id") == self.explorer.fixture_id)
        listed = pl.concat([found.head(_MOST_FIXTURES), chosen]).unique("fixture_id", keep="first", maintain_order=True)
        items = listed.select("label", "fixture_id", "decisions").iter_rows()
        options = [(f"{label} · {fixture} ({counted(count, 'decision')})", fixture) for label, fixture, count in items]
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
        """Update the widget after a move, by a control or by code."""
        if self.drawn is not self.explorer.market:
            self._open()
        else:
            self._redraw()
        for control in (self.slider, self.play):
            self._set(control, value=self.explorer.view.position)
        self._say()

    def _open(self) -> None:
        """Draw another market, with other traces."""
        explorer, self.drawn = self.explorer, self.explorer.market
        if self.fixture.value != explorer.fixture_id:
            self._list_fixtures(matching(explorer.fixtures, self.search.value))
        names = market_names(explorer.markets["market_key"])
        options = [(f"{names[key]} ({counted(count, 'decision')})", key) for key, count in explorer.markets.iter_rows()]
        self._set(self.market, options=options, value=explorer.market.market_key if options else None)
        for control in (self.slider, self.play):
            self._set(control, max=max(explorer.view.messages, 1))
        self.play.step = max(1, explorer.view.messages // _STEPS)
        self.seq = None
        self._show_record()
        self._set_figure(explorer.view)

    def _set_figure(self, view: Any) -> None:
        figure, self._quiet = self.figure, True  # a new range is not a zoom
        try:
            with figure.batch_update():
                figure.data = ()
                figure.update_layout(layout(view))
            figure.add_traces(traces(view))
        finally:
            self._quiet = False
        for trace in figure.data:
            if trace.mode == "markers":
                trace.on_click(self._on_click)
        figure.layout.on_change(self._on_zoom, "xaxis.range")

    def _move(self) -> None:
        whole = self.slider.value >= self.explorer.view.messages
        self.explorer.seek(None if whole else self.slider.value, self.explorer.span_ms)

    def _on_zoom(self, _: Any, limits: Any) -> None:
        if self._quiet or not limits:
            return
        span_ms = (_ts_ms(limits[0]), _ts_ms(limits[1]))
        self.explorer.seek(self.explorer.position, None if span_ms == self.explorer.market.span_ms else span_ms)

    def _redraw(self) -> None:
        figure = self.figure
        with figure.batch_update():
            for trace, new in zip(figure.data, traces(self.explorer.view, self.seq), strict=True):
                trace.update({name: value for name, value in new.items() if name in _MOVING})
            if self.explorer.span_ms is None:  # in a zoom the user has chosen both axes
                figure.layout.yaxis.range = reach(self.explorer.view)
        self._show_record()

    def _say(self) -> None:
        explorer = self.explorer
        now = explorer.view.now_ms
        self.legend.value = legend(explorer.view)
        moment = time_element(now, f"{clock(now)} UTC") if now else "before the first price update"
        text = "all price updates" if now is None else moment
        self.now.value = render("now.html", text=text)
        query = self.search.value.strip()
        missing = repr(query)[:80] if query and matching(explorer.fixtures, query).is_empty() else ""
        self.summary.value = card("summary.html", label=explorer.label, line=explorer.line, missing=missing)

    def _on_click(self, trace: Any, points: Any, _: Any) -> None:
        if points.point_inds:
            self._open_record(int(trace.customdata[points.point_inds[0]]))

    def _step(self, by: int) -> None:
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
        """Show the record of the chosen decision once the replay has reached it."""
        seq, explorer = self.seq, self.explorer
        if seq is None or seq not in explorer.frame["seq"]:
            self.record.value = card("keys.html")
        else:
            self.record.value = record_card(seq, explorer.record(seq), known=explorer.known, teams=explorer.teams)

    def _verify(self) -> None:
        self.verify.disabled, self.verdict.value = True, card("empty.html", "Recomputing the seven checks ...")
        try:
            source = self.explorer.source
            self.verdict.value = verification_card(source.verification)
        finally:
            self.verify.disabled = False


def _ts_ms(limit: float | str) -> int:
    """Return an end of a date axis in ms; our code sets a number, and plotly returns text after a zoom."""
    return int(np.datetime64(limit.replace(" ", "T"), "ms").astype(np.int64)) if isinstance(limit, str) else int(limit)


_MOVING = frozenset({"x", "y", "text", "customdata", "name"})


class Explorer(Exploration, Interactive):
    """A backtest, market by market; made by ``Result.explore``.

    ``.show(...)`` chooses a market, ``.view`` has its frames, ``.frame`` has its decisions, ``.record(seq)`` returns one
    of them, and ``.query`` is the call that returns to this view.

    Examples
    --------
    >>> from clvlab.lab import backtest
    >>> explorer = backtest("starter", "cumulative-drift").explore(90000005)
    >>> explorer.view.sides, explorer.frame.height > 0
    (('draw', 'part1', 'part2'), True)
    """

    def __repr__(self) -> str:
        place = f"{self.label} (fixture {self.fixture_id}), {self.view.market}"
        return f"Explorer of {place}: {self.line}; next: .show(), .frame, .query"

    def _repr_html_(self) -> Html:
        return market_card(self.label, self.line, self.view)

    def _flat(self) -> tuple[str, str]:
        alt = f"{self.label}: {self.line}"
        try:
            return b64encode(png(partial(draw, self.view), alt, STILL)).decode(), alt
        except MissingLibraryError:
            return "", ""

    def _build(self) -> Any:
        return ExplorerWidget(self).box
