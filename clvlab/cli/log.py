"""``clvlab log``: the log of every run, and its witness."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clvlab.base.files import file_bytes
from clvlab.cli.groups import Commands
from clvlab.cli.options import CheckpointFileOption, JsonOption, goes_with
from clvlab.cli.output import err, out, plain, print_json, show_table, table
from clvlab.words import counted

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    from clvlab.arena.log.audit import LogAudit
    from clvlab.arena.log.witnesses import WitnessReply
    from clvlab.log.audit import Recount

TrustOption = Annotated[Path | None, typer.Option(help="File of keys that you trust: JSON, or a policy of C2SP.")]
PolicyOption = Annotated[Path | None, typer.Option(help="C2SP policy with the URLs of witnesses to ask.")]
_MAX_ENTRIES = 10_000_000  # of SourceLimits
log_app = typer.Typer(cls=Commands, help="Keys, checkpoints and counts of a run log.", no_args_is_help=True)
LogArgument = Annotated[str, typer.Argument(help="SQLite file, or URL of the database, of a run log.", metavar="LOG")]
KeyOption = Annotated[Path, typer.Option("--key", help="File of the private key.")]


@log_app.command("keygen")
def keygen(
    name: Annotated[str, typer.Argument(help="Name of the log or witness, as example.org/log.")],
    out_file: Annotated[Path, typer.Option("--out", help="File of the private key; never overwritten.")],
    of_witness: Annotated[bool, typer.Option("--witness", help="Make the key of a witness.")] = False,
) -> None:
    """Make a key pair, and print the public key."""
    from clvlab.arena.log import operations

    sys.stdout.write(operations.new_key(name, out_file, witness=of_witness) + "\n")


@log_app.command("checkpoint")
def checkpoint(log: LogArgument, key: KeyOption, checkpoint_file: CheckpointFileOption = None) -> None:
    """Sign the log's present state, and print the note."""
    from clvlab.arena.log import operations
    from clvlab.log.note import read_signer
    from clvlab.log.publication import Publication

    signer = read_signer(key)
    with operations.open_log(log) as opened:
        sys.stdout.write(operations.signed_checkpoint(opened, signer, Publication(checkpoint_file, signer.verifier)))


@log_app.command("restart")
def restart(
    log: LogArgument,
    key: KeyOption,
    seen: Annotated[
        list[str] | None,
        typer.Option("--checkpoint", help="Path or URL of a published checkpoint, or of a witness's state; may be repeated."),
    ] = None,
    checkpoint_file: CheckpointFileOption = None,
) -> None:
    """Continue a log that was restored from a backup under a new name and key, and print its first checkpoint.

    The entry of the restart names the newest checkpoint that was published before.
    """
    from clvlab.arena.log import operations
    from clvlab.arena.log.witnesses import witnessed_notes
    from clvlab.log.note import read_signer

    signer = read_signer(key)
    places = list(seen or [])
    if checkpoint_file is not None and checkpoint_file.exists():
        places.append(str(checkpoint_file))
    notes = [note for place in places for note in witnessed_notes(place)]
    with operations.open_log(log) as opened:
        done, note = operations.restart_log(opened, notes, signer, checkpoint_file, time.time_ns() // 1_000_000)
    was = f"{done.before.origin} had published {_entries(done.before.size)}, of which {done.kept:,} are here"
    err.print(plain(f"Entry {done.index:,} ends it: {was}. The log goes on as {done.key}"))
    sys.stdout.write(note)


@log_app.command("stamp")
def stamp(
    checkpoint: Annotated[Path, typer.Argument(help="File of a signed checkpoint.", metavar="CHECKPOINT")],
    tsa: Annotated[list[str], typer.Option(help="URL of a time-stamp authority (RFC 3161); may be repeated.")],
    out_file: Annotated[Path, typer.Option("--out", help="File of stamps; further ones are added to it.")],
) -> None:
    """Have authorities stamp a checkpoint with their time, for the command 'bundle'."""
    from clvlab.arena.log.operations import add_stamps

    for time_, authority in add_stamps(checkpoint.read_text(encoding="utf-8"), tsa, out_file):
        out.print(plain(f"stamped at {time_:%Y-%m-%d %H:%M:%S} UTC by {authority}, unjudged: verify names your roots"))


@log_app.command("show")
def show(log: LogArgument, as_json: JsonOption = False) -> None:
    """Count runs committed to, sealed, abandoned and open, by owner."""
    from clvlab.arena.log import operations

    with operations.open_log(log) as opened:
        rows = operations.log_counts(opened)
    if as_json:
        print_json(rows)
    else:
        import polars as pl

        show_table(table(pl.DataFrame(rows), "Runs"))


@log_app.command("audit")
def audit(
    log: Annotated[
        str, typer.Argument(help="SQLite file, URL of a database, or http(s) URL of a service or of tiles.", metavar="LOG")
    ],
    key: Annotated[list[str] | None, typer.Option("--key", help="Public key of the log; may be repeated.")] = None,
    trust: TrustOption = None,
    checkpoint: Annotated[
        list[Path] | None, typer.Option("--checkpoint", help="An earlier checkpoint; may be repeated.")
    ] = None,
    bundle: Annotated[
        list[Path] | None, typer.Option("--bundle", help="A bundle, to check its run, entries and counts; may be repeated.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="File that remembers the log until the next audit.")] = None,
    max_entries: Annotated[int, typer.Option(help="Maximum number of entries to read.", min=1)] = _MAX_ENTRIES,
    max_seconds: Annotated[int, typer.Option(help="Maximum number of seconds for reading from a service.", min=1)] = 3600,
    as_json: JsonOption = False,
) -> None:
    """Read every entry, recompute the tree and the counts, and compare; exit 1 if a rule is broken, 2 without a log."""
    from clvlab.arena.log.audit import audit as audit_log
    from clvlab.arena.log.sources import SourceLimits
    from clvlab.arena.runs import bundles
    from clvlab.cli.progress import display_progress, interruptible

    with interruptible(lambda: "no state was written"), display_progress("Audit of the log", as_json=as_json):
        done = audit_log(
            log,
            trust=bundles.read_trust(trust, key or []),
            checkpoints={str(path): path.read_text(encoding="utf-8") for path in checkpoint or []},
            bundles={str(path): file_bytes(path) for path in bundle or []},
            state=state,
            limits=SourceLimits(entries=max_entries, total_s=max_seconds),
        )
    if as_json:
        print_json(done.facts())
    else:
        _show(done)
    raise typer.Exit(0 if done.sound else 1)


def _show(done: LogAudit) -> None:
    rows = done.facts()["counts"]
    if rows:
        import polars as pl

        named = {"content_hash": "pack", "elsewhere": "under other packs"}
        show_table(table(pl.DataFrame(rows).rename(named).fill_null("unknown"), "Runs, counted from entries"))
    name = plain(done.origin or "without a name")
    called = name if done.signature_judged or done.origin is None else f"that calls itself {name}"
    out.print(f"log {called}: {_entries(done.size)}, root {done.root_hash}")
    judged = "judged by your keys" if done.signature_judged else "NOT judged: name a key with --key or --trust"
    out.print(f"signature of the log: {judged}; trusted witnesses: {plain(', '.join(done.witnesses)) or 'none'}")
    out.print(f"compared with {counted(done.checkpoints, 'earlier checkpoint')} and {counted(done.bundles, 'bundle')}")
    out.print("the operator's word alone: names of owners, times, causes, and packs of runs whose bundle was not compared")
    if done.falls.first is not None:
        out.print(
            f"times fall from one entry to the next {counted(done.falls.count, 'time')}, first at entry {done.falls.first:,}"
        )
    for recount in done.recounts:
        out.print(_recounted(recount))
    for one in done.restarts:
        was = f"{plain(one.before.origin)} had published {_entries(one.before.size)}, of which {one.kept:,} were kept"
        out.print(
            f"[yellow]restarted[/] at entry {one.index:,}: its operator says that {was}; it goes on as {plain(one.key.name)}"
        )
    for plan in done.plans:
        opened = ", ".join(f"{index:,}" for index in plan.openings)
        count = len(plan.openings)
        times = {0: "not opened", 1: f"opened once, at entry {opened}"}.get(count, f"opened {count} times, at entries {opened}")
        out.print(f"{plain(plan.plan_id)} of {plain(plan.owner)}, planned at entry {plan.index:,}: {times}")
    for lost in done.lost:
        out.print(f"[yellow]lost[/]: {plain(lost)}")
    for broken in done.broken:
        out.print(f"[red]broken[/]: {plain(broken.rule)}")
    if done.broken_count > len(done.broken):
        out.print(f"and {done.broken_count - len(done.broken):,} more")
    out.print(
        "[green]sound[/]: every rule holds" if done.sound else f"[red]NOT sound[/]: {counted(done.broken_count, 'rule')} broken"
    )


def _entries(number: int) -> str:
    return counted(number, "entry", "entries")


def _recounted(found: Recount) -> str:
    counts, elsewhere = found.counts, f"{counted(found.elsewhere, 'commitment')} under other packs of this owner"
    audited = f"{plain(found.bundle)}, audited over {_entries(found.size)}"
    if counts is None:
        return f"{audited}: its commitment names no pack; {elsewhere}"
    over = f"{counts.earlier:,} earlier and {counts.later:,} later commitments over its pack by its owner"
    others = f"{elsewhere}, {counts.unknown_pack:,} that name none"
    drawn = "".join(
        f"; the audit of {plain(one.agent_id)} is one of {counted(one.attempts, 'attempt')} over this pack, "
        f"drawn by seed {one.seed}"
        for one in found.draws
    )
    return f"{audited}: {over}, {counts.abandoned:,} abandoned; {others}{drawn}"


@log_app.command("export")
def export(
    log: LogArgument,
    tiles: Annotated[str, typer.Option(help="Folder or bucket URL of the tiles; existing ones are kept.")],
    key: Annotated[Path | None, typer.Option(help="File of the private key, to sign the present state.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="File of a signed checkpoint to export, instead of --key.")] = None,
    policy: PolicyOption = None,
    follow: Annotated[bool, typer.Option("--follow", help="Continue with new entries until interrupted.")] = False,
    every_s: Annotated[float, typer.Option(help="Seconds between two reads with --follow.", min=0.1)] = 10,
    checkpoint_file: CheckpointFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the log as tiles (C2SP tlog-tiles), which any web server serves and other programs read."""
    from clvlab.arena.log import operations
    from clvlab.arena.log.tiles import export_tiles
    from clvlab.arena.log.witnesses import cosigners_at
    from clvlab.cli.progress import interruptible
    from clvlab.log.note import read_signer
    from clvlab.log.publication import Publication

    if (key is None) == (checkpoint is None):
        raise typer.BadParameter("name --key or --checkpoint, and not both")
    goes_with("--key", key, policy=policy, follow=follow)
    signer = None if key is None else read_signer(key)
    published = Publication(checkpoint_file, signer.verifier if signer else None)
    cosigners = None if policy is None else cosigners_at(policy)

    def sign() -> str:
        if signer is None:
            return file_bytes(checkpoint or Path()).decode(errors="replace")
        note = operations.signed_checkpoint(opened, signer, published)
        return note if cosigners is None else cosigners.cosigned(opened, note)

    with interruptible(lambda: "the same command continues"), operations.open_log(log) as opened:
        while True:
            done = export_tiles(opened, tiles, sign)
            if cosigners is not None:
                _show_replies(cosigners.replies)
            if as_json:
                print_json({"before": done.before, "size": done.size, "files": done.files})
            elif done.files:
                out.print(
                    f"{plain(tiles)}: {_entries(done.size)}, {done.size - done.before:,} of them new, in {done.files:,} files"
                )
            if not follow:
                return
            time.sleep(every_s)


@log_app.command("cosign")
def cosign(
    log: LogArgument,
    key: KeyOption,
    policy: Annotated[Path, typer.Option(help="C2SP policy with the URLs of witnesses to ask.")],
    checkpoint_file: CheckpointFileOption = None,
) -> None:
    """Ask witnesses to cosign the log's present state, and print the note; exit 1 without the policy's quorum."""
    from clvlab.arena.log import operations
    from clvlab.arena.log.witnesses import WitnessOutcome, cosigners_at
    from clvlab.log.note import read_signer
    from clvlab.log.publication import Publication

    signer, cosigners = read_signer(key), cosigners_at(policy)
    with operations.open_log(log) as opened:
        note = operations.signed_checkpoint(opened, signer, Publication(checkpoint_file, signer.verifier))
        note = cosigners.cosigned(opened, note)
    sys.stdout.write(note)
    _show_replies(cosigners.replies)
    fault = cosigners.policy.fault([one.name for one in cosigners.replies if one.outcome == WitnessOutcome.COSIGNED])
    if fault is not None:
        err.print(plain(fault))
    raise typer.Exit(0 if fault is None else 1)


def _show_replies(replies: Sequence[WitnessReply]) -> None:
    for one in replies:
        err.print(f"witness {plain(one.name)}: {one.outcome}: {plain(one.detail)}")


@log_app.command("proof")
def proof(
    bundle: Annotated[Path, typer.Argument(help="Proof bundle of a run with proofs of a log.", metavar="BUNDLE")],
    out_folder: Annotated[Path, typer.Option("--out", help="Folder of the files; existing ones are not overwritten.")],
) -> None:
    """Write a bundle's entries and their proofs as .tlog-proof files (C2SP tlog-proof), which other programs check."""
    from clvlab.arena.log import operations
    from clvlab.base.files import new_file

    files = operations.bundle_proofs(file_bytes(bundle))
    out_folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        new_file(out_folder / name, content)
    out.print(f"{plain(str(out_folder))}: {', '.join(sorted(files))}")


@log_app.command("check")
def check(
    proof: Annotated[Path, typer.Argument(help="A .tlog-proof file.", metavar="PROOF")],
    entry: Annotated[Path, typer.Option(help="File with exactly the bytes of the entry.")],
    trust: Annotated[Path, typer.Option(help="File of keys that you trust: JSON, or a policy of C2SP.")],
) -> None:
    """Check the proof of one entry by your keys and witnesses; exit 1 if it does not hold."""
    from clvlab.arena.runs import bundles
    from clvlab.errors import LogError
    from clvlab.log.note import Keys
    from clvlab.log.proof_file import ProofFile

    whom = bundles.read_trust(trust)
    keys = Keys.read(whom.logs, whom.witnesses)
    try:
        found = ProofFile.read(file_bytes(proof, 1 << 20).decode(errors="replace"))
        state, witnesses = found.check(file_bytes(entry, 1 << 20), keys)
        fault = whom.quorum_fault(witnesses)
    except LogError as error:
        fault = str(error)
    if fault is not None:
        out.print(f"[red]fail[/]: {plain(fault)}")
        raise typer.Exit(1)
    signed = plain(", ".join(witnesses)) or "none"
    out.print(
        f"[green]pass[/]: entry {found.index} of {state.size} that {plain(state.origin)} signed; trusted witnesses: {signed}"
    )


@log_app.command("request")
def ask(
    log: LogArgument,
    note: Annotated[Path, typer.Option("--checkpoint", help="File of a signed checkpoint.")],
    old: Annotated[int, typer.Option(help="Number of entries that the witness saw last.", min=0)] = 0,
) -> None:
    """Print a request for the command 'log witness'."""
    from clvlab.arena.log import operations

    with operations.open_log(log) as opened:
        sys.stdout.write(operations.witness_request(opened, note.read_text(encoding="utf-8"), old))


@log_app.command()
def witness(
    key: KeyOption,
    state: Annotated[Path, typer.Option(help="File in which the witness keeps its last state.")],
    log: Annotated[list[str], typer.Option("--log", help="Public key of a log that it watches; may be repeated.")],
    serve: Annotated[str | None, typer.Option(help="Address to serve requests at, as 127.0.0.1:8100.")] = None,
) -> None:
    """Sign a checkpoint if it extends the last one seen; the request comes on standard input.

    With --serve, requests come over HTTP (C2SP tlog-witness), until it is interrupted.
    """
    from clvlab.arena.log import operations

    if serve is not None:
        from clvlab.arena.log.witness_server import serve_witness
        from clvlab.cli.progress import interruptible

        with interruptible(), serve_witness(serve, key, log, state) as server:
            err.print(f"witness {plain(server.witness.name)} at {plain(server.url)}/add-checkpoint")
            server.serve_forever()
        return
    sys.stdout.write(operations.cosign(sys.stdin.read(), key, log, state, int(time.time())))
