"""Development feeds that send the ticks of a pack."""

from __future__ import annotations

import time
from collections.abc import Sequence

from clvlab.feeds.devfeed.faults import Plan
from clvlab.feeds.devfeed.script import Scripted
from clvlab.feeds.devfeed.txline import TxLineServer, txline_message
from clvlab.feeds.replay import announced, messages_of
from clvlab.packs.reader import Pack


def txline_server(
    pack: Pack, fixture_ids: Sequence[int] = (), *, speed: float = 60.0, plan: Plan | None = None, port: int = 0
) -> TxLineServer:
    """Return a server that sends some or all fixtures of a pack, with times moved so that the first message is of now.

    Raises
    ------
    FeedError
        A fixture that the pack does not have.
    """
    messages = messages_of(pack, fixture_ids)
    first_ms = messages[0].ts_ms if messages else 0
    shift_ms = int(time.time() * 1000) - first_ms
    chosen = set(fixture_ids) or set(pack.fixture_ids)
    return TxLineServer(
        [
            Scripted(
                txline_message(message._replace(ts_ms=message.ts_ms + shift_ms), f"dev:{number:08}"),
                (message.ts_ms - first_ms) / 1000 / speed,
            )
            for number, message in enumerate(messages)
        ],
        plan,
        fixtures=[
            fixture.model_copy(update={"kickoff_ts_ms": fixture.kickoff_ts_ms and fixture.kickoff_ts_ms + shift_ms})
            for fixture_id, fixture in announced(pack).items()
            if fixture_id in chosen
        ],
        port=port,
    )
