"""Work that outlives a request, and a process: leased rows of the store, performed by worker threads."""

from __future__ import annotations

__all__ = ["Jobs"]


class Jobs:
    """Worker threads over the job table, which several processes may share."""

    def start(self) -> None:
        """Start the worker threads; idempotent."""
        raise NotImplementedError

    def stop(self) -> None:
        """Let the jobs in hand finish, and end the threads; idempotent."""
        raise NotImplementedError

    def run_one(self) -> bool:
        """Claim and perform one job on this thread; False if there was none."""
        raise NotImplementedError

    def counts(self) -> dict[str, int]:
        """Give the number of jobs per status: ``queued``, ``leased``, ``done``, ``failed``."""
        raise NotImplementedError
