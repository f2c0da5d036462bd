"""Tampering with a copy of a sealed run, and the seven checks before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import orjson
import polars as pl

from clvlab.errors import EvidenceError
from clvlab.proof.anchor import Anchor
from clvlab.proof.canonical import canonical, sha256
from clvlab.proof.checks import CHECKS, Verdict
from clvlab.proof.events import Kind, score_lines
from clvlab.proof.merkle import root_of_lines
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import Verification, verify
from clvlab.report.html import Html, card, render
from clvlab.report.proofs.evidence import Lines
from clvlab.report.proofs.verification import state
from clvlab.words import CHECK_MEANINGS

# The difference of two files, byte by byte, with context.


_Line = dict[str, Any]
"""A line of a run as JSON; its fields are unknown, because a copy may have been tampered with."""
_AROUND = 60  # bytes of context on either side
_MOST = 240  # bytes of a difference on the screen


@dataclass(frozen=True, slots=True)
class Difference:
    """The bytes from the first to the last different one, before and after.

    Attributes
    ----------
    file, line
        File and line of the first different byte; lines are numbered from 0.
    offset
        Offset of the first different byte in the file.
    before, after
        The different bytes; either may be empty.
    lead, trail
        The common bytes before and after, within the line.
    """

    file: str
    line: int
    offset: int
    before: bytes
    after: bytes
    lead: bytes
    trail: bytes

    def to_html(self) -> Html:
        """Show both contents, with the old bytes struck out and the new ones underlined."""
        return render(
            "difference.html",
            file=self.file,
            line=self.line,
            offset=self.offset,
            sizes=(len(self.before), len(self.after)),
            first=(self.before[:1].hex(), self.after[:1].hex()),
            lead=_text(self.lead),
            trail=_text(self.trail),
            before=_text(self.before[:_MOST]),
            after=_text(self.after[:_MOST]),
            most=_MOST if max(len(self.before), len(self.after)) > _MOST else 0,
        )


def _text(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace").replace("\n", "↵")


def difference(file: str, before: bytes, after: bytes) -> Difference | None:
    """Return the difference between two contents of a file; `None` if they are equal.

    Examples
    --------
    >>> found = difference("events.jsonl", b"stake 100, part1", b"stake 900, part1")
    >>> found.offset, found.before, found.after
    (6, b'1', b'9')
    """
    if before == after:
        return None
    start = _common(before, after)
    rest = min(len(before), len(after)) - start
    tail = _common(before[len(before) - rest :][::-1], after[len(after) - rest :][::-1]) if rest else 0
    ends = len(before) - tail, len(after) - tail
    lead = before[max(start - _AROUND, before.rfind(b"\n", 0, start) + 1) : start]
    stop = before.find(b"\n", ends[0])
    trail = before[ends[0] : min(ends[0] + _AROUND, stop if stop >= 0 else len(before))]
    return Difference(file, before.count(b"\n", 0, start), start, before[start : ends[0]], after[start : ends[1]], lead, trail)


def _common(one: bytes, other: bytes) -> int:
    size = min(len(one), len(other))
    differ = np.frombuffer(one[:size], np.uint8) != np.frombuffer(other[:size], np.uint8)
    return int(differ.argmax()) if differ.any() else size


# Ways to tamper with a copy of a run, from an edited byte to a forged seal.


FILES = ("events.jsonl", "scores.jsonl", "manifest.json", "receipts.jsonl")


@dataclass(frozen=True)
class Copy:
    """The bytes of a run; every change returns another copy."""

    run: SealedRun
    receipts: bytes = b""

    def read(self, file: str) -> bytes:
        """Return the bytes of one of ``FILES``."""
        run = self.run
        held = dict(zip(FILES, (run.events, run.scores, run.manifest, self.receipts), strict=True))
        if file not in held:
            raise _unknown(file)
        return held[file]

    def write(self, file: str, content: bytes) -> Copy:
        """Return a copy with another content of one of ``FILES``."""
        match file:
            case "events.jsonl":
                return replace(self, run=replace(self.run, events=content))
            case "scores.jsonl":
                return replace(self, run=replace(self.run, scores=content))
            case "manifest.json":
                return replace(self, run=replace(self.run, manifest=content))
            case "receipts.jsonl":
                return replace(self, receipts=content)
        raise _unknown(file)

    def differences(self, other: Copy) -> list[Difference]:
        """Return the differences from another copy, by file, with the other's bytes as ``before``."""
        found = (difference(file, other.read(file), self.read(file)) for file in FILES)
        return [own for own in found if own is not None]


def _unknown(file: str) -> EvidenceError:
    return EvidenceError(f"a run has no file {file!r} to tamper with, only {', '.join(FILES)}")


def closed_again(copy: Copy) -> Copy:
    """Seal a changed copy again: derive the scores if the evidence can be read, and put the new hashes into the manifest."""
    run = copy.run
    found = verify(run)
    scores = run.scores if found.scores is None else score_lines(found.scores)
    stated = _object(run.manifest) | {
        "evidence_hash": sha256(run.events),
        "evidence_root": root_of_lines(run.events),
        "event_count": run.events.count(b"\n"),
        "score_root": root_of_lines(scores),
    }
    return replace(copy, run=replace(run, scores=scores, manifest=canonical(stated)))


def _object(text: bytes) -> dict[str, object]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise EvidenceError(f"the manifest can't be read, so no seal can be closed over it: {error}") from error
    if not isinstance(value, dict):
        raise EvidenceError("the manifest is not a JSON object, so it can't be sealed again")
    return value


def _change_line(copy: Copy, file: str, wanted: Callable[[_Line], bool], change: Callable[[_Line], None]) -> Copy:
    """Change the first wanted line, and write it as canonical JSON."""
    lines = copy.read(file).split(b"\n")
    for number, line in enumerate(lines[:-1]):
        value = orjson.loads(line)
        if wanted(value):
            change(value)
            lines[number] = canonical(value)
            return copy.write(file, b"\n".join(lines))
    raise EvidenceError(f"run {copy.run.run_id} has no line in {file} on which this could be tried")


def _raise_stake(copy: Copy) -> Copy:
    def change(event: _Line) -> None:
        event["payload"]["action"]["stake"] += 800

    return _change_line(copy, "events.jsonl", _is_back, change)


def _is_back(event: _Line) -> bool:
    return event["kind"] == Kind.DECISION and type(event["payload"]["action"]["stake"]) is int


def _raise_score(copy: Copy) -> Copy:
    return _change_line(copy, "scores.jsonl", _is_scored, lambda row: row.update(clv_bps=row["clv_bps"] + 500))


def _is_scored(row: _Line) -> bool:
    return type(row["clv_bps"]) is int


def _drop_worst(copy: Copy) -> Copy:
    rows = copy.run.scores.split(b"\n")[:-1]
    scored = [row for row in rows if _is_scored(orjson.loads(row))]
    if not scored:
        raise EvidenceError(f"run {copy.run.run_id} has no scored decision to drop")
    worst = min(scored, key=lambda row: orjson.loads(row)["clv_bps"])
    return copy.write("scores.jsonl", b"".join(row + b"\n" for row in rows if row != worst))


def _relabel(copy: Copy) -> Copy:
    return _change_line(
        copy,
        "events.jsonl",
        lambda event: event["kind"] == Kind.RUN_STARTED,
        lambda event: event["payload"]["agents"][0].update(strategy="another-strategy"),
    )


def _forge_receipt(copy: Copy) -> Copy:
    receipt = {"kind": "VENUE_RECEIPT", "payload": {"odds_milli": 9000}, "seq": 1}
    first, _, rest = copy.run.events.partition(b"\n")
    return copy.write("events.jsonl", first + b"\n" + canonical(receipt) + b"\n" + rest)


def _forge_execution(copy: Copy) -> Copy:
    receipt = {
        "agent_id": "nobody", "decision_seq": 0, "non_scoring": True, "odds_milli": 9000, "run_id": copy.run.run_id,
        "stake": 100, "status": "filled", "ts_ms": 0, "venue": "paper",
    }  # fmt: skip
    return copy.write("receipts.jsonl", copy.receipts + canonical(receipt) + b"\n")


def _rebind(copy: Copy) -> Copy:
    return copy.write("manifest.json", canonical(_object(copy.run.manifest) | {"run_id": "run_" + "0" * 32}))


ATTACKS: dict[str, Callable[[Copy], Copy]] = {
    "raise a stake": _raise_stake,
    "raise a score": _raise_score,
    "drop the worst score": _drop_worst,
    "relabel the strategy": _relabel,
    "put a receipt into the evidence": _forge_receipt,
    "add a receipt without an action": _forge_execution,
    "name another run in the manifest": _rebind,
}


class Tampering:
    """A copy of a sealed run to tamper with; each act changes the copy and returns this object.

    Attributes
    ----------
    attacks
        Names for ``attack``.
    source, copy
        The unchanged run, and the copy.
    changes
        The acts so far, in words.
    """

    attacks = tuple(ATTACKS)

    def __init__(self, run: SealedRun, receipts: bytes = b"", anchor: Anchor | None = None) -> None:
        self.source = run
        self._untouched = Copy(run, receipts)
        self._anchor = anchor
        self.restore()

    def restore(self) -> Self:
        """Restore the untouched bytes."""
        self.changes: list[str] = []
        self.copy = self._untouched
        return self._forget()

    def _forget(self) -> Self:
        for name in ("verification", "differences"):
            self.__dict__.pop(name, None)
        return self

    def _take(self, copy: Copy, change: str) -> Self:
        self.copy = copy
        self.changes.append(change)
        return self._forget()

    def attack(self, name: str) -> Self:
        """Tamper in one of the ways of ``.attacks``.

        Raises
        ------
        EvidenceError
            The name is unknown, or the copy has no line of the needed kind.
        """
        if name not in ATTACKS:
            raise EvidenceError(f"no attack {name!r}; there are: {', '.join(ATTACKS)}")
        try:
            return self._take(ATTACKS[name](self.copy), name)
        except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError) as error:
            raise EvidenceError(f"the copy is too damaged already to {name}: {error!r}") from error

    def replace(self, file: str, old: str, new: str) -> Self:
        """Replace the first occurrence of a text in a file.

        Raises
        ------
        EvidenceError
            The file or the text does not exist.
        """
        before = self.copy.read(file)
        if old.encode() not in before:
            raise EvidenceError(f"{file} does not hold {old!r}")
        return self._take(self.copy.write(file, before.replace(old.encode(), new.encode(), 1)), f"{file}: {old} -> {new}")

    def line(self, file: str, number: int) -> str:
        """Return a line of the copy, numbered from 0, without its line feed; invalid UTF-8 becomes escapes.

        Raises
        ------
        EvidenceError
            The file or the line does not exist.
        """
        return self.copy.read(file)[slice(*self._span(file, number))].decode("utf-8", "backslashreplace")

    def write_line(self, file: str, number: int, text: str) -> Self:
        """Replace a line of a file."""
        before, (start, end) = self.copy.read(file), self._span(file, number)
        return self._take(
            self.copy.write(file, before[:start] + text.encode("utf-8", "surrogatepass") + before[end:]),
            f"{file}, line {number}: rewritten",
        )

    def flip(self, file: str, offset: int, bit: int = 0) -> Self:
        """Flip one bit, 0 to 7, of the byte at an offset.

        Raises
        ------
        EvidenceError
            The file, byte or bit does not exist.
        """
        before = bytearray(self.copy.read(file))
        if not (0 <= offset < len(before) and 0 <= bit < 8):
            raise EvidenceError(f"{file} has {len(before)} bytes of 8 bits, so no bit {bit} of byte {offset}")
        before[offset] ^= 1 << bit
        return self._take(self.copy.write(file, bytes(before)), f"{file}: bit {bit} of byte {offset} flipped")

    def flip_in_line(self, file: str, number: int) -> Self:
        """Flip the lowest bit of the byte in the middle of a line."""
        return self.flip(file, sum(self._span(file, number)) // 2)

    def close_seal(self) -> Self:
        """Seal the changed bytes again, like a forger who knows the format.

        Raises
        ------
        EvidenceError
            The manifest can't be read.
        """
        return self._take(closed_again(self.copy), "seal closed again over all this")

    def _span(self, file: str, number: int) -> tuple[int, int]:
        lines = Lines(self.copy.read(file))
        if not 0 <= number < len(lines):
            raise EvidenceError(f"{file} has no line {number}: it has {len(lines)}, numbered from 0")
        return lines.span(number)

    @cached_property
    def verification(self) -> Verification:
        """The seven checks of the copy."""
        if self.copy is self._untouched:
            return self.untouched
        return verify(self.copy.run, self.copy.receipts, anchor=self._anchor)

    @cached_property
    def untouched(self) -> Verification:
        """The seven checks of the run itself."""
        return verify(self.source, self._untouched.receipts, anchor=self._anchor)

    @property
    def first_change(self) -> tuple[str, int] | None:
        """File and line of the first changed byte; ``None`` without a change."""
        return (self.differences[0].file, self.differences[0].line) if self.differences else None

    @cached_property
    def differences(self) -> list[Difference]:
        """The difference of each changed file."""
        return self.copy.differences(self._untouched)

    @property
    def red(self) -> list[str]:
        """The checks that fail."""
        return [name for name in CHECKS if self.verification.checks[name].verdict == Verdict.FAIL]

    @property
    def frame(self) -> pl.DataFrame:
        """One row per check: (check, untouched, now, detail)."""
        before, now = self.untouched.checks, self.verification.checks
        rows = [(name, before[name].verdict.value, now[name].verdict.value, now[name].detail) for name in CHECKS]
        return pl.DataFrame(rows, schema=dict.fromkeys(("check", "untouched", "now", "detail"), pl.String), orient="row")

    def card(self, *, refused: str = "", live: bool = False) -> Html:
        """Show the changes, and the checks before and after.

        Parameters
        ----------
        refused
            Reason of the refusal of the last act.
        live
            Whether the card is in a widget.
        """
        checks, published, now = self.verification.checks, self.untouched.manifest_hash, self.copy.run.manifest_hash
        return card(
            "tampering.html",
            f"A copy of {self.source.run_id}, to tamper with",
            refused=refused,
            state=state(self.verification).capitalize(),
            changes=[change[:300] for change in self.changes],
            red={name: checks[name].detail for name in self.red},
            unseen=bool(self.changes) and not self.red and published != now,
            differences=[found.to_html() for found in self.differences],
            checks=[(*row, CHECK_MEANINGS[row[0]]) for row in self.frame.iter_rows()],
            hashes={"manifest hash, as published": published, "manifest hash, now": now},
            live=live,
        )
