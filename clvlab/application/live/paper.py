"""A live run on paper: begun or taken up, watched by who asked for it, sealed and kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from threading import Thread

from clvlab.application.causes import cause_of
from clvlab.application.live.begun import Begun, begin
from clvlab.application.live.following import follow
from clvlab.application.live.noting import Noting
from clvlab.application.live.question import LiveQuestion
from clvlab.application.live.view import LiveView
from clvlab.application.runs.perform import PerformedRun
from clvlab.application.runs.record import Record
from clvlab.errors import ClvlabError, FeedError, StoreError
from clvlab.feeds.feed import Stop
from clvlab.packs.reader import Pack

_LOOK_S = 0.5


def run_live(
    question: LiveQuestion,
    record: Record,
    root: Path,
    *,
    look: Callable[[LiveView], None] = lambda view: None,  # noqa: ARG005
    house: Callable[[Pack], Pack] = lambda pack: pack,
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> PerformedRun:
    """Follow a live run until it is sealed, and keep it; one that was begun for the same question is gone on with.

    It is committed to before its first message. An interrupt leaves it as it is on the disk, and so does what can be mended: a
    feed that ended in the middle, a store that can't be reached. Anything else that goes wrong abandons it.

    Parameters
    ----------
    question
        What to follow, and by whom.
    record
        Where it is committed to and kept.
    root
        Folder of live runs; each has a folder in it that bears its id.
    look
        Called twice a second with the run as it is, on this thread; an error of its own ends the run like an interrupt.
    house
        Puts the captured pack where it will stay.
    clock
        UTC milliseconds.

    Raises
    ------
    FeedError
        The feed can't be asked or can't go on, or has no such fixture.
    FileLockedError
        Another process, or another thread of this one, follows the same run.
    SourceError, DecisionError
        The fixture closed without a message about it; all agents failed.
    LogError
        The run was begun under another log.
    """
    begun = begin(question, root, clock())
    view, stop = LiveView(begun.plan, clock), Stop()
    done = _attended(lambda: _made(begun, record, view, stop, house, clock), stop, lambda: look(view))
    if done is None:
        raise FeedError(f"{begun.plan.run_id} was stopped: it goes on when it is asked for again")
    return done


def _made(
    begun: Begun, record: Record, view: LiveView, stop: Stop, house: Callable[[Pack], Pack], clock: Callable[[], int]
) -> PerformedRun | None:
    plan = begun.plan
    with begun.held():
        begun.require_same_log(record.log)
        commitment = record.commit(plan)
        begun.committed(commitment)
        try:
            done = follow(
                plan,
                begun.folder,
                stop,
                commitment=commitment,
                note=None if record.log is None else Noting(record.log, clock),
                told=view.decided,
                recalled=view.decided,
                idle=view.looked,
                clock=clock,
            )
            if done is None:
                return None
            done = replace(done, pack=house(done.pack))
            record.keep(done)
        except StoreError:
            raise
        except ClvlabError as error:
            if isinstance(error, FeedError) and view.messages:
                raise FeedError(f"{error}; {plan.run_id} is left as it is: mend that, and ask for it again") from error
            record.abandon(plan.run_id, cause_of(error))
            begun.over()
            error.add_note(f"{plan.run_id} is abandoned; what it captured stays in {str(begun.folder)!r}")
            raise
        begun.over()
        return done


def _attended(work: Callable[[], PerformedRun | None], stop: Stop, look: Callable[[], None]) -> PerformedRun | None:
    """Do work on a thread of its own, which no interrupt can break off in the middle of a line, and look meanwhile."""
    done: Future[PerformedRun | None] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  it is raised where it is awaited
            done.set_exception(error)

    thread = Thread(target=run, name="clvlab-live-run", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            look()
            thread.join(_LOOK_S)
        look()
    except BaseException as error:
        stop.set()
        thread.join()
        left = done.exception() is not None or done.result() is None
        if not left and isinstance(error, KeyboardInterrupt):
            return done.result()  # it was sealed in that moment
        if left:
            error.add_note("The run is left as it is: the same call goes on with it.")
        raise
    return done.result()
