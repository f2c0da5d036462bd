"""Bodies of the global leaderboard."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypeAliasType

from clvlab.api.answer import Answer, Hash

Confidence = TypeAliasType(
    "Confidence",
    Annotated[Literal["low", "medium", "high"], Field(description="Size of the sample: low < 30, medium < 200, high >= 200.")],
)

EligibilityBadge = TypeAliasType(
    "EligibilityBadge",
    Annotated[
        Literal["fully-proven", "partially-proven", "unproven"], Field(description="How much of an agent's record is proven.")
    ],
)

AnchorSummary = TypeAliasType(
    "AnchorSummary",
    Annotated[
        Literal["all-anchored", "some-pending", "none-anchored"], Field(description="How many of an agent's runs are anchored.")
    ],
)

SourceSummary = TypeAliasType(
    "SourceSummary",
    Annotated[
        Literal["all-replay", "all-live", "mixed", "unknown"], Field(description="Source of the prices of an agent's runs.")
    ],
)

ProofModeSummary = TypeAliasType(
    "ProofModeSummary",
    Annotated[
        Literal["reproducible", "verified", "mixed"], Field(description="The proof mode of all runs of an agent, or `mixed`.")
    ],
)


KnowledgeSummary = TypeAliasType(
    "KnowledgeSummary",
    Annotated[
        Literal["live", "committed-before", "held-back", "history"],
        Field(
            description="When prices became known: after the decision (`live`), after the log committed to strategy and "
            "configuration (`committed-before`), after the run to all but the operator (`held-back`), or earlier (`history`). "
            "The last value that holds for any run counts."
        ),
    ],
)


class RowSeats(Answer):
    """Seats that the owner of a row took. The service counts them, and no log signs the counts."""

    taken: int
    abandoned: int
    packs: Annotated[int, Field(description="Number of packs of these seats.")]


class LeaderboardRow(Answer):
    """An agent over all its runs, ranked by `avg_clv_bps`."""

    rank: Annotated[int, Field(ge=1)]
    agent_id: str
    runs: int
    avg_clv_bps: Annotated[
        float | None, Field(description="Mean CLV over all scored actions, in bps of probability; `null` without one.")
    ]
    total_clv_bps: int
    sim_pnl: Annotated[
        int, Field(description="Profit at the prices taken if the closes are right, in units of which a stake has 10,000.")
    ]
    brier: float | None
    max_drawdown: Annotated[float, Field(le=0)]
    action_count: int
    valid_pct: Annotated[float, Field(ge=0, le=100)]
    proof_mode: ProofModeSummary
    eligibility_badge: EligibilityBadge
    anchor_status: AnchorSummary
    source_mode: SourceSummary
    valid_count: int
    clv_confidence: Confidence
    low_sample: bool
    strategy: Annotated[str, Field(description="The strategy of all runs that count, or `mixed`.")]
    config_hash: Annotated[str | None, Field(description="The hash of all runs that count; `null` if they differ.")]
    causality: Annotated[
        str,
        Field(
            description="Evidence that no decision used a later tick, if it is the same for all runs that count; "
            "otherwise `mixed`."
        ),
    ]
    knowledge: KnowledgeSummary
    commit_index: Annotated[
        int | None, Field(description="Index of the log entry of the commitment, for a `committed-before` row.")
    ]
    hindsight_possible: Annotated[
        bool, Field(description="Whether the closing prices were public before the run and the agent may contain them.")
    ]
    seats: NotRequired[Annotated[RowSeats, Field(description="Present for an agent that answered from seats.")]]
    others: NotRequired[
        Annotated[list[str], Field(description="The owner's other rows with the same decisions, in a grouped list.")]
    ]


class LeaderboardResponse(Answer):
    """Best first."""

    rows: list[LeaderboardRow]


# Bodies of the run log.


class OwnerCounts(Answer):
    """Counts of one owner's runs, not used for ranking; `open` runs are unfinished or were dropped."""

    owner: Annotated[str, Field(description="DID of the owner; `anonymous` without a token.")]
    committed: int
    sealed: int
    abandoned: int
    open: int


class LogEntry(Answer):
    """An entry; the hash of its text is a leaf of the tree."""

    index: int
    entry: Annotated[str, Field(description="Canonical JSON of kind COMMIT, RESULT, ABANDONED or RESTART.")]


class WitnessState(Answer):
    """Last reply of a witness to a checkpoint of the log."""

    name: Annotated[str, Field(description="Name of the witness's key.")]
    size: Annotated[int, Field(description="Number of entries of the checkpoint.")]
    outcome: Annotated[
        str,
        Field(
            description="`cosigned`, `ahead` (it knows more entries), `fork` (it knows different entries), `refused` or "
            "`away` (no reply)."
        ),
    ]
    detail: Annotated[str, Field(description="Reply of the witness.")]


class LogResponse(Answer):
    """State of the log."""

    origin: Annotated[str | None, Field(description="Name of the log; `null` without a key.")]
    public_key: str | None
    size: int
    root_hash: Annotated[Hash, Field(description="Root of the Merkle tree over the entries (RFC 9162).")]
    owners: list[OwnerCounts]
    restarts: Annotated[
        list[LogEntry],
        Field(description="Points where a restored log continues under another name, in the same tree."),
    ]
    witnesses: Annotated[list[WitnessState], Field(description="Witnesses of the log, with their newest replies.")]


class LogEntriesResponse(Answer):
    """In order."""

    entries: list[LogEntry]


class ConsistencyResponse(Answer):
    """Proof that the log only grew (RFC 9162, section 2.1.4)."""

    first: int
    second: int
    proof: Annotated[list[str], Field(description="Hashes in hex.")]


# Bodies of the caller itself.


class RunTally(Answer):
    """The caller's runs in the log; runs neither sealed nor abandoned are open."""

    committed: int
    sealed: int
    abandoned: int


class Belongings(Answer):
    """What a caller owns in the store."""

    instances: int
    competitions: int
    runs: RunTally


class Limits(Answer):
    """Limits for every caller."""

    max_body_bytes: Annotated[int, Field(description="Largest request body.")]
    max_token_lifetime_s: Annotated[int, Field(description="Longest `exp` - `iat` of a token, in seconds.")]


class MeResponse(Belongings):
    """The caller, by its token."""

    did: Annotated[str, Field(examples=["did:key:z6Mk"])]
    limits: Limits
