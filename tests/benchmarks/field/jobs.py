"""The jobs of the field: ``python -m tests.benchmarks.field.jobs JOB FOLDER SIZE`` does one, in a process of its own.

A job loads its library and gives two functions: what to time, and what makes facts of its result, on which tools have to agree.
What makes the facts is loaded once the work has been measured, as its memory would count.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.memory import sampled

__all__ = ["JOBS", "SWEPT", "worked"]

SWEPT = "swept"
"""Folder of the data that sweeps are made over, whatever the number of points."""
_THRESHOLD, _HORIZON_S = 100, 60
_DECISIONS_PER_FIXTURE = 20
_WARM = 5 * _DECISIONS_PER_FIXTURE  # decisions of a first call, which loads what is loaded late

Job = tuple[Callable[[], Any], Callable[[Any], Any]]


def flumine(folder: Path, _: int) -> Job:
    from tests.benchmarks.field.scripts.flumine_momentum import run

    return lambda: run(folder / "stream", _THRESHOLD, 1000 * _HORIZON_S), _sums_of_kinds


def betfairlightweight(folder: Path, _: int) -> Job:
    from tests.benchmarks.field.scripts.betfairlightweight_momentum import run

    return lambda: run(folder / "stream", _THRESHOLD, 1000 * _HORIZON_S), _sums_of_kinds


def polars(folder: Path, _: int) -> Job:
    from tests.benchmarks.baseline import polars_script

    return lambda: polars_script(folder / "feed.parquet", _THRESHOLD), _sums_of_keys


def duckdb(folder: Path, _: int) -> Job:
    from tests.benchmarks.baseline import duckdb_query

    return lambda: duckdb_query(folder / "feed.parquet", _THRESHOLD), _sums_of_keys


def scored(folder: Path, _: int) -> Job:
    from tests.benchmarks import jobs

    return jobs.scored(folder, str(_THRESHOLD)), lambda facts: _sums_of_keys(facts["markets"])


def sealed(folder: Path, _: int) -> Job:
    from tests.benchmarks import jobs

    return jobs.sealed(folder, str(_THRESHOLD)), lambda facts: _sums_of_keys(facts["markets"])


def audited(folder: Path, _: int) -> Job:
    from tests.benchmarks.field.scripts.clvlab_momentum import run
    from tests.benchmarks.jobs import per_market

    return lambda: run(folder / "bench", _THRESHOLD, _HORIZON_S), lambda scores: _sums_of_keys(per_market(scores)["markets"])


def imported(folder: Path, _: int) -> Job:
    from tests.benchmarks.field.scripts.clvlab_momentum import run_stream
    from tests.benchmarks.jobs import per_market

    pack = Path(tempfile.mkdtemp(dir=folder)) / "imported"
    return (
        lambda: run_stream(folder / "stream", pack, _THRESHOLD, _HORIZON_S),
        lambda scores: _sums_of_kinds({key.rstrip("|"): sums for key, sums in per_market(scores)["markets"].items()}),
    )


def _sums_of_keys(found: dict[str, list[int]]) -> dict[str, list[int]]:
    from tests.benchmarks.field.data import KINDS

    return _sums_of_kinds({KINDS[key]: sums for key, sums in found.items()})


def _sums_of_kinds(found: dict[str, list[int]]) -> dict[str, list[int]]:
    return dict(sorted(found.items()))


def margin(method: str, tool: str) -> Callable[[Path, int], Job]:
    """Make the job of a tool: margins are taken off so many rows of three outcomes."""

    def job(_: Path, rows: int) -> Job:
        from importlib import import_module

        from tests.benchmarks.import_data import three_way_odds

        odds = three_way_odds(rows)
        run = import_module(f"tests.benchmarks.field.scripts.{tool}_margin").run
        arguments = (odds,) if tool == "shin" else (odds, method)

        def furthest(probabilities: Any) -> float:
            """Give how far any probability is from clvlab's."""
            import numpy as np

            from clvlab.odds.margin import fair_probabilities

            return float(np.abs(np.asarray(probabilities) - fair_probabilities(odds, method).prob).max())

        return lambda: run(*arguments), furthest

    return job


def clvlab_clusters(_: Path, fixtures: int) -> Job:
    import polars as pl

    from tests.benchmarks.field.scripts.clvlab_clusters import run

    values, ids = _decisions(fixtures)
    frame = pl.DataFrame({"value": values, "fixture": ids})
    run(frame["value"].head(_WARM), frame["fixture"].head(_WARM))
    return lambda: run(frame["value"], frame["fixture"]), list


def statsmodels_clusters(_: Path, fixtures: int) -> Job:
    from tests.benchmarks.field.scripts.statsmodels_clusters import run

    values, ids = _decisions(fixtures)
    run(values[:_WARM], ids[:_WARM])
    return lambda: run(values, ids), lambda found: [float(one) for one in found]


def _decisions(fixtures: int) -> Any:
    """Draw decisions of fixtures of equal size, where the errors CR1 of statsmodels and CR2 of clvlab are one."""
    import numpy as np

    dice = np.random.default_rng(0)
    ids = np.repeat(np.arange(fixtures), _DECISIONS_PER_FIXTURE)
    return dice.normal(5, 30, fixtures)[ids] + dice.normal(0, 20, ids.size), ids


def clvlab_sweep(folder: Path, points: int) -> Job:
    from tests.benchmarks.field.scripts.clvlab_sweep import run

    return lambda: run(folder.parent / SWEPT / "bench", *_grid(points), _HORIZON_S), _listed


def vectorbt_sweep(folder: Path, points: int) -> Job:
    from tests.benchmarks.field.scripts.vectorbt_sweep import run

    return lambda: run(folder.parent / SWEPT / "feed.parquet", *_grid(points), 1000 * _HORIZON_S), _listed


def _grid(points: int) -> tuple[list[int], list[int]]:
    """Give lags and thresholds of so many points."""
    thresholds = min(points, 100)
    return list(range(20, 20 + points // thresholds)), list(range(60, 60 + thresholds))


def _listed(found: list[tuple[int, int]]) -> list[list[int]]:
    return [list(sums) for sums in found]


def fixtures(step: str) -> Callable[[Path, int], Job]:
    """Make the job of one step with a pack of so many fixtures."""

    def job(folder: Path, _: int) -> Job:
        from tests.benchmarks.fixtures import JOBS

        return JOBS[step](folder), int

    return job


def leaderboard(folder: Path, runs: int) -> Job:
    from tests.benchmarks.stored import board

    return board(folder, str(runs)), lambda found: found["runs"]


JOBS: dict[str, Callable[[Path, int], Job]] = {
    job.__name__: job
    for job in (
        flumine, betfairlightweight, polars, duckdb, scored, sealed, audited, imported,
        clvlab_clusters, statsmodels_clusters, clvlab_sweep, vectorbt_sweep, leaderboard,
    )
}  # fmt: skip
JOBS |= {
    f"{tool} {method}": margin(method, tool) for method in ("shin", "power", "odds-ratio") for tool in ("clvlab", "penaltyblog")
}
JOBS |= {"shin shin": margin("shin", "shin")} | {f"fixtures {step}": fixtures(step) for step in ("by_path", "tape", "sealed")}


def worked(name: str, folder: Path, size: int) -> dict[str, Any]:
    """Do a job; say how long it took, how much memory it and its processes had, and what it found."""
    work, facts_of = JOBS[name](folder, size)
    with sampled() as held:
        start = time.perf_counter()
        found = work()
        seconds = time.perf_counter() - start
    peak_mb = max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, *held)
    return {"seconds": seconds, "peak_mb": peak_mb, "facts": facts_of(found)}


if __name__ == "__main__":
    said = json.dumps(worked(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
    sys.stdout.write(said)
