"""The policy envelope: limits on the actions of a run's agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from clvlab.errors import PolicyError
from clvlab.law.schema import SAFE_INTEGER

PAPER_VENUE = "paper"  # the only venue
_SCHEMA = "clvlab-policy/1"
_MAX_SECONDS = SAFE_INTEGER // 1000
_MAX_NAMES = 1000


class ExecutionMode(StrEnum):
    PAPER = "paper"
    DRY_RUN = "dry_run"


_BOUNDS: Mapping[str, tuple[int, int]] = {
    "max_stake": (0, SAFE_INTEGER),
    "max_exposure_per_market": (0, SAFE_INTEGER),
    "max_exposure_per_fixture": (0, SAFE_INTEGER),
    "max_orders": (0, SAFE_INTEGER),
    "cooldown_s": (0, _MAX_SECONDS),
    "warmup_ticks": (0, SAFE_INTEGER),
    "min_prob_bps": (0, 10_000),
    "max_prob_bps": (0, 10_000),
    "max_quote_age_s": (0, _MAX_SECONDS),
    "max_slippage_bps": (0, 10_000),
    "min_edge_bps": (-10_000, SAFE_INTEGER),
}
_MAY_BE_NULL = {"max_exposure_per_market", "max_exposure_per_fixture", "max_orders", "min_edge_bps"}


@dataclass(frozen=True, slots=True)
class PolicyEnvelope:
    """Limits on the actions of a run's agents. Each agent has its own counters.

    Attributes
    ----------
    market_allowlist
        Market-key prefixes; ``None`` means the prefixes of the window.
    venue_allowlist
        Venues that may be used. The only venue is ``paper``.
    execution_mode
        ``paper`` fills allowed actions on paper. ``dry_run`` judges actions and uses no venue.
    max_stake
        Largest stake of one action, integer units.
    max_exposure_per_market, max_exposure_per_fixture
        Largest sum of an agent's allowed stakes, integer units; ``None``: no limit.
    max_orders
        Allowed actions of an agent in the run; ``None``: no limit.
    cooldown_s
        Seconds after an allowed action before its agent may act on that market again.
    warmup_ticks
        Actions at ticks with a smaller ``tick_seq`` are refused.
    min_prob_bps, max_prob_bps
        Range of the entry probability, both ends included, basis points.
    require_quote
        Whether an action without a quote is refused.
    max_quote_age_s
        Largest age of a market state that still counts, seconds.
    max_slippage_bps
        Largest fall of the quote below the limit odds, basis points of the limit.
    min_edge_bps
        Least expected value at the quote against the entry probability, basis points; ``None``: off.
    kill_switch
        Refuses everything.

    Raises
    ------
    PolicyError
        A value is out of its range; the text names it.

    Examples
    --------
    >>> policy = PolicyEnvelope(max_orders=20, cooldown_s=600, max_stake=500)
    >>> sealed = policy.payload(("1X2",))
    >>> sealed["market_allowlist"], sealed["max_stake"]
    (['1X2'], 500)
    >>> PolicyEnvelope.sealed(sealed).cooldown_s
    600
    """

    market_allowlist: tuple[str, ...] | None = None
    venue_allowlist: tuple[str, ...] = (PAPER_VENUE,)
    execution_mode: str = ExecutionMode.PAPER
    max_stake: int = 10_000
    max_exposure_per_market: int | None = None
    max_exposure_per_fixture: int | None = None
    max_orders: int | None = None
    cooldown_s: int = 0
    warmup_ticks: int = 0
    min_prob_bps: int = 1
    max_prob_bps: int = 9_999
    require_quote: bool = True
    max_quote_age_s: int = 900
    max_slippage_bps: int = 100
    min_edge_bps: int | None = None
    kill_switch: bool = False

    def __post_init__(self) -> None:
        own = asdict(self)
        for name in ("market_allowlist", "venue_allowlist"):
            names = own[name]
            if names is None and name == "market_allowlist":
                continue
            if not isinstance(names, tuple | list) or not all(isinstance(text, str) for text in names):
                raise PolicyError(f'{name} must be a list of texts, such as ["paper"], not {names!r:.200}')
            if len(names) > _MAX_NAMES:
                raise PolicyError(f"{name} has a limit of {_MAX_NAMES} entries, not {len(names)}")
            object.__setattr__(self, name, tuple(names))
        if self.execution_mode not in list(ExecutionMode):
            raise PolicyError(f"unknown execution_mode {self.execution_mode!r:.80}: use one of {', '.join(ExecutionMode)}")
        for name, (low, high) in _BOUNDS.items():
            value = own[name]
            if value is None and name in _MAY_BE_NULL:
                continue
            if type(value) is not int or not low <= value <= high:
                raise PolicyError(f"{name} must be a whole number from {low} to {high}, not {value!r:.80}")
        for name in ("require_quote", "kill_switch"):
            if type(own[name]) is not bool:
                raise PolicyError(f"{name} must be true or false, not {own[name]!r:.80}")
        if self.min_prob_bps > self.max_prob_bps:
            raise PolicyError(f"min_prob_bps {self.min_prob_bps} is above max_prob_bps {self.max_prob_bps}")

    def payload(self, market_allowlist: tuple[str, ...]) -> dict[str, Any]:
        """Return the envelope as it is sealed. ``market_allowlist`` is used if the envelope has no allowlist."""
        resolved = market_allowlist if self.market_allowlist is None else self.market_allowlist
        return asdict(self) | {
            "schema": _SCHEMA,
            "market_allowlist": list(resolved),
            "venue_allowlist": list(self.venue_allowlist),
            "execution_mode": str(self.execution_mode),
        }

    @classmethod
    def sealed(cls, payload: Mapping[str, Any]) -> PolicyEnvelope:
        """Read a sealed envelope.

        Raises
        ------
        PolicyError
            The schema or a key differs, or a value is out of its range.
        """
        names = {field.name for field in fields(cls)}
        if payload.keys() != names | {"schema"} or payload["schema"] != _SCHEMA:
            raise PolicyError(f"a sealed policy has the schema {_SCHEMA!r} and the keys {sorted(names)}, not {sorted(payload)}")
        if payload["market_allowlist"] is None:
            raise PolicyError("market_allowlist of a sealed policy must be a list, not null")
        return cls(**{name: payload[name] for name in names})
