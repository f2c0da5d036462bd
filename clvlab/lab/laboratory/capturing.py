"""A feed that is captured here, as a laboratory is asked to."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from clvlab.lab.drawing.progress import shown_state
from clvlab.lab.laboratory.place import Capturing
from clvlab.lab.results.pack import Pack

if TYPE_CHECKING:
    from clvlab.feeds.feed import Feed


def capture_feed(feed: str | Feed, out: Path, capturing: Capturing) -> Pack:
    """Capture a feed, by its name or one that was made, into a pack; see ``Lab.capture``."""
    from clvlab.application.live.capture import capture, stopped_by_signals
    from clvlab.application.live.configured import feed_at
    from clvlab.application.log import operations
    from clvlab.feeds.feed import Stop

    made, stop = feed_at(feed), Stop()
    log = nullcontext() if capturing.log is None else operations.open_log(capturing.log, create=True)
    with (
        log as opened,
        stopped_by_signals(stop),
        shown_state(f"Capture of {made.name}", "made into a pack", progress=capturing.progress) as tell,
    ):
        return Pack(
            capture(
                made,
                out,
                stop,
                fixture_ids=capturing.fixtures,
                until_ts_ms=capturing.until_ts_ms,
                log=opened,
                tell=tell,
            )
        )
