"""Grading bets: those that are on the tape of a pack become a run of the strategy ``bets``, and the rows are told beside it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from clvlab.agents.bets import Bet, bets_sha256
from clvlab.agents.registry import template
from clvlab.application.bets.fixtures import NoMatch
from clvlab.application.bets.placing import Position, positions_of
from clvlab.application.bets.reading import Reading, Record, read_record
from clvlab.application.bets.rows import BetRows, bet_rows
from clvlab.application.runs.perform import PerformedRun
from clvlab.application.runs.plan import Plan
from clvlab.errors import SourceError
from clvlab.law.closing import Window
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import SAFE_INTEGER
from clvlab.packs.matching.names import read_aliases
from clvlab.packs.reader import Pack

STRATEGY = "bets"
POLICY = PolicyEnvelope(
    max_stake=SAFE_INTEGER,
    min_prob_bps=0,
    max_prob_bps=10_000,
    require_quote=False,
    max_quote_age_s=SAFE_INTEGER // 1000,
    max_slippage_bps=10_000,
)
"""Refuses no bet for its size, price or age: it was placed. What had no price when it was, it refuses all the same."""


@dataclass(frozen=True)
class Grading:
    """Bets that were read and put on the tape of a pack, before they are scored.

    Attributes
    ----------
    pack, window
        What they are graded against, and what of it is scored.
    record
        The bets as they were told.
    positions
        Of each row where it lies, or why it does not.
    agent_id
        Under which the bets are sealed.
    """

    pack: Pack
    window: Window
    record: Record = field(repr=False)
    positions: tuple[Position | NoMatch, ...] = field(repr=False)
    agent_id: str = STRATEGY

    @cached_property
    def params(self) -> dict[str, Any]:
        """Parameters of the template ``bets``: bets on one side at one tick are one, with their stakes summed."""
        stakes: dict[Position, int] = defaultdict(int)
        for told, position in zip(self.record.rows, self.positions, strict=True):
            if isinstance(position, Position):
                stakes[position] += told.stake or 0
                if stakes[position] > SAFE_INTEGER:
                    at = f"tick {position.tick_seq} of fixture {position.fixture_id}"
                    raise SourceError(
                        f"row {told.row}: stakes on {position.side!r} at {at} sum to {stakes[position]:,} cents, too many"
                    )
        order = sorted(stakes, key=lambda one: (one.fixture_id, one.tick_seq, one.market_key.encode(), one.side.encode()))
        bets = [
            Bet(fixture_id=one.fixture_id, tick_seq=one.tick_seq, market_key=one.market_key, side=one.side, stake=stakes[one])
            for one in order
        ]
        return {"transcript": [bet.model_dump(mode="json") for bet in bets], "transcript_sha256": bets_sha256(bets)}

    @cached_property
    def plan(self) -> Plan:
        """The run: all fixtures of the pack that are open, so that the bets can be set against those that were passed over."""
        shut = dict(self.pack.held_out)
        open_ids = [fixture_id for fixture_id in self.pack.fixture_ids if fixture_id not in shut]
        agent = template(STRATEGY, self.params, agent_id=self.agent_id)
        return Plan(self.pack, [agent], self.window, POLICY, open_ids if shut else None)

    def rows(self, done: PerformedRun) -> BetRows:
        """Return the rows of the record beside what the run says of them."""
        return bet_rows(self.record, self.positions, done)


def plan_grading(bets: Any, pack: Pack, how: Reading, window: Window | None = None, agent_id: str = STRATEGY) -> Grading:
    """Read bets, and put them on the tape of a pack.

    Parameters
    ----------
    bets
        Path of a CSV file, or a frame of Polars, pandas or another library that hands out Arrow.
    pack
        What they are graded against.
    how
        What its columns mean, and how prices and times are written.
    window
        ``pre_match`` with a horizon of 60 s over all markets by default.
    agent_id
        Under which the bets are sealed.

    Raises
    ------
    SourceError, OddsError
        The record can't be read; the message names the value, and the argument that mends it.
    """
    window = window or Window()
    record = read_record(bets, how)
    positions = positions_of(record.rows, pack, window, read_aliases(how.team_aliases))
    return Grading(pack, window, record, tuple(positions), agent_id)
