"""Arguments and options shared by several commands."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import orjson
import typer

from clvlab.errors import FeedError

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    from clvlab.agents.template import Params
    from clvlab.law.closing import Window
    from clvlab.runs.live.request import Until

# Shared by commands that make runs.


INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells."""


def now_ms() -> int:
    """Return UTC milliseconds."""
    return time.time_ns() // 1_000_000


def params_of(pairs: Sequence[str]) -> Params:
    """Return parameters of the form ``name=value``, the value as JSON or a plain word."""
    params: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise typer.BadParameter(f"{pair!r} is not name=value")
        if name in params:
            raise typer.BadParameter(f"{name} is given twice")
        params[name] = value_of(value)
    return params


def value_of(text: str) -> Any:
    """Return the value of JSON or of a plain word."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def end_of(text: str | None) -> Until | None:
    """Return the end that ``--until`` states: a time with its zone, or ``+SECONDS``."""
    from clvlab.runs.live.request import until_of

    try:
        return None if text is None else until_of(text)
    except FeedError as error:
        raise typer.BadParameter(str(error), param_hint="--until") from error


@contextmanager
def ended_like_an_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that the remaining state is reported."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return

    def end(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
PackArgument = Annotated[str, typer.Argument(help="Pack id in the catalog, path of a pack folder, or URL.", metavar="PACK")]
FolderArgument = Annotated[str, typer.Argument(help="Pack id in the catalog, or path of a pack folder.", metavar="PACK")]
UrlArgument = Annotated[str, typer.Argument(help="URL, as s3://bucket/prefix.", metavar="URL")]
RunName = Annotated[str, typer.Argument(help="Run folder, bundle, run id or the beginning of one, or 'latest'.", metavar="RUN")]
RunNames = Annotated[
    list[str],
    typer.Argument(help="Run folders, bundles, run ids or beginnings of ones, or 'latest'; several at once.", metavar="RUN..."),
]
RunsFolderOption = Annotated[Path, typer.Option("--runs", "--runs-folder", help="Folder of sealed runs.")]
RunsOption = Annotated[Path, typer.Option("--runs", "--runs-folder", help="Folder for sealed runs.")]
ReadsOption = Annotated[
    list[Path] | None,
    typer.Option(help="A file that your own agent may read; its hash is sealed. May be repeated."),
]
FixturesOption = Annotated[list[int] | None, typer.Option(help="A fixture id; may be repeated; all by default.")]
MarketsOption = Annotated[list[str] | None, typer.Option(help="A market-key prefix; may be repeated; all by default.")]
HorizonOption = Annotated[int, typer.Option(help="Seconds; decisions closer than this to the close have no score.")]
HORIZON_S = 60  # of a Window
OwnerOption = Annotated[str | None, typer.Option(help="Owner of the commitment, with --log; 'local' by default.")]
NetworkOption = Annotated[bool, typer.Option("--network", help="Let your own agent use a network; the run states it.")]
CheckpointFileOption = Annotated[
    Path | None,
    typer.Option(help="File of the newest published checkpoint, outside the database.", envvar="CLVLAB_CHECKPOINT_FILE"),
]


def window_of(horizon_s: int, markets: Sequence[str] | None = None, **own: Any) -> Window:
    """Return the window of the options; ``own`` has further fields by name."""
    from clvlab.law.closing import Window

    return Window(min_clv_horizon_s=horizon_s, market_allowlist=tuple(markets or ("",)), **own)


def goes_with(needed: str, there: object, **options: object) -> None:
    """Refuse options that have no effect without another option."""
    for name, value in options.items():
        if value and not there:
            raise typer.BadParameter(f"--{name.replace('_', '-')} goes with {needed}")


def option_words(name: str, values: Sequence[object] | None) -> list[object]:
    """Return a repeatable option as words of a hint."""
    return [word for value in values or () for word in (name, value)]


def limit_words(reads: Sequence[Path] | None, *, network: bool) -> list[object]:
    """Return the limits of an agent's process as words of a hint."""
    return [*option_words("--reads", reads), *(["--network"] if network else [])]
