"""The Merkle path of one line: from its bytes to the evidence root that the manifest states, drawn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import orjson
import polars as pl

from clvlab.drawing import html
from clvlab.drawing.showing import Shown
from clvlab.errors import EvidenceError
from clvlab.lab.proofs.lines import Lines
from clvlab.proof.merkle import inclusion_proof, leaf_hash, leaf_hashes, node_hash
from clvlab.proof.seal import SealedRun

_DIGITS = 10
_ROW, _BOX, _GAP = 54, 190, 70  # of the picture, in pixels


@dataclass(frozen=True, slots=True)
class Step:
    """One step towards the root: the sibling, on which side it stands, and the node that the two make."""

    sibling: bytes
    left: bool
    node: bytes


class MerklePath(Shown):
    """The inclusion proof of one line of evidence (RFC 9162, section 2.1.3); made by ``Run.merkle_path(seq)``.

    Attributes
    ----------
    seq, size
        Number of the line, and of lines.
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

    def __init__(self, run: SealedRun, seq: int) -> None:
        lines = Lines(run.events)
        if not 0 <= seq < len(lines):
            raise EvidenceError(f"run {run.run_id} has no line {seq}: it has {len(lines)}, numbered from 0")
        self.source, self.seq, self.size = run, seq, len(lines)
        self.leaf = leaf_hash(lines.get(seq))
        self.steps = _steps(self.leaf, seq, self.size, inclusion_proof(leaf_hashes(run.events), seq))

    @property
    def root(self) -> str:
        """Where the path arrives."""
        return f"sha256:{(self.steps[-1].node if self.steps else self.leaf).hex()}"

    @cached_property
    def stated_root(self) -> str | None:
        """The evidence root in the manifest; null where it states none."""
        try:
            return str(orjson.loads(self.source.manifest)["evidence_root"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return None

    @property
    def holds(self) -> bool:
        """Whether the path arrives at the root that the manifest states."""
        return self.root == self.stated_root

    @property
    def frame(self) -> pl.DataFrame:
        """One row per step: (step, sibling_is, sibling, node), hashes in hex; step 0 is the leaf."""
        rows: list[tuple[int, str | None, str | None, str]] = [(0, None, None, self.leaf.hex())]
        rows += [
            (number, "left" if step.left else "right", step.sibling.hex(), step.node.hex())
            for number, step in enumerate(self.steps, 1)
        ]
        schema = {"step": pl.Int64, "sibling_is": pl.String, "sibling": pl.String, "node": pl.String}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def __repr__(self) -> str:
        arrives = "arrives at" if self.holds else "DOES NOT arrive at"
        return (
            f"Merkle path of line {self.seq} of {self.size:,}: {len(self.steps)} steps, {arrives} the stated root; next: .frame"
        )

    def _repr_html_(self) -> str:
        verdict = (
            "arrives at the root that the manifest states" if self.holds else "does NOT arrive at the root of the manifest"
        )
        return html.block(
            f"Line {self.seq:,} of {self.size:,}: {len(self.steps)} hashes prove it, the path {verdict}",
            f'<div class="wide">{self.svg()}</div>',
            html.facts({"path arrives at": self.root, "manifest states": self.stated_root}),
            '<p class="quiet">Leaf = SHA-256(00, line); node = SHA-256(01, left, right).</p>',
        )

    def svg(self) -> str:
        """Draw the path from the line, below, to the root, above; siblings stand on their side."""
        top = len(self.steps)
        width, height = 3 * _BOX + 2 * _GAP, (top + 1) * _ROW + 6
        middle, parts = _BOX + _GAP, []
        for number, step in enumerate(self.steps):
            y, above = (top - number) * _ROW, (top - number - 1) * _ROW
            x = 0 if step.left else 2 * (_BOX + _GAP)
            parts += [_line(middle, y, middle, above), _line(x, y, middle, above)]
            parts.append(_box(x, y, f"sibling {number + 1}", step.sibling, on_path=False))
        names = [f"leaf: line {self.seq:,}", *(f"node {number}" for number in range(1, top)), "root"][: top + 1]
        nodes = [self.leaf, *(step.node for step in self.steps)]
        for number, (name, node) in enumerate(zip(names if top else ["leaf = root"], nodes, strict=True)):
            parts.append(_box(middle, (top - number) * _ROW, name, node, on_path=True))
        said = html.escape(f"Merkle path of line {self.seq}")
        return (
            f'<svg role="img" aria-label="{said}" viewBox="0 -3 {width} {height}" style="width:{width}px;max-width:100%">'
            f'<g font-family="inherit" font-size="12" fill="currentColor">{"".join(parts)}</g></svg>'
        )


def _steps(leaf: bytes, index: int, size: int, proof: list[bytes]) -> list[Step]:
    """Walk the proof as RFC 9162, section 2.1.3.2, checks it, and keep each node."""
    steps, node, position, last = [], leaf, index, size - 1
    for sibling in proof:
        left = bool(position & 1) or position == last
        node = node_hash(sibling, node) if left else node_hash(node, sibling)
        while left and position and not position & 1:
            position, last = position >> 1, last >> 1
        position, last = position >> 1, last >> 1
        steps.append(Step(sibling, left, node))
    return steps


def _line(x: int, y: int, to_x: int, to_y: int) -> str:
    half = _BOX // 2
    return f'<line x1="{x + half}" y1="{y}" x2="{to_x + half}" y2="{to_y + 38}" stroke="currentColor" stroke-opacity="0.45"/>'


def _box(x: int, y: int, name: str, digest: bytes, *, on_path: bool) -> str:
    dash, weight = ("", "600") if on_path else (' stroke-dasharray="4 3"', "400")
    short = digest.hex()
    return (
        f'<rect x="{x + 1}" y="{y}" width="{_BOX - 2}" height="38" rx="4" fill="none" stroke="currentColor"{dash}/>'
        f'<text x="{x + 10}" y="{y + 15}" font-weight="{weight}">{html.escape(name)}</text>'
        f'<text x="{x + 10}" y="{y + 31}" font-family="monospace">{short[:_DIGITS]}…{short[-_DIGITS:]}</text>'
    )
