"""``clvlab backup``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clvlab.cli.options import CheckpointFileOption
from clvlab.cli.printing import err, out, plain
from clvlab.errors import MissingExtraError


def backup(
    out_file: Annotated[Path, typer.Option("--out", help="File of the backup; never overwritten.")],
    database_url: Annotated[str, typer.Option(help="URL of the store.", envvar="CLVLAB_DATABASE_URL")],
    checkpoint_file: CheckpointFileOption = None,
) -> None:
    """Copy the SQLite store of a service that may go on writing, and the newest published checkpoint beside it."""
    try:
        from clvlab.store.backup import back_up
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    with err.status("copying"):
        beside = back_up(database_url, out_file, checkpoint_file)
    out.print(f"Wrote {out_file.stat().st_size:,} bytes to {plain(str(out_file))}")
    out.print(f"Newest published checkpoint: {plain(str(beside)) if beside else 'none'}")
