"""The run log as rows: entries, and roots of complete subtrees; ``clvlab.log.log`` has its rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, bindparam, func, select

from clvlab.errors import LogError
from clvlab.log.entries import OF_RUNS, EntryKind
from clvlab.store import plans
from clvlab.store.database import Database, guard_of
from clvlab.store.tables import log_counts, log_entries, log_nodes
from clvlab.store.waits import lock_log

# Statements of every run and proof card are built once: to build one takes several times as long as to execute it in SQLite.
_of = log_entries.c
_LAST = select(func.max(_of.idx))
_ENTRY = select(_of.entry).where(_of.idx == bindparam("idx"))
_NODE = select(log_nodes.c.hash).where(log_nodes.c.level == bindparam("level"), log_nodes.c.idx == bindparam("idx"))
_NODES = (
    select(log_nodes.c.hash)
    .where(log_nodes.c.level == bindparam("level"), log_nodes.c.idx >= bindparam("first"), log_nodes.c.idx < bindparam("end"))
    .order_by(log_nodes.c.idx)
)
_ABOUT = select(_of.idx, _of.kind).where(_of.run_id == bindparam("run_id")).order_by(_of.idx)
_NEWEST = select(_of.idx).where(_of.owner == bindparam("owner"), _of.kind == bindparam("kind"), _of.idx < bindparam("size"))
_NEWEST = _NEWEST.order_by(_of.idx.desc()).limit(1)
_OF_PACK, _OF_NO_PACK = (
    select(log_counts.c.earlier).where(log_counts.c.idx == _NEWEST.where(of_pack).scalar_subquery())
    for of_pack in (_of.content_hash == bindparam("content_hash"), _of.content_hash.is_(None))
)
_ADD, _ADD_COUNT, _ADD_NODES = log_entries.insert(), log_counts.insert(), log_nodes.insert()


class RunLog:
    def __init__(self, database: Database | None = None) -> None:
        self._database = database or Database()

    @contextmanager
    def write(self) -> Iterator[StoredLogRows]:
        """Open a transaction that appends; it is durable when the context ends."""
        with self._database.write() as connection:
            yield StoredLogRows(connection, writing=True)

    @contextmanager
    def read(self) -> Iterator[StoredLogRows]:
        with self._database.read() as connection:
            yield StoredLogRows(connection)


class StoredLogRows:
    """The rows of the log within one transaction; a writing transaction excludes other writers until it ends."""

    def __init__(self, connection: Connection, *, writing: bool = False) -> None:
        self._connection = connection
        if writing:
            lock_log(connection)

    def size(self) -> int:
        last = self._connection.execute(_LAST).scalar()
        return 0 if last is None else _index(last) + 1

    def entry(self, index: int) -> bytes:
        found = self._connection.execute(_ENTRY, {"idx": index}).scalar()
        if found is None:
            raise LogError(f"the run log lacks entry {index}: it was cut or damaged")
        return _bytes(found, f"entry {index}")

    def node(self, level: int, index: int) -> bytes:
        found = self._connection.execute(_NODE, {"level": level, "idx": index}).scalar()
        if found is None:
            raise LogError(f"the run log lacks the root of subtree {index} at level {level}: it was cut or damaged")
        return _bytes(found, f"the root of subtree {index} at level {level}")

    def nodes(self, level: int, first: int, count: int) -> list[bytes]:
        values = {"level": level, "first": first, "end": first + count}
        found = self._connection.execute(_NODES, values).scalars().all()
        if len(found) != count:
            lacking = f"{count - len(found)} of the roots of subtrees {first} to {first + count - 1} at level {level}"
            raise LogError(f"the run log lacks {lacking}: it was cut or damaged")
        return [_bytes(value, f"the root of subtree {first + at} at level {level}") for at, value in enumerate(found)]

    def about(self, run_id: str) -> list[tuple[int, str]]:
        """Return index and kind of the entries about a run, ascending."""
        return [(_index(index), str(kind)) for index, kind in self._connection.execute(_ABOUT, {"run_id": run_id})]

    def restarts(self) -> list[tuple[int, bytes]]:
        query = select(log_entries.c.idx, log_entries.c.entry).order_by(log_entries.c.idx)
        found = self._connection.execute(query.where(log_entries.c.owner == "", log_entries.c.kind == EntryKind.RESTART))
        return [(_index(index), _bytes(entry, f"entry {index}")) for index, entry in found]

    def held_out(self) -> dict[str, plans.HeldOut]:
        return {plan_id: plans.held(self._connection, plan_id) for plan_id in plans.ids(self._connection, holding=True)}

    def add(
        self,
        index: int,
        kind: str,
        run_id: str,
        owner: str,
        content_hash: str | None,
        commit_index: int | None,
        entry: bytes,
        nodes: dict[tuple[int, int], bytes],
    ) -> None:
        """Store an entry and the roots that it completes; ``LogBehindError`` if the database's guard refuses."""
        guard = guard_of(self._connection)
        if guard is not None and kind != EntryKind.RESTART:  # a restart satisfies the guard
            guard(self)
        values = {"idx": index, "kind": kind, "run_id": run_id, "owner": owner, "commit_index": commit_index, "entry": entry}
        values["content_hash"] = content_hash
        earlier = self.pack_tally(owner, content_hash, kind, index)
        self._connection.execute(_ADD, values)
        self._connection.execute(_ADD_COUNT, {"idx": index, "earlier": earlier})
        made = [{"level": level, "idx": at, "hash": value} for (level, at), value in nodes.items()]
        self._connection.execute(_ADD_NODES, made)

    def tally(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = defaultdict(dict)
        query = select(_of.owner, _of.kind, func.count()).where(_of.kind.in_(OF_RUNS)).group_by(_of.owner, _of.kind)
        for owner, kind, count in self._connection.execute(query):
            found[str(owner)][str(kind)] = int(count)
        return dict(found)

    def pack_tally(self, owner: str, content_hash: str | None, kind: str, size: int) -> int:
        """Count an owner's entries of a kind over a pack among the first ``size``; hash ``None``: those without a pack.

        The last one states the number of earlier ones, so the time does not grow with their number.
        """
        values = {"owner": owner, "content_hash": content_hash, "kind": kind, "size": size}
        last = self._connection.execute(_OF_NO_PACK if content_hash is None else _OF_PACK, values).scalar()
        return 0 if last is None else _index(last, "count") + 1

    def pack_entries(self, owner: str, content_hash: str | None, kind: str, size: int) -> list[bytes]:
        query = select(_of.idx, _of.entry).where(_of.owner == owner, _of.content_hash == content_hash, _of.kind == kind)
        found = self._connection.execute(query.where(_of.idx < size).order_by(_of.idx))
        return [_bytes(entry, f"entry {index}") for index, entry in found]

    def committed_over(self, content_hash: str) -> int | None:
        query = select(func.min(_of.idx)).where(_of.content_hash == content_hash, _of.kind == EntryKind.COMMIT)
        found = self._connection.execute(query).scalar()
        return None if found is None else _index(found)

    def page(self, since: int, limit: int) -> list[tuple[int, bytes]]:
        return entries(self._connection, since, limit)


def entries(connection: Connection, since: int, limit: int) -> list[tuple[int, bytes]]:
    query = select(log_entries.c.idx, log_entries.c.entry).where(log_entries.c.idx >= since)
    found = connection.execute(query.order_by(log_entries.c.idx).limit(limit))
    return [(_index(index), _bytes(entry, f"entry {index}")) for index, entry in found]


def _index(value: object, name: str = "index") -> int:
    """Require an integer: a column of SQLite may hold any type."""
    if not isinstance(value, int):
        raise LogError(f"the run log has an entry whose {name} is {str(value)[:80]!a}, of type {type(value).__name__}: damaged")
    return value


def _bytes(value: object, what: str) -> bytes:
    """Require bytes: a column of SQLite may hold any type."""
    if not isinstance(value, bytes):
        raise LogError(f"{what} of the run log is stored as {type(value).__name__}, not as bytes: it was damaged")
    return value
