"""Frames between this process and one that runs an agent: a kind, a length and so many bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, BinaryIO, Required, TypedDict

if TYPE_CHECKING:
    from clvlab.agents.template import Params

_HEAD = struct.Struct("<cQ")


class FrameKind(Enum):
    """Kind of a frame; ``ASK`` and ``STEP`` go to the agent's process, the others come back."""

    ASK = b"A"  # a pickled request
    STEP = b"S"  # one message of a tape, and back what was decided at it
    READY = b"R"  # JSON: whether the process is locked in
    OUT = b"O"  # text that was printed
    ERR = b"E"  # text that was printed to stderr
    IDENTITY = b"I"  # JSON
    DECISIONS = b"D"  # the buffers of their columns
    PROGRESS = b"P"  # two numbers: fixtures whose last message was seen, and all
    FAILURE = b"F"  # JSON: kind, message and traceback


class ProcessSetup(TypedDict):
    """What a process is told before it is locked in: whether its tapes grow, and what it may use."""

    grows: bool
    folder: str
    memory_mb: int
    network: bool
    reads: Sequence[str]


class AgentSetup(TypedDict):
    """Configuration in a request: parameters that differ, name, and the config that a run of the agent sealed."""

    params: Params
    agent_id: str | None
    sealed: Params | None


class Request(TypedDict, total=False):
    """Content of an ``ASK``: code to load first, and one of ``steps``, ``messages`` with ``fixtures``, and ``tape``.

    With ``progress`` the process says now and then how far it is.
    """

    configured: Required[AgentSetup]
    code: bytes
    file: tuple[str, str] | None
    steps: bool
    messages: Sequence[tuple[Any, ...]]
    fixtures: Sequence[tuple[int, int | None]]
    tape: str | None
    progress: bool


_STEP = FrameKind.STEP.value
NO_STEP = _HEAD.pack(_STEP, 0)
"""A step that holds nothing, as most answers do."""


PROGRESS = struct.Struct("<QQ")


class FrameError(Exception):
    """The bytes are not a frame."""


def write_frame(stream: BinaryIO, kind: FrameKind, data: bytes) -> None:
    stream.write(_HEAD.pack(kind.value, len(data)))
    stream.write(data)
    stream.flush()


def write_step(stream: BinaryIO, data: bytes) -> None:
    """Write a ``STEP``, in half the time of any other frame."""
    stream.write(_HEAD.pack(_STEP, len(data)) + data if data else NO_STEP)
    stream.flush()


def read_step(stream: BinaryIO) -> bytes:
    """Read a ``STEP`` from a trusted sender; empty at the end of the stream."""
    head: bytes = stream.read(_HEAD.size)
    return stream.read(_HEAD.unpack(head)[1]) if len(head) == _HEAD.size else b""


def read_head(stream: BinaryIO) -> bytes:
    """Read the head of a frame; for an empty step it is ``NO_STEP``, the whole frame."""
    return _exactly(stream, _HEAD.size)


def read_frame(stream: BinaryIO, limits: Mapping[FrameKind, int], head: bytes | None = None) -> tuple[FrameKind, bytes]:
    """Read a frame of one of ``limits``' kinds and sizes, whose ``head`` may have been read before; else ``FrameError``."""
    kind, length = _HEAD.unpack(head or read_head(stream))
    known = next((known for known in limits if known.value == kind), None)
    if known is None:
        raise FrameError(f"a frame of kind {kind!r} and {length:,} bytes")
    if length > limits[known]:
        raise FrameError(f"a frame of kind {kind!r} and {length:,} bytes, the limit is {limits[known]:,}")
    return known, _exactly(stream, length)


def _exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise EOFError
    return data
