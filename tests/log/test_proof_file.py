import pytest

from clvlab.errors import LogError
from clvlab.log.note import Checkpoint, Keys, Signer, write_note
from clvlab.log.proof_file import ProofFile
from clvlab.proof.merkle import inclusion_proof, leaf_hash, root

LOG, WITNESS = Signer("log.example", 1, bytes(range(32))), Signer("w.example", 4, bytes(range(1, 33)))
KEYS = Keys.read([str(LOG.verifier)], [str(WITNESS.verifier)])
ENTRIES = [f"entry {number}".encode() for number in range(5)]


def proof(index=3, extra=None):
    leaves = [leaf_hash(entry) for entry in ENTRIES]
    text = Checkpoint("log.example", 5, root(leaves)).text
    note = write_note(text, LOG.line(text), WITNESS.line(text, 5))
    return ProofFile(index, tuple(inclusion_proof(leaves, index)), note, extra)


@pytest.mark.parametrize("extra", [None, b"", b"more"])
def test_file_of_a_proof_reads_back_and_proves_its_entry(extra):
    text = proof(extra=extra).text()

    read = ProofFile.read(text)

    assert read == proof(extra=extra)
    assert text.startswith("c2sp.org/tlog-proof@v1\n")
    state, witnesses = read.check(ENTRIES[3], KEYS)
    assert (state.size, witnesses) == (5, ("w.example",))


def test_another_entry_index_or_hash_is_refused():
    for wrong, entry in ((proof(), b"entry 4"), (ProofFile(2, proof().hashes, proof().note), ENTRIES[3])):
        with pytest.raises(LogError, match=r"the entry does not stand at"):
            wrong.check(entry, KEYS)
    with pytest.raises(LogError, match=r"the entry does not stand at 3 of the 5 entries that 'log.example' signed"):
        ProofFile(3, (bytes(32), *proof().hashes[1:]), proof().note).check(ENTRIES[3], KEYS)


def test_changed_cosignature_is_refused_and_named():
    head, _, line = proof().note.rstrip("\n").rpartition(" ")
    swapped = ("B" if line[20] != "B" else "C").join((line[:20], line[21:]))

    with pytest.raises(LogError, match=r"the signature by 'w.example' does not hold"):
        ProofFile(3, proof().hashes, f"{head} {swapped}\n").check(ENTRIES[3], KEYS)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("@v1", "@v2"),
        lambda text: text.replace("index 3\n", ""),
        lambda text: text.replace("index 3", "index 03"),
        lambda text: text.replace("index 3", "index -3"),
        lambda text: text.replace("index 3", "index 9999999999999999"),
        lambda text: text.replace("index 3", "extra %\nindex 3"),
        lambda text: text.replace("index 3\n", "index 3\nAAAA\n"),
        lambda text: text.partition("\n\n")[0],
        lambda text: text.replace("index 3\n", "index 3\n" + ("A" * 43 + "=\n") * 64),
        lambda _: "",
    ],
)
def test_text_that_is_no_proof_is_refused(change):
    with pytest.raises(LogError):
        ProofFile.read(change(proof().text()))
