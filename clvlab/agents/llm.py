"""``llm``: replay the recorded proposals of a language model; no model is asked, and no network is used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import polars as pl
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from clvlab.agents.markets import in_markets
from clvlab.agents.recorded import on_the_tape
from clvlab.agents.template import Config, limit
from clvlab.law.actions import MAX_NAME_BYTES, MAX_REASON_BYTES
from clvlab.law.schema import DECISIONS, SAFE_INTEGER, Action
from clvlab.law.tape import Tape
from clvlab.proof.canonical import canonical, decimal_text, sha256

MAX_ENTRIES = 10_000
MAX_TEXT_BYTES = 4_000_000  # of all reasons and names: the transcript stands in the first line of the evidence
_MAX_INT32 = 2**31 - 1
_CLAIMED = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "null"}]}
_NUMBER = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,1100})?|nan|-?inf")


def _number_text(value: object) -> str | None:
    """Spell a claimed confidence so that it can be sealed: shortest decimal text, or ``nan``, ``inf``, ``-inf``."""
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
    confidence: Annotated[str | None, BeforeValidator(_number_text), WithJsonSchema(_CLAIMED)] = None
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
    """Hash a transcript: SHA-256 of the canonical JSON array of its entries, every key written, in their order."""
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
    transcript_sha256: str | None = Field(default=None, description="Digest that the transcript must have, or null.")

    @field_validator("transcript")
    @classmethod
    def _bounded(cls, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        texts = (text for entry in entries for text in (entry.reason, entry.market_key, entry.side) if text)
        total = sum(len(text.encode()) for text in texts)
        if total > MAX_TEXT_BYTES:
            raise ValueError(f"reasons and names have {total} bytes in all, the limit is {MAX_TEXT_BYTES}")
        seen: set[tuple[Any, ...]] = set()
        for number, entry in enumerate(entries):
            key = (entry.fixture_id, entry.tick_seq, entry.market_key, entry.side)
            if key in seen:
                raise ValueError(f"entry {number} repeats the fixture, tick, market and side {key}")
            seen.add(key)
        return entries

    @field_validator("transcript_sha256")
    @classmethod
    def _matching(cls, stated: str | None, info: ValidationInfo) -> str | None:
        found = entries_sha256(info.data["transcript"]) if stated is not None and "transcript" in info.data else stated
        if stated != found:
            raise ValueError(f"the transcript's digest is {found}")
        return stated


def decide(tape: Tape, config: LlmConfig) -> pl.DataFrame:
    """Return the recorded proposals, and abstain from every fixture about which the transcript is silent.

    A transcript is made beforehand, by ``clvlab.agents.recording`` or by hand, and stands whole in the sealed configuration,
    so that a run can be repeated without the model. An abstention is one WAIT at the fixture's first tick: it stands in the
    evidence, where an agent that returned nothing would look like one that was never asked. With an empty transcript the
    agent abstains from everything. Proposals outside ``markets`` are left out.

    A fixture, tick, market or side that is not on the tape, or a market not yet quoted at the tick, is refused. A tape
    without a content hash may still grow, as a prefix of another or a live one does: there a tick later than the last one is
    not refused but left for later.

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
