"""Which markets an agent looks at."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from clvlab.errors import AgentError
from clvlab.law.clv import is_allowed
from clvlab.law.tape import Tape


def checked_markets(markets: Sequence[str]) -> tuple[str, ...]:
    """Return market-key prefixes as a tuple; a single text is refused, as it would be read letter by letter."""
    if isinstance(markets, str) or not all(isinstance(prefix, str) for prefix in markets):
        raise AgentError(f"markets must be a tuple of prefixes, such as ('1X2',), not {markets!r:.80}")
    return tuple(markets)


def in_markets(tape: Tape, *prefixes: tuple[str, ...]) -> pl.DataFrame:
    """Return the series of the tape, with their number, whose market starts with one of each group of prefixes."""
    return tape.series.with_row_index("series").filter(*(is_allowed(group) for group in prefixes))
