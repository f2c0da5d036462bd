"""Draw the pictures of the explanation pages again: ``python docs/explanation/pictures/draw.py [folder]``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

import clvlab as cl
from clvlab.report import axes
from clvlab.report.breakdowns import dated_pictures
from clvlab.report.explorer import page as still
from clvlab.statistics import cluster_mean

_SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="520" color="#808080"'
_ROUNDS, _FIXTURES = 400, 60


def naive_and_clustered(seed: int = 0) -> dict[int, tuple[float, float]]:
    """Give, by decisions a fixture, how often 95 % intervals of each kind miss a mean of 0: independent, clustered."""
    rng = np.random.default_rng(seed)
    missed = {}
    for size in (1, 3, 10, 30):
        ids = np.repeat(np.arange(_FIXTURES), size)
        naive = clustered = 0
        for _ in range(_ROUNDS):
            clv = pl.Series(rng.normal(0, 20, _FIXTURES)[ids] + rng.normal(0, 30, ids.size))
            found = cluster_mean(clv, pl.Series(ids))
            naive += abs(clv.mean()) > 1.96 * clv.std() / clv.len() ** 0.5
            clustered += not found.low <= 0 <= found.high
        missed[size] = (naive / _ROUNDS, clustered / _ROUNDS)
    return missed


def draw_missed(ax: object) -> None:
    missed = naive_and_clustered()
    places = np.arange(len(missed))
    for shift, kind, colour in ((-0.2, 0, axes.RED), (0.2, 1, axes.BLUE)):
        name = ("decisions as if independent", "interval over fixtures")[kind]
        ax.bar(places + shift, [100 * both[kind] for both in missed.values()], 0.38, color=colour, label=name)
    ax.axhline(5, color=axes.GREY, linewidth=0.8)
    ax.set_xticks(places, [str(size) for size in missed])
    ax.set(xlabel="decisions per fixture", ylabel="false alarms, % (promised: 5)", title="An agent without any edge")
    ax.legend()


def main(folder: Path) -> None:
    season = cl.backtest("season", "cumulative-drift")
    plot, view = season.plot, season.explore(90000167, position=70).view
    pictures = {"naive-t": draw_missed, "clv": plot.clv, "by-time": plot.by_time, "permutation": plot.permutation}
    for name, draw in pictures.items():
        drawn = str(axes.svg(draw, name.replace("-", " "), (5.2, 2.9)))
        (folder / f"{name}.svg").write_text(drawn.replace("<svg", _SVG, 1), encoding="utf-8")
    sheet = season.tear_sheet()
    by_date = str(dated_pictures(sheet.scored, sheet.level)[0]).replace(' width="100%"', "", 1)
    (folder / "by-date.svg").write_text(by_date.replace("<svg", _SVG, 1), encoding="utf-8")
    explorer = str(axes.svg(lambda ax: still.draw(view, ax), "explorer", (8.4, 3.6)))
    merkle = str(cl.backtest("starter", "cumulative-drift").run.merkle_path(5).svg())
    for name, drawn in {"explorer": explorer, "merkle-path": merkle}.items():
        (folder / f"{name}.svg").write_text(drawn.replace("<svg", _SVG.replace("520", "760"), 1), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
