"""One case of each kind by its seed, and what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from clvlab.proof.disclosure import check_disclosure
from tests.fuzz.bundles import bundle_disagreement, forged_bundle
from tests.fuzz.disclosures import disclosed, disclosure_disagreement, forged_disclosure
from tests.fuzz.judging import disagreement, make_trust_folder, passes
from tests.fuzz.policies import forged_policy, policy_disagreement, signed_bundle
from tests.fuzz.proof_files import forged_files, proof_file_disagreement
from tests.fuzz.runs import flipped, forged, honest
from tests.fuzz.seats import forged_seat, seat_disagreement
from tests.fuzz.transactions import forged_transaction, transaction_disagreement

__all__ = ["KINDS", "OF_ONE_RUN", "cases"]

OF_ONE_RUN = 20


def _runs(seed: str, count: int, folder: Path) -> Iterator[str | None]:
    make_trust_folder(folder)
    for number in range(count):
        rng = Random(f"{seed}-{number}")
        if number % OF_ONE_RUN == 0:
            sealed, receipts = honest(rng)
            fault = disagreement(sealed, receipts, folder, by_sql=True)
            yield fault or (None if passes(folder) else "an honest run fails")
        else:
            changed = rng.choice([forged, forged, forged, forged, flipped])(rng, sealed)
            yield disagreement(changed, receipts, folder, by_sql=number % 4 == 1)


def _disclosures(seed: str, count: int, _: Path) -> Iterator[str | None]:
    whole = None
    for number in range(count):
        rng = Random(f"{seed}-{number}")
        if number % OF_ONE_RUN == 0:
            sealed = honest(rng)[0]
            whole = disclosed(rng, sealed)
            if whole is not None:
                fault = disclosure_disagreement(whole)
                yield fault or (None if check_disclosure(whole) == sealed.manifest_hash else "it is of another manifest")
        elif whole is not None:
            yield disclosure_disagreement(forged_disclosure(rng, sealed, whole))


def _transactions(seed: str, count: int, _: Path) -> Iterator[str | None]:
    for number in range(count):
        yield transaction_disagreement(forged_transaction(Random(f"{seed}-{number}"), b"memo"))


def _bundles(seed: str, count: int, folder: Path) -> Iterator[str | None]:
    for number in range(count):
        rng = Random(f"{seed}-{number}")
        yield bundle_disagreement(forged_bundle(rng), folder, rng.choice([(), ("anchor", "log")]))


def _proof_files(seed: str, count: int, folder: Path) -> Iterator[str | None]:
    for number in range(count):
        rng = Random(f"{seed}-{number}")
        yield proof_file_disagreement(forged_files(rng), folder, rng.choice([(), ("anchor", "log")]))


def _policies(seed: str, count: int, folder: Path) -> Iterator[str | None]:
    for number in range(count):
        rng = Random(f"{seed}-{number}")
        yield policy_disagreement(forged_policy(rng), signed_bundle(rng), folder, rng.choice([(), ("log",)]))


def _seats(seed: str, count: int, folder: Path) -> Iterator[str | None]:
    for number in range(count):
        rng = Random(f"{seed}-{number}")
        parts, is_other = forged_seat(rng)
        yield seat_disagreement(parts, folder, is_other=is_other, is_trusted=rng.random() < 0.5)


KINDS: dict[str, Callable[[str, int, Path], Iterator[str | None]]] = {
    "runs": _runs,
    "disclosures": _disclosures,
    "transactions": _transactions,
    "bundles": _bundles,
    "proof_files": _proof_files,
    "policies": _policies,
    "seats": _seats,
}


def cases(kind: str, seed: int, count: int, folder: Path) -> Iterator[str | None]:
    """Judge so many cases of a kind; of each, how the verifiers differ, or null."""
    return KINDS[kind](f"{kind}-{seed}", count, folder)
