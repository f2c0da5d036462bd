"""The Merkle tree of a text's lines, level by level, so that any node is at hand."""

from __future__ import annotations

from dataclasses import dataclass

from clvlab.proof.merkle import leaf_hashes, node_hash


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree: its level above the leaves, its place there, and its hash."""

    level: int
    place: int
    digest: bytes

    @property
    def first(self) -> int:
        """The first line under it."""
        return self.place << self.level


class Tree:
    """The tree of RFC 9162, section 2.1.1: a node without a neighbour goes up a level as it is.

    Attributes
    ----------
    size
        Lines.

    Examples
    --------
    >>> tree = Tree(bytes([97, 10, 98, 10, 99, 10]))
    >>> tree.height, [node.first for node in tree.path(2)], tree.sibling(tree.path(2)[0])
    (2, [2, 2, 0], None)
    """

    def __init__(self, text: bytes) -> None:
        self._levels = [leaf_hashes(text)]
        self.size = len(self._levels[0])
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            pairs = [node_hash(below[at], below[at + 1]) for at in range(0, len(below) - 1, 2)]
            self._levels.append([*pairs, *below[len(pairs) * 2 :]])

    @property
    def height(self) -> int:
        """Levels above the leaves."""
        return len(self._levels) - 1

    def node(self, level: int, place: int) -> Node:
        """Return a node; raises ``IndexError`` where there is none."""
        return Node(level, place, self._levels[level][place])

    def path(self, seq: int) -> list[Node]:
        """Return the nodes from a leaf to the root, both with it."""
        return [self.node(level, seq >> level) for level in range(self.height + 1)]

    def sibling(self, node: Node) -> Node | None:
        """Return the node beside one: null for the root, and for a node that goes up as it is."""
        beside = node.place ^ 1
        return self.node(node.level, beside) if beside < len(self._levels[node.level]) else None

    def leaves(self, node: Node) -> range:
        """Return the lines under a node."""
        return range(node.first, min((node.place + 1) << node.level, self.size))
