"""Entries of competitions' logs as JSON texts, in pages: a full page never changes, and is written once for all who ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import TypeAdapter

from clvlab.answers.competitions import CompetitionEvent
from clvlab.application.competitions.event_log import EventLog
from clvlab.cache import BoundedCache

PAGE = 256
"""Entries of a page: page ``n`` of a log begins at ``seq`` ``n * PAGE``."""

_EVENT = TypeAdapter(CompetitionEvent)
_KEPT_BYTES = 32 << 20
_OVERHEAD_BYTES = 64  # of a text, beside its characters


class EventPages:
    """Pages of logs, the lately read ones kept; thread-safe, and every method blocks."""

    def __init__(self, log: EventLog, kept_bytes: int = _KEPT_BYTES) -> None:
        self._log = log
        self._kept: BoundedCache[Sequence[str]] = BoundedCache(kept_bytes, _size)

    def length(self, competition_id: str) -> int:
        """Count the entries of a log.

        Raises
        ------
        UnknownCompetitionError
        """
        return self._log.length(competition_id)

    def full(self, competition_id: str, number: int) -> Sequence[str]:
        """Return a page that the log fills.

        Raises
        ------
        UnknownCompetitionError
        """
        start = number * PAGE
        return self._kept.get((competition_id, number), lambda: self.part(competition_id, start, start + PAGE))

    def joined(self, competition_id: str, start: int, end: int, length: int) -> tuple[bytes, int | None]:
        """Return entries from ``start`` on, with commas between them, and where those after them begin; null if at ``end``.

        Parameters
        ----------
        competition_id, start, end
            Which entries are wanted.
        length
            Entries that the log has, at least: no page beyond them is full.

        Raises
        ------
        UnknownCompetitionError
        """
        number = start // PAGE
        first, following = number * PAGE, (number + 1) * PAGE
        if following <= length:
            found = self.full(competition_id, number)[start - first : end - first]
        else:
            found = self.part(competition_id, start, end)
        return ",".join(found).encode(), following if following < end else None

    def part(self, competition_id: str, start: int, end: int) -> Sequence[str]:
        """Return the entries from ``start`` to before ``end`` that there are.

        Raises
        ------
        UnknownCompetitionError
        """
        return _texts(self._log.part(competition_id, start, end))

    def end(self, competition_id: str, start: int) -> tuple[Sequence[str], int, bool]:
        """Return the entries from ``start`` to the end of its page, the length of the log, and whether nothing can follow.

        Raises
        ------
        UnknownCompetitionError
        """
        found = self._log.end(competition_id, start, start // PAGE * PAGE + PAGE)
        return _texts(found.entries), found.length, found.complete


def _texts(entries: Iterable[CompetitionEvent]) -> list[str]:
    return [_EVENT.dump_json(_EVENT.validate_python(entry)).decode() for entry in entries]


def _size(texts: Sequence[str]) -> int:
    return sum(len(text) + _OVERHEAD_BYTES for text in texts)
