"""A test per row of the interface specification's table of endpoints, and of what it says under each."""

import hashlib
import json
import shutil
import time

import pytest

from clvlab.arena.packs import bundled_catalog
from clvlab.packs.catalog import Catalog
from clvlab.packs.manifest import descriptor, read_manifest
from clvlab.proof import clv_verify
from tests.length import any_store
from tests.service.serving import BACKTEST, BOUND, CONFIG, DEPLOY, FIXTURE, make_entry
from tests.service.serving import api as serve_api
from tests.waiting import until

CHECKS = {
    "evidence_integrity", "llm_boundary", "metrics_recomputed", "manifest_bound", "policy_obeyed", "receipt_separation",
    "anchor",
}  # fmt: skip
VERDICTS = {"pass", "fail", "pending", "not_applicable"}


@pytest.fixture(scope="module")
def finalized(api):
    """A finalized competition: its id and the answer of start."""
    return api.started()


def sealed(api, run_id):
    until(lambda: api.get(f"/runs/{run_id}")["run"]["status"] in ("sealed", "failed"))
    return api.get(f"/runs/{run_id}")


def first_decision(api, run_id):
    for line in api.nobody.get(f"/runs/{run_id}/evidence").content.splitlines():
        event = json.loads(line)
        if event["kind"] == "DECISION":
            return event
    raise AssertionError("no decision")


@pytest.mark.usefixtures("finalized")
def test_get_leaderboard_ranks_by_average_clv_and_has_every_field(api):
    rows = api.get("/leaderboard")["rows"]

    assert set(rows[0]) - {"seats"} == {  # which only an owner has who took some, as other tests do
        "rank", "agent_id", "runs", "avg_clv_bps", "total_clv_bps", "sim_pnl", "brier", "max_drawdown", "action_count",
        "valid_pct", "proof_mode", "eligibility_badge", "anchor_status", "source_mode", "valid_count", "clv_confidence",
        "low_sample", "strategy", "config_hash", "causality", "knowledge", "commit_index", "hindsight_possible",
    }  # fmt: skip
    assert {"baseline", "cumulative-drift"} <= {row["agent_id"] for row in rows}
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    means = [float("-inf") if row["avg_clv_bps"] is None else row["avg_clv_bps"] for row in rows]
    assert means == sorted(means, reverse=True)
    assert all(row["low_sample"] == (row["valid_count"] < 30) for row in rows)


def test_post_competitions_creates_a_draft_with_its_binding_frozen(api):
    created = api.post("/competitions", BOUND)

    assert created["status"] == "draft"
    binding = api.get(f"/competitions/{created['competition_id']}")["replay_binding"]
    info = api.get("/replay-packs/starter")
    assert binding == {"pack_id": "starter", "fixture_id": FIXTURE, "content_hash": info["content_hash"]}


def test_get_competitions_lists_summaries(api):
    created = api.competition()

    listed = {entry["competition_id"]: entry for entry in api.get("/competitions")}
    times = {"owner", "created_ts_ms", "updated_ts_ms"}
    assert set(listed[created]) == {"competition_id", "status", "config", "run_id"} | times
    assert listed[created]["run_id"] is None
    assert listed[created]["config"]["market_scope"] == "all"


@pytest.mark.parametrize(
    ("status", "listed"), [("DRAFT", True), ("RUNNING", False), ("FINALIZED", False), ("COMPLETED", False)]
)
def test_get_competitions_filters_by_status(api, status, listed):
    created = api.competition()

    assert (created in [entry["competition_id"] for entry in api.get("/competitions", status=status)]) is listed


def test_get_competition_of_a_draft_has_nulls_and_no_events(api):
    created = api.competition(config=CONFIG)
    state = api.get(f"/competitions/{created}")

    assert set(state) == {
        "competition_id", "status", "cause", "config", "roster", "leaderboard", "latest_seq", "anchor_status", "run_id",
        "proof_card", "execution", "replay_binding", "owner", "created_ts_ms", "updated_ts_ms",
    }  # fmt: skip
    assert state["status"] == "draft"
    assert [agent["agent_id"] for agent in state["roster"]] == ["baseline", "cumulative-drift"]
    assert (state["leaderboard"], state["latest_seq"], state["anchor_status"]) == ([], 0, "not_anchored")
    assert [state[field] for field in ("run_id", "proof_card", "execution", "replay_binding")] == [None] * 4


def test_get_competition_after_start_has_run_leaderboard_and_card(api, finalized):
    created, started = finalized
    state = api.get(f"/competitions/{created}")

    assert state["status"] == "finalized"
    assert state["run_id"] == started["run_id"] == state["proof_card"]["run"]["run_id"]
    assert state["latest_seq"] == max(event["seq"] for event in api.get(f"/competitions/{created}/events", since_seq=-1))
    assert {row["agent_id"] for row in state["leaderboard"]} == {"baseline", "cumulative-drift"}
    means = [row["mean_clv_bps"] for row in state["leaderboard"]]
    assert means == sorted(means, reverse=True)
    assert state["execution"]["non_scoring"] is True


def test_post_agents_pins_the_config_and_normalizes_the_proof_mode(api):
    created = api.competition(agents=())
    path = f"/competitions/{created}/agents"

    first = api.post(path, make_entry(agent_id="a", proof_mode="Deterministic"))
    second = api.post(path, make_entry(agent_id="b", proof_mode="EVIDENCE_VERIFIED"))

    assert set(first) == {"agent_id", "config_hash", "proof_mode"}
    assert (first["proof_mode"], second["proof_mode"]) == ("reproducible", "verified")
    assert first["config_hash"] == second["config_hash"]
    assert first["config_hash"].startswith("sha256:")


def test_post_start_runs_to_finalized(finalized):
    _, started = finalized

    assert started["status"] == "finalized"
    assert started["run_id"].startswith("run_")
    assert started["replay_binding"]["fixture_id"] == FIXTURE


def test_equal_competitions_have_equal_scores(api, finalized):
    again, _ = api.started()

    boards = [api.get(f"/competitions/{created}")["leaderboard"] for created in (finalized[0], again)]
    assert boards[0] == boards[1]


def test_get_events_is_exclusive_of_since_seq_and_ascending(api, finalized):
    path = f"/competitions/{finalized[0]}/events"
    whole = api.get(path, since_seq=-1)

    assert [event["seq"] for event in whole] == list(range(len(whole)))
    assert whole[0]["kind"] == "COMPETITION_STARTED"
    assert {"SCORE_UPDATE", "PROOF_ANCHOR"} <= {event["kind"] for event in whole}
    assert set(whole[0]) == {"seq", "kind", "competition_id", "run_id", "ts", "evidence", "payload"}
    assert api.get(path) == whole[1:]
    assert api.get(path, since_seq=whole[-1]["seq"]) == []
    assert api.get(path, since_seq=3) == whole[4:]


def test_post_open_and_complete_are_acts_of_the_owner(api):
    created = api.competition()

    assert api.post(f"/competitions/{created}/open") == {"competition_id": created, "status": "open"}
    api.post(f"/competitions/{created}/agents", make_entry(agent_id="late"))
    assert api.post(f"/competitions/{created}/start")["status"] == "finalized"
    assert api.post(f"/competitions/{created}/complete") == {"competition_id": created, "status": "completed"}
    assert created in [entry["competition_id"] for entry in api.get("/competitions", status="COMPLETED")]


def test_post_deploy_pins_an_instance_and_its_run_seals(api):
    deployed = api.post("/agents/deploy", DEPLOY | {"agent_id": "deployed"})

    assert set(deployed) == {"instance_id", "config_hash", "policy_hash", "run_id", "owner", "replay_binding"}
    assert deployed["owner"] == "did:key:alice"
    assert deployed["replay_binding"]["fixture_id"] == FIXTURE
    card = sealed(api, deployed["run_id"])
    assert card["run"]["status"] == "sealed", card["run"]
    assert card["checks"]["policy_obeyed"] in ("pass", "not_applicable")
    assert api.post(f"/runs/{deployed['run_id']}/verify", by=api.nobody)["verified"] is True


def test_post_deploy_takes_no_owner_from_the_body(api):
    deployed = api.post("/agents/deploy", DEPLOY | {"agent_id": "mine", "owner": "did:key:mallory"})

    assert deployed["owner"] == "did:key:alice"
    assert "mallory" not in api.alice.get(f"/agents/instances/{deployed['instance_id']}").text


def test_post_deploy_again_with_the_same_key_gives_the_same_instance(api):
    headers = {"Idempotency-Key": f"same-{time.time_ns()}"}

    first, second = (api.post("/agents/deploy", DEPLOY | {"agent_id": "once"}, headers=headers) for _ in range(2))

    assert first == second


def test_get_instance_gives_the_stored_record_to_its_owner(api):
    deployed = api.post("/agents/deploy", DEPLOY | {"agent_id": "recorded"})
    record = api.get(f"/agents/instances/{deployed['instance_id']}", by=api.alice)

    assert {name: record[name] for name in deployed} == deployed
    assert record["template"] == "cumulative-drift"
    assert all(check["ok"] for check in record["preflight"])


def test_get_runtime_events_pages_by_id(api):
    deployed = api.post("/agents/deploy", DEPLOY | {"agent_id": "watched"})
    sealed(api, deployed["run_id"])
    path = f"/agents/instances/{deployed['instance_id']}/runtime-events"
    whole = api.get(path, by=api.alice)["events"]

    assert "AGENT_ACTION" in {event["type"] for event in whole}
    assert set(whole[0]) == {"type", "agent_id", "run_id", "session_id", "ts", "payload", "id"}
    ids = [event["id"] for event in whole]
    assert ids == sorted(ids)
    assert api.get(path, by=api.alice, limit=2)["events"] == whole[:2]
    assert api.get(path, by=api.alice, since=ids[1])["events"] == whole[2:]


def test_post_backtests_is_deterministic_and_its_run_verifies(api):
    first, second = (api.post("/backtests", BACKTEST, by=api.nobody) for _ in range(2))

    assert first == second
    assert set(first) == {"backtest_id", "mode_label", "run_id"}
    assert first["mode_label"] == "Backtest"
    assert api.post(f"/runs/{first['run_id']}/verify", by=api.nobody)["verified"] is True


def test_get_backtest_gives_the_report_with_what_was_asked(api):
    asked = BACKTEST | {"window_id": "w-7", "market_allowlist": ["1X2_PARTICIPANT_RESULT"], "min_clv_horizon_s": 0}
    report = api.get(f"/backtests/{api.post('/backtests', asked, by=api.nobody)['backtest_id']}")

    assert (report["window_id"], report["market_universe"]) == ("w-7", ["1X2_PARTICIPANT_RESULT"])
    assert report["content_hash"] == api.get("/replay-packs/starter")["content_hash"]
    assert "real_executable_edge_bps" in report
    assert report["real_executable_edge_bps"] is None
    assert set(report["checks"]) == CHECKS


@any_store
def test_limit_of_a_pack_on_the_age_of_a_close_stands_in_the_window_and_in_no_other(api, keys, tmp_path):
    free = api.get(f"/backtests/{api.post('/backtests', BACKTEST, by=api.nobody)['backtest_id']}")
    folder = tmp_path / "packs" / "starter"
    shutil.copytree(bundled_catalog().folder / "starter", folder)
    manifest = read_manifest(folder)[0].model_copy(update={"max_close_age_s": 60})
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.parquet")}
    (folder / "datapackage.json").write_bytes(descriptor(manifest, sizes))
    Catalog(tmp_path / "packs").admit("starter")

    with serve_api(keys, packs=tmp_path / "packs") as limited:
        bound = limited.get(f"/backtests/{limited.post('/backtests', BACKTEST, by=limited.nobody)['backtest_id']}")
        run_id = limited.started()[1]["run_id"]
        (tmp_path / "run.clv").write_bytes(limited.nobody.get(f"/runs/{run_id}/bundle").content)

    assert bound["window"] == free["window"] | {"max_close_age_s": 60}
    assert "max_close_age_s" not in free["window"]
    assert "closing_stale" in bound["reasons"]
    assert not any(clv_verify.verify(tmp_path / "run.clv")["checks"].values())


def test_get_backtests_lists_with_a_cursor(api):
    made = [api.post("/backtests", BACKTEST | {"window_id": f"page {n}"}, by=api.nobody)["backtest_id"] for n in range(3)]

    assert set(made) <= set(paged(api, "/backtests", "backtests", "backtest_id"))


def paged(api, path, field, key):
    found, cursor = [], None
    while True:
        page = api.get(path, limit=2, **({"cursor": cursor} if cursor else {}))
        assert len(page[field]) <= 2
        found += [entry[key] for entry in page[field]]
        cursor = page["next_cursor"]
        if cursor is None:
            assert len(found) == len(set(found))
            return found


@any_store
def test_get_replay_packs_lists_verified_packs_without_a_path(api):
    packs = api.get("/replay-packs")["packs"]

    assert {"starter", "season"} <= {pack["pack_id"] for pack in packs}
    for pack in packs:
        assert set(pack) == {"pack_id", "content_hash", "provenance", "is_genuine", "grade", "fixtures"}
        assert pack["provenance"].startswith("synthetic")
        assert pack["is_genuine"] is False
        assert pack["grade"] == "not shown"


@any_store
def test_get_replay_pack_gives_one(api):
    pack = api.get("/replay-packs/starter")

    assert FIXTURE in pack["fixtures"]
    assert pack in api.get("/replay-packs")["packs"]


def test_get_run_gives_the_proof_card(api, finalized):
    card = api.get(f"/runs/{finalized[1]['run_id']}")

    assert set(card) == {
        "verifier_version", "run", "lineage", "evidence", "checks", "check_details", "anchor", "log", "metrics"
    }  # fmt: skip
    assert set(card["checks"]) == CHECKS
    assert set(card["checks"].values()) <= VERDICTS
    assert "fail" not in card["checks"].values()
    assert card["run"]["mode_label"] == "Backtest"
    assert card["anchor"]["cluster"] == "devnet"


def test_post_verify_recomputes_and_changes_nothing(api, finalized):
    run_id = finalized[1]["run_id"]
    before = api.get(f"/runs/{run_id}")
    verified = api.post(f"/runs/{run_id}/verify", by=api.nobody)

    assert set(verified) == {
        "run_id", "verified", "evidence_hash", "recomputed_evidence_hash", "manifest_hash", "checks", "metrics", "anchor",
        "proof_card",
    }  # fmt: skip
    assert verified["verified"] is True
    assert verified["evidence_hash"] == verified["recomputed_evidence_hash"] == before["evidence"]["evidence_hash"]
    assert verified["manifest_hash"] == before["evidence"]["manifest_hash"]
    assert set(verified["checks"]) == CHECKS
    assert isinstance(verified["metrics"]["avg_clv_bps"], float)
    assert api.get(f"/runs/{run_id}") | {"log": None} == before | {"log": None}  # it stands in a log that grows


def test_get_action_gives_the_inspector_record(api, finalized):
    run_id = finalized[1]["run_id"]
    event = first_decision(api, run_id)
    record = api.get(f"/runs/{run_id}/actions/{event['seq']}")

    assert (record["run_id"], record["agent_id"], record["tick_seq"]) == (
        run_id, event["payload"]["agent_id"], event["payload"]["tick_seq"]
    )  # fmt: skip
    assert record["agent_action"] == event["payload"]["action"]
    assert record["policy"] == event["payload"]["policy"]
    assert record["clv_bps"] in (record["recompute"]["clv_bps"], "pending", "invalid")
    assert set(record["untrusted_llm_metadata"]) == {"reason", "confidence", "claimed_edge_bps"}


def test_sealed_files_have_the_hashes_of_the_card(api, finalized):
    run_id = finalized[1]["run_id"]
    evidence = api.get(f"/runs/{run_id}")["evidence"]

    for name, field in (("evidence", "evidence_hash"), ("manifest", "manifest_hash")):
        content = api.nobody.get(f"/runs/{run_id}/{name}").content
        assert evidence[field] == "sha256:" + hashlib.sha256(content).hexdigest()
    assert len(api.nobody.get(f"/runs/{run_id}/scores").content.splitlines()) > 0


@any_store
def test_evidence_is_compressed_on_the_way_and_the_same_bytes_after_it(api, finalized):
    path = f"/runs/{finalized[1]['run_id']}/evidence"
    packed, plain = (api.nobody.get(path, headers={"Accept-Encoding": encoding}) for encoding in ("gzip", "identity"))

    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content


def test_get_runs_lists_with_a_cursor(api, finalized):
    assert finalized[1]["run_id"] in paged(api, "/runs", "runs", "run_id")


def test_post_demo_runs_seals_and_scores(api):
    demo = api.post("/demo/run", by=api.nobody)

    assert set(demo) == {"run_id", "competition_id", "anchor_status", "leaderboard", "proof_card"}
    assert api.post(f"/runs/{demo['run_id']}/verify", by=api.nobody)["verified"] is True
    assert api.get(f"/competitions/{demo['competition_id']}")["leaderboard"] == demo["leaderboard"]


@any_store
@pytest.mark.parametrize(
    "path", ["/runs/{run_id}/checks", "/runs/{run_id}/log", "/runs/{run_id}/bundle", "/replay-packs", "/replay-packs/starter"]
)
def test_what_may_change_is_revalidated(api, finalized, path):
    path = path.format(run_id=finalized[1]["run_id"])
    first = api.nobody.get(path)

    assert first.headers["cache-control"] == "no-cache"
    again = api.nobody.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert api.nobody.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


@any_store
@pytest.mark.parametrize("name", ["", "evidence", "scores", "manifest", "decisions", "actions/{seq}"])
def test_what_a_seal_fixes_is_immutable(api, finalized, name):
    run_id = finalized[1]["run_id"]
    path = f"/runs/{run_id}/{name.format(seq=first_decision(api, run_id)['seq'])}".rstrip("/")
    first = api.nobody.get(path)

    assert "immutable" in first.headers["cache-control"]
    assert api.nobody.get(path, headers={"If-None-Match": first.headers["etag"]}).status_code == 304


@any_store
def test_a_verification_carries_an_etag_and_is_never_304(api, finalized):
    path = f"/runs/{finalized[1]['run_id']}/verify"
    first = api.nobody.post(path)
    again = api.nobody.post(path, headers={"If-None-Match": first.headers["etag"]})

    assert again.status_code == 200
    assert again.headers["cache-control"] == "no-cache"


@any_store
def test_a_backtest_report_is_revalidated(api):
    path = f"/backtests/{api.post('/backtests', BACKTEST, by=api.nobody)['backtest_id']}"
    first = api.nobody.get(path)

    assert first.headers["cache-control"] == "no-cache"
    assert api.nobody.get(path, headers={"If-None-Match": first.headers["etag"]}).status_code == 304


@pytest.mark.usefixtures("finalized")
def test_health_readiness_and_metrics_answer(api):
    assert api.get("/healthz") == {"status": "ok"}
    assert api.get("/readyz")["status"] == "ok"
    metrics = api.nobody.get("/metrics").text
    assert (
        'clvlab_http_request_seconds_count{method="POST",route="/competitions/{competition_id}/start",status="200"}' in metrics
    )
    for line in (
        'clvlab_jobs{status="done"} ',
        'clvlab_stored_bytes{of="public"} ',
        "clvlab_log_entries ",
        "clvlab_store_up 1.0",
    ):
        assert line in metrics
