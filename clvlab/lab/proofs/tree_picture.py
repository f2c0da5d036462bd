"""The picture of a path through a Merkle tree: the leaves around it, and, above them, the path to the root."""

from __future__ import annotations

from clvlab.drawing import html
from clvlab.drawing.ink import BLUE
from clvlab.lab.proofs.tree import Node, Tree

_BLOCK = 3  # levels of the subtree that is drawn whole: eight leaves stand beside each other
_SLOT, _ROW, _TALL = 94, 50, 38  # width of a leaf's place, height of a level and of a box, in pixels
_NARROW, _BROAD = 86, 156  # boxes of leaves and of nodes
_WIDTH = _SLOT << _BLOCK
_BESIDE = 232  # from a node of the path to its sibling above the block
_DIGITS = 8


class TreePicture:
    """A path and what stands around it, as SVG.

    Parameters
    ----------
    tree, seq
        What is drawn, and the line that the path begins at.
    live
        Whether leaves and siblings can be picked: each names a line in ``data-pick``.
    """

    def __init__(self, tree: Tree, seq: int, *, live: bool = False) -> None:
        self.tree, self.seq, self.live = tree, seq, live
        self.block = min(_BLOCK, tree.height)
        self.path = tree.path(seq)
        self.shown = tree.leaves(self.path[self.block])

    def svg(self) -> str:
        """Draw the tree, its leaves below."""
        lines, boxes = [], []
        for node in self._nodes():
            above = self._above(node)
            if above is not None:
                lines.append(self._line(node, above))
            boxes.append(self._box(node))
        height = self.tree.height * _ROW + _TALL + 8
        said = html.escape(f"Merkle path of line {self.seq} of {self.tree.size}")
        role = "group" if self.live else "img"  # what can be picked in an image, nobody would find
        return (
            f'<svg role="{role}" aria-label="{said}" viewBox="0 -4 {_WIDTH} {height}" '
            f'style="width:{_WIDTH}px;height:{height}px">'
            f'<g font-family="inherit" font-size="11" fill="currentColor">{"".join([*lines, *boxes])}</g></svg>'
        )

    def _nodes(self) -> list[Node]:
        """Return what is drawn: of the block every node, above it the path and its siblings; a node that only goes up, once."""
        found = []
        for level in range(self.tree.height + 1):
            if level <= self.block:
                own = [self.tree.node(level, at) for at in range(self.shown[0] >> level, (self.shown[-1] >> level) + 1)]
            else:
                own = [self.path[level]]
            found += [node for node in own if not self._goes_up(node)]
            if level >= self.block and (sibling := self.tree.sibling(self.path[level])):
                found.append(sibling)
        return found

    def _goes_up(self, node: Node) -> bool:
        """Whether a node is the one below it, which had no neighbour."""
        return node.level > 0 and self.tree.sibling(self.tree.node(node.level - 1, node.place * 2)) is None

    def _above(self, node: Node) -> Node | None:
        """Return the drawn node that a node is part of; null for the root."""
        while node.level < self.tree.height:
            node = self.tree.node(node.level + 1, node.place >> 1)
            if not self._goes_up(node):
                return node
        return None

    def _on_path(self, node: Node) -> bool:
        return self.seq >> node.level == node.place

    def _proves(self, node: Node) -> bool:
        while self.tree.sibling(node) is None and node.level < self.tree.height:
            node = self.tree.node(node.level + 1, node.place >> 1)  # it proves where it has gone up to
        return not self._on_path(node) and self.path[node.level].place ^ 1 == node.place

    def _centre(self, node: Node) -> float:
        own = self.tree.leaves(node)
        if node.level <= self.block and own[0] in self.shown:
            middle = (self.shown[0] + self.shown[-1]) / 2
            return _WIDTH / 2 + ((own[0] + own[-1]) / 2 - middle) * _SLOT
        side = 0 if self._on_path(node) else 1 if node.place & 1 else -1
        return _WIDTH / 2 + side * _BESIDE

    def _top(self, node: Node) -> int:
        return (self.tree.height - node.level) * _ROW

    def _line(self, node: Node, above: Node) -> str:
        lit = self._on_path(node)
        style = f'stroke="{BLUE}" stroke-width="3"' if lit else 'stroke="currentColor" stroke-opacity="0.4"'
        ends = (
            f'x1="{self._centre(node):g}" y1="{self._top(node)}" x2="{self._centre(above):g}" y2="{self._top(above) + _TALL}"'
        )
        return f"<line {ends} {style}/>"

    def _box(self, node: Node) -> str:
        lit, proves, own = self._on_path(node), self._proves(node), self.tree.leaves(node)
        broad = _BROAD if len(own) > 1 or node.level else _NARROW
        x, y = self._centre(node) - broad / 2, self._top(node)
        name = f"line {own[0]:,}" if len(own) == 1 else f"lines {own[0]:,} to {own[-1]:,}"
        if self._above(node) is None:
            name = "root"
        style = 'stroke="currentColor" stroke-opacity="0.4" fill="none"'
        if lit:
            style = f'stroke="{BLUE}" stroke-width="3" fill="{BLUE}" fill-opacity="0.16"'
        elif proves:
            style = 'stroke="currentColor" stroke-width="1.5" stroke-dasharray="4 3" fill="none"'
        weight = ' font-weight="600"' if lit or proves else ""
        drawn = (
            f'<rect x="{x:g}" y="{y}" width="{broad}" height="{_TALL}" rx="4" {style}/>'
            f'<text x="{x + 8:g}" y="{y + 15}"{weight}>{name}</text>'
            f'<text x="{x + 8:g}" y="{y + 30}" font-family="monospace">{node.digest.hex()[:_DIGITS]}…</text>'
        )
        if not self.live or (lit and node.level):
            return f"<g>{drawn}</g>"
        said = (
            f"{name}{', on the path' if lit else ', a sibling of the path' if proves else ''}: show the path of line {own[0]:,}"
        )
        chosen = ' aria-current="true"' if lit else ""
        return (
            f'<g role="button" tabindex="0" data-pick="{own[0]}"{chosen} aria-label="{said}">'
            f'<rect x="{x:g}" y="{y}" width="{broad}" height="{_TALL}" fill="transparent"/>'
            f"<title>{node.digest.hex()}</title>{drawn}</g>"
        )
