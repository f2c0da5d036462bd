"""``clvlab devfeed``: a provider on this machine, to listen to before a real one."""

from __future__ import annotations

import math
import sys
import time
from typing import Annotated

import typer

from clvlab.cli.printing import out, plain
from clvlab.feeds.devfeed.faults import read_plan
from clvlab.packs.opening import open_pack

_LINGER_S = 1.0


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
        out.print("A feed waits here for somebody to listen. In another terminal:\n")
        for name, value in {"": "txline", "URL": server.url, "JWT": TOKENS[0], "API_TOKEN": TOKENS[1]}.items():
            out.print(f"export CLVLAB_{f'TXLINE_{name}' if name else 'FEED'}={plain(value)}")
        out.print("\nCtrl-C ends it")
        sys.stdout.flush()
        try:
            while not server.is_done:
                time.sleep(0.1)
            time.sleep(_LINGER_S)  # for who reads the last one
        except KeyboardInterrupt:
            out.print("ended")
        else:
            out.print(f"ended: all {len(server.script.published):,} messages were sent")
