"""The verbs of a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from clvlab.application import backtests as application_backtests
from clvlab.application import importing
from clvlab.application import packs as application_packs
from clvlab.application.audits import Audit, audit_all
from clvlab.application.runs import in_folder
from clvlab.engine.agent import Agent
from clvlab.lab.laboratory.asked import several
from clvlab.lab.laboratory.local import LocalPlace
from clvlab.lab.laboratory.making import Verbs
from clvlab.lab.results.audit import AuditReport
from clvlab.lab.results.grid import Work
from clvlab.lab.results.leaderboard import Leaderboard
from clvlab.lab.results.pack import Pack
from clvlab.lab.results.result import Result
from clvlab.lab.results.run import Run
from clvlab.law.tape import Tape
from clvlab.packs.importers.importing import import_source


def open_pack(where: str | Path, *, content_hash: str | None = None) -> Pack:
    """Open a pack by its id in the catalog, by the path of its folder, or by its URL.

    Parameters
    ----------
    where
        ``"starter"``, a path, or a URL as in ``s3://bucket/pack``. A folder is verified whole; at a URL each fixture is
        when it is read.
    content_hash
        What the pack must be, as ``sha256:<hex>``; whatever is there by default.

    Raises
    ------
    UnknownPackError, PackFormatError, PackTamperedError, RemoteError

    Examples
    --------
    >>> open_pack("starter").provenance
    'synthetic-clvlab'
    """
    return Pack(application_packs.open_pack(where, content_hash=content_hash))


def open_run(path: str | Path) -> Run:
    """Read a stored run, unverified; ``.verify()`` recomputes its proof.

    Parameters
    ----------
    path
        A run folder, as ``Run.save`` and ``clvlab backtest`` write it.

    Raises
    ------
    UnknownRunError

    Examples
    --------
    >>> import tempfile
    >>> folder = backtest("starter", "baseline").run.save(tempfile.mkdtemp())
    >>> open_run(folder).verify().passed
    True
    """
    return Run(in_folder.load(path), in_folder.receipts(path), in_folder.anchor(path))


def import_odds(
    source: str, paths: str | Path | Sequence[str | Path], out: str | Path, *, lenient: bool = False, **options: Any
) -> Pack:
    """Make a pack of a provider's files and open it; ``.quality`` tells what was found.

    Parameters
    ----------
    source
        ``betfair``, ``csv``, ``football-data``, ``parquet``, ``polymarket``, ``the-odds-api`` or ``txline``.
    paths
        Files or folders of the source.
    out
        Where the pack will stand; its name becomes the pack id.
    lenient
        Count rows that can't be read and go on, instead of stopping at the first.
    **options
        ``margin``, ``min_books``, ``max_age_s``, ``weights``, ``odds_format``, ``time_zone``, ``closing``, ``mapping`` (a
        mapping or the path of a YAML file), ``max_close_age_s`` and ``progress``, each as for ``clvlab packs import``.

    Raises
    ------
    SourceError, OddsError, PackFormatError, WindowError

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with open(folder / "odds.csv", "w") as file:
    ...     print("fixture,time,market,side,odds", file=file)
    ...     print("match,2026-03-01T12:00Z,WINNER||,home,2.1", file=file)
    ...     print("match,2026-03-01T12:00Z,WINNER||,away,1.8", file=file)
    >>> import_odds("csv", folder / "odds.csv", folder / "mine").ticks()["prob_bps"].to_list()
    [5403, 4597]
    """
    files = [paths] if isinstance(paths, str | Path) else paths
    chosen = importing.import_options(lenient=lenient, **options)
    import_source(source, [Path(path) for path in files], Path(out), chosen)
    return open_pack(Path(out))


def lookahead_audit(
    agent: str | Agent, tape: Pack | Tape | str | Path, *, cuts: int = 24, seed: int | None = None, max_rows: int = 100_000
) -> AuditReport:
    """Compare an agent's decisions on prefixes of a tape with the prefixes of its decisions.

    Parameters
    ----------
    agent
        An agent, or the name of a template.
    tape
        A tape; or a pack, its id, or the path of its folder.
    cuts
        Number of prefixes. Most of them end where the agent decided, the others anywhere.
    seed
        Chooses the messages at which the tape is cut; by default one that nobody knew before. It stands in the report.
    max_rows
        A longer tape is audited on some of its fixtures.

    Raises
    ------
    UnknownAgentError, UnknownPackError, AgentError

    Examples
    --------
    >>> lookahead_audit("baseline", "starter")
    Look-ahead audit of 'baseline': passed, decisions on 24 prefixes of 12 fixture(s) equal those on the whole tape
    """
    if not isinstance(tape, Tape):
        tape = (tape if isinstance(tape, Pack) else open_pack(tape)).source.tape()
    return AuditReport(application_backtests.lookahead_audit(agent, tape, cuts=cuts, seed=seed, max_rows=max_rows))


def lookahead_audits(
    agent: str | Agent,
    packs: Sequence[Pack | str | Path],
    *,
    cuts: int = 24,
    seed: int | None = None,
    max_rows: int = 100_000,
    executor: Executor | None = None,
) -> tuple[AuditReport, ...]:
    """Audit an agent over several packs, as ``lookahead_audit`` does over one, in their order.

    Parameters
    ----------
    agent, cuts, seed, max_rows
        As for ``lookahead_audit``.
    packs
        Packs, their ids, or the paths of their folders.
    executor
        Who computes, as for ``backtests``.

    Raises
    ------
    UnknownAgentError, UnknownPackError, AgentError, ExecutorError

    Examples
    --------
    >>> [report.passed for report in lookahead_audits("baseline", ["starter", "season"])]
    [True, True]
    """
    found = [(pack if isinstance(pack, Pack) else open_pack(pack)).source for pack in several(packs)]
    reports = audit_all(application_backtests.resolve(agent), found, Audit(cuts, seed, max_rows), Work(executor).executor)
    return tuple(AuditReport(report) for report in reports)


def leaderboard(runs: Sequence[Result], by: str = "clv", *, level: float = 0.95) -> Leaderboard:
    """Rank backtests by mean CLV; intervals stand beside it and rank nothing.

    Parameters
    ----------
    runs
        Backtests and competitions, over the same packs or not.
    by
        The measure in whose order they are shown: ``clv``, ``edge`` or ``price_ratio``; the rank is the law's, by CLV.
    level
        Of the intervals.

    Examples
    --------
    >>> leaderboard([backtest("starter", "baseline"), backtest("starter", "cumulative-drift")]).frame["agent_id"][0]
    'baseline'
    """
    return Leaderboard(tuple(one for run in runs for one in run.contenders), by, level)


_HERE = Verbs(LocalPlace())
backtest, backtests, compare = _HERE.backtest, _HERE.backtests, _HERE.compare
sweep, walk_forward = _HERE.sweep, _HERE.walk_forward
