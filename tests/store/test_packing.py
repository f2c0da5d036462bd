import gzip
import random

import pytest

from clvlab.store.runs import HEADER, chunks, lines_of


def lines(count, width=100, seed=1):
    chance = random.Random(seed)
    return b"".join(b'{"seq":%d,"text":"%d"}\n' % (n, chance.getrandbits(width)) for n in range(count))


@pytest.mark.parametrize(
    "text", [b"", b"\n", b"{}\n", lines(1), lines(40_000), b"x" * 300_000 + b"\n", lines(9_000) + b"x" * 200_000 + b"\n"]
)
def test_chunks_are_one_gzip_file_and_each_is_read_alone(text):
    found = list(chunks(text))

    assert b"".join(lines_of(chunk.stored, chunk.size) for chunk in found) == text
    assert not found or gzip.decompress(HEADER + b"".join(chunk.stored for chunk in found)) == text
    for chunk in found:
        own = lines_of(chunk.stored, chunk.size)
        assert (len(own), own[-1:]) == (chunk.size, b"\n")
        assert text.startswith(own, sum(earlier.size for earlier in found if earlier.first_line < chunk.first_line))


def test_lines_of_an_older_store_are_read_as_they_are():
    assert lines_of(b"{}\n", None) == b"{}\n"


def test_a_damaged_chunk_never_reads_as_what_it_was():
    (chunk,), chance = chunks(lines(500)), random.Random(2)
    was = lines_of(chunk.stored, chunk.size)

    for _ in range(300):
        place = chance.randrange(len(chunk.stored) - 8)
        damaged = bytearray(chunk.stored)
        damaged[place] ^= 1 << chance.randrange(8)
        assert lines_of(bytes(damaged), chunk.size) != was


def test_evidence_lies_in_a_fraction_of_its_bytes():
    text = b"".join(b'{"kind":"DECISION","seq":%d,"market":"1X2||","side":"part1"}\n' % n for n in range(20_000))

    assert sum(len(chunk.stored) for chunk in chunks(text)) * 5 < len(text)
