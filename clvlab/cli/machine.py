"""``clvlab version``, ``doctor``, ``backup`` and ``agents``: what is installed, and the version that judges runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clvlab.base.invocation import command
from clvlab.cli.options import CheckpointFileOption, JsonOption, goes_with
from clvlab.cli.output import err, facts, out, plain, plain_lines, print_json, say, show_next
from clvlab.cli.progress import display_progress, interruptible
from clvlab.errors import ClvlabError, MissingExtraError
from clvlab.words import counted

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    from clvlab.arena.application import Application


# ``clvlab agents``: templates and their parameters.


agents_app = typer.Typer(help="Strategy templates.", no_args_is_help=True)


@agents_app.command("list")
def list_agents(as_json: JsonOption = False) -> None:
    """List the templates."""
    from clvlab.arena import templates

    cards = templates.cards()
    if as_json:
        print_json(cards)
        return
    for card in cards:
        out.print(f"[bold]{card['strategy']:<18}[/] {plain(card['summary'])}")
    out.print()
    show_next("agents", "show", "NAME")
    out.print(f"An agent of your own: {plain(command('backtest', 'PACK', '--agent', 'file.py:name'))}")


@agents_app.command("show")
def show_agent(name: Annotated[str, typer.Argument(help="Name of a template.")], as_json: JsonOption = False) -> None:
    """Show a template's algorithm and parameters, with bounds and defaults."""
    from clvlab.arena import templates

    card = templates.card(name)
    if as_json:
        print_json(card)
        return
    out.print(f"[bold]{card['strategy']}[/], version {card['version']}\n\n{plain_lines(card['algorithm'])}\n")
    out.print("[bold]Parameters[/]")
    for parameter in card["parameters"]:
        bounds = f", {parameter['bounds']}" if parameter["bounds"] else ""
        out.print(f"  {parameter['name']} = {plain(str(parameter['default']))}{plain(bounds)}")
        out.print(f"      {plain(parameter['meaning'])}")
    out.print(f"\nconfig hash of the defaults: {card['config_hash']}")


# ``clvlab backup``.


def backup(
    out_file: Annotated[Path, typer.Option("--out", help="File of the backup; never overwritten.")],
    database_url: Annotated[str, typer.Option(help="URL of the store.", envvar="CLVLAB_DATABASE_URL")],
    checkpoint_file: CheckpointFileOption = None,
) -> None:
    """Copy the SQLite store of a service, which may keep writing, and its newest published checkpoint."""
    try:
        from clvlab.store.database import back_up
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    with interruptible(lambda: f"the backup in {out_file} is whole" if out_file.exists() else "no backup was written"):
        checkpoint = back_up(database_url, out_file, checkpoint_file)
    out.print(f"Wrote {out_file.stat().st_size:,} bytes to {plain(str(out_file))}")
    out.print(f"Newest published checkpoint: {plain(str(checkpoint)) if checkpoint else 'none'}")


# ``clvlab doctor``: the installed and missing parts, and the state of the bundled packs.


def doctor(as_json: JsonOption = False) -> None:
    """Say what is installed, what missing extras would give, and whether the bundled packs verify; exit 1 if one does not."""
    from clvlab.arena.installation import installation

    with interruptible(), display_progress("Verification of the bundled packs", as_json=as_json):
        found = installation()
    broken = {name: fault for name, fault in found["packs"].items() if fault is not None}
    if as_json:
        print_json(found)
    else:
        versions = dict(found["versions"])
        facts(f"clvlab {versions.pop('clvlab')}", {name.replace("_", " "): value for name, value in versions.items()})
        out.print("[bold]Extras[/]")
        for extra in found["extras"]:
            installed = extra["installed"]
            out.print(
                f"  {extra['extra']:<10} {'[green]installed[/]' if installed else '[yellow]missing[/]  '}  {extra['gives']}"
            )
            if not installed:
                out.print(f"{'':<24}lacks {plain(', '.join(extra['missing']))}; in a clone: {plain(extra['command'])}")
        out.print("\n[bold]Bundled packs[/]")
        for name, fault in found["packs"].items():
            out.print(
                f"  {plain(name):<10} {'[green]verified[/]' if fault is None else '[red]NOT verified[/]: ' + plain(fault)}"
            )
        out.print()
        if broken:
            say("Install clvlab again: its packs differ from the published ones")
        else:
            show_next("demo")
    raise typer.Exit(1 if broken else 0)


def version(as_json: JsonOption = False) -> None:
    """Print the versions and the source digest by which `verify` judges, as the notes of a release state them."""
    from clvlab.runs.versions import judge

    judged = judge()
    if as_json:
        print_json(judged)
    else:
        facts(f"clvlab {judged.pop('clvlab')}", {name.replace("_", " "): value for name, value in judged.items()})


# ``clvlab serve``, ``worker``, ``dev-token``, ``rebuild-leaderboard`` and ``retention``.


_KEYS = Path(".clvlab")
_StoreOption = Annotated[str, typer.Option("--database-url", help="Of the service's store.", envvar="CLVLAB_DATABASE_URL")]
KeysOption = Annotated[Path, typer.Option("--keys", help="Folder of the key pair for local trials; made if missing.")]


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.", envvar="CLVLAB_HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 is any free port.", envvar="CLVLAB_PORT", min=0, max=65_535)] = 8000,
    dev: Annotated[bool, typer.Option("--dev", help="Accept the tokens of dev-token, on this machine only.")] = False,
    keys: Annotated[Path | None, typer.Option(help=f"With --dev, folder of the key pair; {_KEYS} by default.")] = None,
    devfeed: Annotated[bool, typer.Option("--devfeed", help="Play a synthetic match to live runs; with --dev.")] = False,
    speed: Annotated[
        float | None,
        typer.Option(help="With --devfeed, its speed-up; the longest match lasts two minutes by default.", min=0.001),
    ] = None,
) -> None:
    """Serve HTTP; settings are environment variables CLVLAB_*, and without any the store is in memory."""
    try:
        from clvlab_service.server import serve as run
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    goes_with("--dev", dev, keys=keys)
    goes_with("--devfeed", devfeed, speed=speed)
    with _own_exit_status():
        run(host, port, (keys or _KEYS) if dev else None, _say, devfeed=devfeed, speed=speed)


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
        from clvlab_service.server import work
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    with _own_exit_status():
        work(host, health_port, _say)


def _say(line: str) -> None:
    err.print(line, markup=False)


@contextmanager
def _own_exit_status() -> Iterator[None]:
    """Exit with the error's own status, because supervisors of a service decide by it."""
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
    out.print("rebuilt" if differences else "the leaderboard agrees with the sealed runs")
    raise typer.Exit(1 if differences else 0)


def retention(
    days: Annotated[
        float,
        typer.Option(help="Remove runs that were sealed more than so many days ago.", envvar="CLVLAB_RETENTION_DAYS", min=0),
    ],
    database_url: _StoreOption,
) -> None:
    """Remove old backtests that were asked for without a token; the log, the leaderboard and their hashes stay."""
    with _store(database_url) as application:
        removed, freed = application.retention.apply(days)
    out.print(f"{counted(removed, 'run')} {'was' if removed == 1 else 'were'} removed, {freed:,} bytes are free")


@contextmanager
def _store(database_url: str) -> Iterator[Application]:
    """Open an existing store; a misspelt name is an error and creates no store."""
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
