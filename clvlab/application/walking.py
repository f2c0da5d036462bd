"""What was decided on folds that did not choose it, as one run: scored by the law, and labelled as what nobody audited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from clvlab.application.runs.perform import PerformedRun, matched
from clvlab.engine.agent import Agent, Identity, decisions_of, fresh
from clvlab.engine.replay import locate, replay
from clvlab.engine.run import Failures, judged, run_started
from clvlab.law.closing import Window, fixture_closes
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.tape import Tape
from clvlab.packs.reader import Pack

AGENT_ID = "walk-forward"


@dataclass(frozen=True)
class Step:
    """A fold that is decided on by what was chosen on those before it.

    Attributes
    ----------
    tape
        Of the fold.
    agent
        What was chosen.
    last_close_ms
        When the last of the fixtures closed on which it was chosen.
    """

    tape: Tape
    agent: Agent
    last_close_ms: int

    @property
    def fixture_ids(self) -> tuple[int, ...]:
        return self.tape.binding.fixture_ids


def decided_after(step: Step) -> tuple[pl.DataFrame, int]:
    """Return ``DECISIONS`` of a step's agent on its fold, and how many were left out.

    What it decides before the last close of those that chose it is left out: whoever chose it then could not have known it.
    """
    with fresh(step.agent) as asked:
        decided = decisions_of(asked, step.tape)
    later = locate(step.tape, decided)["ts_ms"] > step.last_close_ms
    return decided.filter(later).with_columns(agent_id=pl.lit(AGENT_ID)), int((~later).sum())


def last_close_ms(tape: Tape, window: Window) -> int:
    """Return when the last fixture of a tape closes."""
    return int(fixture_closes(tape, window)["close_ts_ms"].to_numpy().max())


def pooled(
    pack: Pack, steps: Sequence[Step], decided: Sequence[pl.DataFrame], window: Window, config: Mapping[str, Any]
) -> PerformedRun:
    """Score the decisions of all steps as one run, as of one agent whose causality is unchecked.

    Parameters
    ----------
    pack
        What was decided on.
    steps, decided
        The steps, and what ``decided_after`` gave for each.
    window
        What is scored.
    config
        How it was chosen; it stands as the agent's.
    """
    fixtures = sorted(fixture_id for step in steps for fixture_id in step.fixture_ids)
    tape = pack.tape(fixtures)
    policy = PolicyEnvelope()
    identity = Identity(AGENT_ID, AGENT_ID, "1", dict(config))
    started = run_started(
        tape.binding, tape.closing_policy, [identity], window, policy, max_close_age_s=tape.max_close_age_s, kind="backtest"
    )
    replayed = replay(tape, locate(tape, pl.concat(decided)), window)
    result = judged(started, replayed, window, policy, Failures())
    return PerformedRun(pack, window, result, matched(tape, window))
