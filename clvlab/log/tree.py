"""A Merkle tree with stored complete subtrees. Appending and proving take O(log n)."""

from __future__ import annotations

from typing import Protocol

from clvlab.errors import LogError
from clvlab.proof.merkle import leaf_hash, node_hash, root


class Nodes(Protocol):
    """Roots of complete subtrees: ``node(level, index)`` spans the leaves from ``index * 2**level`` up to the next."""

    def node(self, level: int, index: int) -> bytes: ...


def completed_roots(nodes: Nodes, size: int, leaf: bytes) -> dict[tuple[int, int], bytes]:
    """Return the roots, as {(level, index): hash}, that a leaf completes when it is appended to a tree of this size."""
    level, index, value = 0, size, leaf_hash(leaf)
    made = {(level, index): value}
    while index & 1:
        value = node_hash(nodes.node(level, index - 1), value)
        level, index = level + 1, index >> 1
        made[level, index] = value
    return made


def tree_root(nodes: Nodes, size: int) -> bytes:
    """Return the root of the tree of the first ``size`` leaves (RFC 9162 2.1.1)."""
    return _range_root(nodes, 0, size) if size else root([])


def _range_root(nodes: Nodes, start: int, end: int) -> bytes:
    size = end - start
    if size & (size - 1) == 0:  # ranges are split so that a power of two is always aligned
        level = size.bit_length() - 1
        return nodes.node(level, start >> level)
    middle = start + _split(size)
    return node_hash(_range_root(nodes, start, middle), _range_root(nodes, middle, end))


def _split(size: int) -> int:
    return 1 << ((size - 1).bit_length() - 1)


def inclusion(nodes: Nodes, index: int, size: int) -> list[bytes]:
    """Return the proof of leaf ``index`` in the tree of the first ``size`` leaves (RFC 9162 2.1.3.1)."""
    if not 0 <= index < size:
        raise LogError(f"no entry {index} in a log of {size}")
    proof: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            proof.append(_range_root(nodes, middle, end))
            end = middle
        else:
            proof.append(_range_root(nodes, start, middle))
            start = middle
    return proof[::-1]


def consistency(nodes: Nodes, first: int, second: int) -> list[bytes]:
    """Return the proof that the tree of ``second`` leaves extends that of ``first`` (RFC 9162 2.1.4.1); empty from 0."""
    if not 0 <= first <= second:
        raise LogError(f"a log of {second} entries is not an extension of one of {first}")
    if first in (0, second):
        return []
    proof: list[bytes] = []
    start, end = 0, second
    while first < end:
        middle = start + _split(end - start)
        if first <= middle:
            proof.append(_range_root(nodes, middle, end))
            end = middle
        else:
            proof.append(_range_root(nodes, start, middle))
            start = middle
    # The rest is the subtree that ends with the first tree. If it is that whole tree, the verifier knows its root.
    return ([_range_root(nodes, start, end)] if start else []) + proof[::-1]
