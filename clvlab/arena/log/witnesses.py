"""Asking a witness, now and then, what it saw last of the run log: it may know of more than a database that was restored."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from threading import Event, Thread

from clvlab.arena.log.sources import answer
from clvlab.base.files import file_bytes
from clvlab.errors import FileError, LogError
from clvlab.log.publication import Publication, notes_of

logger = logging.getLogger("clvlab.log")
_TIMEOUT_S = 5.0
_MAX_BYTES = 1 << 20


def witnessed(place: str) -> list[str]:
    """Read the signed checkpoints that lie at a place: a path or an http(s) URL of one note, or of the state of a witness.

    Raises
    ------
    LogError
    """
    try:
        if not place.startswith(("http://", "https://")):
            return notes_of(file_bytes(Path(place), _MAX_BYTES))
        status, body = answer(place, _TIMEOUT_S)
    except (FileError, OSError, HTTPException, ValueError) as error:
        raise LogError(f"no checkpoint can be read from {place!r}: {error}") from error
    if status != 200:
        raise LogError(f"{place} answers {status}, not 200")
    return notes_of(body)


@dataclass
class WitnessWatch:
    """Has the log compared with what a witness saw, in a thread of its own, because a witness may be slow.

    Attributes
    ----------
    published, place
        What is told, and where the witness is heard.
    every_s
        Seconds between two looks.
    """

    published: Publication
    place: str
    every_s: float = 60
    _thread: Thread | None = field(default=None, init=False)
    _stopping: Event = field(default_factory=Event, init=False)

    def start(self) -> None:
        """Look once, then start to look again and again; idempotent."""
        if self._thread is None:
            self.look()
            self._thread = Thread(target=self._watch, name="clvlab-witness", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread, unless it is waiting for a witness; idempotent."""
        self._stopping.set()

    def look(self) -> None:
        """Hear the witness; one that can't be heard says nothing against the log."""
        try:
            self.published.hear(witnessed(self.place))
        except LogError as error:
            logger.warning("the witness was not heard: %s", error)

    def _watch(self) -> None:
        while not self._stopping.wait(self.every_s):
            self.look()
