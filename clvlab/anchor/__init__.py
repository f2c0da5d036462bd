"""Public commitments: memos on a chain, written by the anchorer that the settings choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clvlab.errors import MissingExtraError

if TYPE_CHECKING:  # imported where it is used: a verification that asks no chain needs no settings
    from clvlab.anchor.anchorer import Anchorer
    from clvlab.anchor.records import AnchorRecords
    from clvlab.anchor.settings import AnchorSettings


def anchorer_of(settings: AnchorSettings, records: AnchorRecords) -> Anchorer:
    """Return the anchorer of these settings. Without a key it anchors nothing."""
    if settings.keypair is None:
        from clvlab.anchor.anchorer import NullAnchor

        return NullAnchor(settings)
    try:
        from clvlab.anchor.solana import SolanaAnchor
    except ImportError as error:
        raise MissingExtraError("anchor", error.name) from error
    return SolanaAnchor(settings, records)
