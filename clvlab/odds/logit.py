"""Log-odds as integers, from a committed table: the same on every machine, where a logarithm may differ in its last bit."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import polars as pl

MICRO = 1_000_000


@lru_cache(maxsize=1)
def micro_logits() -> pl.Series:
    """Return ln(p / (1 - p)) x 10^6, rounded, for p = 0..10000 basis points; 0 and 10000 stand as 1 and 9999."""
    text = files("clvlab.odds").joinpath("micro_logits.txt").read_text(encoding="ascii")
    return pl.Series("micro_logit", [int(line) for line in text.split()], dtype=pl.Int32)


@lru_cache(maxsize=1)
def micro_logit_table() -> tuple[int, ...]:
    """Return the same as plain integers, by basis points, for one look-up after the other."""
    return tuple(micro_logits())


def micro_logits_of(prob_bps: pl.Series) -> pl.Series:
    """Look up the log-odds of each probability; null stays null."""
    return micro_logits().gather(prob_bps)
