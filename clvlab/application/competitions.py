"""Competitions: bind, register, start, read."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from clvlab.application.requests import AgentEntry, CompetitionConfig

__all__ = ["CompetitionStatus", "Competitions"]


class CompetitionStatus(StrEnum):
    """``draft`` -> ``open`` -> ``running`` -> ``finalized`` -> ``completed``; ``draft`` may start at once."""

    DRAFT = "draft"
    OPEN = "open"
    RUNNING = "running"
    FINALIZED = "finalized"
    COMPLETED = "completed"


class Competitions:
    """Use cases of competitions; every answer is JSON values under the interface's field names."""

    def create(self, owner: str, config: CompetitionConfig) -> dict[str, Any]:
        """Create a draft; with a ``pack_id`` its replay binding is frozen now.

        Returns
        -------
        dict
            CompetitionCreateResponse.

        Raises
        ------
        BindingError
            Unknown pack, or a fixture that it does not declare.
        """
        raise NotImplementedError

    def all(self, status: CompetitionStatus | None = None) -> list[dict[str, Any]]:
        """List CompetitionSummaryResponse, oldest first; of one status, or of every."""
        raise NotImplementedError

    def state(self, competition_id: str) -> dict[str, Any]:
        """Give CompetitionStateResponse.

        Raises
        ------
        UnknownCompetitionError
        """
        raise NotImplementedError

    def register(self, caller: str, competition_id: str, entry: AgentEntry) -> dict[str, Any]:
        """Put an agent on the roster and pin its config.

        Returns
        -------
        dict
            AgentRegisterResponse.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError, RosterFrozenError, AlreadyRegisteredError, RosterFullError
            In this order.
        UnknownInstanceError
            ``instance_id`` is absent or has no owner.
        NotOwnerError
            ``instance_id`` belongs to another principal.
        EntryError
            Unrecognized ``proof_mode``, unknown strategy, a bad value of a known parameter, or an instance of another strategy.
        """
        raise NotImplementedError

    def open(self, caller: str, competition_id: str) -> dict[str, Any]:
        """Go from ``draft`` to ``open``; gives ``{competition_id, status}``.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError, TransitionError
        """
        raise NotImplementedError

    def complete(self, caller: str, competition_id: str) -> dict[str, Any]:
        """Go from ``finalized`` to ``completed``; gives ``{competition_id, status}``.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError, TransitionError
        """
        raise NotImplementedError

    def start(self, caller: str, competition_id: str) -> dict[str, Any]:
        """Run the competition and seal it; returns when it is finalized. Blocks: call it from a worker thread.

        Returns
        -------
        dict
            CompetitionStartResponse.

        Raises
        ------
        UnknownCompetitionError, NotOwnerError
        NotStartableError
            ``reason`` is ``not_startable`` (running, finalized or completed), ``roster_empty``, ``no_live_feed``,
            ``binding_missing`` (no pack, and not exactly one in the catalog) or ``binding_changed`` (pack gone or changed since
            it was bound).
        RunFailedError
            The run failed; the claim is released and the cause recorded.
        """
        raise NotImplementedError

    def events(self, competition_id: str, since_seq: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
        """Give the log after ``since_seq`` (exclusive; -1 is all of it), ascending by ``seq``.

        Returns
        -------
        list of dict
            ``seq, kind, competition_id, run_id, ts, evidence, payload``; ``ts`` in milliseconds.

        Raises
        ------
        UnknownCompetitionError
        """
        raise NotImplementedError

    def wait_for_events(
        self, competition_id: str, since_seq: int, timeout_s: float, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """Like ``events``, and if there are none wait for some; empty after ``timeout_s``. Blocks.

        Events that another process appends are seen within half a second.

        Raises
        ------
        UnknownCompetitionError
        """
        raise NotImplementedError

    def subscribe(self, competition_id: str, notify: Callable[[], None]) -> Callable[[], None]:
        """Have ``notify`` called, on any thread, after events were appended by this process; gives the unsubscription.

        The callback carries nothing: read ``events`` after it, and every half second besides for those of other processes.
        Then what was delivered is the log, without gap or repetition.
        """
        raise NotImplementedError
