"""The catalog of replay packs as it is published."""

from __future__ import annotations

from typing import Any

__all__ = ["ReplayPacks"]


class ReplayPacks:
    """Use cases of the catalog; no path leaves it."""

    def all(self) -> dict[str, Any]:
        """Give ``{packs: [ReplayPackInfo]}``: verified, allowlisted packs only."""
        raise NotImplementedError

    def info(self, pack_id: str) -> dict[str, Any]:
        """Give ReplayPackInfo.

        Raises
        ------
        UnknownPackError
        """
        raise NotImplementedError
