"""The widgets as subjects of the gallery: a cell that shows each of them, and what a person then does, in JupyterLab."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.browser.jupyter import Requests, jupyterlab
from tests.browser.pages import THEMES, open_notebook, run_all, set_theme

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["WIDGETS", "WIDTHS", "Widget", "notebook", "photographs"]

WIDTHS = (360, 800, 1280)
_FRAME = 170  # pixels that JupyterLab keeps beside an output
_DRIFT = 'import clvlab as cl\nbt = cl.backtest("season", "cumulative-drift")\n'


@dataclass(frozen=True)
class Widget:
    """A cell, the element that it shows, and what is done there before the picture is taken."""

    code: str
    selector: str
    act: Callable[[Page], object] = lambda _: None


def _next_decision(page: Page) -> None:
    page.get_by_role("button", name="Next decision").click()
    page.locator(".clvlab-record h4").wait_for()


def _pick(name: str) -> Callable[[Page], object]:
    return lambda page: page.locator(f"[data-pick='{name}']").first.click()


WIDGETS = {
    "explorer": Widget(_DRIFT + "bt.explore()", ".clvlab-explorer", _next_decision),
    "explorer-replay": Widget(_DRIFT + "bt.explore(90000167, position=70)", ".clvlab-explorer", _next_decision),
    "evidence": Widget(_DRIFT + "bt.run.browse()", ".clvlab-browser", _pick("3")),
    "merkle": Widget(_DRIFT + "bt.run.merkle_path(5)", ".clvlab-merkle", _pick("3")),
    "playground": Widget(_DRIFT + 'bt.run.tamper().attack("raise a stake")', ".clvlab-playground"),
    "plots": Widget(_DRIFT + "bt.plot.clv(); bt.plot.by_time();", ".jp-OutputArea-output svg"),
    "heatmap": Widget(
        'import clvlab as cl\ngrid = {"warmup_ticks": [5, 10, 20, 40], "cooldown_s": [0, 3600, 43200]}\n'
        'cl.sweep("starter", "cumulative-drift", grid, progress=False).heatmap();',
        ".jp-OutputArea-output svg",
    ),
}
"""Name of each widget, and how it is brought on the screen."""


def notebook(code: str) -> str:
    """Return a notebook of one cell."""
    cell = {"cell_type": "code", "id": "only", "execution_count": None, "metadata": {}, "outputs": [], "source": code}
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"cells": [cell], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def photographs(browser: Browser, names: list[str], folder: Path) -> Iterator[Path]:
    """Draw widgets in a JupyterLab of their own, and return the path of each picture as it is done."""
    with tempfile.TemporaryDirectory() as place:
        root, home = Path(place, "root"), Path(place, "home")
        root.mkdir()
        home.mkdir()
        for name in names:
            (root / f"{name}.ipynb").write_text(notebook(WIDGETS[name].code), encoding="utf-8")
        with jupyterlab(root, home) as lab:
            for name in names:
                page = open_notebook(browser, lab, f"{name}.ipynb", Requests())
                if errors := run_all(page):
                    raise RuntimeError(f"{name}: {errors}")
                yield from _pictures(page, name, folder)
                page.close()


def _pictures(page: Page, name: str, folder: Path) -> Iterator[Path]:
    widget = WIDGETS[name]
    page.locator(widget.selector).first.wait_for()
    widget.act(page)
    for width in WIDTHS:
        page.set_viewport_size({"width": width + _FRAME, "height": 1600})
        for theme in THEMES:
            set_theme(page, theme)
            page.wait_for_timeout(700)  # figures follow the width a moment later
            path = folder / f"{name}-{width}-{theme}.png"
            page.locator(".jp-Cell-outputArea").first.screenshot(path=path, animations="disabled")
            yield path
