"""Logs, proofs and notes, most of them changed at one place, and the verdicts of clvlab and of sigstore about them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

from clvlab.arena.log.sources import TilesSource
from clvlab.errors import ClvlabError
from clvlab.log.note import Checkpoint, Keys, Signer, trusted_checkpoint, write_note
from clvlab.log.proof_file import ProofFile
from clvlab.log.tiles import tile_bytes, tiles_of
from clvlab.log.tree import consistency, inclusion, tree_root
from clvlab.proof.merkle import Frontier, check_consistency, check_inclusion, leaf_hash, root

LOG, WITNESS = Signer("log.example", 1, bytes(range(32))), Signer("witness.example/w1", 4, bytes(range(1, 33)))
STRANGER = Signer("log.example", 1, bytes(range(2, 34)))
KINDS = ("note", "inclusion", "consistency", "proof", "tiles")
_DIGITS = b"0123456789"


@dataclass(frozen=True)
class Case:
    kind: str
    changed: bool
    keys: Sequence[str] = ()
    note: bytes = b""
    entry: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    index: int = 0
    size: int = 0
    proof: Sequence[bytes] = ()
    root: bytes = b""
    earlier: bytes = b""

    def payload(self) -> dict[str, Any]:
        """Return the case as JSON for the program in Go."""
        return {
            "Kind": self.kind, "Keys": list(self.keys), "Note": _text(self.note), "Entry": _text(self.entry),
            "Files": {path: _text(content) for path, content in self.files.items()},
            "Index": self.index, "Size": self.size, "Proof": [_text(one) for one in self.proof],
            "Root": _text(self.root), "Earlier": _text(self.earlier or bytes(32)),
        }  # fmt: skip

    def verdict(self) -> bool:
        """Return whether clvlab accepts it; any error but its own is a defect."""
        try:
            return _VERDICTS[self.kind](self)
        except (ClvlabError, UnicodeDecodeError):
            return False

    def sigstore_verdict(self) -> bool | None:
        """Return whether sigstore accepts an inclusion proof; ``None`` for what it does not judge."""
        if self.kind != "inclusion" or not 0 <= self.index < self.size:
            return None
        from sigstore._internal.merkle import verify_merkle_inclusion
        from sigstore.errors import VerificationError

        proof = SimpleNamespace(log_index=self.index, tree_size=self.size, hashes=list(self.proof), root_hash=self.root)
        inner = SimpleNamespace(inclusion_proof=proof, canonicalized_body=self.entry)
        try:
            verify_merkle_inclusion(SimpleNamespace(_inner=inner))
        except VerificationError:
            return False
        return True

    def sigstore_reads_it_alike(self) -> bool:
        """Whether sigstore reads an accepted checkpoint as the same log, size and root."""
        from sigstore._internal.rekor.checkpoint import SignedCheckpoint

        found = SignedCheckpoint.from_text(self.note.decode()).checkpoint
        state = trusted_checkpoint(self.note.decode(), _keys(self.keys))[0]
        return (found.origin, found.log_size, found.log_hash) == (state.origin, state.size, state.root.hex())


def _text(content: bytes) -> str:
    return b64encode(content).decode()


def _keys(keys: Sequence[str]) -> Keys:
    return Keys.read(keys[:1], keys[1:])


def _signed_by_all(text: str, keys: Sequence[str]) -> Checkpoint:
    state, witnesses = trusted_checkpoint(text, _keys(keys))
    if len(witnesses) != len(keys) - 1:
        raise ClvlabError("a witness is missing")
    return state


def _note_holds(case: Case) -> bool:
    return bool(_signed_by_all(case.note.decode(), case.keys))


def _proof_holds(case: Case) -> bool:
    proof = ProofFile.read(case.note.decode())
    _signed_by_all(proof.note, case.keys)
    return bool(proof.check(case.entry, _keys(case.keys)))


@dataclass(frozen=True)
class _Files:
    files: Mapping[str, bytes]
    url: str = "memory"

    def get(self, path: str, *, may_lack: bool = False) -> bytes | None:
        if not may_lack and path.removeprefix("/") not in self.files:
            raise ClvlabError(path)
        return self.files.get(path.removeprefix("/"))


def _tiles_hold(case: Case) -> bool:
    source = TilesSource(_Files(case.files))
    head, tree = source.head(), Frontier()
    _signed_by_all(head.note or "", case.keys)
    tree.extend([leaf_hash(entry) for _, entry in source.page(0, head.size)])
    return tree.size == head.size and tree.root() == head.root and not source.faults


_VERDICTS: Mapping[str, Callable[[Case], bool]] = {
    "note": _note_holds,
    "inclusion": lambda case: (
        _are_hashes(case) and check_inclusion(leaf_hash(case.entry), case.index, case.size, case.proof, case.root)
    ),
    "consistency": lambda case: (
        _are_hashes(case) and check_consistency(case.index, case.size, case.earlier, case.root, case.proof)
    ),
    "proof": _proof_holds,
    "tiles": _tiles_hold,
}


def _are_hashes(case: Case) -> bool:
    return all(len(value) == 32 for value in (*case.proof, case.root))


class _Memory:
    """A log in memory, with what tiles and proofs are made of."""

    def __init__(self, entries: Sequence[bytes]) -> None:
        self.entries = entries
        self._levels = [[leaf_hash(entry) for entry in entries]]
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            self._levels.append([root(below[at : at + 2]) for at in range(0, len(below) - 1, 2)])

    def node(self, level: int, index: int) -> bytes:
        return self._levels[level][index]

    def nodes(self, level: int, first: int, count: int) -> list[bytes]:
        return self._levels[level][first : first + count]

    def page(self, since: int, limit: int) -> list[tuple[int, bytes]]:
        return list(enumerate(self.entries[since : since + limit], since))


def cases(count: int, seed: int) -> list[Case]:
    """Return cases of all kinds in turn; one in eight is left as it was made, and holds."""
    rng = Random(seed)
    return [_MAKERS[KINDS[number % len(KINDS)]](rng, rng.randrange(8) > 0) for number in range(count)]


def _log(rng: Random, largest: int = 40) -> _Memory:
    size = rng.choice((rng.randrange(1, largest), rng.choice((1, 2, 3, 4, 7, 8, 9, 16, 31, 32))))
    return _Memory([rng.randbytes(rng.randrange(80)) for _ in range(size)])


def _signed(rng: Random, text: str, *signers: Signer) -> str:
    lines = [signer.line(text, rng.randrange(2**40)) for signer in signers]
    if rng.randrange(3) == 0:  # signatures that nobody here can judge, of other keys and of other types
        strange = b64encode(rng.randbytes(rng.choice((68, 76, 4 + 8 + 2420)))).decode()
        lines.insert(rng.randrange(len(lines) + 1), f"\u2014 {rng.choice(('log.example', 'pq.example'))} {strange}\n")
        lines.insert(rng.randrange(len(lines) + 1), STRANGER.line(text))
    return write_note(text, *lines)


def _checkpoint(rng: Random, log: _Memory, size: int) -> str:
    lines = "".join(
        f"{rng.choice(('ext', 'Zeile ä', '— x AAAAAAAA'))} {number}\n" for number in range(rng.choice((0, 0, 1, 3)))
    )
    return Checkpoint("log.example", size, tree_root(log, size), lines).text


def _signers(rng: Random) -> tuple[Signer, ...]:
    return (LOG, WITNESS) if rng.randrange(2) else (LOG,)


def _public(signers: Sequence[Signer]) -> list[str]:
    return [str(signer.verifier) for signer in signers]


def _note(rng: Random, change: bool) -> Case:  # noqa: FBT001 - a maker of a case
    log, signers = _log(rng), _signers(rng)
    text, early = _checkpoint(rng, log, len(log.entries)), rng.randrange(2)
    if change and early:  # what is signed is wrong already
        text = _changed_text(rng, text.encode()).decode("utf-8", "replace")
    note = _signed(rng, text, *signers).encode()
    return Case("note", change, _public(signers), _changed_text(rng, note) if change and not early else note)


def _inclusion(rng: Random, change: bool) -> Case:  # noqa: FBT001
    log = _log(rng)
    size = len(log.entries)
    index = rng.randrange(size)
    made = {
        "entry": log.entries[index], "index": index, "size": size,
        "proof": inclusion(log, index, size), "root": tree_root(log, size),
    }  # fmt: skip
    return Case("inclusion", change, **(_changed_one(rng, made) if change else made))


def _consistency(rng: Random, change: bool) -> Case:  # noqa: FBT001
    log = _log(rng)
    size = len(log.entries)
    first = rng.randrange(1, size + 1)
    made = {
        "index": first, "size": size, "proof": consistency(log, first, size),
        "root": tree_root(log, size), "earlier": tree_root(log, first),
    }  # fmt: skip
    return Case("consistency", change, **(_changed_one(rng, made) if change else made))


def _proof(rng: Random, change: bool) -> Case:  # noqa: FBT001
    log, signers = _log(rng), _signers(rng)
    size = len(log.entries)
    index = rng.randrange(size)
    note = _signed(rng, _checkpoint(rng, log, size), *signers)
    extra = rng.choice((None, b"", rng.randbytes(9)))
    text, entry = ProofFile(index, tuple(inclusion(log, index, size)), note, extra).text().encode(), log.entries[index]
    if change and rng.randrange(5) == 0:
        entry = _changed(rng, entry)
    elif change:
        text = _changed_text(rng, text)
    return Case("proof", change, _public(signers), text, entry)


def _tiles(rng: Random, change: bool) -> Case:  # noqa: FBT001
    log, signers = _log(rng, rng.choice((40, 40, 40, 300, 600))), _signers(rng)
    size = len(log.entries)
    files = {tile.path: tile_bytes(log, tile) for tile in tiles_of(size)}
    files["checkpoint"] = _signed(rng, _checkpoint(rng, log, size), *signers).encode()
    if change:
        path, other = rng.choice(sorted(files)), rng.choice(sorted(files))
        what = rng.randrange(8)
        if what == 0:
            del files[path]
        elif what == 1:
            files[path], files[other] = files[other], files[path]
        else:
            files[path] = (_changed_text if path == "checkpoint" else _changed)(rng, files[path])
    return Case("tiles", change, _public(signers), files=files)


_MAKERS: Mapping[str, Callable[[Random, bool], Case]] = {
    "note": _note, "inclusion": _inclusion, "consistency": _consistency, "proof": _proof, "tiles": _tiles,
}  # fmt: skip


def _changed_one(rng: Random, made: Mapping[str, Any]) -> dict[str, Any]:
    name = rng.choice([*made, "proof"])
    value = made[name]
    if isinstance(value, bytes):
        value = _changed(rng, value)
    elif isinstance(value, int):
        value = rng.choice((value + 1, value - 1, value * 2, value ^ (1 << rng.randrange(12)), rng.randrange(2**40)))
    else:
        value = list(value)
        at, what = rng.randrange(len(value) + 1), rng.randrange(4)
        if what == 0 or not value:
            value.insert(at, rng.randbytes(32))
        elif what == 1:
            value.pop(at % len(value))
        elif what == 2:
            rng.shuffle(value)
        else:
            value[at % len(value)] = _changed(rng, value[at % len(value)])
    return {**made, name: value}


def _changed(rng: Random, data: bytes) -> bytes:
    at, what = rng.randrange(len(data) + 1), rng.randrange(6)
    if what == 0 or not data:
        return data[:at] + rng.randbytes(1 + rng.randrange(3)) + data[at:]
    if what == 1:
        return data[:at]
    if what == 2:
        return data + data[at:]
    if what == 3:
        return data[: max(at - 1, 0)] + data[at:]
    at %= len(data)
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _changed_text(rng: Random, data: bytes) -> bytes:
    lines, what = data.split(b"\n"), rng.randrange(10)
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    if what == 0:
        lines[at], lines[other] = lines[other], lines[at]
    elif what == 1:
        lines.insert(other, lines[at])
    elif what == 2:
        del lines[at]
    elif what == 3:
        lines.insert(at, rng.choice((b"", b"x", b" ", "\u2014 x AAAAAAAA".encode(), b"extra AA==", b"index 0")))
    elif what == 4:
        lines[at] = rng.choice((b"0", b"+", b" ", b"\t", b"\r", "\u00a0".encode(), b"\xff", b"=", b"\x00")) + lines[at]
    elif what == 5:
        lines[at] += rng.choice((b"0", b"+", b" ", b"\t", b"\r", "\u00a0".encode(), b"\xff", b"=", b"\x00"))
    elif what == 6:
        found = [place for place, byte in enumerate(data) if byte in _DIGITS]
        place = rng.choice(found)
        return data[:place] + rng.choice((b"0", b"9", b"", b"00", b"99999999999999999999")) + data[place + 1 :]
    elif what == 7:  # another spelling of the same bytes
        return data.replace(b"A=\n", b"B=\n", 1).replace(b"Q==\n", b"R==\n", 1).replace(b"g=\n", b"h=\n", 1)
    else:
        return _changed(rng, data)
    return b"\n".join(lines)
