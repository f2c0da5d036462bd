"""Several imports, each into a pack of its own, wherever there is room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

from clvlab.application.executors import Fault, Work, in_order
from clvlab.errors import ClvlabError, PackFormatError
from clvlab.packs.importers.importing import import_source
from clvlab.packs.importers.source import Options, silent


@dataclass(frozen=True, slots=True)
class Import:
    """Files or folders of a source, and where their pack will stand."""

    source: str
    paths: tuple[Path, ...]
    folder: Path
    options: Options


def import_all(imports: Sequence[Import], executor: Executor | None = None) -> Iterator[Path]:
    """Make packs, in their order, and yield the folder of each; what is in one does not depend on who makes it.

    Packs that were made before another failed stay.

    Raises
    ------
    PackFormatError
        Two packs would stand in one folder; nothing is read then.
    ExecutorError, ClvlabError
        As ``in_order`` and ``import_source``.
    """
    places = Counter(one.folder.resolve() for one in imports)
    twice = next((one.folder for one in imports if places[one.folder.resolve()] > 1), None)
    if twice is not None:
        raise PackFormatError(f"two packs would stand in {str(twice)!r}: give each a folder of its own")
    quiet = (replace(one, options=replace(one.options, progress=silent)) for one in imports)  # several would talk at once
    return in_order(Work(_here, _there, _said), quiet, len(imports), executor)


def _here(imports: Sequence[Import]) -> list[Path]:
    for one in imports:
        import_source(one.source, one.paths, one.folder, one.options)
    return [one.folder for one in imports]


def _there(imports: Sequence[Import]) -> list[Path] | Fault:
    try:
        return _here(imports)
    except ClvlabError as error:
        return Fault.of(error)


def _said(one: Import) -> str:
    return f"of the import to {str(one.folder)!r}"
