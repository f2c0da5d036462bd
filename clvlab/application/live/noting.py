"""The log hears of each segment of a capture when it is closed, before the next begins."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from clvlab.errors import StoreBusyError, StoreUnreachableError
from clvlab.runlog.log import LogStore
from clvlab.runlog.segments import note_segment

logger = logging.getLogger("clvlab.live")
_PATIENCE_S = 60.0
_PAUSE_S = 0.5


@dataclass(frozen=True)
class Noting:
    """Notes segments in a log; one that is busy is waited for."""

    log: LogStore
    clock: Callable[[], int]

    def __call__(self, capture_id: str, number: int, sha256: str) -> None:
        """Note a segment.

        Raises
        ------
        StoreBusyError, StoreUnreachableError
            The log could not be written for a minute.
        LogConflictError
            It has another hash of the segment.
        """
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with self.log.write() as rows:
                    return note_segment(rows, capture_id, number, sha256, self.clock())
            except (StoreBusyError, StoreUnreachableError) as error:
                if time.monotonic() > until:
                    raise
                logger.warning("segment %d of %s is noted later: %s", number, capture_id, error)
                time.sleep(_PAUSE_S)
