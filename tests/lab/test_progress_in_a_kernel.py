"""Progress and interrupts in the kernel of a notebook, a process of its own."""

import re
from contextlib import contextmanager

import pytest

from tests.waiting import PATIENCE_S

client = pytest.importorskip("jupyter_client")
pytest.importorskip("ipykernel")

SETUP = """
import os, sys, time
os.environ["CLVLAB_PROGRESS_AFTER_S"] = "{after_s}"
os.chdir({folder!r})
import clvlab as cl
import polars as pl
from clvlab.base import progress
from clvlab.packs.synthetic import Recipe, build
from pathlib import Path

class Slow(cl.TickAgent):
    last_ms = cl.open_pack("starter").ticks([90000000])["ts_ms"].max()

    def on_tick(self, book):
        if book.ts_ms > self.last_ms:
            time.sleep({pause_s})

def stopping(stage):
    "Make the work wait where it reports a stage, until it is interrupted."
    told = progress.Watch.__call__
    def waits(watch, name, done=0, total=0):
        told(watch, name, done, total)
        while name == stage and done:
            time.sleep(0.05)
    progress.Watch.__call__ = waits
    return lambda: setattr(progress.Watch, "__call__", told)

odds = [
    (f"m{{n}}", f"2026-03-01T{{h}}:00Z", "WINNER||", side, 1.9) for n in range(3) for h in (10, 11) for side in ("home", "away")
]
frame = pl.DataFrame(odds, schema=["fixture", "time", "market", "side", "odds"], orient="row")
"""


class Kernel:
    def __init__(self, manager, channel):
        self._manager, self._channel = manager, channel
        self.error = ""

    def run(self, code, interrupt_at=None):
        """Run a cell, interrupted once it shows a text; return how it ended, and what it displayed in order."""
        sent, shown = self._channel.execute(code), []
        while True:
            message = self._channel.get_iopub_msg(timeout=PATIENCE_S)
            if message["parent_header"].get("msg_id") != sent:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind in ("display_data", "update_display_data", "execute_result"):
                shown.append((kind, content["data"]["text/plain"]))
                if interrupt_at is not None and re.search(interrupt_at, shown[-1][1]):
                    self._manager.interrupt_kernel()
                    interrupt_at = None
            elif kind == "error":
                shown.append((kind, content["ename"]))
                self.error = "\n".join(content["traceback"])
            elif kind == "status" and content["execution_state"] == "idle":
                return shown


@contextmanager
def kernel(folder, after_s):
    manager = client.KernelManager(kernel_name="python3")
    manager.start_kernel()
    channel = manager.client()
    channel.start_channels()
    try:
        channel.wait_for_ready(timeout=PATIENCE_S)
        made = Kernel(manager, channel)
        found = made.run(SETUP.format(after_s=after_s, folder=str(folder), pause_s=0.3))
        assert "error" not in dict(found), found
        yield made
    finally:
        channel.stop_channels()
        manager.shutdown_kernel(now=True)


def test_quick_cells_display_nothing_but_their_results(tmp_path):
    with kernel(tmp_path, 600) as cells:
        shown = cells.run(
            "pack = cl.import_odds('csv', frame, 'mine'); run = cl.backtest('starter'); run.run.verify()\n"
            "cl.sweep('starter', 'baseline', {'stake': [1, 2]}).trials"
        )

    assert shown == [("execute_result", "2")]


def test_own_agents_show_fixtures_and_an_interrupt_ends_them(tmp_path):
    with kernel(tmp_path, 0) as cells:
        shown = cells.run("cl.backtest('starter', Slow())", interrupt_at="fixtures decided, [1-9] of")

        assert shown[-1] == ("error", "KeyboardInterrupt")
        bars = [text for kind, text in shown if kind == "update_display_data"]
        assert any(re.search(r"fixtures decided, [1-9]+ of 12 \([0-9.]+%\), ", text) for text in bars)
        assert bars[-1].startswith("Backtest on starter: interrupted after ")
        assert [kind for kind, _ in shown].count("display_data") == 1
        assert list(tmp_path.iterdir()) == []

        again = cells.run("cl.backtest('starter').run.verify().passed")
        assert again[-1] == ("execute_result", "True")


@pytest.mark.parametrize(
    ("cell", "stage"),
    [
        ("cl.import_odds('csv', frame, 'mine').pack_id", "writing fixtures"),
        pytest.param(
            "cl.sweep('starter', 'baseline', {'stake': [1, 2, 3]}).trials", "scoring settings", marks=pytest.mark.long
        ),
        ("cl.backtest('starter').tear_sheet(resamples=100, draws=10)._repr_html_()[:4]", "drawing pictures"),
    ],
)
def test_an_interrupt_of_a_cell_leaves_nothing_and_the_cell_works_again(cell, stage, tmp_path):
    with kernel(tmp_path, 0) as cells:
        cells.run(f"go_on = stopping({stage!r})")
        shown = cells.run(cell, interrupt_at=f"{stage}, [1-9](,| of)")

        assert shown[-1] == ("error", "KeyboardInterrupt")
        assert any(": interrupted after " in text for kind, text in shown if kind == "update_display_data")
        assert list(tmp_path.iterdir()) == []

        cells.run("go_on()")
        assert cells.run(cell)[-1][0] == "execute_result", cells.error
