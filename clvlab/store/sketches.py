"""Sketches for comparing two agents: a sketch has the decisions with the smallest hashes.

References
----------
A. Broder, "On the resemblance and containment of documents", 1997.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

GROUPS_COMPARED = 500
"""A row is compared with this many of its owner's newest groups, which bounds the cost of a seal."""

ALIKE_IN = ("causality", "knowledge", "hindsight_possible")
"""Columns that must agree within a group, so that no row hides behind another's label."""

_KEPT = 256  # a sketch of up to this many decisions is the whole set; with more, the share has an error of at most 1.4 %
_ALIKE_PERCENT = 95
_Hashes = npt.NDArray[np.uint64]


def sketches(scores: pl.DataFrame, source: str, agent_ids: Collection[str]) -> dict[str, bytes]:
    """Return the sketch of each agent's decisions in ``SCORES``; empty for an agent without decisions.

    ``source`` is the content hash of the pack, because equal fixture ids of two packs are different fixtures. Abstentions are
    left out, because they name no market.
    """
    made = scores.filter(pl.col("market_key").is_not_null()).select(
        pl.col("agent_id", "market_key", "side").cast(pl.String), "fixture_id", "tick_seq"
    )
    sides = made.select("market_key", "side").unique()
    starts = pl.Series([_begin(source, *side) for side in sides.iter_rows()], dtype=pl.UInt64)
    hashed = made.join(sides.with_columns(hash=starts), on=["market_key", "side"], how="left", maintain_order="left")
    values = hashed["hash"].to_numpy().astype(np.uint64)
    for name in ("fixture_id", "tick_seq"):
        values = _mixed(values ^ hashed[name].to_numpy().astype(np.int64).view(np.uint64))
    of = hashed["agent_id"]
    return {agent_id: _smallest(values[(of == agent_id).to_numpy()]) for agent_id in agent_ids}


def joined(parts: Iterable[bytes]) -> bytes:
    return _smallest(np.concatenate([np.empty(0, np.uint64), *map(_hashes, parts)]))


def are_alike(first: bytes, second: bytes) -> bool:
    """Whether at least 95 % of the decisions are the same, relative to the agent with more of them.

    Examples
    --------
    >>> one = bytes(range(80))
    >>> are_alike(one, one), are_alike(one, one[:72])
    (True, False)
    """
    if first == second:
        return True
    own, other = _hashes(first), _hashes(second)
    # A full sketch does not cover decisions beyond its last hash.
    ends = [hashes[-1] for hashes in (own, other) if hashes.size == _KEPT]
    if ends:
        own, other = own[own <= min(ends)], other[other <= min(ends)]
    same = np.intersect1d(own, other, assume_unique=True).size
    return 100 * same >= _ALIKE_PERCENT * max(own.size, other.size)


class Groups:
    """Groups of one owner's rows with the same decisions and the same description (``ALIKE_IN``).

    ``leading`` has the first row of each group, oldest first: ``position``, ``sketch`` and the columns of ``ALIKE_IN``.
    """

    def __init__(self, leading: Iterable[Mapping[str, Any]] = ()) -> None:
        self._leading = deque(leading, maxlen=GROUPS_COMPARED)

    def place(self, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the first row of a row's group, ``None`` for a new group; an older row then takes the first place."""
        found = next((other for other in self._leading if _is_of_one_group(row, other)), None)
        if found is None:
            self._leading.append(row)
        elif row["position"] < found["position"]:
            self._leading[self._leading.index(found)] = row
        return found


def _is_of_one_group(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if row["sketch"] is None or other["sketch"] is None:
        return False
    same = all(row[name] == other[name] for name in ALIKE_IN)
    return same and are_alike(row["sketch"], other["sketch"])


def _begin(source: str, market_key: str, side: str) -> int:
    return int.from_bytes(hashlib.sha256("\n".join((source, market_key, side)).encode()).digest()[:8], "little")


def _mixed(values: _Hashes) -> _Hashes:
    """Spread values over 64 bits, equally on every machine: the finaliser of SplitMix64."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: _Hashes = values ^ (values >> np.uint64(31))
    return mixed


def _smallest(values: _Hashes) -> bytes:
    return np.unique(values)[:_KEPT].astype("<u8").tobytes()


def _hashes(sketch: bytes) -> _Hashes:
    return np.frombuffer(sketch, "<u8").astype(np.uint64)
