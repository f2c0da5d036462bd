"""Regular comparison of the run log with a witness, which may know entries that a restored database lacks."""

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


def witnessed_notes(place: str) -> list[str]:
    """Read the signed checkpoints at a path or an http(s) URL: one note, or the state of a witness."""
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
    """Compares the log with a witness every ``every_s`` seconds, on its own thread, because a witness may be slow.

    ``published`` receives the checkpoints read at ``place``.
    """

    published: Publication
    place: str
    every_s: float = 60
    _thread: Thread | None = field(default=None, init=False)
    _stopping: Event = field(default_factory=Event, init=False)

    def start(self) -> None:
        """Read the witness once, then start to read it regularly; idempotent."""
        if self._thread is None:
            self.look()
            self._thread = Thread(target=self._watch, name="clvlab-witness", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread, without waiting for a witness that does not answer. Idempotent."""
        self._stopping.set()

    def look(self) -> None:
        """Read the witness; an unreachable one is no evidence against the log."""
        try:
            self.published.hear(witnessed_notes(self.place))
        except LogError as error:
            logger.warning("the witness was not heard: %s", error)

    def _watch(self) -> None:
        while not self._stopping.wait(self.every_s):
            self.look()
