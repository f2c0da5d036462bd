"""The verbs of a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clvlab.application import backtests, importing, packs, runs
from clvlab.engine.agent import Agent
from clvlab.engine.lookahead import LookaheadReport
from clvlab.lab.results import Backtest, Pack, Run
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.tape import Tape

__all__ = ["backtest", "import_odds", "lookahead_audit", "open_pack", "open_run"]


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
    return Run(runs.load(path), runs.receipts(path), runs.anchor(path))


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


def lookahead_audit(
    agent: str | Agent, tape: Pack | Tape | str | Path, *, cuts: int = 24, seed: int = 0, max_rows: int = 1_000_000
) -> LookaheadReport:
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
        Chooses the messages at which the tape is cut.
    max_rows
        A longer tape is audited on some of its fixtures.

    Raises
    ------
    UnknownAgentError, UnknownPackError, AgentError

    Examples
    --------
    >>> lookahead_audit("baseline", "starter")
    Look-ahead audit of 'baseline': passed, decisions on 24 prefixes equal those on the whole tape
    """
    asked = backtests.resolved(agent)
    if not isinstance(tape, Tape):
        tape = (tape if isinstance(tape, Pack) else open_pack(tape)).source.tape()
    return backtests.lookahead_audit(asked, tape, cuts=cuts, seed=seed, max_rows=max_rows)


def backtest(
    pack: Pack | str | Path,
    agent: str | Agent = "baseline",
    *,
    params: Mapping[str, Any] | None = None,
    fixtures: Sequence[int] | None = None,
    window: Window | None = None,
    policy: PolicyEnvelope | None = None,
    audit: bool = True,
) -> Backtest:
    """Replay a pack through an agent, score it by the law, and seal it.

    Parameters
    ----------
    pack
        A pack, its id, or the path of its folder.
    agent
        Name of a template (``clvlab agents list``); a function under ``@clvlab.strategy``; a ``clvlab.TickAgent``; or
        ``file.py:name`` of one of these.
    params
        Parameters of a template or strategy that differ from its defaults.
    fixtures
        Fixture ids; all by default.
    window
        End rule, horizon and markets; ``pre_match``, 60 s, all markets by default.
    policy
        Limits under which actions are executed on paper; scores do not depend on it.
    audit
        Whether a columnar agent of one's own is audited for look-ahead before the run is sealed.

    Raises
    ------
    UnknownPackError, UnknownFixtureError, UnknownAgentError, AgentError, LookaheadError, WindowError, DecisionError

    Examples
    --------
    >>> backtest("starter", "baseline", fixtures=[90000000]).report["n_fixtures"]
    1
    """
    opened = pack if isinstance(pack, Pack) else open_pack(pack)
    return Backtest(
        backtests.backtest(opened.source, agent, params=params, fixture_ids=fixtures, window=window, policy=policy, audit=audit)
    )
