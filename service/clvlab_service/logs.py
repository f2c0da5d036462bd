"""Structured logs: one JSON object a line, without any global set-up."""

from __future__ import annotations

import logging
import sys

import orjson
import structlog
from structlog.tracebacks import ExceptionDictTransformer


def logger(level: str) -> structlog.typing.FilteringBoundLogger:
    """Build a logger to standard error; what is bound to the context, such as the request id, is on every line."""
    bound: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.BytesLogger(sys.stderr.buffer),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),  # locals hold tokens
            structlog.processors.JSONRenderer(serializer=lambda entry, **_: orjson.dumps(entry, default=str)),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
    )
    return bound


class Forward(logging.Handler):
    """Sends what the library logs through the standard library to the service's log."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info)


_UVICORN = ("uvicorn", "uvicorn.access", "asyncio")


def forward_uvicorn(log: structlog.typing.FilteringBoundLogger | None) -> None:
    """Have the lines of uvicorn and of its event loop be lines of the service's log, or without one go nowhere."""
    for name in _UVICORN:
        theirs = logging.getLogger(name)
        theirs.handlers = [logging.NullHandler() if log is None else Forward(log)]
        theirs.propagate = False
