"""Anchors of the runs of a store, against the real memo program and an unmodified client."""

from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import select, update

from clvlab.anchor.devchain import ChainFault
from clvlab.arena.application import Application
from clvlab.arena.report_requests import BacktestRunRequest
from clvlab.errors import AnchorError
from clvlab.store.tables import anchors
from tests.chains import ASKED_ONCE
from tests.factories import ALICE, make_competition


@pytest.fixture
def anchored(database_url, local):
    """Application that anchors on a chain of its own; its workers are not started, and its clock runs ahead."""
    ticking = count(1_800_000_000_000, 400_000)  # longer than any delay before a job is tried again
    opened = Application(database_url, anchor=local.settings, clock=lambda: next(ticking))
    yield opened
    opened.close()


def started(application, fixture_id=90000000):
    competition_id = make_competition(application, "baseline", fixture_id=fixture_id)
    return competition_id, application.competitions.start(ALICE, competition_id)["run_id"]


def badges(application):
    row = application.leaderboard.rows()["rows"][0]
    return row["anchor_status"], row["eligibility_badge"]


def worked(application, attempts=1):
    return [application.jobs.run_one() for _ in range(attempts)]


def test_anchor_comes_later_and_reaches_the_log_the_card_the_leaderboard_and_the_chain(anchored, local):
    competition_id, run_id = started(anchored)
    _, other = started(anchored, 90000001)
    before = anchored.runs.card(run_id)["checks"]["anchor"], badges(anchored)

    assert worked(anchored) == [True]
    card, verified = anchored.runs.card(run_id), anchored.runs.verify(run_id)

    assert before == ("pending", ("some-pending", "unproven"))
    assert (card["checks"]["anchor"], verified["checks"]["anchor"]) == ("pass", "pass")
    assert card["anchor"] == verified["anchor"]
    assert card["anchor"]["signature"] in local.chain.signatures()
    assert local.chain.memos() == [verified["manifest_hash"]]
    assert badges(anchored) == ("some-pending", "partially-proven")
    log = anchored.competitions.events(competition_id, -1)
    assert [event["kind"] for event in log[-3:]] == ["PROOF_ANCHOR", "COMPETITION_FINALIZED", "PROOF_ANCHOR"]
    assert anchored.competitions.state(competition_id)["anchor_status"] == "anchored"
    assert worked(anchored, 2) == [True, False]
    assert badges(anchored) == ("all-anchored", "fully-proven")
    assert anchored.runs.verify(other)["checks"]["anchor"] == "pass"
    assert anchored.leaderboard.rebuild() == []


@pytest.mark.parametrize("fault", [ChainFault("http", status=429, times=9999), ChainFault("http", status=500, times=9999)])
def test_chain_that_can_not_be_asked_leaves_the_anchor_pending_however_often(local, fault):
    ticking = count(1_800_000_000_000, 400_000)
    application = Application(anchor=local.settings.model_copy(update=ASKED_ONCE), clock=lambda: next(ticking))
    _, run_id = started(application)
    local.chain.inject(fault)

    assert worked(application, 12) == [True] * 12  # more often than a job that says nothing is tried
    assert application.runs.verify(run_id)["checks"]["anchor"] == "pending"
    fault.times = 0
    while application.jobs.run_one():  # a caller who asks once may need some more attempts
        pass

    assert application.runs.verify(run_id)["checks"]["anchor"] == "pass"
    assert len(local.chain.memos()) == 1
    application.close()


def test_lost_reply_and_another_attempt_make_one_memo(local):
    ticking = count(1_800_000_000_000, 400_000)
    application = Application(anchor=local.settings.model_copy(update=ASKED_ONCE), clock=lambda: next(ticking))
    _, run_id = started(application)
    local.chain.inject(
        ChainFault("lost_reply", "sendTransaction"), ChainFault("http", "getSignatureStatuses", status=500, times=4)
    )

    while application.jobs.run_one():
        pass

    assert application.runs.card(run_id)["checks"]["anchor"] == "pass"
    assert len(local.chain.memos()) == 1
    application.close()


def test_transaction_that_the_chain_drops_is_pending_and_anchored_once_more(database_url, local):
    anchored = Application(database_url, anchor=local.settings, clock=lambda: 1_800_000_000_000)
    competition_id, run_id = started(anchored)
    worked(anchored)
    signature = anchored.runs.card(run_id)["anchor"]["signature"]
    local.chain.forget(signature)

    dropped = [anchored.runs.verify(run_id)["checks"]["anchor"] for _ in range(2)]

    assert dropped == ["pending", "pending"]
    assert anchored.competitions.state(competition_id)["anchor_status"] == "pending"
    assert badges(anchored) == ("some-pending", "unproven")
    assert worked(anchored, 2) == [True, False]  # whoever noticed, one job
    assert anchored.runs.verify(run_id)["checks"]["anchor"] == "pass"
    assert len(local.chain.memos()) == 1
    anchored.close()


def test_old_transaction_that_a_node_has_forgotten_is_pending_and_costs_no_second_memo(local):
    now = [1_800_000_000_000]
    application = Application(anchor=local.settings, clock=lambda: now[0])
    _, run_id = started(application)
    worked(application)
    before = application.runs.card(run_id)["anchor"]
    local.chain.forget(before["signature"])
    now[0] += 3_600_000

    assert application.runs.verify(run_id)["checks"]["anchor"] == "pending"
    assert worked(application) == [False]
    assert application.runs.card(run_id)["anchor"] == before
    application.close()


@pytest.mark.parametrize("forged", [
    {"signature": "1" * 64}, {"cluster": "devnet"}, {"record": None},
])  # fmt: skip
def test_card_passes_no_anchor_whose_record_does_not_hold(local, forged):
    application = Application(anchor=local.settings)
    _, run_id = started(application)
    worked(application)
    assert application.runs.card(run_id)["checks"]["anchor"] == "pass"

    with application._database.write() as connection:
        connection.execute(update(anchors).where(anchors.c.run_id == run_id).values(**forged))

    assert application.runs.card(run_id)["checks"]["anchor"] in ("pending", "fail")
    application.close()


def test_record_of_another_run_passes_no_card(local):
    application = Application(anchor=local.settings)
    (_, run_id), (_, other) = started(application), started(application, 90000001)
    worked(application, 2)
    with application._database.write() as connection:
        stored = connection.execute(select(anchors).where(anchors.c.run_id == other)).mappings().one()
        values = {name: stored[name] for name in ("signature", "explorer_url")}
        record = stored["record"] | {"run_id": run_id}
        connection.execute(update(anchors).where(anchors.c.run_id == run_id).values(**values, record=record))

    assert application.runs.card(run_id)["checks"]["anchor"] == "fail"
    application.close()


def test_chain_that_refuses_the_memo_makes_a_failed_anchor(local):
    from solders.keypair import Keypair

    poor = Keypair()
    path = local.settings.keypair
    path.write_text(poor.to_json())
    application = Application(anchor=local.settings)
    competition_id, run_id = started(application)

    assert worked(application) == [True]

    assert application.runs.verify(run_id)["checks"]["anchor"] == "fail"
    assert application.competitions.state(competition_id)["anchor_status"] == "failed"
    application.close()


def test_anchor_on_record_is_pending_where_no_chain_can_be_asked(tmp_path, local):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    application = Application(url, anchor=local.settings)
    _, run_id = started(application)
    worked(application)
    application.close()

    application = Application(url)

    assert application.runs.card(run_id)["checks"]["anchor"] == "pending"
    assert application.runs.verify(run_id)["checks"]["anchor"] == "pending"
    application.close()


def test_job_of_an_anchor_waits_for_a_service_that_can_do_it(tmp_path, local):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    application = Application(url, anchor=local.settings)
    _, run_id = started(application)
    application.close()
    application = Application(url)
    assert worked(application) == [False]
    application.close()

    application = Application(url, anchor=local.settings)
    worked(application)

    assert application.runs.card(run_id)["checks"]["anchor"] == "pass"
    application.close()


def test_backtests_of_anybody_spend_no_fees(anchored, local):
    request = BacktestRunRequest(pack_id="starter", fixture_id=90000000, window_id="w", market_allowlist=[""])
    run_id = anchored.backtests.run(request)["run_id"]

    assert worked(anchored) == [False]
    assert anchored.runs.card(run_id)["anchor"] == {
        "status": "not_anchored", "signature": None, "cluster": "localnet", "explorer_url": None,
    }  # fmt: skip
    assert local.chain.memos() == []


@pytest.mark.parametrize("keypair", ["nothing", "tests"])
def test_key_that_can_not_be_read_stops_the_application(local, keypair):
    with pytest.raises(AnchorError, match=keypair):
        Application(anchor=local.settings.model_copy(update={"keypair": Path(keypair)}))


def test_key_without_a_chain_stops_the_application(local):
    with pytest.raises(AnchorError, match="CLVLAB_ANCHOR_RPC_URL"):
        Application(anchor=local.settings.model_copy(update={"rpc_url": None}))
