"""Threats to an anchor, each against the unmodified client and the real memo program."""

import asyncio
import json
from base64 import b64encode
from dataclasses import replace

import pytest
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from clvlab.anchor import anchorer_of
from clvlab.anchor.anchorer import NullAnchor
from clvlab.anchor.devchain import GENESIS_HASH, ChainFault
from clvlab.anchor.records import AnchorAttempt, AnchorRecord, FolderRecords
from clvlab.anchor.settings import AnchorSettings, anchor_from_environment
from clvlab.anchor.solana import SolanaAnchor
from clvlab.errors import AnchorConflictError, AnchorError, AnchorUnavailableError
from clvlab.proof.anchor import MEMO_PROGRAMS, Anchor
from clvlab.proof.checks import anchor_check
from tests.chains import ASKED_ONCE, MemoryRecords
from tests.waiting import PATIENCE_S

HASH, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
SIGNS, NAMED = (True, True), (False, False)
SYSTEM = "11111111111111111111111111111111"


def landed(local, memo, *, key=None, program=MEMO_PROGRAMS[1], skip_preflight=False, extra=()):
    """Put a transaction on the chain behind the anchor's back; gives an anchor that claims it."""
    key = key or local.key
    local.chain.airdrop(str(key.pubkey()))
    blockhash = local.chain.answer("getLatestBlockhash", [])["value"]["blockhash"]
    instruction = Instruction(Pubkey.from_string(program), memo, [AccountMeta(key.pubkey(), *SIGNS), *extra])
    message = MessageV0.try_compile(key.pubkey(), [instruction], [], Hash.from_string(blockhash))
    raw = b64encode(bytes(VersionedTransaction(message, [key]))).decode()
    signature = local.chain.answer("sendTransaction", [raw, {"encoding": "base64", "skipPreflight": skip_preflight}])
    local.chain.pass_slots(2)
    return Anchor("anchored", signature, "localnet")


def judged(anchor, claimed, manifest_hash=HASH):
    return anchor_check(claimed, manifest_hash, anchor.seen(claimed), anchor.trust)


def verdict(anchor, claimed, manifest_hash=HASH):
    return judged(anchor, claimed, manifest_hash).verdict.value


def test_anchor_is_written_read_back_and_passes(local):
    anchor = local.anchor()

    done = anchor.commit("run_1", HASH)

    assert (done.status, done.cluster) == ("anchored", "localnet")
    assert done.explorer_url.endswith(f"/tx/{done.signature}?cluster=custom&customUrl={local.url}")
    assert verdict(anchor, done) == "pass"
    assert local.chain.memos() == [HASH]


def test_anchor_is_written_where_a_loop_runs_already_as_in_a_notebook(local):
    async def cell():
        with local.anchor() as anchor:
            return anchor.commit("run_1", HASH)

    done = asyncio.run(cell())

    assert verdict(local.anchor(), done) == "pass"


def test_connection_is_kept_from_one_memo_to_the_next_and_closed(local):
    with local.anchor(timeout_s=1.0) as anchor:
        local.chain.inject(ChainFault("lost_reply", "sendTransaction"), ChainFault("hang", "getBlockHeight", seconds=1.2))
        done = [anchor.commit(f"run_{memo[-1]}", memo).status for memo in (HASH, OTHER)]

    assert (done, local.chain.memos()) == (["anchored", "anchored"], [HASH, OTHER])
    assert anchor.commit("run_a", HASH).status == "anchored"  # and without it
    assert local.chain.memos() == [HASH, OTHER]


def test_anchoring_again_writes_no_second_memo(local):
    records = MemoryRecords()
    first = local.anchor(records).commit("run_1", HASH)

    assert local.anchor(records).commit("run_1", HASH) == first
    assert local.anchor().commit("run_1", HASH) == first  # the record is lost: the memo is found on the chain
    assert local.chain.memos() == [HASH]


@pytest.mark.parametrize(
    "fault",
    [
        ChainFault("drop", "sendTransaction", times=3),
        ChainFault("drop", "sendTransaction", times=200),
        ChainFault("lost_reply", "sendTransaction"),
        ChainFault("http", "sendTransaction", status=500),
        ChainFault("http", "*", status=429, times=3),
        ChainFault("hang", "sendTransaction", seconds=1.3),
        ChainFault("hang", "getSignatureStatuses", seconds=1.3),
        ChainFault("error", "sendTransaction", code=-32005, data={"numSlotsBehind": 42}),
        ChainFault("error", "sendTransaction", code=-32005),  # as providers limit rates: no data, over which the client panics
        ChainFault("error", "getBlockHeight", code=-32005),
        ChainFault("error", "getLatestBlockhash", code=-32603, message="Internal error"),
        ChainFault("lost_reply", "getTransaction"),
    ],
    ids=lambda fault: f"{fault.kind} {fault.method} {fault.times}",
)
def test_a_faulty_node_still_ends_with_exactly_one_memo(local, fault):
    local.chain.inject(fault)

    done = local.anchor(timeout_s=1.0 if fault.kind == "hang" else PATIENCE_S).commit("run_1", HASH)

    assert done.status == "anchored"
    assert local.chain.memos() == [HASH]


def test_expired_transaction_is_signed_anew_and_every_signature_is_on_record(local):
    records = MemoryRecords()
    local.chain.inject(ChainFault("drop", "sendTransaction", times=200))

    done = local.anchor(records).commit("run_1", HASH)

    attempts = records.get("run_1").attempts
    assert len(attempts) == 2
    assert done.signature == attempts[1].signature
    assert attempts[1].last_valid_block_height > attempts[0].last_valid_block_height


class Crashing(MemoryRecords):
    """Stops the process right after so many writes."""

    def __init__(self, writes):
        super().__init__()
        self.writes = writes

    def put(self, record, *, replaces):
        super().put(record, replaces=replaces)
        self.writes -= 1
        if self.writes == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("writes", [1, 2, 3], ids=["begun", "signed, not sent", "sent and seen"])
def test_crash_between_any_two_steps_ends_with_exactly_one_memo(local, writes):
    records = Crashing(writes)
    with pytest.raises(KeyboardInterrupt):
        local.anchor(records).commit("run_1", HASH)

    done = local.anchor(records).commit("run_1", HASH)

    assert done.status == "anchored"
    assert local.chain.memos() == [HASH]
    assert len(records.get("run_1").attempts) == 1


def test_crash_after_sending_finds_the_memo_by_its_recorded_signature(local):
    records = MemoryRecords()
    with pytest.raises(AnchorUnavailableError, match="did not land"):
        local.anchor(records, **ASKED_ONCE).commit("run_1", HASH)
    local.chain.inject(ChainFault("http", "getSignatureStatuses", status=503, times=10**6))
    with pytest.raises(AnchorUnavailableError, match="no answer"):
        local.anchor(records, **ASKED_ONCE).commit("run_1", HASH)
    local.chain._faults.clear()

    assert records.get("run_1").status == "pending"
    assert local.anchor(records).commit("run_1", HASH).status == "anchored"
    assert local.chain.memos() == [HASH]


def test_reorganised_transaction_is_pending_and_anchored_once_more(local):
    records = MemoryRecords()
    anchor = local.anchor(records)
    first = anchor.commit("run_1", HASH)
    local.chain.forget(first.signature)

    assert verdict(anchor, first) == "pending"
    assert anchor.commit("run_1", HASH) == first  # the same bytes, sent again
    local.chain.forget(first.signature)
    local.chain.pass_slots(200)
    again = anchor.commit("run_1", HASH)  # they have expired

    assert again.signature != first.signature
    assert verdict(anchor, again) == "pass"
    assert local.chain.memos() == [HASH]


def test_memo_by_another_signer_fails_and_is_not_taken_for_ours(local):
    stranger = Keypair()
    naming_us = [AccountMeta(local.key.pubkey(), *NAMED)]
    claimed = landed(local, HASH.encode(), key=stranger)
    landed(local, HASH.encode(), key=stranger, extra=naming_us, skip_preflight=True)

    assert verdict(local.anchor(), claimed) == "fail"
    assert local.anchor().commit("run_1", HASH).signature not in (claimed.signature, None)


def test_other_memo_fails(local):
    assert verdict(local.anchor(), landed(local, OTHER.encode())) == "fail"


def test_transaction_that_failed_on_chain_fails(local):
    claimed = landed(local, b"\xff\xfe", skip_preflight=True)

    check = judged(local.anchor(), claimed)

    assert check.verdict == "fail"
    assert "failed on localnet" in check.detail


def test_signed_transaction_that_failed_on_chain_ends_as_failed(local):
    failed, records = landed(local, b"\xff\xfe", skip_preflight=True), MemoryRecords()
    anchor = local.anchor(records)
    begun = AnchorRecord("run_1", HASH, "localnet", GENESIS_HASH, anchor.signer)
    records.put(begun.with_attempt(AnchorAttempt(failed.signature, 10**6, "")), replaces=None)

    done = anchor.commit("run_1", HASH)

    assert (done.status, anchor.commit("run_1", HASH).status, local.chain.memos()) == ("failed", "failed", [])
    assert "InstructionError" in records.get("run_1").detail
    assert verdict(anchor, done) == "fail"


def test_unknown_program_fails(local):
    data = (2).to_bytes(4, "little") + (0).to_bytes(8, "little")  # a transfer of nothing to oneself
    claimed = landed(local, data, program=SYSTEM, extra=[AccountMeta(local.key.pubkey(), *SIGNS)])

    check = judged(local.anchor(), claimed)

    assert (check.verdict, "no known memo program" in check.detail) == ("fail", True)


def test_lying_node_can_not_change_what_was_signed(local):
    anchor = local.anchor()
    done = anchor.commit("run_1", HASH)
    local.chain.inject(ChainFault("lie", "getTransaction", times=2))

    check = judged(anchor, done)

    assert (check.verdict, "does not carry that signature" in check.detail) == ("fail", True)
    with pytest.raises(AnchorError, match="contradicts"):
        anchor.commit("run_1", HASH)
    assert verdict(anchor, done) == "pass"


def test_devnet_label_on_another_chain_fails_and_nothing_is_sent(local):
    done = local.anchor().commit("run_1", HASH)
    devnet = local.anchor(cluster="devnet", genesis_hash=None)

    assert verdict(devnet, replace(done, cluster="devnet")) == "fail"
    assert verdict(local.anchor(), replace(done, cluster="devnet")) == "fail"
    with pytest.raises(AnchorError, match="is not devnet"):
        devnet.commit("run_2", OTHER)
    assert local.chain.memos() == [HASH]


@pytest.mark.parametrize(
    "fault", [ChainFault("http", status=429, times=10**6), ChainFault("error", times=10**6)], ids=["429", "unhealthy"]
)
def test_node_that_does_not_answer_is_pending_never_pass(local, fault):
    anchor = local.anchor(**ASKED_ONCE)
    done = local.anchor().commit("run_1", HASH)
    local.chain.inject(fault)

    assert verdict(anchor, done) == "pending"
    with pytest.raises(AnchorUnavailableError):
        anchor.commit("run_2", OTHER)


def test_no_node_at_all_is_pending(local):
    done = local.anchor().commit("run_1", HASH)

    assert verdict(local.anchor(rpc_url="http://127.0.0.1:9", **ASKED_ONCE), done) == "pending"


@pytest.mark.parametrize("payload", ["sha256:" + "a" * 63, HASH + "\n", HASH + "a" * 600, HASH.upper(), ""])
def test_payload_that_is_no_manifest_hash_is_refused_before_sending(local, payload):
    with pytest.raises(AnchorError, match="only a manifest hash"):
        local.anchor().commit("run_1", payload)

    assert local.chain.signatures() == []


def test_unfunded_key_is_refused_and_stays_pending(local, tmp_path):
    poor = tmp_path / "poor.json"
    poor.write_text(json.dumps(list(bytes(Keypair()))))
    records = MemoryRecords()

    with pytest.raises(AnchorError, match="refuses the memo"):
        local.anchor(records, keypair=poor).commit("run_1", HASH)

    assert records.get("run_1").status == "pending"


def test_another_manifest_or_key_under_the_same_run_id_is_refused(local, tmp_path):
    records = MemoryRecords()
    local.anchor(records).commit("run_1", HASH)
    other = tmp_path / "other.json"
    other.write_text(json.dumps(list(bytes(Keypair()))))

    with pytest.raises(AnchorConflictError, match="manifest_hash"):
        local.anchor(records).commit("run_1", OTHER)
    with pytest.raises(AnchorConflictError, match="signer"):
        local.anchor(records, keypair=other).commit("run_1", HASH)


def test_finalized_waits_for_more_blocks(local):
    anchor = local.anchor(commitment="finalized")

    done = anchor.commit("run_1", HASH)

    assert local.chain.answer("getSignatureStatuses", [[done.signature]])["value"][0]["confirmationStatus"] == "finalized"


def test_without_a_key_nothing_is_anchored_and_it_says_so(local):
    settings = local.settings.model_copy(update={"keypair": None})
    reader = anchorer_of(settings, MemoryRecords())

    assert isinstance(reader, NullAnchor)
    assert not isinstance(reader, SolanaAnchor)
    assert not reader.enabled
    assert reader.commit("run_1", HASH) == Anchor("not_anchored", None, "localnet")
    assert verdict(reader, Anchor()) == "not_applicable"


def test_whoever_trusts_the_key_checks_without_having_it(local):
    done = local.anchor().commit("run_1", HASH)
    settings = local.settings.model_copy(update={"keypair": None})

    assert verdict(NullAnchor(settings), done) == "pending"  # nobody is trusted
    assert verdict(NullAnchor(settings.model_copy(update={"signers": frozenset({str(local.key.pubkey())})})), done) == "pass"
    assert verdict(NullAnchor(settings.model_copy(update={"signers": frozenset({str(Keypair().pubkey())})})), done) == "fail"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"COMMITMENT": "processed"}, "CLVLAB_ANCHOR_COMMITMENT: .*'processed'"),
        ({"CLUSTER": "mine", "RPC_URL": "http://127.0.0.1:1"}, "give its genesis hash"),
        ({"CLUSTER": "devnet", "GENESIS_HASH": "x"}, "devnet has genesis hash"),
        ({"PRIORITY_FEE": "some"}, "CLVLAB_ANCHOR_PRIORITY_FEE: .* valid integer.*'some'"),
        ({"PRIORITY_FEE": "-1"}, "CLVLAB_ANCHOR_PRIORITY_FEE: .*'-1'"),
        ({"PATIENCE_S": "0"}, "CLVLAB_ANCHOR_PATIENCE_S: .* greater than 0"),
        ({"TIMEOUT_S": "inf"}, "CLVLAB_ANCHOR_TIMEOUT_S: .*finite"),
    ],
)
def test_settings_that_can_not_work_are_refused_by_name(environment, message, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(f"CLVLAB_ANCHOR_{name}", value)

    with pytest.raises(AnchorError, match=message):
        anchor_from_environment()


def test_whole_group_that_can_not_be_read_is_refused(monkeypatch):
    monkeypatch.setenv("CLVLAB_ANCHOR", "devnet")

    with pytest.raises(AnchorError, match="CLVLAB_ANCHOR can't be read"):
        anchor_from_environment()


def test_settings_are_read_by_name_and_an_empty_one_is_none(monkeypatch):
    for name, value in {"SIGNERS": "one, two three", "KEYPAIR": "", "PATIENCE_S": "3"}.items():
        monkeypatch.setenv(f"CLVLAB_ANCHOR_{name}", value)

    assert anchor_from_environment() == AnchorSettings(signers=frozenset({"one", "two", "three"}), patience_s=3)


@pytest.mark.parametrize("content", ["", "[1,2]", '{"a":1}', "not json", "[300]"])
def test_file_that_is_no_key_is_refused_without_showing_it(local, tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_text(content)

    with pytest.raises(AnchorError) as caught:
        local.anchor(keypair=path)

    assert content == "" or content not in str(caught.value)


def test_record_in_a_run_folder_survives_and_two_writers_do_not_both_win(local, tmp_path):
    records = FolderRecords(tmp_path)
    done = local.anchor(records).commit("run_1", HASH)

    stored = FolderRecords(tmp_path).get("run_1")

    assert stored.anchor() == done
    with pytest.raises(AnchorConflictError, match="another process"):
        records.put(stored, replaces=None)
    with pytest.raises(AnchorError, match="the record of run_1, not of run_2"):
        records.get("run_2")


@pytest.mark.parametrize("content", [b"{}", b"", b'{"schema":"clvlab-anchor/1"}', b"[]", b"null", b'{"a": 1}'])
def test_file_that_is_no_record_is_refused(tmp_path, content):
    (tmp_path / "anchor.json").write_bytes(content)

    with pytest.raises(AnchorError, match="anchor record"):
        FolderRecords(tmp_path).get("run_1")
