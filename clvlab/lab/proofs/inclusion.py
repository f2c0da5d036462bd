"""The Merkle path of one line, from its bytes to the evidence root that the manifest states. Knows no widget."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import orjson
import polars as pl

from clvlab.drawing import html
from clvlab.errors import EvidenceError
from clvlab.lab.proofs.tree import Tree
from clvlab.lab.proofs.tree_picture import TreePicture
from clvlab.proof.merkle import node_hash
from clvlab.proof.seal import SealedRun


@dataclass(frozen=True, slots=True)
class Step:
    """One step towards the root: the sibling, on which side it stands, and the node that the two make."""

    sibling: bytes
    left: bool
    node: bytes


class Inclusion:
    """The inclusion proof of one line of evidence: ``MerklePath`` without its faces."""

    def __init__(self, run: SealedRun, seq: int, tree: Tree | None = None) -> None:
        self.tree = tree or Tree(run.events)
        if not 0 <= seq < self.tree.size:
            raise EvidenceError(f"run {run.run_id} has no line {seq}: it has {self.tree.size}, numbered from 0")
        self.source, self.seq, self.size = run, seq, self.tree.size
        self.leaf = self.tree.path(seq)[0].digest
        self.steps = _steps(self.tree, seq)

    def of(self, seq: int) -> Self:
        """Return the path of another line of the same run; refuses as ``Run.merkle_path`` does."""
        return type(self)(self.source, seq, self.tree)

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

    @property
    def line(self) -> str:
        """What the path shows, in a sentence."""
        verdict = (
            "arrives at the root that the manifest states" if self.holds else "does NOT arrive at the root of the manifest"
        )
        return f"Line {self.seq:,} of {self.size:,}: {len(self.steps)} hashes prove it, the path {verdict}"

    def svg(self, *, live: bool = False) -> str:
        """Draw the leaves around the line, below, and the path to the root, above; of a live picture a leaf can be picked."""
        return TreePicture(self.tree, self.seq, live=live).svg()

    def hashes(self) -> str:
        """Show where the path arrives and every hash of it, as HTML."""
        rows = [
            (
                step,
                "leaf" if side is None else f"sibling on the {side}",
                html.Html(_code(sibling or "")),
                html.Html(_code(node)),
            )
            for step, side, sibling, node in self.frame.iter_rows()
        ]
        return (
            '<p class="quiet">Thick: the path. Dashed: the siblings that prove it. '
            "Leaf = SHA-256(00, line); node = SHA-256(01, left, right).</p>"
            + html.section("", html.facts({"path arrives at": self.root, "manifest states": self.stated_root}))
            + html.details("Every hash of the path", html.section("", html.table(["step", "with", "sibling", "node"], rows)))
        )


def _steps(tree: Tree, seq: int) -> list[Step]:
    """Hash the way from a leaf to the root, as RFC 9162, section 2.1.3.2, does."""
    path = tree.path(seq)
    steps, digest = [], path[0].digest
    for node in path:
        if sibling := tree.sibling(node):
            left = sibling.place < node.place
            digest = node_hash(sibling.digest, digest) if left else node_hash(digest, sibling.digest)
            steps.append(Step(sibling.digest, left, digest))
    return steps


def _code(digest: str | None) -> html.Html:
    return html.Html(f"<code>{html.escape(digest)}</code>" if digest else "")
