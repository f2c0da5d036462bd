"""Arguments of the verbs, checked by value: what is meant by them, or what may stand there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from clvlab.errors import AgentError, PackFormatError, PolicyError, UnknownPackError, WindowError
from clvlab.lab.results.fixtures import shown
from clvlab.lab.results.pack import Pack
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import EndRule
from clvlab.naming import among, fields_checked, nearest

# Here and not where they are defined: what decides scores imports nothing that it can do without.
for _settings in (Window, PolicyEnvelope):
    fields_checked(_settings)


def several(packs: Sequence[Pack | str | Path]) -> list[Pack | str | Path]:
    """Return packs as a list.

    Raises
    ------
    PackFormatError
        One pack, or something else.
    """
    if isinstance(packs, str | Path | Pack) or not isinstance(packs, Iterable):
        raise PackFormatError(f"packs is a list of packs, such as ['starter', 'season'], not {shown(packs)}")
    return list(packs)


def pack_given(pack: Any) -> Pack | str | Path:
    """Return what names a pack, or is one.

    Raises
    ------
    UnknownPackError
        Something else; the message says how a pack is made of a frame.
    """
    if isinstance(pack, Pack | str | Path):
        return pack
    said = f"a pack is named by its id or folder, or is a pack, not {shown(pack)}"
    if hasattr(pack, "columns") or hasattr(pack, "__arrow_c_stream__"):
        raise UnknownPackError(f"{said}: make one of it first, pack = clvlab.import_odds('csv', frame, 'my-pack')")
    if isinstance(pack, list | tuple):
        raise UnknownPackError(f"{said}: clvlab.backtests takes several packs")
    raise UnknownPackError(f"{said}; clvlab.packs() lists those at hand")


def window_given(window: Any) -> Window:
    """Return a window, the default one for null.

    Raises
    ------
    WindowError
        Something else; the message says how it is written.
    """
    if window is None or isinstance(window, Window):
        return window or Window()
    if isinstance(window, str):
        rule = nearest(window, EndRule) or EndRule.PRE_MATCH
        own = f"end_rule={str(rule)!r}" + (", duration_s=3600" if rule == EndRule.FIXED_DURATION else "")
        raise WindowError(f"a window is a clvlab.Window, not {window!r:.80}: write clvlab.Window({own})")
    raise WindowError(f"a window is a clvlab.Window, not {shown(window)}{_called('Window', window)}")


def policy_given(policy: Any) -> PolicyEnvelope:
    """Return a policy, the default one for null.

    Raises
    ------
    PolicyError
        Something else; the message says how it is written.
    """
    if policy is None or isinstance(policy, PolicyEnvelope):
        return policy or PolicyEnvelope()
    known = [field.name for field in fields(PolicyEnvelope)]
    for name in policy if isinstance(policy, Mapping) else ():
        if name not in known:
            raise PolicyError(f"a policy has no limit {name!r}{among(name, known)}")
    raise PolicyError(f"a policy is a clvlab.PolicyEnvelope, not {shown(policy)}{_called('PolicyEnvelope', policy)}")


def _called(name: str, given: Any) -> str:
    own = ", ".join(f"{key}={value!r:.40}" for key, value in given.items()) if isinstance(given, Mapping) else "..."
    return f": write clvlab.{name}({own})"


def check_audit(cuts: Any, seed: Any, max_rows: Any) -> None:
    """Refuse how an audit can't be made.

    Raises
    ------
    AgentError
    """
    for name, number in (("cuts", cuts), ("max_rows", max_rows)):
        if type(number) is not int or number < 1:
            raise AgentError(f"{name} of an audit must be a whole number of at least 1, not {number!r:.80}")
    if seed is not None and (type(seed) is not int or seed < 0):
        raise AgentError(f"a seed is a whole number of at least 0, or None for one that nobody knows, not {seed!r:.80}")
