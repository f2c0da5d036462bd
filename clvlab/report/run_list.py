"""Runs in a folder: a list, and a search by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from clvlab.base.invocation import command
from clvlab.base.names import nearest
from clvlab.errors import EvidenceError, FileError, StatisticsError, UnknownRunError

if TYPE_CHECKING:  # imported where it is used: to find a run needs none of it
    import polars as pl

    from clvlab.report.headline import Headline
    from clvlab.runs.verdicts import VerdictRecord
    from clvlab.statistics.beat_rate import Difference as Paired
    from clvlab.statistics.verdict import Verdict

DEFAULT_RUNS = Path("runs")
LATEST = "latest"
_MANIFEST = "manifest.json"
_PREFIX = "run_"


@dataclass(frozen=True)
class ListedRun:
    """A run folder in a list; ``verified`` is `None` without a verification, ``fault`` is `None` for readable evidence.

    ``pack_id`` is `None` for a live capture; ``headlines`` and ``sums`` are in the order of the agents. ``record`` is the
    reader's own record of the last verification, `None` without one.
    """

    folder: Path
    run_id: str
    written: datetime
    agents: tuple[str, ...] = ()
    pack_id: str | None = None
    content_hash: str | None = None
    headlines: tuple[Headline, ...] = ()
    sums: tuple[pl.DataFrame, ...] = field(default=(), repr=False)
    verified: bool | None = None
    fault: str | None = None
    record: VerdictRecord | None = None

    def facts(self) -> Mapping[str, object]:
        """Return the run as JSON values."""
        return {
            "run_id": self.run_id,
            "run_folder": str(self.folder),
            "written": self.written.isoformat(timespec="seconds"),
            "pack_id": self.pack_id,
            "agents": [{"agent_id": agent, **one.facts()} for agent, one in zip(self.agents, self.headlines, strict=True)],
            "verified": self.verified,
            "fault": self.fault,
            "last_verification": self.record and self.record.facts(),
        }


def run_folders(runs: Path) -> list[Path]:
    """Return the run folders in a folder, newest first, then by name."""
    if not runs.exists():
        return []
    found = [path for path in runs.iterdir() if not path.name.startswith(".") and (path / _MANIFEST).is_file()]
    return sorted(found, key=lambda path: (-_written_s(path), path.name))


def listed_runs(runs: Path, *, verify: bool = False) -> Iterator[ListedRun]:
    """Yield the runs in a folder, newest first."""
    for folder in run_folders(runs):
        yield listed_run(folder, verify=verify)


def listed_run(folder: Path, *, verify: bool = False) -> ListedRun:
    """Read a run for a list; unreadable evidence is a ``fault``."""
    from clvlab.report.headline import headline
    from clvlab.runs.run import Run
    from clvlab.runs.run_folder import load, verify_folder
    from clvlab.runs.verdicts import keeper, kept_verdict
    from clvlab.statistics.measures import fixture_sums
    from clvlab.store.folder import run_files

    written = datetime.fromtimestamp(_written_s(folder), UTC)
    verified, record = None, None if verify else kept_verdict(folder)
    try:
        run = Run(load(folder))
        evidence = run.evidence
        checked = (keeper(folder, run_files(run.sealed)), verify_folder(folder)) if verify else None
    except (EvidenceError, FileError, UnknownRunError, OSError) as error:
        return ListedRun(folder, folder.name, written, verified=False if verify else None, fault=str(error), record=record)
    if checked is not None:
        keep, found = checked
        verified, record = found.passed, keep(found)
    agents = tuple(agent["agent_id"] for agent in evidence.started["agents"])
    rows = run.marked
    each = [rows.filter(agent_id=agent) for agent in agents]
    return ListedRun(
        folder,
        run.run_id,
        written,
        agents,
        evidence.started["binding"]["pack_id"],
        evidence.content_hash,
        tuple(headline(own) for own in each),
        tuple(fixture_sums(own) for own in each),
        verified,
        record=record,
    )


def runs_option(runs: Path) -> tuple[str, ...]:
    """Return the command option that names a folder of runs; empty for the default folder."""
    return () if runs == DEFAULT_RUNS else ("--runs", str(runs))


def find_run(name: str, runs: Path) -> Path:
    """Return the path of a run, bundle or disclosure, by path, by run id or its beginning, or as ``latest``."""
    path = Path(name)
    if path.exists():
        return path
    folders = run_folders(runs)
    if name == LATEST:
        if not folders:
            make = command("backtest", "PACK", *runs_option(runs))
            raise UnknownRunError(f"there is no run in {str(runs)!r} yet: make one with {make}")
        return folders[0]
    own = [folder for folder in folders if folder.name == name]
    matches = own or [
        folder for folder in folders if name and folder.name.removeprefix(_PREFIX).startswith(name.removeprefix(_PREFIX))
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(folder.name for folder in matches[:3]) + (", ..." if len(matches) > 3 else "")
        raise UnknownRunError(f"{len(matches)} runs in {str(runs)!r} begin with {name!r}: {names}")
    near = nearest(path.name, [*(folder.name for folder in folders), LATEST])
    hint = "" if near is None else f"; did you mean {near!r}?"
    raise UnknownRunError(
        f"no sealed run at {name!r}: neither a run folder or a bundle, nor a run id in {str(runs)!r}, which has "
        f"{len(folders)}{hint}"
    )


def _written_s(folder: Path) -> float:
    manifest = folder / _MANIFEST
    return (manifest if manifest.exists() else folder).stat().st_mtime


# Differences between runs, paired by fixture.


@dataclass(frozen=True)
class Difference:
    """The means of an agent minus those of the first, over their common fixtures.

    Attributes
    ----------
    clv
        Difference of mean CLV, in bps of probability.
    edge
        Difference of the mean edge at the prices taken, in percent.
    """

    first: str
    other: str
    clv: Paired
    edge: Paired

    @property
    def verdict(self) -> Verdict:
        """The difference in one sentence."""
        from clvlab.statistics.verdict import difference_phrases, verdict

        return verdict(self.clv, self.edge, wording=difference_phrases(self.other, self.first), caveat="")

    def facts(self) -> Mapping[str, object]:
        """Return the difference as JSON values."""
        clv, edge = self.clv, self.edge
        figures = {"fixtures": clv.n_clusters, "difference_bps": clv.difference, "low": clv.low, "high": clv.high}
        figures |= {"edge_difference_pct": edge.difference, "edge_low": edge.low, "edge_high": edge.high}
        return {"agent": self.other, "beside": self.first, **figures, "verdict": self.verdict.sentence}


def differences_from_first(runs: Sequence[ListedRun]) -> list[Difference]:
    """Compare each agent of runs over one pack with the first agent."""
    from clvlab.statistics import paired_difference
    from clvlab.statistics.measures import MEASURES, stacked

    for run in runs:
        if run.fault is not None:
            raise StatisticsError(f"{run.run_id} can't be compared: {run.fault}")
        if run.content_hash != runs[0].content_hash:
            raise StatisticsError(
                f"runs over different packs have no fixtures in common: {runs[0].run_id} is over {runs[0].content_hash}, "
                f"{run.run_id} over {run.content_hash}"
            )
    names = _names(runs)
    if len(names) < 2:
        raise StatisticsError(f"a comparison needs at least two agents, not {len(names)}")
    each = [one for run in runs for one in run.sums]
    clv, edge = (stacked(each, MEASURES[name])[0] for name in ("clv", "edge"))
    return [
        Difference(names[0], names[k], *(paired_difference(sums, k, 0, level=0.95) for sums in (clv, edge)))
        for k in range(1, len(names))
    ]


def _names(runs: Sequence[ListedRun]) -> list[str]:
    """Name each agent; a repeated name gets the beginning of the run id."""
    each = [(agent, run.run_id) for run in runs for agent in run.agents]
    known = [agent for agent, _ in each]
    return [agent if known.count(agent) == 1 else f"{agent} ({run_id.removeprefix('run_')[:8]})" for agent, run_id in each]
