"""Measuring a part: sizes from the smallest on, and at each of them all tools in turn, round after round."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from tests.benchmarks.field.parts import Part, Tool
from tests.benchmarks.measure import Sample, fresh

__all__ = ["NOTHING", "Limits", "measured", "merged"]

Kept = dict[str, Any]
"""Rows by size: ``measured``, seconds and memory of rounds by tool; ``notes``, what was left out; ``different``, where tools
that must agree did not."""
NOTHING: Kept = {"measured": [], "notes": [], "different": []}


@dataclass(frozen=True, slots=True)
class Limits:
    """How often each tool is measured, and from what time on it is left out."""

    rounds: int
    patience_s: float


def measured(part: Part, size: int, limits: Limits, missing: Mapping[str, str], before: Kept) -> Kept:
    """Measure every tool at one size, except where it would take longer than one is patient.

    Parameters
    ----------
    part
        What is done.
    size
        How much of it.
    limits
        How often, and for how long.
    missing
        Packages that are not installed, and why.
    before
        What the part measured so far: how long a tool will take is foreseen from it.

    Returns
    -------
    dict
        What is kept of the part, with this size measured anew.
    """
    notes = [f"{name}: {missing[tool.package]}" for name, tool in part.tools.items() if tool.package in missing]
    left = {name: tool for name, tool in part.tools.items() if tool.package not in missing}
    for name, seconds in _too_long(before["measured"], size, limits.patience_s):
        if left.pop(name, None) is not None:
            notes.append(f"{name}: {size:,} {part.unit} would take about {seconds:,.0f} s")
    samples: dict[str, list[Sample]] = {}
    if left:
        with tempfile.TemporaryDirectory(prefix="clvlab-field-") as folder:
            data = Path(folder) / str(size)
            part.prepare(data, size, with_stream=any(tool.reads_stream for tool in left.values()))
            samples, failed = _rounds(left, data, size, limits.rounds)
        notes += failed
    found: Kept = {
        "measured": _rows(size, samples),
        "notes": [{"size": size, "text": text} for text in notes],
        "different": [] if not samples or _agree(part, samples, size) else [{"size": size}],
    }
    return merged(before, found, size)


def merged(before: Kept, found: Kept, size: int) -> Kept:
    """Return what is kept of a part with what was found at one size in place of what stood there."""
    kept = {name: [row for row in before[name] if row["size"] != size] + found[name] for name in found}
    return {name: sorted(rows, key=itemgetter("size")) for name, rows in kept.items()}


def _rows(size: int, samples: Mapping[str, list[Sample]]) -> list[Kept]:
    return [
        {
            "size": size,
            "tool": name,
            "seconds": [round(one.seconds, 6) for one in taken],
            "peak_mb": [round(one.peak_mb, 1) for one in taken],
        }
        for name, taken in samples.items()
    ]


def _rounds(tools: Mapping[str, Tool], folder: Path, size: int, rounds: int) -> tuple[dict[str, list[Sample]], list[str]]:
    """Measure all tools in turn, so often; a tool that fails is left out from there on, and named."""
    samples: dict[str, list[Sample]] = {name: [] for name in tools}
    failed = []
    for _ in range(rounds):
        for name in list(samples):
            command = ["-m", "tests.benchmarks.field.jobs", tools[name].job, str(folder), str(size)]
            try:
                samples[name].append(Sample(**fresh(command)))
            except subprocess.CalledProcessError as error:
                failed.append(f"{name}: {size:,} failed with exit status {error.returncode}")
                del samples[name]
                continue
            sys.stderr.write(f"{name}, {size:,}: {samples[name][-1].seconds:.3f} s\n")
    return samples, failed


def _too_long(rows: Sequence[Kept], size: int, patience_s: float) -> Iterator[tuple[str, float]]:
    """Yield tools that would not be done in time, if time grows from the last two sizes on as it grew between them."""
    for name in {row["tool"] for row in rows}:
        smaller = sorted((row["size"], min(row["seconds"])) for row in rows if row["tool"] == name and row["size"] < size)
        if len(smaller) >= 2:
            (first, short), (second, long) = smaller[-2:]
            seconds = long + max(long - short, 0) / (second - first) * (size - second)
            if seconds > patience_s:
                yield name, seconds


def _agree(part: Part, samples: Mapping[str, list[Sample]], size: int) -> bool:
    """Whether the tools found the same, and each of them so in every round."""
    stay = all(one.facts == taken[0].facts for taken in samples.values() for one in taken)
    return stay and part.agree({name: taken[0].facts for name, taken in samples.items()}, size)
