"""Parts of a pack: folds in time order, and fixtures held out of a search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import polars as pl

from clvlab.base.names import did_you_mean
from clvlab.engine.agent import Agent, Identity, decisions_of, fresh
from clvlab.engine.replay import locate, replay
from clvlab.engine.run import Failures, judged, run_started
from clvlab.errors import StatisticsError
from clvlab.law.closing import Window, fixture_closes
from clvlab.law.policy import PolicyEnvelope
from clvlab.law.schema import SAFE_INTEGER
from clvlab.law.tape import Tape
from clvlab.packs.reader import Pack
from clvlab.runs.run import Run, matched
from clvlab.statistics import MIN_CLUSTERS

KICKOFF, RANDOM = "kickoff", "random"


def in_order_of_kickoff(
    pack: Pack,
    fixtures: Iterable[int] | None = None,
    instead: str = "give a mapping from fixtures to folds as by=",
) -> list[int]:
    """Return fixtures by kickoff; ``StatisticsError``, with the advice ``instead``, if a fixture has no kickoff."""
    ids = set(pack.fixture_ids if fixtures is None else fixtures)
    kickoffs = {one.fixture_id: one.kickoff_ts_ms for one in pack.manifest.fixtures if one.fixture_id in ids}
    unknown = [fixture_id for fixture_id, kickoff in kickoffs.items() if kickoff is None]
    if unknown:
        raise StatisticsError(f"fixture {unknown[0]} of {pack.pack_id!r} has no kickoff: {instead}")
    return sorted(ids, key=lambda fixture_id: (kickoffs[fixture_id], fixture_id))


def folds_of(
    pack: Pack, folds: int, by: str | Mapping[int, Any] = KICKOFF, fixtures: Iterable[int] | None = None
) -> list[tuple[int, ...]]:
    """Return fixtures cut into folds, the earliest first.

    ``by`` is ``kickoff``, for folds as equal as possible, or a mapping from fixture to fold name. Folds follow the order of
    those names. ``StatisticsError`` for fewer than two folds, or for a fold with fewer than ``MIN_CLUSTERS`` fixtures.
    """
    ids = tuple(pack.fixture_ids if fixtures is None else fixtures)
    pack.check_known(ids)
    if isinstance(by, Mapping):
        absent = [fixture_id for fixture_id in ids if fixture_id not in by]
        if absent:
            raise StatisticsError(f"fixture {absent[0]} of {pack.pack_id!r} has no fold in the mapping")
        try:
            names = sorted({by[fixture_id] for fixture_id in ids})
        except TypeError as error:
            raise StatisticsError(f"the names of folds must have an order, as all of one kind have: {error}") from error
        found = [tuple(fixture_id for fixture_id in ids if by[fixture_id] == name) for name in names]
    elif by == KICKOFF:
        check_folds(folds)
        parts = np.array_split(np.array(in_order_of_kickoff(pack, ids)), folds)
        found = [tuple(int(one) for one in part) for part in parts]
    else:
        meant = did_you_mean(by, [KICKOFF])
        raise StatisticsError(f"folds go by {KICKOFF!r}, or by a mapping from fixtures to folds, not {by!r:.80}{meant}")
    if len(found) < 2 or min(map(len, found)) < MIN_CLUSTERS:
        sizes = ", ".join(str(len(part)) for part in found)
        raise StatisticsError(f"walking forward takes two folds of at least {MIN_CLUSTERS} fixtures each, not of {sizes}")
    return found


def check_folds(folds: int) -> None:
    if type(folds) is not int or folds < 2:
        raise StatisticsError(f"folds must be a whole number of at least 2, not {folds!r:.80}")


def hold_out_of(
    pack: Pack, hold_out: float | Sequence[int], by: str = KICKOFF, seed: int = 0, fixtures: Iterable[int] | None = None
) -> tuple[int, ...]:
    """Return the fixtures that a search may not use, ascending.

    ``hold_out`` is a list of fixtures, or a share above 0 and below 1. ``by`` chooses the share: the latest by ``kickoff``, or
    at ``random``. ``StatisticsError`` if either side has fewer than ``MIN_CLUSTERS`` fixtures.
    """
    if by not in (KICKOFF, RANDOM):
        raise StatisticsError(f"a hold-out is chosen by {KICKOFF!r} or {RANDOM!r}, not {by!r:.80}")
    if type(seed) is not int or not 0 <= seed <= SAFE_INTEGER:
        raise StatisticsError(f"a seed is a whole number from 0 to {SAFE_INTEGER}, not {seed!r:.80}")
    pack.check_known(() if fixtures is None else fixtures)
    ids = tuple(sorted(pack.fixture_ids if fixtures is None else set(fixtures)))
    if isinstance(hold_out, Sequence) and not isinstance(hold_out, str):
        known = set(ids)
        strange = [one for one in hold_out if type(one) is not int or one not in known]
        if strange:
            raise StatisticsError(f"fixture {strange[0]!r} can't be held out: the search does not cover it")
        held = set(hold_out)
    elif isinstance(hold_out, bool) or not isinstance(hold_out, int | float) or not 0 < hold_out < 1:
        raise StatisticsError(f"hold_out is a share of the fixtures between 0 and 1, or a list of them, not {hold_out!r:.80}")
    else:
        size = ceil(hold_out * len(ids))
        if by == KICKOFF:
            instead = f"hold out by={RANDOM!r}, or name the fixtures as hold_out="
            held = set(in_order_of_kickoff(pack, ids, instead)[len(ids) - size :])
        else:
            held = {int(one) for one in np.random.default_rng(seed).permutation(ids)[:size]}
    if min(len(held), len(ids) - len(held)) < MIN_CLUSTERS:
        raise StatisticsError(
            f"a hold-out takes at least {MIN_CLUSTERS} fixtures, and leaves as many: not {len(held)} of {len(ids)}"
        )
    return tuple(sorted(held))


# One run from the decisions on each fold, each by an agent that was chosen on earlier folds. The law scores this run; its label
# says that it was not audited.


AGENT_ID = "walk-forward"


@dataclass(frozen=True)
class FoldStep:
    """A fold, and the agent chosen on the earlier folds. ``last_close_ms`` is the last close in those earlier folds."""

    tape: Tape
    agent: Agent
    last_close_ms: int

    @property
    def fixture_ids(self) -> tuple[int, ...]:
        return self.tape.binding.fixture_ids


def decided_after(step: FoldStep) -> tuple[pl.DataFrame, int]:
    """Return ``DECISIONS`` of a step's agent on its fold, and the number of decisions left out."""
    with fresh(step.agent) as agent:
        decided = decisions_of(agent, step.tape)
    # The choice of agent uses closes up to this time, so an earlier decision would have hindsight.
    later = locate(step.tape, decided)["ts_ms"] > step.last_close_ms
    return decided.filter(later).with_columns(agent_id=pl.lit(AGENT_ID)), int((~later).sum())


def last_close_ms(tape: Tape, window: Window) -> int:
    return int(fixture_closes(tape, window)["close_ts_ms"].to_numpy().max())


def pooled(
    pack: Pack, steps: Sequence[FoldStep], decided: Sequence[pl.DataFrame], window: Window, config: Mapping[str, Any]
) -> Run:
    """Return all steps' decisions as the run of one agent of unchecked causality. ``config`` says how agents were chosen."""
    fixtures = sorted(fixture_id for step in steps for fixture_id in step.fixture_ids)
    tape = pack.tape(fixtures)
    policy = PolicyEnvelope()
    identity = Identity(AGENT_ID, AGENT_ID, "1", dict(config))
    started = run_started(
        tape.binding, tape.closing_policy, [identity], window, policy, max_close_age_s=tape.max_close_age_s, kind="backtest"
    )
    replayed = replay(tape, locate(tape, pl.concat(decided)), window)
    result = judged(started, replayed, window, policy, Failures())
    return Run.made(result, pack, matched(tape, window))
