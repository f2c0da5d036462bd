"""A look-ahead audit in a notebook."""

from __future__ import annotations

import polars as pl

from clvlab.drawing import html
from clvlab.drawing.showing import Shown
from clvlab.engine.lookahead import BlindDraw, LookaheadReport
from clvlab.report.headline import Tone

_SHOWN_ROWS = 20


class AuditReport(Shown):
    """What a look-ahead audit found."""

    def __init__(self, report: LookaheadReport) -> None:
        self.source = report

    @property
    def agent_id(self) -> str:
        return self.source.agent_id

    @property
    def passed(self) -> bool:
        """Whether no decision depended on later ticks."""
        return self.source.passed

    @property
    def cuts(self) -> int:
        """Number of prefixes that were compared with the whole."""
        return len(self.source.cuts)

    @property
    def seed(self) -> int:
        """What the cuts were chosen by."""
        return self.source.seed

    @property
    def blind(self) -> BlindDraw | None:
        """The fixtures that were drawn without a look at decisions, and in how many use of the future would have been found."""
        return self.source.blind

    @property
    def moved(self) -> pl.DataFrame:
        """One row per decision that depends on later ticks; see ``clvlab.engine.lookahead.LookaheadReport``."""
        return self.source.moved

    @property
    def frame(self) -> pl.DataFrame:
        return self.moved

    def __repr__(self) -> str:
        return repr(self.source)

    def _repr_html_(self) -> str:
        columns = ["change", "fixture_id", "tick_seq", "action", "market_key", "side", "cut_fixture_id", "cut_tick_seq"]
        shown = self.moved.select(columns).head(_SHOWN_ROWS)
        said = f"compared on {self.cuts:,} prefixes of the tape"
        sentence = (
            f"No decision of {self.agent_id} depended on later messages, {said}; {self.blind}."
            if self.passed
            else f"{self.agent_id} looks ahead: {self.moved.height:,} decisions depended on later messages, {said}."
        )
        rows = html.table(columns, shown.rows())
        return html.block(
            f"Look-ahead audit of {self.agent_id}: {'passed' if self.passed else 'FAILED'}",
            html.verdict(sentence, Tone.BEATS if self.passed else Tone.LOSES),
            html.section("They depend on what came after the cut", rows) if shown.height else "",
            html.rest(self.moved.height, shown.height, ".moved"),
            html.details("Details", html.facts(self._facts())),
        )

    def _facts(self) -> dict[str, object]:
        facts: dict[str, object] = {"prefixes compared with the whole": self.cuts, "seed of the cuts": self.seed}
        if self.blind is None:
            return facts
        return facts | {
            "fixtures drawn blindly": f"{len(self.blind.fixture_ids):,} of {self.blind.of:,}",
            "gained in fewer fixtures": "not bounded: what was left out may have lost anything",
            "attempts": "not counted" if self.blind.attempts is None else self.blind.attempts,
        }
