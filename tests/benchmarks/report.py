"""What a benchmark says: figures beside budget and baseline, and whether the compared jobs agreed; as a table and as JSON."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, Literal

from tests.benchmarks.measure import Sample, Spread, spread

__all__ = ["Budget", "Equality", "Figure", "growth", "machine", "rate", "ratio", "table"]

_LIBRARIES = ("clvlab", "duckdb", "numpy", "polars", "pyarrow")


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on the median: of the figure, or of its ratio to the baseline."""

    limit: float
    on: Literal["figure", "ratio"] = "figure"
    at: Literal["most", "least"] = "most"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity; ``baseline`` names what the ratio divides by."""

    job: str
    name: str
    unit: str
    value: Spread
    budget: Budget | None = None
    baseline: str | None = None
    ratio: Spread | None = None

    @property
    def met(self) -> bool | None:
        """Whether the median keeps the budget; null without one."""
        judged = self.value if self.budget is None or self.budget.on == "figure" else self.ratio
        if self.budget is None or judged is None:
            return None
        return judged.median <= self.budget.limit if self.budget.at == "most" else judged.median >= self.budget.limit

    def payload(self) -> dict[str, Any]:
        return asdict(self) | {"met": self.met}


@dataclass(frozen=True, slots=True)
class Equality:
    """Whether two jobs gave the same."""

    name: str
    holds: bool


def ratio(samples: Sequence[Sample], baseline: Sequence[Sample]) -> Spread:
    """Time over the baseline's, round by round."""
    return spread([one.seconds / other.seconds for one, other in zip(samples, baseline, strict=True)])


def growth(large: Sequence[Sample], small: Sequence[Sample], times: float) -> Spread:
    """Time for ``times`` the work over ``times`` the time: 1 is linear."""
    return spread([one.seconds / other.seconds / times for one, other in zip(large, small, strict=True)])


def rate(samples: Sequence[Sample], count: int) -> Spread:
    """Items a second."""
    return spread([count / sample.seconds for sample in samples])


def machine() -> dict[str, Any]:
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in _LIBRARIES},
    }


def table(figures: Sequence[Figure]) -> str:
    """Give the figures as a Markdown table."""
    head = ("job", "figure", "min", "median", "max", "ratio to baseline (min, median, max)", "budget", "met")
    rows = [head, tuple("---" for _ in head), *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows)
    return "\n".join(lines)


def _row(figure: Figure) -> tuple[str, ...]:
    shares = figure.ratio
    met = {None: "", True: "yes", False: "no"}[figure.met]
    return (
        figure.job,
        figure.name,
        *(_shown(value, figure.unit) for value in (figure.value.min, figure.value.median, figure.value.max)),
        f"{shares.min:.2f}, {shares.median:.2f}, {shares.max:.2f} of {figure.baseline}" if shares else "",
        _limit(figure),
        met,
    )


def _limit(figure: Figure) -> str:
    budget = figure.budget
    if budget is None:
        return ""
    limit = _shown(budget.limit, figure.unit) if budget.on == "figure" else f"{budget.limit:g} of baseline"
    return f"at {budget.at} {limit}"


def _shown(value: float, unit: str) -> str:
    match unit:
        case "s":
            return f"{value:.3f} s" if value < 1 else f"{value:.2f} s"
        case "MB":
            return f"{value:.0f} MB"
        case _ if value < 1e3:
            return f"{value:.0f} {unit}"
        case _:
            return f"{value / 1e6:.2f} M {unit}" if value >= 1e6 else f"{value / 1e3:.1f} k {unit}"
