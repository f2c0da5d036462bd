"""Bytecode that Python would run in place of a source: it must be what the source compiles to.

Python runs a cached ``.pyc`` unread when its header fits the source, or promises that it does (PEP 552), so that other
code can stand under an innocent source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.abc import SourceLoader
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType

from clvlab.proof.closure import content_of, state_of


@dataclass(frozen=True, slots=True)
class Cached:
    """What stands in the cache for a source, and the time that its header is compared with."""

    name: str
    bytecode: bytes
    mtime: int


def read_cache(root: Path, sources: Mapping[str, bytes]) -> tuple[Cached, ...]:
    """Read what this Python has in its cache for the sources of a package folder."""
    found = []
    for name in sources:
        source, cache = _paths(root, name)
        try:
            found.append(Cached(name, content_of(cache, state_of(cache)), int(source.stat().st_mtime)))
        except OSError:  # gone, or unreadable: Python compiles the source
            continue
    return tuple(found)


@lru_cache(maxsize=1024)
def _paths(root: Path, name: str) -> tuple[Path, Path]:
    """Return where a source is, and where its bytecode would be."""
    return root / name, Path(cache_from_source(str(root / name)))


def foreign_bytecode(sources: Mapping[str, bytes], found: Iterable[Cached]) -> list[str]:
    """List the sources in whose place this Python would run other code."""
    wrong = [entry.name for entry in found if not _runs_as_written(sources[entry.name], entry)]
    return [f"{name}: Python would run bytecode that is not compiled from it" for name in wrong]


class _Loader(SourceLoader):
    """Python's own choice between a source and its cache, made on bytes that were read before."""

    def __init__(self, source: bytes, entry: Cached) -> None:
        self.source, self.entry = source, entry

    def get_filename(self, fullname: str) -> str:
        return fullname

    def get_data(self, path: str | bytes) -> bytes:
        return self.source if path == self.entry.name else self.entry.bytecode

    def path_stats(self, path: str | bytes) -> Mapping[str, int]:
        return {"mtime": self.entry.mtime, "size": len(self.get_data(path))}


def _runs_as_written(source: bytes, entry: Cached) -> bool:
    try:
        code = _Loader(source, entry).get_code(entry.name)
        own = compile(source, entry.name, "exec", dont_inherit=True)
    except (EOFError, ImportError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        return False
    return code is not None and _bare(code) == _bare(own)


def _bare(code: CodeType) -> tuple[CodeType, bytes]:
    """Leave out where the source was and its columns, which depend on how it was compiled."""
    inner = tuple(_bare(value) if isinstance(value, CodeType) else value for value in code.co_consts)
    return code.replace(co_filename="", co_linetable=b"", co_consts=inner), code.co_exceptiontable
