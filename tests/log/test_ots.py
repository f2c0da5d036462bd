"""OpenTimestamps proofs over checkpoints: shown as pending, as a block to compare, or checked by a header."""

import json
from random import Random

import pytest

from clvlab.errors import LogError
from clvlab.log.bundles import Trust, judge, note_text
from clvlab.log.ots import read_headers, read_ots
from clvlab.proof import clv_verify
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.proof.canonical import canonical, parsed
from clvlab.proof.verify import verify
from tests.commands import clvlab
from tests.proof.bundles import make_bundle
from tests.proofs_in_time import block, calendar, mined, ots_file, run_steps, unknown, varuint

PARTS = read_bundle(make_bundle())
LOG = parsed(PARTS["log.json"])
NOTE, EARLIER = LOG["checkpoint"].encode(), LOG["earlier"]["checkpoint"].encode()
# As stock tools do: a nonce, then hashes with siblings to the left and to the right, twice hashed as in a transaction's tree.
STEPS = [("append", b"n" * 16), ("sha256", b""), ("prepend", b"s" * 32), ("append", b"t" * 8), ("sha256", b""), ("sha256", b"")]
URI = "https://a.calendar.example"
GENESIS = "01000000" + "00" * 32 + "3ba3edfd7a7b12b27ac72c3e67768f617fc81bc3888a51323a9fb8aa4b1e5e4a29ab5f49ffff001d1dac2b7c"


def judged(parts, headers=None):
    verification = verify(run_of(PARTS), PARTS["receipts.jsonl"])
    check = judge(PARTS | parts, verification, Trust(), bitcoin_headers=headers)["opentimestamps"]
    return check.verdict.value, check.detail


def test_promise_of_a_calendar_is_pending_and_says_what_the_checkpoint_holds():
    verdict, text = judged({"checkpoint.ots": ots_file(NOTE, ([("append", b"x"), ("sha256", b"")], calendar(URI)))})

    assert verdict == "pending"
    assert text == (
        "the checkpoint of 8 entries, with the commitment and the result: "
        f"the calendar {URI} promises a block, by its word alone"
    )


@pytest.mark.parametrize("content", [NOTE, note_text(NOTE.decode()).encode()])
def test_block_is_pending_with_its_merkle_root_until_the_reader_gives_its_header(content):
    parts = {"checkpoint.ots": ots_file(content, (STEPS, calendar(URI)), (STEPS, block(800_000)))}
    root = run_steps(content, STEPS)

    assert judged(parts)[0] == "pending"
    assert f"Bitcoin block 800,000, if its Merkle root is {root[::-1].hex()}: not checked against the chain" in judged(parts)[1]
    verdict, text = judged(parts, f"800000 {mined(root)}\n")
    assert verdict == "pass", text
    assert "Bitcoin block 800,000 of 2023-07-24 03:17 UTC by its miner's clock, with the header that you gave (hash " in text
    assert judged(parts, f"799999 {mined(root)}\n")[0] == "pending"
    verdict, text = judged(parts, f"800000 {mined(bytes(32))}\n")
    assert (verdict, "has another Merkle root" in text) == ("fail", True)


def test_proof_of_the_earlier_checkpoint_dates_what_it_holds_and_no_more():
    verdict, text = judged({"earlier.ots": ots_file(EARLIER, ([], calendar(URI)))})

    assert (verdict, "with neither commitment nor result" in text) == ("pending", True)


@pytest.mark.parametrize(
    ("part", "content", "why"),
    [
        ("checkpoint.ots", ots_file(b"another text", ([], calendar(URI))), "which no checkpoint of the bundle has"),
        ("checkpoint.ots", ots_file(EARLIER, ([], calendar(URI))), "over the other checkpoint"),
        ("earlier.ots", ots_file(NOTE, ([], calendar(URI))), "over the other checkpoint"),
        ("checkpoint.ots", b"nothing", "no proof of OpenTimestamps"),
    ],
)
def test_proof_over_something_else_fails_without_any_key(part, content, why):
    verdict, text = judged({part: content})

    assert (verdict, why in text) == ("fail", True), text


def test_proof_of_another_runs_log_fails():
    other = parsed(PARTS["log.json"])
    other["commit"]["index"] += 1
    parts = {"log.json": canonical(other), "checkpoint.ots": ots_file(NOTE, ([], calendar(URI)))}

    assert judged(parts)[0] == "fail"


def test_every_operation_and_a_tree_of_forks_is_read_in_order():
    steps = [("reverse", b""), ("hexlify", b""), ("sha1", b""), ("prepend", b"p" * 300), ("sha256", b"")]
    proof = read_ots(ots_file(NOTE, ([], calendar(URI)), (STEPS, block(2**31)), (steps, block(1)), ([], unknown())))

    assert [(one.height, one.calendar) for one in proof.attestations] == [(None, URI), (2**31, None), (1, None), (None, None)]
    assert [one.message for one in proof.attestations[1:3]] == [run_steps(NOTE, STEPS), run_steps(NOTE, steps)]


def deep(count):
    return ots_file(NOTE, ([("sha256", b"")] * count, calendar(URI)))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (deep(257), "more than 256 operations"),
        (ots_file(NOTE, *[([], calendar(URI))] * 65), "more than 64 attestations"),
        (ots_file(NOTE, ([("append", b"x" * 5000)], calendar(URI))), "5,000 bytes in one piece"),
        (ots_file(NOTE, ([("append", b"x" * 4096)], calendar(URI))), "a message of 4,128 bytes"),
        (ots_file(NOTE, ([("hexlify", b"")] * 8, calendar(URI))), "a message of 8,192 bytes"),
        (ots_file(NOTE, ([("append", b"")], calendar(URI))), "appends nothing"),
        (ots_file(NOTE, ([("append", b"x")], block(5))), "a Merkle root of 33 bytes"),
        (ots_file(NOTE, ([], calendar("https://x.example/?q=1"))), "the address of a calendar"),
        (ots_file(NOTE, ([], calendar(""))), "the address of a calendar"),
        (ots_file(NOTE, ([], b"\x67" + calendar(URI))), "the operation 0x67"),
        (ots_file(NOTE, ([], b"\xff" * 4 + calendar(URI))), "the operation 0xff"),
        (ots_file(NOTE, ([], calendar(URI))) + b"\x00", "1 bytes are left over"),
        (ots_file(NOTE, ([], calendar(URI)))[:-1], "it is cut off"),
        (ots_file(NOTE, ([], bytes.fromhex("000588960d73d71901") + b"\x02\x85\x00")), "not in its shortest form"),
        (ots_file(NOTE, ([], bytes.fromhex("000588960d73d71901") + b"\x06" + varuint(2**35))), "too large"),
        (ots_file(NOTE, ([], bytes.fromhex("000588960d73d71901") + b"\x02\x05\x05")), "1 bytes are left over"),
        (ots_file(NOTE, ([], unknown(b"x" * 9000))), "9,000 bytes in one piece"),
        (ots_file(NOTE, ([], calendar(URI))).replace(b"Proof", b"Prouf"), "no proof of OpenTimestamps"),
        (ots_file(NOTE, ([], calendar(URI))).replace(b"\x94\x01\x08", b"\x94\x01\x02"), "over a SHA-256"),
        (b"", "no proof of OpenTimestamps"),
    ],
)
def test_file_beyond_a_limit_or_of_another_form_is_refused_with_its_reason(data, why):
    with pytest.raises(LogError) as caught:
        read_ots(data)
    assert why in str(caught.value)


def test_deepest_and_widest_proofs_are_read():
    assert len(read_ots(deep(256)).attestations) == 1
    assert len(read_ots(ots_file(NOTE, *[([], calendar(URI))] * 64)).attestations) == 64


def test_no_changed_byte_gives_another_error_than_that_of_a_proof_that_is_none():
    whole, rng = ots_file(NOTE, (STEPS, calendar(URI)), (STEPS, block(800_000)), ([], unknown())), Random(1)
    for _ in range(3000):
        at = rng.randrange(len(whole))
        changed = whole[:at] + rng.choice([bytes([rng.randrange(256)]) + whole[at + 1 :], b"", whole[at + 1 :]])
        try:
            assert read_ots(changed).attestations
        except LogError as error:
            assert str(error)  # noqa: PT017


def test_headers_are_read_by_height_and_a_wrong_digit_is_noticed():
    header = read_headers(f"0 {GENESIS}\n7 {mined(b'r' * 32)}\n")

    assert header[0].hash_text == "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"
    assert header[0].root[::-1].hex() == "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b"
    assert f"{header[0].time:%Y-%m-%d}" == "2009-01-03"
    assert header[7].root == b"r" * 32
    for wrong, why in (
        (GENESIS.replace("3ba3", "3ba4"), "a digit is wrong"),
        (GENESIS.replace("ffff001d", "ffff00ff"), "a digit is wrong"),
        (GENESIS.replace("ffff001d", "ffff801d"), "a digit is wrong"),
        (GENESIS[2:], "no new height"),
    ):
        with pytest.raises(LogError, match=f"line 1 has .*{why}"):
            read_headers(f"0 {wrong}")
    with pytest.raises(LogError, match="line 2 has no new height"):
        read_headers(f"0 {GENESIS}\n0 {GENESIS}\n")


def test_headers_without_a_proof_fail_and_no_proof_is_not_spoken_of():
    verification = verify(run_of(PARTS), PARTS["receipts.jsonl"])

    assert "opentimestamps" not in judge(PARTS, verification, Trust())
    assert judged({}, f"0 {GENESIS}") == ("fail", "no proof of OpenTimestamps is here")


def test_from_a_log_to_a_bundle_that_shows_the_block(tmp_path):
    for command in (
        ("log", "keygen", "log.example", "--out", "log.key"),
        ("backtest", "starter", "--fixture", "90000000", "--log", "log.db"),
    ):
        assert clvlab(tmp_path, *command)[0] == 0
    _, note, _ = clvlab(tmp_path, "log", "checkpoint", "log.db", "--key", "log.key")
    (tmp_path / "checkpoint").write_text(note)
    (run,) = (tmp_path / "runs").glob("run_*")
    (tmp_path / "checkpoint.ots").write_bytes(ots_file(note.encode(), (STEPS, block(800_000))))
    (tmp_path / "other.ots").write_bytes(ots_file(b"other", (STEPS, block(800_000))))
    (tmp_path / "headers").write_text(f"800000 {mined(run_steps(note.encode(), STEPS))}\n")
    options = ("bundle", str(run), "--log", "log.db", "--checkpoint", "checkpoint", "--ots")

    bundled = clvlab(tmp_path, *options, "checkpoint.ots", "--out", "run.clv")
    other = clvlab(tmp_path, *options, "other.ots", "--out", "other.clv")
    twice = clvlab(tmp_path, *options, "checkpoint.ots", "--ots", "checkpoint.ots", "--out", "twice.clv")
    shown = clvlab(tmp_path, "verify", "run.clv")
    checked = clvlab(tmp_path, "verify", "run.clv", "--bitcoin-headers", "headers", "--json")
    alone = clv_verify.verify(tmp_path / "run.clv")

    assert bundled[0] == 0, bundled
    assert (other[0], "which no checkpoint of the bundle has" in other[2]) == (2, True)
    assert (twice[0], "two proofs of OpenTimestamps are over one checkpoint" in twice[2]) == (2, True)
    assert (shown[0], "not checked against the chain" in " ".join(shown[1].split())) == (0, True), shown
    assert (checked[0], json.loads(checked[1])["proofs"]["opentimestamps"]["verdict"]) == (0, "pass")
    assert (alone["without"]["opentimestamps"], any(alone["checks"].values())) == (
        "proofs of OpenTimestamps are here, and clvlab verify reads them",
        False,
    )
    assert set(read_bundle((tmp_path / "run.clv").read_bytes())) >= {"checkpoint.ots", "commit.tlog-proof"}
