"""Settings of an operator, as ``CLVLAB_*`` environment variables."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
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
        A value has the wrong type or is out of bounds, or settings exclude each other.
    """

    model_config = SettingsConfigDict(**ENVIRONMENT, frozen=True)

    database_url: SecretStr | None = Field(default=None, description="SQLAlchemy URL of the store; in memory by default")
    database_lock_s: float = Field(default=4, gt=0, description="seconds a PostgreSQL transaction waits for a lock")
    database_log_s: float = Field(default=3, gt=0, description="seconds a transaction that holds the run log may be idle")
    database_idle_s: float = Field(default=60, gt=0, description="seconds any other transaction may be idle")
    database_statement_s: float = Field(default=60, gt=0, description="seconds a PostgreSQL statement may take")
    database_peer_s: float = Field(default=10, ge=1, description="seconds PostgreSQL may leave sent data unacknowledged")
    database_answer_s: float = Field(
        default=5, gt=0, description="seconds PostgreSQL may be silent before it is asked whether it is there"
    )
    packs: Path | None = Field(default=None, description="folder of the pack catalog; the bundled packs by default")
    job_workers: int = Field(
        default=2,
        ge=0,
        le=64,
        description="background jobs this process runs at once; 0 leaves them to `clvlab service worker` and needs PostgreSQL",
    )
    job_lease_s: float = Field(
        default=30, ge=1, le=3600, description="seconds a silent process keeps its jobs before others take them"
    )

    live_folder: Path | None = Field(
        default=None,
        description="folder of captures and journals of live runs; needed by a feed (`CLVLAB_FEED`); one for all services on a "
        "database",
    )
    live_runs: int = Field(default=8, ge=1, le=1000, description="live runs this process follows at once")
    live_grace_s: int = Field(
        default=900,
        ge=0,
        description="seconds after the announced kickoff at which a live run is sealed, if no message says so earlier",
    )
    devfeed: bool = Field(default=False, description="play a synthetic pack to live runs, for a first look")
    replay_speed: float | None = Field(
        default=None, gt=0, description="speed-up of `devfeed`; its longest match lasts two minutes by default"
    )

    log_key_file: Path | None = Field(
        default=None, description="key of the run log, made by `clvlab log keygen`; the log is unsigned without it"
    )
    checkpoint_file: Path | None = Field(
        default=None,
        description="file outside the database for the newest published checkpoint; a log that lacks it is not written to",
    )
    backups: Path | None = Field(
        default=None, description="folder of backups; `/metrics` has the age of its newest file, so that an alert can tell"
    )
    log_witness: str | None = Field(
        default=None,
        description="path or http(s) URL of a witness's state, or of its newest note; it protects the log in the same way",
    )
    log_policy: Path | None = Field(
        default=None,
        description="C2SP policy of witnesses with URLs, which are asked to cosign checkpoints of the run log",
    )
    log_cosign_s: float = Field(default=60, gt=0, description="seconds between two requests to the witnesses of `log_policy`")
    anchor: AnchorSettings = Field(
        default=AnchorSettings(), description="the chain, and the key, that sealed runs are anchored with"
    )

    jwks_url: str | None = Field(default=None, description="URL of the identity provider's keys")
    jwt_public_key_file: Path | None = Field(default=None, description="PEM file of one public key, instead of a JWKS URL")
    jwt_issuer: str | None = Field(default=None, description="required `iss` of a token")
    jwt_audience: str | None = Field(default=None, description="required `aud` of a token")
    jwt_max_lifetime_s: int = Field(default=86_400, ge=1, description="longest `exp` - `iat` of a token")
    jwks_refresh_s: float = Field(default=300, gt=0, description="seconds between two fetches of the keys")
    jwks_cooldown_s: float = Field(default=10, ge=0, description="least seconds between fetches for unknown key ids")
    jwks_max_stale_s: float = Field(
        default=3_600, gt=0, description="seconds that keys stay in use while they cannot be fetched"
    )

    max_body_bytes: int = Field(default=262_144, ge=1, description="largest request body")
    uploads: Path | None = Field(default=None, description="folder of packs that owners upload; uploads are off without it")
    max_upload_bytes: int = Field(default=67_108_864, ge=1, description="largest upload of a pack")
    max_uploads: int = Field(default=20, ge=0, description="packs per owner")
    max_owner_bytes: int = Field(default=268_435_456, ge=1, description="bytes of all packs of an owner")
    max_public_run_bytes: int = Field(default=4 << 30, ge=0, description="bytes of all runs without an owner; beyond it 507")
    max_owner_run_bytes: int = Field(default=1 << 30, ge=0, description="bytes of the runs of an owner; beyond it 507")
    max_owner_starts: int = Field(default=8, ge=1, description="unfinished starts of an owner; beyond it 429")
    max_owner_deploys: int = Field(default=200, ge=1, description="unfinished deploys of an owner; beyond it 429")
    max_owner_live: int = Field(
        default=4, ge=1, description="unfinished live runs of an owner, started or deployed; beyond it 429"
    )
    max_owner_drafts: int = Field(default=1000, ge=1, description="unstarted competitions of an owner; beyond it 429")
    max_owner_names: int = Field(
        default=100, ge=1, description="agent ids of an owner on the leaderboard; a run with another one gets 429"
    )
    max_owner_seats: int = Field(default=200, ge=1, description="seats of an owner that still play; beyond it 429")
    max_owner_seat_competitions: int = Field(
        default=100, ge=1, description="competitions of seats of an owner that are open; beyond it 429"
    )
    seat_tick_s: int = Field(
        default=3_600, ge=1, le=31_536_000, description="longest time for an answer to a tick of a seat; a later one is missed"
    )
    seat_left_s: int = Field(
        default=86_400, ge=1, le=31_536_000, description="longest time without an answer, after which a seat is abandoned"
    )
    seat_max_ticks: int = Field(default=100_000, ge=1, le=250_000, description="messages of a seat")
    seat_live_s: int = Field(
        default=5, ge=1, le=600, description="longest time from a message at a live seat to its answer; a later one is missed"
    )
    seat_held_fixtures: int = Field(
        default=1_000, ge=1, description="fixtures of one pack that is held back that an owner is dealt; beyond it 409"
    )
    seat_log_ticks: int = Field(default=500, ge=1, description="ticks after which the run log gets the head of a seat's chain")
    seat_log_s: int = Field(default=60, ge=1, description="seconds after which the next answer brings that head into the log")
    max_upload_ticks: int = Field(default=5_000_000, ge=1, description="rows of an uploaded pack")
    upload_timeout_s: int = Field(default=60, ge=1, description="seconds the verification of an upload may take")
    upload_memory_mb: int = Field(default=4096, ge=256, le=1_048_576, description="memory for verifying an upload")
    upload_receive_s: float = Field(default=3_600, gt=0, description="seconds an upload may take to arrive")
    header_timeout_s: float = Field(default=10, gt=0, description="seconds the headers of a request may take to arrive")
    body_timeout_s: float = Field(
        default=30, gt=0, description="seconds a request body may pause, and may be late by in all at the least rate"
    )
    body_min_rate: float = Field(default=1_000, gt=0, description="least rate of a request body, in bytes per second")
    max_connections: int = Field(
        default=1_000, ge=1, description="open connections to this process; beyond it the longest idle one is closed, or 503"
    )
    max_client_connections: int = Field(
        default=100,
        ge=1,
        description="open connections of one address, in the same way, but not of a trusted proxy: its clients have as many "
        "requests in progress each, then 503; IPv6 addresses of one /64 count as one",
    )
    upload_workers: int = Field(default=1, ge=1, le=64, description="uploads verified at once")
    upload_queue: int = Field(default=4, ge=0, le=10_000, description="uploads that may wait; beyond it 503")
    public_workers: int = Field(default=2, ge=1, le=64, description="public backtests run at once")
    public_queue: int = Field(default=8, ge=0, le=10_000, description="public backtests that may wait; beyond it 503")
    proof_workers: int = Field(
        default=2,
        ge=1,
        le=64,
        description="verifications and demos at once; backtests do not delay them",
    )
    proof_queue: int = Field(default=8, ge=0, le=10_000, description="verifications and demos that may wait; beyond it 503")
    owner_workers: int = Field(default=2, ge=1, le=64, description="competition starts run at once")
    owner_queue: int = Field(default=32, ge=0, le=10_000, description="starts that may wait; beyond it 503")
    read_workers: int = Field(default=2, ge=1, le=64, description="threads for long lists, tables and downloads")
    read_queue: int = Field(
        default=62, ge=0, le=10_000, description="further long answers that may be in transfer at once; beyond it 503"
    )
    read_send_timeout_s: float = Field(default=10, gt=0, description="seconds a long list waits for a slow client")
    stream_poll_s: float = Field(
        default=2,
        gt=0,
        description="seconds between polls for events that no notification brings (services on one SQLite file)",
    )
    stream_send_timeout_s: float = Field(default=10, gt=0, description="seconds a stream waits for a slow client")
    max_streams: int = Field(default=200, ge=0, description="open streams in this process")
    max_client_streams: int = Field(
        default=32, ge=0, description="open streams to one address; IPv6 addresses of one /64 count as one"
    )
    trusted_proxies: Annotated[tuple[IPvAnyNetwork, ...], NoDecode, BeforeValidator(words)] = Field(
        default=(),
        description="networks of proxies whose `X-Forwarded-For` is trusted, separated by commas",
    )
    shutdown_s: int = Field(
        default=20,
        ge=1,
        description="seconds that open requests and jobs may continue after SIGTERM; then other processes do the work",
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode, BeforeValidator(words)] = Field(
        default=(), description="allowed origins, separated by commas"
    )
    mcp_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(words)] = Field(
        default=(),
        description="hosts under which clients of `/mcp` reach this service, separated by commas; this machine by default",
    )
    practice_seats: int = Field(
        default=64, ge=0, description="seats of `/mcp/practice` that still play, of all clients; beyond it 429"
    )
    practice_client_seats: int = Field(
        default=8, ge=1, description="seats that one address may take at `/mcp/practice` within five minutes; beyond it 429"
    )
    log_level: str = Field(
        default="info", pattern="^(debug|info|warning|error)$", description="`debug`, `info`, `warning` or `error`"
    )

    @property
    def is_shared(self) -> bool:
        """Whether several processes share the store, which is then PostgreSQL."""
        return self.database_url is not None and self.database_url.get_secret_value().startswith("postgres")

    @model_validator(mode="after")
    def _check_workers(self) -> Self:
        if not self.job_workers and not self.is_shared:
            raise ValueError(
                "CLVLAB_JOB_WORKERS=0 leaves jobs to `clvlab service worker`, which needs PostgreSQL in CLVLAB_DATABASE_URL"
            )
        return self

    @model_validator(mode="after")
    def _coherent_keys(self) -> Self:
        if (self.checkpoint_file or self.log_witness or self.log_policy) and not self.log_key_file:
            raise ValueError(
                "CLVLAB_CHECKPOINT_FILE, CLVLAB_LOG_WITNESS and CLVLAB_LOG_POLICY need CLVLAB_LOG_KEY_FILE as well"
            )
        if self.jwks_url and self.jwt_public_key_file:
            raise ValueError("set CLVLAB_JWKS_URL or CLVLAB_JWT_PUBLIC_KEY_FILE, not both")
        if (self.jwks_url or self.jwt_public_key_file) and not (self.jwt_issuer and self.jwt_audience):
            raise ValueError("keys need CLVLAB_JWT_ISSUER and CLVLAB_JWT_AUDIENCE as well")
        if self.jwks_url:
            url = urlsplit(self.jwks_url)
            if url.scheme != "https" and not (url.scheme == "http" and url.hostname in LOOPBACK):
                raise ValueError(f"CLVLAB_JWKS_URL {self.jwks_url!r} must be https, or http on this machine")
        return self


_SUBSCRIBER_BITS = 64  # prefix of an IPv6 address; a client chooses the rest itself (RFC 6177)


@lru_cache(4096)
def subscriber(address: str) -> str:
    """Return the part of an address that its client can't change."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    mapped = parsed.ipv4_mapped  # a socket for IPv4 and IPv6 shows an IPv4 client in this form
    return str(mapped or IPv6Network((int(parsed), _SUBSCRIBER_BITS), strict=False))
