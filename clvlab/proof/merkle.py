"""Merkle trees over lines (RFC 9162, section 2.1): roots, inclusion and consistency proofs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from clvlab.errors import EvidenceError

_PIECE_BYTES = 1 << 18


def leaf_hash(data: bytes) -> bytes:
    return hashlib.sha256(b"\0" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def leaf_hashes(text: bytes) -> list[bytes]:
    """Return the hash of each line, without its line feed, of a text that ends with a line feed."""
    sha = hashlib.sha256
    return [sha(b"\0" + line).digest() for piece in pieces(text) for line in piece.removesuffix(b"\n").split(b"\n")]


def pieces(text: bytes, size: int = _PIECE_BYTES, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """Cut lines, up to ``stop`` or the end of a text, into pieces that fit the processor's cache. All end with a line feed."""
    stop = len(text) if stop is None else stop
    while start < stop:
        end = text.find(b"\n", start + size, stop) + 1 or stop
        yield text[start:end]
        start = end


class Frontier:
    """The root of a growing tree. It keeps the roots of the complete subtrees on the right edge, in O(log n) memory."""

    def __init__(self) -> None:
        self.size = 0
        self._subtrees: list[tuple[int, bytes]] = []

    def extend(self, leaves: Sequence[bytes]) -> None:
        position = 0
        while position < len(leaves):
            # Take the largest aligned complete subtree that the remaining leaves can fill.
            left = len(leaves) - position
            aligned = self.size & -self.size if self.size else 1 << left.bit_length()
            size = min(aligned, 1 << (left.bit_length() - 1))
            subtree = _complete_root(leaves[position : position + size])
            position += size
            self.size += size
            while self._subtrees and self._subtrees[-1][0] == size:  # two subtrees of one size make one of twice the size
                _, before = self._subtrees.pop()
                size, subtree = 2 * size, node_hash(before, subtree)
            self._subtrees.append((size, subtree))

    def root(self) -> bytes:
        """Return the hash of the whole tree. For the empty tree, it is the hash of no bytes."""
        if not self._subtrees:
            return hashlib.sha256(b"").digest()
        *rest, (_, subtree) = self._subtrees
        for _, left in reversed(rest):
            subtree = node_hash(left, subtree)
        return subtree


class Digest:
    """SHA-256 and Merkle root of a text of lines, to which whole lines are added."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()
        self._frontier = Frontier()

    def add(self, lines: bytes) -> None:
        for piece in pieces(lines):
            self._sha.update(piece)  # without the interpreter's lock, so other threads can run
            self._frontier.extend(leaf_hashes(piece))

    @property
    def count(self) -> int:
        return self._frontier.size

    def hash(self) -> str:
        return "sha256:" + self._sha.hexdigest()

    def root(self) -> str:
        return "sha256:" + self._frontier.root().hex()


def _complete_root(level: Sequence[bytes]) -> bytes:
    sha = hashlib.sha256
    while len(level) > 1:
        pairs = iter(level)
        level = [sha(b"\1" + left + right).digest() for left, right in zip(pairs, pairs, strict=True)]
    return level[0]


def root(leaves: Sequence[bytes]) -> bytes:
    """Return the root hash over leaf hashes.

    Examples
    --------
    >>> root([]).hex()
    'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
    """
    frontier = Frontier()
    frontier.extend(leaves)
    return frontier.root()


def root_of_lines(text: bytes) -> str:
    return "sha256:" + root(leaf_hashes(text)).hex()


def _split(size: int) -> int:
    """Return the largest power of two below ``size`` (RFC 9162 2.1.1)."""
    return 1 << ((size - 1).bit_length() - 1)


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the proof that leaf ``index`` is in the tree over ``leaves`` (RFC 9162 2.1.3.1)."""
    if not 0 <= index < len(leaves):
        raise EvidenceError(f"no leaf {index} in a tree of {len(leaves)}")
    if len(leaves) == 1:
        return []
    k = _split(len(leaves))
    if index < k:
        return [*inclusion_proof(leaves[:k], index), root(leaves[k:])]
    return [*inclusion_proof(leaves[k:], index - k), root(leaves[:k])]


def check_inclusion(leaf: bytes, index: int, size: int, proof: Iterable[bytes], expected_root: bytes) -> bool:
    """Check that ``proof`` shows the leaf at ``index`` of a tree of ``size`` leaves (RFC 9162 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    position, last, value = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if position & 1 or position == last:
            value = node_hash(sibling, value)
            while position and not position & 1:
                position, last = position >> 1, last >> 1
        else:
            value = node_hash(value, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and value == expected_root


def check_consistency(first: int, second: int, first_root: bytes, second_root: bytes, proof: Sequence[bytes]) -> bool:
    """Check that ``proof`` shows that the second tree extends the first (RFC 9162 2.1.4.2)."""
    if not 0 < first <= second:
        return False
    if first == second:
        return not proof and first_root == second_root
    path = [first_root, *proof] if first & (first - 1) == 0 else list(proof)
    if not path:
        return False
    position, last = first - 1, second - 1
    while position & 1:
        position, last = position >> 1, last >> 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if position & 1 or position == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while position and not position & 1:
                position, last = position >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and old == first_root and new == second_root
