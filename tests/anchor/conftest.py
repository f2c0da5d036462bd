import json
from dataclasses import dataclass

import pytest
from solders.keypair import Keypair

from clvlab.anchor.devchain import GENESIS_HASH, DevChain
from clvlab.anchor.devserver import serving
from clvlab.anchor.records import AnchorRecords, MemoryRecords
from clvlab.anchor.settings import AnchorSettings
from clvlab.anchor.solana import SolanaAnchor


@dataclass
class Local:
    """A chain of our own, and how to reach it with one key."""

    chain: DevChain
    url: str
    key: Keypair
    settings: AnchorSettings

    def anchor(self, records: AnchorRecords | None = None, **changed) -> SolanaAnchor:
        fields = {name: getattr(self.settings, name) for name in self.settings.__slots__}
        return SolanaAnchor(AnchorSettings(**fields | changed), MemoryRecords() if records is None else records)


@pytest.fixture
def local(tmp_path):
    key = Keypair.from_seed(bytes(range(32)))
    path = tmp_path / "key.json"
    path.write_text(json.dumps(list(bytes(key))))
    chain = DevChain()
    chain.airdrop(str(key.pubkey()))
    with serving(chain) as url:
        settings = AnchorSettings(url, "localnet", path, genesis_hash=GENESIS_HASH, poll_s=0.002, timeout_s=1.0, patience_s=5.0)
        yield Local(chain, url, key, settings)
