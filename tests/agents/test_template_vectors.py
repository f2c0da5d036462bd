"""Decisions that other implementations can check themselves against. A change here is a change of a template."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clvlab.agents.registry import TEMPLATES
from clvlab.arena.packs import open_pack
from tests.vectors.templates import FILE, canonical_rows

ROOT = Path(__file__).parents[2]
VECTORS = json.loads(FILE.read_text("utf-8"))
_DIGESTS = """
from clvlab.arena.packs import open_pack
from clvlab.agents.registry import TEMPLATES
from tests.vectors.templates import canonical_rows
import polars as pl
tape = open_pack("season").tape()
print(pl.thread_pool_size(), *(canonical_rows(tape, strategy, {})[0] for strategy in TEMPLATES))
"""


def test_the_vectors_are_of_the_bundled_pack_and_of_every_template():
    assert open_pack(VECTORS["pack_id"]).content_hash == VECTORS["content_hash"]
    assert {vector["strategy"] for vector in VECTORS["decisions"]} == set(TEMPLATES)


@pytest.mark.parametrize("vector", VECTORS["decisions"], ids=lambda vector: vector["strategy"])
def test_decisions_of_a_template(vector):
    digest, rows = canonical_rows(open_pack(VECTORS["pack_id"]).tape(), vector["strategy"], vector["params"])

    assert rows[: len(vector["first"])] == vector["first"]
    assert (len(rows), digest) == (vector["count"], vector["sha256"])


def test_decisions_are_the_same_at_any_number_of_threads():
    said = [
        subprocess.run(
            [sys.executable, "-c", _DIGESTS],
            env=os.environ | {"POLARS_MAX_THREADS": str(threads), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for threads in (1, 4)
    ]

    assert [words[0] for words in said] == ["1", "4"]
    assert len({tuple(words[1:]) for words in said}) == 1
    assert len(set(said[0][1:])) == len(TEMPLATES)
