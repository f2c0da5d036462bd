"""Parts of a pack: folds in order of time, and what is held out of a search."""

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
    """Return fixtures as they kick off; ``instead`` is what to do where that is not known.

    Raises
    ------
    StatisticsError
        One without a kickoff.
    """
    asked = set(pack.fixture_ids if fixtures is None else fixtures)
    kickoffs = {one.fixture_id: one.kickoff_ts_ms for one in pack.manifest.fixtures if one.fixture_id in asked}
    unknown = [fixture_id for fixture_id, kickoff in kickoffs.items() if kickoff is None]
    if unknown:
        raise StatisticsError(f"fixture {unknown[0]} of {pack.pack_id!r} has no kickoff: {instead}")
    return sorted(asked, key=lambda fixture_id: (kickoffs[fixture_id], fixture_id))


def folds_of(
    pack: Pack, folds: int, by: str | Mapping[int, Any] = KICKOFF, fixtures: Iterable[int] | None = None
) -> list[tuple[int, ...]]:
    """Cut fixtures into folds, the earliest first.

    Parameters
    ----------
    pack
        Whose fixtures.
    folds
        How many, of as equal size as can be; with a mapping it is the number of its folds.
    by
        ``kickoff``; or a mapping from fixture to the name of its fold, in whose order they follow each other.
    fixtures
        All by default.

    Raises
    ------
    StatisticsError
        Fewer than two folds, or one with fewer than ``MIN_CLUSTERS`` fixtures; a fixture without kickoff or fold; or another
        ``by``.
    """
    asked = tuple(pack.fixture_ids if fixtures is None else fixtures)
    pack.check_known(asked)
    if isinstance(by, Mapping):
        absent = [fixture_id for fixture_id in asked if fixture_id not in by]
        if absent:
            raise StatisticsError(f"fixture {absent[0]} of {pack.pack_id!r} has no fold in the mapping")
        try:
            names = sorted({by[fixture_id] for fixture_id in asked})
        except TypeError as error:
            raise StatisticsError(f"the names of folds must have an order, as all of one kind have: {error}") from error
        found = [tuple(fixture_id for fixture_id in asked if by[fixture_id] == name) for name in names]
    elif by == KICKOFF:
        check_folds(folds)
        parts = np.array_split(np.array(in_order_of_kickoff(pack, asked)), folds)
        found = [tuple(int(one) for one in part) for part in parts]
    else:
        meant = did_you_mean(by, [KICKOFF])
        raise StatisticsError(f"folds go by {KICKOFF!r}, or by a mapping from fixtures to folds, not {by!r:.80}{meant}")
    if len(found) < 2 or min(map(len, found)) < MIN_CLUSTERS:
        sizes = ", ".join(str(len(part)) for part in found)
        raise StatisticsError(f"walking forward takes two folds of at least {MIN_CLUSTERS} fixtures each, not of {sizes}")
    return found


def check_folds(folds: int) -> None:
    """Refuse a number of folds that can't be.

    Raises
    ------
    StatisticsError
    """
    if type(folds) is not int or folds < 2:
        raise StatisticsError(f"folds must be a whole number of at least 2, not {folds!r:.80}")


def hold_out_of(
    pack: Pack, hold_out: float | Sequence[int], by: str = KICKOFF, seed: int = 0, fixtures: Iterable[int] | None = None
) -> tuple[int, ...]:
    """Return the fixtures that a search leaves alone, ascending.

    Parameters
    ----------
    pack
        Whose fixtures.
    hold_out
        Share of the fixtures, above 0 and below 1; or the fixtures.
    by
        ``kickoff``, the last ones; or ``random``.
    seed
        Of ``random``.
    fixtures
        What the search may be over; all by default.

    Raises
    ------
    StatisticsError
        A share out of range, another ``by``, a seed that is no whole number from 0 on, or fewer than ``MIN_CLUSTERS``
        fixtures on either side.
    UnknownFixtureError
        A fixture that the pack does not declare.
    """
    if by not in (KICKOFF, RANDOM):
        raise StatisticsError(f"a hold-out is chosen by {KICKOFF!r} or {RANDOM!r}, not {by!r:.80}")
    if type(seed) is not int or not 0 <= seed <= SAFE_INTEGER:
        raise StatisticsError(f"a seed is a whole number from 0 to {SAFE_INTEGER}, not {seed!r:.80}")
    pack.check_known(() if fixtures is None else fixtures)
    asked = tuple(sorted(pack.fixture_ids if fixtures is None else set(fixtures)))
    if isinstance(hold_out, Sequence) and not isinstance(hold_out, str):
        known = set(asked)
        strange = [one for one in hold_out if type(one) is not int or one not in known]
        if strange:
            raise StatisticsError(f"fixture {strange[0]!r} can't be held out: it is none of those that are searched over")
        held = set(hold_out)
    elif isinstance(hold_out, bool) or not isinstance(hold_out, int | float) or not 0 < hold_out < 1:
        raise StatisticsError(f"hold_out is a share of the fixtures between 0 and 1, or a list of them, not {hold_out!r:.80}")
    else:
        size = ceil(hold_out * len(asked))
        if by == KICKOFF:
            instead = f"hold out by={RANDOM!r}, or name the fixtures as hold_out="
            held = set(in_order_of_kickoff(pack, asked, instead)[len(asked) - size :])
        else:
            held = {int(one) for one in np.random.default_rng(seed).permutation(asked)[:size]}
    if min(len(held), len(asked) - len(held)) < MIN_CLUSTERS:
        raise StatisticsError(
            f"a hold-out takes at least {MIN_CLUSTERS} fixtures, and leaves as many: not {len(held)} of {len(asked)}"
        )
    return tuple(sorted(held))


# What was decided on folds that did not choose it, as one run: scored by the law, and labelled as what nobody audited.


AGENT_ID = "walk-forward"


@dataclass(frozen=True)
class FoldStep:
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


def decided_after(step: FoldStep) -> tuple[pl.DataFrame, int]:
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
    pack: Pack, steps: Sequence[FoldStep], decided: Sequence[pl.DataFrame], window: Window, config: Mapping[str, Any]
) -> Run:
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
    return Run.made(result, pack, matched(tape, window))
