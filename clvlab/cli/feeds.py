"""``clvlab capture`` and ``clvlab devfeed``: listening to a provider, and a provider on this machine to try it with."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.table import Table

from clvlab.cli.making import end_of, now_ms
from clvlab.cli.printing import err, facts, out, plain, show_pack
from clvlab.feeds.devfeed.faults import read_plan
from clvlab.packs.opening import open_pack

if TYPE_CHECKING:
    from clvlab.application.live.watch import CaptureState

_LINGER_S = 1.0
_LINE_S = 10.0


def capture(
    feed: Annotated[str, typer.Argument(help="Name of the feed, as txline; its keys are variables CLVLAB_*.", metavar="FEED")],
    out_folder: Annotated[Path, typer.Option("--out", help="Folder of the new pack; its name becomes the pack id.")],
    fixture: Annotated[list[int] | None, typer.Option(help="A fixture id; may be repeated; all by default.")] = None,
    until: Annotated[str | None, typer.Option(help="When it ends: a time with its zone, or +SECONDS from now.")] = None,
    log: Annotated[str | None, typer.Option(help="File or URL of a run log to note each closed segment in.")] = None,
) -> None:
    """Write down what a feed sends, until Ctrl-C, and make a pack of it; the same command goes on after a kill."""
    from contextlib import nullcontext

    from clvlab.application.live.capture import capture as captured
    from clvlab.application.live.capture import segments_folder, stopped_by_signals
    from clvlab.application.live.until import until_ts_ms
    from clvlab.application.log import operations
    from clvlab.feeds.feed import Stop
    from clvlab.feeds.registry import feed_of
    from clvlab.feeds.settings import feed_settings

    ends_ms = until_ts_ms(end_of(until), now_ms())
    made, stop = feed_of(feed_settings(), feed), Stop()
    where = plain(str(segments_folder(out_folder)))
    with (
        operations.open_log(log, create=True) if log else nullcontext() as opened,
        stopped_by_signals(stop),
        _shown() as (show, last),
    ):
        err.print(f"capturing {plain(made.name)} ({plain(made.provenance)}) into {where}; Ctrl-C ends it")
        pack = captured(made, out_folder, stop, fixture_ids=fixture or (), until_ts_ms=ends_ms, log=opened, tell=show)
    for state in last:
        facts("Captured", state.outcome)
    show_pack(pack)
    out.print(f"Next: clvlab backtest {plain(str(out_folder))} --agent baseline")


@contextmanager
def _shown() -> Iterator[tuple[Callable[[CaptureState], None], list[CaptureState]]]:
    """Show how a capture is, in a terminal as a table that changes, elsewhere a line now and then; and keep the last state."""
    last: list[CaptureState] = []
    if err.is_terminal:
        with Live(console=err, transient=True, auto_refresh=False) as live:

            def draw(state: CaptureState) -> None:
                last[:] = [state]
                live.update(_table(state), refresh=True)

            yield draw, last
        return
    due = 0.0

    def say(state: CaptureState) -> None:
        nonlocal due
        last[:] = [state]
        if time.monotonic() >= due:
            due = time.monotonic() + _LINE_S
            err.print(plain(state.line))

    yield say, last


def _table(state: CaptureState) -> Table:
    shown = Table(show_header=False, box=None)
    for name, text in state.facts.items():
        shown.add_row(f"[dim]{name}[/]", plain(text))
    return shown


def devfeed(
    pack: Annotated[str, typer.Option(help="Id or folder of the pack whose ticks are sent.")] = "starter",
    fixture: Annotated[list[int] | None, typer.Option(help="A fixture id; may be repeated; all by default.")] = None,
    speed: Annotated[float, typer.Option(help="How much faster than it was; inf is as fast as can be.", min=0.001)] = 60.0,
    faults: Annotated[str, typer.Option(help="What goes wrong at which message: cut@100,stall@200:5.")] = "",
    port: Annotated[int, typer.Option(help="Port on loopback; 0 takes a free one.", min=0, max=65_535)] = 8898,
) -> None:
    """Send the ticks of a pack as TxLINE would, once somebody listens; Ctrl-C ends it, as does the last tick."""
    from clvlab.feeds.devfeed.packs import txline_server
    from clvlab.feeds.devfeed.txline import TOKENS

    pace = math.inf if math.isinf(speed) else speed
    with txline_server(open_pack(pack), fixture or (), speed=pace, plan=read_plan(faults), port=port) as server:
        try:
            out.print("A feed waits here for somebody to listen. In another terminal:\n")
            for name, value in {"": "txline", "URL": server.url, "JWT": TOKENS[0], "API_TOKEN": TOKENS[1]}.items():
                out.print(f"export CLVLAB_{f'TXLINE_{name}' if name else 'FEED'}={plain(value)}")
            out.print("\nCtrl-C ends it")
            sys.stdout.flush()
            while not server.is_done:
                time.sleep(0.1)
            time.sleep(_LINGER_S)  # for who reads the last one
        except KeyboardInterrupt:
            out.print("ended")
        else:
            out.print(f"ended: all {len(server.script.published):,} messages were sent")
