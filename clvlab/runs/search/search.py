"""Shared settings of all points of a search, and the name of the work at each."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import distributions
from itertools import product
from math import prod
from typing import Any

from clvlab.agents.isolation.agent import IsolatedAgent
from clvlab.agents.registry import names_template
from clvlab.agents.template import Params
from clvlab.engine.agent import Agent
from clvlab.errors import AgentError, ClvlabError, StatisticsError
from clvlab.law.closing import Window
from clvlab.law.schema import LAW_VERSION
from clvlab.packs.reader import Pack
from clvlab.packs.views.view_file import Place, place_of
from clvlab.proof.canonical import canonical, sha256
from clvlab.runs.shards import Shards, sharded
from clvlab.runs.spec import resolve
from clvlab.runs.versions import judge

# A grid of parameters, its points, and the number of trials for the correction.


def grid_of(grid: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each parameter; ``StatisticsError`` for none, or a repeated value."""
    if not isinstance(grid, Mapping):
        raise StatisticsError(f"a grid is a mapping from parameters to lists of values, not {grid!r:.80}")
    values = {name: () if isinstance(own, str) or not isinstance(own, Iterable) else tuple(own) for name, own in grid.items()}
    wrong = [name for name, own in values.items() if not own]
    if not grid or wrong:
        advice = f"write {{{wrong[0]!r}: [{grid[wrong[0]]!r:.40}]}}" if wrong else "it is empty"
        raise StatisticsError(f"a grid needs parameters, each with a list of values: {advice}")
    for name, own in values.items():
        for number, value in enumerate(own):
            if value in own[:number]:
                raise StatisticsError(f"the grid has {name}={value!r} twice: each value is one trial")
    return values


def grid_points(grid: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of every point, the last parameter fastest."""
    return (dict(zip(grid, values, strict=True)) for values in product(*grid.values()))


def grid_size(grid: Mapping[str, Sequence[Any]]) -> int:
    return prod(map(len, grid.values()))


def check_trials(earlier_trials: int) -> None:
    if type(earlier_trials) is not int or earlier_trials < 0:
        raise StatisticsError(f"earlier_trials counts trials, it can't be {earlier_trials!r}")


POINT_SCHEMA = "clvlab-point/1"


@dataclass(frozen=True, slots=True)
class Search:
    """Fixtures (sorted, and in shards), agent (a template's name or code) and window of all points, for other processes too."""

    place: Place
    content_hash: str
    fixture_ids: tuple[int, ...]
    agent: str | IsolatedAgent
    window: Window
    shards: Shards = ()

    @property
    def parts(self) -> list[Search]:
        """Return the searches over one shard each, whose sums add up to the whole's."""
        return [replace(self, fixture_ids=shard, shards=()) for shard in self.shards] if len(self.shards) > 1 else [self]

    @property
    def agent_name(self) -> str:
        return self.agent if isinstance(self.agent, str) else f"own-{sha256(self.agent.code.content)[7:19]}"

    def key(self, params: Params) -> str | None:
        """Return the hash of everything that shapes the sums at a point; ``None`` for an agent with network access.

        A template is named by its version and every parameter; a user's agent by the pickle of its code with reachable helpers,
        globals and closures, the files that it reads, and all installed packages.
        """
        try:
            with at_point(params):
                identity = _identity(self.agent, params, self.window)
        except TypeError:  # a parameter that JSON has no form for
            return None
        if identity is None:
            return None
        return sha256(
            canonical(
                {
                    "schema": POINT_SCHEMA,
                    "content_hash": self.content_hash,
                    "fixture_ids": list(self.fixture_ids),
                    "agent": identity,
                    "window": self.window.payload(),
                    "versions": _versions(),
                }
            )
        )


def search_of(pack: Pack, agent: str | Agent, fixture_ids: Sequence[int] | None, window: Window, first: Params) -> Search:
    """Return the shared settings of a search over a pack; ``first`` are the parameters of one point."""
    wanted = pack.fixture_ids if fixture_ids is None else tuple(sorted(set(fixture_ids)))
    pack.check_known(wanted)
    pack.check_open(wanted)
    pack.check_closes(window.close_source)
    local_agent: str | IsolatedAgent
    sent: str | IsolatedAgent
    if names_template(agent):
        local_agent = sent = agent
    else:
        found = resolve(agent, None, window)
        if not isinstance(found, IsolatedAgent):
            raise AgentError(f"{type(agent).__name__} takes no parameters here: give the name of its template")
        # A process that was asked about other fixtures, those of a later fold for instance, is not asked about these.
        local_agent, sent = found, replace(found, scope=sha256(canonical([pack.content_hash, list(wanted)])))
    with at_point(first):
        shards = sharded(pack, wanted, [resolve(local_agent, first, window)], together=1)
    return Search(place_of(pack), pack.content_hash, wanted, sent, window, shards)


@contextmanager
def at_point(params: Params) -> Iterator[None]:
    try:
        yield
    except ClvlabError as error:
        error.add_note(f"at the setting {spoken(params)}")
        raise


def spoken(params: Params) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in params.items())


def _identity(agent: str | IsolatedAgent, params: Params, window: Window) -> dict[str, Any] | None:
    if isinstance(agent, str):
        identity = resolve(agent, params, window).identity
        return {"strategy": identity.strategy, "version": identity.strategy_version, "config": params_text(identity.config)}
    if agent.limits.network:
        return None
    return {
        "code": sha256(agent.code.content),
        "name": None if agent.code.file is None else agent.code.file[1],
        "config": params_text(dict(agent.params) | dict(params)),
        "reads": [list(read) for read in agent.limits.digests()],
        "installed": _installed(),
    }


def params_text(params: Params) -> str:
    """Return parameters as JSON, in which 1, 1.0, true and "1" are four values."""
    return json.dumps(dict(params), sort_keys=True)


@cache
def _versions() -> dict[str, str]:
    return judge() | {"law": LAW_VERSION, "python": sys.version}


@cache
def _installed() -> str:
    """Return the hash of the names and versions of everything installed, which a user's agent may import."""
    names = sorted({f"{one.name}=={one.version}" for one in distributions()})
    return sha256("\n".join(names).encode())
