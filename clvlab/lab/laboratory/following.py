"""A fixture that is followed here live, as a laboratory is asked to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from clvlab.application.live.configured import feed_at
from clvlab.application.live.question import LiveQuestion
from clvlab.application.runs.perform import PerformedRun
from clvlab.drawing import html
from clvlab.engine.agent import Agent
from clvlab.lab.drawing.progress import shown_state
from clvlab.lab.laboratory.place import LiveRequest
from clvlab.packs.reader import Pack

if TYPE_CHECKING:
    from clvlab.application.kept import KeptRuns  # needs the libraries of the store
    from clvlab.application.live.view import LiveView

_NEWEST = 5
_COLUMNS = ("agent_id", "action", "side", "prob_bps", "odds_milli", "market_key", "tick_seq")


def follow_feed(
    request: LiveRequest, agents: Sequence[Agent], kept: KeptRuns, folder: Path, house: Callable[[Pack], Pack]
) -> PerformedRun:
    """Follow a fixture of a feed live until the run is sealed, and keep it; see ``Lab.live``.

    Parameters
    ----------
    request, agents
        What is followed, by whom.
    kept
        Where the run is committed to and kept.
    folder
        Of live runs.
    house
        Puts the captured pack where it will stay.
    """
    asked = LiveQuestion(
        feed_at(request.feed),
        agents,
        request.fixture,
        request.window,
        request.policy,
        request.until,
        request.grace_s,
    )
    whom = agents[0].identity.agent_id if len(agents) == 1 else f"{len(agents)} agents"
    with shown_state(f"Live run of {whom}", "sealed", progress=request.progress, more=_newest) as look:
        return kept.live(asked, folder, look, house)


def _newest(view: LiveView) -> str:
    """Return the newest decisions as a table, the last one first; all are pending."""
    shown = view.decisions(view.count - _NEWEST).select(*_COLUMNS).select(pl.all().reverse())
    rows = html.table(shown.columns, shown.rows())
    return html.section("Newest decisions, pending until the seal", rows, whole=True) if shown.height else ""
