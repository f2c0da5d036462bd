"""What an operator sets, as ``CLVLAB_*`` environment variables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, IPvAnyNetwork, SecretStr, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from clvlab.anchor.settings import ENVIRONMENT, AnchorSettings, words

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Settings(BaseSettings):
    """Settings of the service; each is read from the variable of its name in capitals after ``CLVLAB_``.

    Raises
    ------
    pydantic.ValidationError
        A value of the wrong type or out of bounds, or settings that exclude each other.
    """

    model_config = SettingsConfigDict(**ENVIRONMENT, frozen=True)

    database_url: SecretStr | None = Field(default=None, description="SQLAlchemy URL of the store; in memory without one")
    database_lock_s: float = Field(default=4, gt=0, description="how long a transaction of PostgreSQL waits for a lock")
    database_log_s: float = Field(default=3, gt=0, description="how long one that holds the run log may do nothing")
    database_idle_s: float = Field(default=60, gt=0, description="how long any other may do nothing")
    database_statement_s: float = Field(default=60, gt=0, description="how long a statement of PostgreSQL may take")
    database_peer_s: float = Field(default=10, ge=1, description="how long PostgreSQL may leave what was sent unacknowledged")
    packs: Path | None = Field(default=None, description="folder of the pack catalog; the bundled packs without one")
    job_workers: int = Field(
        default=2,
        ge=0,
        le=64,
        description="background jobs run at once by this process; 0, over PostgreSQL only, leaves them to `clvlab worker`",
    )
    job_lease_s: float = Field(
        default=30, ge=1, le=3600, description="how long a process that fell silent keeps its jobs from the others"
    )

    live_folder: Path | None = Field(
        default=None,
        description="of captures and journals of live runs, which a feed (`CLVLAB_FEED`) needs; services on one database share "
        "it",
    )
    live_runs: int = Field(default=8, ge=1, le=1000, description="live runs followed at once by this process")
    live_grace_s: int = Field(
        default=900, ge=0, description="seconds after the announced kickoff when a live run is sealed, if no message says so"
    )
    devfeed: bool = Field(default=False, description="play a synthetic pack to live runs, for a first look")

    log_key_file: Path | None = Field(
        default=None, description="key of the run log, made by `clvlab log keygen`; without one it is shown unsigned"
    )
    checkpoint_file: Path | None = Field(
        default=None,
        description="keeps the newest published checkpoint of the run log, outside the database; a log that lacks it, as after "
        "a restore, is not written to",
    )
    log_witness: str | None = Field(
        default=None,
        description="path or http(s) URL of the state of a witness, or of the newest note that it saw; likewise",
    )
    anchor: AnchorSettings = Field(
        default=AnchorSettings(), description="the chain, and the key, that sealed runs are anchored with"
    )

    jwks_url: str | None = Field(default=None, description="where the identity provider publishes its keys")
    jwt_public_key_file: Path | None = Field(default=None, description="PEM file of one public key, instead of a JWKS URL")
    jwt_issuer: str | None = Field(default=None, description="`iss` that a token must carry")
    jwt_audience: str | None = Field(default=None, description="`aud` that a token must carry")
    jwt_max_lifetime_s: int = Field(default=86_400, ge=1, description="longest `exp` - `iat` of a token")
    jwks_refresh_s: float = Field(default=300, gt=0, description="seconds between two fetches of the keys")
    jwks_cooldown_s: float = Field(default=10, ge=0, description="least seconds between fetches that unknown key ids ask for")
    jwks_max_stale_s: float = Field(default=3_600, gt=0, description="how long keys serve while they can't be fetched")

    max_body_bytes: int = Field(default=262_144, ge=1, description="largest request body")
    uploads: Path | None = Field(default=None, description="folder of packs that owners upload; without one there are none")
    max_upload_bytes: int = Field(default=67_108_864, ge=1, description="largest upload of a pack")
    max_uploads: int = Field(default=20, ge=0, description="packs that an owner may keep")
    max_owner_bytes: int = Field(default=268_435_456, ge=1, description="bytes of all packs that an owner may keep")
    max_public_run_bytes: int = Field(
        default=4 << 30, ge=0, description="bytes that all runs without an owner may take up; the next one gets 507"
    )
    max_owner_run_bytes: int = Field(
        default=1 << 30, ge=0, description="bytes that the runs of an owner may take up; the next one gets 507"
    )
    max_owner_starts: int = Field(default=8, ge=1, description="starts of an owner that are not over; the next one gets 429")
    max_owner_deploys: int = Field(
        default=200, ge=1, description="deploys of an owner that are not over; the next one gets 429"
    )
    max_owner_live: int = Field(
        default=4, ge=1, description="live runs of an owner that are not over, started or deployed; the next one gets 429"
    )
    max_owner_drafts: int = Field(default=1000, ge=1, description="competitions of an owner that were not started; then 429")
    max_owner_names: int = Field(
        default=100, ge=1, description="agent ids of an owner on the leaderboard; a run of another one gets 429"
    )
    max_upload_ticks: int = Field(default=5_000_000, ge=1, description="rows of an uploaded pack")
    upload_timeout_s: int = Field(default=60, ge=1, description="how long an upload may be verified")
    upload_memory_mb: int = Field(default=4096, ge=256, le=1_048_576, description="memory for verifying an upload")
    upload_receive_s: float = Field(default=600, gt=0, description="how long an upload may take to arrive")
    header_timeout_s: float = Field(default=10, gt=0, description="how long the headers of a request may take to arrive")
    body_timeout_s: float = Field(default=30, gt=0, description="how long a request body may pause on its way")
    upload_workers: int = Field(default=1, ge=1, le=64, description="uploads verified at once")
    upload_queue: int = Field(default=4, ge=0, le=10_000, description="uploads that may wait for it; the next gets 503")
    public_workers: int = Field(default=2, ge=1, le=64, description="public backtests run at once")
    public_queue: int = Field(default=8, ge=0, le=10_000, description="public backtests that may wait; the next one gets 503")
    proof_workers: int = Field(
        default=2,
        ge=1,
        le=64,
        description="verifications and demos made at once; no backtest holds them up",
    )
    proof_queue: int = Field(default=8, ge=0, le=10_000, description="of those, how many may wait; the next one gets 503")
    owner_workers: int = Field(default=2, ge=1, le=64, description="competitions started at once by owners")
    owner_queue: int = Field(default=32, ge=0, le=10_000, description="starts that may wait; the next one gets 503")
    read_workers: int = Field(default=2, ge=1, le=64, description="threads for long lists, tables and downloads")
    read_queue: int = Field(
        default=62, ge=0, le=10_000, description="of those, how many may be sent at once beside them; the next one gets 503"
    )
    read_send_timeout_s: float = Field(default=10, gt=0, description="how long a long list waits for a slow client")
    stream_poll_s: float = Field(
        default=2,
        gt=0,
        description="seconds between two looks at what is streamed and was not told of: by services on one SQLite file, "
        "or while PostgreSQL can't be listened to",
    )
    stream_send_timeout_s: float = Field(default=10, gt=0, description="how long a stream waits for a slow client")
    max_streams: int = Field(default=200, ge=0, description="streams open at once in this process")
    max_client_streams: int = Field(
        default=32, ge=0, description="of those, how many to one address; IPv6 addresses of one /64 are one"
    )
    trusted_proxies: Annotated[tuple[IPvAnyNetwork, ...], NoDecode, BeforeValidator(words)] = Field(
        default=(),
        description="networks of proxies whose `X-Forwarded-For` is believed, separated by commas",
    )
    shutdown_s: int = Field(
        default=20,
        ge=1,
        description="how long open requests and jobs may go on after SIGTERM; then other processes do the work",
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode, BeforeValidator(words)] = Field(
        default=(), description="allowed origins, separated by commas"
    )
    log_level: str = Field(
        default="info", pattern="^(debug|info|warning|error)$", description="`debug`, `info`, `warning` or `error`"
    )

    @property
    def is_shared(self) -> bool:
        """Whether the store is one of several processes, PostgreSQL."""
        return self.database_url is not None and self.database_url.get_secret_value().startswith("postgres")

    @model_validator(mode="after")
    def _performed(self) -> Self:
        if not self.job_workers and not self.is_shared:
            raise ValueError(
                "CLVLAB_JOB_WORKERS=0 leaves jobs to `clvlab worker`, which needs PostgreSQL in CLVLAB_DATABASE_URL"
            )
        return self

    @model_validator(mode="after")
    def _coherent_keys(self) -> Self:
        if (self.checkpoint_file or self.log_witness) and not self.log_key_file:
            raise ValueError("CLVLAB_CHECKPOINT_FILE and CLVLAB_LOG_WITNESS need CLVLAB_LOG_KEY_FILE as well")
        if self.jwks_url and self.jwt_public_key_file:
            raise ValueError("set CLVLAB_JWKS_URL or CLVLAB_JWT_PUBLIC_KEY_FILE, not both")
        if (self.jwks_url or self.jwt_public_key_file) and not (self.jwt_issuer and self.jwt_audience):
            raise ValueError("keys need CLVLAB_JWT_ISSUER and CLVLAB_JWT_AUDIENCE as well")
        if self.jwks_url:
            url = urlsplit(self.jwks_url)
            if url.scheme != "https" and not (url.scheme == "http" and url.hostname in LOOPBACK):
                raise ValueError(f"CLVLAB_JWKS_URL {self.jwks_url!r} must be https, or http on this machine")
        return self
