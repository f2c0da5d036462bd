"""``clvlab live``: agents that follow a fixture on paper, as its odds come in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.status import Status

from clvlab.agents.isolation.isolated import isolated
from clvlab.agents.registry import names_template
from clvlab.application import backtests
from clvlab.application.live.configured import feed_at
from clvlab.application.live.following import GRACE_S
from clvlab.application.live.paper import run_live
from clvlab.application.live.question import LiveQuestion
from clvlab.application.live.view import LiveView
from clvlab.application.log import operations
from clvlab.application.runs.in_folder import LOCAL, FolderRecord
from clvlab.application.runs.perform import PerformedRun
from clvlab.application.sheets.headline import headline_of
from clvlab.application.sheets.listing import DEFAULT_RUNS
from clvlab.cli.making import INTERRUPTED, end_of, ended_like_an_interrupt, now_ms, params_of
from clvlab.cli.options import (
    HORIZON_S,
    HorizonOption,
    JsonOption,
    MarketsOption,
    NetworkOption,
    OwnerOption,
    ReadsOption,
    goes_with,
    limit_words,
    option_words,
    window_of,
)
from clvlab.cli.printing import err, out, plain, print_json, show_leaderboard, show_next, show_report
from clvlab.words import counted, moment, odds, percent

_LIVE = "live"
_MOST = 20  # decisions that are printed at once


def live(
    agent: Annotated[list[str], typer.Argument(help="Name of a template, or file.py:name; several compete.", metavar="AGENT")],
    feed: Annotated[str | None, typer.Option(help="Name of the feed; that of CLVLAB_FEED by default.")] = None,
    fixture: Annotated[int | None, typer.Option(help="A fixture id; the next to kick off by default.")] = None,
    until: Annotated[
        str | None,
        typer.Option(help="When it is sealed at the latest: a time with its zone, or +SECONDS; when play begins by default."),
    ] = None,
    grace_s: Annotated[
        int,
        typer.Option(help="Seconds after the announced kickoff when it is sealed, if no message says that play began.", min=0),
    ] = GRACE_S,
    param: Annotated[
        list[str] | None, typer.Option(help="A parameter of the only agent as name=value; may be repeated.")
    ] = None,
    market: MarketsOption = None,
    horizon_s: HorizonOption = HORIZON_S,
    policy: Annotated[list[str] | None, typer.Option(help="A limit of the policy as name=value; may be repeated.")] = None,
    reads: ReadsOption = None,
    network: NetworkOption = False,
    log: Annotated[str | None, typer.Option(help="File or URL of a run log to commit in before the first message.")] = None,
    owner: OwnerOption = None,
    out_folder: Annotated[
        Path, typer.Option("--out", help="Where the sealed run is written; its capture lies in live/.")
    ] = DEFAULT_RUNS,
    as_json: JsonOption = False,
) -> None:
    """Follow a fixture live on paper, and seal the run when play begins; Ctrl-C leaves it, and the same command goes on."""
    goes_with("--log", log, owner=owner)
    goes_with("file.py:name, an agent of your own", not all(map(names_template, agent)), reads=reads, network=network)
    window = window_of(horizon_s, market)
    if param and len(agent) > 1:
        raise typer.BadParameter("--param goes with one agent")
    limited = [name if names_template(name) else isolated(name, reads=reads or [], network=network) for name in agent]
    agents = [backtests.resolve(own, params_of(param or []), window) for own in limited]
    asked = LiveQuestion(
        feed_at(feed),
        agents,
        fixture,
        window,
        backtests.envelope(params_of(policy or [])),
        end_of(until),
        grace_s,
    )
    with operations.open_log(log, create=True) if log else nullcontext() as opened, err.status("following") as status:
        shown = _Shown(status)
        try:
            with ended_like_an_interrupt():
                done = run_live(
                    asked, FolderRecord(out_folder, now_ms, opened, owner or LOCAL), out_folder / _LIVE, look=shown.look
                )
        except KeyboardInterrupt:
            left = "left as it is: the same command goes on with it"
            err.print(left if shown.begun else "interrupted before the run began: nothing is left of it")
            raise typer.Exit(INTERRUPTED) from None
    code = option_words("--agent", [name for name in agent if not names_template(name)])
    options = [*code, *limit_words(reads, network=network)] if code else []
    _show(done, out_folder / done.run_id, agent, options, as_json=as_json)


class _Shown:
    """Prints what is new in a live run, line by line, and how far it is."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self.begun, self._decisions, self._gaps = False, 0, 0
        self._failures: set[str] = set()

    def look(self, view: LiveView) -> None:
        """Print what came since the last look."""
        if not self.begun:
            self.begun = True
            err.print(plain(_followed(view)))
        rows = view.decisions(self._decisions)
        self._decisions += rows.height
        if rows.height > _MOST:
            err.print(f"{counted(rows.height - _MOST, 'decision')}, and")
            rows = rows.tail(_MOST)
        for row in rows.iter_rows(named=True):
            err.print(plain(_decision(row)))
        for gap in view.gaps[self._gaps :]:
            filled = ", sent again" if gap.replayed else ""
            err.print(plain(f"gap of {(gap.to_ts_ms - gap.from_ts_ms) / 1000:,.1f} s: {gap.cause}{filled}"))
        self._gaps = len(view.gaps)
        for agent_id in view.failures.keys() - self._failures:
            self._failures.add(agent_id)
            others = ", and the others go on" if len(view.failures) < len(view.plan.agents) else ""
            err.print(plain(f"{agent_id} failed{others}: {(view.failures[agent_id].splitlines() or [''])[0]}"))
        self._status.update(plain(view.line))


def _followed(view: LiveView) -> str:
    plan = view.plan
    ends = "; only play, or --until, ends it" if plan.fixture.kickoff_ts_ms is None and plan.until_ts_ms is None else ""
    return f"{plan.run_id} follows fixture {view.fixture} on {plan.feed.name}, kickoff {view.facts['kickoff']}{ends}"


def _decision(row: dict[str, Any]) -> str:
    where = f"{moment(row['ts_ms'])} {row['agent_id']}:"
    if row["market_key"] is None:
        return f"{where} {row['action']}, pending"
    price = "unpriced" if row["prob_bps"] is None else f"at {percent(row['prob_bps'])}"
    quote = "" if row["odds_milli"] is None else f", odds {odds(row['odds_milli'])}"
    return f"{where} {row['action']} {row['side']} of {row['market_key']} {price}{quote}, pending"


def _show(done: PerformedRun, folder: Path, names: Sequence[str], options: Sequence[object], *, as_json: bool) -> None:
    several = len(names) > 1
    report: dict[str, Any] = dict(done.report)
    if several:
        report["agent"] = {"agent_id": f"{len(names)} agents"}
    if as_json:
        report = {key: value for key, value in report.items() if not (several and key == "agent")}
        print_json(report | {"run_folder": str(folder), "pack_folder": str(done.pack.folder)})
        return
    if several:
        show_leaderboard([done])
    show_report(report, None if several else headline_of(done))
    out.print(f"Sealed in {plain(str(folder))}")
    out.print(f"Captured in {plain(str(done.pack.folder))}")
    show_next("verify", folder, "--replay", "--pack", done.pack.folder, *options)
