"""``clvlab capture`` and ``clvlab devfeed``: listening to a provider, and a provider on this machine to try it with."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.constrain import Constrain
from rich.live import Live
from rich.table import Table
from rich.text import Text

from clvlab.cli.making import INTERRUPTED, end_of, ended_like_an_interrupt, now_ms
from clvlab.cli.options import FixturesOption
from clvlab.cli.printing import err, facts, out, plain, show_next, show_pack
from clvlab.errors import FeedError
from clvlab.feeds.devfeed.faults import Plan, read_plan
from clvlab.invocation import command
from clvlab.packs.opening import open_pack

if TYPE_CHECKING:
    from clvlab.application.live.watch import CaptureState
    from clvlab.feeds.devfeed.betfair import BetfairServer
    from clvlab.feeds.devfeed.txline import TxLineServer

_LINGER_S = 1.0
_LINE_S = 10.0
_PACK = "starter"


class DevFeed(StrEnum):
    """Providers that a development feed stands in for."""

    TXLINE = "txline"
    BETFAIR = "betfair"


def capture(
    feed: Annotated[str, typer.Argument(help="Name of the feed, as txline; its keys are variables CLVLAB_*.", metavar="FEED")],
    out_folder: Annotated[Path, typer.Option("--out", help="Folder of the new pack; its name becomes the pack id.")],
    fixture: FixturesOption = None,
    until: Annotated[str | None, typer.Option(help="When it ends: a time with its zone, or +SECONDS from now.")] = None,
    log: Annotated[str | None, typer.Option(help="File or URL of a run log to note each closed segment in.")] = None,
) -> None:
    """Write down what a feed sends, until Ctrl-C, and make a pack of it; the same command goes on after a kill."""
    from contextlib import nullcontext

    from clvlab.application.live.capture import capture as captured
    from clvlab.application.live.capture import segments_folder, stopped_by_signals
    from clvlab.application.live.configured import feed_at
    from clvlab.application.live.until import until_ts_ms
    from clvlab.application.log import operations
    from clvlab.feeds.feed import Stop

    ends_ms = until_ts_ms(end_of(until), now_ms())
    made, stop = feed_at(feed), Stop()
    where = plain(str(segments_folder(out_folder)))
    with (
        operations.open_log(log, create=True) if log else nullcontext() as opened,
        stopped_by_signals(stop),
        _shown(f"capturing {plain(made.name)} ({plain(made.provenance)}) into {where}; Ctrl-C ends it") as (show, last),
    ):
        try:
            pack = captured(made, out_folder, stop, fixture_ids=fixture or (), until_ts_ms=ends_ms, log=opened, tell=show)
        except KeyboardInterrupt:  # the second: the first ends the feed
            err.print(f"left as it is in {where}: the same command goes on with it, and --until +0 makes the pack at once")
            raise typer.Exit(INTERRUPTED) from None
    for state in last:
        facts("Captured", state.outcome)
    show_pack(pack)
    show_next("backtest", out_folder, "--agent", "baseline")


@contextmanager
def _shown(head: str) -> Iterator[tuple[Callable[[CaptureState], None], list[CaptureState]]]:
    """Show how a capture is, in a terminal as a table that changes, elsewhere a line now and then; and keep the last state."""
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
    """Return a row for each fact, no higher than it was: only errors are broken. The "^C" that is echoed has room behind it."""
    shown = Table(show_header=False, box=None)
    shown.add_column(no_wrap=True)
    for name, text in state.facts.items():
        cell = Text.from_markup("\n".join(map(plain, text.split("; "))), overflow="ellipsis")
        cell.no_wrap = name != "error"
        shown.add_row(f"[dim]{name}[/]", cell)
    return Constrain(shown, width - 4)


def devfeed(
    feed: Annotated[
        DevFeed,
        typer.Option(
            help="Whose protocol it speaks: TxLINE's with the ticks of a pack, Betfair's with matches that are made up."
        ),
    ] = DevFeed.TXLINE,
    pack: Annotated[str, typer.Option(help="Id or folder of the pack whose ticks are sent.")] = _PACK,
    fixture: FixturesOption = None,
    speed: Annotated[float, typer.Option(help="How much faster than it was; inf is as fast as can be.", min=0.001)] = 60.0,
    faults: Annotated[str, typer.Option(help="What goes wrong at which message: cut@100,stall@200:5.")] = "",
    port: Annotated[int, typer.Option(help="Port on loopback; 0 takes a free one.", min=0, max=65_535)] = 8898,
) -> None:
    """Send odds as a provider would, once somebody listens; Ctrl-C ends it, as does the last message."""
    with _served(lambda: _server(feed, pack, fixture or (), speed, read_plan(faults), port), port) as server:
        try:
            with ended_like_an_interrupt():
                out.print("A feed waits here for somebody to listen. In another terminal:\n")
                for name, value in server.variables.items():
                    out.print(f"export {name}={plain(shlex.quote(value))}")
                out.print(f"{plain(command('capture', feed, '--out', 'match'))}\n\nCtrl-C ends it")
                sys.stdout.flush()
                while not server.is_done:
                    time.sleep(0.1)
                time.sleep(_LINGER_S)  # for who reads the last one
        except KeyboardInterrupt:
            out.print("ended")
        else:
            out.print(f"ended: all {server.published_count:,} messages were sent")


def _server(
    feed: DevFeed, pack: str, fixture: Sequence[int], speed: float, plan: Plan, port: int
) -> BetfairServer | TxLineServer:
    if feed is DevFeed.TXLINE:
        from clvlab.feeds.devfeed.packs import txline_server

        return txline_server(open_pack(pack), fixture, speed=speed, plan=plan, port=port)
    from clvlab.feeds.devfeed.betfair import betfair_server

    if fixture or pack != _PACK:
        raise typer.BadParameter("betfair's markets are made up: --pack and --fixture go with txline")
    return betfair_server(speed=speed, plan=plan, port=port)


@contextmanager
def _served(make: Callable[[], BetfairServer | TxLineServer], port: int) -> Iterator[BetfairServer | TxLineServer]:
    """Have a server listen as long as the context lasts."""
    with ExitStack() as stack:
        try:
            server = make()
            stack.enter_context(server)
        except OSError as error:
            raise FeedError(f"127.0.0.1:{port} can't be listened on: {error.strerror}; --port 0 takes a free port") from error
        yield server
