"""A run over messages of TxLINE, and the proofs of its prices as their provider would give them."""

from pathlib import Path

import orjson

import clvlab as cl
from clvlab.arena.runs.provider import prove
from clvlab.packs.lookup import open_pack
from clvlab.runs.run_folder import keep
from clvlab.sources.devfeeds.txline import proof_in
from clvlab.sources.importer import import_source

BLOCK_MS = 300_000
START_MS = 1_783_117_800_000


@cl.strategy
def everything(ticks):
    """Enter the first side of every message."""
    return ticks.unique(("fixture_id", "tick_seq"), keep="first", maintain_order=True)


def message(number, fixture_id, **changes):
    """A message whose probabilities follow from its prices, as TxLINE's do."""
    over = 1500 + 7 * number % 1000
    prices = [over, round(1 / (1 - 1 / (over / 1000)) * 1000)]
    return {
        "FixtureId": fixture_id, "MessageId": f"{fixture_id}:{number:05}", "Ts": START_MS + 20_000 * number,
        "Bookmaker": "TXLineStablePriceDemargined", "BookmakerId": 10021, "SuperOddsType": "OVERUNDER", "GameState": None,
        "InRunning": False, "MarketParameters": "line=2.5", "MarketPeriod": None, "PriceNames": ["over", "under"],
        "Prices": prices, "Pct": [f"{thousandths // 1000}.{thousandths % 1000:03}" for thousandths in map(_pct, prices)],
    } | changes  # fmt: skip


def _pct(price):
    return (200_000_000 + price) // (2 * price)


class Provider:
    """Gives the proofs of messages; ``away`` names those that have none yet."""

    name, proofs = "txline", "scored"

    def __init__(self, messages, away=()):
        self.away, self.asked, self._batches, self._own = set(away), 0, {}, {raw["MessageId"]: raw for raw in messages}
        for raw in messages:
            self._batches.setdefault(raw["Ts"] // BLOCK_MS, {}).setdefault(raw["FixtureId"], []).append(raw)

    def ask(self, message_id, ts_ms):
        self.asked += 1
        if message_id in self.away:
            return None
        return orjson.dumps(proof_in(self._batches[ts_ms // BLOCK_MS], self._own[message_id]))

    def proving(self):
        return self

    def __enter__(self):
        return self.ask

    def __exit__(self, *_):
        pass


def proved_run(folder, messages):
    """Seal a run that enters on all messages, and return its folder, its pack and its provider."""
    folder = Path(folder)
    (folder / "odds_1.jsonl").write_bytes(b"".join(orjson.dumps(raw) + b"\n" for raw in messages))
    import_source("txline", [folder / "odds_1.jsonl"], folder / "odds")
    done = cl.backtest(str(folder / "odds"), everything)
    return keep(done.run.source, folder / "runs"), open_pack(str(folder / "odds")), Provider(messages)


def proofs_in(folder, messages):
    """Return a run's folder, its pack and the file of its proofs."""
    run, pack, provider = proved_run(folder, messages)
    lines, missing = prove(run, pack, provider)
    assert missing == 0
    return run, pack, lines
