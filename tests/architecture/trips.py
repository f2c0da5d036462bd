"""What each verb enters on its way: functions, modules and rooms of ours, Polars queries, and files it opens.

A trip is counted on its second run: the first pays for imports and caches. A function counts once however often it is entered.
A room is a first-level folder of ``clvlab`` or of the service, and a stay begins at each call that enters another room than the
call before it on the same thread. A query is a ``collect`` of Polars, those of its eager frames too.
What Rust opens, no audit hook sees. Garbage is collected before, not within, so that no finaliser joins a trip.
"""

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from types import FrameType
from unittest.mock import patch

from tests.architecture.figures import PACKAGES

POLLED = {"live", "post_backtests", "run_page"}
"""Verbs of which the stays are not the same each time: how often one thread looks at another is up to the machine."""
_HANDOVER = PACKAGES["clvlab_service"] / "threads.py"
"""Takes a call to a thread that may have begun to wait before the trip or in it, and so is no part of one."""
_TIMED = {"LiveView.looked"}
"""Called when half a second has passed, and so only on some trips."""
_NESTED = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"}
_INTERPRETER = (sys.prefix, sys.base_prefix)
_HORIZONS_S = count(601)
"""A question that was put before would be answered by the run that is there, or by caches of its window."""
_GRID = {"warmup_ticks": [1, 2]}
_MOST = 5


@cache
def _place(file: str) -> tuple[str, str] | None:
    """Return room and module of one of our files."""
    for package, folder in PACKAGES.items():
        if Path(file) != _HANDOVER and Path(file).is_relative_to(folder):
            parts = Path(file).relative_to(folder).parts
            return "/".join([package, *parts[:-1][:1]]), f"{package}/{'/'.join(parts)}"
    return None


@dataclass
class Trip:
    """What is met between ``start`` and ``stop``, on every thread that began after it was made, and on its own."""

    functions: set[tuple[str, str, int]] = field(default_factory=set)
    stays: int = 0
    collects: int = 0
    reads: list[str] = field(default_factory=list)
    rooms: dict[int, str] = field(default_factory=dict)

    def meet(self, frame: FrameType, event: str) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_name in {"collect", "collect_all"} and code.co_filename.endswith("/polars/lazyframe/engine.py"):
            self.collects += 1
        elif code.co_name not in _NESTED and code.co_qualname not in _TIMED and (place := _place(code.co_filename)):
            room, module = place
            thread = threading.get_ident()
            self.functions.add((module, code.co_qualname, code.co_firstlineno))
            self.stays += self.rooms.get(thread) != room
            self.rooms[thread] = room

    def figures(self, verb: str) -> dict[str, int]:
        """Count what is the same each time."""
        found = {"functions": len(self.functions), "modules": len({module for module, *_ in self.functions})}
        found |= {"stays": self.stays} if verb not in POLLED else {}
        return found | {"collects": self.collects, "reads": len(self.reads)}


_now: list[Trip] = []


def _profile(frame: FrameType, event: str, _: object) -> None:
    for trip in _now:
        trip.meet(frame, event)


def _audit(event: str, arguments: tuple) -> None:
    if _now and event == "open" and arguments[2] & os.O_ACCMODE == os.O_RDONLY and _is_ours(arguments[0]):
        _now[0].reads.append(arguments[0])


def _is_ours(file: object) -> bool:
    """Tell a file from a descriptor, from what the interpreter reads, and from a folder that is opened to be flushed."""
    return isinstance(file, str) and not file.startswith(_INTERPRETER) and not Path(file).is_dir()


@cache
def _audited() -> None:
    sys.addaudithook(_audit)  # there is no way to take it away: it looks for a trip, and finds none


@contextmanager
def profiled() -> Iterator[None]:
    """Let trips see this thread and every one that it starts from here on."""
    _audited()
    before = sys.getprofile(), threading.getprofile()
    threading.setprofile(_profile)
    sys.setprofile(_profile)
    try:
        yield
    finally:
        sys.setprofile(before[0])
        threading.setprofile(before[1])


def trip(run: Callable[[], object]) -> Trip:
    """Return what a run meets."""
    met = Trip()
    gc.collect()
    gc.disable()
    _now.append(met)
    try:
        run()
    finally:
        _now.remove(met)
        gc.enable()
    return met


@contextmanager
def _backtest(_: Path) -> Iterator[Callable[[], object]]:
    import clvlab as cl
    from tests.live import FIXTURE

    yield lambda: cl.backtest("starter", "cumulative-drift", fixtures=[FIXTURE])


@contextmanager
def _verify(_: Path) -> Iterator[Callable[[], object]]:
    import clvlab as cl
    from tests.live import FIXTURE

    yield cl.backtest("starter", "cumulative-drift", fixtures=[FIXTURE]).run.verify


@contextmanager
def _client() -> Iterator:
    from clvlab_service.app import create_app
    from clvlab_service.settings import Settings
    from starlette.testclient import TestClient

    with TestClient(create_app(Settings(log_level="error"))) as client:
        # A request then performs its run itself, and no worker looks for one now and then.
        client.app.state.application.jobs.stop()
        yield client


def _posted(client, horizon_s: int) -> dict:
    from tests.service.serving import BACKTEST
    from tests.waiting import PATIENCE_S

    body = BACKTEST | {"min_clv_horizon_s": horizon_s}
    answer = client.post("/backtests", json=body, headers={"Prefer": f"wait={PATIENCE_S}"})
    assert answer.status_code in {200, 201}, answer.text
    return answer.json()


@contextmanager
def _post_backtests(_: Path) -> Iterator[Callable[[], object]]:
    with _client() as client:
        yield lambda: _posted(client, next(_HORIZONS_S))


@contextmanager
def _run_page(_: Path) -> Iterator[Callable[[], object]]:
    with _client() as client:
        run_id = _posted(client, 60)["run_id"]

        def get() -> None:
            answer = client.get(f"/runs/{run_id}", headers={"Accept": "text/html"})
            assert answer.headers["content-type"].startswith("text/html"), answer.text

        yield get


def _commanded(folder: Path, *words: str) -> None:
    from tests.commands import clvlab

    code, out, err = clvlab(folder, *words)
    assert code == 0, out + err


@contextmanager
def _live(folder: Path) -> Iterator[Callable[[], object]]:
    numbers = count()
    with patch.dict("os.environ", {"CLVLAB_FEED": "replay", "CLVLAB_REPLAY_SPEED": "1e12"}):
        yield lambda: _commanded(folder, "live", "cumulative-drift", "--out", f"runs-{next(numbers)}")


def _odds(folder: Path, matches: int) -> Path:
    """Write quotes of so many matches, one a day."""
    rows = ["fixture,kickoff,time,market,book,side,odds"]
    for day in range(1, matches + 1):
        for hour in range(8):
            at = f"2026-03-{day:02}T15:00Z,2026-03-{day:02}T{6 + hour:02}:00Z"
            rows += [
                f"m{day},{at},WINNER||,sharp,first,{2 + hour / 50:.2f}",
                f"m{day},{at},WINNER||,sharp,second,{1.9 - hour / 50:.2f}",
            ]
    path = folder / "odds.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@contextmanager
def _packs_import(folder: Path) -> Iterator[Callable[[], object]]:
    odds, numbers = _odds(folder, 1).name, count()
    yield lambda: _commanded(folder, "packs", "import", "csv", odds, "--out", f"pack-{next(numbers)}")


@contextmanager
def _plan_open(folder: Path) -> Iterator[Callable[[], object]]:
    import clvlab as cl

    odds = _odds(folder, 10)
    with ExitStack() as stack:
        labs = [stack.enter_context(cl.Lab()) for _ in range(_MOST + 1)]  # a log that holds an opening is read further
        plans = iter([lab.plan(lab.import_odds("csv", odds), "cumulative-drift", _GRID, hold_out=0.5) for lab in labs])
        yield lambda: next(plans).open({"warmup_ticks": 2})


VERBS = {
    "backtest": _backtest,
    "verify": _verify,
    "post_backtests": _post_backtests,
    "run_page": _run_page,
    "live": _live,
    "packs_import": _packs_import,
    "plan_open": _plan_open,
}


def settled_trip(verb: str, folder: Path) -> Trip:
    """Return the trip of a verb, once one that is warm meets what the one before it met: threads now and then look twice.

    Raises
    ------
    AssertionError
        No two in a row are the same.
    """
    with profiled(), VERBS[verb](folder) as run:
        run()
        before = trip(run)
        for _ in range(_MOST - 1):
            after = trip(run)
            differing = before.functions ^ after.functions
            if not differing and before.figures(verb) == after.figures(verb):
                return after
            before = after
    raise AssertionError(
        f"{verb} never goes the same way twice: {sorted(name for _, name, _ in differing)}, {after.figures(verb)}"
    )
