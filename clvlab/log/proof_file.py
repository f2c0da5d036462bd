"""Files that prove one entry of a log to anybody, in the form of C2SP ``tlog-proof``."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass

from clvlab.errors import LogError
from clvlab.law.schema import SAFE_INTEGER
from clvlab.log.note import Checkpoint, Keys, decode, trusted_checkpoint
from clvlab.proof.merkle import check_inclusion, leaf_hash

_FIRST = "c2sp.org/tlog-proof@v1"
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,15})")
_MAX_HASHES = 63


@dataclass(frozen=True, slots=True)
class ProofFile:
    """The proof that an entry stands at ``index`` of the log of a signed checkpoint. Nobody signed ``extra``."""

    index: int
    hashes: tuple[bytes, ...]
    note: str
    extra: bytes | None = None

    def text(self) -> str:
        extra = "" if self.extra is None else f"extra {b64encode(self.extra).decode()}\n"
        hashes = "".join(f"{b64encode(value).decode()}\n" for value in self.hashes)
        return f"{_FIRST}\n{extra}index {self.index}\n{hashes}\n{self.note}"

    @classmethod
    def read(cls, text: str) -> ProofFile:
        """Read a proof; ``LogError`` unless it has exactly the form. Its signatures are not judged."""
        head, blank, note = text.partition("\n\n")
        first, *lines = head.split("\n")
        if first != _FIRST or not blank:
            raise LogError(f"no proof of an entry: it must begin with {_FIRST!r} and hold a checkpoint")
        extra = decode(lines.pop(0).removeprefix("extra ")) if lines and lines[0].startswith("extra ") else None
        index = _INDEX.fullmatch(lines[0]) if lines else None
        if index is None or int(index[1]) > SAFE_INTEGER:
            raise LogError(f"no proof of an entry: its index is missing, in {head[:120]!r}")
        hashes = tuple(decode(line) for line in lines[1:])
        if len(hashes) > _MAX_HASHES or any(len(value) != 32 for value in hashes):
            raise LogError("a proof of an entry has at most 63 hashes of 32 bytes")
        return cls(int(index[1]), hashes, note, extra)

    def check(self, entry: bytes, keys: Keys) -> tuple[Checkpoint, tuple[str, ...]]:
        """Return the checkpoint under which a trusted log has this entry, and the trusted witnesses that signed it."""
        state, witnesses = trusted_checkpoint(self.note, keys)
        if not check_inclusion(leaf_hash(entry), self.index, state.size, self.hashes, state.root):
            raise LogError(f"the entry does not stand at {self.index} of the {state.size} entries that {state.origin!r} signed")
        return state, witnesses
