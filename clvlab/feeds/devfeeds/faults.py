"""What a development feed does wrong, and when: so that a recorder can be tried before a provider tries it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock

from clvlab.errors import FeedError


class FeedFault(StrEnum):
    CUT = "cut"
    """The connection ends in the middle of a message."""
    DUPLICATE = "duplicate"
    """A message is sent twice."""
    SWAP = "out-of-order"
    """A message is sent after the one that follows it."""
    STALL = "stall"
    """Heartbeats go on, messages do not, for so many seconds or until the client leaves; then they come late."""
    HOLE = "sequence-hole"
    """A message is left out."""
    OLD_SNAPSHOT = "old-snapshot"
    """After a cut the first snapshot is older than the last delta."""
    SKEW = "skew"
    """The provider's clock is so many seconds ahead from here on."""
    UNAUTHORIZED = "401"
    """The next request, or the connection, is refused as one without a valid key."""
    TOO_MANY = "429"
    """The next requests are refused for so many seconds, with Retry-After."""
    BROKEN = "500"
    """The next request fails at the server."""
    MALFORMED = "malformed"
    """A message is cut off within its JSON."""
    NO_QUOTA = "no-quota"
    """Nothing is left of what was paid for, from here on."""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault at the message of this number, from 0, over all connections."""

    at: int
    fault: FeedFault
    seconds: float = 0.0


@dataclass
class FaultPlan:
    """The faults of a server, each of which happens once; several threads may ask."""

    faults: Iterable[PlannedFault] = ()
    _left: list[PlannedFault] = field(init=False)
    _guard: Lock = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        self._left = sorted(self.faults, key=lambda planned: planned.at)

    def due(self, number: int, *kinds: FeedFault) -> PlannedFault | None:
        """Take the next fault that is due at the message of this number: of these kinds, or of any."""
        with self._guard:
            for planned in self._left:
                if planned.at <= number and (not kinds or planned.fault in kinds):
                    self._left.remove(planned)
                    return planned
        return None


_PLANNED = re.compile(r"([a-z0-9-]+)@(\d+)(?::(\d+(?:\.\d+)?))?")


def read_plan(text: str) -> FaultPlan:
    """Read faults as they are written on a command line.

    Raises
    ------
    FeedError

    Examples
    --------
    >>> read_plan("cut@100,stall@200:5").due(150)
    PlannedFault(at=100, fault=<FeedFault.CUT: 'cut'>, seconds=0.0)
    """
    planned = []
    for part in filter(None, text.split(",")):
        found = _PLANNED.fullmatch(part.strip())
        if found is None or found[1] not in list(FeedFault):
            raise FeedError(
                f"{part!r} is no fault: it is KIND@MESSAGE or KIND@MESSAGE:SECONDS, with a kind of {', '.join(FeedFault)}"
            )
        planned.append(PlannedFault(int(found[2]), FeedFault(found[1]), float(found[3] or 0)))
    return FaultPlan(planned)
