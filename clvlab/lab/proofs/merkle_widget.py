"""The Merkle path as a widget: pick a leaf, and its path lights up."""

from __future__ import annotations

from clvlab.drawing import html
from clvlab.drawing.showing import optional
from clvlab.lab.drawing.picking import picker
from clvlab.lab.proofs.inclusion import Inclusion


class MerkleWidget:
    """The line, the picture, and every hash of the path; ``box`` is what is displayed."""

    def __init__(self, path: Inclusion) -> None:
        make = optional("ipywidgets", "the Merkle picture")
        self.path = path
        auto = {"width": "auto"}
        self.line = make.BoundedIntText(value=path.seq, min=0, max=path.size - 1, description="Line", layout={"width": "11rem"})
        self.before = make.Button(description="Line before", layout=auto)
        self.after = make.Button(description="Line after", layout=auto)
        self.said, self.hashes = make.HTML(), make.HTML()
        self.picture = picker(lambda pick: self._go(int(pick)))
        self.line.observe(lambda _: self._show(), "value")
        self.before.on_click(lambda _: self._go(self.line.value - 1))
        self.after.on_click(lambda _: self._go(self.line.value + 1))
        row = make.HBox([self.line, self.before, self.after], layout={"flex_flow": "row wrap", "align_items": "center"})
        self.box = make.VBox([row, self.said, self.picture, self.hashes], layout={"width": "100%"})
        self.box.add_class("clvlab-merkle")
        self._show()

    def _go(self, seq: int) -> None:
        self.line.value = min(max(seq, 0), self.path.size - 1)

    def _show(self) -> None:
        path = self.path = self.path.of(self.line.value)
        self.before.disabled, self.after.disabled = path.seq == 0, path.seq == path.size - 1
        self.said.value = html.block("", f'<p role="status"><strong>{html.escape(path.line)}.</strong></p>')
        self.picture.content = html.block("", html.section("", path.svg(live=True)))
        self.hashes.value = html.block("", path.hashes())
