"""Structured logs and Prometheus metrics of a process."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Mapping

import orjson
import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from structlog.tracebacks import ExceptionDictTransformer

from clvlab.arena.measures import Measures

# Structured logs: one JSON object a line, without any global set-up.


def logger(level: str) -> structlog.typing.FilteringBoundLogger:
    """Build a logger to standard error; every line has the values bound to the context, such as the request id."""
    bound: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.BytesLogger(sys.stderr.buffer),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),  # locals may hold tokens
            structlog.processors.JSONRenderer(serializer=lambda entry, **_: orjson.dumps(entry, default=str)),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
    ).bind()  # otherwise each line would bind it
    return bound


class LogForwarder(logging.Handler):
    """Forwards records of the library, which uses the standard ``logging``, to the service's log."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info)


_UVICORN = ("uvicorn", "uvicorn.access", "asyncio")


def forward_uvicorn(log: structlog.typing.FilteringBoundLogger | None) -> None:
    """Send the log lines of uvicorn and of its event loop to the service's log; without one they are dropped."""
    for name in _UVICORN:
        theirs = logging.getLogger(name)
        theirs.handlers = [logging.NullHandler() if log is None else LogForwarder(log)]
        theirs.propagate = False


_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class RequestMetrics:
    """Prometheus metrics of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.seconds = Histogram(
            "clvlab_http_request_seconds", "Time to answer.", labels, buckets=_BUCKETS, registry=self.registry
        )
        self.in_flight = Gauge("clvlab_http_requests_in_flight", "Requests being answered.", registry=self.registry)
        self.connections = Gauge("clvlab_connections_open", "Connections open.", registry=self.registry)
        self.crowded = Counter(
            "clvlab_connections_over_limit",
            "Connections that came beyond the limit of one `client`, or of `all`.",
            ("of",),
            registry=self.registry,
        )
        self.streams = Gauge("clvlab_streams_open", "WebSocket streams open.", registry=self.registry)
        self.pending = Gauge("clvlab_pool_pending", "Computations running or waiting.", ("pool",), registry=self.registry)
        self.jobs = Gauge("clvlab_jobs", "Background jobs by status.", ("status",), registry=self.registry)
        self.lanes = Gauge(
            "clvlab_job_lanes",
            "Jobs that this process performs at once: `jobs`, `anchors`, `live`.",
            ("of",),
            registry=self.registry,
        )
        self.queue_age = Gauge(
            "clvlab_queue_age_seconds",
            "How long the oldest job that nobody performs has waited.",
            ("kind",),
            registry=self.registry,
        )
        self.job_age = Gauge(
            "clvlab_job_age_seconds",
            "How old the oldest unfinished job is, however often it was tried.",
            ("kind",),
            registry=self.registry,
        )
        self.failed = Gauge("clvlab_jobs_failed", "Failed jobs by kind.", ("kind",), registry=self.registry)
        self.stored = Gauge("clvlab_stored_bytes", "Used space in the store.", ("of",), registry=self.registry)
        self.budget = Gauge("clvlab_budget_bytes", "Limits of used space, as set.", ("of",), registry=self.registry)
        self.free = Gauge("clvlab_disk_free_bytes", "Free space under each folder.", ("of",), registry=self.registry)
        self.log_behind = Gauge(
            "clvlab_log_behind",
            "Whether the run log lacks published entries, so that writes are refused.",
            registry=self.registry,
        )
        self.checkpoint_storable = Gauge(
            "clvlab_checkpoint_storable", "Whether the file of the newest checkpoint can be written.", registry=self.registry
        )
        self.backup_age = Gauge("clvlab_backup_age_seconds", "Age of the newest backup.", registry=self.registry)
        self.log_entries = Gauge("clvlab_log_entries", "Length of the run log.", registry=self.registry)
        self.feed = Gauge(
            "clvlab_feed",
            "The live feed: `runs` that follow it, whether they are `connected`, `data_age_seconds`, `quota_left`.",
            ("of",),
            registry=self.registry,
        )
        self.store_up = Gauge("clvlab_store_up", "Whether the store answered within a second.", registry=self.registry)
        self.refused = Counter("clvlab_pool_refused", "Computations refused.", ("pool",), registry=self.registry)
        self.problems = Counter("clvlab_problems", "Problems by cause.", ("cause", "method", "route"), registry=self.registry)

    def note_problem(self, cause: str, method: str, route: str) -> None:
        """Count a problem: the last part of its type, and the operation that it answers."""
        self.problems.labels(cause, method, route).inc()

    def take_lanes(self, lanes: Mapping[str, int]) -> None:
        """Set the numbers of jobs that this process performs at once."""
        for name, count in lanes.items():
            self.lanes.labels(name).set(count)

    def store(self, found: Measures | None) -> None:
        """Set the figures of the store; ``None`` if it did not answer."""
        self.store_up.set(found is not None)
        labelled = (self.jobs, self.failed, self.queue_age, self.job_age, self.stored, self.budget, self.free, self.feed)
        for gauge in labelled:
            gauge.clear()
        plain = (self.log_entries, self.log_behind, self.checkpoint_storable, self.backup_age)
        values: tuple[float | None, ...] = (None,) * len(plain)
        if found is not None:
            values = found.log_entries, found.log_is_behind, found.checkpoint_is_storable, found.backup_age_s
        for gauge, value in zip(plain, values, strict=True):
            gauge.set(math.nan if value is None else value)
        if found is not None:
            each: tuple[Mapping[str, float], ...] = (
                found.jobs,
                found.failed_jobs,
                found.queue_age_s,
                found.job_age_s,
                found.stored_bytes,
                found.budget_bytes,
                found.free_bytes,
                _of_feed(found),
            )
            for gauge, by_label in zip(labelled, each, strict=True):
                for label, measured in by_label.items():
                    gauge.labels(label).set(measured)


def _of_feed(found: Measures) -> dict[str, float]:
    if found.feed is None:
        return {}
    own = found.feed
    named: dict[str, float | None] = {name: own[name] for name in ("runs", "connected", "quota_left")}
    named["data_age_seconds"] = own["data_age_s"]
    return {name: float(value) for name, value in named.items() if value is not None}
