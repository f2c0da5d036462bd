from base64 import b64encode

import pytest

from clvlab.errors import LogError
from clvlab.log.note import Checkpoint, Signer, Verifier, checkpoint, open_note, read_signer, write_note, write_signer

TEXT = Checkpoint("log.example", 3, bytes(32)).text
LOG, WITNESS = Signer("log.example", 1, bytes(range(32))), Signer("w.example", 4, bytes(range(1, 33)))
NOTE = write_note(TEXT, LOG.line(TEXT), WITNESS.line(TEXT, 1_700_000_000))

# The example that the documentation of Go's package golang.org/x/mod/sumdb/note gives.
GO_PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
GO_PUBLIC = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_NOTE = (
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


def test_keys_and_notes_are_those_of_gos_note_package(tmp_path):
    (tmp_path / "key").write_text(GO_PRIVATE)
    signer = read_signer(tmp_path / "key")

    text, signers = open_note(GO_NOTE, Verifier.parse(GO_PUBLIC))

    assert str(signer.verifier) == GO_PUBLIC
    assert signers == (signer.verifier,)
    assert write_note(text, signer.line(text)) == GO_NOTE


def test_note_opens_with_the_keys_that_are_trusted():
    assert open_note(NOTE) == (TEXT, ())
    assert open_note(NOTE, LOG.verifier) == (TEXT, (LOG.verifier,))
    assert open_note(NOTE, WITNESS.verifier, LOG.verifier) == (TEXT, (LOG.verifier, WITNESS.verifier))


@pytest.mark.parametrize(
    "note",
    [
        NOTE.replace("\n3\n", "\n4\n"),
        NOTE.replace("— log.example ", "— log.example +"),
        NOTE.replace("==", "=", 1),
        TEXT,
        NOTE[:-1],
        NOTE.replace("— w", "- w"),
        NOTE + "\n",
        NOTE + "— x AA==\n",
    ],
)
def test_note_that_was_changed_is_refused(note):
    with pytest.raises(LogError):
        open_note(note, LOG.verifier, WITNESS.verifier)


def test_witness_signs_the_time_too():
    later = WITNESS.line(TEXT, 1_700_000_001)

    assert later != WITNESS.line(TEXT, 1_700_000_000)
    assert open_note(write_note(TEXT, later), WITNESS.verifier)[1] == (WITNESS.verifier,)


def test_new_key_is_that_of_a_witness_only_if_it_is_asked_for():
    assert [Signer.new("example", **asked).verifier.is_witness for asked in ({}, {"witness": True})] == [False, True]


def test_key_of_the_same_name_is_another_key():
    other = Signer("log.example", 1, bytes(32))

    assert open_note(NOTE, other.verifier)[1] == ()


def test_key_is_kept_where_only_its_owner_reads_it_and_never_overwritten(tmp_path):
    path = tmp_path / "log.key"
    signer = Signer.new("log.example")
    write_signer(signer, path)

    assert read_signer(path) == signer
    assert oct(path.stat().st_mode)[-3:] == "600"
    with pytest.raises(FileExistsError):
        write_signer(signer, path)


@pytest.mark.parametrize("text", ["", "a+b", "a+00000000+AAAA", str(LOG.verifier).replace("log", "lag"), "x y+1+AA=="])
def test_text_that_is_no_public_key_is_refused(text):
    with pytest.raises(LogError):
        Verifier.parse(text)


@pytest.mark.parametrize("text", ["", "secret", "PRIVATE+KEY+a+b+c", GO_PRIVATE.replace("c74f", "c74e")])
def test_file_that_is_no_private_key_is_refused_without_showing_it(tmp_path, text):
    (tmp_path / "key").write_text(text)

    with pytest.raises(LogError) as caught:
        read_signer(tmp_path / "key")

    assert len(text) < 10 or text[-8:] not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT + "\n",
        TEXT + "\nextension\n",
        TEXT + "extension",
        TEXT.replace("3", "03"),
        TEXT.replace("3", "-3"),
        TEXT.replace("A=", "="),
        "\n3\n" + TEXT[14:],
    ],
)
def test_text_that_is_no_checkpoint_is_refused(text):
    with pytest.raises(LogError):
        checkpoint(text)


def test_name_with_a_space_or_plus_is_refused():
    for name in ("", "a b", "a+b", "a\n"):
        with pytest.raises(LogError, match="name of a key"):
            Signer.new(name)


def test_extension_lines_are_read_and_signed_and_are_no_part_of_the_state():
    found = checkpoint(TEXT + "first\nsecond\n")

    assert (found.extension, found.text) == ("first\nsecond\n", TEXT + "first\nsecond\n")
    assert found == checkpoint(TEXT)


def test_signatures_of_other_types_are_passed_over_whatever_their_length():
    other = b64encode(bytes(4 + 8 + 2420)).decode()
    line = f"\u2014 {LOG.name} {other}\n"

    assert open_note(write_note(TEXT, line, LOG.line(TEXT), line), LOG.verifier)[1] == (LOG.verifier,)


@pytest.mark.parametrize("line", ["\u2014 a+b AAAAAAAA\n", "\u2014 a\u00a0b AAAAAAAA\n", "\u2014 a\tb AAAAAAAA\n"])
def test_line_under_a_name_that_no_key_can_have_is_refused(line):
    with pytest.raises(LogError):
        open_note(write_note(TEXT, LOG.line(TEXT), line), LOG.verifier)


def test_note_with_more_signatures_than_are_read_is_refused():
    with pytest.raises(LogError, match="a note with 101 signatures, more than 100"):
        open_note(write_note(TEXT, *[LOG.line(TEXT)] * 101), LOG.verifier)


def test_cosignature_of_a_time_that_no_clock_shows_does_not_hold():
    witness = Signer("w.example", 4, bytes(range(1, 33)))

    with pytest.raises(LogError, match="does not hold"):
        open_note(write_note(TEXT, witness.line(TEXT, 2**63)), witness.verifier)
