"""The command line: parse, call, print."""

from __future__ import annotations

import errno
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clvlab.base.invocation import command
from clvlab.base.progress import each
from clvlab.cli import proof
from clvlab.cli.arena import arena_app, mcp
from clvlab.cli.bets import bets_app
from clvlab.cli.explain import explain
from clvlab.cli.groups import Program
from clvlab.cli.live import capture, devfeed, live
from clvlab.cli.log import log_app
from clvlab.cli.machine import agents_app, doctor, version
from clvlab.cli.options import (
    HORIZON_S,
    FixturesOption,
    HorizonOption,
    JsonOption,
    MarketsOption,
    NetworkOption,
    OwnerOption,
    PackArgument,
    ReadsOption,
    RunName,
    RunsFolderOption,
    RunsOption,
    goes_with,
    now_ms,
    params_of,
    window_of,
)
from clvlab.cli.output import (
    err,
    facts,
    out,
    plain,
    plain_lines,
    print_json,
    say,
    show_checks,
    show_leaderboard,
    show_next,
    show_report,
    show_table,
    table,
)
from clvlab.cli.packs import packs_app
from clvlab.cli.progress import display_progress, interruptible
from clvlab.cli.runs import compare, report, runs, share, verify
from clvlab.cli.search import sweep
from clvlab.cli.service import service_app
from clvlab.errors import ClvlabError, MissingLibraryError
from clvlab.report import run_list
from clvlab.words import REASONS, REFUSALS, amount, counted, moment, percent, side_of_market

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    from clvlab.api.runs import InspectorRecord
    from clvlab.runs.run import Run


app = typer.Typer(
    cls=Program,
    name="clvlab",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_REMEDIES = {
    errno.ENOSPC: "; make room on the disk, then repeat the command: no partial file was kept",
    errno.EDQUOT: "; make room in the quota, then repeat the command: no partial file was kept",
    errno.EFBIG: "; the disk or your limit (ulimit -f) is too small for the file: no partial file was kept",
    errno.EROFS: "; name a place that is writable",
    errno.EACCES: "; name a place that you can read and write",
    errno.ENOENT: "; name a place in a folder that exists",
    errno.EEXIST: "; existing files are kept: name another place, or move the file away",
    errno.EISDIR: "; a file belongs there: move the folder away",
    errno.ENOTDIR: "; a folder belongs there: move the file away, or name another place",
    errno.ENOLCK: "; its file system has no file locks: use a local disk",
    errno.ENOTSUP: "; its file system has no file locks: use a local disk",
}
"""What to do about an error of the operating system."""
_NUMBER = re.compile(r"^\[Errno \d+\] ")


def _help_has_boxes() -> bool:
    return sys.stdout.isatty()  # a pipe gets plain lines under the same headings


def main() -> None:
    """Run the command line; exit status 0 is success, 1 a failed verification, 2 bad input."""
    app.rich_markup_mode = "rich" if _help_has_boxes() else None
    try:
        app()
    except ClvlabError as error:
        err.print(f"[red]error:[/] {plain_lines(str(error))}")
        for note in getattr(error, "__notes__", ()):
            err.print(plain(note))
        if isinstance(error, MissingLibraryError):
            from clvlab.arena.installation import install_command

            err.print(plain(f"into this environment: {install_command(error.requirement)}"))
        sys.exit(error.exit_code)
    except OSError as error:
        text = f"{_NUMBER.sub('', str(error))}{_REMEDIES.get(error.errno or 0, '')}"
        err.print(f"[red]error:[/] {plain(text)}")
        sys.exit(ClvlabError.exit_code)
    except MemoryError:
        err.print("[red]error:[/] there is not enough memory for this")
        sys.exit(ClvlabError.exit_code)


def demo(runs_folder: RunsOption = run_list.DEFAULT_RUNS, as_json: JsonOption = False) -> None:
    """Backtest two agents over a synthetic pack, seal and verify both runs, and show the checks."""
    from clvlab.arena import packs
    from clvlab.report.headline import headline_of
    from clvlab.runs import run_folder
    from clvlab.runs.execute import execute
    from clvlab.runs.run_folder import FolderRecorder
    from clvlab.runs.spec import backtest_spec

    tests: list[Run] = []
    with interruptible(lambda: f"{len(tests)} of 2 runs sealed in {runs_folder}"):
        pack = packs.open_pack("season")
        if not as_json:
            say(f"Pack {pack.pack_id}: {counted(len(pack.fixture_ids), 'fixture')}, {pack.provenance} (no real odds)")
            out.print()
        for name in ("baseline", "cumulative-drift"):
            with display_progress(f"Backtest of {name}", as_json=as_json):
                tests.append(execute(backtest_spec(pack, name), FolderRecorder(runs_folder, now_ms)))
        with display_progress("Verification", as_json=as_json):
            folders = [runs_folder / test.run_id for test in tests]
            verdicts = [run_folder.verify_folder(folder) for folder in each("verifying runs", folders, len(folders))]
    if as_json:
        rows = zip(tests, folders, verdicts, strict=True)
        print_json(
            [
                {"run_folder": str(folder), "headline": headline_of(test).facts(), "verified": verdict.passed}
                for test, folder, verdict in rows
            ]
        )
        raise typer.Exit(0 if all(verdict.passed for verdict in verdicts) else 1)
    show_leaderboard(tests)
    for test in tests:
        show_report(test.report, headline_of(test))
    for verdict in verdicts:
        show_checks(verdict)
    elsewhere = run_list.runs_option(runs_folder)
    out.print("Try next:")
    for line in (
        command("verify", folders[1]),
        shlex.join(["sha256sum", str(folders[1] / "events.jsonl")]),
        command("show", folders[1], "--decisions", 5),
        command("backtest", "starter", "--agent", "cumulative-drift", "--param", "cooldown_s=3600", *elsewhere),
    ):
        out.print(f"  {plain(line)}")
    raise typer.Exit(0 if all(verdict.passed for verdict in verdicts) else 1)


def backtest(
    pack: PackArgument,
    agent: Annotated[str, typer.Option(help="Name of a template, or file.py:name.")] = "baseline",
    param: Annotated[
        list[str] | None, typer.Option(help="A parameter as name=value, the value as JSON; may be repeated.")
    ] = None,
    fixture: FixturesOption = None,
    market: MarketsOption = None,
    end_rule: Annotated[str, typer.Option(help="pre_match, fixed_duration or manual_stop.")] = "pre_match",
    duration_s: Annotated[int | None, typer.Option(help="Length of the window in seconds; only with fixed_duration.")] = None,
    horizon_s: HorizonOption = HORIZON_S,
    close: Annotated[str | None, typer.Option(help="Book whose last price is the close; the pack must keep its books.")] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="Override one limit of the policy, as name=value; may be repeated.")
    ] = None,
    audit: Annotated[bool, typer.Option(help="Audit your own agent for look-ahead before sealing.")] = True,
    stepped: Annotated[bool, typer.Option(help="Give your own agent the prices step by step, or in blocks.")] = False,
    reads: ReadsOption = None,
    network: NetworkOption = False,
    window_id: Annotated[str, typer.Option(help="Label of the window.")] = "full",
    log: Annotated[
        str | None, typer.Option(help="File or URL of a run log, for a commitment before the prices are read.")
    ] = None,
    owner: OwnerOption = None,
    runs_folder: RunsOption = run_list.DEFAULT_RUNS,
    as_json: JsonOption = False,
) -> None:
    """Replay a pack through an agent, score it against the close, and seal the run."""
    from clvlab.agents.isolation.agent import isolated
    from clvlab.arena import packs
    from clvlab.arena.log import operations
    from clvlab.report.headline import headline_of
    from clvlab.runs.execute import execute
    from clvlab.runs.run_folder import LOCAL, FolderRecorder
    from clvlab.runs.spec import backtest_spec, envelope

    goes_with("--log", log, owner=owner)
    window = window_of(horizon_s, market, window_id=window_id, end_rule=end_rule, duration_s=duration_s, close_source=close)
    planned: list[str] = []

    def left() -> str:
        folder = runs_folder / planned[0] if planned else None
        return (
            f"the run is sealed in {folder}"
            if folder and folder.exists()
            else "nothing was written; the same command begins again"
        )

    with (
        interruptible(left),
        operations.open_log(log, create=True) if log else nullcontext() as opened,
        display_progress(f"Backtest of {agent}", as_json=as_json),
    ):
        spec = backtest_spec(
            packs.open_pack(pack),
            isolated(agent, reads=reads or [], network=network, stepped=stepped) if reads or network or stepped else agent,
            params=params_of(param or []),
            fixture_ids=fixture,
            window=window,
            policy=envelope(params_of(policy or [])),
            audit=audit,
        )
        planned.append(spec.run_id)
        test = execute(spec, FolderRecorder(runs_folder, now_ms, opened, owner or LOCAL))
    folder = runs_folder / test.run_id
    if as_json:
        audits = {"audits": {agent_id: found.facts() for agent_id, found in test.audits.items()}}
        print_json(test.report | {"run_folder": str(folder), "headline": headline_of(test).facts()} | audits)
        return
    show_report(test.report, headline_of(test))
    for found in test.audits.values():
        say(f"{found!r}")
    out.print(f"Sealed in {plain(str(folder))}")
    show_next("verify", folder)


def show(
    run: RunName,
    decisions: Annotated[
        int, typer.Option(help="Number of decisions to show with their scores, from the first.", min=0, max=1_000_000)
    ] = 0,
    seq: Annotated[int | None, typer.Option(help="Number of one decision to show in full.")] = None,
    runs_folder: RunsFolderOption = run_list.DEFAULT_RUNS,
    as_json: JsonOption = False,
) -> None:
    """Show a run's proof card, its decisions, or one of them; exit 1 if its verification fails."""
    from clvlab.arena.runs import bundles
    from clvlab.runs import run_folder
    from clvlab.runs.card import proof_card
    from clvlab.runs.inspector import inspect_decision

    goes_with("the printed card, which --json and --seq do not show", seq is None and not as_json, decisions=decisions)
    with interruptible(), display_progress("Verification", as_json=as_json):
        path = run_list.find_run(run, runs_folder)
        one = None if seq is None else inspect_decision(bundles.read_stored(path)[0], seq)
        verdict = None if one else (bundles.verify_bundle if path.is_file() else run_folder.verify_folder)(path)
    if verdict is None:
        if as_json:
            print_json(one)
        elif one is not None:
            _show_decision(seq, one)
        return
    if as_json:
        print_json(proof_card(verdict))
        raise typer.Exit(0 if verdict.passed else 1)
    show_checks(verdict)
    if verdict.outcomes is not None:
        columns = verdict.outcomes.select(_OUTCOMES.keys())
        show_table(table(columns.rename(_OUTCOMES), "Outcomes"))
    if decisions and verdict.scores is not None:
        out.print(f"[bold]First {min(decisions, verdict.scores.height):,} of {counted(verdict.scores.height, 'decision')}[/]")
        for row in verdict.scores.head(decisions).iter_rows(named=True):
            say(_decision(row))
    raise typer.Exit(0 if verdict.passed else 1)


def _show_decision(seq: int | None, one: InspectorRecord) -> None:
    from clvlab.report.explorer.page import reasoning

    action, policy = one["agent_action"], one["policy"]
    bet = side_of_market(action["market_key"], action["side"])
    refused = [] if policy is None else [*policy["pre"]["reasons"], *policy["post"]["reasons"]]
    allowed = f"refused: {', '.join(REFUSALS.get(name, name) for name in refused)}" if refused else "allowed on paper"
    metadata = one["untrusted_llm_metadata"]
    claims = (
        ("edge in bps", metadata["claimed_edge_bps"]),
        ("confidence", metadata["confidence"]),
        ("reason", metadata["reason"]),
    )
    facts(
        f"Decision {seq} of {one['agent_id']}",
        {
            "time": f"{moment(one['ts_ms'])}, at price update {one['tick_seq']:,} of fixture {one['fixture_id']}",
            "action": "no bet" if policy is None else f"bet on {bet}, stake {action['stake']}",
            "score": reasoning(one),
            "policy": "no bet proposed" if policy is None else allowed,
            "claims, not scored": ", ".join(f"{name} {value}" for name, value in claims if value is not None) or "none",
        },
    )


_OUTCOMES = {
    "agent_id": "agent",
    "action_count": "scored",
    "valid_count": "valid",
    "mean_clv_bps": "mean CLV, bps",
    "total_clv_bps": "total CLV, bps",
}


def _decision(row: Mapping[str, Any]) -> str:
    where = f"{row['seq']:>6}  fixture {row['fixture_id']}, price update {row['tick_seq']}"
    proposed = side_of_market(row["market_key"], row["side"])
    if row["clv_bps"] is None:
        return f"{where}  {proposed}: {REASONS.get(row['reason'], row['reason'])}"
    entry, close = percent(row["entry_prob_bps"]), percent(row["close_prob_bps"])
    return f"{where}  {proposed}: {entry} -> {close}, CLV {amount(row['clv_bps'])}"


def _version(wanted: bool) -> None:
    if wanted:
        from clvlab.runs.versions import own_version

        out.print(f"clvlab {own_version()}")
        raise typer.Exit


@app.callback()
def clvlab(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Does a betting or trading agent beat the closing line? Backtests that anyone can check.

    New here? `demo` shows a result in seconds, and `explain` answers first questions. A first test takes three commands:
    backtest season --agent cumulative-drift, then verify latest, then report latest --html sheet.html.
    """


_PANELS: Mapping[str, Sequence[Callable[..., None] | tuple[typer.Typer, str]]] = {
    "Test an agent": (demo, backtest, (agents_app, "agents"), sweep, compare, live),
    "Read the result": (report, runs, show, explain),
    "Check and share": (verify, share, proof.bundle, proof.verifier, proof.disclose, proof.push),
    "Bring your own odds and bets": ((packs_app, "packs"), (bets_app, "bets"), capture),
    "Meet other agents": ((arena_app, "arena"), mcp),
    "Prove time and prices": (proof.anchor, proof.prove, (log_app, "log")),
    "Try without accounts": (devfeed, proof.devchain),
    "This installation": (doctor, version, (service_app, "service")),
}
"""The commands and groups, by task."""

for panel, parts in _PANELS.items():
    for part in parts:
        if isinstance(part, tuple):
            app.add_typer(part[0], name=part[1], rich_help_panel=panel)
        else:
            app.command(rich_help_panel=panel)(part)
