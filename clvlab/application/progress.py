"""How far a run is, as it is told between its stages."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol, TypedDict


class Stage(StrEnum):
    """What a run is at, in this order."""

    OPENING = "opening"  # the tape
    DECIDING = "deciding"  # the agents
    SEALING = "sealing"  # scores, gate, evidence
    KEEPING = "keeping"  # verified and stored


class Progress(TypedDict):
    """How far a run is: ``done`` of ``total`` parts of a stage."""

    stage: str
    done: int
    total: int


class Tell(Protocol):
    """Say how far a run is.

    Raises
    ------
    LeaseLostError
        The run was cancelled, or another worker has it: nothing more of it is wanted.
    """

    def __call__(self, stage: Stage, done: int = 0, total: int = 1) -> None: ...


def tell_nobody(stage: Stage, done: int = 0, total: int = 1) -> None:
    """Pass over how far a run is."""
