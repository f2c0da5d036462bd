"""View of a live run before its end: its progress and decisions, all of them valid and pending."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import polars as pl

from clvlab.law.actions import Decision
from clvlab.law.message import Message
from clvlab.law.schema import Schema
from clvlab.packs.manifest import Gap
from clvlab.runs.live.journal import Answers, Failure
from clvlab.runs.live.spec import LiveSpec
from clvlab.sources.capture.source import Tracker
from clvlab.words import count, counted, moment, nonempty, span, tally, yes

PENDING = "pending_closing"
"""Reason of a live run's decisions before its seal."""
LIVE_DECISIONS: Schema = {
    "agent_id": pl.String, "fixture_id": pl.Int64, "tick_seq": pl.Int32, "ts_ms": pl.Int64, "action": pl.String,
    "market_key": pl.String, "side": pl.String, "stake": pl.Int64, "prob_bps": pl.Int32, "odds_milli": pl.Int32,
    "valid": pl.Boolean, "reason": pl.String, "clv_bps": pl.Int64,
}  # fmt: skip
"""Decisions before the close: the last price of the backed side, no CLV."""
_Row = tuple[Any, ...]


@dataclass
class LiveView:
    """State of a live run so far; the follower writes it, and viewers read it.

    Attributes
    ----------
    messages
        Number of messages shown to the agents.
    gaps
        Ended periods in which messages may be missing.
    failures
        Errors of agents that failed, by agent id.
    """

    spec: LiveSpec
    clock: Callable[[], int]
    messages: int = 0
    gaps: tuple[Gap, ...] = ()
    failures: dict[str, str] = field(default_factory=dict)
    _rows: list[_Row] = field(default_factory=list, repr=False)
    _markets: dict[str, Message] = field(default_factory=dict, repr=False)

    def decided(self, message: Message, answers: Answers) -> None:
        """Record a message and its decisions."""
        self.messages += 1
        self._markets[message.market_key] = message
        self.failures |= {agent_id: _cause(own) for agent_id, own in answers.failed.items()}
        self._rows += [self._row(agent_id, message, one) for agent_id, own in answers.decided.items() for one in own]

    def looked(self, tracker: Tracker) -> None:
        """Record gaps."""
        self.gaps = tuple(tracker.gaps)

    def _row(self, agent_id: str, at: Message, decision: Decision) -> _Row:
        fixture_id, tick_seq, action, market_key, side, stake = decision[:6]
        market = self._markets.get(market_key or "")
        quoted = () if market is None else zip(market.sides, market.prob_bps, market.odds_milli, strict=True)
        prices = {name: (prob_bps, odds_milli) for name, prob_bps, odds_milli in quoted}
        what = fixture_id, tick_seq, at.ts_ms, str(action), market_key, side, stake
        return agent_id, *what, *prices.get(side or "", (None, None)), True, PENDING, None

    @property
    def data_age_s(self) -> float | None:
        """Seconds since the last message, by this machine's clock; ``None`` before the first."""
        came_ms = self.spec.feed.health.data_ts_ms
        return None if came_ms is None else max(0.0, (self.clock() - came_ms) / 1000)

    @property
    def count(self) -> int:
        """Number of decisions."""
        return len(self._rows)

    def decisions(self, since: int = 0) -> pl.DataFrame:
        """Return ``LIVE_DECISIONS`` in order of arrival, without the first ``since``."""
        return pl.DataFrame(list(islice(self._rows, max(0, since), None)), schema=LIVE_DECISIONS, orient="row")

    @property
    def frame(self) -> pl.DataFrame:
        """``LIVE_DECISIONS`` so far."""
        return self.decisions()

    @property
    def outcome(self) -> dict[str, str]:
        """Results so far in words, by name, without empty ones."""
        return nonempty(
            {
                "run": self.spec.run_id,
                "fixture": f"{self.fixture} on {self.spec.feed.name}",
                "kickoff": self.kickoff,
                "messages": f"{self.messages:,}",
                "decisions": f"{self.count:,}",
                "gaps": self._counted_gaps,
                "failed": "; ".join(f"{agent_id}: {cause}" for agent_id, cause in self.failures.items()),
            }
        )

    @property
    def _counted_gaps(self) -> str:
        causes = Counter(str(gap.cause) for gap in self.gaps)
        again = sum(1 for gap in self.gaps if gap.replayed)
        return tally(causes) + (f"; {again:,} sent again" if again else "")

    @property
    def facts(self) -> dict[str, str]:
        """All facts in words, by name, without empty ones."""
        age_s, health = self.data_age_s, self.spec.feed.health
        return self.outcome | nonempty(
            {
                "kickoff": f"{self.kickoff}{self._until_kickoff}",
                "connected": yes(health.connected),
                "last data": "" if age_s is None else f"{span(age_s)} ago",
                "quota left": count(health.quota_left) or "",
                "error": health.error or "",
            }
        )

    @property
    def fixture(self) -> str:
        """The fixture's id, and its names if they are known."""
        fixture = self.spec.fixture
        return f"{fixture.fixture_id} ({' v '.join(fixture.names)})" if fixture.names else str(fixture.fixture_id)

    @property
    def kickoff(self) -> str:
        """Announced kickoff."""
        kickoff_ms = self.spec.fixture.kickoff_ts_ms
        return "not announced" if kickoff_ms is None else moment(kickoff_ms)

    @property
    def _until_kickoff(self) -> str:
        kickoff_ms = self.spec.fixture.kickoff_ts_ms
        if kickoff_ms is None:
            return ""
        left_s = (kickoff_ms - self.clock()) / 1000
        return f", in {span(left_s)}" if left_s > 0 else f", {span(-left_s)} ago"

    @property
    def line(self) -> str:
        """Summary in one line."""
        facts = self.facts
        parts = [counted(self.messages, "message"), counted(self.count, "decision")]
        parts += [f"{name} {facts[name]}" for name in ("last data", "gaps") if name in facts]
        parts += [f"{counted(len(self.failures), 'agent')} failed"] if self.failures else []
        parts += [facts["error"]] if "error" in facts else [] if facts["connected"] == "yes" else ["not connected"]
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"Live run {self.spec.run_id}: {self.line}; next: .frame"


def _cause(failure: Failure) -> str:
    return failure.cause if failure.error in failure.cause else f"{failure.error}: {failure.cause}"
