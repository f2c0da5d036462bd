"""``clvlab anchor`` and ``clvlab devchain``: manifest hashes on a public chain, or on a local test chain."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clvlab.base.files import file_bytes, new_file
from clvlab.base.invocation import command
from clvlab.cli.options import CheckpointFileOption, JsonOption, RunName, RunsFolderOption, UrlArgument, goes_with
from clvlab.cli.output import facts, out, plain, print_json
from clvlab.cli.progress import display_progress, interruptible
from clvlab.errors import BundleError, EvidenceError, MissingExtraError
from clvlab.report.run_list import DEFAULT_RUNS, find_run
from clvlab.words import counted

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    from clvlab.agents.isolation.agent import IsolatedAgent
    from clvlab.anchor.settings import AnchorSettings


def anchor_settings() -> AnchorSettings | None:
    """Return chain, key and trusted signers from ``CLVLAB_ANCHOR_*``; ``None`` without any of these variables."""
    if not any(name.upper().startswith("CLVLAB_ANCHOR") for name in os.environ):
        return None

    from clvlab.anchor.settings import anchor_from_environment

    return anchor_from_environment()


def further(
    run: Path, *, second_opinion: bool, replay: bool, pack: str | None, agents: Sequence[IsolatedAgent]
) -> dict[str, tuple[bool, str]]:
    """Return the optional checks (SQL scores, prices, replay): whether each agrees, and a sentence on its comparison."""
    from clvlab.arena.runs import bundles
    from clvlab.runs import run_folder

    found: dict[str, tuple[bool, str]] = {}
    sealed, receipts = bundles.read_stored(run)
    try:
        if second_opinion:
            from clvlab.sql import second_opinion as by_sql  # imported here, as it loads a database

            opinion = by_sql(sealed.events, sealed.scores)
            found["second_opinion"] = (opinion.agrees, opinion.detail)
        if replay:
            from clvlab.arena import replays

            again = replays.replay_run(sealed, receipts, pack=pack, agents=agents, view=run_folder.view(run))
            found["replay"] = (again.agrees, again.detail)
        elif pack is not None:
            from clvlab.arena import replays

            prices = replays.prices_again(sealed, pack, run_folder.view(run))
            found["prices"] = (prices.agrees, prices.detail)
    except EvidenceError as error:  # the checks fail too, and are printed
        found["evidence"] = (False, f"it can't be read: {error}")
    return found


def anchor(run: RunName, runs_folder: RunsFolderOption = DEFAULT_RUNS, as_json: JsonOption = False) -> None:
    """Write the manifest hash of a sealed run as a memo on the chain that CLVLAB_ANCHOR_* names, exactly once."""
    from clvlab.anchor.settings import anchor_from_environment
    from clvlab.runs import run_folder

    path = find_run(run, runs_folder)
    with (
        interruptible(lambda: "the memo may have been sent; the same command finds it, and sends no second one"),
        display_progress("Anchor", as_json=as_json),
    ):
        done = run_folder.anchor_run(path, anchor_from_environment())
    record = {"status": done.status, "signature": done.signature, "cluster": done.cluster, "explorer_url": done.explorer_url}
    if as_json:
        print_json(record)
    else:
        facts("Anchor", {name.replace("_", " "): value for name, value in record.items()})
    raise typer.Exit(0 if done.status == "anchored" else 1)


def devchain(
    port: Annotated[int, typer.Option(help="Port on loopback; 0 takes a free one.")] = 8899,
    keypair: Annotated[Path, typer.Option(help="Key that gets test money for fees; created if missing.")] = Path(
        "devchain-key.json"
    ),
) -> None:
    """Run a local test chain with the real memo program, to try out anchors; Ctrl-C ends it, and nothing is kept."""
    try:
        from clvlab.anchor.devchain import GENESIS_HASH, DevChain, server
        from clvlab.anchor.transaction import keypair as read_key
        from clvlab.anchor.transaction import new_keypair
    except ImportError as error:
        raise MissingExtraError("anchor", error.name) from error
    key = read_key(keypair) if keypair.exists() else new_keypair(keypair)
    chain = DevChain()
    chain.airdrop(str(key.pubkey()))
    with server(chain, port) as listening:
        out.print("A chain runs here; it ends with this process. In another terminal:\n")
        for name, value in {
            "RPC_URL": f"http://127.0.0.1:{listening.server_port}",
            "CLUSTER": "localnet",
            "GENESIS_HASH": GENESIS_HASH,
            "KEYPAIR": str(keypair.resolve()),
        }.items():
            out.print(f"export CLVLAB_ANCHOR_{name}={plain(shlex.quote(value))}")
        out.print(f"\n{plain(command('anchor', 'RUN'))}\n{plain(command('verify', 'RUN'))}")
        sys.stdout.flush()
        try:
            listening.serve_forever()
        except KeyboardInterrupt:
            out.print("ended")


def bundle(
    run: RunName,
    out_file: Annotated[Path, typer.Option("--out", help="File of the bundle, as run.clv; never overwritten.")],
    log: Annotated[str | None, typer.Option(help="File or URL of the run log that holds the run.")] = None,
    log_key: Annotated[Path | None, typer.Option(help="Private key of the log, to sign a checkpoint now.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Signed checkpoint to prove under, instead of a key.")] = None,
    since: Annotated[Path | None, typer.Option(help="Earlier checkpoint to prove the newer one from.")] = None,
    checkpoint_file: CheckpointFileOption = None,
    stamps: Annotated[
        Path | None, typer.Option(help="File of stamps over the checkpoint, as the command 'log stamp' writes it.")
    ] = None,
    ots: Annotated[
        list[Path] | None, typer.Option(help="Proof of OpenTimestamps over a checkpoint, as 'ots stamp' writes it; repeatable.")
    ] = None,
    runs_folder: RunsFolderOption = DEFAULT_RUNS,
    as_json: JsonOption = False,
) -> None:
    """Put a run and its proofs into one file, which clv_verify.py reads."""
    goes_with("--log", log, log_key=log_key, checkpoint=checkpoint, since=since, stamps=stamps, ots=ots)
    if log is not None and (log_key is None) == (checkpoint is None):
        raise BundleError("--log goes with either --log-key or --checkpoint")
    with (
        interruptible(lambda: f"the bundle in {out_file} is complete" if out_file.exists() else "no bundle was written"),
        display_progress("Bundle", as_json=as_json),
    ):
        size = _bundled(
            find_run(run, runs_folder), out_file, log, log_key, checkpoint, since, checkpoint_file, stamps, ots or []
        )
    if as_json:
        print_json({"bundle": str(out_file), "bytes": size})
        return
    out.print(f"Wrote {size:,} bytes to {plain(str(out_file))}")
    judge = shlex.join(["python3", "clv_verify.py", str(out_file)])
    out.print(f"Next: {plain(command('verifier'))} > clv_verify.py; {plain(judge)}")


def _bundled(
    run: Path,
    out_file: Path,
    log: str | None,
    log_key: Path | None,
    checkpoint: Path | None,
    since: Path | None,
    checkpoint_file: Path | None,
    stamps: Path | None,
    ots: Sequence[Path],
) -> int:
    from clvlab.arena.log import operations
    from clvlab.arena.runs import bundles
    from clvlab.log.note import Signer, read_signer
    from clvlab.log.publication import Publication
    from clvlab.proof.limits import PART_LIMITS
    from clvlab.runs import run_folder

    earlier = since.read_text(encoding="utf-8") if since else None
    proofs = None
    if log is not None:
        signer = checkpoint.read_text(encoding="utf-8") if checkpoint else read_signer(log_key or Path())
        with operations.open_log(log) as opened:
            kept = Publication(checkpoint_file, signer.verifier) if isinstance(signer, Signer) else None
            proofs = operations.log_proofs(opened, run_folder.load(run).run_id, signer, earlier, kept)
    stamped = None if stamps is None else file_bytes(stamps)
    content = bundles.bundle_run(
        run, log=proofs, stamps=stamped, ots=[file_bytes(one, PART_LIMITS["checkpoint.ots"]) for one in ots]
    )
    new_file(out_file, content)
    return len(content)


def push(run: RunName, url: UrlArgument, runs_folder: RunsFolderOption = DEFAULT_RUNS, as_json: JsonOption = False) -> None:
    """Verify a run folder or a bundle, and put it into a bucket under its run id; nothing is overwritten."""
    from clvlab.arena.runs.bundles import push_stored

    path = find_run(run, runs_folder)
    with (
        interruptible(lambda: "a part of it may be there; the same command continues it"),
        display_progress("Upload", as_json=as_json),
    ):
        where = push_stored(path, url)
    if as_json:
        print_json({"url": where})
    else:
        out.print(f"Pushed to {plain(where)}")


def disclose(
    run: RunName,
    seq: Annotated[int, typer.Argument(help="Sequence number of a decision.", metavar="SEQ")],
    runs_folder: RunsFolderOption = DEFAULT_RUNS,
) -> None:
    """Prove one decision and its score without showing the others: prints JSON, which clv_verify.py reads."""
    from clvlab.arena.runs import bundles

    with interruptible():
        text = bundles.disclose(find_run(run, runs_folder), seq).decode()
    sys.stdout.write(text)


def prove(
    run: RunName,
    pack: Annotated[str, typer.Option(help="Id or folder of the run's pack, which has TxLINE's messages.")],
    out_file: Annotated[
        Path | None, typer.Option("--out", help="File of the proofs; provider-proofs.jsonl in the run's folder by default.")
    ] = None,
    runs_folder: RunsFolderOption = DEFAULT_RUNS,
    as_json: JsonOption = False,
) -> None:
    """Store TxLINE's proofs of the prices behind a run's scores, from its pack or from TxLINE."""
    from clvlab.arena.runs import provider
    from clvlab.base.files import replace_file
    from clvlab.packs.lookup import open_pack

    path = find_run(run, runs_folder)
    if out_file is None and not path.is_dir():
        raise typer.BadParameter("a bundle is not changed: name a file", param_hint="--out")
    target = out_file or path / provider.PROOFS_FILE
    with interruptible(lambda: "no proof was written"), display_progress("Proofs of prices", as_json=as_json):
        lines, missing = provider.prove(path, open_pack(pack))
        replace_file(target, lines)
    count = lines.count(b"\n") - 1
    if as_json:
        print_json({"file": str(target), "proofs": count, "missing": missing})
    else:
        out.print(f"Wrote {counted(count, 'proof')} to {plain(str(target))}")
        if missing:
            out.print(f"{counted(missing, 'proof')} missing: TxLINE publishes them after some minutes; repeat the command then")
        else:
            out.print(f"Next: {plain(command('verify', path, '--provider-proofs', target))}")
    raise typer.Exit(1 if missing else 0)


def verifier(
    states: Annotated[bool, typer.Option("--states", help="Print clv_states.py, which derives the prices from ticks.")] = False,
    html: Annotated[bool, typer.Option("--html", help="Print verify.html, the verifier for a browser.")] = False,
) -> None:
    """Print clv_verify.py, the verifier in one file of plain Python; or the one for a browser, and its SHA-256 to stderr."""
    from clvlab.arena.runs import bundles
    from clvlab.report.browser.page import verifier_page

    if states and html:
        raise typer.BadParameter("--states and --html print different files: ask for one", param_hint="--html")
    if html:
        page = verifier_page()
        sys.stdout.buffer.write(page)  # the hashed bytes: line ends must not change
        sys.stderr.write(f"{hashlib.sha256(page).hexdigest()}  verify.html\n")  # the format of sha256sum
        return
    sys.stdout.write(bundles.verifier_source(states=states).decode())
