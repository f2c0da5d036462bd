"""Why a run failed, in words for its owner."""

from __future__ import annotations

from clvlab.errors import ClvlabError


def cause_of(error: Exception) -> str:
    """Return what an error says; of one that is not clvlab's own, its class alone."""
    return str(error) if isinstance(error, ClvlabError) else type(error).__name__
