"""``clvlab verify``: runs, bundles and disclosures, one or many at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from clvlab.agents.isolation.isolated import isolated
from clvlab.application.runs import bundles, in_folder
from clvlab.application.runs.card import proof_card, verification_answer
from clvlab.application.sheets.listing import DEFAULT_RUNS, find_run
from clvlab.application.versions import judge
from clvlab.cli import proof
from clvlab.cli.interrupting import interruptible
from clvlab.cli.options import JsonOption, NetworkOption, ReadsOption, RunNames, RunsFolderOption, goes_with
from clvlab.cli.printing import out, plain, print_json, say, show_checks
from clvlab.cli.progress import bar
from clvlab.proof.checks import Check
from clvlab.proof.verify import Verification

Further = Mapping[str, tuple[bool, str]]


def verify(
    run: RunNames,
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
    runs_folder: RunsFolderOption = DEFAULT_RUNS,
    as_json: JsonOption = False,
) -> None:
    """Recompute the proof of runs, bundles or disclosures; exit 1 if a seal is broken or a check fails."""
    required = [name for name in require.split(",") if name]
    goes_with("--replay", replay, agent=agent)
    goes_with("--agent", agent, reads=reads, network=network)
    goes_with("--require log", "log" in required, without_witness=without_witness)
    found = [find_run(name, runs_folder) for name in run]
    of_runs = {"second_opinion": second_opinion, "replay": replay, "pack": pack, "trust": trust}
    goes_with("runs and bundles, not disclosures", not any(map(bundles.is_disclosure, found)), **of_runs)
    agents = [isolated(one, reads=reads or [], network=network) for one in agent or []]

    def asked(path: Path) -> _Judged:
        if bundles.is_disclosure(path):
            return _Disclosed(bundles.judge_disclosure(path, required))
        verdict = (bundles.verify_bundle if path.is_file() else in_folder.verify_with_chain)(path, proof.anchor_settings())
        further = proof.further(path, second_opinion=second_opinion, replay=replay, pack=pack, agents=agents)
        if not (trust or required):
            return _Verified(verdict, further, {}, None)
        return _Verified(
            verdict, further, *bundles.judge_proofs(path, verdict, trust, required, without_witness=without_witness)
        )

    answers = _each(found, asked, as_json=as_json)
    if as_json:
        shown = [answer.facts() for answer in answers]
        print_json(shown[0] if len(shown) == 1 else shown)
    failed = [path for path, answer in zip(found, answers, strict=True) if not answer.passed]
    if len(found) > 1 and not as_json:
        say(f"{len(found) - len(failed):,} of {len(found):,} verified", "bold")
        for path in failed:
            say(f"failed: {path}", "red")
    raise typer.Exit(1 if failed else 0)


class _Disclosed:
    """What holds of a disclosure."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks

    @property
    def passed(self) -> bool:
        return not any(check.verdict == "fail" for check in self._checks.values())

    def facts(self) -> dict[str, Any]:
        return {"checks": _spelt(self._checks)}

    def show(self) -> None:
        for name, check in self._checks.items():
            say(f"{name}: {check.verdict.value}: {check.detail}")


class _Verified:
    """What holds of a run: its checks, opinions asked besides, and the proofs in its bundle."""

    def __init__(self, verdict: Verification, further: Further, proofs: Mapping[str, Check], in_log: Any) -> None:
        self._verdict, self._further, self._proofs, self._in_log = verdict, further, proofs, in_log

    @property
    def passed(self) -> bool:
        failed = any(check.verdict == "fail" for check in self._proofs.values())
        return self._verdict.passed and not failed and all(agrees for agrees, _ in self._further.values())

    def facts(self) -> dict[str, Any]:
        opinions = {name: {"agrees": agrees, "detail": why} for name, (agrees, why) in self._further.items()}
        answer = verification_answer(self._verdict, proof_card(self._verdict, self._in_log))
        proofs = {"proofs": _spelt(self._proofs)} if self._proofs else {}
        return {**answer, "judged_by": judge(), **opinions, **proofs}

    def show(self) -> None:
        show_checks(self._verdict, judge())
        for name, check in self._proofs.items():
            say(f"{name} in the bundle: {check.verdict.value.replace('_', ' ')}: {check.detail}")
        for name, (agrees, why) in self._further.items():
            out.print(f"{name.replace('_', ' ')}: {'[green]agrees[/]' if agrees else '[red]DISAGREES[/]'}: {plain(why)}")


_Judged = _Disclosed | _Verified


def _each(found: list[Path], asked: Callable[[Path], _Judged], *, as_json: bool) -> list[_Judged]:
    """Judge one after the other, and print each as soon as it is known."""
    answers: list[_Judged] = []
    with (
        interruptible(lambda: f"{len(answers):,} of {len(found):,} verified; nothing was written"),
        bar("verifying", len(found)) as tell,
    ):
        for path in found:
            answers.append(asked(path))
            tell(len(answers), len(found))
            if not as_json:
                answers[-1].show()
    return answers


def _spelt(checks: Mapping[str, Check]) -> dict[str, Any]:
    return {name: {"verdict": check.verdict.value, "detail": check.detail} for name, check in checks.items()}
