"""Files of every shape with bits flipped or their end cut off: a pack or a clear error, and nothing lost without a word."""

import bz2
import gzip
import lzma
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clvlab.errors import ClvlabError
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_options, import_source
from tests.length import few, length
from tests.sources.test_archives import tarred, zipped
from tests.sources.test_importers import SAMPLES

MANY = "fixture,time,side,odds\n" + "".join(f"m{n},{1_767_355_200 + n},{side},2.0\n" for n in range(300) for side in "ab")
PACKED = {
    "x.csv.gz": gzip.compress(MANY.encode()),
    "x.csv.bz2": bz2.compress(MANY.encode()),
    "x.csv.xz": lzma.compress(MANY.encode()),
    "x.zip": zipped({"a.csv": MANY, "b.csv": MANY.replace("\nm", "\nn")}),
    "x.tar.gz": gzip.compress(tarred({"a.csv": MANY.encode()})),
    "x.tar.bz2": bz2.compress(tarred({"a.csv": MANY.encode()})),
    "x.tar.xz": lzma.compress(tarred({"a.csv": MANY.encode()})),
}


def damaged(content, dice):
    """A copy with some bits flipped, or without its end."""
    if dice.random() < 0.4:
        return content[: dice.randrange(len(content))]
    found = bytearray(content)
    for _ in range(dice.randint(1, 4)):
        found[dice.randrange(len(found))] ^= 1 << dice.randrange(8)
    return bytes(found)


def outcome(content, name, folder, options):
    """Import a file, and return its quality; or null where it was refused by an error of ours."""
    (folder / name).write_bytes(content)
    try:
        report = import_source(None, [folder / name], folder / "p", options)
    except ClvlabError:
        assert {entry.name for entry in folder.iterdir()} == {name}
        return None
    verify_pack(folder / "p")
    return report.quality


@few(5)
@pytest.mark.parametrize("kind", [kind for kind, sample in SAMPLES.items() if not sample.more and not sample.others])
@settings(max_examples=length(12, 400))
@given(seed=st.integers(0, 2**32))
def test_a_damaged_file_becomes_a_pack_or_an_error_of_ours(kind, seed):
    dice, sample = random.Random(seed), SAMPLES[kind]
    options = import_options(lenient=dice.random() < 0.8, mapping=sample.mapping, time_zone="UTC", min_books=1)
    with tempfile.TemporaryDirectory() as folder:
        outcome(damaged(sample.content, dice), sample.name, Path(folder), options)


@few(3)
@pytest.mark.parametrize("name", PACKED)
@settings(max_examples=length(25, 800))
@given(seed=st.integers(0, 2**32))
def test_of_a_damaged_archive_nothing_is_lost_without_a_word(name, seed):
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        quality = outcome(damaged(PACKED[name], dice), name, Path(folder), import_options())
    if quality is not None and not quality.refused_rows:
        assert quality.ticks == (600 if name == "x.zip" else 300)
