"""Witnesses of the run log: they may know entries that a restored database lacks, and cosign checkpoints over HTTP.

References
----------
C2SP ``tlog-witness``, for ``add-checkpoint`` and its answers.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import HTTPException
from pathlib import Path
from threading import Event, Thread

from clvlab.arena.log.operations import signed_checkpoint, witness_request
from clvlab.arena.log.sources import HttpAnswer, answer
from clvlab.base.files import file_bytes
from clvlab.errors import FileError, LogError, StoreError
from clvlab.log.log import LogStore
from clvlab.log.note import Signer, checkpoint, keep_signatures, open_note, write_note
from clvlab.log.policy import Member, Policy
from clvlab.log.publication import Publication, notes_of

logger = logging.getLogger("clvlab.log")
_TIMEOUT_S = 5.0
_MAX_BYTES = 1 << 20
SIZE_TYPE = "text/x.tlog.size"
_SIZE = re.compile(r"(0|[1-9][0-9]{0,15})\n")
_TRIES = 4  # a witness that others ask too may have seen more by the second request


class WitnessOutcome(StrEnum):
    """What a witness did with a checkpoint: ``ahead`` saw more entries than it has, ``fork`` other ones."""

    COSIGNED = "cosigned"
    AHEAD = "ahead"
    FORK = "fork"
    REFUSED = "refused"
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class WitnessReply:
    """The reply of a witness about a checkpoint of ``size`` entries. ``line`` is its cosignature."""

    name: str
    size: int
    outcome: WitnessOutcome
    detail: str
    line: str = ""


@dataclass
class Cosigners:
    """Witnesses that are asked over HTTP to cosign checkpoints of one log; only those with a URL are asked.

    ``replies`` are the newest ones, in the order of the policy.
    """

    policy: Policy
    timeout_s: float = _TIMEOUT_S
    members: Sequence[Member] = field(init=False)
    replies: Sequence[WitnessReply] = field(default=(), init=False)
    _seen: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.members = [one for one in self.policy.witnesses.values() if one.url is not None]
        if not self.members:
            raise LogError("the policy names no witness with a URL")

    def cosigned(self, log: LogStore, note: str) -> str:
        """Return the checkpoint of a log with the cosignatures that its witnesses return now, all asked at once."""
        with ThreadPoolExecutor(min(len(self.members), 32)) as pool:
            self.replies = tuple(pool.map(lambda one: self._ask(log, note, one), self.members))
        return note + "".join(reply.line for reply in self.replies if reply.line not in note)

    def _ask(self, log: LogStore, note: str, member: Member) -> WitnessReply:
        size, name = checkpoint(open_note(note)[0]).size, member.key.name

        def reply(outcome: WitnessOutcome, detail: str, line: str = "") -> WitnessReply:
            return WitnessReply(name, size, outcome, detail, line)

        for _ in range(_TRIES):
            old = self._seen.get(name, 0)
            if old > size:
                return reply(WitnessOutcome.AHEAD, f"it has seen {old:,} entries, this checkpoint has {size:,}")
            try:
                sent = witness_request(log, note, old).encode()
                found = answer(f"{(member.url or '').rstrip('/')}/add-checkpoint", self.timeout_s, sent)
            except (OSError, HTTPException, ValueError) as error:
                return reply(WitnessOutcome.AWAY, f"no answer: {type(error).__name__} {error}")
            if found.status == 200:
                try:
                    line = _cosignature(note, found, member)
                except LogError as error:
                    return reply(WitnessOutcome.REFUSED, f"its answer is no cosignature by its key: {error}")
                self._seen[name] = size
                return reply(WitnessOutcome.COSIGNED, f"{size:,} entries", line)
            stated = _SIZE.fullmatch(found.body[:20].decode("ascii", "replace")) if found.kind == SIZE_TYPE else None
            if found.status != 409 or stated is None or int(stated[1]) == old:
                why = f"it answers {found.status}: {found.body[:200].decode('utf-8', 'replace').strip()!r}"
                return reply(WitnessOutcome.FORK if found.status in (409, 422) else WitnessOutcome.REFUSED, why)
            self._seen[name] = int(stated[1])
        return reply(WitnessOutcome.REFUSED, f"it named another size {_TRIES} times")


def _cosignature(note: str, found: HttpAnswer, member: Member) -> str:
    """Return the line by the key of a witness in its answer, whose other lines are passed over."""
    text, _ = open_note(note)
    answered = write_note(text, found.body.decode("utf-8", "replace"))
    if not open_note(answered, member.key)[1]:
        raise LogError(f"{member.key.name!r} did not sign")
    return keep_signatures(answered, member.key).rpartition("\n\n")[2]


def witnessed_notes(place: str) -> list[str]:
    """Read the signed checkpoints at a path or an http(s) URL: one note, or the state of a witness."""
    try:
        if not place.startswith(("http://", "https://")):
            return notes_of(file_bytes(Path(place), _MAX_BYTES))
        found = answer(place, _TIMEOUT_S)
    except (FileError, OSError, HTTPException, ValueError) as error:
        raise LogError(f"no checkpoint can be read from {place!r}: {error}") from error
    if found.status != 200:
        raise LogError(f"{place} answers {found.status}, not 200")
    return notes_of(found.body)


def cosigners_at(path: Path) -> Cosigners:
    """Read the witnesses of a policy; ``LogError`` if it can't be read, or names none with a URL."""
    try:
        content = file_bytes(path, _MAX_BYTES)
    except (FileError, OSError) as error:
        raise LogError(f"no policy can be read from {str(path)!r}: {error}") from error
    return Cosigners(Policy.read(content.decode("utf-8", "surrogateescape")))


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


@dataclass
class CosignerWatch:
    """Asks witnesses every ``every_s`` seconds, on its own thread, to cosign a new checkpoint of a log.

    ``published`` then publishes the newest cosigned one. A refusal is in the log of the process, and in ``replies``.
    """

    log: LogStore
    signer: Signer
    published: Publication
    cosigners: Cosigners
    every_s: float = 60
    _thread: Thread | None = field(default=None, init=False)
    _stopping: Event = field(default_factory=Event, init=False)

    def start(self) -> None:
        """Start to ask; idempotent."""
        if self._thread is None:
            self._thread = Thread(target=self._watch, name="clvlab-cosigners", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread, without waiting for a witness that does not answer. Idempotent."""
        self._stopping.set()

    def ask(self) -> None:
        """Ask once, unless all witnesses cosigned the present state already."""
        note = signed_checkpoint(self.log, self.signer, self.published)
        before = {reply.name: reply for reply in self.cosigners.replies}
        if self.published.is_cosigned(note) and all(one.outcome == WitnessOutcome.COSIGNED for one in before.values()):
            return
        self.published.cosigned = self.cosigners.cosigned(self.log, note)
        for reply in self.cosigners.replies:
            if reply.outcome != WitnessOutcome.COSIGNED:
                logger.warning("the witness %s did not cosign: %s: %s", reply.name, reply.outcome, reply.detail)
            elif reply.name in before and before[reply.name].outcome != WitnessOutcome.COSIGNED:
                logger.info("the witness %s cosigns again", reply.name)

    def _watch(self) -> None:
        while True:
            try:
                self.ask()
            except (LogError, StoreError) as error:
                logger.warning("no witness was asked to cosign: %s", error)
            if self._stopping.wait(self.every_s):
                return
