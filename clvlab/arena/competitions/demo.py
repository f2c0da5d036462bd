"""The demo: a small competition over a bundled pack, from roster to proof card."""

from __future__ import annotations

from dataclasses import dataclass

from clvlab.api.answer import pick
from clvlab.api.competitions import DemoResponse
from clvlab.arena.competitions.competitions import Competitions
from clvlab.arena.competitions.requests import AgentEntry, CompetitionConfig, CompetitionStatus
from clvlab.errors import AlreadyRegisteredError, NotStartableError, RosterFrozenError, UnknownPackError
from clvlab.law.schema import LAW_VERSION
from clvlab.packs.catalog import Catalog
from clvlab.proof.canonical import canonical, sha256

_OWNER = "did:clvlab:demo"
_PACK = "starter"
_STRATEGIES = ("baseline", "cumulative-drift")


@dataclass(frozen=True)
class Demo:
    competitions: Competitions
    catalog: Catalog

    def run(self) -> DemoResponse:
        """Run the demo, or return the existing one; each pack and law has one demo. Blocks.

        Raises
        ------
        UnknownPackError
            The catalog is empty.
        """
        packs = sorted(self.catalog.packs(), key=lambda pack: (pack.pack_id != _PACK, pack.pack_id))
        if not packs:
            raise UnknownPackError("the catalog has no verified pack for a demo")
        pack = packs[0]
        identity = {"content_hash": pack.content_hash, "law": LAW_VERSION, "pack_id": pack.pack_id, "roster": list(_STRATEGIES)}
        competition_id = "comp_" + sha256(canonical(identity)).removeprefix("sha256:")[:32]
        config = CompetitionConfig(
            competition_type="arena",
            source_mode="replay",
            market_scope="demo",
            roster_size=len(_STRATEGIES),
            pack_id=pack.pack_id,
        )
        self.competitions.create(_OWNER, config, competition_id)
        self._fill_and_start(competition_id)
        return pick(DemoResponse, self.competitions.state(competition_id))

    def _fill_and_start(self, competition_id: str) -> None:
        try:
            for strategy in _STRATEGIES:
                entry = AgentEntry(agent_id=f"demo-{strategy}", strategy=strategy)
                try:
                    self.competitions.register(_OWNER, competition_id, entry)
                except AlreadyRegisteredError:  # by an earlier request
                    continue
            self.competitions.start(_OWNER, competition_id)
        except (RosterFrozenError, NotStartableError):
            if self.competitions.state(competition_id)["status"] in (CompetitionStatus.DRAFT, CompetitionStatus.OPEN):
                raise
            self.competitions.settle(competition_id)
