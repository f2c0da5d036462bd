"""Time limits of PostgreSQL, so that a client that halts within a transaction blocks others only briefly.

A paused machine keeps its connections open and its locks held. So the server ends a transaction that is idle while it holds the
run log. A client that waits too long for a lock gets an error, and a peer that acknowledges nothing is disconnected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

WAITS = "clvlab_waits"
_MIGRATION_LOCK_MS = 60_000
_PROBES = 3


@dataclass(frozen=True, slots=True)
class Waits:
    """Limits of a connection to PostgreSQL, in seconds; SQLite has none.

    References
    ----------
    PostgreSQL: "Client Connection Defaults", "Statement Behavior". libpq: "Parameter Key Words".
    """

    lock_s: float = 4  # longest wait for a lock; longer than ``log_s``, so that a writer outlasts a stopped peer
    log_s: float = 3  # longest idle time of a transaction that holds the run log, before the server ends it
    idle_s: float = 60  # longest idle time of any other transaction
    statement_s: float = 60  # longest time of a statement
    peer_s: float = 10  # longest time without an acknowledgement of the peer
    answer_s: float = 5  # longest silence before the server is asked on another connection whether it is there

    def connect_args(self, options: str) -> dict[str, str | int]:
        """Return the arguments of libpq for these limits; ``options`` of the operator take precedence."""
        limits = {
            "lock_timeout": self.lock_s,
            "statement_timeout": self.statement_s,
            "idle_in_transaction_session_timeout": self.idle_s,
        }
        return {
            "options": " ".join([*(f"-c {name}={_ms(seconds)}" for name, seconds in limits.items()), options]),
            "keepalives": 1,
            "keepalives_idle": max(1, round(self.peer_s / 2)),
            "keepalives_interval": max(1, round(self.peer_s / (2 * _PROBES))),
            "keepalives_count": _PROBES,
            "tcp_user_timeout": _ms(self.peer_s),
        }


def lock_log(connection: Connection) -> None:
    """Exclude other writers of the run log until the transaction ends; from now on the transaction must not idle for long."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer anyway
        waits: Waits = connection.get_execution_options()[WAITS]
        limit = f"SET LOCAL idle_in_transaction_session_timeout = {_ms(waits.log_s)}"
        connection.execute(text(f"{limit}; LOCK TABLE log_entries IN EXCLUSIVE MODE"))


def take_time(connection: Connection) -> None:
    """Lift the limits for the rest of a transaction, for a migration or the rebuild of a table."""
    if connection.dialect.name == "postgresql":
        limits = {"statement_timeout": 0, "idle_in_transaction_session_timeout": 0, "lock_timeout": _MIGRATION_LOCK_MS}
        driver: Any = connection.connection.driver_connection
        driver.has_time = True
        connection.execute(text("; ".join(f"SET LOCAL {name} = {limit}" for name, limit in limits.items())))


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
