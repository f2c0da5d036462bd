"""Agents and matches of a run by name: evidence has the numbers of fixtures, and packs and feeds have their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from clvlab import words
from clvlab.arena.competitions.story import CompetitionStories
from clvlab.base.cache import BoundedCache
from clvlab.errors import EvidenceError, PackError
from clvlab.packs.catalog import Catalog
from clvlab.packs.manifest import Fixture
from clvlab.packs.reader import Pack
from clvlab.proof.canonical import parsed
from clvlab.store import runs
from clvlab.store.database import Database
from clvlab.store.runs import Part, RunRow, RunStatus

_KEPT_BYTES = 8 << 20
_BYTES_PER_FIXTURE = 40
_OVERHEAD_BYTES = 512


@dataclass(frozen=True, slots=True)
class StatedBinding:
    """The pack and the fixtures of a run, as its evidence states them."""

    pack_id: str | None
    content_hash: str | None
    fixture_ids: Sequence[int]


_UNBOUND = StatedBinding(None, None, ())


@dataclass(frozen=True, slots=True)
class RunNames:
    """The agents and matches of a run.

    Pack and ``fixture_ids`` are those of the evidence, missing before the seal; ``is_catalogued`` is whether the catalog has
    this very pack. ``known`` has the fixtures whose names are known, by the pack in the catalog or by the run's competition; no
    name is in the evidence.
    """

    agents: Sequence[str] = ()
    pack_id: str | None = None
    is_catalogued: bool = False
    fixture_ids: Sequence[int] = ()
    known: Mapping[int, Fixture] = field(default_factory=dict)

    @property
    def only(self) -> Fixture | None:
        """The match of a run over one, if its names are known."""
        return self.known.get(self.fixture_ids[0]) if len(self.fixture_ids) == 1 else None

    def teams(self, fixture_id: int) -> Sequence[str]:
        return self.known[fixture_id].names if fixture_id in self.known else ()

    def name(self, fixture_id: int) -> str:
        """Return who plays; the number of a fixture whose names are not known."""
        return words.match_name(self.teams(fixture_id), fixture_id)

    @property
    def text(self) -> str:
        """The match, or how many they are; empty before the seal."""
        if len(self.fixture_ids) == 1:
            return self.name(self.fixture_ids[0])
        return words.counted(len(self.fixture_ids), "match", "matches") if self.fixture_ids else ""


def _bindings() -> BoundedCache[StatedBinding]:
    return BoundedCache(_KEPT_BYTES, lambda found: _OVERHEAD_BYTES + _BYTES_PER_FIXTURE * len(found.fixture_ids))


@dataclass(frozen=True)
class NamedRuns:
    """Reads the names of runs; ``catalog`` has the packs that everybody may see."""

    database: Database
    catalog: Catalog
    stories: CompetitionStories
    _kept: BoundedCache[StatedBinding] = field(default_factory=_bindings)

    def of(self, run_id: str) -> RunNames:
        """Return the names of a run; none of an unknown one, and no match before the seal or of unreadable evidence."""
        return self.of_each([run_id])[run_id]

    def of_each(self, run_ids: Iterable[str]) -> dict[str, RunNames]:
        """Return the names of runs by id, as ``of`` does."""
        with self.database.read() as connection:
            read = runs.by_id(connection, RunRow, listed := list(run_ids))
        rows = {run_id: read.get(run_id) for run_id in listed}
        ids = {row["origin_id"] for row in rows.values() if row and row["kind"] == "competition" and row["origin_id"]}
        by_competition = self.stories.fixtures(sorted(ids)) if ids else {}
        bounds = {run_id: self._bound(row) for run_id, row in rows.items()}
        packs = {bound: self._replayed(*bound) for bound in {(one.pack_id, one.content_hash) for one in bounds.values()}}
        found = {}
        for run_id, row in rows.items():
            bound, wanted = bounds[run_id], set(bounds[run_id].fixture_ids)
            pack = packs[bound.pack_id, bound.content_hash]
            declared = by_competition.get(str(row and row["origin_id"])) or (() if pack is None else pack.manifest.fixtures)
            known = {one.fixture_id: one for one in declared if one.fixture_id in wanted}
            agents = [one["agent_id"] for one in row["lineage"]["agents"]] if row else []
            found[run_id] = RunNames(agents, bound.pack_id, pack is not None, bound.fixture_ids, known)
        return found

    def _bound(self, row: RunRow | None) -> StatedBinding:
        if row is None or row["status"] != RunStatus.SEALED:
            return _UNBOUND
        run_id = row["run_id"]
        return self._kept.get((run_id, row["evidence_hash"]), lambda: self._binding(run_id))

    def _binding(self, run_id: str) -> StatedBinding:
        with self.database.read() as connection:
            line = runs.line(connection, run_id, Part.EVENTS, 0)
        try:
            stated = parsed(line or b"null")["payload"]["binding"]
            return StatedBinding(stated["pack_id"], stated["content_hash"], tuple(stated["fixture_ids"]))
        except (EvidenceError, KeyError, TypeError):  # the page of the run says that its bytes are not the sealed ones
            return _UNBOUND

    def _replayed(self, pack_id: str | None, content_hash: str | None) -> Pack | None:
        """Return the pack that was replayed, if the catalog has it; ``None`` for another pack of its id."""
        if pack_id is None:
            return None
        try:
            pack = self.catalog.open(pack_id)
        except PackError:
            return None
        return pack if pack.content_hash == content_hash else None
