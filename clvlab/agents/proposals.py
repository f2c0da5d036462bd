"""``llm`` and ``bets``: replay recorded proposals without a model or a network."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal

import polars as pl
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from clvlab.agents.template import Config, in_markets, limit
from clvlab.errors import AgentError
from clvlab.law.actions import MAX_NAME_BYTES, MAX_REASON_BYTES
from clvlab.law.schema import DECISIONS, SAFE_INTEGER, Action
from clvlab.law.tape import Tape, last_row_at
from clvlab.proof.canonical import canonical, decimal_text, sha256

# Transcripts: recorded proposals, checked against their tape.


def on_the_tape(tape: Tape, spoken: pl.DataFrame, strategy: str) -> pl.DataFrame:
    """Return recorded proposals up to the tape's end; ``AgentError`` for a tick, market or side that the tape lacks."""
    last = tape.messages.group_by("fixture_id").agg(last=pl.col("tick_seq").max())
    fixtures = tape.fixtures.select("fixture_id").join(last, on="fixture_id", how="left").with_columns(known=pl.lit(value=True))
    found = spoken.join(fixtures, on="fixture_id", how="left", maintain_order="left")
    _refuse(strategy, found.filter(pl.col("known").is_null()), "fixture {fixture_id} is not on the tape")
    # A tape without a content hash, such as a prefix or a live tape, may still grow. Later entries wait for their tick.
    if tape.binding.content_hash is None:
        found = found.filter(pl.col("tick_seq") <= pl.col("last"))
    at = ["fixture_id", "tick_seq"]
    _refuse(strategy, found.join(tape.messages, on=at, how="anti"), "fixture {fixture_id} has no tick {tick_seq}")

    names = tape.series.with_row_index("series")
    markets = names.select("fixture_id", "market_key", quoted=pl.lit(value=True)).unique()
    found = found.join(markets, on=["fixture_id", "market_key"], how="left", maintain_order="left").join(
        names.select("fixture_id", "market_key", "side", "series", "start"),
        on=["fixture_id", "market_key", "side"],
        how="left",
        maintain_order="left",
    )
    backs = found.filter(pl.col("action") == Action.BACK)
    row = last_row_at(tape.key, backs["start"], backs["series"], backs["tick_seq"])
    _refuse(strategy, backs.filter(pl.col("quoted").is_null()), "fixture {fixture_id} has no market {market_key!r}")
    _refuse(
        strategy,
        backs.filter(pl.col("series").is_null()),
        "market {market_key!r} of fixture {fixture_id} has no side {side!r}",
    )
    _refuse(
        strategy,
        backs.filter(row.is_null()),
        "market {market_key!r} of fixture {fixture_id} is not quoted until after tick {tick_seq}",
    )
    return found.select(spoken.columns)


def _check_each_once(noun: str, recorded: Sequence[Bet | Entry], advice: str = "") -> None:
    seen: set[tuple[int, int, str | None, str | None]] = set()
    for number, one in enumerate(recorded):
        key = (one.fixture_id, one.tick_seq, one.market_key, one.side)
        if key in seen:
            raise ValueError(f"{noun} {number} repeats the fixture, tick, market and side {key}{advice}")
        seen.add(key)


def _matching(digest: Callable[[Any], str]) -> AfterValidator:
    def checked(stated: str | None, info: ValidationInfo) -> str | None:
        found = digest(info.data["transcript"]) if stated is not None and "transcript" in info.data else stated
        if stated != found:
            raise ValueError(f"the transcript's digest is {found}")
        return stated

    return AfterValidator(checked)


def _refuse(strategy: str, entries: pl.DataFrame, what: str) -> None:
    if entries.height:
        first = entries.sort("number").row(0, named=True)
        raise AgentError(f"{strategy}: transcript entry {first['number']}: " + what.format(**first))


# ``bets``: replay bets that somebody placed, from a record of their time, market, side and stake.


MAX_BETS = 100_000  # the transcript is in the first line of the evidence
_MAX_INT32 = 2**31 - 1
_Wanted = Annotated[str, Field(min_length=1), limit(MAX_NAME_BYTES)]


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
    market_key: _Wanted
    side: _Wanted
    stake: int | None = Field(default=None, ge=1, le=SAFE_INTEGER)


def bets_sha256(bets: Sequence[Bet]) -> str:
    """Return the SHA-256 of the canonical JSON array of bets in their order, with every key written."""
    return sha256(canonical([bet.model_dump(mode="json") for bet in bets]))


class BetsConfig(Config):
    """Parameters of ``bets``."""

    by_fixture: ClassVar[bool] = False  # a bet on a fixture that is not on the tape is refused, not dropped
    repeats: ClassVar[bool] = True

    transcript: Annotated[tuple[Bet, ...], Field(strict=False, max_length=MAX_BETS)] = Field(
        default=(), description="What was bet; each has fixture_id, tick_seq, market_key, side and stake."
    )
    transcript_sha256: Annotated[str | None, _matching(bets_sha256)] = Field(
        default=None, description="Digest that the transcript must have, or null."
    )

    @field_validator("transcript")
    @classmethod
    def _each_once(cls, bets: tuple[Bet, ...]) -> tuple[Bet, ...]:
        _check_each_once("bet", bets, ": add up their stakes")
        return bets


def decide_bets(tape: Tape, config: BetsConfig) -> pl.DataFrame:
    """Repeat the bets of a record, each at its time; a fixture without a bet gets no decision.

    A record is made beforehand, by ``clvlab.grade_bets`` or by hand. The sealed configuration contains all of it, so that a
    run can be repeated without its file. It has no odds that were paid: a bet is scored at the price in the pack. Bets outside
    ``markets`` are left out.

    A fixture, tick, market or side that the tape does not have is refused, and so is a market without a quote at the tick.
    A tape without a content hash may still grow, as a prefix or a live one does: entries after its last tick are kept for
    later.

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


MAX_ENTRIES = 10_000
MAX_TEXT_BYTES = 4_000_000  # of all reasons and names, because the transcript is in the first line of the evidence
_CLAIMED = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "null"}]}
_NUMBER = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,1100})?|nan|-?inf")


def _number_text(value: object) -> str | None:
    """Return a claimed confidence as it is sealed: shortest decimal text, or ``nan``, ``inf``, ``-inf``."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("must be a number, its decimal text, or null")
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise ValueError("must be a number: decimal text, nan, inf or -inf")
    try:
        number = float(value)
    except OverflowError as error:
        raise ValueError("must fit in 64 bits") from error
    return decimal_text(number) if abs(number) < float("inf") else str(number)


_Name = Annotated[str | None, limit(MAX_NAME_BYTES)]
Claimed = Annotated[str | None, BeforeValidator(_number_text), WithJsonSchema(_CLAIMED)]
"""A claimed confidence: any number, kept as decimal text."""


class Entry(BaseModel):
    """One recorded proposal.

    Attributes
    ----------
    fixture_id, tick_seq
        The tick at which it was made.
    action
        ``BACK`` with a market and a side, or ``WAIT`` with neither, nor stake nor limit.
    stake
        Integer units; the template's ``stake`` if null.
    limit_odds_milli
        Smallest decimal odds that are accepted, x 1000, or null.
    reason, confidence, claimed_edge_bps
        What the model said: recorded, never scored. The confidence may be any number, also one that is no probability; it is
        kept as decimal text, since the configuration is sealed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    fixture_id: int = Field(ge=-SAFE_INTEGER, le=SAFE_INTEGER)
    tick_seq: int = Field(ge=0, le=_MAX_INT32)
    action: Literal["BACK", "WAIT"]
    market_key: _Name = None
    side: _Name = None
    stake: int | None = Field(default=None, ge=1, le=SAFE_INTEGER)
    limit_odds_milli: int | None = Field(default=None, ge=0, le=_MAX_INT32)
    reason: Annotated[str | None, limit(MAX_REASON_BYTES)] = None
    confidence: Claimed = None
    claimed_edge_bps: int | None = Field(default=None, ge=-SAFE_INTEGER, le=SAFE_INTEGER)

    @model_validator(mode="after")
    def _complete(self) -> Entry:
        named = [self.market_key is not None, self.side is not None]
        if self.action == Action.BACK and not all(named):
            raise ValueError("a BACK needs a market_key and a side")
        if self.action == Action.WAIT and (any(named) or self.stake is not None or self.limit_odds_milli is not None):
            raise ValueError("a WAIT has no market_key, side, stake or limit_odds_milli")
        return self


def entries_sha256(entries: Sequence[Entry]) -> str:
    """Return the SHA-256 of the canonical JSON array of entries in their order, with every key written."""
    return sha256(canonical([entry.model_dump(mode="json") for entry in entries]))


class LlmConfig(Config):
    """Parameters of ``llm``."""

    by_fixture: ClassVar[bool] = False  # a transcript about a fixture that it is not asked about is refused
    repeats: ClassVar[bool] = True

    transcript: Annotated[tuple[Entry, ...], Field(strict=False, max_length=MAX_ENTRIES)] = Field(
        default=(),
        description=(
            "Recorded proposals; each has fixture_id, tick_seq, action, market_key, side, stake, limit_odds_milli, reason, "
            "confidence and claimed_edge_bps."
        ),
    )
    transcript_sha256: Annotated[str | None, _matching(entries_sha256)] = Field(
        default=None, description="Digest that the transcript must have, or null."
    )

    @field_validator("transcript")
    @classmethod
    def _bounded(cls, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        texts = (text for entry in entries for text in (entry.reason, entry.market_key, entry.side) if text)
        total = sum(len(text.encode()) for text in texts)
        if total > MAX_TEXT_BYTES:
            raise ValueError(f"reasons and names have {total} bytes in all, the limit is {MAX_TEXT_BYTES}")
        _check_each_once("entry", entries)
        return entries


def decide_proposals(tape: Tape, config: LlmConfig) -> pl.DataFrame:
    """Repeat recorded proposals, such as those of a language model; a fixture without any gets a WAIT.

    A transcript is made beforehand, by ``clvlab.agents.recording`` or by hand. The sealed configuration contains all of it,
    so that a run can be repeated without the model. The WAIT is at the fixture's first tick and enters the evidence, which
    therefore shows that the agent was called. Proposals outside ``markets`` are left out.

    A fixture, tick, market or side that the tape does not have is refused, and so is a market without a quote at the tick.
    A tape without a content hash may still grow, as a prefix or a live one does: entries after its last tick are kept for
    later.

    Raises
    ------
    AgentError
        The transcript names something that the tape does not have.

    References
    ----------
    The interface specification, ``untrusted_llm_metadata``: reason, confidence and claimed edge are recorded, never scored.
    """
    rows = [entry.model_dump() | {"number": number} for number, entry in enumerate(config.transcript)]
    spoken = pl.DataFrame(rows, schema=DECISIONS | {"number": pl.Int64, "confidence": pl.String}, strict=False)
    spoken = spoken.with_columns(pl.col("confidence").cast(pl.Float64))
    first_ticks = (
        tape.series.select("fixture_id", tick_seq=tape.rows["tick_seq"].gather(tape.series["start"]))
        .group_by("fixture_id")
        .agg(pl.col("tick_seq").min())
        .sort("fixture_id")
    )
    proposed = on_the_tape(tape, spoken, "llm") if spoken.height else spoken
    market_rows = in_markets(tape, config.markets).select("fixture_id", "market_key", "side")
    kept = pl.concat(
        [
            proposed.filter(pl.col("action") == Action.WAIT),
            proposed.filter(pl.col("action") == Action.BACK).join(
                market_rows, on=["fixture_id", "market_key", "side"], how="semi", maintain_order="left"
            ),
        ]
    ).with_columns(stake=pl.when(pl.col("action") == Action.BACK).then(pl.col("stake").fill_null(config.stake)))
    silent = first_ticks.join(spoken, on="fixture_id", how="anti", maintain_order="left").with_columns(
        action=pl.lit(Action.WAIT.value), reason=pl.lit("no recorded proposal for this fixture")
    )
    decided = pl.concat([kept.drop("number"), silent], how="diagonal")
    return decided.select(pl.col(column).cast(dtype) for column, dtype in DECISIONS.items())
