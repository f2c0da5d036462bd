import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clvlab.errors import EvidenceError
from clvlab.proof import clv_verify
from clvlab.proof.merkle import (
    Frontier,
    check_consistency,
    check_inclusion,
    inclusion_proof,
    leaf_hash,
    leaf_hashes,
    root,
    root_of_lines,
)
from tests.merkle import consistency_proof

SIZES = range(1, 21)
LINES = [b"line %d" % n for n in range(40)]
LEAVES = [leaf_hash(line) for line in LINES]


def rfc_root(entries):
    """RFC 9162, section 2.1.1, word for word."""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    k = 1
    while 2 * k < len(entries):
        k *= 2
    return hashlib.sha256(b"\x01" + rfc_root(entries[:k]) + rfc_root(entries[k:])).digest()


@pytest.mark.parametrize("size", [0, *SIZES, 31, 32, 33])
def test_root_is_that_of_rfc_9162(size):
    text = b"".join(line + b"\n" for line in LINES[:size])
    expected = "sha256:" + rfc_root(LINES[:size]).hex()

    assert "sha256:" + root(LEAVES[:size]).hex() == expected
    assert root_of_lines(text) == clv_verify.merkle_root(clv_verify.lines_of(text)) == expected


@given(st.lists(st.integers(0, 9), max_size=8))
def test_frontier_gives_the_same_root_however_it_is_fed(steps):
    frontier, fed = Frontier(), 0
    for step in steps:
        leaves = [leaf_hash(b"%d" % n) for n in range(fed, fed + step)]
        frontier.extend(leaves)
        fed += step

    assert frontier.size == fed
    assert frontier.root() == rfc_root([b"%d" % n for n in range(fed)])


@pytest.mark.parametrize("text", [b"\n", b"\n\n", b"a\n\nb\n", b"long\n" * 3])
def test_leaves_are_lines_without_their_feeds(text):
    assert leaf_hashes(text) == [leaf_hash(line) for line in text.split(b"\n")[:-1]]


def test_leaves_of_a_text_longer_than_a_batch():
    text = b"".join(b"%07d" % n * (n % 9) + b"\n" for n in range(200_000))

    assert leaf_hashes(text) == [leaf_hash(line) for line in text.split(b"\n")[:-1]]


def test_line_longer_than_a_batch_is_one_leaf():
    text = b"a\n" + b"x" * (9 << 20) + b"\nb\n"

    assert leaf_hashes(text) == [leaf_hash(line) for line in text.split(b"\n")[:-1]]


@pytest.mark.parametrize("size", SIZES)
def test_every_leaf_is_proved_and_no_other(size):
    top = root(LEAVES[:size])
    for index in range(size):
        proof = inclusion_proof(LEAVES[:size], index)

        assert check_inclusion(LEAVES[index], index, size, proof, top)
        assert not check_inclusion(LEAVES[index + 1], index, size, proof, top)
        assert not check_inclusion(LEAVES[index], index, size, proof, LEAVES[0] if size > 1 else LEAVES[1])
        assert not check_inclusion(LEAVES[index], index, size, [*proof, LEAVES[0]], top)
        for wrong in range(size):
            assert wrong == index or not check_inclusion(LEAVES[index], wrong, size, proof, top)
        for cut in range(len(proof)):
            assert not check_inclusion(LEAVES[index], index, size, proof[:cut] + proof[cut + 1 :], top)
            assert not check_inclusion(LEAVES[index], index, size, [*proof[:cut], LEAVES[-1], *proof[cut + 1 :]], top)


@pytest.mark.parametrize("size", SIZES)
def test_every_earlier_tree_is_proved_a_prefix_and_no_other(size):
    top = root(LEAVES[:size])
    for first in range(1, size + 1):
        old, proof = root(LEAVES[:first]), consistency_proof(LEAVES[:size], first)

        assert check_consistency(first, size, old, top, proof)
        assert not check_consistency(first, size, LEAVES[-1], top, proof)
        assert not check_consistency(first, size, old, LEAVES[-1], proof)
        assert not check_consistency(first, size, old, top, [*proof, LEAVES[0]])
        for cut in range(len(proof)):
            assert not check_consistency(first, size, old, top, proof[:cut] + proof[cut + 1 :])
            assert not check_consistency(first, size, old, top, [*proof[:cut], LEAVES[-1], *proof[cut + 1 :]])


def test_rewritten_history_is_no_extension():
    rewritten = [LEAVES[30], *LEAVES[1:9]]

    proof = consistency_proof(rewritten, 5)

    assert not check_consistency(5, 9, root(LEAVES[:5]), root(rewritten), proof)


@pytest.mark.parametrize(("index", "size"), [(-1, 3), (3, 3), (0, 0)])
def test_leaf_outside_the_tree_is_refused(index, size):
    assert not check_inclusion(LEAVES[0], index, size, [], LEAVES[0])
    with pytest.raises(EvidenceError):
        inclusion_proof(LEAVES[:size], index)


@pytest.mark.parametrize("first", [0, -1, 4])
def test_tree_outside_the_tree_is_refused(first):
    assert not check_consistency(first, 3, LEAVES[0], LEAVES[0], [])
    with pytest.raises(EvidenceError):
        consistency_proof(LEAVES[:3], first)
