"""The command line: parse, call, print."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from clvlab.agents.isolation.isolated import isolated
from clvlab.application import backtests, packs
from clvlab.application.log import operations
from clvlab.application.runs import bundles, in_folder
from clvlab.application.runs.card import proof_card, verification_answer
from clvlab.application.runs.in_folder import FolderRecord
from clvlab.application.runs.record import make
from clvlab.application.versions import judge
from clvlab.cli import proof
from clvlab.cli.agents import agents_app
from clvlab.cli.backing import backup
from clvlab.cli.feeds import capture, devfeed
from clvlab.cli.live import live
from clvlab.cli.log import log_app, witness
from clvlab.cli.making import now_ms, params_of, program
from clvlab.cli.options import JsonOption, NetworkOption, PackArgument, ReadsOption, RunArgument, RunsOption
from clvlab.cli.packs import packs_app
from clvlab.cli.printing import err, leaderboard, out, plain, plain_lines, print_json, show_checks, show_report, table
from clvlab.cli.serving import dev_token, rebuild_leaderboard, retention, serve, worker
from clvlab.cli.versions import version
from clvlab.errors import ClvlabError
from clvlab.law.closing import Window
from clvlab.proof.checks import Check

app = typer.Typer(
    name="clvlab",
    help="Does a betting or trading agent beat the closing line? Backtests that anyone can check.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

_BAD_INPUT = 2


def main() -> None:
    """Run the command line: exit 0 good, 1 verification failed, 2 bad input."""
    try:
        app()
    except ClvlabError as error:
        err.print(f"[red]error:[/] {plain_lines(str(error))}")
        for note in getattr(error, "__notes__", ()):
            err.print(plain(note))
        sys.exit(_BAD_INPUT)
    except OSError as error:
        err.print(f"[red]error:[/] {plain(str(error))}")
        sys.exit(_BAD_INPUT)
    except MemoryError:
        err.print("[red]error:[/] there is not enough memory for this")
        sys.exit(_BAD_INPUT)


def demo(runs_folder: RunsOption = Path("runs")) -> None:
    """Backtest two agents over a synthetic pack, seal and verify both runs, and show the checks."""
    pack = packs.open_pack("season")
    out.print(f"Pack [bold]{pack.pack_id}[/]: {len(pack.fixture_ids)} fixtures, {pack.provenance} (no real odds)\n")
    tests = []
    for name in ("baseline", "cumulative-drift"):
        with err.status(f"backtesting {name}"):
            tests.append(make(backtests.plan_backtest(pack, name), FolderRecord(runs_folder, now_ms)))
    out.print(leaderboard(tests))
    for test in tests:
        show_report(test.report)
    with err.status("verifying"):
        folders = [runs_folder / test.run_id for test in tests]
        verdicts = [in_folder.verify_folder(folder) for folder in folders]
    for verdict in verdicts:
        show_checks(verdict)
    out.print("Try next:")
    out.print(f"  {program()} verify {plain(str(folders[1]))}")
    out.print(f"  sha256sum {plain(str(folders[1] / 'events.jsonl'))}")
    out.print(f"  {program()} show {plain(str(folders[1]))} --decisions 5")
    out.print(f"  {program()} backtest starter --agent cumulative-drift --param cooldown_s=3600")
    raise typer.Exit(0 if all(verdict.passed for verdict in verdicts) else 1)


def backtest(
    pack: PackArgument,
    agent: Annotated[str, typer.Option(help="Name of a template, or file.py:name.")] = "baseline",
    param: Annotated[list[str] | None, typer.Option(help="A parameter as name=value, JSON; may be repeated.")] = None,
    fixture: Annotated[list[int] | None, typer.Option(help="A fixture id; may be repeated; all by default.")] = None,
    market: Annotated[list[str] | None, typer.Option(help="A market-key prefix; may be repeated; all by default.")] = None,
    end_rule: Annotated[str, typer.Option(help="pre_match, fixed_duration or manual_stop.")] = "pre_match",
    duration_s: Annotated[int | None, typer.Option(help="Seconds, with fixed_duration only.")] = None,
    horizon_s: Annotated[int, typer.Option(help="Decisions closer than this to the close stay pending.")] = 60,
    policy: Annotated[list[str] | None, typer.Option(help="A limit of the policy, likewise.")] = None,
    audit: Annotated[bool, typer.Option(help="Audit an agent of your own for look-ahead before sealing.")] = True,
    reads: ReadsOption = None,
    network: NetworkOption = False,
    window_id: Annotated[str, typer.Option(help="Label of the window.")] = "full",
    log: Annotated[str | None, typer.Option(help="File or URL of a run log to commit in before the tape is opened.")] = None,
    owner: Annotated[str, typer.Option(help="Who commits, with --log.")] = "local",
    runs_folder: RunsOption = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """Replay a pack through an agent, score it against the close, and seal the run."""
    window = Window(window_id, end_rule, duration_s, horizon_s, tuple(market or ("",)))
    with err.status("backtesting"), operations.open_log(log, create=True) if log else nullcontext() as opened:
        plan = backtests.plan_backtest(
            packs.open_pack(pack),
            isolated(agent, reads=reads or [], network=network) if reads or network else agent,
            params=params_of(param or []),
            fixture_ids=fixture,
            window=window,
            policy=backtests.envelope(params_of(policy or [])),
            audit=audit,
        )
        test = make(plan, FolderRecord(runs_folder, now_ms, opened, owner))
    folder = runs_folder / test.run_id
    if as_json:
        print_json(test.report | {"run_folder": str(folder)})
        return
    show_report(test.report)
    out.print(f"Sealed in {plain(str(folder))}")
    out.print(f"Next: {program()} verify {plain(str(folder))}")


def verify(
    run: RunArgument,
    second_opinion: Annotated[
        bool, typer.Option("--second-opinion", help="Also score by one SQL statement in another engine.")
    ] = False,
    replay: Annotated[bool, typer.Option("--replay", help="Also run it again from the pack and compare all bytes.")] = False,
    pack: Annotated[
        str | None,
        typer.Option(help="Derive all prices from this pack; --replay takes the catalog's by default."),
    ] = None,
    agent: Annotated[list[str] | None, typer.Option(help="An agent of the run as file.py:name; may be repeated.")] = None,
    reads: ReadsOption = None,
    network: NetworkOption = False,
    trust: Annotated[Path | None, typer.Option(help="File of keys that you trust, for the proofs in a bundle.")] = None,
    require: Annotated[str, typer.Option(help="Proofs without which the run fails: anchor, log, or anchor,log.")] = "",
    without_witness: Annotated[
        bool, typer.Option("--without-witness", help="Let a required log do without a trusted witness.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Recompute the proof of a run folder, a bundle or a disclosure; exit 1 if the seal is broken or a check fails."""
    required = [name for name in require.split(",") if name]
    if bundles.is_disclosure(run):
        raise typer.Exit(proof.show_disclosure(bundles.judge_disclosure(run, required), as_json=as_json))
    with err.status("verifying"):
        asked = bundles.verify_bundle if run.is_file() else in_folder.verify_with_chain
        verdict = asked(run, proof.anchor_settings())
    agents = [isolated(one, reads=reads or [], network=network) for one in agent or []]
    further = proof.further(run, second_opinion=second_opinion, replay=replay, pack=pack, agents=agents)
    proofs: dict[str, Check] = {}
    in_log = None
    if trust or required:
        proofs, in_log = bundles.judge_proofs(run, verdict, trust, required, without_witness=without_witness)
    if as_json:
        opinions = {name: {"agrees": agrees, "detail": why} for name, (agrees, why) in further.items()}
        judged = {name: {"verdict": check.verdict.value, "detail": check.detail} for name, check in proofs.items()}
        answer = verification_answer(verdict, proof_card(verdict, in_log))
        print_json({**answer, "judged_by": judge(), **opinions, **({"proofs": judged} if proofs else {})})
    else:
        show_checks(verdict, judge())
        for name, check in proofs.items():
            out.print(f"{name} in the bundle: {check.verdict.value.replace('_', ' ')}: {plain(check.detail)}")
        for name, (agrees, why) in further.items():
            out.print(f"{name.replace('_', ' ')}: {'[green]agrees[/]' if agrees else '[red]DISAGREES[/]'}: {plain(why)}")
    failed = [check for check in proofs.values() if check.verdict == "fail"]
    raise typer.Exit(0 if verdict.passed and not failed and all(agrees for agrees, _ in further.values()) else 1)


def show(
    run: RunArgument,
    decisions: Annotated[
        int, typer.Option(help="Show the first so many decisions with their scores.", min=0, max=1_000_000)
    ] = 0,
    seq: Annotated[int | None, typer.Option(help="Show one decision whole.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a run's proof card, its decisions, or one of them; exit 1 if its verification fails."""
    if seq is not None:
        print_json(in_folder.decision(run, seq))
        return
    verdict = in_folder.verify_folder(run)
    if as_json:
        print_json(proof_card(verdict))
        raise typer.Exit(0 if verdict.passed else 1)
    show_checks(verdict)
    if verdict.outcomes is not None:
        out.print(
            table(
                verdict.outcomes.select("agent_id", "action_count", "valid_count", "mean_clv_bps", "total_clv_bps"), "Outcomes"
            )
        )
    if decisions and verdict.scores is not None:
        out.print(f"[bold]First {min(decisions, verdict.scores.height):,} of {verdict.scores.height:,} decisions[/]")
        for row in verdict.scores.head(decisions).iter_rows(named=True):
            out.print(plain(_decision(row)))
    raise typer.Exit(0 if verdict.passed else 1)


def _decision(row: Mapping[str, Any]) -> str:
    where = f"{row['seq']:>6}  {row['fixture_id']} tick {row['tick_seq']}"
    proposed = f"{row['market_key'] or 'no market'} {row['side'] or ''}".strip()
    if row["clv_bps"] is None:
        return f"{where}  {proposed}: {row['reason']}"
    return f"{where}  {proposed}: {row['entry_prob_bps']} -> {row['close_prob_bps']} bps, CLV {row['clv_bps']:+}"


for panel, commands in {
    "Runs": (demo, backtest, live, verify, show),
    "Feeds": (capture, devfeed),
    "Proofs": (proof.anchor, proof.bundle, proof.push, proof.disclose, proof.verifier, proof.devchain, witness, version),
    "Service": (serve, worker, dev_token, backup, retention, rebuild_leaderboard),
}.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
for group, name in ((agents_app, "agents"), (packs_app, "packs"), (log_app, "log")):
    app.add_typer(group, name=name, rich_help_panel="Of several commands")
