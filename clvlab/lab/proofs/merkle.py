"""The Merkle path of one line as a notebook shows it: a widget, or the picture of it."""

from __future__ import annotations

from typing import Any

from clvlab.drawing import html
from clvlab.lab.drawing.interactive import NOTE, Interactive
from clvlab.lab.proofs.inclusion import Inclusion
from clvlab.lab.proofs.merkle_widget import MerkleWidget


class MerklePath(Inclusion, Interactive):
    """The inclusion proof of one line of evidence (RFC 9162, section 2.1.3); made by ``Run.merkle_path(seq)``.

    Attributes
    ----------
    seq, size
        Number of the line, and of lines.
    tree
        All of it.
    leaf
        SHA-256 of 0x00 and the line.
    steps
        From the leaf to the root.

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

    def _repr_html_(self) -> str:
        return html.block(self.line, html.section("", self.svg()), self.hashes(), NOTE)

    def _build(self) -> Any:
        return MerkleWidget(self).box
