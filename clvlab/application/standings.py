"""The leaderboard over every sealed run of the store."""

from __future__ import annotations

from typing import Any

__all__ = ["Leaderboard"]


class Leaderboard:
    """Use cases of the global ranking."""

    def rows(self) -> dict[str, Any]:
        """Give ``{rows: [LeaderboardRow]}``, in a time that does not grow with runs or decisions."""
        raise NotImplementedError

    def rebuild(self) -> list[str]:
        """Recompute all of it from the sealed bytes and store that; gives a sentence for every difference found."""
        raise NotImplementedError
