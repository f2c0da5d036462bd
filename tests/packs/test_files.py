"""Lines of sources, against one ``readline`` after the other."""

import bz2
import gzip
import random

import pytest

from clvlab.errors import SourceError
from clvlab.packs import files
from clvlab.packs.files import lines_of
from tests.length import few, length

PACKED = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}


@pytest.mark.parametrize("seed", range(length(20, 500)))
def test_lines_are_those_that_readline_gives(tmp_path, monkeypatch, seed):
    draw = random.Random(seed)
    monkeypatch.setattr(files, "_CHUNK_BYTES", draw.choice([1, 2, 7, 64, 1 << 18]))
    text = b"".join(draw.choice([b"\n", b"\r\n", b" ", b"a", b"bc,", b"\x85", b"{}\n"]) for _ in range(draw.randrange(200)))
    ending, packed = draw.choice(list(PACKED.items()))
    path = tmp_path / f"odds{ending}"
    path.write_bytes(packed(text))

    with path.with_suffix(".txt").open("w+b") as plain:
        plain.write(text)
        plain.seek(0)
        expected = [(number, line) for number, line in enumerate(iter(plain.readline, b""), 1) if line.strip()]
    assert list(lines_of(path)) == expected


@few(1)
@pytest.mark.parametrize("ending", [".gz", ".bz2"])
def test_a_file_that_is_cut_off_gives_its_lines_up_to_there(tmp_path, ending):
    text = b"".join(random.Random(1).randbytes(30).hex().encode() + b"\n" for _ in range(100_000))
    packed = PACKED[ending](text)
    path = tmp_path / f"odds{ending}"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    found = []

    with pytest.raises(SourceError, match="can't be read to its end"):
        found.extend(line for _, line in lines_of(path))

    whole = text.splitlines(keepends=True)
    assert len(found) > 1_000
    assert whole[: len(found)] == found


def test_a_line_that_does_not_end_is_refused_before_it_stands_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(files, "_CHUNK_BYTES", 64)
    path = tmp_path / "odds.txt"
    path.write_bytes(b"a\n" + b"b" * 998 + b"\n" + b"c" * 100_000)
    found = []

    with pytest.raises(SourceError, match=r"odds\.txt:3: a line of more than 1000 bytes"):
        found.extend(lines_of(path))

    assert [number for number, _ in found] == [1, 2]
