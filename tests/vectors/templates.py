"""Makes ``templates.json`` anew after its pack has changed: ``python -m tests.vectors.templates``.

A template that decides otherwise over the same pack is another template; then this is no answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clvlab.agents.registry import template
from clvlab.arena.packs import open_pack
from clvlab.law.tape import Tape
from clvlab.proof.canonical import canonical, sha256, without_floats

FILE = Path(__file__).with_suffix(".json")
_FIRST = 3


def canonical_rows(tape: Tape, strategy: str, params: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Digest and rows of a template's decisions: by (fixture_id, tick_seq, market_key, side), fractions as decimal text."""
    decided = template(strategy, params).decide(tape).sort("fixture_id", "tick_seq", "market_key", "side", nulls_last=False)
    rows = [without_floats(row) for row in decided.iter_rows(named=True)]
    return sha256(b"".join(canonical(row) + b"\n" for row in rows)), rows


def main() -> None:
    """Write the file anew: the same strategies and parameters over the pack as it is."""
    vectors = json.loads(FILE.read_text("utf-8"))
    pack = open_pack(vectors["pack_id"])
    if pack.content_hash == vectors["content_hash"]:
        sys.exit(f"{FILE.name} is of this pack already")
    tape = pack.tape()
    vectors["content_hash"] = pack.content_hash
    for vector in vectors["decisions"]:
        digest, rows = canonical_rows(tape, vector["strategy"], vector["params"])
        vector |= {"count": len(rows), "sha256": digest, "first": rows[:_FIRST]}
    FILE.write_text(json.dumps(vectors, indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
