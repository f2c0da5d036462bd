"""Requests to a backend, and checks of their arguments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clvlab.agents.registry import names_template
from clvlab.base.names import among, fields_checked, nearest
from clvlab.engine.agent import Agent
from clvlab.errors import AgentError, ArgumentError, FeedError, PackFormatError, PolicyError, UnknownPackError, WindowError
from clvlab.lab.results.pack import Pack
from clvlab.lab.validation import fixture_ids_argument, value_text
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import EndRule
from clvlab.runs.live import GRACE_S
from clvlab.runs.spec import rename, resolve

if TYPE_CHECKING:  # imported where it is used, so that a first backtest waits for nothing else
    from clvlab.runs.live.request import LiveRequest
    from clvlab.runs.live.watch import CaptureState


# Arguments of the verbs, checked by value.


# They are here and not next to the definitions, because scoring code imports only necessary modules.
for _settings in (Window, PolicyEnvelope):
    fields_checked(_settings)
_WINDOW, _POLICY = Window(), PolicyEnvelope()


def several(packs: Sequence[Pack | str | Path]) -> list[Pack | str | Path]:
    """Return packs as a list."""
    if isinstance(packs, str | Path | Pack) or not isinstance(packs, Iterable):
        raise PackFormatError(f"packs is a list of packs, such as ['starter', 'season'], not {value_text(packs)}")
    return list(packs)


def pack_argument(pack: Any) -> Pack | str | Path:
    """Return a pack or its name; refuse anything else."""
    if isinstance(pack, Pack | str | Path):
        return pack
    message = f"a pack is named by its id or folder, or is a pack, not {value_text(pack)}"
    if hasattr(pack, "columns") or hasattr(pack, "__arrow_c_stream__"):
        raise UnknownPackError(f"{message}: make one of it first, pack = clvlab.import_odds('csv', frame, 'my-pack')")
    if isinstance(pack, list | tuple):
        raise UnknownPackError(f"{message}: clvlab.backtests takes several packs")
    raise UnknownPackError(f"{message}; clvlab.packs() lists the available ones")


def window_argument(window: Any) -> Window:
    """Return a window; the default for `None`."""
    if window is None or isinstance(window, Window):
        return window or _WINDOW
    if isinstance(window, str):
        rule = nearest(window, EndRule) or EndRule.PRE_MATCH
        own = f"end_rule={str(rule)!r}" + (", duration_s=3600" if rule == EndRule.FIXED_DURATION else "")
        raise WindowError(f"a window is a clvlab.Window, not {window!r:.80}: write clvlab.Window({own})")
    raise WindowError(f"a window is a clvlab.Window, not {value_text(window)}{_example('Window', window)}")


def policy_argument(policy: Any) -> PolicyEnvelope:
    """Return a policy; the default for `None`."""
    if policy is None or isinstance(policy, PolicyEnvelope):
        return policy or _POLICY
    known = [field.name for field in fields(PolicyEnvelope)]
    for name in policy if isinstance(policy, Mapping) else ():
        if name not in known:
            raise PolicyError(f"a policy has no limit {name!r}{among(name, known)}")
    raise PolicyError(f"a policy is a clvlab.PolicyEnvelope, not {value_text(policy)}{_example('PolicyEnvelope', policy)}")


def _example(name: str, values: Any) -> str:
    own = ", ".join(f"{key}={value!r:.40}" for key, value in values.items()) if isinstance(values, Mapping) else "..."
    return f": write clvlab.{name}({own})"


def check_audit(cuts: Any, seed: Any, max_rows: Any) -> None:
    """Refuse impossible settings of an audit."""
    for name, number in (("cuts", cuts), ("max_rows", max_rows)):
        if type(number) is not int or number < 1:
            raise AgentError(f"{name} of an audit must be a whole number of at least 1, not {number!r:.80}")
    if seed is not None and (type(seed) is not int or seed < 0):
        raise AgentError(f"a seed is a whole number of at least 0, or None for a random one, not {seed!r:.80}")


@dataclass(frozen=True)
class RunRequest:
    """The data that agents decide over, and the rules.

    Attributes
    ----------
    pack
        A pack, its id, or the path of its folder.
    fixtures
        Fixture ids; `None` means all.
    """

    pack: Pack | str | Path
    fixtures: Sequence[int] | None = None
    window: Window = field(default_factory=Window)
    policy: PolicyEnvelope = field(default_factory=PolicyEnvelope)
    audit: bool = True


@dataclass(frozen=True)
class AgentSpec:
    """An agent with its parameters, and its name in a competition."""

    agent: str | Agent
    params: Mapping[str, Any]
    agent_id: str | None = None

    def resolve(self, window: Window) -> Agent:
        """Return the agent, renamed if it has a name here."""
        found = resolve(self.agent, self.params, window)
        if self.agent_id is None or self.agent_id == found.identity.agent_id:
            return found
        return rename(found, self.agent_id)


@dataclass(frozen=True)
class Folds:
    """Folds of a walk forward, and the measure that chooses points."""

    folds: int
    by: str | Mapping[int, object]
    objective: str
    level: float = 0.95


@dataclass(frozen=True)
class HoldOut:
    """The hold-out of a plan, and the folds and objective of its search."""

    hold_out: float | Sequence[int]
    by: str
    folds: int
    objective: str
    seed: int


def live_request(
    feed: Any = None,
    fixture: Any = None,
    window: Any = None,
    policy: Any = None,
    until: Any = None,
    grace_s: Any = GRACE_S,
) -> LiveRequest:
    """Return the request of a live run, with defaults."""
    from clvlab.runs.live.request import LiveRequest

    if fixture is not None and type(fixture) is not int:
        raise FeedError(f"a fixture is named by its id, a whole number, not {fixture!r:.80}")
    if type(grace_s) is not int:
        raise FeedError(f"a time of grace is a whole number of seconds, not {grace_s!r:.80}")
    return LiveRequest(feed, fixture, window_argument(window), policy_argument(policy), until, grace_s)


def agent_in_steps(agent: Any, *, stepped: Any) -> Any:
    """Return an agent, wrapped for step-by-step isolation if ``stepped``."""
    if type(stepped) is not bool:
        raise ArgumentError(f"stepped is True or False, not {stepped!r:.80}")
    if stepped and names_template(agent):
        raise AgentError(f"stepped=True is for an agent of yours, and {agent!r:.200} is a template, which needs no isolation")
    if not stepped:
        return agent

    from clvlab.agents.isolation.agent import step_by_step

    return step_by_step(agent)


def run_request(
    pack: Any, fixtures: Any = None, window: Any = None, policy: Any = None, *, audit: bool = True, close: str | None = None
) -> RunRequest:
    """Return a request with defaults; ``close`` sets the window's ``close_source``, which may not name another book."""
    own, chosen = pack_argument(pack), fixture_ids_argument(fixtures)
    if type(audit) is not bool:
        raise ArgumentError(f"audit is True or False, not {audit!r:.80}")
    rule = window_argument(window)
    if close is not None and rule.close_source not in (None, close):
        raise WindowError(f"close={close!r:.80} and close_source={rule.close_source!r:.80} of the window differ: give one")
    if close is not None:
        rule = replace(rule, close_source=close)
    return RunRequest(own, chosen, rule, policy_argument(policy), audit)


def agent_spec(agent: Any, params: Any = None) -> AgentSpec:
    """Return the spec of an agent."""
    if not isinstance(agent, str):
        from clvlab.agents.coercion import as_agent

        agent = as_agent(agent)
    if params is not None and not isinstance(params, Mapping):
        raise AgentError(f"params is a mapping from parameters to values, such as {{'stake': 50}}, not {value_text(params)}")
    return AgentSpec(agent, dict(params or {}))


@dataclass(frozen=True)
class CaptureRequest:
    """Settings of a capture; no fixtures means all, and without ``until_ts_ms`` there is no end time."""

    fixtures: tuple[int, ...]
    until_ts_ms: int | None
    log: str | Path | None
    ladders: bool
    progress: Callable[[CaptureState], None] | bool


def capture_request(fixtures: Any, until: Any, log: Any, ladders: Any, progress: Any) -> CaptureRequest:
    """Return the request of a capture; ``until`` is a time with its zone, or seconds from now."""
    from clvlab.runs.live.request import until_ts_ms

    ends_ms = until_ts_ms(until, time.time_ns() // 1_000_000)
    if fixtures is not None and (isinstance(fixtures, str) or not isinstance(fixtures, Iterable)):
        raise FeedError(f"fixtures are a list of fixture ids, not {value_text(fixtures)}")
    if type(ladders) is not bool:
        raise ArgumentError(f"ladders is True or False, not {value_text(ladders)}")
    return CaptureRequest(tuple(fixtures or ()), ends_ms, log, ladders, progress)


def agent_specs(
    agents: str | Agent | Sequence[str | Agent] | Mapping[str, str | Agent | tuple[str | Agent, Mapping[str, Any]]],
) -> list[AgentSpec]:
    """Return the entries of a competition, which may be a single agent."""
    if isinstance(agents, Mapping):
        return [_entry(own, name) for name, own in agents.items()]
    if isinstance(agents, str | Agent):
        return [agent_spec(agents)]
    if not isinstance(agents, Iterable):
        raise AgentError(f"a competition takes a list of agents, or a mapping from names to agents, not {agents!r:.80}")
    return [_entry(agent) for agent in agents]


def _entry(own: Any, name: str | None = None) -> AgentSpec:
    if name is not None and not isinstance(name, str):
        raise AgentError(f"an agent enters under a name, a text, not {name!r:.80}")
    match own:
        case (agent, Mapping() as params):
            return replace(agent_spec(agent, params), agent_id=name)
        case tuple() | list():
            raise AgentError(
                f"an entry is an agent, or an agent with a mapping of its parameters, such as "
                f"('baseline', {{'stake': 50}}), not {value_text(own)}"
            )
        case agent:
            return replace(agent_spec(agent), agent_id=name)
