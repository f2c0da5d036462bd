"""The roots of a provider's days on a chain: they are there, or what is missing is named."""

import hashlib

import pytest

from clvlab.anchor.accounts import account_of, roots_missing
from clvlab.arena.runs.provider import check_prices_of, judge_prices
from clvlab.errors import AnchorError
from clvlab.proof.verify import verify
from clvlab.sources.txline.proofs import DAY_MS
from clvlab.store.folder import read_run
from tests.chains import local_chain
from tests.provider import START_MS, message, proofs_in

DAY = START_MS // DAY_MS
ROOTS = {DAY: frozenset(hashlib.sha256(b"%d" % number).digest() for number in range(3))}


def put(chain, settings, data, owner=None):
    program = settings.txline_program
    chain.put_account(str(account_of(DAY, program)), owner or program, data)


def test_roots_in_the_account_of_their_day_are_found_wherever_they_lie(tmp_path):
    with local_chain(tmp_path) as local:
        absent = roots_missing(local.settings, ROOTS)
        put(local.chain, local.settings, b"header" + b"".join(sorted(ROOTS[DAY])) + b"rest")
        there = roots_missing(local.settings, ROOTS)
        put(local.chain, local.settings, b"header" + b"".join(sorted(ROOTS[DAY])[1:]))
        partly = roots_missing(local.settings, ROOTS)
        put(local.chain, local.settings, b"".join(ROOTS[DAY]), owner=str(local.key.pubkey()))
        foreign = roots_missing(local.settings, ROOTS)

    assert there == []
    assert "is not there" in absent[0]
    assert "lacks 1 of 3 roots" in partly[0]
    assert "not of 9Exb" in foreign[0]


def test_another_chain_or_no_address_is_refused(tmp_path):
    with local_chain(tmp_path) as local, pytest.raises(AnchorError, match="is not localnet"):
        roots_missing(local.settings.model_copy(update={"genesis_hash": "1" * 32}), ROOTS)
    with pytest.raises(AnchorError, match="no program 'nothing'"):
        account_of(DAY, "nothing")


def test_prices_are_proved_up_to_the_day_or_pending_while_the_node_is_away(tmp_path):
    run, _, lines = proofs_in(tmp_path, [message(number, 7) for number in range(20)])
    (tmp_path / "proofs.jsonl").write_bytes(lines)
    verification = verify(read_run(run))

    with local_chain(tmp_path) as local:
        settings = local.settings
        missing = judge_prices(run, verification, tmp_path / "proofs.jsonl", settings)
        roots = check_prices_of(run, verification, tmp_path / "proofs.jsonl").batches[DAY]
        put(local.chain, settings, b"".join(roots))
        proved = judge_prices(run, verification, tmp_path / "proofs.jsonl", settings)
    away = judge_prices(run, verification, tmp_path / "proofs.jsonl", settings.model_copy(update={"patience_s": 0.2}))

    assert (missing.verdict.value, proved.verdict.value, away.verdict.value) == ("fail", "pass", "pending")
    assert "the accounts of 1 day on 'localnet' hold them" in proved.detail
