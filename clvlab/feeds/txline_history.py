"""What TxLINE answers beside its stream: odds in blocks of five minutes, which fill gaps, and fixtures."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from time import sleep
from typing import NamedTuple

import httpx2
import orjson

from clvlab.feeds.backoff import backoff_s
from clvlab.feeds.retrying import is_passing
from clvlab.law.schema import SAFE_INTEGER
from clvlab.packs.manifest import Fixture

BLOCK_MS = 300_000
MOST_BLOCKS = 288
_TRIES = 3
_SPACE = " \t\r\n"


class About(NamedTuple):
    """What a message says of itself; null where it does not."""

    message_id: str | None = None
    ts_ms: int | None = None
    fixture_id: int | None = None


def about(text: bytes) -> About:
    """Return what a message says of itself, whatever it is."""
    try:
        raw = orjson.loads(text)
    except orjson.JSONDecodeError:
        return About()
    if not isinstance(raw, dict):
        return About()
    message_id, ts_ms, fixture_id = raw.get("MessageId"), raw.get("Ts"), raw.get("FixtureId")
    return About(
        message_id if isinstance(message_id, str) else None,
        ts_ms if type(ts_ms) is int else None,
        fixture_id if type(fixture_id) is int else None,
    )


def elements(array: str) -> Iterator[str]:
    """Return the elements of a JSON array, each as it is written.

    Raises
    ------
    ValueError
        It is no array.

    Examples
    --------
    >>> list(elements('[{"a": 1.50} , 2]'))
    ['{"a": 1.50}', '2']
    """
    decoder, text = json.JSONDecoder(), array.strip(_SPACE)
    if not text.startswith("["):
        raise ValueError("no JSON array")
    at = _next(text, 1)
    while not text.startswith("]", at):
        try:
            _, end = decoder.raw_decode(text, at)
        except RecursionError as error:
            raise ValueError("a JSON array is nested too deep") from error
        yield text[at:end]
        at = _next(text, end)
        if text.startswith(",", at):
            at = _next(text, at + 1)
        elif not text.startswith("]", at):
            raise ValueError("a JSON array breaks off")


def fixture_of(text: str) -> Fixture:
    """Read a fixture, or a message of one."""
    raw = orjson.loads(text)
    names = tuple(raw[key] for key in ("Participant1", "Participant2") if isinstance(raw.get(key), str))
    kickoff = raw.get("StartTime")
    return Fixture(
        fixture_id=raw["FixtureId"],
        names=names if len(names) == 2 else (),
        kickoff_ts_ms=kickoff if type(kickoff) is int else None,
    )


def _next(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


@dataclass(frozen=True, slots=True)
class History:
    """The blocks of a provider.

    Attributes
    ----------
    client
        Asks with the headers that are needed.
    path
        Of a block, with ``{day}`` (of the epoch), ``{hour}`` and ``{block}`` (of the hour, from 0).
    """

    client: httpx2.Client
    path: str

    def texts(self, since_ms: int, until_ms: int) -> Generator[list[bytes] | None, None, None]:
        """Return the messages of one block after the other; null for one that did not answer, or lies too far back."""
        first, last = since_ms // BLOCK_MS, until_ms // BLOCK_MS
        if last - first >= MOST_BLOCKS:
            yield None
            first = last - MOST_BLOCKS + 1
        for number in range(first, last + 1):
            yield self._block(number)

    def _block(self, number: int) -> list[bytes] | None:
        path = self.path.format(day=number // 288, hour=number // 12 % 24, block=number % 12)
        for attempt in range(_TRIES):
            if attempt:
                sleep(backoff_s(attempt, first_s=0.2, most_s=2.0))
            try:
                response = self.client.get(path)
                if response.status_code == httpx2.codes.OK:
                    return [text.encode() for text in elements(response.content.decode())]
            except (httpx2.HTTPError, ValueError):  # it did not answer, which the caller says of the whole gap
                continue
            if not is_passing(response.status_code):
                break
        return None


# Where a listener of TxLINE's stream is: what is due after a cut, what was seen, and which time may be missing.


SLACK_MS = 60_000  # messages of one time do not come in the order of their times
_MOST_IDS = 500_000
_MOST_MARK = 200


def mark_of(event_id: str) -> str | None:
    """Return the id of an event if it can be sent back in a header; null else."""
    sound = 0 < len(event_id) <= _MOST_MARK and event_id.isascii() and event_id.isprintable() and " " not in event_id
    return event_id if sound else None


@dataclass
class Ids:
    """The ids that came last; older ones are forgotten."""

    _ids: dict[str, None] = field(default_factory=dict)

    def add(self, message_id: str | None) -> None:
        if message_id is not None:
            self._ids[message_id] = None
            if len(self._ids) > _MOST_IDS:
                del self._ids[next(iter(self._ids))]

    def take(self, message_id: str | None) -> bool:
        """Forget one; tell whether it was known."""
        known = message_id is not None and message_id in self._ids
        if known:
            del self._ids[message_id or ""]
        return known

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._ids

    def __bool__(self) -> bool:
        return bool(self._ids)


@dataclass
class HistoryPosition:
    """Where a feed is.

    Attributes
    ----------
    wanted
        Fixtures; all if empty.
    mark
        Of the last event that had one.
    owed
        Whether a ``Resumed`` is due.
    sound_ms
        When the last message came before which none is missing.
    is_vague
        Whether nobody knows when that was: the mark that a listener began with is after all times.
    doubtful_ms
        What that was before the stream was taken to go on at the mark, until a message shows that it does.
    behind_ms
        Until a message of this time comes, missed ones are still being sent.
    filled
        Ids of messages that a block had, which the stream may still send.
    """

    wanted: frozenset[int]
    mark: str | None
    owed: bool
    sound_ms: int = 0
    data_ms: int = 0
    begun: bool = False
    is_vague: bool = False
    behind_ms: int | None = None
    doubtful_ms: int | None = None
    seen: Ids = field(default_factory=Ids)
    filled: Ids = field(default_factory=Ids)

    @property
    def marked_ms(self) -> int | None:
        """The provider's time of the mark."""
        time = (self.mark or "").partition(":")[0]
        return int(time) if time.isdecimal() and len(time) <= len(str(SAFE_INTEGER)) and int(time) <= SAFE_INTEGER else None

    def begin(self, now_ms: int) -> None:
        if not self.begun:
            marked_ms = self.marked_ms if self.owed else None
            self.begun, self.sound_ms = True, now_ms if marked_ms is None else min(marked_ms, now_ms)
            self.is_vague = marked_ms is not None and marked_ms > now_ms + SLACK_MS
        self.data_ms = now_ms

    def resumed(self, now_ms: int, skew_ms: int, *, at_mark: bool) -> None:
        """Take note that messages come again: at the mark, as long as no ``reset`` says otherwise."""
        self.owed, self.behind_ms = False, now_ms + skew_ms
        self.doubtful_ms = self.sound_ms if at_mark else None

    def lost(self) -> None:
        """Take note of a ``reset`` after heartbeats: nothing of what was missed came."""
        self.sound_ms = self.sound_ms if self.doubtful_ms is None else self.doubtful_ms

    def caught_up(self, now_ms: int) -> None:
        self.behind_ms, self.sound_ms, self.is_vague = None, now_ms, False

    def missed(self, now_ms: int, skew_ms: int) -> tuple[int, int, bool]:
        """Return from when to when messages were missed by the provider's clock, and whether that is known.

        A single message that lies about its time must not make the missed time look shorter than it was: a mark counts where
        it is not later than what came last, and a clock that is behind only as far as messages are late.
        """
        late_ms = max(skew_ms, -SLACK_MS)
        until_ms = now_ms + late_ms
        marked_ms = self.marked_ms
        since_ms = self.sound_ms + skew_ms if marked_ms is None else min(marked_ms, self.sound_ms + late_ms)
        return since_ms - (SLACK_MS if self.seen else 0), max(since_ms, until_ms), not self.is_vague
