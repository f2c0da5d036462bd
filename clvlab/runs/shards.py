"""Sharding of a replay: agents and memory decide whether fixtures are replayed at once or shard by shard."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from clvlab.agents.template import Template
from clvlab.engine.agent import Agent, decisions_of, fresh
from clvlab.errors import ClvlabError, PackTooLargeError, SettingsError
from clvlab.packs.reader import ROW_BYTES, Pack, shards_of

WHOLE_ROWS = 12_000_000  # up to this many rows, one replay of all fixtures is twice as fast and takes half a gigabyte
_SAMPLE_ROWS = 100_000
_REPLAY_FACTOR = 8  # memory of a replay over memory of the ticks alone: agents see ticks with names in every row
_CGROUP = Path("/sys/fs/cgroup/memory.max")

Shards = tuple[tuple[int, ...], ...]


def sharded(pack: Pack, fixture_ids: Sequence[int], agents: Sequence[Agent], together: int = 2) -> Shards:
    """Return the fixtures of a replay, shard by shard; a small replay is one shard.

    Templates decide fixture by fixture, and are sharded. Other agents get all fixtures at once if these fit in memory. If the
    fixtures do not fit, the agent first decides on a sample and on its two halves. If the decisions are equal, the agent is
    sharded, and audited in each shard. ``together`` is the number of shards that share the memory.

    Raises
    ------
    PackTooLargeError
        An agent must see all fixtures at once, and they do not fit in memory.
    """
    wanted, known = set(fixture_ids), pack.manifest.fixtures
    rows = sum(fixture.rows for fixture in known if fixture.fixture_id in wanted)
    others = [agent for agent in agents if not (isinstance(agent, Template) and agent.config.by_fixture)]
    needed, limit = rows * ROW_BYTES * _REPLAY_FACTOR, memory_bytes() if others else 0
    if rows <= WHOLE_ROWS or (others and needed <= limit):
        return (tuple(fixture_ids),)
    for agent in others:
        why = _reason_for_whole(agent, pack, fixture_ids)
        if why is not None:
            raise PackTooLargeError(agent.identity.agent_id, why, needed >> 20, limit >> 20)
    shards = (tuple(one.fixture_id for one in shard if one.fixture_id in wanted) for shard in shards_of(known, together))
    return tuple(shard for shard in shards if shard)


def _reason_for_whole(agent: Agent, pack: Pack, fixture_ids: Sequence[int]) -> str | None:
    if isinstance(agent, Template):
        return "its template takes all fixtures at once"
    sample = _sample(pack, fixture_ids)
    halves = sample[::2], sample[1::2]
    try:
        whole, *parts = (_decisions(agent, pack, ids) for ids in (sample, *halves) if ids)
    except ClvlabError as error:
        return f"it fails when it is asked about {len(sample)} of them ({str(error).splitlines()[0]})"
    if whole.equals(pl.concat(parts).sort(whole.columns)):
        return None
    return f"its decisions on {len(sample)} of them at once differ from those in two halves"


def _sample(pack: Pack, fixture_ids: Sequence[int]) -> list[int]:
    rows = {fixture.fixture_id: fixture.rows for fixture in pack.manifest.fixtures}
    size = max(2, int(_SAMPLE_ROWS * len(fixture_ids) / sum(rows[one] for one in fixture_ids)))
    return list(fixture_ids[:: -(-len(fixture_ids) // size)])


def _decisions(agent: Agent, pack: Pack, fixture_ids: Sequence[int]) -> pl.DataFrame:
    with fresh(agent, silent=True) as own:
        decided = decisions_of(own, pack.tape(fixture_ids))
    return decided.sort(decided.columns)


def memory_bytes() -> int:
    """Return the memory that a replay may take: ``CLVLAB_MEMORY_MB``, or half the memory of this machine or container."""
    text = os.environ.get("CLVLAB_MEMORY_MB", "")
    if text:
        if not (text.isascii() and text.isdigit() and int(text)):
            raise SettingsError(f"CLVLAB_MEMORY_MB must be a positive whole number, not {text!r}")
        return int(text) << 20
    limit = _CGROUP.read_text().strip() if _CGROUP.is_file() else "max"
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 8 << 30
    return min(physical, int(limit) if limit.isdigit() else physical) // 2
