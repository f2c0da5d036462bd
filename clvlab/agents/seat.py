"""A ``TickAgent`` in a seat: it answers what a service shows it, tick by tick."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clvlab.agents.book import Known
from clvlab.agents.files import agent_of
from clvlab.agents.isolation.code import code_in_file
from clvlab.agents.ticks import TickAgent, TickFollower
from clvlab.api.answer import JsonObject
from clvlab.api.seats import SeatAnswer, SeatTick, SeatView
from clvlab.errors import AgentError
from clvlab.law.actions import Decision
from clvlab.law.message import Message
from clvlab.law.schema import Action

Act = Callable[[int, Sequence[JsonObject]], SeatAnswer]
"""Answers a tick by its number with decisions, and returns the next tick."""
Wait = Callable[[], SeatTick | None]
"""Waits for the next tick of a live seat, and returns it, or ``None`` once the seat is over."""


class SeatPlayer:
    """A ``TickAgent`` that sees views of a seat as messages.

    In an ``aliased`` seat its fixtures have the numbers 1, 2, ... in order, and its markets and sides their aliases.
    """

    def __init__(self, agent: TickAgent) -> None:
        self._follower = TickFollower(agent)
        self._fixtures: dict[int | str, int] = {}

    def answer(self, view: SeatView) -> list[JsonObject]:
        """Return the agent's decisions at a tick, as a seat takes them."""
        about, named = view.get("about"), view["fixture"]
        fixture_id = self._fixtures.setdefault(named, named if isinstance(named, int) else len(self._fixtures) + 1)
        if about is not None:
            self._follower.know(fixture_id, Known(**about))
        names, probs, odds = zip(*view["sides"], strict=True)
        message = Message(
            fixture_id,
            view.get("tick_seq", view["tick"]),
            view["time_ms"],
            view["in_running"],
            view["market"],
            names,
            probs,
            odds,
            view["suspended"],
        )
        return [_as_json(one) for one in self._follower.take(message)]


def _as_json(decision: Decision) -> JsonObject:
    _, _, action, market, side, stake, limit_odds_milli, reason, confidence, claimed_edge_bps = decision
    claims = {"reason": reason, "confidence": confidence, "claimed_edge_bps": claimed_edge_bps}
    own = {"market": market, "side": side, "stake": stake, "limit_odds_milli": limit_odds_milli}
    fields = {"action": action} | claims | (own if action == Action.BACK else {})
    return {name: value for name, value in fields.items() if value is not None}


def play(agent: TickAgent, start: SeatAnswer, act: Act, wait: Wait | None = None) -> SeatAnswer:
    """Answer all ticks of a seat from its start on, and return the last answer; ``wait`` is for the ticks of a live seat."""
    player, answer = SeatPlayer(agent), start
    opened = start["next"] or (None if wait is None else wait())
    while opened is not None:
        view = opened["view"]
        answer = act(view["tick"], player.answer(view))
        opened = answer["next"] or (None if wait is None else wait())
    return answer


def tick_agent_in(named: str) -> TickAgent:
    """Return the ``TickAgent`` that ``file.py:name`` names; its code runs in this process.

    Raises
    ------
    AgentError
        There is no such agent, or it is not a ``TickAgent``: a seat shows one message at a time.
    """
    path, _, name = named.rpartition(":")
    code = code_in_file(path, name)
    found = agent_of(code.content, path, name)
    if not isinstance(found, TickAgent):
        raise AgentError(f"{named!r} is a {type(found).__name__}: a seat shows one message at a time, so it takes a TickAgent")
    return found
