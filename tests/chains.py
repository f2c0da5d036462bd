"""A chain on loopback for tests."""

import json
from contextlib import contextmanager
from dataclasses import dataclass

from solders.keypair import Keypair

from clvlab.anchor.devchain import GENESIS_HASH, DevChain, serving
from clvlab.anchor.records import AnchorRecords, _expect
from clvlab.anchor.settings import AnchorSettings
from clvlab.anchor.solana import SolanaAnchor
from tests.waiting import PATIENCE_S

ASKED_ONCE = {"poll_s": 2 * PATIENCE_S}
"""Settings of a caller who waits for every answer, and asks no second time where there is none."""


class MemoryRecords:
    """Records of one process."""

    def __init__(self):
        self._records = {}

    def get(self, run_id):
        return self._records.get(run_id)

    def put(self, record, *, replaces):
        _expect(self.get(record.run_id), replaces, record.run_id)
        self._records[record.run_id] = record


@dataclass
class Local:
    """A chain of our own, and how to reach it with one key."""

    chain: DevChain
    url: str
    key: Keypair
    settings: AnchorSettings

    def anchor(self, records: AnchorRecords | None = None, **changed) -> SolanaAnchor:
        return SolanaAnchor(self.settings.model_copy(update=changed), MemoryRecords() if records is None else records)


@contextmanager
def local_chain(folder):
    """A chain with one key that has money."""
    key = Keypair.from_seed(bytes(range(32)))
    path = folder / "key.json"
    path.write_text(json.dumps(list(bytes(key))))
    chain = DevChain()
    chain.airdrop(str(key.pubkey()))
    with serving(chain) as url:
        settings = AnchorSettings(
            rpc_url=url,
            cluster="localnet",
            keypair=path,
            genesis_hash=GENESIS_HASH,
            poll_s=0.002,
            timeout_s=60.0,
            patience_s=PATIENCE_S,
        )
        yield Local(chain, url, key, settings)
