"""Audit of a run log, entry by entry, by the rules that ``clvlab.log.log`` keeps when it writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from clvlab.errors import EvidenceError, LogError
from clvlab.log.entries import (
    AnswersEntry,
    Audits,
    Commit,
    EntryKind,
    HeldEntry,
    OpeningEntry,
    Outcome,
    PlanEntry,
    ReleasedEntry,
    Restart,
    SeatEntry,
    Segment,
    entry_and_time,
)
from clvlab.log.held import HeldAuditor, HeldHistory
from clvlab.log.log import Claim, RunCounts, audit_seed, name_fault
from clvlab.log.plans import PlanAuditor, PlanHistory
from clvlab.log.restarts import RestartRecord
from clvlab.proof.canonical import HASH
from clvlab.proof.manifest import derived_run_id
from clvlab.proof.merkle import Frontier, leaf_hash

_MAX_ENTRY = 16_384  # names are short, so no valid entry is longer
_NAMED = 20


@dataclass(frozen=True, slots=True)
class Broken:
    index: int | None
    rule: str


@dataclass(frozen=True, slots=True)
class PackCounts:
    """Runs of an owner over a pack. ``elsewhere`` counts commitments over other packs or none, maybe about the same odds.

    ``further_attempts`` counts audits beyond the first in each run that is not sealed, and failed audits in sealed runs.
    """

    owner: str
    content_hash: str | None
    runs: RunCounts
    elsewhere: int
    further_attempts: int = 0


@dataclass(frozen=True, slots=True)
class Drawn:
    """An agent's audit as the log drew it: the number of attempts over the pack, and the seed."""

    agent_id: str
    attempts: int
    seed: int


@dataclass(frozen=True, slots=True)
class Recount:
    """Other commitments by the owner of a bundle's run, among the first ``size`` entries, which its checkpoint covers.

    ``counts`` covers commitments over the same pack or without a pack; it is ``None`` if the run's own commitment names no
    pack. ``elsewhere`` counts commitments over other packs.
    """

    bundle: str
    size: int
    counts: Claim | None
    elsewhere: int
    draws: tuple[Drawn, ...]


@dataclass(frozen=True, slots=True)
class Falls:
    """Number of entries with an earlier time than the previous entry, and the first of them."""

    count: int
    first: int | None


@dataclass(slots=True)
class _Commitment:
    run_id: str
    pack: tuple[str, str | None]
    names_pack: bool
    ended: int | None = None
    abandoned: bool = False
    further_attempts: int = 0
    attempt: int = 1
    draws: dict[str, Drawn] = field(default_factory=dict)
    seat_ticks: int = -1


@dataclass(slots=True)
class _Tally:
    committed: int = 0
    sealed: int = 0
    abandoned: int = 0
    further_attempts: int = 0
    answered_again: int = 0

    def counts(self) -> RunCounts:
        return RunCounts(self.committed, self.sealed, self.abandoned)


@dataclass
class Auditor:
    """Reader of a log from its first entry on. Memory grows with the number of runs, and time with the number of entries.

    ``falls`` has the entries with an earlier time than the previous entry. They break no rule, because several unverified
    clocks write one log.
    """

    broken: list[Broken] = field(default_factory=list)
    broken_count: int = 0
    restarts: list[RestartRecord] = field(default_factory=list)
    recounts: list[Recount] = field(default_factory=list)
    falls: Falls = Falls(0, None)
    _last_ts_ms: int = 0
    _tree: Frontier = field(default_factory=Frontier)
    _commitments: dict[int, _Commitment] = field(default_factory=dict)
    _newest: dict[str, int] = field(default_factory=dict)
    _packs: dict[str, tuple[int, str]] = field(default_factory=dict)
    _segments: dict[str, int] = field(default_factory=dict)
    _plans: PlanAuditor = field(default_factory=PlanAuditor)
    _held: HeldAuditor = field(default_factory=HeldAuditor)
    _tallies: dict[tuple[str, str | None], _Tally] = field(default_factory=lambda: defaultdict(_Tally))
    _due: dict[int, list[tuple[str, Callable[[], None]]]] = field(default_factory=lambda: defaultdict(list))
    _expected: dict[int, list[tuple[str, bytes]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def size(self) -> int:
        return self._tree.size

    def root(self) -> bytes:
        return self._tree.root()

    def fail(self, rule: str, index: int | None = None) -> None:
        self.broken_count += 1
        if len(self.broken) < _NAMED:
            self.broken.append(Broken(index, rule))

    def expect_root(self, size: int, root: bytes, whose: str) -> None:
        """Require the tree of the first ``size`` entries to have this root. Call it before that many entries are read."""

        def check() -> None:
            if self.root() != root:
                self.fail(f"{whose} at {size} entries has the root {root.hex()}, the entries give {self.root().hex()}")

        self._due[size].append((whose, check))

    def expect_owners(self, size: int, counts: Mapping[str, RunCounts], whose: str) -> None:
        def check() -> None:
            found = self._by_owner()
            for owner in sorted(counts.keys() | found.keys()):
                stated, counted = counts.get(owner, RunCounts(0, 0, 0)), found.get(owner, RunCounts(0, 0, 0))
                if stated != counted:
                    self.fail(
                        f"{whose} counts {_counts(stated)} runs of {owner[:120]!a}, the first {size} entries {_counts(counted)}"
                    )

        self._due[size].append((whose, check))

    def recount(self, commit: Commit, index: int, size: int, stated: Claim | None, whose: str) -> None:
        """Count the owner's other commitments among the first ``size`` entries. The count must equal a bundle's claim."""
        earlier = 0

        def before() -> None:
            nonlocal earlier
            earlier = self._tallies[commit.owner, commit.content_hash].committed

        def check() -> None:
            tally, unnamed = self._tallies[commit.owner, commit.content_hash], self._tallies[commit.owner, None]
            found = Claim(earlier, tally.committed - earlier - 1, tally.abandoned, unnamed.committed)
            named = commit.content_hash is not None
            total = self._by_owner().get(commit.owner, RunCounts(0, 0, 0)).committed
            elsewhere = total - unnamed.committed - (tally.committed if named else 0)
            known = self._commitments.get(index)
            sealed = known is not None and known.ended is not None and not known.abandoned
            failed_here = known.further_attempts if known is not None and sealed else 0  # failed audits of this run
            draws = () if known is None else (replace(one, attempts=one.attempts + failed_here) for one in known.draws.values())
            self.recounts.append(Recount(whose, size, found if named else None, elsewhere, tuple(draws)))
            if stated is not None and not named:
                self.fail(f"{whose} states counts over a pack that its commitment does not name", index)
            elif stated is not None and found != stated:
                self.fail(f"{whose} states {_claimed(stated)}, the first {size} entries give {_claimed(found)}", index)

        self._due[index].append((whose, before))
        self._due[size].append((whose, check))

    def expect_entry(self, index: int, entry: bytes, whose: str) -> None:
        self._expected[index].append((whose, entry))

    def add(self, data: bytes) -> None:
        self._reached()
        index = self.size
        for whose, expected in self._expected.pop(index, ()):
            if expected != data:
                self.fail(f"{whose} has another entry {index} than the log", index)
        self._tree.extend([leaf_hash(data)])
        try:
            if len(data) > _MAX_ENTRY:
                raise EvidenceError(f"it has {len(data)} bytes")
            entry, ts_ms = entry_and_time(data)
        except EvidenceError as error:
            self.fail(f"entry {index} is not well-formed: {error}", index)
            return
        if ts_ms < self._last_ts_ms:
            self.falls = Falls(self.falls.count + 1, index if self.falls.first is None else self.falls.first)
        self._last_ts_ms = ts_ms
        if isinstance(entry, Restart):
            self._restart(index, data)
            return
        if isinstance(entry, Segment):
            self._segment(index, entry)
            return
        if isinstance(entry, PlanEntry | OpeningEntry):
            rule = self._plans.add(index, entry)
            if rule is not None:
                self.fail(rule, index)
            return
        if isinstance(entry, HeldEntry | ReleasedEntry):
            used = any(tally.committed for (_, pack), tally in self._tallies.items() if pack == entry.content_hash)
            rule = self._held.add(index, entry, is_used=used)
            if rule is not None:
                self.fail(rule, index)
            return
        if isinstance(entry, Audits):
            self._audits(index, entry)
            return
        if isinstance(entry, AnswersEntry):
            self._answered(index, entry)
            return
        if isinstance(entry, SeatEntry):
            self._seat(index, entry)
            return
        name = entry.owner if isinstance(entry, Commit) else entry.cause
        fault = None if name is None else name_fault(name)
        if fault is not None:
            self.fail(f"entry {index} has {fault}", index)
        if isinstance(entry, Commit):
            self._commit(index, entry)
        else:
            self._end(index, entry)

    def finish(self) -> None:
        """Check all expectations that are left. Expectations about entries after the end fail."""
        self._reached()
        for size, due in sorted(self._due.items()):
            for whose in dict.fromkeys(whose for whose, _ in due):
                self.fail(f"{whose} speaks of {size} entries, the log has {self.size}: it shrank, or is another one")
        for index, expected in sorted(self._expected.items()):
            for whose, _ in expected:
                self.fail(f"{whose} has an entry {index}, the log has {self.size} entries")

    def counts(self) -> tuple[PackCounts, ...]:
        rows = sorted(self._tallies.items(), key=lambda row: (row[0][0], row[0][1] or ""))
        totals = self._by_owner()
        return tuple(
            PackCounts(
                owner,
                pack,
                tally.counts(),
                totals[owner].committed - tally.committed,
                tally.further_attempts + tally.answered_again,
            )
            for (owner, pack), tally in rows
            if tally.committed
        )

    def plans(self) -> tuple[PlanHistory, ...]:
        return tuple(self._plans.plans.values())

    def held(self) -> tuple[HeldHistory, ...]:
        return tuple(self._held.packs.values())

    def _reached(self) -> None:
        for _, check in self._due.pop(self.size, ()):
            check()

    def _restart(self, index: int, data: bytes) -> None:
        try:
            found = RestartRecord.read(index, data)
        except LogError as error:
            self.fail(str(error), index)
            return
        ended = [one.before.origin for one in self.restarts]
        if self.restarts and found.before.origin != self.restarts[-1].key.name:
            self.fail(f"entry {index} restarts {found.before.origin[:120]!a}, not {self.restarts[-1].key.name[:120]!a}", index)
        elif found.key.name in ended or found.key.public in {one.key.public for one in self.restarts}:
            self.fail(f"entry {index} takes up the name or key {str(found.key)[:120]!a}, which the log had before", index)
        self.restarts.append(found)

    def _segment(self, index: int, entry: Segment) -> None:
        if name_fault(entry.capture_id) is not None or not HASH.fullmatch(entry.sha256):
            self.fail(f"entry {index} names no segment: {entry.capture_id[:80]!a}, {entry.sha256[:80]!a}", index)
            return  # a run with an invalid name is not counted
        due = self._segments.get(entry.capture_id, 0) + 1
        if entry.number != due:
            self.fail(f"entry {index} is segment {entry.number} of capture {entry.capture_id[:80]!a}, {due} is due", index)
        self._segments[entry.capture_id] = max(due, entry.number)

    def _commit(self, index: int, entry: Commit) -> None:
        hashes = [text for text in (entry.inputs_hash, entry.content_hash, entry.sources_hash) if text is not None]
        if not all(map(HASH.fullmatch, hashes)):
            self.fail(f"entry {index} commits by no hash: {', '.join(f'{text[:80]!a}' for text in hashes)}", index)
        elif entry.run_id != derived_run_id(entry.inputs_hash):  # one run under two ids would count as two, or as another run
            self.fail(f"entry {index} commits to run {entry.run_id[:80]!a}, which is not the id of {entry.inputs_hash}", index)
        last = self._newest.get(entry.run_id)
        before = None if last is None else self._commitments[last]
        if before is not None and not before.abandoned:
            state = "is open" if before.ended is None else f"has the result {before.ended}"
            self.fail(f"entry {index} commits again to run {entry.run_id[:80]!a}, whose commitment {last} {state}", index)
        if entry.content_hash is not None:
            first, named = self._packs.setdefault(entry.run_id, (index, entry.content_hash))  # kept over entries without a pack
            if named != entry.content_hash:
                self.fail(f"entry {index} commits to run {entry.run_id[:80]!a} over another pack than entry {first}", index)
        pack = (entry.owner, entry.content_hash)
        tally = self._tallies[pack]
        attempt = tally.committed - tally.sealed + tally.further_attempts + 1
        self._commitments[index] = _Commitment(entry.run_id, pack, entry.names_pack, attempt=attempt)
        self._newest[entry.run_id] = index
        tally.committed += 1

    def _end(self, index: int, entry: Outcome) -> None:
        of, known = entry.commit_index, self._commitments.get(entry.commit_index)
        what = f"entry {index} ({entry.kind}) of run {entry.run_id[:80]!a}"
        if entry.manifest_hash is not None and not HASH.fullmatch(entry.manifest_hash):
            self.fail(f"{what} names no manifest hash: {entry.manifest_hash[:80]!a}", index)
        if known is None:
            self.fail(f"{what} names entry {of}, which is not a commitment before it", index)
        elif known.run_id != entry.run_id:
            self.fail(f"{what} names entry {of}, which commits to run {known.run_id[:80]!a}", index)
        elif known.ended is not None:
            self.fail(f"{what} ends commitment {of}, which entry {known.ended} ended already", index)
        else:
            pack = entry.content_hash
            if entry.names_pack and known.names_pack and pack != known.pack[1]:
                self.fail(f"{what} is over another pack than its commitment {of}", index)
            elif pack is not None and not HASH.fullmatch(pack):
                self.fail(f"{what} names no pack: {pack[:80]!a}", index)
            held = self._held.packs.get(known.pack[1] or "")
            if entry.kind == EntryKind.RESULT and known.seat_ticks < 0 and held is not None and held.covers(of):
                self.fail(f"{what} is no seat's, and is over the pack that entry {held.index} holds back", index)
            known.ended, known.abandoned = index, entry.kind == EntryKind.ABANDONED
            tally = self._tallies[known.pack]
            tally.sealed, tally.abandoned = tally.sealed + (not known.abandoned), tally.abandoned + known.abandoned

    def _audits(self, index: int, entry: Audits) -> None:
        of, known = entry.commit_index, self._commitments.get(entry.commit_index)
        what = f"entry {index} (AUDITS) of run {entry.run_id[:80]!a}"
        if known is None or known.run_id != entry.run_id:
            self.fail(f"{what} names entry {of}, which is not a commitment to it", index)
        elif known.ended is not None or entry.agents == known.further_attempts:
            self.fail(f"{what} must state another count than its commitment {of}, before its result", index)
        else:
            self._tallies[known.pack].further_attempts += entry.agents - known.further_attempts
            known.further_attempts = entry.agents

    def _seat(self, index: int, entry: SeatEntry) -> None:
        of, known = entry.commit_index, self._commitments.get(entry.commit_index)
        what = f"entry {index} (SEAT) of run {entry.run_id[:80]!a}"
        if not HASH.fullmatch(entry.head):
            self.fail(f"{what} names no head: {entry.head[:80]!a}", index)
        elif known is None or known.run_id != entry.run_id:
            self.fail(f"{what} names entry {of}, which is not a commitment to it", index)
        elif known.ended is not None or entry.ticks <= known.seat_ticks:
            self.fail(f"{what} must have more ticks than the one before, and precede the end of its commitment {of}", index)
        elif known.seat_ticks < 0 and entry.ticks:
            self.fail(f"{what} is the first of its commitment {of}, and must be of 0 ticks", index)
        else:
            known.seat_ticks = entry.ticks

    def _answered(self, index: int, entry: AnswersEntry) -> None:
        of, known = entry.commit_index, self._commitments.get(entry.commit_index)
        what = f"entry {index} (ANSWERED) of run {entry.run_id[:80]!a}"
        fault = name_fault(entry.agent_id)
        if fault is not None or not HASH.fullmatch(entry.answers_hash):
            self.fail(f"{what} names no agent and answer: {entry.agent_id[:80]!a}, {entry.answers_hash[:80]!a}", index)
        elif known is None or known.run_id != entry.run_id:
            self.fail(f"{what} names entry {of}, which is not a commitment to it", index)
        elif known.ended is not None:
            self.fail(f"{what} must come before the entry that ends its commitment {of}", index)
        else:
            tally, again = self._tallies[known.pack], entry.agent_id in known.draws
            attempts = known.attempt + tally.answered_again + again
            known.draws[entry.agent_id] = Drawn(entry.agent_id, attempts, audit_seed(self.root()))
            tally.answered_again += again

    def _by_owner(self) -> dict[str, RunCounts]:
        totals: dict[str, _Tally] = defaultdict(_Tally)
        for (owner, _), tally in self._tallies.items():
            total = totals[owner]
            total.committed += tally.committed
            total.sealed += tally.sealed
            total.abandoned += tally.abandoned
        return {owner: total.counts() for owner, total in totals.items()}


def _counts(runs: RunCounts) -> str:
    return f"{runs.committed} committed, {runs.sealed} sealed and {runs.abandoned} abandoned"


def _claimed(claim: Claim) -> str:
    named = f"{claim.earlier} earlier, {claim.later} later and {claim.abandoned} abandoned"
    return f"{named} over this pack, and {claim.unknown_pack} that name none"
