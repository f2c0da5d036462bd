from dataclasses import replace

import pytest

from clvlab.proof.anchor import MEMO_PROGRAMS, Anchor, AnchorTrust, Instruction, Seen
from clvlab.proof.checks import anchor_check
from clvlab.proof.verify import verify
from tests.factories import make_sealed_run

HASH = "sha256:" + "a" * 64
RECORD = Anchor("anchored", "S", "localnet", None)
TRUST = AnchorTrust(frozenset({"us"}), {"localnet": "G"})
MEMO = Instruction(MEMO_PROGRAMS[1], ("us",), HASH.encode())
SEEN = Seen("G", "S", signed=True, instructions=(Instruction("ComputeBudget", (), b"\x02"), MEMO))


def verdict(record=RECORD, seen=SEEN, trust=TRUST):
    return anchor_check(record, HASH, seen, trust).verdict.value


@pytest.mark.parametrize("program", MEMO_PROGRAMS)
def test_memo_of_every_known_program_passes(program):
    assert verdict(seen=replace(SEEN, instructions=(replace(MEMO, program_id=program),))) == "pass"


@pytest.mark.parametrize(
    "change",
    [
        {"genesis_hash": "other"},
        {"signature": "T"},
        {"signed": False},
        {"error": "InstructionError"},
        {"instructions": ()},
        {"instructions": (replace(MEMO, program_id="Memo111"),)},
        {"instructions": (replace(MEMO, data=HASH.encode() + b" "),)},
        {"instructions": (replace(MEMO, signers=()),)},
        {"instructions": (replace(MEMO, signers=("them",)),)},
        {"instructions": (replace(MEMO, signers=("them",)), replace(MEMO, data=b"x"))},  # signed, but another memo
    ],
    ids=str,
)
def test_what_the_chain_says_against_the_record_fails(change):
    assert verdict(seen=replace(SEEN, **change)) == "fail"


def test_without_the_transaction_or_the_chain_or_a_trusted_key_it_is_pending():
    assert verdict(seen=Seen("G")) == "pending"
    assert verdict(seen=None) == "pending"
    assert verdict(trust=AnchorTrust(frozenset(), TRUST.genesis)) == "pending"
    assert verdict(record=Anchor("pending", None, "localnet"), seen=None) == "pending"


def test_cluster_of_unknown_genesis_fails():
    assert verdict(record=replace(RECORD, cluster="elsewhere")) == "fail"


def test_record_alone_decides_only_what_was_never_anchored_or_failed():
    assert verdict(record=Anchor()) == "not_applicable"
    assert verdict(record=Anchor("failed", "S", "localnet")) == "fail"


def test_verification_judges_the_rebuilt_manifest_and_shows_the_anchor():
    run = make_sealed_run()
    memo = replace(MEMO, data=run.manifest_hash.encode())
    seen = replace(SEEN, instructions=(memo,))

    sound = verify(run, anchor=RECORD, seen=seen, trust=TRUST)
    altered = verify(replace(run, events=run.events.replace(b"rises", b"falls")), anchor=RECORD, seen=seen, trust=TRUST)
    unreadable = verify(replace(run, events=b"x"), anchor=RECORD, seen=seen, trust=TRUST)

    assert (sound.checks["anchor"].verdict, sound.anchor, sound.passed) == ("pass", RECORD, True)
    assert altered.checks["anchor"].verdict == "fail"
    assert (unreadable.checks["anchor"].verdict, unreadable.anchor) == (
        "pass",
        RECORD,
    )  # the stored manifest is the anchored one
