"""Anchoring on a chain of one's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

from solders.keypair import Keypair

from clvlab.anchor.devchain import GENESIS_HASH, DevChain, server
from clvlab.anchor.settings import AnchorSettings
from clvlab.anchor.solana import SolanaAnchor
from clvlab.proof.canonical import sha256

__all__ = ["memos"]
from tests.chains import MemoryRecords


def memos(folder: Path, count: int) -> Callable[[], dict[str, Any]]:
    """Write memos of several runs to a chain on loopback, one after the other, each read back; a first one warms up."""
    key = Keypair()
    path = folder / f"{key.pubkey()}.json"
    path.write_text(json.dumps(list(bytes(key))))
    chain = DevChain()
    chain.airdrop(str(key.pubkey()))
    listening = server(chain)
    Thread(target=listening.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{listening.server_port}"
    settings = AnchorSettings(rpc_url=url, cluster="localnet", keypair=path, genesis_hash=GENESIS_HASH, poll_s=0.001)
    anchor = SolanaAnchor(settings, MemoryRecords()).__enter__()
    anchor.commit("run_first", sha256(b"first"))

    def job() -> dict[str, Any]:
        found = [anchor.commit(f"run_{number}", sha256(b"%d" % number)).status for number in range(count)]
        return {"passed": found == ["anchored"] * count and len(chain.memos()) == count + 1}

    return job
