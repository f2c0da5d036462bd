"""The functions for notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clvlab.arena import packs as application_packs
from clvlab.base.names import names_checked
from clvlab.base.progress import each
from clvlab.engine.agent import Agent
from clvlab.errors import PackFormatError, StatisticsError, UnknownPackError, UnknownRunError
from clvlab.lab.laboratory.local import HERE
from clvlab.lab.laboratory.methods import Verbs
from clvlab.lab.laboratory.requests import agent_spec, check_audit, pack_argument, several
from clvlab.lab.results.pack import Joined, Pack, joint_hold_out, merge_holdouts
from clvlab.lab.results.result import Result
from clvlab.lab.results.run import Run
from clvlab.lab.validation import fixture_ids_argument, value_text
from clvlab.law.tape import Tape
from clvlab.report.bars import display_progress
from clvlab.runs.spec import resolve
from clvlab.words import counted

if TYPE_CHECKING:  # imported where it is used, so that a first backtest waits for nothing else
    from clvlab.lab.laboratory.lists import AgentListing, Listing
    from clvlab.report.cards import AuditReport
    from clvlab.report.comparison import Leaderboard
    from clvlab.report.lead_lag import LeadLagReport
    from clvlab.sources.tables.files import Frame

# Look-ahead audits.


@names_checked
def lookahead_audit(
    agent: str | Agent, tape: Pack | Tape | str | Path, *, cuts: int = 24, seed: int | None = None, max_rows: int = 100_000
) -> AuditReport:
    """Compare an agent's decisions on prefixes of a tape with its decisions on the whole tape.

    Parameters
    ----------
    agent
        An agent, or the name of a template.
    tape
        A tape; or a pack, its id, or the path of its folder.
    cuts
        Number of prefixes; most of them end at a decision.
    seed
        Seed of the cuts; random by default, and named in the report.
    max_rows
        A tape with more rows is audited on some of its fixtures only; at least 100 of them are drawn without regard to the
        agent's decisions.

    Examples
    --------
    >>> lookahead_audit("baseline", "starter")
    Look-ahead audit of 'baseline': passed, decisions on 24 prefixes of 12 fixtures equal those on the whole tape; ...
    """
    from clvlab.report.cards import AuditReport
    from clvlab.runs import audits

    check_audit(cuts, seed, max_rows)
    if not isinstance(tape, Tape):
        tape = HERE.pack(pack_argument(tape)).source.tape()
    agent = agent_spec(agent).agent
    with display_progress("Look-ahead audit"):
        return AuditReport(audits.lookahead_audit(agent, tape, cuts=cuts, seed=seed, max_rows=max_rows))


@names_checked
def lookahead_audits(
    agent: str | Agent,
    packs: Sequence[Pack | str | Path],
    *,
    cuts: int = 24,
    seed: int | None = None,
    max_rows: int = 100_000,
    executor: Executor | None = None,
) -> tuple[AuditReport, ...]:
    """Audit an agent for look-ahead over several packs, in their order.

    Parameters
    ----------
    agent, cuts, seed, max_rows
        As for ``lookahead_audit``.
    packs
        Packs, their ids, or the paths of their folders.
    executor
        As for ``backtests``.

    Examples
    --------
    >>> [report.passed for report in lookahead_audits("baseline", ["starter", "season"])]
    [True, True]
    """
    from clvlab.lab.results.sweep import GridWork
    from clvlab.report.cards import AuditReport
    from clvlab.runs.audits import Audit, audit_all

    check_audit(cuts, seed, max_rows)
    sources = [HERE.pack(pack_argument(pack)).source for pack in several(packs)]
    with display_progress("Look-ahead audits"):
        reports = audit_all(resolve(agent_spec(agent).agent), sources, Audit(cuts, seed, max_rows), GridWork(executor).executor)
        return tuple(AuditReport(report) for report in each("auditing packs", reports, len(sources)))


_RUN_ID = re.compile(r"run_[0-9a-f]{8,}")


@names_checked
def open_pack(where: str | Path, *, content_hash: str | None = None) -> Pack:
    """Open a pack by id, path or URL.

    Parameters
    ----------
    where
        An id such as ``"starter"``, the path of a folder or view file, or a URL such as ``s3://bucket/pack``. A folder is
        verified when it is opened; at a URL, each fixture is verified when it is read. The packs of a view file must be in
        its folder or come with clvlab.
    content_hash
        The expected hash, as ``sha256:<hex>``.

    Raises
    ------
    UnknownPackError, RemoteError
        There is no pack, or it can't be reached.
    PackFormatError, PackTamperedError
        The pack is malformed, or differs from its manifest or the expected hash.

    Examples
    --------
    >>> open_pack("starter").provenance
    'synthetic-clvlab'
    """
    if not isinstance(where, str | Path):
        raise _not_a_pack_error(where)
    if content_hash is not None and not (isinstance(content_hash, str) and content_hash.startswith("sha256:")):
        raise PackFormatError(f"a content hash is written as sha256:<hex>, not {content_hash!r:.80}")
    with display_progress(f"Opening of {where}"):
        return Pack(application_packs.open_pack(where, content_hash=content_hash))


@names_checked
def concat(packs: Sequence[Pack | str | Path]) -> Pack:
    """Return several packs as one, without a copy; fixtures keep their ids.

    The content hash follows from the hashes of the packs, whatever their order.

    Parameters
    ----------
    packs
        Packs, their ids, or the paths of their folders. A fixture in several of them must be equal in all.

    Raises
    ------
    ViewError
        There is no pack, rules for closes or probabilities differ, or two fixtures have one id.

    Examples
    --------
    >>> season = open_pack("season")
    >>> whole = concat([season.where(before="2026-01-10"), season.where(after="2026-02-10")])
    >>> whole.ticks().height == sum(whole.frame["rows"])
    True
    """
    from clvlab.packs.views.concatenation import concatenated

    opened = [pack if isinstance(pack, Pack) else open_pack(pack) for pack in several(packs)]
    return merge_holdouts(concatenated([pack.source for pack in opened]), opened)


@names_checked
def join_sources(packs: Sequence[Pack | str | Path], *, team_aliases: str | Path | None = None) -> Joined:
    """Return the first pack with the prices of the others as books. It keeps its own ticks, closes and ids.

    Fixtures are matched one to one by teams, kickoff and prices. Ambiguous or contradictory matches are refused;
    ``.matching`` lists all. Agents with ``books=True`` see the books, each price from the first tick at or after its time.
    ``Window(close_source=...)`` takes the closes from one of the books.

    Parameters
    ----------
    packs
        At least two packs, their ids, or the paths of their folders: each becomes a book named after its provider.
    team_aliases
        A TOML file of further team names, ``teams = [["Wolves", "Wolverhampton Wanderers"]]``. The names in use become
        part of the join, which then no longer needs the file.

    Raises
    ------
    SourceError
        The file of names does not exist.
    ViewError
        There are fewer than two sources, or one has no fixture of the first.
    HeldOutError
        A plan holds out fixtures of a source.

    Examples
    --------
    >>> season = open_pack("season").where(before="2026-01-10")
    >>> joined = join_sources([season, season.where(markets="1X2")])
    >>> set(joined.matching["outcome"]), joined.source.books
    ({'taken'}, ('clvlab',))
    """
    from clvlab.packs.matching.names import read_aliases
    from clvlab.packs.views.join import join_of

    opened = [pack if isinstance(pack, Pack) else open_pack(pack) for pack in several(packs)]
    joined, matching = join_of([pack.source for pack in opened], aliases=read_aliases(team_aliases))
    return Joined(joined, joint_hold_out(opened), matching)


@names_checked
def lead_lag(
    joined: Pack,
    *,
    market: str | None = None,
    book: str | None = None,
    fixture_ids: Sequence[int] | None = None,
    max_lag_s: float = 60,
    step_s: float = 1,
    draws: int = 499,
    level: float = 0.95,
    seed: int = 0,
) -> LeadLagReport:
    """Compare two joined sources before the off: which one leads, and by how many seconds.

    Each source keeps its own update times. Two feeds of one price differ in staleness, rounding and clocks, so a lead counts
    only beyond that of one common path at the same times; see ``clvlab.statistics.lead_lag``. One side of one market counts
    in each fixture, the one whose rarer source has most updates, because other sides and markets repeat the same news.

    Parameters
    ----------
    joined
        A pack of ``join_sources``.
    market
        Key of a market of the first source, or its beginning; all markets by default.
    book
        The second source, by the name that it has as a book; needed where there are several.
    fixture_ids
        Fixture ids; all by default.
    max_lag_s, step_s
        Largest lag, and the step from lag to lag, in seconds; at most 600 steps.
    draws
        Number of draws of a common path.
    level
        Level of the band without a lead, over all lags.
    seed
        Seed of the draws.

    Raises
    ------
    StatisticsError
        The pack is not a join, has no such book or market, or no fixture has five updates of both sources; a setting is not
        valid; or updates times lags times draws are too many.
    HeldOutError
        A plan holds a fixture out.

    Examples
    --------
    >>> season = open_pack("season").where(before="2026-01-04")
    >>> found = lead_lag(join_sources([season, season.where(markets="1X2")]), market="1X2", draws=99)
    >>> found.leader is None, found.frame.height
    (True, 121)
    """
    from clvlab.report.lead_lag import LeadLagReport

    if not isinstance(joined, Pack):
        raise StatisticsError(f"lead_lag compares the sources of a join, not {value_text(joined)}: give join_sources([a, b])")
    chosen = fixture_ids_argument(fixture_ids)
    return LeadLagReport(joined.source, book, market, max_lag_s, step_s, draws, level, seed, chosen)


@names_checked
def open_run(path: str | Path) -> Run:
    """Read a stored run without verifying it; ``.verify()`` recomputes its proof.

    Parameters
    ----------
    path
        A run folder, as ``Run.save`` and ``clvlab backtest`` write it.

    Raises
    ------
    UnknownRunError
        The folder has no run.

    Examples
    --------
    >>> import tempfile
    >>> folder = backtest("starter", "baseline").run.save(tempfile.mkdtemp())
    >>> open_run(folder).verify().passed
    True
    """
    from clvlab.runs import run_folder
    from clvlab.runs.verdicts import keeper
    from clvlab.store.folder import run_files

    if not isinstance(path, str | Path):
        raise UnknownRunError(f"a run is opened by the path of its folder, not {value_text(path)}{_save_hint(path)}")
    if isinstance(path, str) and _RUN_ID.fullmatch(path) and not Path(path).exists():
        raise UnknownRunError(f"no folder {path!r} here: give the path of the run's folder, or ask the Lab that keeps it")
    run, receipts, view = run_folder.load(path), run_folder.receipts(path), run_folder.view(path)
    keep = keeper(Path(path), run_files(run, receipts, view))  # its digest is made for a verification
    return Run(run, receipts, run_folder.anchor(path), view, keep)


@names_checked
def import_odds(
    source: str | None,
    paths: str | Path | Sequence[str | Path] | Frame,
    out: str | Path,
    *,
    lenient: bool = True,
    **options: Any,
) -> Pack:
    """Import a provider's files or a frame as a pack, and open it; ``.quality`` reports on the import.

    Parameters
    ----------
    source
        ``betfair``, ``betfair-csv``, ``csv``, ``football-data``, ``kalshi``, ``oddsharvester``, ``oddsportal``, ``parquet``,
        ``pmxt``, ``polymarket``, ``the-odds-api``, ``trades`` or ``txline``; None detects it from the files.
    paths
        Files or folders; for ``csv``, ``parquet`` and ``football-data`` also a frame of Polars, pandas or another Arrow
        library, with a named index as a column. A frame has the hash of its CSV, see
        ``clvlab.sources.tables.files.frame_csv``.
    out
        Folder of the new pack, whose name becomes the pack id.
    lenient
        Whether to skip unreadable rows and files, and count them in ``.quality``; ``False`` stops at the first.
    **options
        ``margin``, ``min_books``, ``max_age_s``, ``max_overround``, ``weights``, ``odds_format``, ``time_zone``, ``books``,
        ``ladders``, ``closing``, ``mapping`` (a mapping or the path of a YAML file), ``max_close_age_s`` and ``progress``,
        each as for ``clvlab packs import``.

    Raises
    ------
    SourceError, OddsError
        The files can't be read.
    PackFormatError
        The folder already has a pack.
    ArgumentError
        An option is unknown.

    Examples
    --------
    >>> import tempfile, polars
    >>> folder = Path(tempfile.mkdtemp())
    >>> with open(folder / "odds.csv", "w") as file:
    ...     print("fixture,time,market,side,odds", file=file)
    ...     print("match,2026-03-01T12:00Z,WINNER||,home,2.1", file=file)
    ...     print("match,2026-03-01T12:00Z,WINNER||,away,1.8", file=file)
    >>> import_odds("csv", folder / "odds.csv", folder / "mine").ticks()["prob_bps"].to_list()
    [5403, 4597]
    >>> frame = polars.read_csv(folder / "odds.csv")
    >>> import_odds("csv", frame, folder / "of-a-frame").ticks()["prob_bps"].to_list()
    [5403, 4597]
    """
    from clvlab.sources.importer import import_from, import_options

    if not isinstance(out, str | Path):
        raise PackFormatError(f"out is the path of the new pack's folder, not {value_text(out)}")
    chosen = import_options(lenient=lenient, **options)
    with display_progress(f"Import of {Path(out).name}"):
        import_from(source, paths, Path(out), chosen)
        return open_pack(Path(out))


@names_checked
def imports(
    source: str,
    packs: Mapping[str | Path, str | Path | Sequence[str | Path]],
    *,
    lenient: bool = True,
    executor: Executor | None = None,
    **options: Any,
) -> tuple[Pack, ...]:
    """Import several packs with ``import_odds``, and open them; packs made before a failure stay.

    Parameters
    ----------
    source, lenient, **options
        As for ``import_odds``, without progress.
    packs
        Folders of the new packs, each with its files or folders.
    executor
        As for ``backtests``; its processes must see the same folders.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("may", "june"):
    ...     with open(folder / f"{name}.csv", "w") as file:
    ...         print("fixture,time,market,side,odds", file=file)
    ...         print("match,2026-03-01T12:00Z,WINNER||,home,2.1", file=file)
    ...         print("match,2026-03-01T12:00Z,WINNER||,away,1.8", file=file)
    >>> made = imports("csv", {folder / name: folder / f"{name}.csv" for name in ("may", "june")})
    >>> [pack.pack_id for pack in made]
    ['may', 'june']
    """
    from clvlab.lab.results.sweep import GridWork
    from clvlab.sources.importer import Import, import_all, import_options, paths_of

    if not isinstance(packs, Mapping):
        raise PackFormatError(f"packs names each pack's files by its folder, as {{'may': 'may.csv'}}, not {value_text(packs)}")
    chosen = import_options(lenient=lenient, **options)
    jobs = [Import(source, tuple(paths_of(paths)), Path(out), chosen) for out, paths in packs.items()]
    with display_progress(f"Import of {counted(len(jobs), 'pack')}"):
        found = each("importing packs", import_all(jobs, GridWork(executor).executor), len(jobs))
        return tuple(open_pack(folder) for folder in list(found))


@names_checked
def leaderboard(runs: Sequence[Result], by: str = "clv", *, level: float = 0.95) -> Leaderboard:
    """Rank backtests by mean CLV; the intervals have no effect on the ranks.

    Parameters
    ----------
    runs
        Backtests and competitions, over the same packs or not.
    by
        Measure by which rows are sorted: ``clv``, ``edge`` or ``price_ratio``. Ranks are always by CLV, as in the law.
    level
        Level of the intervals.

    Examples
    --------
    >>> leaderboard([backtest("starter", "baseline"), backtest("starter", "cumulative-drift")]).frame["agent_id"][0]
    'baseline'
    """
    from clvlab.report.comparison import Leaderboard

    if isinstance(runs, Result | str) or not isinstance(runs, Iterable):
        raise StatisticsError(f"a leaderboard is of a list of backtests, not {value_text(runs)}: write leaderboard([a, b])")
    results = list(runs)
    for result in results:
        if not isinstance(result, Result):
            raise StatisticsError(
                f"backtests and competitions can be ranked, not {value_text(result)}: give the result of backtest(...)"
            )
    return Leaderboard(tuple(one for result in results for one in result.parts), by, level)


@names_checked
def packs() -> Listing:
    """List the bundled packs; ``Lab().packs()`` lists imported packs too.

    Examples
    --------
    >>> packs().frame.select("pack_id", "fixtures").rows()
    [('season', 300), ('starter', 12)]
    """
    return HERE.packs()


@names_checked
def agents() -> AgentListing:
    """List the strategy templates with their parameters, defaults and bounds.

    Examples
    --------
    >>> agents().frame.filter(agent="baseline").select("parameter", "default").rows()
    [('markets', '[""]'), ('stake', '100'), ('warmup_ticks', '0'), ('min_prob_bps', '5000')]
    """
    from clvlab.lab.laboratory.lists import AgentListing

    return AgentListing()


def _not_a_pack_error(where: object) -> UnknownPackError:
    if isinstance(where, Pack):
        return UnknownPackError(f"{where.pack_id!r} is already open: use it directly")
    try:
        pack_argument(where)
    except UnknownPackError as error:
        return error
    return UnknownPackError(f"a pack is opened by its id, folder or URL, not {value_text(where)}")


def _save_hint(value: object) -> str:
    return ": write open_run(result.run.save('runs'))" if isinstance(value, Result | Run) else ""


_LOCAL_VERBS = Verbs(HERE)
backtest, backtests, compare = _LOCAL_VERBS.backtest, _LOCAL_VERBS.backtests, _LOCAL_VERBS.compare
sweep, walk_forward = _LOCAL_VERBS.sweep, _LOCAL_VERBS.walk_forward
grade_bets = _LOCAL_VERBS.grade_bets
