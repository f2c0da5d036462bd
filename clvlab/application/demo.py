"""The demo: a small competition over a bundled pack, from roster to proof card."""

from __future__ import annotations

from typing import Any

__all__ = ["Demo"]


class Demo:
    """Use case of the demo run."""

    def run(self) -> dict[str, Any]:
        """Run it, or find it run; gives ``{run_id, competition_id, anchor_status, leaderboard, proof_card}``. Blocks.

        Raises
        ------
        UnknownPackError
            The catalog is empty.
        BusyError
            The pool of public work is full.
        """
        raise NotImplementedError
