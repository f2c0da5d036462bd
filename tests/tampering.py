"""Changing what lies in a store, as somebody who has the database could."""

from sqlalchemy import select

from clvlab.store.runs import chunks, lines_of
from clvlab.store.tables import run_chunks


def rewrite(connection, run_id, change, table=run_chunks, **key):
    """Have the lines of the first chunk of a run be what ``change`` makes of them, stored as lines are."""
    own = table.c
    where = [own.run_id == run_id, own.first_line == 0, *(own[name] == value for name, value in key.items())]
    found = connection.execute(select(own.lines, own.size).where(*where)).one()
    was = lines_of(found.lines, found.size)
    changed = change(was)
    assert changed != was
    (chunk,) = chunks(changed)
    connection.execute(table.update().where(*where).values(lines=chunk.stored, size=chunk.size))
