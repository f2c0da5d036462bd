from pathlib import Path

import polars as pl

import clvlab as cl

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "reading-a-tear-sheet.md"


def test_every_figure_of_a_tear_sheet_has_its_question():
    text = PAGE.read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    explained = {name.strip() for row in rows if len(row) == 2 for name in row[0].removeprefix("| ").split(";")}
    figures = cl.backtest("starter", "cumulative-drift").tear_sheet(resamples=50, draws=2).frame["figure"]

    assert figures.filter(~figures.is_in(pl.Series(sorted(explained)).implode())).to_list() == []
