"""How long PostgreSQL is waited for, so that a client that stops in mid-transaction holds up nobody for long.

A paused machine keeps its connections open and its locks held. The server ends the transaction of one that is silent while
it holds the run log, whoever waits for a lock gives up and says so, and a peer that does not even acknowledge is cut off.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, text

WAITS = "clvlab_waits"
_MIGRATION_LOCK_MS = 60_000
_PROBES = 3


@dataclass(frozen=True, slots=True)
class Waits:
    """Bounds on a connection to PostgreSQL, in seconds; SQLite has none of them.

    Attributes
    ----------
    lock_s
        How long a transaction waits for a lock; longer than ``log_s``, so that a writer outlasts a peer that stopped.
    log_s
        How long a transaction that holds the run log may do nothing before the server ends it.
    idle_s
        The same of any other transaction.
    statement_s
        How long a statement may take.
    peer_s
        How long the other end may leave what was sent unacknowledged.

    References
    ----------
    PostgreSQL: "Client Connection Defaults", "Statement Behavior". libpq: "Parameter Key Words".
    """

    lock_s: float = 4
    log_s: float = 3
    idle_s: float = 60
    statement_s: float = 60
    peer_s: float = 10

    def connect_args(self, options: str) -> dict[str, str | int]:
        """Return the arguments of libpq that set them for a connection; ``options`` of the operator win."""
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
    """Keep every other writer of the run log out until the transaction ends, which must not be idle for long from here on."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer anyway
        waits: Waits = connection.get_execution_options()[WAITS]
        limit = f"SET LOCAL idle_in_transaction_session_timeout = {_ms(waits.log_s)}"
        connection.execute(text(f"{limit}; LOCK TABLE log_entries IN EXCLUSIVE MODE"))


def take_time(connection: Connection) -> None:
    """Let the rest of a transaction take as long as it takes: a migration, or the rebuild of a table."""
    if connection.dialect.name == "postgresql":
        limits = {"statement_timeout": 0, "idle_in_transaction_session_timeout": 0, "lock_timeout": _MIGRATION_LOCK_MS}
        connection.execute(text("; ".join(f"SET LOCAL {name} = {limit}" for name, limit in limits.items())))


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
