"""Pictures of everything that shows itself, to be looked at: ``python -m tests.browser.gallery --out FOLDER [NAME...]``.

Each subject is a page, or a widget in JupyterLab; it is drawn light and dark, on a telephone, a tablet and a desk.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import polars as pl

import clvlab as cl
from clvlab.report import html
from clvlab.report.tearsheet import tear_sheet_page
from tests.browser import widgets
from tests.browser.jupyter import chromium
from tests.browser.widgets import WIDGETS

__all__ = ["SUBJECTS", "WIDTHS"]

WIDTHS = (360, 800, 1280)
THEMES = ("light", "dark")
GRID = {"warmup_ticks": [5, 10, 20, 40], "cooldown_s": [0, 3600, 43200]}


@cache
def _drift() -> cl.Backtest:
    return cl.backtest("season", "cumulative-drift")


@cache
def _baseline() -> cl.Backtest:
    return cl.backtest("season", "baseline")


@cache
def _searched() -> cl.Sweep:
    return cl.sweep("season", "cumulative-drift", GRID, progress=False)


def _shown(result: object) -> str:
    return html.page("gallery", result._repr_html_())  # type: ignore[attr-defined]


def _silent() -> cl.Backtest:
    return cl.backtest("starter", window=cl.Window("none", market_allowlist=("NOTHING",)))


def _graded() -> object:
    """Bets of every fixture of a pack, with some that can't be graded."""
    fixtures = cl.open_pack("season").source.fixtures.head(60)
    rows = fixtures.with_row_index("number").select(
        pl.from_epoch(pl.col("kickoff_ts_ms") - 3_600_000, time_unit="ms").dt.replace_time_zone("UTC").alias("placed at"),
        pl.when(pl.col("number") % 20 == 7).then(pl.lit("Nobody - Nowhere")).otherwise("names").alias("match"),
        pl.lit("1X2").alias("market"),
        pl.when(pl.col("number") % 3 == 0).then(pl.lit("home")).otherwise(pl.lit("away")).alias("pick"),
        pl.lit(2.4).alias("odds"),
        pl.format("£{}", 5 + pl.col("number") % 4).alias("stake"),
        pl.when(pl.col("number") % 2 == 0).then(pl.lit("Ash")).otherwise(pl.lit("Elm")).alias("bookmaker"),
    )
    return cl.grade_bets(rows, "season")


SUBJECTS: dict[str, Callable[[], str]] = {
    "backtest": lambda: _shown(_drift()),
    "backtest-few": lambda: _shown(cl.backtest("starter", "cumulative-drift", fixtures=[90000000, 90000001, 90000002])),
    "backtest-silent": lambda: _shown(_silent()),
    "bets": lambda: _shown(_graded()),
    "report": lambda: _shown(_drift().report),
    "pack": lambda: _shown(cl.open_pack("season")),
    "proof-card": lambda: _shown(_drift().run.proof_card()),
    "verification": lambda: _shown(_drift().run.verify()),
    "comparison": lambda: _shown(cl.compare([_drift(), _baseline()])),
    "leaderboard": lambda: _shown(cl.leaderboard([_drift(), _baseline()])),
    "audit": lambda: _shown(cl.lookahead_audit("baseline", "starter")),
    "sweep": lambda: _shown(_searched()),
    "path": lambda: _shown(cl.open_pack("season").price_path()),
    "overfitting": lambda: _shown(_searched().overfitting()),
    "walk": lambda: _shown(cl.walk_forward("season", "cumulative-drift", GRID, folds=4, progress=False)),
    "plan": lambda: _shown(cl.Lab().plan("season", "cumulative-drift", GRID, hold_out=0.3)),
    "tear-sheet": lambda: tear_sheet_page(_drift().source),
}
"""Name of each subject, and what makes its page."""


def photographs(names: list[str], folder: Path) -> Iterator[Path]:
    """Draw subjects in a browser, and return the path of each picture as it is done."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"])
        for name in [name for name in names if name in SUBJECTS]:
            content = SUBJECTS[name]()
            (folder / f"{name}.html").write_text(content, encoding="utf-8")
            for theme in THEMES:
                for width in WIDTHS:
                    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=theme)  # type: ignore[arg-type]
                    page.set_content(content)
                    path = folder / f"{name}-{width}-{theme}.png"
                    page.screenshot(path=path, full_page=True)
                    page.close()
                    yield path
        if live := [name for name in names if name in WIDGETS]:
            yield from widgets.photographs(browser, live, folder)
        browser.close()


def main() -> None:
    """Draw the subjects named on the command line, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.gallery", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the pictures")
    every = [*SUBJECTS, *WIDGETS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(every)}; all by default")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for path in photographs(asked.names or every, asked.out):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
