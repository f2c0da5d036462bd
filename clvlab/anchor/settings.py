"""Settings of the chain and key for anchors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from clvlab.errors import AnchorError
from clvlab.proof.anchor import GENESIS, AnchorTrust

ENVIRONMENT = SettingsConfigDict(
    env_prefix="CLVLAB_",
    env_nested_delimiter="_",
    env_nested_max_split=1,
    env_ignore_empty=True,
    extra="ignore",
    hide_input_in_errors=True,  # the address of a node may hold a key
)
"""Form of variables: ``CLVLAB_ANCHOR_CLUSTER`` is setting ``cluster`` of ``anchor``. An empty variable counts as unset."""


def words(value: Any) -> Any:
    """Split a list in text form at commas or spaces."""
    return value.replace(",", " ").split() if isinstance(value, str) else value


class AnchorSettings(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    rpc_url: str | None = Field(default=None, description="JSON-RPC node of a Solana chain; without it no chain is contacted")
    cluster: str = Field(default="devnet", description="`devnet`, `testnet`, `mainnet-beta`, or a name of your own")
    genesis_hash: str | None = Field(default=None, description="genesis hash of your own chain")
    keypair: Path | None = Field(
        default=None, description="key file in the format of the Solana tools; without it runs are not anchored"
    )
    signers: Annotated[frozenset[str], NoDecode, BeforeValidator(words)] = Field(
        default=frozenset(), description="further public keys trusted to anchor, separated by commas"
    )
    commitment: Literal["confirmed", "finalized"] = Field(
        default="confirmed", description="`confirmed` or `finalized`: certainty that an anchor needs to count"
    )
    priority_fee: int = Field(
        default=1000, ge=0, lt=2**64, description="micro-lamports per compute unit, on top of the base fee"
    )
    patience_s: float = Field(
        default=30.0,
        gt=0,
        allow_inf_nan=False,
        description="seconds one attempt waits for the chain; the service repeats attempts until one succeeds",
    )
    timeout_s: float = Field(default=5.0, gt=0, allow_inf_nan=False, description="seconds to wait for one answer of the node")
    txline_program: str = Field(
        default="9ExbZjAapQww1vfcisDmrngPinHTEfpjYRWMunJgcKaA",
        description="program whose accounts hold the roots of TxLINE's messages, day by day",
    )
    poll_s: float = Field(default=0.5, gt=0, allow_inf_nan=False, description="seconds between two polls")

    @model_validator(mode="after")
    def _known_chain(self) -> Self:
        if self.cluster in GENESIS and self.genesis_hash not in (None, GENESIS[self.cluster]):
            raise ValueError(f"{self.cluster} has genesis hash {GENESIS[self.cluster]}, not {self.genesis_hash}")
        if self.rpc_url and self.cluster not in GENESIS and not self.genesis_hash:
            raise ValueError(f"cluster {self.cluster!r} is not one of {', '.join(GENESIS)}: give its genesis hash")
        return self

    def trust(self, *own: str) -> AnchorTrust:
        """Return the trusted keys and clusters, own keys included."""
        genesis = GENESIS | ({self.cluster: self.genesis_hash} if self.genesis_hash else {})
        return AnchorTrust(self.signers | set(own), genesis)


class _Environment(BaseSettings):
    model_config = ENVIRONMENT

    anchor: AnchorSettings = AnchorSettings()


def anchor_from_environment() -> AnchorSettings:
    """Read the variables ``CLVLAB_ANCHOR_*``, each named after its setting.

    Raises
    ------
    AnchorError
        A value is not valid, or settings exclude each other.
    """
    try:
        return _Environment().anchor
    except ValidationError as error:
        raise AnchorError("; ".join(_sentence(one["loc"], one["msg"], one["input"]) for one in error.errors())) from error
    except SettingsError as error:
        raise AnchorError(f"CLVLAB_ANCHOR can't be read: {error}") from error


def _sentence(loc: tuple[int | str, ...], message: str, value: Any) -> str:
    if len(loc) == 1:
        return f"CLVLAB_ANCHOR_*: {message.removeprefix('Value error, ')}"
    return f"CLVLAB_{'_'.join(map(str, loc)).upper()}: {message}, not {value!r:.80}"
