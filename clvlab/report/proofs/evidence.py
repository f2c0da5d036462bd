"""The lines of evidence with running hashes, and Merkle paths to the root in the manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import orjson
import polars as pl

from clvlab.errors import EvidenceError
from clvlab.proof.merkle import leaf_hash, leaf_hashes, node_hash
from clvlab.proof.seal import SealedRun
from clvlab.report.html import Html, card
from clvlab.report.svg import BLUE

# The evidence line by line; the last running hash is the evidence hash.


# The bytes of a line: offsets, hexadecimal, and printable characters.


_BYTES = 16
MOST_BYTES = 1024  # of one line on the screen


def byte_rows(text: bytes, first_byte: int) -> list[tuple[str, str, str]]:
    """Return rows of sixteen bytes: (offset in the file, hexadecimal, characters); a dot replaces what is not printable ASCII.

    Examples
    --------
    >>> byte_rows(b'{"a"}' + bytes([10]), 32)
    [('00000020', '7b 22 61 22 7d 0a', '{"a"}.')]
    """
    return [
        (
            f"{first_byte + at:08x}",
            text[at : at + _BYTES].hex(" "),
            "".join(chr(byte) if 32 <= byte < 127 else "." for byte in text[at : at + _BYTES]),
        )
        for at in range(0, len(text), _BYTES)
    ]


def _hex(text: bytes, first_byte: int) -> str:
    """Return the first bytes of a line in rows, from its offset in the file."""
    rows = byte_rows(text[:MOST_BYTES], first_byte)
    return "\n".join(f"{offset}  {digits:<{3 * _BYTES - 1}}  {letters}" for offset, digits, letters in rows)


# Lines of a text by number, without a split.


class Lines:
    r"""The lines of a text, including a last line without a line feed.

    Examples
    --------
    >>> lines = Lines(b"a\nbc\n")
    >>> len(lines), lines.get(1), lines.span(1)
    (2, b'bc', (2, 4))
    """

    def __init__(self, text: bytes) -> None:
        self.text = text

    @cached_property
    def _ends(self) -> np.ndarray:
        ends = np.flatnonzero(np.frombuffer(self.text, dtype=np.uint8) == ord("\n"))
        return ends if not self.text or self.text.endswith(b"\n") else np.append(ends, len(self.text))

    def __len__(self) -> int:
        return int(self._ends.size)

    def span(self, number: int) -> tuple[int, int]:
        """Return the first and the past-the-end byte of a line, without the line feed."""
        if not 0 <= number < len(self):
            raise IndexError(f"no line {number} in {len(self)}")
        return int(self._ends[number - 1]) + 1 if number else 0, int(self._ends[number])

    def get(self, number: int) -> bytes:
        """Return a line without its line feed."""
        return self.text[slice(*self.span(number))]


PAGE = 10
_MOST_CHARACTERS = 20_000  # of one line on the screen


class EvidenceView:
    """The lines of ``events.jsonl``, their running SHA-256, and a search."""

    def __init__(self, run: SealedRun) -> None:
        self.source = run
        self.lines = Lines(run.events)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per line: (seq, kind, first_byte, bytes, running_sha256); a line's bytes include its line feed."""
        return self.page(0, len(self.lines))

    def page(self, first: int, count: int = PAGE) -> pl.DataFrame:
        """Return some rows of ``.frame``, from line ``first`` on."""
        return self.rows(range(max(first, 0), min(max(first, 0) + count, len(self.lines))))

    def rows(self, numbers: Iterable[int]) -> pl.DataFrame:
        """Return rows of ``.frame`` by ascending numbers."""
        running, hashed, events, rows = hashlib.sha256(), 0, memoryview(self.source.events), []
        for number in numbers:
            start, end = self.lines.span(number)
            text = self.source.events[start : end + 1]
            running.update(events[hashed : start + len(text)])
            hashed = start + len(text)
            rows.append((number, _kind(text), start, len(text), f"sha256:{running.hexdigest()}"))
        schema = {"seq": pl.Int64, "kind": pl.String, "first_byte": pl.Int64, "bytes": pl.Int64, "running_sha256": pl.String}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def running_hash(self, seq: int) -> str:
        """SHA-256 of all bytes up to the end of a line; -1 is the last line.

        Raises
        ------
        EvidenceError
            The evidence does not have the line.
        """
        return str(self.page(self._number(seq), 1)["running_sha256"][0])

    def text(self, seq: int) -> str:
        """Return a line as indented JSON; a line that is not JSON stays unchanged.

        Raises
        ------
        EvidenceError
            The evidence does not have the line.
        """
        line = self.lines.get(self._number(seq))
        try:
            return json.dumps(orjson.loads(line), indent=2, ensure_ascii=False)
        except orjson.JSONDecodeError:
            return line.decode("utf-8", "backslashreplace")

    def _number(self, seq: int) -> int:
        count = len(self.lines)
        number = count - 1 if seq == -1 else seq
        if not 0 <= number < count:
            raise EvidenceError(f"run {self.source.run_id} has no line {seq}: it has {count}, numbered from 0")
        return number

    @cached_property
    def kinds(self) -> pl.Series:
        """The kind of every line, in their order."""
        return pl.Series("kind", [_kind(self.lines.get(number)) for number in range(len(self.lines))], dtype=pl.String)

    def find(self, text: str = "", kinds: Collection[str] = ()) -> list[int]:
        """Return the numbers of the lines that have a text, in any case, and one of the kinds; by default any kind.

        Examples
        --------
        >>> from clvlab.lab import backtest
        >>> backtest("starter", "baseline").run.browse().find(kinds=["RUN_STARTED"])
        [0]
        """
        numbers = self.kinds.is_in(list(kinds)).arg_true().to_list() if kinds else list(range(len(self.lines)))
        if not text:
            return numbers
        wanted, events = text.encode("utf-8", "surrogatepass").lower(), self.source.events.lower()
        return [number for number in numbers if events.find(wanted, *self.lines.span(number)) >= 0]

    def template_values(self, rows: pl.DataFrame, chosen: int | None = None, *, live: bool = False) -> dict[str, object]:
        """Return the values for the template of some rows of ``.frame``; in a ``live`` table lines can be picked."""
        return {"rows": rows.rows(named=True), "sealed": self.source.evidence_hash, "chosen": chosen, "live": live}

    def detail(self, seq: int) -> Html:
        """Show one line: its text, its leaf in the Merkle tree, and its bytes."""
        number, text = self._number(seq), self.text(seq)
        start, end = self.lines.span(number)
        own = self.source.events[start : end + 1]
        return card(
            "evidence_line.html",
            f"Line {number:,}: {_kind(own)}, {len(own):,} bytes from byte {start:,}",
            facts={"leaf hash": f"sha256:{leaf_hash(self.lines.get(number)).hex()}"},
            text=text[:_MOST_CHARACTERS],
            more_characters=max(len(text) - _MOST_CHARACTERS, 0),
            bytes=_hex(own, start),
            more_bytes=max(len(own) - MOST_BYTES, 0),
        )


def _kind(line: bytes) -> str:
    try:
        return str(orjson.loads(line)["kind"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return "unreadable"


# The Merkle tree of a text's lines, level by level.


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree: its level above the leaves, its place in the level, and its hash."""

    level: int
    place: int
    digest: bytes

    @property
    def first(self) -> int:
        """The first line under it."""
        return self.place << self.level


class Tree:
    """The tree of RFC 9162, section 2.1.1: a node without a neighbour moves up a level unchanged.

    Attributes
    ----------
    size
        Number of lines.

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
        """Return a node by level and place."""
        return Node(level, place, self._levels[level][place])

    def path(self, seq: int) -> list[Node]:
        """Return the nodes from a leaf to the root, including both."""
        return [self.node(level, seq >> level) for level in range(self.height + 1)]

    def sibling(self, node: Node) -> Node | None:
        """Return the sibling of a node; `None` for the root, and for a node that moves up unchanged."""
        place = node.place ^ 1
        return self.node(node.level, place) if place < len(self._levels[node.level]) else None

    def leaves(self, node: Node) -> range:
        """Return the lines under a node."""
        return range(node.first, min((node.place + 1) << node.level, self.size))


# The picture of a Merkle path: the leaves around it, and the path to the root above.


_BLOCK = 3  # levels of the whole subtree in the picture, which has eight leaves
_SLOT, _LEVEL, _TALL = 94, 50, 38  # width of a leaf's place, height of a level and of a box, in pixels
_NARROW, _BROAD = 86, 156  # boxes of leaves and of nodes
_WIDTH = _SLOT << _BLOCK
_SIBLING_GAP = 232  # from a node of the path to its sibling above the block
_DIGITS = 8


class TreePicture:
    """A path and its neighbours as SVG; in a ``live`` picture each names a line in ``data-pick``."""

    def __init__(self, tree: Tree, seq: int, *, live: bool = False) -> None:
        self.tree, self.seq, self.live = tree, seq, live
        self.block = min(_BLOCK, tree.height)
        self.path = tree.path(seq)
        self.leaves = tree.leaves(self.path[self.block])

    def svg(self) -> Html:
        """Draw the tree with its leaves at the bottom."""
        lines, boxes = [], []
        for node in self._nodes():
            above = self._above(node)
            if above is not None:
                lines.append(self._line(node, above))
            boxes.append(self._box(node))
        height = self.tree.height * _LEVEL + _TALL + 8
        label = f"Merkle path of line {self.seq} of {self.tree.size}"
        role = "group" if self.live else "img"  # screen readers don't find buttons in an image
        return Html(
            f'<svg role="{role}" aria-label="{label}" viewBox="0 -4 {_WIDTH} {height}" '
            f'style="width:{_WIDTH}px;height:{height}px">'
            f'<g font-family="inherit" font-size="11" fill="currentColor">{"".join([*lines, *boxes])}</g></svg>'
        )

    def _nodes(self) -> list[Node]:
        """Return every node of the block, and the path with its siblings above it; unchanged nodes are not repeated."""
        found = []
        for level in range(self.tree.height + 1):
            if level <= self.block:
                own = [self.tree.node(level, at) for at in range(self.leaves[0] >> level, (self.leaves[-1] >> level) + 1)]
            else:
                own = [self.path[level]]
            found += [node for node in own if not self._goes_up(node)]
            if level >= self.block and (sibling := self.tree.sibling(self.path[level])):
                found.append(sibling)
        return found

    def _goes_up(self, node: Node) -> bool:
        """Whether a node is its only child, moved up a level unchanged."""
        return node.level > 0 and self.tree.sibling(self.tree.node(node.level - 1, node.place * 2)) is None

    def _above(self, node: Node) -> Node | None:
        """Return the drawn parent of a node; `None` for the root."""
        while node.level < self.tree.height:
            node = self.tree.node(node.level + 1, node.place >> 1)
            if not self._goes_up(node):
                return node
        return None

    def _on_path(self, node: Node) -> bool:
        return self.seq >> node.level == node.place

    def _proves(self, node: Node) -> bool:
        while self.tree.sibling(node) is None and node.level < self.tree.height:
            node = self.tree.node(node.level + 1, node.place >> 1)  # the sibling is used on the level to which it moved up
        return not self._on_path(node) and self.path[node.level].place ^ 1 == node.place

    def _centre(self, node: Node) -> float:
        own = self.tree.leaves(node)
        if node.level <= self.block and own[0] in self.leaves:
            middle = (self.leaves[0] + self.leaves[-1]) / 2
            return _WIDTH / 2 + ((own[0] + own[-1]) / 2 - middle) * _SLOT
        side = 0 if self._on_path(node) else 1 if node.place & 1 else -1
        return _WIDTH / 2 + side * _SIBLING_GAP

    def _top(self, node: Node) -> int:
        return (self.tree.height - node.level) * _LEVEL

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
        label = (
            f"{name}{', on the path' if lit else ', a sibling of the path' if proves else ''}: show the path of line {own[0]:,}"
        )
        chosen = ' aria-current="true"' if lit else ""
        return (
            f'<g role="button" tabindex="0" data-pick="{own[0]}"{chosen} aria-label="{label}">'
            f'<rect x="{x:g}" y="{y}" width="{broad}" height="{_TALL}" fill="transparent"/>'
            f"<title>{node.digest.hex()}</title>{drawn}</g>"
        )


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step towards the root: the sibling, its side, and the parent node."""

    sibling: bytes
    left: bool
    node: bytes


class Inclusion:
    """The inclusion proof of one line of evidence; ``MerklePath`` without its display."""

    def __init__(self, run: SealedRun, seq: int, tree: Tree | None = None) -> None:
        self.tree = tree or Tree(run.events)
        if not 0 <= seq < self.tree.size:
            raise EvidenceError(f"run {run.run_id} has no line {seq}: it has {self.tree.size}, numbered from 0")
        self.source, self.seq, self.size = run, seq, self.tree.size
        self.leaf = self.tree.path(seq)[0].digest
        self.steps = _steps(self.tree, seq)

    def of(self, seq: int) -> Self:
        """Return the path of another line of the same run."""
        return type(self)(self.source, seq, self.tree)

    @property
    def root(self) -> str:
        """The root that the path leads to."""
        return f"sha256:{(self.steps[-1].node if self.steps else self.leaf).hex()}"

    @cached_property
    def stated_root(self) -> str | None:
        """The evidence root in the manifest; ``None`` if it can't be read."""
        try:
            return str(orjson.loads(self.source.manifest)["evidence_root"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return None

    @property
    def holds(self) -> bool:
        """Whether the path leads to the root in the manifest."""
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
        """The result in a sentence."""
        verdict = (
            "arrives at the root that the manifest states" if self.holds else "does NOT arrive at the root of the manifest"
        )
        return f"Line {self.seq:,} of {self.size:,}: {len(self.steps)} hashes prove it, the path {verdict}"

    def svg(self, *, live: bool = False) -> Html:
        """Draw the leaves around the line and the path to the root; in a ``live`` picture a leaf can be picked."""
        return TreePicture(self.tree, self.seq, live=live).svg()

    def template_values(self, *, live: bool = False) -> dict[str, object]:
        """Return the values for the template of the path: picture, computed and stated root, hashes."""
        return {
            "path": self,
            "picture": self.svg(live=live),
            "arrival": {"path arrives at": self.root, "manifest states": self.stated_root},
            "steps": self.frame.rows(),
        }


def _steps(tree: Tree, seq: int) -> list[PathStep]:
    """Return the steps from a leaf to the root, by RFC 9162, section 2.1.3.2."""
    path = tree.path(seq)
    steps, digest = [], path[0].digest
    for node in path:
        if sibling := tree.sibling(node):
            left = sibling.place < node.place
            digest = node_hash(sibling.digest, digest) if left else node_hash(digest, sibling.digest)
            steps.append(PathStep(sibling.digest, left, digest))
    return steps
