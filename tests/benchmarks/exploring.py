"""The explorer's job: a market of very many messages, moved through as a person with a slider does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from clvlab.lab.widgets.explorer import ExplorerWidget
from clvlab.law.schema import TICKS
from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.reader import load_pack
from clvlab.packs.writer import write_pack
from clvlab.report.explorer.exploration import Exploration
from tests.benchmarks.agents import Every
from tests.factories import performed

__all__ = ["MESSAGES", "MOVES", "explore"]

MESSAGES = 100_000
MOVES = 20
_START_MS = 1_767_225_600_000


def explore(_: Path, messages: str, decisions: str) -> Callable[[], dict[str, Any]]:
    """Move the replay through a market of three sides: view, figure, summary and record, and what is sent to the browser."""
    with tempfile.TemporaryDirectory(prefix="clvlab-explore-") as name:
        backtest = performed(load_pack(_written(Path(name) / "one", int(messages))), Every(int(decisions)))
        explorer = Exploration(backtest)
    shell = ExplorerWidget(explorer)
    shell.following.click()

    def job() -> dict[str, Any]:
        for position in np.linspace(messages_in(explorer) // 2, messages_in(explorer), MOVES, dtype=int):
            shell.slider.value = int(position)
        return {"messages": messages_in(explorer), "drawn": sum(len(trace.x) for trace in shell.figure.data)}

    return job


def messages_in(explorer: Exploration) -> int:
    return explorer.market.messages.height


def _written(folder: Path, messages: int) -> Path:
    """Write a pack of one fixture and one market: a walk of one side, suspended now and then."""
    rng = np.random.default_rng(3)
    first = np.clip(4000 + np.cumsum(rng.integers(-5, 6, messages)), 500, 6000)
    suspended = rng.random(messages) < 0.01
    ts_ms = _START_MS + 1000 * np.arange(messages)
    columns = {"fixture_id": 1, "tick_seq": np.arange(messages), "ts_ms": ts_ms, "in_running": False, "market_key": "M||"}
    sides = [
        pl.DataFrame(columns | {"side": side, "prob_bps": probs, "odds_milli": None, "suspended": suspended})
        for side, probs in (("a", first), ("b", np.full(messages, 3000)), ("c", 7000 - first))
    ]
    price = pl.when(~pl.col("suspended")).then("prob_bps").alias("prob_bps")
    ticks = pl.concat(sides).with_columns(price).select(pl.col(name).cast(dtype) for name, dtype in TICKS.items())
    fixture = Fixture(fixture_id=1, names=("A", "B"), kickoff_ts_ms=int(ts_ms[-1]) + 60_000)
    write_pack(ticks, PackManifest(pack_id="one", provenance="synthetic-benchmark", fixtures=(fixture,)), folder)
    return folder
