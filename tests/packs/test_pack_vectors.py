import hashlib
import json
import struct
from pathlib import Path

import polars as pl
import pytest

from clvlab.law.schema import FIXTURES, TICKS
from clvlab.law.tape import Tape
from clvlab.packs import files, invariants

VECTOR = json.loads((Path(__file__).parents[1] / "vectors" / "pack_digest.json").read_text(encoding="utf-8"))
CONTENT = VECTOR["content"]
HASHED = {"series": "I", "tick_seq": "i", "ts_ms": "q", "in_running": "B", "prob_bps": "i", "odds_milli": "i", "suspended": "B"}


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layout(rows):
    """The hashed bytes of one fixture, from the words of docs/reference/pack-format.md; shares no code with clvlab."""
    names = sorted({(row["market_key"].encode(), row["side"].encode()) for row in rows})
    numbered = [row | {"series": names.index((row["market_key"].encode(), row["side"].encode()))} for row in rows]
    numbered.sort(key=lambda row: (row["series"], row["tick_seq"]))
    table = b"".join(struct.pack("<I", len(text)) + text for name in names for text in name)
    values = {column: [-1 if row[column] is None else int(row[column]) for row in numbered] for column in HASHED}
    columns = b"".join(struct.pack(f"<{len(numbered)}{code}", *values[column]) for column, code in HASHED.items())
    return struct.pack("<I", len(names)) + table + columns


def tape(rows):
    ticks = pl.DataFrame(rows, schema=TICKS, orient="row")
    kickoffs = [(fixture["fixture_id"], fixture["kickoff_ts_ms"]) for fixture in CONTENT["fixtures"]]
    return Tape.from_ticks(ticks, pl.DataFrame(kickoffs, schema=FIXTURES, orient="row"))


def test_the_vector_keeps_the_rules_of_the_format():
    invariants.check(tape(VECTOR["ticks"]))


@pytest.mark.parametrize("number", range(len(VECTOR["fixtures"])))
def test_fixture_bytes_and_digest_follow_from_the_ticks(number):
    fixture = VECTOR["fixtures"][number]
    rows = [dict(zip(VECTOR["columns"], row, strict=True)) for row in VECTOR["ticks"]]
    own = [row for row in rows if row["fixture_id"] == fixture["fixture_id"]]

    assert layout(own).hex() == fixture["bytes_hex"]
    assert sha256(bytes.fromhex(fixture["bytes_hex"])) == fixture["digest"] == CONTENT["fixtures"][number]["digest"]
    assert len(own) == CONTENT["fixtures"][number]["rows"]


@pytest.mark.parametrize("rows", [VECTOR["ticks"], VECTOR["ticks"][::-1]], ids=["as listed", "in reverse"])
def test_clvlab_gives_the_same_digests_in_any_row_order(rows):
    expected = {fixture["fixture_id"]: fixture["digest"] for fixture in VECTOR["fixtures"]}

    assert files.fixture_digests(tape(rows)) == expected


def test_content_hash_is_the_hash_of_the_canonical_content():
    canonical = json.dumps(CONTENT, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    assert sha256(canonical) == VECTOR["content_hash"] == files.content_hash(CONTENT)


@pytest.mark.parametrize("pack_id", ["starter", "season"])
def test_bundled_packs_hash_to_what_they_state(pack_id):
    descriptor = json.loads((Path(__file__).parents[2] / "packs" / pack_id / "datapackage.json").read_bytes())
    content = dict(descriptor["clvlab"])
    stated = content.pop("content_hash")
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    assert sha256(canonical) == stated
