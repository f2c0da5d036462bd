"""How far a command is: a bar on standard error where somebody looks, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from clvlab.application.progress import Stage, Tell
from clvlab.cli.printing import err, plain

Told = Callable[[int, int], None]


@contextmanager
def bar(what: str, total: int | None = None) -> Iterator[Told]:
    """Draw how many parts are done, of how many, and the time left; in a pipe nothing is drawn."""
    with _drawn() as shown:
        task = shown.add_task(plain(what), total=total)
        yield lambda done, of: shown.update(task, completed=done, total=of)


@contextmanager
def stages(what: str) -> Iterator[Tell]:
    """Draw how far a run is in each of its stages."""
    with _drawn() as shown:
        task = shown.add_task(plain(what), total=None)

        def tell(stage: Stage, done: int = 0, total: int = 1) -> None:
            shown.update(task, description=plain(f"{what}: {stage.value}"), completed=done, total=total if total > 1 else None)

        yield tell


def _drawn() -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
