"""``bets``: replay bets that somebody placed, from a record that says when, on what and for how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from clvlab.agents.markets import in_markets
from clvlab.agents.recorded import on_the_tape
from clvlab.agents.template import Config, limit
from clvlab.law.actions import MAX_NAME_BYTES
from clvlab.law.schema import DECISIONS, SAFE_INTEGER, Action
from clvlab.law.tape import Tape
from clvlab.proof.canonical import canonical, sha256

MAX_BETS = 100_000  # the transcript stands in the first line of the evidence
_MAX_INT32 = 2**31 - 1
_Name = Annotated[str, Field(min_length=1), limit(MAX_NAME_BYTES)]


class Bet(BaseModel):
    """What was bet on one side of a market at one tick.

    Attributes
    ----------
    fixture_id, tick_seq
        The last tick that was not later than the bet.
    market_key, side
        What was backed.
    stake
        Integer units, such as cents; the template's ``stake`` if null.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    fixture_id: int = Field(ge=-SAFE_INTEGER, le=SAFE_INTEGER)
    tick_seq: int = Field(ge=0, le=_MAX_INT32)
    market_key: _Name
    side: _Name
    stake: int | None = Field(default=None, ge=1, le=SAFE_INTEGER)


def bets_sha256(bets: Sequence[Bet]) -> str:
    """Hash a transcript: SHA-256 of the canonical JSON array of its bets, every key written, in their order."""
    return sha256(canonical([bet.model_dump(mode="json") for bet in bets]))


class BetsConfig(Config):
    """Parameters of ``bets``."""

    by_fixture: ClassVar[bool] = False  # a bet on a fixture that is not on the tape is refused, and never lost
    repeats: ClassVar[bool] = True

    transcript: Annotated[tuple[Bet, ...], Field(strict=False, max_length=MAX_BETS)] = Field(
        default=(), description="What was bet; each has fixture_id, tick_seq, market_key, side and stake."
    )
    transcript_sha256: str | None = Field(default=None, description="Digest that the transcript must have, or null.")

    @field_validator("transcript")
    @classmethod
    def _each_once(cls, bets: tuple[Bet, ...]) -> tuple[Bet, ...]:
        seen: set[tuple[int, int, str, str]] = set()
        for number, bet in enumerate(bets):
            key = (bet.fixture_id, bet.tick_seq, bet.market_key, bet.side)
            if key in seen:
                raise ValueError(f"bet {number} repeats the fixture, tick, market and side {key}: add up their stakes")
            seen.add(key)
        return bets

    @field_validator("transcript_sha256")
    @classmethod
    def _matching(cls, stated: str | None, info: ValidationInfo) -> str | None:
        found = bets_sha256(info.data["transcript"]) if stated is not None and "transcript" in info.data else stated
        if stated != found:
            raise ValueError(f"the transcript's digest is {found}")
        return stated


def decide(tape: Tape, config: BetsConfig) -> pl.DataFrame:
    """Return the bets of a record as they were placed, and nothing about fixtures on which there was no bet.

    A record is made beforehand, by ``clvlab.grade_bets`` or by hand, and stands whole in the sealed configuration, so that a
    run can be repeated without the file that it came from. What was paid is not part of it: a bet is scored at the price of
    the tape. Bets outside ``markets`` are left out.

    A fixture, tick, market or side that is not on the tape, or a market not yet quoted at the tick, is refused. A tape
    without a content hash may still grow, as a prefix of another or a live one does: there a tick later than the last one is
    not refused but left for later.

    Raises
    ------
    AgentError
        The transcript names something that the tape does not have.
    """
    rows = [
        bet.model_dump() | {"action": Action.BACK.value, "stake": bet.stake or config.stake, "number": number}
        for number, bet in enumerate(config.transcript)
    ]
    placed = pl.DataFrame(rows, schema=DECISIONS | {"number": pl.Int64})
    if placed.height:
        market_rows = in_markets(tape, config.markets).select("fixture_id", "market_key", "side")
        placed = on_the_tape(tape, placed, "bets").join(
            market_rows, on=["fixture_id", "market_key", "side"], how="semi", maintain_order="left"
        )
    return placed.select(*DECISIONS)
