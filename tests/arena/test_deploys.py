from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest
from sqlalchemy import update

from clvlab.arena.application import Application
from clvlab.arena.competitions.requests import AgentEntry
from clvlab.arena.deploys.config import DeployConfig
from clvlab.arena.replays import replay_run
from clvlab.errors import IdempotencyConflictError, PageError, PreflightError, UnknownInstanceError
from clvlab.store.tables import instances
from tests.factories import ALICE, BOB, make_competition

BODY = {"strategy": "cumulative-drift", "source_mode": "replay", "pack_id": "starter"}


def performed(application, answer):
    while application.jobs.run_one():
        pass
    return application.runs.card(answer["run_id"])


def test_a_deploy_answers_before_its_run_and_the_run_seals_what_was_deployed(application):
    answer = application.deploys.deploy(ALICE, BODY | {"fixture_id": 90000002})

    before = application.runs.card(answer["run_id"])
    unsealed = application.runs.verify(answer["run_id"])
    after = performed(application, answer)

    assert set(answer) == {"instance_id", "config_hash", "policy_hash", "run_id", "owner", "replay_binding"}
    assert (answer["owner"], answer["replay_binding"]["fixture_id"]) == (ALICE, 90000002)
    assert before["run"]["status"] == "queued"
    assert set(before["checks"].values()) == {"pending"}
    assert (unsealed["verified"], unsealed["recomputed_evidence_hash"]) == (False, "recompute_error:not_sealed")
    assert after["run"]["status"] == "sealed"
    assert after["lineage"]["config_hash"] == before["lineage"]["config_hash"] == answer["config_hash"]
    assert after["lineage"]["policy_hash"] == answer["policy_hash"]
    assert application.runs.verify(answer["run_id"])["verified"]
    assert set(after["checks"].values()) == {"pass", "not_applicable"}


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"sizing": "fractional_kelly", "stake": 40, "agent_id": "mine"},
        {"params": {"unknown": 0.5}, "market_allowlist": ["1X2"]},
    ],
)
def test_a_deployed_agent_is_made_again_of_its_sealed_configuration_and_decides_the_same(in_memory, own):
    answer = in_memory.deploys.deploy(ALICE, BODY | own)
    performed(in_memory, answer)

    again = replay_run(in_memory.runs.sealed_run(answer["run_id"]))

    assert again.agrees, again.detail
    assert "run again from pack 'starter'" in again.detail


def test_the_record_of_an_instance_says_what_was_checked_and_pinned(in_memory):
    answer = in_memory.deploys.deploy(ALICE, BODY | {"owner": BOB, "market_allowlist": ["1X2"], "cooldown_s": 60})

    record = in_memory.deploys.instance(ALICE, answer["instance_id"])

    assert record["owner"] == ALICE
    assert "owner" not in record["config"]
    assert record["allowlists"] == {"markets": ["1X2"], "venues": ["paper"]}
    assert (record["template"], record["run_mode"]) == ("cumulative-drift", "replay")
    assert record["config"]["agent_id"] == "cumulative-drift"
    assert record["config"]["params"]["markets"] == ["1X2"]
    assert all(check["ok"] for check in record["preflight"])
    assert set(DeployConfig.model_fields) < {check["name"] for check in record["preflight"]}
    with pytest.raises(UnknownInstanceError):
        in_memory.deploys.instance(BOB, answer["instance_id"])


def test_preflight_names_every_failing_check_and_stores_nothing(application):
    body = {
        "strategy": "cumulative-drift", "source_mode": "live", "pack_id": "absent", "stake": 0, "max_stake": True,
        "execution_mode": "real", "end_rule": "fixed_duration", "cooldown_s": "soon", "params": {"warmup_s": -1},
    }  # fmt: skip

    with pytest.raises(PreflightError) as refused:
        application.deploys.deploy(ALICE, body, "key")

    assert [failure["name"] for failure in refused.value.failures] == [
        "params", "stake", "max_stake", "cooldown_s", "execution_mode", "live_feed", "window", "replay_binding",
    ]  # fmt: skip
    assert all(set(failure) == {"name", "ok", "message"} and failure["ok"] is False for failure in refused.value.failures)
    assert application.runs.page()["runs"] == []
    assert application.jobs.counts()["queued"] == 0
    assert application.deploys.deploy(ALICE, BODY, "key")["owner"] == ALICE


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({}, "strategy"),
        ({"strategy": "absent"}, "strategy"),
        (BODY | {"fixture_id": 7}, "replay_binding"),
        (BODY | {"fixture_id": True}, "fixture_id"),
        (BODY | {"pack_id": None}, "replay_binding"),
        (BODY | {"source_mode": "live"}, "live_feed"),
        (BODY | {"source_mode": None}, "source_mode"),
        (BODY | {"source_mode": "Replay"}, "source_mode"),
        ({"strategy": "baseline", "pack_id": "starter"}, "source_mode"),
        (BODY | {"duration_s": 60}, "window"),
        (BODY | {"sizing": "martingale"}, "sizing"),
        (BODY | {"market_allowlist": "1X2"}, "market_allowlist"),
        (BODY | {"params": {"mood": 2**70}}, "params"),
        (BODY | {"params": {"min_persistence": "high"}}, "params"),
        (BODY | {"params": {"unknown": float("nan")}}, "params"),
        (BODY | {"params": {"unknown": [[2**80]]}}, "params"),
    ],
)
def test_each_parameter_fails_under_its_own_name(in_memory, body, name):
    with pytest.raises(PreflightError) as refused:
        in_memory.deploys.deploy(ALICE, body)

    assert name in [failure["name"] for failure in refused.value.failures]


def test_a_deploy_without_a_source_mode_says_that_it_is_missing_and_what_it_may_be(in_memory):
    with pytest.raises(PreflightError) as refused:
        in_memory.deploys.deploy(ALICE, {"strategy": "baseline", "pack_id": "starter"})

    assert [failure["name"] for failure in refused.value.failures] == ["source_mode"]
    assert refused.value.failures[0]["message"] == "must be given: replay or live"


def test_names_that_nothing_reads_are_told_and_change_no_hash(in_memory):
    known = BODY | {"params": {"min_persistence": 0.4, "mood": [1]}, "cooldown_s": 60}

    plain = in_memory.deploys.deploy(ALICE, BODY)
    odd = in_memory.deploys.deploy(ALICE, known | {"owner": BOB, "cooldown": 5, "\ud800": 1})

    assert "ignored" not in plain
    assert odd["ignored"] == ["\\ud800", "cooldown", "owner", "params.mood"]
    assert odd["config_hash"] == "sha256:fb6944cfabf21660ae444c3d3ad7837344f5ff1811fd1d7441c4182de2697577"
    record = in_memory.deploys.instance(ALICE, odd["instance_id"])
    assert "ignored" not in record
    assert not {"owner", "cooldown"} & set(record["config"])


def test_the_same_key_and_configuration_give_the_same_instance(application):
    first = application.deploys.deploy(ALICE, BODY, "key")

    again = application.deploys.deploy(ALICE, BODY | {"stake": 100}, "key")
    told = application.deploys.deploy(ALICE, BODY | {"unknown": 1}, "key")
    theirs = application.deploys.deploy(BOB, BODY, "key")
    keyless = application.deploys.deploy(ALICE, BODY)

    assert again == first
    assert told == first | {"ignored": ["unknown"]}
    assert len({answer["run_id"] for answer in (first, theirs, keyless)}) == 3
    assert application.jobs.counts()["queued"] == 3


@pytest.mark.parametrize("other", [{"stake": 101}, {"stake": -1}, {"pack_id": "season"}])
def test_the_same_key_with_another_configuration_is_a_conflict(in_memory, other):
    in_memory.deploys.deploy(ALICE, BODY, "key")

    with pytest.raises(IdempotencyConflictError) as refused:
        in_memory.deploys.deploy(ALICE, BODY | other, "key")

    assert refused.value.reason == "fingerprint"


def test_of_concurrent_deploys_under_one_key_one_is_stored(application):
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: application.deploys.deploy(ALICE, BODY, "key"), range(40)))

    assert len({answer["instance_id"] for answer in answers}) == 1
    assert len(application.runs.page()["runs"]) == application.jobs.counts()["queued"] == 1


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_has_a_length(in_memory, key):
    with pytest.raises(PreflightError, match="idempotency_key"):
        in_memory.deploys.deploy(ALICE, BODY, key)


def test_runtime_events_count_from_1_and_page(application):
    answer = application.deploys.deploy(ALICE, BODY)
    performed(application, answer)
    read = application.deploys.runtime_events

    events = read(ALICE, answer["instance_id"])["events"]

    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events[:2] + events[-1:]] == ["RUN_QUEUED", "RUN_STARTED", "RUN_SEALED"]
    assert {event["type"] for event in events[2:-1]} == {"AGENT_ACTION"}
    assert set(events[0]) == {"type", "agent_id", "run_id", "session_id", "ts", "payload", "id"}
    assert read(ALICE, answer["instance_id"], since=2, limit=3)["events"] == events[2:5]
    assert read(ALICE, answer["instance_id"], since=10**15)["events"] == []


@pytest.mark.parametrize("page", [{"since": -1}, {"limit": 0}, {"limit": 1001}])
def test_pages_of_runtime_events_have_bounds(in_memory, page):
    answer = in_memory.deploys.deploy(ALICE, BODY)

    with pytest.raises(PageError):
        in_memory.deploys.runtime_events(ALICE, answer["instance_id"], **page)


def test_runtime_events_are_their_owners_alone(in_memory):
    answer = in_memory.deploys.deploy(ALICE, BODY)

    for caller, instance_id in ((BOB, answer["instance_id"]), (ALICE, "inst_absent")):
        with pytest.raises(UnknownInstanceError):
            in_memory.deploys.runtime_events(caller, instance_id)


def test_an_instance_without_an_owner_is_nobodys(application):
    answer = application.deploys.deploy(ALICE, BODY)
    with application._database.write() as connection:
        connection.execute(update(instances).values(owner=None))

    with pytest.raises(UnknownInstanceError):
        application.deploys.runtime_events(ALICE, answer["instance_id"])
    competition_id = make_competition(application)
    entry = AgentEntry(agent_id="a", strategy="cumulative-drift", instance_id=answer["instance_id"])
    with pytest.raises(UnknownInstanceError):
        application.competitions.register(ALICE, competition_id, entry)


def test_a_key_whose_attempt_failed_for_good_is_a_conflict(one_pack):
    application = Application(catalog=one_pack)
    answer = application.deploys.deploy(ALICE, BODY, "key")
    (one_pack.folder / "starter" / "ticks.parquet").write_bytes(b"broken")

    card = performed(application, answer)

    failed = application.deploys.runtime_events(ALICE, answer["instance_id"])["events"][-1]
    assert (failed["type"], failed["payload"]) == ("RUN_FAILED", {"cause": card["run"]["cause"]})
    assert failed["payload"]["cause"].startswith("UnknownPackError: unknown or unverified pack 'starter'")
    assert str(one_pack.folder) not in failed["payload"]["cause"]
    assert card["run"]["status"] == "failed"
    assert set(card["checks"].values()) == {"pending"}
    with pytest.raises(IdempotencyConflictError) as refused:
        application.deploys.deploy(ALICE, BODY, "key")
    assert refused.value.reason == "prior_attempt"
    application.close()


def test_fractional_kelly_sizes_by_the_edge_at_the_quote(in_memory):
    body = BODY | {"strategy": "baseline", "sizing": "fractional_kelly", "stake": 1000, "kelly_fraction_bps": 5000}
    answer = in_memory.deploys.deploy(ALICE, body)
    performed(in_memory, answer)

    events = in_memory.deploys.runtime_events(ALICE, answer["instance_id"])["events"]

    stakes = [event["payload"]["stake"] for event in events if event["type"] == "AGENT_ACTION"]
    assert stakes
    for seq, stake in enumerate(stakes, start=1):
        record = in_memory.runs.inspect(answer["run_id"], seq)
        side = next(s for s in record["market_state"]["sides"] if s["side"] == record["agent_action"]["side"])
        probability, odds = side["prob_bps"] / 10_000, side["odds_milli"] / 1000
        kelly = max(0.0, (probability * odds - 1) / (odds - 1))
        assert stake == pytest.approx(100_000 * 0.5 * kelly, abs=1)


def test_the_policy_of_a_deploy_is_what_the_run_obeyed(in_memory):
    free = in_memory.deploys.deploy(ALICE, BODY)
    tight = in_memory.deploys.deploy(ALICE, BODY | {"max_orders": 1})
    performed(in_memory, tight)

    receipts = [in_memory.runs.receipts(answer["run_id"])["receipts"] for answer in (free, tight)]

    assert free["policy_hash"] != tight["policy_hash"]
    assert len(receipts[1]) == 1 < len(receipts[0])
    scores = [pl.read_ndjson(in_memory.runs.sealed_run(answer["run_id"]).scores) for answer in (free, tight)]
    assert scores[0].equals(scores[1])
