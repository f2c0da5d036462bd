"""Transactions whose header, indices or signatures no chain takes: no memo of theirs counts, for package or file."""

from base64 import b64encode

import pytest

from clvlab.proof import clv_verify
from clvlab.proof.bundle import read_bundle, run_of
from tests.fuzz.transactions import KEYS, MEMO, transaction, transaction_disagreement
from tests.length import length
from tests.proof.bundles import make_bundle, trust
from tests.proof.test_bundle import WHOLE, check, failed

pytestmark = pytest.mark.long

__all__ = ["check"]

ATTACKER, TRUSTED = KEYS[:2]
KEY = [bytes(key.pubkey()) for key in KEYS]
HASH = run_of(read_bundle(WHOLE)).manifest_hash.encode()
CALL = (1, [0], HASH)
TRUST = trust(anchor_signers={"localnet": [str(TRUSTED.pubkey())]}, checkpoint=None)


def judged(check, sent):
    part = {"schema": "clvlab-bundle-anchor/1", "cluster": "localnet", "transaction": b64encode(sent).decode()}
    return failed(check(make_bundle(anchor=part | {"signature": clv_verify.base58(sent[1:65])}), TRUST))


@pytest.mark.parametrize("version", [b"\x80", b""], ids=["v0", "legacy"])
@pytest.mark.parametrize(
    ("signers", "header", "keys", "call"),
    [
        ([TRUSTED], (1, 0, 1), [KEY[1], MEMO], CALL),
        ([ATTACKER, TRUSTED], (2, 0, 1), [KEY[0], KEY[1], MEMO], (2, [1], HASH)),
        ([ATTACKER, TRUSTED], (2, 1, 1), [KEY[0], KEY[1], MEMO], (2, [0, 1], HASH)),
    ],
    ids=["alone", "beside who pays", "read-only"],
)
def test_memo_that_the_trusted_key_signed_passes(check, version, signers, header, keys, call):
    assert judged(check, transaction(signers, header, keys, [call], version)) == set()


@pytest.mark.parametrize("version", [b"\x80", b""], ids=["v0", "legacy"])
@pytest.mark.parametrize(
    ("signers", "header", "keys", "call"),
    [
        ([ATTACKER], (2, 0, 1), [KEY[0], KEY[1], MEMO], (2, [1], HASH)),
        ([ATTACKER], (1, 0, 1), [KEY[0], KEY[1], MEMO], (2, [1], HASH)),
        ([ATTACKER, ATTACKER], (2, 0, 1), [KEY[0], KEY[1], MEMO], (2, [1], HASH)),
        ([TRUSTED, ATTACKER], (2, 0, 1), [KEY[0], KEY[1], MEMO], (2, [1], HASH)),
        ([TRUSTED], (0, 0, 1), [KEY[1], MEMO], CALL),
        ([], (0, 0, 1), [KEY[1], MEMO], CALL),
        ([TRUSTED], (3, 0, 0), [KEY[1], MEMO], CALL),
        ([TRUSTED] * 3, (3, 0, 0), [KEY[1], MEMO], CALL),
        ([TRUSTED, ATTACKER], (1, 0, 1), [KEY[1], MEMO], CALL),
        ([TRUSTED], (1, 1, 1), [KEY[1], MEMO], CALL),
        ([TRUSTED], (1, 0, 9), [KEY[1], MEMO], CALL),
        ([TRUSTED], (1, 0, 1), [KEY[1], MEMO], (2, [0], HASH)),
        ([TRUSTED], (1, 0, 1), [KEY[1], MEMO], (255, [0], HASH)),
        ([TRUSTED], (1, 0, 1), [MEMO, KEY[1]], (0, [1], HASH)),
        ([TRUSTED], (1, 0, 1), [KEY[1], MEMO], (1, [0, 2], HASH)),
        ([TRUSTED], (1, 0, 1), [KEY[1], MEMO], (1, [], HASH)),
        ([TRUSTED], (1, 0, 1), [KEY[1], MEMO], (1, [0], HASH + b" ")),
        ([TRUSTED], (1, 0, 1), [], CALL),
    ],
    ids=[
        "counts a signer who did not sign",
        "names the key among those that need not sign",
        "signed twice by the other",
        "signed in another order",
        "counts no signer",
        "counts and has none",
        "more signers than keys",
        "more signers and signatures than keys",
        "more signatures than signers",
        "who pays is read-only",
        "more read-only keys than keys",
        "program that is not there",
        "program far out",
        "who pays is the program",
        "account that is not there",
        "memo that names nobody",
        "another memo",
        "no keys",
    ],
)
def test_transaction_that_no_chain_takes_or_the_key_did_not_sign_fails(check, version, signers, header, keys, call):
    sent = transaction(signers, header, keys, [call], version)

    assert judged(check, sent) == {"anchor"}


@pytest.mark.parametrize("version", [b"\x80", b""], ids=["v0", "legacy"])
def test_both_read_the_same_of_every_flipped_byte(version):
    sent = transaction([ATTACKER, TRUSTED], (2, 0, 1), [*KEY[:2], MEMO], [(2, [1], HASH)], version)

    for place in range(len(sent)):
        for bits in length((128,), (1, 128, 255)):
            altered = sent[:place] + bytes([sent[place] ^ bits]) + sent[place + 1 :]
            assert transaction_disagreement(altered) is None, (place, bits)


def test_signature_that_commits_to_a_point_of_small_order_counts_for_neither(check):
    whole = transaction([TRUSTED], (1, 0, 1), [KEY[1], MEMO], [CALL])
    message = whole[65:]
    expanded = clv_verify.hashlib.sha512(bytes(TRUSTED)[:32]).digest()
    scalar = int.from_bytes(expanded[:32], "little") & ~7 & (2**255 - 1) & ~(1 << 254) | 1 << 254
    identity = b"\1" + bytes(31)
    digest = int.from_bytes(clv_verify.hashlib.sha512(identity + KEY[1] + message).digest(), "little")
    signature = identity + (digest * scalar % clv_verify.ORDER).to_bytes(32, "little")
    clv_verify.check_signature(KEY[1], message, signature, "it holds by the equation alone")

    assert judged(check, b"\1" + signature + message) == {"anchor"}
