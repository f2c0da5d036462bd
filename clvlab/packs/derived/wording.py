"""A derived pack in words."""

from __future__ import annotations

from clvlab.packs.derived.derivation import DerivedPack, Kind
from clvlab.packs.derived.rule import Rule
from clvlab.packs.reader import Pack


def derived_words(pack: DerivedPack) -> str:
    """Say what a derived pack is made of, and how."""
    own = pack.derivation
    names = [_words(parent) for parent in own.parents]
    if own.kind is Kind.WHERE:
        return f"view of {names[0]}: {Rule.of_payload(own.rule).words}"
    if own.kind is Kind.JOIN:
        return f"{names[0]}, with {' and '.join(names[1:])} as books"
    return f"{' and '.join(names)} as one"


def _words(pack: Pack) -> str:
    return f"({derived_words(pack)})" if isinstance(pack, DerivedPack) else repr(pack.pack_id)
