"""``clvlab packs uploads`` and ``clvlab packs admit-upload``: what owners uploaded, as the operator sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clvlab.cli.options import JsonOption
from clvlab.cli.printing import out, plain, print_json, show_pack
from clvlab.errors import MissingExtraError
from clvlab.packs.catalog import Catalog

if TYPE_CHECKING:
    from clvlab.application.uploads.uploads import Uploads

DatabaseOption = Annotated[str, typer.Option("--database-url", help="Of the service's store.", envvar="CLVLAB_DATABASE_URL")]
UploadsOption = Annotated[
    Path,
    typer.Option("--uploads", help="Folder of the service's uploads.", envvar="CLVLAB_UPLOADS", exists=True, file_okay=False),
]
_SHOWN = ("owner", "pack_id", "content_hash", "provenance", "is_genuine", "grade", "admitted", "bytes", "created_ts_ms")


def uploads(
    database_url: DatabaseOption,
    folder: UploadsOption,
    catalog: Annotated[
        Path | None, typer.Option(help="Folder of the catalog; the bundled one by default.", envvar="CLVLAB_PACKS")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the packs that owners uploaded to a service, oldest first."""
    with _opened(database_url, folder, catalog) as opened:
        rows = [{name: row[name] for name in _SHOWN} for row in opened.every()]
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
    """Copy an upload into the catalog's folder, verify it whole and admit it: everybody sees it, and runs over it count."""
    with _opened(database_url, folder, catalog) as opened:
        show_pack(opened.admit(owner, pack_id, Catalog(catalog)))


@contextmanager
def _opened(database_url: str, folder: Path, catalog: Path | None) -> Iterator[Uploads]:
    try:
        from clvlab.application.application import Application
        from clvlab.application.uploads.limits import UploadLimits
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    own = None if catalog is None else Catalog(catalog)
    application = Application(database_url, catalog=own, uploads=UploadLimits(folder))
    try:
        yield application.uploads
    finally:
        application.close()
