"""The verbs of a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clvlab.application import backtests, importing, packs, runs
from clvlab.engine.agent import Agent
from clvlab.lab.results import Backtest, Pack, Run
from clvlab.law.closing import Window

__all__ = ["backtest", "import_odds", "open_pack", "open_run"]


def open_pack(where: str | Path) -> Pack:
    """Open a pack by its id in the catalog, or by the path of its folder.

    Raises
    ------
    UnknownPackError, PackFormatError, PackTamperedError

    Examples
    --------
    >>> open_pack("starter").provenance
    'synthetic-clvlab'
    """
    return Pack(packs.open_pack(where))


def open_run(path: str | Path) -> Run:
    """Read a stored run, unverified; ``.verify()`` recomputes its proof.

    Raises
    ------
    UnknownRunError
    """
    return Run(runs.load(path))


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
        mapping or the path of a YAML file) and ``progress``, each as for ``clvlab packs import``.

    Raises
    ------
    SourceError, OddsError, PackFormatError
    """
    files = [paths] if isinstance(paths, str | Path) else paths
    chosen = importing.import_options(lenient=lenient, **options)
    importing.import_source(source, [Path(path) for path in files], Path(out), chosen)
    return open_pack(Path(out))


def backtest(
    pack: Pack | str | Path,
    agent: str | Agent = "baseline",
    *,
    params: Mapping[str, Any] | None = None,
    fixtures: Sequence[int] | None = None,
    window: Window | None = None,
) -> Backtest:
    """Replay a pack through an agent, score it by the law, and seal it.

    Parameters
    ----------
    pack
        A pack, its id, or the path of its folder.
    agent
        Name of a template (``baseline``, ``cumulative-drift``) or an agent.
    params
        Parameters of a template that differ from its defaults.
    fixtures
        Fixture ids; all by default.
    window
        End rule, horizon and markets; ``pre_match``, 60 s, all markets by default.

    Raises
    ------
    UnknownPackError, UnknownFixtureError, UnknownAgentError, AgentError, WindowError, DecisionError

    Examples
    --------
    >>> backtest("starter", "baseline", fixtures=[90000000]).report["n_fixtures"]
    1
    """
    opened = pack if isinstance(pack, Pack) else open_pack(pack)
    return Backtest(backtests.backtest(opened.source, agent, params=params, fixture_ids=fixtures, window=window or Window()))
