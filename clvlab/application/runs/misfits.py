"""Agents that can't decide over the fixture that they would be run on."""

from __future__ import annotations

from collections.abc import Iterable

from clvlab.agents.bets import BetsConfig
from clvlab.agents.llm import LlmConfig
from clvlab.application.runs.binding import Bound
from clvlab.application.runs.entrants import Entrant
from clvlab.engine.agent import decisions_of
from clvlab.engine.replay import locate
from clvlab.errors import ClvlabError, PackError


def names_ticks(agent: Entrant) -> bool:
    """Whether an agent's configuration names what a tape may lack: of all parameters, a transcript does."""
    config = agent.template.config
    return isinstance(config, LlmConfig | BetsConfig) and bool(config.transcript)


def misfits(agents: Iterable[Entrant], own: Bound) -> dict[str, str]:
    """Say of each agent that can't decide over a fixture why not, by agent id.

    Agents that name no ticks fit every tape and are not asked; nor is anybody over a pack that can't be replayed, which the run
    will say.
    """
    asked = [agent for agent in agents if names_ticks(agent)]
    if not asked:
        return {}
    try:
        tape = own.pack.tape([own.fixture_id])
    except PackError:
        return {}
    found: dict[str, str] = {}
    for agent in asked:
        try:
            locate(tape, decisions_of(agent, tape))
        except ClvlabError as error:
            found[agent.identity.agent_id] = f"can't run over fixture {own.fixture_id} of pack {own.pack.pack_id!r}: {error}"
    return found
