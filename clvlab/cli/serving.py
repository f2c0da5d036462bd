"""``clvlab serve``, ``worker``, ``dev-token``, ``rebuild-leaderboard`` and ``retention``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clvlab.cli.options import goes_with
from clvlab.cli.printing import err, out, plain
from clvlab.errors import ClvlabError, MissingExtraError
from clvlab.words import counted

if TYPE_CHECKING:
    from clvlab.arena.application import Application

_KEYS = Path(".clvlab")
_StoreOption = Annotated[str, typer.Option("--database-url", help="Of the service's store.", envvar="CLVLAB_DATABASE_URL")]
KeysOption = Annotated[Path, typer.Option("--keys", help="Folder of the key pair for local trials; made if missing.")]


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.", envvar="CLVLAB_HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 is any free port.", envvar="CLVLAB_PORT", min=0, max=65_535)] = 8000,
    dev: Annotated[bool, typer.Option("--dev", help="Accept the tokens of dev-token, on this machine only.")] = False,
    keys: Annotated[Path | None, typer.Option(help=f"With --dev, folder of the key pair; {_KEYS} by default.")] = None,
    devfeed: Annotated[bool, typer.Option("--devfeed", help="Play a synthetic match to live runs; with --dev.")] = False,
) -> None:
    """Serve HTTP; settings are environment variables CLVLAB_*, and without any the store is in memory."""
    try:
        from clvlab_service.serving import serve as run
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    goes_with("--dev", dev, keys=keys)
    with _own_exit_status():
        run(host, port, (keys or _KEYS) if dev else None, _say, devfeed=devfeed)


def worker(
    host: Annotated[str, typer.Option(help="Address of the health port.", envvar="CLVLAB_HOST")] = "127.0.0.1",
    health_port: Annotated[
        int | None,
        typer.Option(
            help="Answer /healthz, /readyz and /metrics here; 0 is any free port.",
            envvar="CLVLAB_HEALTH_PORT",
            min=0,
            max=65_535,
        ),
    ] = None,
) -> None:
    """Perform the jobs of a service's PostgreSQL store; settings are those of the service, CLVLAB_*."""
    try:
        from clvlab_service.serving import work
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    with _own_exit_status():
        work(host, health_port, _say)


def _say(line: str) -> None:
    err.print(line, markup=False)


@contextmanager
def _own_exit_status() -> Iterator[None]:
    """End by the exit status that an error has for what keeps a service running."""
    try:
        yield
    except ClvlabError as error:
        error.exit_code = error.service_exit_code
        raise


def dev_token(
    did: Annotated[str, typer.Option(help="Who the token says you are.")] = "did:key:dev",
    lifetime_s: Annotated[int, typer.Option(help="Seconds until it expires.", min=1, max=86_400)] = 3600,
    keys: KeysOption = _KEYS,
) -> None:
    """Print a token that the command `serve --dev` accepts."""
    try:
        from clvlab_service.dev import dev_token as token
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    typer.echo(token(keys, did, lifetime_s))


def rebuild_leaderboard(database_url: _StoreOption) -> None:
    """Recompute the leaderboard from all sealed runs, store it, and print what differed; exit 1 if anything did."""
    with _store(database_url) as application:
        differences = application.leaderboard.rebuild()
    for difference in differences:
        out.print(plain(difference))
    out.print("rebuilt" if differences else "the leaderboard is what the sealed runs give")
    raise typer.Exit(1 if differences else 0)


def retention(
    days: Annotated[
        float,
        typer.Option(help="Remove what was sealed more than so many days ago.", envvar="CLVLAB_RETENTION_DAYS", min=0),
    ],
    database_url: _StoreOption,
) -> None:
    """Remove old backtests that were asked for without a token; the log, the leaderboard and their hashes stay."""
    with _store(database_url) as application:
        removed, freed = application.retention.apply(days)
    out.print(f"{counted(removed, 'run')} {'was' if removed == 1 else 'were'} removed, {freed:,} bytes are free")


@contextmanager
def _store(database_url: str) -> Iterator[Application]:
    """Open a store that there is: a misspelt name makes no new one."""
    try:
        from clvlab.arena.application import Application
        from clvlab.store.url import require_there
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    require_there(database_url)
    application = Application(database_url)
    try:
        yield application
    finally:
        application.close()
