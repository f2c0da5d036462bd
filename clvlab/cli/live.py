"""``clvlab live``, ``capture`` and ``devfeed``: agents on a live fixture, captured feeds, and development feeds."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clvlab.base.files import replace_file
from clvlab.base.invocation import command
from clvlab.cli.options import (
    HORIZON_S,
    INTERRUPTED,
    FixturesOption,
    HorizonOption,
    JsonOption,
    MarketsOption,
    NetworkOption,
    OwnerOption,
    ReadsOption,
    end_of,
    ended_like_an_interrupt,
    goes_with,
    limit_words,
    now_ms,
    option_words,
    params_of,
    window_of,
)
from clvlab.cli.output import err, facts, out, plain, print_json, show_leaderboard, show_next, show_pack, show_report
from clvlab.errors import FeedError, SourceError
from clvlab.report.run_list import DEFAULT_RUNS
from clvlab.runs.live import GRACE_S
from clvlab.words import counted, moment, odds, percent, side_of_market

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    from rich.constrain import Constrain
    from rich.status import Status

    from clvlab.runs.live.view import LiveView
    from clvlab.runs.live.watch import CaptureState
    from clvlab.runs.run import Run
    from clvlab.sources.capture.feed import ProvingFeed
    from clvlab.sources.devfeeds.betfair import BetfairServer
    from clvlab.sources.devfeeds.faults import FaultPlan
    from clvlab.sources.devfeeds.txline import TxLineServer


# ``clvlab capture`` and ``clvlab devfeed``: a capture of a provider's feed, and a local feed to try it with.


_LINGER_S = 1.0
_LINE_S = 10.0
_PACK = "starter"


class DevFeed(StrEnum):
    """Providers with a development feed."""

    TXLINE = "txline"
    BETFAIR = "betfair"


def capture(
    feed: Annotated[str, typer.Argument(help="Name of the feed, as txline; its keys are variables CLVLAB_*.", metavar="FEED")],
    out_folder: Annotated[Path, typer.Option("--out", help="Folder of the new pack; its name becomes the pack id.")],
    fixture: FixturesOption = None,
    until: Annotated[str | None, typer.Option(help="End: a time with its zone, or +SECONDS from now.")] = None,
    log: Annotated[str | None, typer.Option(help="File or URL of a run log that gets the hash of each closed segment.")] = None,
    ladders: Annotated[
        bool, typer.Option("--ladders", help="betfair, kalshi, polymarket: keep the offers of each side, level by level.")
    ] = False,
) -> None:
    """Record a feed until Ctrl-C and make a pack of it; after a kill, the same command continues."""
    from contextlib import nullcontext

    from clvlab.arena.log import operations
    from clvlab.runs.live.capture import capture as captured
    from clvlab.runs.live.capture import segments_folder, stopped_by_signals
    from clvlab.runs.live.feed import feed_at
    from clvlab.runs.live.request import until_ts_ms
    from clvlab.sources.capture.feed import Stop

    ends_ms = until_ts_ms(end_of(until), now_ms())
    made, stop = feed_at(feed), Stop()
    where = plain(str(segments_folder(out_folder)))
    with (
        operations.open_log(log, create=True) if log else nullcontext() as opened,
        stopped_by_signals(stop),
        _capture_display(f"capturing {plain(made.name)} ({plain(made.provenance)}) into {where}; Ctrl-C ends it") as (
            show,
            last,
        ),
    ):
        try:
            pack = captured(
                made, out_folder, stop,
                fixture_ids=fixture or (), until_ts_ms=ends_ms, log=opened, ladders=ladders, on_state=show,
            )  # fmt: skip
        except KeyboardInterrupt:  # a second Ctrl-C; the first ends the feed
            err.print(f"left as it is in {where}: the same command continues it, and --until +0 makes the pack at once")
            raise typer.Exit(INTERRUPTED) from None
    for state in last:
        facts("Captured", state.outcome)
    show_pack(pack)
    show_next("backtest", out_folder, "--agent", "baseline")


@contextmanager
def _capture_display(head: str) -> Iterator[tuple[Callable[[CaptureState], None], list[CaptureState]]]:
    """Show the state of a capture: a live table in a terminal, occasional lines elsewhere. Keep the last state."""
    from rich.live import Live

    last: list[CaptureState] = []

    def keep(state: CaptureState) -> None:
        if not last:
            err.print(head)
        last[:] = [state]

    if err.is_terminal:
        with Live(console=err, transient=True, auto_refresh=False) as live:

            def draw(state: CaptureState) -> None:
                keep(state)
                live.update(_table(state, err.width), refresh=True)

            yield draw, last
        return
    due = 0.0

    def say(state: CaptureState) -> None:
        nonlocal due
        keep(state)
        if time.monotonic() >= due or state.is_over:
            due = time.monotonic() + _LINE_S
            err.print(plain(state.line))

    yield say, last


def _table(state: CaptureState, width: int) -> Constrain:
    """Return a table with a row for each fact. Only errors wrap, so the height is constant. An echoed "^C" has room."""
    from rich.constrain import Constrain
    from rich.table import Table
    from rich.text import Text

    layout = Table(show_header=False, box=None)
    layout.add_column(no_wrap=True)
    for name, text in state.facts.items():
        cell = Text.from_markup("\n".join(map(plain, text.split("; "))), overflow="ellipsis")
        cell.no_wrap = name != "error"
        layout.add_row(f"[dim]{name}[/]", cell)
    return Constrain(layout, width - 4)


def devfeed(
    feed: Annotated[
        DevFeed,
        typer.Option(help="Protocol: TxLINE's with the ticks of a pack, or Betfair's with synthetic matches."),
    ] = DevFeed.TXLINE,
    pack: Annotated[str, typer.Option(help="Id or folder of the pack whose ticks are sent.")] = _PACK,
    fixture: FixturesOption = None,
    speed: Annotated[float, typer.Option(help="Speed-up; inf is as fast as possible.", min=0.001)] = 60.0,
    faults: Annotated[str, typer.Option(help="Faults by message: cut@100,stall@200:5.")] = "",
    port: Annotated[int, typer.Option(help="Port on loopback; 0 takes a free one.", min=0, max=65_535)] = 8898,
) -> None:
    """Send odds as a provider does, once a client listens, until the last message or Ctrl-C."""
    from clvlab.sources.devfeeds.faults import read_plan

    with _served(lambda: _server(feed, pack, fixture or (), speed, read_plan(faults), port), port) as server:
        try:
            with ended_like_an_interrupt():
                out.print("The feed waits for a client. In another terminal:\n")
                for name, value in server.variables.items():
                    out.print(f"export {name}={plain(shlex.quote(value))}")
                out.print(f"{plain(command('capture', feed, '--out', 'match'))}\n\nCtrl-C ends it")
                sys.stdout.flush()
                while not server.is_done:
                    time.sleep(0.1)
                time.sleep(_LINGER_S)  # lets clients read the last message
        except KeyboardInterrupt:
            out.print("ended")
        else:
            out.print(f"ended: {counted(server.published_count, 'message')} sent, no more to come")


def _server(
    feed: DevFeed, pack: str, fixture: Sequence[int], speed: float, plan: FaultPlan, port: int
) -> BetfairServer | TxLineServer:
    from clvlab.packs.lookup import open_pack

    if feed is DevFeed.TXLINE:
        from clvlab.sources.devfeeds.txline import txline_server

        return txline_server(open_pack(pack), fixture, speed=speed, plan=plan, port=port)
    from clvlab.sources.devfeeds.betfair import betfair_server

    if fixture or pack != _PACK:
        raise typer.BadParameter("betfair's matches are synthetic: --pack and --fixture go with txline")
    return betfair_server(speed=speed, plan=plan, port=port)


@contextmanager
def _served(make: Callable[[], BetfairServer | TxLineServer], port: int) -> Iterator[BetfairServer | TxLineServer]:
    with ExitStack() as stack:
        try:
            server = make()
            stack.enter_context(server)
        except OSError as error:
            raise FeedError(f"127.0.0.1:{port} can't be listened on: {error.strerror}; --port 0 takes a free port") from error
        yield server


_LIVE = "live"
_MOST = 20  # maximal number of decisions printed at once


def live(
    agent: Annotated[list[str], typer.Argument(help="Name of a template, or file.py:name; several compete.", metavar="AGENT")],
    feed: Annotated[str | None, typer.Option(help="Name of the feed; that of CLVLAB_FEED by default.")] = None,
    fixture: Annotated[int | None, typer.Option(help="A fixture id; the next to kick off by default.")] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Latest time of the seal: a time with its zone, or +SECONDS; the start of play by default."),
    ] = None,
    grace_s: Annotated[
        int,
        typer.Option(help="Seconds after the announced kickoff until the seal, if no message says that play began.", min=0),
    ] = GRACE_S,
    param: Annotated[
        list[str] | None, typer.Option(help="A parameter of the only agent as name=value; may be repeated.")
    ] = None,
    market: MarketsOption = None,
    horizon_s: HorizonOption = HORIZON_S,
    policy: Annotated[
        list[str] | None, typer.Option(help="Override one limit of the policy, as name=value; may be repeated.")
    ] = None,
    reads: ReadsOption = None,
    network: NetworkOption = False,
    log: Annotated[
        str | None, typer.Option(help="File or URL of a run log, for a commitment before the first message.")
    ] = None,
    owner: OwnerOption = None,
    out_folder: Annotated[
        Path, typer.Option("--out", help="Folder for the sealed run; its capture is in live/ there.")
    ] = DEFAULT_RUNS,
    as_json: JsonOption = False,
) -> None:
    """Follow a fixture live on paper, and seal the run when play begins; after Ctrl-C, the same command continues."""
    from clvlab.agents.isolation.agent import isolated
    from clvlab.agents.registry import names_template
    from clvlab.arena.log import operations
    from clvlab.runs.live.feed import feed_at
    from clvlab.runs.live.paper import run_live
    from clvlab.runs.live.request import LiveRequest
    from clvlab.runs.run_folder import LOCAL, FolderRecorder
    from clvlab.runs.spec import envelope, resolve
    from clvlab.sources.capture.feed import proving

    goes_with("--log", log, owner=owner)
    goes_with("file.py:name, an agent of your own", not all(map(names_template, agent)), reads=reads, network=network)
    window = window_of(horizon_s, market)
    if param and len(agent) > 1:
        raise typer.BadParameter("--param goes with one agent")
    limited = [name if names_template(name) else isolated(name, reads=reads or [], network=network) for name in agent]
    agents = [resolve(own, params_of(param or []), window) for own in limited]
    limits = envelope(params_of(policy or []))
    made = feed_at(feed)
    request = LiveRequest(made, fixture, window, limits, end_of(until), grace_s)
    with operations.open_log(log, create=True) if log else nullcontext() as opened, err.status("following") as status:
        printer = _RunPrinter(status)
        try:
            with ended_like_an_interrupt():
                recorder = FolderRecorder(out_folder, now_ms, opened, owner or LOCAL)
                done = run_live(request, agents, recorder, out_folder / _LIVE, on_update=printer.look)
        except KeyboardInterrupt:
            left = "left as it is: the same command continues it"
            err.print(left if printer.has_started else "interrupted before the run began: nothing was written")
            raise typer.Exit(INTERRUPTED) from None
    if proving(made, "scored", "all"):
        _keep_proofs(done, out_folder / done.run_id, made)
    code = option_words("--agent", [name for name in agent if not names_template(name)])
    options = [*code, *limit_words(reads, network=network)] if code else []
    _show(done, out_folder / done.run_id, agent, options, as_json=as_json)


def _keep_proofs(done: Run, folder: Path, feed: ProvingFeed) -> None:
    """Keep the proofs of a sealed run's prices next to it; those that are not published yet are asked for later."""
    from clvlab.arena.runs.provider import PROOFS_FILE, prove

    try:
        lines, missing = prove(folder, done.pack, feed)
    except (FeedError, SourceError) as error:  # the run is sealed, whatever the provider proves
        err.print(plain(f"no price is proved: {error}"))
        return
    replace_file(folder / PROOFS_FILE, lines)
    if missing:
        later = command("prove", folder, "--pack", done.pack.folder)
        err.print(plain(f"{counted(missing, 'proof')} will be published in some minutes: {later}"))


class _RunPrinter:
    """Prints new events of a live run line by line, and its progress."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self.has_started, self._decisions, self._gaps = False, 0, 0
        self._failures: set[str] = set()

    def look(self, view: LiveView) -> None:
        """Print the events since the last call."""
        if not self.has_started:
            self.has_started = True
            err.print(plain(_followed(view)))
        rows = view.decisions(self._decisions)
        self._decisions += rows.height
        if rows.height > _MOST:
            err.print(f"{counted(rows.height - _MOST, 'decision')}, and")
            rows = rows.tail(_MOST)
        for row in rows.iter_rows(named=True):
            err.print(plain(_decision(row, view.spec.fixture.names)))
        for gap in view.gaps[self._gaps :]:
            filled = ", sent again" if gap.replayed else ""
            err.print(plain(f"gap of {(gap.to_ts_ms - gap.from_ts_ms) / 1000:,.1f} s: {gap.cause}{filled}"))
        self._gaps = len(view.gaps)
        for agent_id in view.failures.keys() - self._failures:
            self._failures.add(agent_id)
            others = ", and the others continue" if len(view.failures) < len(view.spec.agents) else ""
            err.print(plain(f"{agent_id} failed{others}: {(view.failures[agent_id].splitlines() or [''])[0]}"))
        self._status.update(plain(view.line))


def _followed(view: LiveView) -> str:
    spec = view.spec
    ends = "; only play, or --until, ends it" if spec.fixture.kickoff_ts_ms is None and spec.until_ts_ms is None else ""
    return f"{spec.run_id} follows fixture {view.fixture} on {spec.feed.name}, kickoff {view.facts['kickoff']}{ends}"


def _decision(row: Mapping[str, Any], names: Sequence[str]) -> str:
    where = f"{moment(row['ts_ms'])} {row['agent_id']}:"
    if row["market_key"] is None:
        return f"{where} {row['action']}, pending"
    price = "unpriced" if row["prob_bps"] is None else f"at {percent(row['prob_bps'])}"
    quote = "" if row["odds_milli"] is None else f", odds {odds(row['odds_milli'])}"
    return f"{where} {row['action']} {side_of_market(row['market_key'], row['side'], names)} {price}{quote}, pending"


def _show(done: Run, folder: Path, names: Sequence[str], options: Sequence[object], *, as_json: bool) -> None:
    from clvlab.report.headline import headline_of

    several = len(names) > 1
    if as_json:
        report = {key: value for key, value in done.report.items() if not (several and key == "agent")}
        print_json(report | {"run_folder": str(folder), "pack_folder": str(done.pack.folder)})
        return
    if several:
        show_leaderboard([done])
        show_report({**done.report, "agent": {"agent_id": f"{len(names)} agents"}}, None)
    else:
        show_report(done.report, headline_of(done))
    out.print(f"Sealed in {plain(str(folder))}")
    out.print(f"Captured in {plain(str(done.pack.folder))}")
    show_next("verify", folder, "--replay", "--pack", done.pack.folder, *options)
