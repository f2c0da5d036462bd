"""Tampering with a copy of a sealed run, and the seven checks before and after."""

from __future__ import annotations

from functools import cached_property
from typing import Self

import orjson
import polars as pl

from clvlab.drawing import html
from clvlab.errors import EvidenceError
from clvlab.lab.proofs.attacks import ATTACKS, Copy, closed_again
from clvlab.lab.proofs.difference import Difference
from clvlab.lab.proofs.lines import Lines
from clvlab.lab.proofs.verdicts import state
from clvlab.proof.anchor import Anchor
from clvlab.proof.checks import CHECKS, Verdict
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import Verification, verify
from clvlab.words import CHECK_MEANINGS


class Tampering:
    """A copy of a sealed run to tamper with: each act changes the copy and returns this object.

    Attributes
    ----------
    attacks
        Names for ``attack``.
    source, copy
        The run, which stays as it is, and the copy as it stands.
    changes
        What was done to the copy, in words.
    """

    attacks = tuple(ATTACKS)

    def __init__(self, run: SealedRun, receipts: bytes = b"", anchor: Anchor | None = None) -> None:
        self.source = run
        self._untouched = Copy(run, receipts)
        self._anchor = anchor
        self.restore()

    def restore(self) -> Self:
        """Begin again with the untouched bytes."""
        self.changes: list[str] = []
        self.copy = self._untouched
        return self._forget()

    def _forget(self) -> Self:
        """Let go of what was derived from the bytes before."""
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
            Another name, or a run that has nothing to try it on, or no longer has.
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
            No such file, or no such text in it.
        """
        before = self.copy.read(file)
        if old.encode() not in before:
            raise EvidenceError(f"{file} does not hold {old!r}")
        return self._take(self.copy.write(file, before.replace(old.encode(), new.encode(), 1)), f"{file}: {old} -> {new}")

    def line(self, file: str, number: int) -> str:
        """Return a line of the copy, numbered from 0, without its line feed; bytes that are no UTF-8 as escapes.

        Raises
        ------
        EvidenceError
            No such file, or no such line in it.
        """
        return self.copy.read(file)[slice(*self._span(file, number))].decode("utf-8", "backslashreplace")

    def write_line(self, file: str, number: int, text: str) -> Self:
        """Write a line of a file anew; refuses as ``line`` does."""
        before, (start, end) = self.copy.read(file), self._span(file, number)
        return self._take(
            self.copy.write(file, before[:start] + text.encode("utf-8", "surrogatepass") + before[end:]),
            f"{file}, line {number}: written anew",
        )

    def flip(self, file: str, offset: int, bit: int = 0) -> Self:
        """Flip one bit, 0 to 7, of the byte at an offset.

        Raises
        ------
        EvidenceError
            No such file, byte or bit.
        """
        before = bytearray(self.copy.read(file))
        if not (0 <= offset < len(before) and 0 <= bit < 8):
            raise EvidenceError(f"{file} has {len(before)} bytes of 8 bits, so no bit {bit} of byte {offset}")
        before[offset] ^= 1 << bit
        return self._take(self.copy.write(file, bytes(before)), f"{file}: bit {bit} of byte {offset} flipped")

    def flip_in_line(self, file: str, number: int) -> Self:
        """Flip the lowest bit of the byte in the middle of a line; refuses as ``line`` does."""
        return self.flip(file, sum(self._span(file, number)) // 2)

    def close_seal(self) -> Self:
        """Close the seal again over the changed bytes, as a forger does who knows the format.

        Raises
        ------
        EvidenceError
            A manifest that can't be read.
        """
        return self._take(closed_again(self.copy), "seal closed again over all this")

    def _span(self, file: str, number: int) -> tuple[int, int]:
        lines = Lines(self.copy.read(file))
        if not 0 <= number < len(lines):
            raise EvidenceError(f"{file} has no line {number}: it has {len(lines)}, numbered from 0")
        return lines.span(number)

    @cached_property
    def verification(self) -> Verification:
        """The seven checks of the copy as it stands."""
        if self.copy is self._untouched:
            return self.untouched
        return verify(self.copy.run, self.copy.receipts, anchor=self._anchor)

    @cached_property
    def untouched(self) -> Verification:
        """The seven checks of the run itself."""
        return verify(self.source, self._untouched.receipts, anchor=self._anchor)

    @property
    def first_change(self) -> tuple[str, int] | None:
        """File and line of the first byte that is not as sealed; null while nothing is changed."""
        return (self.differences[0].file, self.differences[0].line) if self.differences else None

    @cached_property
    def differences(self) -> list[Difference]:
        """Where the files of the copy are not as sealed, a difference a file."""
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

    def shown(self) -> str:
        """What was changed, and the checks before and after, as HTML."""
        rows = [
            (name, html.badge(before), html.badge(now), CHECK_MEANINGS[name], detail)
            for name, before, now, detail in self.frame.iter_rows()
        ]
        changes = "".join(f"<li>{html.escape(change[:300])}</li>" for change in self.changes)
        published, now = self.untouched.manifest_hash, self.copy.run.manifest_hash
        unseen = self.changes and not self.red and published != now
        drawn = "".join(found.to_html() for found in self.differences)
        return (
            f"<p><strong>{html.escape(state(self.verification).capitalize())}.</strong></p>"
            + (f"<ol>{changes}</ol>" if changes else "")
            + self._reasons()
            + (f'<p class="fail">{_UNSEEN}</p>' if unseen else "")
            + (html.section("What is not as sealed", drawn) if drawn else "")
            + html.section("Checks", html.table(["check", "untouched", "now", "means", "rests on"], rows))
            + html.section("", html.facts({"manifest hash, as published": published, "manifest hash, now": now}))
        )

    def _reasons(self) -> str:
        """Say why each red check is red."""
        checks = self.verification.checks
        said = "".join(
            f'<li><span class="fail">✗ {html.escape(name)}</span> {html.escape(checks[name].detail)}</li>' for name in self.red
        )
        return f'<ul class="reasons">{said}</ul>' if said else ""


_UNSEEN = (
    "No check inside the run can see this: it is consistent, and another run. "
    "Its manifest hash is not the published one: the anchor, the run log or a replay from the pack tells."
)
