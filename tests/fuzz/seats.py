"""Bundles of seats whose chain is changed, with heads that follow from it again or not."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from clvlab.errors import EvidenceError
from clvlab.log.seats import blind_commitment
from clvlab.proof import clv_verify
from tests.fuzz.runs import ODD, at_place, places
from tests.log.test_seats import bundles, packed, rehashed
from tests.proof.test_bundle import by_package, said

__all__ = ["forged_seat", "seat_disagreement"]

Parts = dict[str, bytes]


def forged_seat(rng: Random) -> tuple[Parts, bool]:
    """Change the chain of a seat, and make its heads follow again in two of three cases.

    Returns
    -------
    tuple
        Parts of the bundle, and whether other decisions, or in another order, stand in its chain.
    """
    parts = dict(bundles()[0][rng.choice(["aliased", "open", "held-back", "competing"])])
    if rng.random() < 0.1:
        flipped = bytearray(parts["seat.json"])
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        return parts | {"seat.json": bytes(flipped)}, False
    whole = clv_verify.json.loads(parts["seat.json"])
    seat = deepcopy(whole)
    rng.choice([_decision, _decision, _order, _secret, _entries, _anything])(rng, seat)
    if rng.random() < 2 / 3:
        with suppress(KeyError, TypeError, AttributeError, EvidenceError):  # the change may leave nothing to make heads of
            rehashed(seat)
    return parts | {"seat.json": _written(seat)}, _decided(seat) != _decided(whole)


def _written(seat: Any) -> bytes:
    text = clv_verify.json.dumps(seat, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return text.encode(errors="replace")


def _decided(seat: Any) -> list[Any] | None:
    """Return the decisions of a chain in order, without confidences, which may be written in several ways."""
    try:
        ticks = [[{**one, "confidence": None} for one in tick["decisions"]] for tick in seat["ticks"]]
    except (KeyError, TypeError):
        return None
    return [sorted(map(repr, (sorted(one.items()) for one in tick))) for tick in ticks if tick]


def _deciding(seat: Any) -> list[Any]:
    return [tick for tick in seat["ticks"] if tick["decisions"]]


def _decision(rng: Random, seat: Any) -> None:
    """Change a field of a decision, take it from another decision, add one, or leave one out."""
    ticks = _deciding(seat)
    decisions = rng.choice(ticks)["decisions"]
    other = rng.choice(rng.choice(ticks)["decisions"])
    one = decisions[rng.randrange(len(decisions))]
    change = rng.randrange(4)
    if change == 0:
        one[rng.choice([*one, "reason", "confidence", "limit_odds_milli"])] = deepcopy(rng.choice(ODD))
    elif change == 1:
        name = rng.choice(list(other))
        one[name] = deepcopy(other[name])
    elif change == 2:
        decisions.append(deepcopy(other))
    else:
        decisions.remove(one)


def _order(rng: Random, seat: Any) -> None:
    """Exchange the decisions of two ticks, move those of one to another tick, or say that a tick was missed."""
    first, second = rng.choice(_deciding(seat)), rng.choice(seat["ticks"])
    if rng.random() < 0.2:
        second["missed"] = not second["missed"]
    else:
        first["decisions"], second["decisions"] = second["decisions"], first["decisions"]


def _secret(rng: Random, seat: Any) -> None:
    """Put in another secret, which the header may commit to."""
    own = seat["secret"]
    secret = rng.choice([rng.randbytes(32).hex(), own.upper(), own[:-2], f" {own[1:]}", "x" * 64])
    seat["secret"] = secret
    if rng.random() < 0.5 and len(secret) == 64 and secret.strip("0123456789abcdef") == "":
        seat["header"]["blind_commitment"] = blind_commitment(bytes.fromhex(secret))


def _entries(rng: Random, seat: Any) -> None:
    """Repeat, leave out or exchange entries of the log, or change a text or number of one."""
    entries = seat.get("held", seat["entries"]) if rng.random() < 0.5 else seat["entries"]
    one, change = rng.randrange(len(entries)), rng.randrange(5)
    if change == 0:
        entries.insert(one, deepcopy(rng.choice(entries)))
    elif change == 1:
        del entries[one]
    elif change == 2:
        rng.shuffle(entries)
    elif change == 3:
        entries[one]["index"] += rng.choice([-1, 1, 1 << 60])
    else:
        entry = clv_verify.json.loads(entries[one]["entry"])
        entry[rng.choice(list(entry))] = deepcopy(rng.choice(ODD))
        entries[one]["entry"] = _written(entry).decode()


def _anything(rng: Random, seat: Any) -> None:
    place = rng.choice(places(seat)[1:])
    other = at_place(seat, rng.choice(places(seat)))
    at_place(seat, place[:-1])[place[-1]] = deepcopy(rng.choice([*ODD, other, other]))


def seat_disagreement(parts: Parts, folder: Path, *, is_other: bool, is_trusted: bool) -> str | None:
    """Say how package and file differ over the seat in a bundle, or where one agrees with ``is_other`` decisions; or null."""
    trust = bundles()[1] if is_trusted else {}
    content = packed(parts)
    (folder / "run.clv").write_bytes(content)
    alone = clv_verify.verify(folder / "run.clv", trust=trust)
    package, file = by_package(content, trust, ()), said(alone)
    if package is None:
        return None if any(alone["checks"].values()) else "the package refuses what the file passes"
    ours = {name: check.verdict.value for name, check in package.items()}
    if ours != file:
        return f"the package says {package['seat']}, the file {alone['checks'].get('seat')!r}, {alone['without']}"
    return f"both say {ours['seat']} of other decisions" if is_other and ours["seat"] != "fail" else None
