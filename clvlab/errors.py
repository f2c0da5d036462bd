"""Every error that clvlab raises on purpose, with the HTTP status and the exit status that it is answered with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class ClvlabError(Exception):
    """Root of all errors of this package. The message is one sentence that names the value and the remedy.

    Attributes
    ----------
    http_status
        HTTP status. A class that sets one is a type of problem; others have status and type of their nearest base.
    exit_code
        Exit status of a command.
    service_exit_code
        Exit status of a service or worker that can't continue; unlike that for bad input, 3 means that a restart may help.
    retry_after_s
        Seconds after which the same request may succeed, if the error knows them.
    """

    http_status = 400
    exit_code = 2
    service_exit_code = 2
    retry_after_s: float | None = None


class ArgumentError(ClvlabError, TypeError):
    """An argument is unknown, missing, or of the wrong kind."""


class SchemaError(ClvlabError):
    """A frame lacks a column or has another dtype than its schema says."""


class WindowError(ClvlabError):
    """A window specification that can't be applied."""

    http_status = 400


class DecisionError(ClvlabError):
    """An agent returned decisions that can't be sealed."""

    http_status = 400


class AgentError(ClvlabError):
    """An agent's configuration or transcript can't be used."""

    http_status = 400


class AgentFailedError(AgentError):
    """The code of an agent failed in its process; ``kind`` is one word, which enters the evidence, ``detail`` a sentence.

    ``kind`` is the class of the agent's error, or ``ProcessEnded``, ``TimedOut`` or ``GarbledAnswer``.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"the agent failed with {kind}: {detail}")
        self.kind = kind
        self.detail = detail


class LookaheadError(AgentError):
    """An agent whose decisions depend on later ticks."""


class UnknownAgentError(AgentError):
    """No strategy template of that name is registered."""


class PolicyError(ClvlabError):
    """A policy envelope with a value out of its range."""

    http_status = 400


class AskError(AgentError):
    """A model gave no usable answer; ``kind`` is one word, ``detail`` a sentence."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


class FileError(ClvlabError):
    """A file can't be read whole: it is not a regular file, or too large."""


class FileLockedError(FileError):
    """Another process has held a folder for longer than this one may wait."""

    http_status = 503


class EvidenceError(ClvlabError):
    """Evidence that is not canonical, not complete or not in order."""

    http_status = 400


class PackError(ClvlabError):
    """Root of all errors about packs."""

    http_status = 400


class UnknownPackError(PackError):
    """No pack of that id in the catalog, and no pack folder at that path."""

    http_status = 404


class UnknownFixtureError(PackError):
    """The pack does not declare that fixture."""

    http_status = 422

    def __init__(self, fixture_id: int, pack_id: str, known: tuple[int, ...]) -> None:
        listed = ", ".join(str(f) for f in known[:5]) + (", ..." if len(known) > 5 else "")
        super().__init__(f"fixture {fixture_id} is not in pack {pack_id!r}; it has {len(known)}: {listed}")
        self.fixture_id = fixture_id
        self.pack_id = pack_id


class HeldOutError(PackError):
    """A fixture is held out by a plan, and can't be read before the plan is opened."""

    def __init__(self, pack_id: str, fixture_id: int, plan_id: str, count: int) -> None:
        others = f" and {count - 1} more" if count > 1 else ""
        super().__init__(
            f"fixture {fixture_id}{others} of {pack_id!r} is held out by {plan_id}, until its .open(): "
            "name fixtures among its .training"
        )
        self.fixture_id = fixture_id
        self.plan_id = plan_id


class HeldBackError(PackError):
    """A pack that is held back for seats, or can't be, is not used like this; ``reason`` is a stable key.

    ``reason`` is ``known`` (it is held back already), ``public`` (a catalog or an upload has the pack), ``shared`` (another
    pack has a match of it), ``opened`` (its list of fixtures is open, so no seat is taken any more), ``unopened``, ``dealt``
    (each fixture went to a seat) or ``limit`` (the owner was dealt as many fixtures as allowed).
    """

    http_status = 409

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class PackReplayError(PackError):
    """A pack that opened and could not be replayed."""

    http_status = 400


class PlanChangedError(PackReplayError):
    """A run would differ from its commitment, because its pack or an agent changed in between."""

    def __init__(self, committed: str, planned: str) -> None:
        super().__init__(f"run {committed} was committed to, and is now {planned}: its pack or an agent changed since")


class PackFormatError(PackError):
    """A pack breaks the format: the text names the file, the rule and the value."""


class ViewError(PackError):
    """A view, several packs as one, or sources joined, can't be made; the text says why."""


class PackTamperedError(PackError):
    """A pack whose bytes, ticks or labels differ from its hashes."""

    http_status = 400

    def __init__(self, what: str, expected: str, found: str) -> None:
        super().__init__(f"{what}: expected {expected}, found {found}; restore the pack or build it again")
        self.expected = expected
        self.found = found


class RemoteError(ClvlabError):
    """A URL can't be read or written; the text names it, without credentials and query."""


class RemoteMissingError(RemoteError):
    """There is no such object, or no such bucket."""


class RemoteConflictError(RemoteError):
    """Another object has this name; objects are not overwritten."""


class UploadsOffError(ClvlabError):
    """Uploads of packs are not turned on."""

    http_status = 404

    def __init__(self) -> None:
        super().__init__("this service takes no uploads: its operator turns them on with CLVLAB_UPLOADS")


class UploadRefusedError(PackError):
    """An upload that is not a valid pack; it was not kept."""

    http_status = 400


class UploadConflictError(PackError):
    """An upload that can't be kept or deleted as things are; ``reason`` is a stable key.

    ``reason`` is ``in_catalog``, ``id_taken``, ``too_many``, ``too_large`` or ``in_use``.
    """

    http_status = 409

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class SourceError(ClvlabError):
    """A source row can't be read: the text names file, line and reason."""


class FeedError(ClvlabError):
    """A live feed can't be used; the text names the remedy."""


class NoFeedError(FeedError):
    """No live feed is configured; the text names the settings."""


class OddsError(ClvlabError):
    """A value is not valid odds, or a way to read or combine odds is unknown."""


class UnknownStrategyError(UnknownAgentError):
    """No strategy template of that name."""

    http_status = 404


class UnknownRunError(ClvlabError):
    """No sealed run at that path or under that id."""

    http_status = 404


class RunRemovedError(ClvlabError):
    """A run was removed to make room; only its hashes remain."""

    http_status = 410

    def __init__(self, run_id: str, evidence_hash: str, manifest_hash: str) -> None:
        super().__init__(
            f"run {run_id} was removed to make room: its evidence had {evidence_hash}, its manifest {manifest_hash}; "
            "asked for again it is replayed"
        )
        self.run_id = run_id
        self.evidence_hash = evidence_hash
        self.manifest_hash = manifest_hash


class RunConflictError(ClvlabError):
    """A run of the same id is stored with other bytes."""

    http_status = 500

    def __init__(self, run_id: str, stored: str, offered: str, why: str = "") -> None:
        conflict = f"run {run_id} is stored with manifest {stored}, and this one has {offered}; nothing was written"
        super().__init__(f"{conflict}: {why}" if why else conflict)
        self.stored = stored
        self.offered = offered


class AnchorError(ClvlabError):
    """A manifest hash can't be anchored with these settings, or the chain refused the transaction."""


class AnchorUnavailableError(AnchorError):
    """The chain could not be reached, or did not take the transaction in time; trying again later is safe."""


class AnchorConflictError(AnchorError):
    """Another process wrote the record of this anchor, or it is about another manifest."""


class LogError(ClvlabError):
    """A log entry, checkpoint or proof that can't be used."""

    http_status = 500


class LogConflictError(LogError):
    """An entry that the log does not take: a second commitment or outcome of a run, or one with other content."""

    http_status = 409


class LogBehindError(LogError):
    """The run log lacks published entries; until a restart it takes no entries and signs no checkpoints."""

    http_status = 503


class LogKeyError(LogError):
    """The run log was restarted, and continues under another key than the one that was passed."""

    http_status = 503


class WitnessRefusalError(LogError):
    """A request that a witness refuses; ``status`` is that of its protocol, ``size`` its last size, if that is the reason."""

    http_status = 409

    def __init__(self, message: str, status: int, size: int | None = None) -> None:
        super().__init__(message)
        self.status, self.size = status, size


class LogForkError(WitnessRefusalError):
    """A log signed a contradiction to an earlier signature; ``evidence`` is the file with both notes."""

    http_status = 500

    def __init__(self, reason: str, evidence: str, status: int) -> None:
        super().__init__(f"{reason}; both signed notes are in {evidence!r}", status)
        self.reason, self.evidence = reason, evidence


class UnsignedLogError(LogError):
    """The run log has no key, so there are no signed checkpoints of it."""

    http_status = 404


class UnknownTileError(LogError):
    """A file of tiles that the log does not have, or does not have yet."""

    http_status = 404


class BundleError(ClvlabError):
    """A proof bundle that differs from the format."""

    http_status = 400


class ReplayError(ClvlabError):
    """A run can't be repeated: its pack or an agent's code is missing, or has changed."""


class UnknownDecisionError(ClvlabError):
    """The run is sealed, or not yet, and has no decision at that sequence number."""

    http_status = 404


class RunFailedError(ClvlabError):
    """A run could not be finished, and was not sealed; its record has the cause."""

    http_status = 500

    def __init__(self, run_id: str, cause: str) -> None:
        super().__init__(f"run {run_id} failed: {cause}")
        self.run_id = run_id
        self.cause = cause


class RunCancelledError(ClvlabError):
    """A run was cancelled before its end, and was not sealed."""

    http_status = 409

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} was cancelled: ask for it again")
        self.run_id = run_id


class BusyError(ClvlabError):
    """All workers are taken, and as many callers wait as may wait."""

    http_status = 503

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"all workers are busy: ask again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class OwnerLimitError(ClvlabError):
    """An owner has as much going on as an owner may have at once."""

    http_status = 429

    def __init__(self, detail: str, retry_after_s: int) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class ShuttingDownError(ClvlabError):
    """The process ends before the work is done, which is on record: another process does it."""

    http_status = 503

    def __init__(self) -> None:
        super().__init__("the service is ending here, and continues the work elsewhere or later: ask again")


class PageError(ClvlabError):
    """A cursor or page size that can't be used."""

    http_status = 422


class StoreError(ClvlabError):
    """Root of all errors about the database."""

    http_status = 500
    service_exit_code = 3


class StoreUnreachableError(StoreError):
    """The configured database can't be reached, or the connection broke; the transaction was not stored."""

    http_status = 503


class StoreBusyError(StoreError):
    """The database made a transaction wait for too long; it was not stored, and can be tried again."""

    http_status = 503


class StorageSpentError(ClvlabError):
    """The runs of an owner, or those without an owner, take up all the room that they may have."""

    http_status = 507


class DatabaseUrlError(StoreUnreachableError):
    """A database URL is malformed; the text does not repeat it, as it may hold a password."""

    service_exit_code = 2


class StoreFullError(StoreError):
    """The database has no room left; the transaction was not stored."""

    http_status = 503


class LeaseLostError(StoreError):
    """Another worker took this job over; this one's result was not stored."""


class CompetitionError(ClvlabError):
    """Root of all errors about competitions."""


class UnknownCompetitionError(CompetitionError):
    """No competition of that id."""

    http_status = 404


class NotOwnerError(ClvlabError):
    """The competition or instance belongs to another principal, or a backtest was not asked for under the key."""

    http_status = 403


class BindingError(CompetitionError):
    """A pack and fixture that can't be bound at creation."""

    http_status = 400


class RosterFrozenError(CompetitionError):
    """The competition is past the statuses in which agents may register."""

    http_status = 409


class AlreadyRegisteredError(CompetitionError):
    """The agent id is on the roster already."""

    http_status = 409


class RosterFullError(CompetitionError):
    """The roster has as many agents as it may have."""

    http_status = 409


class EntryError(CompetitionError):
    """A roster entry that is well formed and still can't be taken: proof mode, strategy, parameters or instance."""

    http_status = 400


class UnknownEntryError(CompetitionError):
    """No agent of that id is on the roster."""

    http_status = 404


class NotDeletableError(CompetitionError):
    """The competition or instance can't be deleted, and is unchanged; ``reason`` is a stable key."""

    http_status = 409

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class NotStartableError(CompetitionError):
    """The competition can't start; ``reason`` is a stable key, and the status is unchanged."""

    http_status = 409

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class TransitionError(CompetitionError):
    """The status does not allow this step."""

    http_status = 409


class SeatRulesError(CompetitionError):
    """A competition of seats, or a seat in one, by rules that can't hold: a seat names another rule, or an end is over."""

    http_status = 400


class UnknownInstanceError(ClvlabError):
    """No instance of that id, none with an owner, or none that belongs to the caller."""

    http_status = 404


class UnknownSeatError(ClvlabError):
    """No seat of that id, or none that belongs to the caller."""

    http_status = 404


class SeatConflictError(ClvlabError):
    """A seat refuses an answer in its present state, and does not record it; ``reason`` is a stable key.

    ``reason`` is ``answered`` (the tick has another answer), ``unserved`` (it has not left yet), ``over`` or ``unsealed``.
    ``open_tick`` is the tick that waits for an answer, ``None`` without one.
    """

    http_status = 409

    def __init__(self, reason: str, detail: str, open_tick: int | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.open_tick = open_tick


class SeatTooLongError(ClvlabError):
    """A seat over more messages than one may have, or with more text in its decisions than is kept."""

    http_status = 422


class PreflightError(ClvlabError):
    """A deploy that failed named checks, and was not stored.

    Attributes
    ----------
    failures
        ``{name, ok, message}`` of every failing check, in order.
    """

    http_status = 422

    def __init__(self, failures: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("; ".join(f"{failure['name']}: {failure['message']}" for failure in failures))
        self.failures = failures


class IdempotencyConflictError(ClvlabError):
    """The key was used with another configuration (``fingerprint``), or its attempt failed for good (``prior_attempt``)."""

    http_status = 409

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class UnknownBacktestError(ClvlabError):
    """No backtest report of that id."""

    http_status = 404


class SettingsError(ClvlabError):
    """Settings of the service can't be used, or exclude each other."""


def install_advice(requirement: str, program: str = "pip") -> str:
    """Return the command that installs a requirement; double quotes keep brackets whole in every shell, on Windows too.

    Examples
    --------
    >>> install_advice("clvlab[service]"), install_advice("matplotlib")
    ('pip install "clvlab[service]"', 'pip install matplotlib')
    """
    return f"{program} install " + (f'"{requirement}"' if "[" in requirement else requirement)


class MissingLibraryError(ClvlabError):
    """A library is not installed. ``requirement`` names it for pip."""

    def __init__(self, library: str, what: str) -> None:
        self._advise(library, what, library)

    def _advise(self, library: str, what: str, requirement: str) -> None:
        super().__init__(f"{what} needs {library}, which is not installed: {install_advice(requirement)}")
        self.library = library
        self.requirement = requirement


class MissingExtraError(MissingLibraryError):
    """The libraries of a part of clvlab are not installed."""

    def __init__(self, extra: str, module: str | None) -> None:
        self._advise(str(module), "this", f"clvlab[{extra}]")
        self.extra = extra


class StatisticsError(ClvlabError):
    """Statistics can't be made of the input: too few backtests, different packs, an empty grid, a level of 2."""


class PackTooLargeError(AgentError):
    """An agent that can't decide fixture by fixture would have to see more at once than fits in memory."""

    def __init__(self, agent_id: str, why: str, needed_mb: int, limit_mb: int) -> None:
        super().__init__(
            f"agent {agent_id!r} must see all fixtures at once: {why}. That takes about {needed_mb:,} MB, and {limit_mb:,} MB "
            "may be used here (CLVLAB_MEMORY_MB): name fewer fixtures, or let it decide about each fixture by itself"
        )
        self.agent_id = agent_id


class ExecutorError(ClvlabError):
    """Worker processes died, or are missing."""


class QueryError(ClvlabError):
    """A SQL statement can't be answered."""


class UnsupportedError(ClvlabError):
    """The laboratory can't do something where it is; the text says where it can be done."""


class ServiceUnreachableError(ClvlabError):
    """A service can't be reached, or did not answer in time."""


class UnknownMarketError(ClvlabError):
    """The fixture has no such market, on its tape or in a decision."""

    def __init__(self, market_key: str, fixture_id: int, known: tuple[str, ...]) -> None:
        listed = ", ".join(repr(key) for key in known[:5]) + (", ..." if len(known) > 5 else "")
        super().__init__(f"fixture {fixture_id} has no market {market_key!r}; it has {len(known)}: {listed}")
        self.market_key = market_key
        self.fixture_id = fixture_id
