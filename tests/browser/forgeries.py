"""The forgeries of the fuzz, as questions to the page, each with what the stand-alone file says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

from clvlab.proof import clv_verify
from clvlab.proof.seal import SealedRun
from tests.browser.judging import PageJudge, disagreement
from tests.browser.recording import Case, by_file, memos_of, run_case, transaction_case
from tests.fuzz.bundles import TRUST, forged_bundle
from tests.fuzz.disclosures import disclosed, forged_disclosure
from tests.fuzz.fuzzing import OF_ONE_RUN
from tests.fuzz.policies import forged_policy, signed_bundle
from tests.fuzz.proof_files import forged_files
from tests.fuzz.runs import flipped, forged, honest
from tests.fuzz.transactions import forged_transaction

__all__ = ["page_disagreements"]


def page_disagreements(kind: str, seed: int, count: int, folder: Path, judge: PageJudge) -> Iterator[str | None]:
    """Judge the same cases of a kind as ``cases`` by the page; of each, how it differs from the file, or null."""
    for case, page in judge.answers(_KINDS[kind](f"{kind}-{seed}", count, folder)):
        yield disagreement(case["said"], page)


def _runs(seed: str, count: int, folder: Path) -> Iterator[Case]:
    for number in range(count):
        rng = Random(f"{seed}-{number}")
        if number % OF_ONE_RUN == 0:
            changed = sealed, receipts = honest(rng)
        else:
            changed = rng.choice([forged, forged, forged, forged, flipped])(rng, sealed), receipts
        yield _stored(*changed, folder)


def _stored(sealed: SealedRun, receipts: bytes, folder: Path) -> Case:
    files = {
        "manifest.json": sealed.manifest,
        "events.jsonl": sealed.events,
        "scores.jsonl": sealed.scores,
        "receipts.jsonl": receipts,
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return run_case(files) | {"said": by_file(lambda: clv_verify.verify(folder))}


def _disclosures(seed: str, count: int, folder: Path) -> Iterator[Case]:
    whole, path = None, folder / "disclosure.json"
    for number in range(count):
        rng = Random(f"{seed}-{number}")
        if number % OF_ONE_RUN == 0:
            sealed = honest(rng)[0]
            whole = content = disclosed(rng, sealed)
        elif whole is not None:
            content = forged_disclosure(rng, sealed, whole)
        if whole is not None and content.startswith((b'{"close":', b'{"decision":')):  # which tells it from a bundle
            path.write_bytes(content)
            yield run_case({path.name: content}) | {"said": by_file(lambda: clv_verify.verify_disclosure(path))}


def _transactions(seed: str, count: int, _: Path) -> Iterator[Case]:
    for number in range(count):
        sent = forged_transaction(Random(f"{seed}-{number}"), b"memo")
        yield transaction_case(sent) | {"said": by_file(lambda sent=sent: memos_of(clv_verify.Transaction(sent)))}


def _bundles(forged: Callable[[Random], bytes], seed: str, count: int, folder: Path) -> Iterator[Case]:
    path = folder / "run.clv"
    for number in range(count):
        rng = Random(f"{seed}-{number}")
        content, required = forged(rng), rng.choice([(), ("anchor", "log")])
        path.write_bytes(content)
        said = by_file(lambda required=required: clv_verify.verify(path, trust=TRUST, required=required))
        yield run_case({path.name: content}, TRUST, required) | {"said": said}


def _policies(seed: str, count: int, folder: Path) -> Iterator[Case]:
    path, place = folder / "run.clv", folder / "policy"
    for number in range(count):
        rng = Random(f"{seed}-{number}")
        policy, content, required = forged_policy(rng), signed_bundle(rng), rng.choice([(), ("log",)])
        path.write_bytes(content)
        place.write_bytes(policy)
        said = by_file(lambda required=required: clv_verify.verify(path, clv_verify.read_trust(place), required))
        yield run_case({path.name: content}, policy, required) | {"said": said}


_KINDS: dict[str, Callable[[str, int, Path], Iterator[Case]]] = {
    "runs": _runs,
    "disclosures": _disclosures,
    "transactions": _transactions,
    "bundles": partial(_bundles, forged_bundle),
    "proof_files": partial(_bundles, forged_files),
    "policies": _policies,
}
