"""``clvlab runs``, ``compare``, ``report`` and ``verify``: list, compare, report and verify sealed runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clvlab.base.files import written_file
from clvlab.base.invocation import command
from clvlab.base.progress import each
from clvlab.cli import proof
from clvlab.cli.options import JsonOption, NetworkOption, ReadsOption, RunName, RunNames, RunsFolderOption, goes_with, now_ms
from clvlab.cli.output import err, fits, out, plain, print_json, say, show_checks, show_next, show_report, show_table
from clvlab.cli.progress import display_progress, interruptible
from clvlab.errors import EvidenceError, UnknownPackError, UnknownRunError
from clvlab.report import run_list
from clvlab.report.run_list import DEFAULT_RUNS, differences_from_first, find_run
from clvlab.words import counted, local_minute, tally

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    from rich.table import Table

    from clvlab.agents.isolation.agent import IsolatedAgent
    from clvlab.log.seats import TickViews
    from clvlab.packs.reader import Pack
    from clvlab.proof.checks import Check
    from clvlab.proof.verify import Verification

_ID_LENGTH = 8
_VERIFIED = {None: "not yet", True: "yes", False: "NO"}


def runs(
    runs_folder: RunsFolderOption = run_list.DEFAULT_RUNS,
    verify: Annotated[bool, typer.Option("--verify", help="Also verify each; exit 1 if one fails.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the runs in a folder, newest first, each mean CLV with its interval."""
    with interruptible(), display_progress("Runs", as_json=as_json):
        found = list(each("reading runs", run_list.listed_runs(runs_folder, verify=verify)))
    if as_json:
        print_json([run.facts() for run in found])
    elif not found:
        say(f"There is no run in {runs_folder} yet")
        show_next("backtest", "season", "--agent", "cumulative-drift", *run_list.runs_option(runs_folder))
    else:
        if fits(layout := _table(found)):
            show_table(layout)
        else:
            for run in found:
                _show_narrow(run)
        out.print(f"{counted(len(found), 'run')} in {plain(str(runs_folder))}")
        show_next("verify", "latest", *run_list.runs_option(runs_folder))
    raise typer.Exit(1 if any(run.verified is False for run in found) else 0)


def _show_narrow(run: run_list.ListedRun) -> None:
    """Show a run under each other where a table would break its words."""
    name, place = run.folder.name[: _ID_LENGTH + len("run_")], f" on {run.pack_id}" if run.pack_id else ""
    say(f"{name}  {local_minute(run.written)}{place}", "bold")
    for agent, one in zip(run.agents, run.headlines, strict=True):
        for text in (agent, f"  mean CLV {one.interval}", f"  edge at the price {one.price}"):
            say(text)
    say(f"  verified: {_verified(run, ' ')}" if run.fault is None else "  unreadable")


def _verified(run: run_list.ListedRun, apart: str) -> str:
    """Return the reader's record of a run: its word, and the local time of the verification."""
    if run.record is None:
        return _VERIFIED[run.verified]
    until = ", " if run.record.is_current and apart == " " else apart
    return f"{run.record.word}{until}{local_minute(run.record.when)}"


def _table(found: list[run_list.ListedRun]) -> Table:
    from rich import box
    from rich.table import Table

    layout = Table(box=box.SIMPLE_HEAD if out.is_terminal else None, pad_edge=False)
    means = "mean CLV, edge at the price [95 %]"
    for name in ("run", "written", "agent", "pack", means, "verified"):
        layout.add_column(name, overflow="fold", no_wrap=name == "run", min_width=26 if name == means else None)
    for run in found:
        spelt = [f"{one.interval}\n{one.price}" for one in run.headlines] or ["unreadable"]
        name = run.folder.name[: _ID_LENGTH + len("run_")]
        agents = "\n\n".join(run.agents)  # each has a line and a price
        when, verified = local_minute(run.written), _verified(run, "\n")
        cells = (name, when, agents, run.pack_id or "", "\n".join(spelt), verified)
        layout.add_row(*(plain_cell(cell) for cell in cells))
    return layout


def plain_cell(text: str) -> str:
    """Escape markup in the lines of a cell."""
    return "\n".join(plain(line) for line in text.split("\n"))


def compare(
    run: RunNames,
    runs_folder: RunsFolderOption = run_list.DEFAULT_RUNS,
    pack: Annotated[str | None, typer.Option(help="Pack to backtest over first; the names are then agents.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare agents of several runs over one pack with the first, paired by fixture."""
    from clvlab.arena import packs
    from clvlab.runs.execute import execute
    from clvlab.runs.run_folder import FolderRecorder
    from clvlab.runs.spec import backtest_spec

    if pack is not None:
        folders: list[Path] = []
        with interruptible(lambda: f"{len(folders)} of {counted(len(run), 'run')} sealed in {runs_folder}"):
            opened = packs.open_pack(pack)
            for name in run:
                with display_progress(f"Backtest of {name}", as_json=as_json):
                    spec = backtest_spec(opened, name)
                    folders.append(runs_folder / execute(spec, FolderRecorder(runs_folder, now_ms)).run_id)
    with interruptible(), display_progress("Comparison", as_json=as_json):
        if pack is None:
            folders = [_folder_of(name, runs_folder) for name in run]
        found = [run_list.listed_run(folder) for folder in each("reading runs", folders, len(folders))]
        differences = differences_from_first(found)
    if as_json:
        print_json({"runs": [one.facts() for one in found], "differences": [one.facts() for one in differences]})
        return
    for difference in differences:
        say(difference.verdict.sentence, "bold")
    out.print()
    show_table(_table(found))
    if len(differences) > 1:
        say(f"Each of the {len(differences)} differences is tested by itself: among many, some differ by chance.")


def _folder_of(name: str, runs_folder: Path) -> Path:
    try:
        return run_list.find_run(name, runs_folder)
    except UnknownRunError as error:
        from clvlab.agents.registry import TEMPLATES

        if name in TEMPLATES:
            error.add_note(f"{name} is an agent: name a pack with --pack to backtest agents first")
        raise


def report(
    run: RunName,
    page: Annotated[Path | None, typer.Option("--html", help="File for the tear sheet, as one HTML page.")] = None,
    pack: Annotated[
        str | None, typer.Option(help="Pack of the run; by default the one in the catalog with its content hash.")
    ] = None,
    stake: Annotated[
        float | None, typer.Option(help="Stake of each bet, to say what bets at the offered odds would have paid. Not a score.")
    ] = None,
    delay_s: Annotated[
        float | None, typer.Option(help="Seconds from decision to execution, 1 by default; with --stake.")
    ] = None,
    commission: Annotated[
        str | None, typer.Option(help="Rate on net winnings, or betfair, kalshi, polymarket; with --stake.")
    ] = None,
    agent_id: Annotated[str | None, typer.Option(help="Agent to report on, of a run of several.")] = None,
    runs_folder: RunsFolderOption = run_list.DEFAULT_RUNS,
    as_json: JsonOption = False,
) -> None:
    """Show the report of a sealed run again, or write its tear sheet as one HTML page."""
    from clvlab.arena.runs import bundles
    from clvlab.report.executable import DELAY_S, Executable
    from clvlab.report.export import writable
    from clvlab.report.headline import headline_of
    from clvlab.report.tearsheet import tear_sheet_page
    from clvlab.runs import run_folder
    from clvlab.runs.run import content_hash_of, reopen

    goes_with("--stake", stake is not None, delay_s=delay_s is not None, commission=commission)
    if page is not None:
        writable(page)  # before the work
    path = run_list.find_run(run, runs_folder)
    with interruptible(lambda: "no page was written"), display_progress("Report", as_json=as_json):
        sealed, receipts = bundles.read_stored(path)
        try:
            whole = reopen(_pack(pack, content_hash_of(sealed), run_folder.view(path)), sealed, receipts)
            performed = bundles.part_of(whole, agent_id, " with --agent-id")
            found, made = headline_of(performed), performed.report
            delay, rate = DELAY_S if delay_s is None else delay_s, "0" if commission is None else commission
            taken = None if stake is None else Executable(performed, stake, delay, rate)
        except EvidenceError as error:
            raise EvidenceError(
                f"{str(path)!r} can't be read: {error}; {command('verify', path)} says what is wrong"
            ) from error
        if page is not None:
            text = tear_sheet_page(performed, taken)
            with written_file(page) as file:
                file.write(text.encode())
    if as_json:
        further = {"executable": taken and taken.facts(), "page": page and str(page)}
        print_json({**made, "headline": found.facts()} | {name: one for name, one in further.items() if one is not None})
        return
    show_report(made, found)
    if taken is not None:
        say(f"Would it have paid? {taken.line}; not a score")
        say(tally(taken.counts))
    if page is not None:
        out.print(f"Wrote {plain(str(page))}; open it in a browser")


def share(
    run: RunName,
    out_file: Annotated[Path, typer.Option("--out", help="File to write, as card.png or card.svg.")] = Path("card.png"),
    page: Annotated[str | None, typer.Option(help="Address of the run's page at a service, for a QR code.")] = None,
    agent_id: Annotated[str | None, typer.Option(help="Agent to show of a run of several.")] = None,
    runs_folder: RunsFolderOption = DEFAULT_RUNS,
    as_json: JsonOption = False,
) -> None:
    """Write one picture of a sealed run to send: verdict, interval, curve, and limits."""
    from clvlab.arena.runs import bundles
    from clvlab.report.share import SharedPicture

    path = run_list.find_run(run, runs_folder)
    with interruptible(lambda: "no picture was written"), display_progress("Picture", as_json=as_json):
        picture = SharedPicture(bundles.read_stored(path)[0], page, agent_id)
        picture.write(out_file)
    if as_json:
        print_json({"run_id": picture.sealed.run_id, "picture": str(out_file), "alternative": picture.alternative})
    else:
        out.print(f"Wrote {plain(str(out_file))}. For others to check it, send a bundle too:")
        show_next("bundle", path, "--out", f"{picture.sealed.run_id}.clv")


def _pack(named: str | None, content_hash: str | None, view: bytes) -> Pack:
    from clvlab.arena import packs

    found = packs.pack_of_run(content_hash, named, view)
    if found is not None:
        return found
    raise UnknownPackError(f"the catalog has no pack of content hash {content_hash}: name the run's with --pack")


# ``clvlab verify``: one or more runs, bundles and disclosures.


Further = Mapping[str, tuple[bool, str]]


def verify(
    run: RunNames,
    second_opinion: Annotated[
        bool, typer.Option("--second-opinion", help="Also compute the scores by one SQL statement in another engine.")
    ] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="Also run the agents again over the pack, and compare all bytes.")
    ] = False,
    pack: Annotated[
        str | None,
        typer.Option(help="Pack to derive all prices from; by default --replay uses the one in the catalog."),
    ] = None,
    agent: Annotated[list[str] | None, typer.Option(help="An agent of the run as file.py:name; may be repeated.")] = None,
    reads: ReadsOption = None,
    network: NetworkOption = False,
    trust: Annotated[Path | None, typer.Option(help="File of keys that you trust, for the proofs in a bundle.")] = None,
    require: Annotated[
        str, typer.Option(help="Required proofs: anchor, log, seat, or several; a run without them fails.")
    ] = "",
    without_witness: Annotated[
        bool, typer.Option("--without-witness", help="Accept a required log without a trusted witness.")
    ] = False,
    policy: Annotated[
        Path | None, typer.Option(help="C2SP policy of logs and witnesses that you trust, for the proofs in a bundle.")
    ] = None,
    tsa_roots: Annotated[
        Path | None, typer.Option(help="PEM file of roots of time-stamp authorities that you trust, for stamps in a bundle.")
    ] = None,
    bitcoin_headers: Annotated[
        Path | None, typer.Option(help="Block headers for proofs of OpenTimestamps: a height and 160 hex digits on each line.")
    ] = None,
    provider_proofs: Annotated[
        Path | None, typer.Option(help="The provider's proofs of the prices of one run, as the command 'prove' writes them.")
    ] = None,
    runs_folder: RunsFolderOption = DEFAULT_RUNS,
    as_json: JsonOption = False,
) -> None:
    """Recompute the proof of runs, bundles or disclosures; exit 1 if a seal is broken or a check fails."""
    from clvlab.arena.runs import bundles
    from clvlab.runs import run_folder
    from clvlab.runs.verdicts import folder_digest, keep_verdict

    required = [name for name in require.split(",") if name]
    goes_with("--replay", replay, agent=agent)
    goes_with("--agent", agent, reads=reads, network=network)
    goes_with("--require log", {"log", "seat"} & set(required), without_witness=without_witness)
    found = [find_run(name, runs_folder) for name in run]
    of_runs = {"second_opinion": second_opinion, "replay": replay, "pack": pack, "trust": trust, "tsa_roots": tsa_roots}
    of_runs |= {"provider_proofs": provider_proofs, "policy": policy, "bitcoin_headers": bitcoin_headers}
    goes_with("runs and bundles, not disclosures", not any(map(bundles.is_disclosure, found)), **of_runs)
    agents: list[IsolatedAgent] = []
    if agent:
        from clvlab.agents.isolation.agent import isolated

        agents = [isolated(one, reads=reads or [], network=network) for one in agent]

    def judge(path: Path) -> _Judged:
        digest = folder_digest(path) if path.is_dir() else None
        done = verdict_on(path)
        if digest is not None and keep_verdict(path, digest, done.failed, passed=done.passed) is None:
            err.print(plain(f"note: this verdict is not kept: no record can be written next to {path}, or its files changed"))
        return done

    def verdict_on(path: Path) -> _Judged:
        if bundles.is_disclosure(path):
            return _DisclosureVerdict(bundles.judge_disclosure(path, required))
        verdict = (bundles.verify_bundle if path.is_file() else run_folder.verify_with_chain)(path, proof.anchor_settings())
        further = proof.further(path, second_opinion=second_opinion, replay=replay, pack=pack, agents=agents)
        prices = {} if provider_proofs is None else {"provider": _prices(path, verdict, provider_proofs)}
        parts = bundles.parts_of(path)
        if not (trust or policy or required or tsa_roots or bitcoin_headers or bundles.judged_without_keys(parts)):
            return _RunVerdict(verdict, further, prices, None)
        views = _views(path, verdict, pack) if "seat.json" in parts and (replay or pack is not None) else None
        judged = bundles.judge_proofs(
            path,
            verdict,
            trust,
            required,
            without_witness=without_witness,
            views=views,
            tsa_roots=tsa_roots,
            policy=policy,
            bitcoin_headers=bitcoin_headers,
        )
        return _RunVerdict(verdict, further, judged[0] | prices, judged[1])

    answers = _each(found, judge, as_json=as_json)
    if as_json:
        facts = [answer.facts() for answer in answers]
        print_json(facts[0] if len(facts) == 1 else facts)
    failed = [path for path, answer in zip(found, answers, strict=True) if not answer.passed]
    if len(found) > 1 and not as_json:
        say(f"{len(found) - len(failed):,} of {len(found):,} verified", "bold")
        for path in failed:
            say(f"failed: {path}", "red")
    raise typer.Exit(1 if failed else 0)


def _prices(path: Path, verdict: Verification, proofs: Path) -> Check:
    from clvlab.arena.runs.provider import judge_prices

    return judge_prices(path, verdict, proofs, proof.anchor_settings())


def _views(path: Path, verdict: Verification, pack: str | None) -> TickViews | None:
    """Return the ticks of a seat as its pack makes them, the catalog's pack by default."""
    from clvlab.arena.runs import bundles
    from clvlab.arena.seats.tape import SeatTape
    from clvlab.runs.run import content_hash_of

    if verdict.started is None:
        return None
    found = _pack(pack, content_hash_of(bundles.read_stored(path)[0]), b"")
    return SeatTape.of(found, verdict.started["binding"]["fixture_ids"]).views


class _DisclosureVerdict:
    """The verdict on a disclosure."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks

    @property
    def failed(self) -> list[str]:
        from clvlab.runs.verdicts import failed_checks

        return failed_checks(self._checks)

    @property
    def passed(self) -> bool:
        return not self.failed

    def facts(self) -> Mapping[str, object]:
        return {"checks": _spelt(self._checks)}

    def show(self) -> None:
        for name, check in self._checks.items():
            say(f"{name}: {check.verdict.value}: {check.detail}")


class _RunVerdict:
    """The verdict on a run: its checks, optional checks, and the proofs in its bundle."""

    def __init__(self, verdict: Verification, further: Further, proofs: Mapping[str, Check], in_log: Any) -> None:
        self._verdict, self._further, self._proofs, self._in_log = verdict, further, proofs, in_log

    @property
    def failed(self) -> list[str]:
        """Names of failed checks, the optional ones and those of proofs last."""
        from clvlab.runs.verdicts import failed_checks

        further = [name for name, (agrees, _) in self._further.items() if not agrees]
        return [*failed_checks(self._verdict.checks), *failed_checks(self._proofs), *further]

    @property
    def passed(self) -> bool:
        return self._verdict.passed and not self.failed

    def facts(self) -> Mapping[str, object]:
        from clvlab.runs.card import proof_card, verification_answer
        from clvlab.runs.versions import judge

        opinions = {name: {"agrees": agrees, "detail": why} for name, (agrees, why) in self._further.items()}
        answer = verification_answer(self._verdict, proof_card(self._verdict, self._in_log))
        proofs = {"proofs": _spelt(self._proofs)} if self._proofs else {}
        return {**answer, "judged_by": judge(), **opinions, **proofs}

    def show(self) -> None:
        from clvlab.runs.versions import judge

        show_checks(self._verdict, judge())
        for name, check in self._proofs.items():
            say(f"{name} in the bundle: {check.verdict.value.replace('_', ' ')}: {check.detail}")
        for name, (agrees, why) in self._further.items():
            out.print(f"{name.replace('_', ' ')}: {'[green]agrees[/]' if agrees else '[red]DISAGREES[/]'}: {plain(why)}")


_Judged = _DisclosureVerdict | _RunVerdict


def _each(found: list[Path], judge: Callable[[Path], _Judged], *, as_json: bool) -> list[_Judged]:
    """Judge the files one after the other, and print each verdict as soon as it is known."""
    answers: list[_Judged] = []
    with (
        interruptible(lambda: f"{len(answers):,} of {len(found):,} verified"),
        display_progress("Verification", as_json=as_json),
    ):
        # of one run, "0 of 1" says nothing
        for path in each("verifying runs", found, len(found)) if len(found) > 1 else each("recomputing the proof", found):
            answers.append(judge(path))
            if not as_json:
                answers[-1].show()
    return answers


def _spelt(checks: Mapping[str, Check]) -> dict[str, dict[str, str]]:
    return {name: {"verdict": check.verdict.value, "detail": check.detail} for name, check in checks.items()}
