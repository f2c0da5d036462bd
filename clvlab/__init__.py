"""clvlab: does an agent beat the closing line? Backtests that anyone can check.

>>> import clvlab as cl
>>> bt = cl.backtest(cl.open_pack("starter"), agent="cumulative-drift")
>>> bt.run.verify().passed
True

Odds        packs, open_pack, imports, import_odds, concat, join_sources, lead_lag
Agents      agents, strategy, TickAgent, Book, isolated, lookahead_audit, lookahead_audits
Backtests   backtest, backtests, open_run, Window, PolicyEnvelope
Searches    sweep, walk_forward, compare, leaderboard
Your bets   grade_bets
Elsewhere   Lab, Client
Set-up      check_extras, errors

A result answers by name: bt.verdict, bt.mean_clv, bt.interval, bt.edge, bt.roi; bt.tear_sheet() has the rest, bt.scores each
decision, bt.run.verify() the checks, bt.share("card.png") a picture to send. help(clvlab.backtest) explains one verb.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from clvlab import errors

if TYPE_CHECKING:
    from clvlab.agents.book import Book
    from clvlab.agents.columnar import strategy
    from clvlab.agents.isolation.agent import isolated
    from clvlab.agents.ticks import TickAgent
    from clvlab.arena.installation import check_extras
    from clvlab.client import Client
    from clvlab.lab import (
        agents,
        backtest,
        backtests,
        compare,
        concat,
        grade_bets,
        import_odds,
        imports,
        join_sources,
        lead_lag,
        leaderboard,
        lookahead_audit,
        lookahead_audits,
        open_pack,
        open_run,
        packs,
        sweep,
        walk_forward,
    )
    from clvlab.lab.laboratory.lab import Lab
    from clvlab.law.closing import Window
    from clvlab.law.policy import PolicyEnvelope

__all__ = [
    "Book",
    "Client",
    "Lab",
    "PolicyEnvelope",
    "TickAgent",
    "Window",
    "agents",
    "backtest",
    "backtests",
    "check_extras",
    "compare",
    "concat",
    "errors",
    "grade_bets",
    "import_odds",
    "imports",
    "isolated",
    "join_sources",
    "lead_lag",
    "leaderboard",
    "lookahead_audit",
    "lookahead_audits",
    "open_pack",
    "open_run",
    "packs",
    "strategy",
    "sweep",
    "walk_forward",
]

_LISTED = ("agents", "packs")

_HOMES = {
    "Book": "clvlab.agents.book",
    "Client": "clvlab.client",
    "Lab": "clvlab.lab.laboratory.lab",
    "PolicyEnvelope": "clvlab.lab.laboratory.requests",
    "TickAgent": "clvlab.agents.ticks",
    "Window": "clvlab.lab.laboratory.requests",
    "backtest": "clvlab.lab",
    "backtests": "clvlab.lab",
    "check_extras": "clvlab.arena.installation",
    "compare": "clvlab.lab",
    "concat": "clvlab.lab",
    "grade_bets": "clvlab.lab",
    "import_odds": "clvlab.lab",
    "imports": "clvlab.lab",
    "join_sources": "clvlab.lab",
    "lead_lag": "clvlab.lab",
    "isolated": "clvlab.agents.isolation.agent",
    "leaderboard": "clvlab.lab",
    "lookahead_audit": "clvlab.lab",
    "lookahead_audits": "clvlab.lab",
    "open_pack": "clvlab.lab",
    "open_run": "clvlab.lab",
    "strategy": "clvlab.agents.columnar",
    "sweep": "clvlab.lab",
    "walk_forward": "clvlab.lab",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return _version()
    if name in _LISTED:
        return import_module(f"clvlab.{name}")
    if name not in _HOMES:
        from clvlab.base.names import did_you_mean

        raise AttributeError(f"module 'clvlab' has no attribute {name!r}{did_you_mean(name, __all__)}")
    return getattr(import_module(_HOMES[name]), name)


class _Module(ModuleType):
    """A module that goes to another process by its name, as every other module does."""

    def __reduce__(self) -> tuple[object, ...]:
        return import_module, (self.__name__,)


class _CallableModule(_Module):
    """A package that lists what it has when it is called: ``clvlab.packs()``, ``clvlab.agents()``."""

    def __call__(self, *values: Any, **named: Any) -> Any:
        return getattr(import_module("clvlab.lab"), self.__name__.rpartition(".")[2])(*values, **named)


class _Face(_Module):
    """The face of the package, in which a package of the name of a verb is that verb as well, whichever is imported first."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _LISTED and isinstance(value, ModuleType):
            value.__class__ = _CallableModule
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face


def _version() -> str:
    """Return the version that is installed; of sources that only lie on the path it is not known."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("clvlab")
    except PackageNotFoundError:
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
