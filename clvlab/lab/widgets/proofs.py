"""Evidence browser, Merkle path and playground in a notebook: widgets, or HTML."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from clvlab.errors import ClvlabError
from clvlab.lab.widgets.interactive import Interactive, picker
from clvlab.report.export import optional
from clvlab.report.html import Html, card, render
from clvlab.report.proofs.evidence import PAGE, EvidenceView, Inclusion, Lines
from clvlab.report.proofs.tampering import FILES, Tampering
from clvlab.report.proofs.verification import state
from clvlab.words import counted

# The evidence browser as a widget.


_WIDE = {"width": "auto", "max_width": "100%"}
_ROW = {"flex_flow": "row wrap", "align_items": "center", "width": "100%"}


_STYLE = """<style>
.clvlab-browser{container-type:inline-size}
.clvlab-browser .line{display:grid;grid-template-columns:minmax(0,1fr);gap:.6rem}
.clvlab-browser .line pre.bytes{white-space:pre;overflow-wrap:normal;font-size:11px}
@container (min-width:58rem){.clvlab-browser .line{grid-template-columns:minmax(0,1fr) 33rem}}
</style>"""


class EvidenceWidget:
    """Search, kinds, a page of lines and one whole line, in ``box``."""

    def __init__(self, browser: EvidenceView) -> None:
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
        self.status, self.detail = make.HTML(), make.HTML()
        self.rows = picker(lambda pick: self._choose(int(pick)))
        self.found = list(range(len(browser.lines)))
        for control in (self.search, *self.kinds):
            control.observe(lambda _: self._filter(), "value")
        self.line.observe(lambda _: self._show(), "value")
        self.earlier.on_click(lambda _: self._turn(-1))
        self.later.on_click(lambda _: self._turn(1))
        filters = make.HBox([self.search, *self.kinds], layout=_ROW)
        turning = make.HBox([self.line, self.earlier, self.later, self.status], layout=_ROW)
        style = make.HTML(_STYLE, layout={"display": "none"})
        self.box = make.VBox([style, filters, turning, self.rows, self.detail], layout={"width": "100%"})
        self.box.add_class("clvlab-browser")
        self._show()

    def _filter(self) -> None:
        """Filter the lines, and go to the first of them unless the current line is among them."""
        kinds = [toggle.tooltip for toggle in self.kinds if toggle.value]
        self.found = self.browser.find(self.search.value, kinds)
        if self.found and self.line.value not in self.found:
            self.line.value = self.found[0]  # shows it
        else:
            self._show()

    def _choose(self, seq: int) -> None:
        self.line.value = seq

    def _place(self) -> int:
        """Return the number of found lines before the current one."""
        return int(pl.Series(self.found, dtype=pl.Int64).search_sorted(self.line.value))

    def _turn(self, pages: int) -> None:
        if self.found:
            self.line.value = self.found[min(max(self._place() + pages * PAGE, 0), len(self.found) - 1)]

    def _show(self) -> None:
        found, at = self.found, self._place()
        first = at - at % PAGE
        numbers = found[first : first + PAGE]
        text = f"{first + 1:,} to {first + len(numbers):,} of {len(found):,} lines" if numbers else "no such line"
        self.status.value = render("now.html", text=text, status=True)
        self.earlier.disabled, self.later.disabled = first == 0, first + PAGE >= len(found)
        rows = self.browser.template_values(self.browser.rows(numbers), self.line.value, live=True)
        self.rows.content = str(card("evidence.html", **rows, between=0))
        self.detail.value = self.browser.detail(self.line.value) if len(self.browser.lines) else ""


# The evidence browser: a widget, or the first lines and the last line.


class EvidenceBrowser(EvidenceView, Interactive):
    """The lines of ``events.jsonl`` and their running SHA-256; made by ``Run.browse()``.

    Examples
    --------
    >>> from clvlab.lab import backtest
    >>> run = backtest("starter", "baseline").run
    >>> run.browse().running_hash(-1) == run.evidence_hash
    True
    """

    def __repr__(self) -> str:
        size = f"{counted(len(self.lines), 'line')}, {counted(len(self.source.events), 'byte')}"
        return f"Evidence of {self.source.run_id}: {size}; next: .text(seq), .frame"

    def _repr_html_(self) -> Html:
        more = len(self.lines) - PAGE - 1
        ends = [self.page(0), *([self.page(len(self.lines) - 1, 1)] if more >= 0 else [])]
        title = f"Evidence of {self.source.run_id}: {counted(len(self.lines), 'line')}"
        return card("evidence.html", title, **self.template_values(pl.concat(ends)), between=more)

    def _build(self) -> Any:
        return EvidenceWidget(self).box


# The Merkle path as a widget: pick a leaf, and its path lights up.


class MerkleWidget:
    """The line, the picture, and every hash of the path, in ``box``."""

    def __init__(self, path: Inclusion) -> None:
        make = optional("ipywidgets", "the Merkle picture")
        self.path = path
        auto = {"width": "auto"}
        self.line = make.BoundedIntText(value=path.seq, min=0, max=path.size - 1, description="Line", layout={"width": "11rem"})
        self.before = make.Button(description="Line before", layout=auto)
        self.after = make.Button(description="Line after", layout=auto)
        self.status, self.hashes = make.HTML(), make.HTML()
        self.picture = picker(lambda pick: self._go(int(pick)))
        self.line.observe(lambda _: self._show(), "value")
        self.before.on_click(lambda _: self._go(self.line.value - 1))
        self.after.on_click(lambda _: self._go(self.line.value + 1))
        row = make.HBox([self.line, self.before, self.after], layout={"flex_flow": "row wrap", "align_items": "center"})
        self.box = make.VBox([row, self.status, self.picture, self.hashes], layout={"width": "100%"})
        self.box.add_class("clvlab-merkle")
        self._show()

    def _go(self, seq: int) -> None:
        self.line.value = min(max(seq, 0), self.path.size - 1)

    def _show(self) -> None:
        path = self.path = self.path.of(self.line.value)
        self.before.disabled, self.after.disabled = path.seq == 0, path.seq == path.size - 1
        values = path.template_values(live=True)
        self.status.value, self.picture.content, self.hashes.value = (
            str(card(f"{part}.html", **values)) for part in ("path_line", "path_picture", "path_hashes")
        )


# The Merkle path of one line: a widget, or its picture.


class MerklePath(Inclusion, Interactive):
    """The inclusion proof of one line of evidence (RFC 9162, section 2.1.3); made by ``Run.merkle_path(seq)``.

    Attributes
    ----------
    seq, size
        Number of the line, and number of all lines.
    tree
        The whole tree.
    leaf
        SHA-256 of 0x00 and the line.
    steps
        Steps from the leaf to the root.

    Examples
    --------
    >>> from clvlab.lab import backtest
    >>> backtest("starter", "baseline").run.merkle_path(1).holds
    True
    """

    def __repr__(self) -> str:
        arrives = "arrives at" if self.holds else "DOES NOT arrive at"
        return (
            f"Merkle path of line {self.seq} of {self.size:,}: {len(self.steps)} steps, {arrives} the stated root; next: .frame"
        )

    def _repr_html_(self) -> Html:
        return card("path.html", self.line, **self.template_values())

    def _build(self) -> Any:
        return MerkleWidget(self).box


# The playground as a widget.


class PlaygroundWidget:
    """Controls of a playground, in ``box``."""

    def __init__(self, playground: Tampering) -> None:
        self.playground = playground
        make = optional("ipywidgets", "the playground")
        auto = {"width": "auto", "max_width": "100%"}
        self.attack = make.Dropdown(options=playground.attacks, description="Attack", layout=auto)
        self.file = make.Dropdown(options=FILES, description="File", layout=auto)
        self.number = make.BoundedIntText(min=0, max=0, description="Line", layout={"width": "11rem"})
        self.text = make.Textarea(description="Its text", layout={"width": "100%", "height": "7rem"})
        self.result = make.HTML()
        self.file.observe(self._read, "value")
        self.number.observe(self._read, "value")

        def button(text: str, act: Callable[[], object], style: str = "") -> Any:
            made = make.Button(description=text, button_style=style, layout={"width": "auto"})
            made.on_click(lambda _: self._do(act))
            return made

        row = {"flex_flow": "row wrap", "align_items": "center", "width": "100%"}
        self.try_it = button("Try it", lambda: playground.attack(self.attack.value), "warning")
        self.write = button(
            "Write the line", lambda: playground.write_line(self.file.value, self.number.value, self.text.value)
        )
        self.flip = button("Flip a bit of it", lambda: playground.flip_in_line(self.file.value, self.number.value))
        self.close = button("Close the seal again", playground.close_seal)
        self.restore = button("Restore", playground.restore, "success")
        parts = [
            make.HBox([self.attack, self.try_it, self.close, self.restore], layout=row),
            make.HBox([self.file, self.number, self.write, self.flip], layout=row),
            self.text,
            self.result,
        ]
        self.box = make.VBox(parts, layout={"width": "100%"})
        self.box.add_class("clvlab-playground")
        self._turn_to_change()
        self._show()

    def _do(self, act: Callable[[], object]) -> None:
        """Act, then show the copy and a refusal, if any."""
        refused = ""
        try:
            act()
        except ClvlabError as error:
            refused = str(error)
        self._turn_to_change()
        self._show(refused)

    def _turn_to_change(self) -> None:
        """Read the first changed line, or the current line again."""
        if changed := self.playground.first_change:
            self.file.value = changed[0]
            self._read()
            self.number.value = min(changed[1], self.number.max)
        self._read()

    def _read(self, _: Any = None) -> None:
        lines = Lines(self.playground.copy.read(self.file.value))
        self.number.max = max(len(lines) - 1, 0)
        self.text.value = self.playground.line(self.file.value, self.number.value) if len(lines) else ""

    def _show(self, refused: str = "") -> None:
        self.result.value = self.playground.card(refused=refused, live=True)


class Playground(Tampering, Interactive):
    """A copy of a sealed run to tamper with; made by ``Run.tamper()``. The run and its folder stay untouched.

    Each act changes the copy and returns the playground: ``.attack(name)``, ``.replace(file, old, new)``,
    ``.write_line(file, number, text)``, ``.flip(file, offset)``, ``.close_seal()``, ``.restore()``.

    Examples
    --------
    >>> from clvlab.lab import backtest
    >>> playground = backtest("starter", "baseline").run.tamper()
    >>> playground.attack("drop the worst score").red
    ['metrics_recomputed']
    """

    def __repr__(self) -> str:
        changed = f"{len(self.changes)} changes" if self.changes else "untouched"
        red = f" ({', '.join(self.red)})" if self.red else ""
        verdict = f"{state(self.verification)}{red}"
        return f"Playground of {self.source.run_id}: {changed}, {verdict}; next: .attack(name), .restore()"

    def _repr_html_(self) -> Html:
        return self.card()

    def _build(self) -> Any:
        return PlaygroundWidget(self).box
