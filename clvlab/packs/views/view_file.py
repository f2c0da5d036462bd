"""View files: the derivation of a pack in writing, from which it is made again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from clvlab.base.files import file_bytes_or_none
from clvlab.errors import PackError, PackTamperedError, UnknownPackError, ViewError
from clvlab.packs.manifest import DESCRIPTOR
from clvlab.packs.reader import Pack, load_pack
from clvlab.packs.views.derivation import VIEW_SCHEMA, DerivationKind, DerivedPack

VIEW_FILE = "view.json"  # next to a run
_MAX_BYTES = 64 << 20
_MAX_DEPTH = 50

Finder = Callable[[str, str], Pack | None]
"""Finds an available pack by its id and content hash; ``None`` if it is missing."""


class PackDescription(BaseModel):
    """A pack in a view file: one that must be available, or a derived one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pack_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]
    content_hash: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    kind: DerivationKind | None = None
    rule: dict[str, object] | None = None
    parents: tuple[PackDescription, ...] | None = None

    @model_validator(mode="after")
    def _whole(self) -> PackDescription:
        if (self.kind is None) != (self.rule is None) or (self.kind is None) != (not self.parents):
            raise ValueError("kind, rule and parents stand together")
        return self


class ViewFile(PackDescription):
    schema_: Literal["clvlab-view/1"] = Field(alias="schema")


def view_file(pack: Pack) -> bytes:
    """Return the view file of a derived pack; empty for another pack."""
    if not isinstance(pack, DerivedPack):
        return b""
    content = {"schema": VIEW_SCHEMA, **_described(pack)}
    return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def _described(pack: Pack) -> Mapping[str, object]:
    named: dict[str, object] = {"pack_id": pack.pack_id, "content_hash": pack.content_hash}
    if not isinstance(pack, DerivedPack):
        return named
    own = pack.derivation
    return named | {"kind": own.kind.value, "rule": own.rule, "parents": [_described(parent) for parent in own.parents]}


def read_view(content: bytes, where: str) -> ViewFile:
    """Read a view file.

    Raises
    ------
    ViewError
        The content is not a view file.
    """
    try:
        found = ViewFile.model_validate(orjson.loads(content))
    except (orjson.JSONDecodeError, ValidationError, RecursionError) as error:
        raise ViewError(f"{where!r} is no view file of {VIEW_SCHEMA}: {str(error).splitlines()[0]}") from error
    if _depth(found) > _MAX_DEPTH:
        raise ViewError(f"{where!r} is a view of more than {_MAX_DEPTH} views of each other")
    return found


def _depth(described: PackDescription) -> int:
    return 1 + max(map(_depth, described.parents or ()), default=0)


def is_view_file(where: str | Path) -> bool:
    """Whether a path is that of a view file, by its ending and content."""
    path = Path(where)
    if path.suffix != ".json" or not path.is_file():
        return False
    content = file_bytes_or_none(path, _MAX_BYTES) or b""
    return f'"{VIEW_SCHEMA}"'.encode() in content


def open_view(path: Path, find: Finder) -> Pack:
    """Make the pack of a view file again; packs next to the file or in folders there are found too.

    Raises
    ------
    ViewError
        The file is not a view file.
    UnknownPackError
        A parent is not available.
    PackTamperedError
        The result does not have the stated hash.
    """
    content = file_bytes_or_none(path, _MAX_BYTES)
    if content is None:
        raise ViewError(f"no view file at {str(path)!r}")
    find_near = finder(path.parent)
    return made_again(read_view(content, str(path)), lambda name, of: find(name, of) or find_near(name, of))


def made_again(described: PackDescription, find: Finder) -> Pack:
    found = find(described.pack_id, described.content_hash)
    if found is not None:
        return found
    if described.kind is None:
        raise UnknownPackError(f"pack {described.pack_id!r} of {described.content_hash} is not at hand: name its folder")
    made = _made(described, [made_again(parent, find) for parent in described.parents or ()])
    if made.content_hash != described.content_hash:
        raise PackTamperedError(f"view {described.pack_id!r}", described.content_hash, made.content_hash)
    return made


def _made(described: PackDescription, parents: list[Pack]) -> Pack:
    # Imported here, as most packs are no views.
    from clvlab.packs.views.concatenation import concatenated
    from clvlab.packs.views.join import joined_by
    from clvlab.packs.views.rule import Rule
    from clvlab.packs.views.view import view_of

    payload = described.rule or {}
    match described.kind:
        case DerivationKind.WHERE if len(parents) == 1:
            return view_of(parents[0], Rule.of_payload(payload))
        case DerivationKind.CONCAT if not payload:
            return concatenated(parents)
        case DerivationKind.JOIN if len(parents) > 1:
            return joined_by(parents, payload)
        case _:
            raise ViewError(f"{described.kind} of {len(parents)} packs by {payload!r:.80} is nothing that clvlab makes")


def finder(*folders: Path, packs: Iterable[Pack] = ()) -> Finder:
    """Return a finder over some packs and folders; a folder is a pack itself, or contains packs under their names."""
    from clvlab.packs.verification import verified  # only where a view is made again

    known = {pack.content_hash: pack for pack in packs}

    def find(pack_id: str, content_hash: str) -> Pack | None:
        if content_hash in known:
            return known[content_hash]
        for folder in (place for one in folders for place in (one, one / pack_id)):
            if not (folder / DESCRIPTOR).is_file():
                continue
            try:
                found = load_pack(folder)
            except PackError:  # another pack, or a broken one; without a match the error names the missing pack
                continue
            if found.content_hash == content_hash:
                return verified(found)  # its content hash does not cover the hash of its ticks file
        return None

    return find


@dataclass(frozen=True, slots=True)
class ViewPlace:
    """The place from which a derived pack can be made again, in any process."""

    content: bytes
    folders: tuple[Path, ...]


Place = Path | ViewPlace


def place_of(pack: Pack) -> Place:
    """Return the place from which a pack can be opened again: its folder, or its rule and folders."""
    return ViewPlace(view_file(pack), tuple(folders_of(pack))) if isinstance(pack, DerivedPack) else pack.folder


def folders_of(pack: Pack) -> list[Path]:
    """Return the folders that a pack is read from: its own, or those of all its parents."""
    if not isinstance(pack, DerivedPack):
        return [pack.folder]
    return list(dict.fromkeys(folder for parent in pack.derivation.parents for folder in folders_of(parent)))


def load_place(place: Place, content_hash: str) -> Pack:
    if isinstance(place, Path):
        pack = load_pack(place)
    else:
        roots = [load_pack(folder) for folder in place.folders]
        pack = made_again(read_view(place.content, "view"), finder(packs=roots))
    if pack.content_hash != content_hash:
        raise PackTamperedError(f"content_hash of {pack.pack_id!r}", content_hash, pack.content_hash)
    return pack
