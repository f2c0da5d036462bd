"""``clvlab service``: run a service, and look after its store, uploads and packs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clvlab.cli.groups import Commands
from clvlab.cli.options import CheckpointFileOption, JsonOption, goes_with
from clvlab.cli.output import err, out, plain, print_json, show_pack
from clvlab.cli.progress import interruptible
from clvlab.errors import ClvlabError, MissingExtraError
from clvlab.words import counted

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    from clvlab.api.seats import HeldPackInfo
    from clvlab.arena.application import Application


_KEYS = Path(".clvlab")
DatabaseOption = Annotated[
    str, typer.Option("--database-url", help="URL of the service's store.", envvar="CLVLAB_DATABASE_URL")
]
KeysOption = Annotated[Path, typer.Option("--keys", help="Folder of the key pair for local trials; made if missing.")]


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.", envvar="CLVLAB_HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 is any free one.", envvar="CLVLAB_PORT", min=0, max=65_535)] = 8000,
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
            help="Port of /healthz, /readyz and /metrics; 0 is any free one.",
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
    did: Annotated[str, typer.Option(help="Owner that the token names.")] = "did:key:dev",
    lifetime_s: Annotated[int, typer.Option(help="Seconds until it expires.", min=1, max=86_400)] = 3600,
    keys: KeysOption = _KEYS,
) -> None:
    """Print a token that the command `serve --dev` accepts."""
    try:
        from clvlab_service.dev import dev_token as token
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    typer.echo(token(keys, did, lifetime_s))


def rebuild_leaderboard(database_url: DatabaseOption) -> None:
    """Recompute the leaderboard from all sealed runs, store it, and print what differed; exit 1 if anything did."""
    with _application(database_url) as application:
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
    database_url: DatabaseOption,
) -> None:
    """Remove old backtests that were requested without a token; the log, the leaderboard and their hashes stay."""
    with _application(database_url) as application:
        removed, freed = application.retention.apply(days)
    out.print(f"{counted(removed, 'run')} {'was' if removed == 1 else 'were'} removed, {freed:,} bytes are free")


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
    with interruptible(lambda: f"the backup in {out_file} is complete" if out_file.exists() else "no backup was written"):
        checkpoint = back_up(database_url, out_file, checkpoint_file)
    out.print(f"Wrote {out_file.stat().st_size:,} bytes to {plain(str(out_file))}")
    out.print(f"Newest published checkpoint: {plain(str(checkpoint)) if checkpoint else 'none'}")


# Uploads of owners.


UploadsOption = Annotated[
    Path,
    typer.Option("--uploads", help="Folder of the service's uploads.", envvar="CLVLAB_UPLOADS", exists=True, file_okay=False),
]
OwnUploadsOption = Annotated[
    Path | None,
    typer.Option("--uploads", help="Folder of the service's uploads, if it takes any.", envvar="CLVLAB_UPLOADS"),
]
CatalogOption = Annotated[
    Path | None, typer.Option(help="Folder of the catalog; the bundled one by default.", envvar="CLVLAB_PACKS")
]
_COLUMNS = ("owner", "pack_id", "content_hash", "provenance", "is_genuine", "grade", "admitted", "bytes", "created_ts_ms")


def uploads(
    database_url: DatabaseOption,
    folder: UploadsOption,
    catalog: CatalogOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the packs that owners uploaded to a service, oldest first."""
    with _application(database_url, folder, catalog) as opened:
        rows = [{name: row[name] for name in _COLUMNS} for row in opened.uploads.every()]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        state = "admitted" if row["admitted"] else "not admitted"
        what = f"{row['provenance']}, {row['grade']}, {row['bytes']:,} bytes, {state}"
        out.print(f"{plain(row['owner'])} [bold]{plain(row['pack_id'])}[/]: {plain(what)}, {row['content_hash']}")


def admit_upload(
    owner: Annotated[str, typer.Argument(help="DID of the owner.")],
    pack_id: Annotated[str, typer.Argument(help="One of the owner's packs.")],
    database_url: DatabaseOption,
    folder: UploadsOption,
    catalog: Annotated[Path, typer.Option(help="Folder of the catalog.", envvar="CLVLAB_PACKS", file_okay=False)],
) -> None:
    """Copy an upload into the catalog's folder, verify it in full, and admit it: all callers see it, and its runs count."""
    from clvlab.packs.catalog import Catalog

    with _application(database_url, folder, catalog) as opened:
        show_pack(opened.uploads.admit(owner, pack_id, Catalog(catalog)))


@contextmanager
def _application(
    database_url: str, uploads: Path | None = None, catalog: Path | None = None, *, create: bool = False
) -> Iterator[Application]:
    """Open a store; a misspelt name is an error, and makes no store without ``create``."""
    from clvlab.packs.catalog import Catalog

    try:
        from clvlab.arena.application import Application
        from clvlab.arena.uploads.intake import UploadLimits
        from clvlab.store.url import require_there
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    if not create:
        require_there(database_url)
    own = None if catalog is None else Catalog(catalog)
    application = Application(database_url, catalog=own, uploads=None if uploads is None else UploadLimits(uploads))
    try:
        yield application
    finally:
        application.close()


# Packs that only seats see.


def hold_back(
    folder: Annotated[Path, typer.Argument(help="Folder of the pack; the service reads it there.", metavar="FOLDER")],
    database_url: DatabaseOption,
    catalog: CatalogOption = None,
    uploads: OwnUploadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hold a pack back for seats: the run log gets its hash and that of its fixtures, and each fixture goes to one seat."""
    with _application(database_url, uploads, catalog, create=True) as opened:
        _show_held(opened.seats.held.hold_back(folder), as_json=as_json)


def release(
    pack_id: Annotated[str, typer.Argument(help="Id of a pack that is held back.", metavar="PACK_ID")],
    database_url: DatabaseOption,
    as_json: JsonOption = False,
) -> None:
    """Open the list of fixtures of a pack that was held back, on the run log; no seat over it is taken afterwards."""
    with _application(database_url) as opened:
        _show_held(opened.seats.held.release(pack_id), as_json=as_json)


def _show_held(found: HeldPackInfo, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    name = f"[bold]{plain(found['pack_id'])}[/] of {found['content_hash']}"
    dealt = f"{found['dealt']:,} of its {counted(found['fixtures'], 'fixture')} went to seats"
    if found["released_index"] is None:
        out.print(f"{name} is held back since entry {found['held_index']:,} of the run log; {dealt}")
        out.print(f"List of fixtures: {found['fixtures_hash']}")
    else:
        out.print(f"{name} was held back from entry {found['held_index']:,} to {found['released_index']:,}; {dealt}")
        out.print(f"Its list of fixtures is open, at /arena/held-packs/{plain(found['pack_id'])}/fixtures of the service")


service_app = typer.Typer(
    cls=Commands, help="Run a service, and look after its store, uploads and packs.", no_args_is_help=True
)
_PANELS: Mapping[str, Sequence[Callable[..., None]]] = {
    "Run it": (serve, worker, dev_token),
    "Its store": (backup, retention, rebuild_leaderboard),
    "Its packs": (uploads, admit_upload, hold_back, release),
}
for panel, commands in _PANELS.items():
    for one in commands:
        service_app.command(rich_help_panel=panel)(one)
