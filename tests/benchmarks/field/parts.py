"""The parts of the benchmark: what is done, by which tools, at which sizes, and on what they have to agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import Any

from tests.benchmarks.field.jobs import SWEPT
from tests.benchmarks.measure import fresh

__all__ = ["PARTS", "Part", "Tool"]

Facts = Mapping[str, Any]
_SEED = 7
_SWEPT_TICKS = 100_000
_TOLERANCE = 1e-6  # of a probability; the tools stop their searches at other places


@dataclass(frozen=True, slots=True)
class Tool:
    """One way to do the work of a part.

    Attributes
    ----------
    job
        Name in ``JOBS``.
    package
        What has to be installed.
    code
        What its user writes, for ``lines_of``.
    beside
        The job that its time is divided by.
    reads_stream
        Whether its data are a stream of messages, which is made only as far as somebody reads it.
    """

    job: str
    package: str
    code: tuple[str, ...]
    beside: str | None = None
    reads_stream: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of work, by tool as it is called in tables."""

    title: str
    unit: str
    sizes: tuple[int, ...]
    tools: Mapping[str, Tool]
    agree: Callable[[Facts, int], bool]
    prepare: Callable[[Path, int, bool], None]


def _ticks(folder: Path, size: int, *, with_stream: bool) -> None:
    fresh(["-m", "tests.benchmarks.field.data", str(folder), str(size), str(_SEED), str(with_stream)])


def _swept(folder: Path, _: int, **__: bool) -> None:
    folder.mkdir()
    if not (folder.parent / SWEPT).exists():
        _ticks(folder.parent / SWEPT, _SWEPT_TICKS, with_stream=False)


def _fixtures(folder: Path, size: int, **_: bool) -> None:
    from tests.benchmarks.fixtures import write

    write(folder, size)


def _nothing(folder: Path, _: int, **__: bool) -> None:
    folder.mkdir()  # what the jobs work on is drawn in memory


def _same(facts: Facts, _: int) -> bool:
    """Whether all found the same, and found something."""
    first, *others = facts.values()
    return bool(first) and all(other == first for other in others)


def _near(facts: Facts, _: int) -> bool:
    """Whether no probability is far from clvlab's."""
    return all(furthest <= _TOLERANCE for furthest in facts.values())


def _errors(facts: Facts, _: int) -> bool:
    """Whether standard errors and intervals are the same but for rounding."""
    first, *others = facts.values()
    return all(isclose(one, two, rel_tol=1e-9) for other in others for one, two in zip(first, other, strict=True))


def _whole(facts: Facts, size: int) -> bool:
    """Whether all were there."""
    return all(found == size for found in facts.values())


_OWN_AGENT = "agents.py:momentum,Momentum,decisions_on"
_SCRIPTS = "field/scripts"
_MOMENTUM = {
    "clvlab, scored": Tool("scored", "clvlab", (_OWN_AGENT, "jobs.py:scored"), "polars"),
    "clvlab, sealed": Tool("sealed", "clvlab", (_OWN_AGENT, "jobs.py:sealed"), "polars"),
    "clvlab, audited and sealed": Tool("audited", "clvlab", (f"{_SCRIPTS}/clvlab_momentum.py",), "polars"),
    "Polars script": Tool("polars", "polars", ("baseline.py:polars_script",)),
    "DuckDB script": Tool("duckdb", "duckdb", ("baseline.py:duckdb_query",), "polars"),
    "clvlab, from the stream": Tool("imported", "clvlab", (f"{_SCRIPTS}/clvlab_momentum.py",), reads_stream=True),
    "betfairlightweight, from the stream": Tool(
        "betfairlightweight",
        "betfairlightweight",
        (f"{_SCRIPTS}/betfairlightweight_momentum.py",),
        "imported",
        reads_stream=True,
    ),
    "flumine, from the stream": Tool("flumine", "flumine", (f"{_SCRIPTS}/flumine_momentum.py",), "imported", reads_stream=True),
}


def _margin(method: str, *peers: str) -> Part:
    tools = {"clvlab": Tool(f"clvlab {method}", "clvlab", (f"{_SCRIPTS}/clvlab_margin.py",))}
    tools |= {peer: Tool(f"{peer} {method}", peer, (f"{_SCRIPTS}/{peer}_margin.py",), f"clvlab {method}") for peer in peers}
    return Part(f"margin removal, {method}", "rows", (1, 100, 10_000, 100_000), tools, _near, _nothing)


_CLUSTERS = {
    "clvlab": Tool("clvlab_clusters", "clvlab", (f"{_SCRIPTS}/clvlab_clusters.py",)),
    "statsmodels": Tool("statsmodels_clusters", "statsmodels", (f"{_SCRIPTS}/statsmodels_clusters.py",), "clvlab_clusters"),
}
_SWEEPS = {
    "clvlab": Tool("clvlab_sweep", "clvlab", (f"{_SCRIPTS}/clvlab_sweep.py", f"{_SCRIPTS}/clvlab_momentum.py:momentum")),
    "vectorbt": Tool("vectorbt_sweep", "vectorbt", (f"{_SCRIPTS}/vectorbt_sweep.py",), "clvlab_sweep"),
}
_STEPS = {
    "pack opened by path": Tool("fixtures by_path", "clvlab", ()),
    "tape": Tool("fixtures tape", "clvlab", ()),
    "backtested, sealed and verified": Tool("fixtures sealed", "clvlab", ()),
}
_THOUSANDS = (1_000, 10_000, 100_000)
_MILLIONS = (1_000_000, 10_000_000, 100_000_000)
PARTS = {
    "momentum": Part("momentum over ticks", "ticks", (10_000, 100_000, *_MILLIONS), _MOMENTUM, _same, _ticks),
    "sweeps": Part("a sweep of momentum", "points", (1, 10, 100, 1_000, 10_000), _SWEEPS, _same, _swept),
    "clusters": Part("mean and interval over fixtures", "fixtures", (10, *_THOUSANDS), _CLUSTERS, _errors, _nothing),
    "margin-shin": _margin("shin", "shin", "penaltyblog"),
    "margin-power": _margin("power", "penaltyblog"),
    "margin-odds-ratio": _margin("odds-ratio", "penaltyblog"),
    "fixtures": Part("packs of many fixtures", "fixtures", (1, *_THOUSANDS), _STEPS, _whole, _fixtures),
    "runs": Part(
        "runs in the store",
        "runs",
        (10, 100, *_THOUSANDS),
        {"leaderboard": Tool("leaderboard", "clvlab", ())},
        _whole,
        _nothing,
    ),
}
"""Every part of the benchmark, by the name that ``--only`` takes."""
