"""``clvlab log`` and ``clvlab witness``: the log of every run, and a second pair of eyes on it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from clvlab.application import runlog
from clvlab.cli.options import JsonOption
from clvlab.cli.printing import out, print_json, table

__all__ = ["log_app", "witness"]

log_app = typer.Typer(help="Keys, checkpoints and counts of a run log.", no_args_is_help=True)
LogArgument = Annotated[str, typer.Argument(help="SQLite file, or URL of the database, of a run log.", metavar="LOG")]
KeyOption = Annotated[Path, typer.Option("--key", help="File of the private key.")]


@log_app.command("keygen")
def keygen(
    name: Annotated[str, typer.Argument(help="Name of the log or witness, as example.org/log.")],
    out_file: Annotated[Path, typer.Option("--out", help="File of the private key; never overwritten.")],
    of_witness: Annotated[bool, typer.Option("--witness", help="Make the key of a witness.")] = False,
) -> None:
    """Make a key; prints the public one."""
    sys.stdout.write(runlog.new_key(name, out_file, witness=of_witness) + "\n")


@log_app.command("checkpoint")
def checkpoint(log: LogArgument, key: KeyOption) -> None:
    """Sign the log's present state; prints the note."""
    signer = runlog.read_signer(key)
    with runlog.open_log(log) as opened:
        sys.stdout.write(runlog.signed_checkpoint(opened, signer))


@log_app.command("show")
def show(log: LogArgument, as_json: JsonOption = False) -> None:
    """Count runs committed to, sealed, abandoned and open, by owner."""
    with runlog.open_log(log) as opened:
        rows = runlog.log_counts(opened)
    if as_json:
        print_json(rows)
    else:
        out.print(table(pl.DataFrame(rows), "Runs"))


@log_app.command("request")
def ask(
    log: LogArgument,
    note: Annotated[Path, typer.Option("--checkpoint", help="File of a signed checkpoint.")],
    old: Annotated[int, typer.Option(help="How many entries the witness saw last.", min=0)] = 0,
) -> None:
    """Write what a witness is to be asked: prints a request for 'clvlab witness'."""
    with runlog.open_log(log) as opened:
        sys.stdout.write(runlog.witness_request(opened, note.read_text(encoding="utf-8"), old))


def witness(
    key: KeyOption,
    state: Annotated[Path, typer.Option(help="File in which the witness remembers what it saw; its own.")],
    log: Annotated[list[str], typer.Option("--log", help="Public key of a log that it watches; may be repeated.")],
) -> None:
    """Sign a checkpoint that extends the last one seen: reads a request, prints a signature line; refuses all else."""
    sys.stdout.write(runlog.cosign(sys.stdin.read(), key, log, state, int(time.time())))
