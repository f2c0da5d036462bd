"""Deploys: pin a configuration as an agent instance and launch its run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["MAX_RUNTIME_EVENTS", "Deploys"]

MAX_RUNTIME_EVENTS = 1000


class Deploys:
    """Use cases of deployed agents."""

    def deploy(self, owner: str, body: Mapping[str, Any], idempotency_key: str | None = None) -> dict[str, Any]:
        """Check a configuration by name, store it as an instance, and queue its run.

        Parameters
        ----------
        owner
            Principal of the verified token; the only source of ownership.
        body
            Fields of ``DeployConfig``, untyped: a value of the wrong type or out of bounds is a failing check named after its
            field.
        idempotency_key
            The same key and configuration of the same owner give the same instance again, without a new run.

        Returns
        -------
        dict
            DeployResponse, before the run is sealed.

        Raises
        ------
        IdempotencyConflictError
            ``reason`` is ``fingerprint`` or ``prior_attempt``.
        PreflightError
            ``failures`` names every failing check; nothing is stored.
        """
        raise NotImplementedError

    def instance(self, caller: str, instance_id: str) -> dict[str, Any]:
        """Give the AgentInstance record to its owner.

        Raises
        ------
        UnknownInstanceError
        """
        raise NotImplementedError

    def runtime_events(self, caller: str, instance_id: str, since: int = 0, limit: int | None = None) -> dict[str, Any]:
        """Give RuntimeEventsResponse: events with ``id > since``, ascending; the first ``limit`` of them.

        Raises
        ------
        UnknownInstanceError
            Absent, without an owner, or of another owner.
        PageError
            ``since`` is negative, or ``limit`` outside 1..1000.
        """
        raise NotImplementedError
