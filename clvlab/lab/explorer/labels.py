"""What fixtures are called, so that a person finds one: who plays, when, and its number."""

from __future__ import annotations

import polars as pl

from clvlab.lab.explorer.figure import LATEST_MS
from clvlab.words import TO_DAY


def fixture_labels(fixtures: pl.DataFrame) -> pl.Series:
    """Return a label a fixture: the teams, or the number where they are not known, and the date in UTC where it is.

    Parameters
    ----------
    fixtures
        (fixture_id, names, kickoff_ts_ms).

    Examples
    --------
    >>> row = {"fixture_id": 7, "names": "Heath - Glen", "kickoff_ts_ms": 1_767_387_600_000}
    >>> fixture_labels(pl.DataFrame(row)).to_list()
    ['Heath - Glen, 2 Jan 2026']
    """
    names = pl.when(pl.col("names").fill_null("") == "").then(pl.format("fixture {}", "fixture_id")).otherwise("names")
    date = pl.from_epoch(pl.col("kickoff_ts_ms").clip(None, LATEST_MS), time_unit="ms").dt.strftime(f", {TO_DAY}")
    return fixtures.select(pl.concat_str(names, date.fill_null("")).alias("label")).to_series()


def matching(fixtures: pl.DataFrame, asked: str) -> pl.DataFrame:
    """Keep the fixtures whose label or number holds every word that was asked for, whatever its case."""
    held = pl.concat_str(pl.col("fixture_id").cast(pl.String), pl.lit(" "), "label").str.to_lowercase()
    words = asked.lower().split()
    return fixtures.filter(pl.all_horizontal(held.str.contains(word, literal=True) for word in words)) if words else fixtures
