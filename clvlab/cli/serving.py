"""``clvlab serve`` and ``clvlab dev-token``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clvlab.cli.printing import err
from clvlab.errors import MissingExtraError

__all__ = ["dev_token", "serve"]

_KEYS = Path(".clvlab")
KeysOption = Annotated[Path, typer.Option("--keys", help="Folder of the key pair for local trials; made if missing.")]


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.", envvar="CLVLAB_HOST")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 is any free port.", envvar="CLVLAB_PORT", min=0, max=65_535)] = 8000,
    dev: Annotated[bool, typer.Option("--dev", help="Accept the tokens of dev-token, on this machine only.")] = False,
    keys: KeysOption = _KEYS,
) -> None:
    """Serve HTTP; settings are environment variables CLVLAB_*, and without any the store is in memory."""
    try:
        from service.serving import serve as run
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    run(host, port, keys if dev else None, lambda line: err.print(line, markup=False))


def dev_token(
    did: Annotated[str, typer.Option(help="Who the token says you are.")] = "did:key:dev",
    lifetime_s: Annotated[int, typer.Option(help="Seconds until it expires.", min=1, max=86_400)] = 3600,
    keys: KeysOption = _KEYS,
) -> None:
    """Print a token that `clvlab serve --dev` accepts."""
    try:
        from service.dev import dev_token as token
    except ModuleNotFoundError as error:
        raise MissingExtraError("service", error.name) from error
    typer.echo(token(keys, did, lifetime_s))
