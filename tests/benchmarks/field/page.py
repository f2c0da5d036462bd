"""What was measured, as tables; and the pages of the documentation that show them, between their markers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from tests.benchmarks.field.parts import PARTS
from tests.benchmarks.measure import spread

_SHORT = ("momentum", "sweeps", "clusters", "margin-shin")  # the parts that the summary shows
PAGES = {"summary": "docs/explanation/performance.md", "growth": "docs/reference/benchmarks.md"}
"""The page of each block of tables."""
__all__ = ["PAGES", "by_tool", "compared", "growth", "rendered"]

Kept = Mapping[str, Any]


def by_tool(part: Kept, what: str = "seconds") -> dict[str, dict[int, list[float]]]:
    """Give what was measured in each round, by tool and size."""
    found: dict[str, dict[int, list[float]]] = {}
    for row in part["measured"]:
        found.setdefault(row["tool"], {})[row["size"]] = row[what]
    return found


def compared(parts: Mapping[str, Kept]) -> str:
    """Give the table of parts at the largest size that all of their tools did."""
    rows = [("work", "tool", "time", "ratio (min, median, max)", "memory", "lines of code")]
    for name, part in parts.items():
        if part["measured"]:
            rows += _compared(name, part)
    return _table(rows)


def _compared(name: str, part: Kept) -> list[tuple[str, ...]]:
    seconds, peaks, tools = by_tool(part), by_tool(part, "peak_mb"), PARTS[name].tools
    size = max(set.intersection(*(set(sizes) for sizes in seconds.values())))
    labels = {tool.job: label for label, tool in tools.items()}
    rows = []
    for label in (label for label in tools if label in seconds):
        taken, package = seconds[label][size], tools[label].package
        beside = labels.get(tools[label].beside or "")
        shares = ""
        if beside in seconds:
            ratios = spread([one / other for one, other in zip(taken, seconds[beside][size], strict=True)])
            shares = f"{_short(ratios.min)}, {_short(ratios.median)}, {_short(ratios.max)} of {beside}"
        version = "" if package == "clvlab" else f" ({package} {part['versions'][package]})"
        work = "" if rows else f"{PARTS[name].title}, {size:,} {PARTS[name].unit}"
        lines = str(part["lines"].get(label, ""))
        rows.append((work, label + version, _time(median(taken)), shares, f"{median(peaks[label][size]):,.0f} MB", lines))
    return rows


def growth(name: str, part: Kept) -> str:
    """Give the table of one part: median time by tool and size, and the memory of the largest."""
    seconds, peaks = by_tool(part), by_tool(part, "peak_mb")
    sizes = sorted({size for taken in seconds.values() for size in taken})
    rows = [(PARTS[name].title, *(f"{size:,} {PARTS[name].unit}" for size in sizes), "memory at its largest")]
    for label, taken in seconds.items():
        times = (_time(median(taken[size])) if size in taken else "" for size in sizes)
        rows.append((label, *times, f"{median(peaks[label][max(taken)]):,.0f} MB"))
    return _table(rows)


def rendered(page: str, kept: Kept, block: str) -> str:
    """Return the page with the tables of a block between its markers.

    Raises
    ------
    ValueError
        The page has no markers of the block.
    """
    known = {name: kept["parts"][name] for name in PARTS if name in kept["parts"]}
    tables = [f"{growth(name, part)}\n\n{_rounds(name, part)}" for name, part in known.items()]
    if notes := [f"- {note['text']}." for part in known.values() for note in part["notes"]]:
        tables.append("\n".join(["Left out:", "", *dict.fromkeys(notes)]))
    blocks = {"summary": compared({name: known[name] for name in _SHORT if name in known}), "growth": "\n\n".join(tables)}
    pattern = re.compile(f"(<!-- field {block} -->\n).*?(<!-- end of field {block} -->)", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"the page has no markers of field {block}")
    return pattern.sub(lambda found: f"{found[1]}\n{blocks[block]}\n\n{found[2]}", page)


def _rounds(name: str, part: Kept) -> str:
    """Say what the times are medians of, which may differ by size."""
    by_rounds: dict[int, set[int]] = {}
    for row in part["measured"]:
        by_rounds.setdefault(len(row["seconds"]), set()).add(row["size"])
    (most, _), *others = sorted(by_rounds.items(), key=lambda item: len(item[1]), reverse=True)
    fewer = [
        f", of {rounds} at {', '.join(f'{size:,}' for size in sorted(sizes))} {PARTS[name].unit}" for rounds, sizes in others
    ]
    return f"Medians of {most} round{'' if most == 1 else 's'}{''.join(fewer)}."


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    lines = [rows[0], tuple("---" for _ in rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _time(seconds: float) -> str:
    if seconds < 0.0995:
        return f"{seconds * 1000:.2g} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.0f} s"


def _short(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"
