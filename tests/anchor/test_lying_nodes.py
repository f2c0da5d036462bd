"""Nodes that answer with anything at all: a verification ends pending or failed, never in an error of the library's."""

import copy
from base64 import b64encode
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from clvlab.anchor.anchorer import NullAnchor
from clvlab.anchor.devchain import serving
from clvlab.proof.anchor import Anchor
from clvlab.proof.checks import anchor_check
from clvlab.proof.clv_verify import base58
from tests.anchor.test_solana import HASH
from tests.chains import ASKED_ONCE
from tests.fuzz.runs import ODD, at_place, places
from tests.fuzz.transactions import KEYS, MEMO, transaction
from tests.length import length

ATTACKER, TRUSTED = KEYS[:2]
KEY = [bytes(key.pubkey()) for key in KEYS]


class Liar:
    """A chain that changes its answers."""

    def __init__(self, chain):
        self.chain, self.change = chain, lambda _, result: result

    def __getattr__(self, name):
        return getattr(self.chain, name)

    def answer(self, method, params):
        return self.change(method, copy.deepcopy(self.chain.answer(method, params)))


@pytest.fixture
def asked(local):
    """Ask a lying node about an anchor that is on the chain: the verdict."""
    done, liar = local.anchor().commit("run_1", HASH), Liar(local.chain)
    with serving(liar) as url:
        signers = frozenset({str(local.key.pubkey()), str(TRUSTED.pubkey())})
        reader = NullAnchor(
            local.settings.model_copy(update={"rpc_url": url, "keypair": None, "signers": signers} | ASKED_ONCE)
        )

        def verdict(change, anchor=done):
            liar.change = change
            return anchor_check(anchor, HASH, reader.seen(anchor), reader.trust).verdict.value

        assert verdict(liar.change) == "pass"
        yield verdict


def given(sent):
    def change(method, result):
        if method == "getTransaction":
            result["transaction"][0] = b64encode(sent).decode()
        return result

    return change


CALL = (1, [0], HASH.encode())


@pytest.mark.parametrize(
    "sent",
    [
        transaction([ATTACKER], (2, 0, 1), [*KEY[:2], MEMO], [(2, [1], HASH.encode())]),
        transaction([ATTACKER] * 5, (1, 0, 1), [KEY[0], MEMO], [CALL]),
        transaction([ATTACKER], (9, 0, 1), [KEY[0], MEMO], [CALL]),
        transaction([], (1, 0, 1), [KEY[0], MEMO], [CALL]),
        transaction([ATTACKER], (1, 0, 1), [KEY[0], MEMO], [(9, [77], b"")]),
        transaction([ATTACKER], (1, 0, 1), [], [CALL], b""),
    ],
    ids=["uncounted signer", "five signatures", "nine signers", "no signature", "indices", "no keys"],
)
def test_transaction_that_no_chain_takes_fails(asked, sent):
    anchor = Anchor("anchored", str(ATTACKER.sign_message(b"")), "localnet")

    assert asked(given(sent)) == "fail"
    assert asked(given(sent), replace(anchor, signature=base58(sent[1:65]))) in ("fail", "pending")


@pytest.mark.parametrize("sent", [b"", b"\xff" * 40, b"\x01" + bytes(64)], ids=["none", "junk", "cut"])
def test_bytes_that_are_no_transaction_leave_the_anchor_pending(asked, capfd, sent):
    assert asked(given(sent)) == "pending"
    assert "panicked" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("signature", ["", "x", "0OIl", "1" * 20, "é", "1" * 5000])
def test_text_that_is_no_signature_is_on_no_chain(asked, signature):
    assert asked(lambda _, result: result, Anchor("anchored", signature, "localnet")) == "pending"


def test_no_answer_in_any_shape_ends_in_an_error(asked):
    rng = Random(1)

    def lie(to, method, result):
        if method != to:
            return result
        place = rng.choice(places(result))
        if not place:
            return rng.choice(ODD[:-5])
        inside = at_place(result, place[:-1])
        if rng.random() < 0.2 and isinstance(inside, dict):
            del inside[place[-1]]
        else:
            inside[place[-1]] = rng.choice([*ODD, "1" * 44, {"InstructionError": [0, {"Custom": 1}]}, "AccountInUse"])
        return result

    verdicts = {asked(partial(lie, to)) for to in ["getTransaction"] * length(100, 300) + ["getGenesisHash"] * length(10, 30)}

    assert {"fail", "pending"} <= verdicts <= {"pass", "fail", "pending"}
