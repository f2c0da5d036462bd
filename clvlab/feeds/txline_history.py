"""What TxLINE answers beside its stream: odds in blocks of five minutes, which fill gaps, and fixtures."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from time import sleep
from typing import NamedTuple

import httpx2
import orjson

from clvlab.feeds.answers import is_passing
from clvlab.feeds.backoff import Backoff
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
        backoff = Backoff(0.2, 2.0)
        for attempt in range(_TRIES):
            if attempt:
                sleep(backoff.wait_s())
            try:
                response = self.client.get(path)
                if response.status_code == httpx2.codes.OK:
                    return [text.encode() for text in elements(response.content.decode())]
            except (httpx2.HTTPError, ValueError):  # it did not answer, which the caller says of the whole gap
                continue
            if not is_passing(response.status_code):
                break
        return None
