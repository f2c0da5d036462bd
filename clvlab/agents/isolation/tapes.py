"""A tape as files that a process of an agent maps: Arrow IPC, and one file for the rest."""

from __future__ import annotations

import pickle
from pathlib import Path

import polars as pl

from clvlab.law.tape import Tape

_ROWS, _SERIES, _FIXTURES, _REST = "rows.arrow", "series.arrow", "fixtures.arrow", "rest.pickle"
_BOOKS = "books.arrow"
# Views of text keep what they were cut from: the file of a prefix would hold the names of markets that are still to come.
_WITHOUT_VIEWS = pl.CompatLevel.oldest()


def write_tape(tape: Tape, folder: Path) -> None:
    """Write a tape as an agent may see it: kickoffs as announced, and books, which only an agent that asks for them reads."""
    fixtures = tape.fixtures if tape.announced is None else tape.announced
    tape.rows.write_ipc(folder / _ROWS, compression="uncompressed", record_batch_size=max(1, tape.rows.height))
    tape.series.write_ipc(folder / _SERIES, compression="uncompressed", compat_level=_WITHOUT_VIEWS)
    fixtures.write_ipc(folder / _FIXTURES, compression="uncompressed", compat_level=_WITHOUT_VIEWS)
    (folder / _REST).write_bytes(pickle.dumps((tape.binding, tape.closing_policy, tape.max_close_age_s, tape.about)))
    (folder / _BOOKS).unlink(missing_ok=True)  # of another tape
    if tape.books is not None:
        tape.books.sink_ipc(folder / _BOOKS, compression="uncompressed", compat_level=_WITHOUT_VIEWS)


def read_tape(folder: str) -> Tape:
    at = Path(folder)
    binding, closing_policy, max_close_age_s, about = pickle.loads((at / _REST).read_bytes())  # noqa: S301  written by the parent
    rows, series, fixtures = (pl.read_ipc(at / name) for name in (_ROWS, _SERIES, _FIXTURES))
    books = pl.scan_ipc(at / _BOOKS) if (at / _BOOKS).exists() else None
    return Tape(
        binding, rows, series, fixtures, closing_policy, max_close_age_s=max_close_age_s, about=about, books=books
    )  # fmt: skip
