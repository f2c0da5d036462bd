"""Backtests over several fixtures of a pack, and what is done with those that take a while."""

import orjson
import pytest
from websockets.sync.client import connect

from clvlab.report.html import page_policy
from tests.hostile import without_times_script
from tests.service.serving import BACKTEST, FIXTURE, assert_problem
from tests.waiting import until

PACK = {"pack_id": "starter", "fixture_ids": None}
SEASON = {"pack_id": "season", "fixture_ids": None, "strategy": "cumulative-drift"}
ASYNC = {"Prefer": "respond-async"}


def asked(api, body, **headers):
    return api.nobody.post("/backtests", json=body, headers=headers)


def report_of(api, location):
    """The report once it is there."""

    def answered():
        answer = api.nobody.get(location)
        if answer.status_code == 200:
            return answer
        assert answer.status_code == 202, answer.text
        assert answer.headers["retry-after"] == "1"
        return None

    return until(answered).json()


@pytest.fixture(scope="module")
def whole(api):
    """Report of a backtest over all fixtures, with parameters, window and policy of its own."""
    body = PACK | {
        "strategy": "cumulative-drift", "params": {"stake": 7}, "window_id": "w", "min_clv_horizon_s": 30,
        "market_allowlist": ["1X2"], "policy": {"max_orders": 3},
    }  # fmt: skip
    made = asked(api, body | {"fixture_ids": None})
    assert made.status_code in (200, 201, 202)
    return report_of(api, f"/backtests/{made.json()['backtest_id']}")


def test_a_backtest_over_a_pack_is_sealed_with_what_was_asked_for(api, whole):
    fixtures = api.get("/replay-packs/starter")["fixtures"]

    assert (whole["fixture_ids"], whole["fixture_id"], whole["n_fixtures"]) == (fixtures, None, len(fixtures))
    assert whole["agent"]["strategy"] == "cumulative-drift"
    assert whole["agent"]["config"]["stake"] == 7
    assert (whole["window"]["min_clv_horizon_s"], whole["market_universe"]) == (30, ["1X2"])
    assert whole["policy"]["allowed"] == 3 < sum(whole["policy"]["refused"].values())
    assert api.post(f"/runs/{whole['run_id']}/verify")["checks"]["metrics_recomputed"] == "pass"


def test_its_report_has_intervals_over_fixtures_effective_clusters_and_the_sheets_figures(whole):
    found = whole["statistics"]

    assert found["clv_bps"]["low"] < found["clv_bps"]["mean"] == pytest.approx(whole["metrics"]["avg_clv_bps"])
    assert found["clv_bps"]["n_clusters"] <= whole["n_fixtures"]
    assert 1 < found["effective_clusters"] <= found["clv_bps"]["n_clusters"]
    assert {"mean CLV", "t, clustered by fixture"} <= {row["figure"] for row in found["figures"]}


def test_the_tear_sheet_is_a_page_that_asks_nobody_and_runs_only_the_script_of_times(api, whole):
    page = api.nobody.get(f"/backtests/{whole['backtest_id']}/tear-sheet")

    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"] == page_policy()
    assert "<svg" in page.text
    assert "<script" not in without_times_script(page.text)
    assert "cumulative-drift" in page.text


def test_a_backtest_of_one_fixture_has_a_tear_sheet_and_no_statistics(api):
    made = api.post("/backtests", BACKTEST, by=api.nobody)

    assert "statistics" not in api.get(f"/backtests/{made['backtest_id']}")
    assert api.nobody.get(f"/backtests/{made['backtest_id']}/tear-sheet").status_code == 200


def test_a_list_of_fixtures_is_replayed_and_asking_again_gives_the_same(api):
    body = PACK | {"fixture_ids": [FIXTURE + 1, FIXTURE]}
    made = report_of(api, f"/backtests/{asked(api, body).json()['backtest_id']}")

    again = asked(api, PACK | {"fixture_ids": [FIXTURE, FIXTURE + 1]})

    assert made["fixture_ids"] == [FIXTURE, FIXTURE + 1]
    assert again.status_code == 200
    assert again.json() == {"backtest_id": made["backtest_id"], "mode_label": "Backtest", "run_id": made["run_id"]}


@pytest.mark.parametrize(
    ("wrong", "status", "named"),
    [
        ({"fixture_id": FIXTURE}, 422, "fixture_id"),
        ({"fixture_ids": []}, 422, "fixture_ids"),
        ({"fixture_ids": [True]}, 422, "fixture_ids"),
        ({"fixture_ids": [FIXTURE, 5]}, 422, "fixture 5"),
        ({"pack_dir": "x"}, 422, "pack_dir"),
        ({"policy": {"colour": 1}}, 422, "colour"),
        ({"policy": {"max_stake": "9"}}, 422, "max_stake"),
        ({"policy": {"max_stake": -1}}, 400, "max_stake"),
        ({"strategy": "llm"}, 400, "llm"),
        ({"strategy": "bets"}, 400, "bets"),
        ({"strategy": "agents/mine.py:agent"}, 400, "mine.py"),
        ({"params": {"colour": 1}}, 400, "colour"),
        ({"params": {"stake": -1}}, 400, "stake"),
        ({"end_rule": "never"}, 400, "never"),
        ({"pack_id": "absent"}, 404, "absent"),
    ],
    ids=str,
)
def test_what_can_not_be_replayed_is_refused_by_name(api, wrong, status, named):
    assert named in assert_problem(asked(api, PACK | wrong), status)["detail"]


def test_without_either_key_the_one_fixture_is_missing(api):
    problem = assert_problem(asked(api, {"pack_id": "starter", "window_id": "w", "market_allowlist": [""]}), 422)

    assert [entry["loc"] for entry in problem["errors"]] == [["body", "fixture_id"]]


def test_an_asynchronous_backtest_is_told_of_to_the_end(api):
    made = asked(api, SEASON | {"window_id": "told"}, **ASYNC)

    assert made.status_code == 202
    assert made.headers["preference-applied"] == "respond-async"
    state = made.json()
    assert made.headers["location"] == f"/backtests/{state['backtest_id']}"
    assert state["status"] in ("queued", "running")
    with connect(f"{api.url.replace('http', 'ws', 1)}/runs/{state['run_id']}/progress") as stream:
        told = [orjson.loads(message) for message in stream]
    assert told[-1] == api.get(f"/runs/{state['run_id']}/progress")
    assert (told[-1]["status"], told[-1]["stage"]) == ("sealed", None)
    stages = [message["stage"] for message in told if message["stage"]]
    assert stages == sorted(stages, key=["opening", "deciding", "sealing", "keeping"].index)
    assert report_of(api, made.headers["location"])["run_id"] == state["run_id"]


def test_a_backtest_is_cancelled_by_whoever_asked_for_it_and_can_be_asked_for_again(api):
    body = SEASON | {"window_id": "cancelled"}
    made = asked(api, body, **ASYNC).json()
    path = f"/backtests/{made['backtest_id']}/cancel"

    assert_problem(api.nobody.post(path), 422)
    assert_problem(api.nobody.post(path, headers={"Idempotency-Key": "a guess"}), 403)
    ended = api.post(path, by=api.nobody, headers={"Idempotency-Key": made["key"]})

    assert (ended["status"], ended["cause"]) == ("failed", "cancelled")
    assert "cancelled" in assert_problem(api.nobody.get(f"/backtests/{made['backtest_id']}"), 404)["detail"]
    assert_problem(api.nobody.post(path, headers={"Idempotency-Key": made["key"]}), 409)
    again = asked(api, body, Prefer="wait=60")
    assert again.status_code == 201
    assert api.post(f"/runs/{again.json()['run_id']}/verify")["verified"]


def test_what_others_asked_for_too_goes_on(api):
    body = SEASON | {"window_id": "shared"}
    mine, theirs = asked(api, body, **ASYNC).json(), asked(api, body, **ASYNC).json()

    state = api.post(f"/backtests/{mine['backtest_id']}/cancel", by=api.nobody, headers={"Idempotency-Key": mine["key"]})

    assert mine["key"] != theirs["key"]
    assert state["status"] in ("queued", "running", "sealed")
    assert report_of(api, f"/backtests/{mine['backtest_id']}")["window_id"] == "shared"


def test_an_idempotency_key_stands_for_one_backtest(api):
    key = {"Idempotency-Key": "k-1"}
    made = asked(api, PACK | {"window_id": "keyed"}, Prefer="wait=60", **key)

    assert asked(api, PACK | {"window_id": "keyed"}, **key).json() == made.json()
    problem = assert_problem(asked(api, PACK | {"window_id": "other"}, **key), 409)
    assert problem["reason"] == "fingerprint"


def test_a_key_that_is_given_for_a_report_that_is_there_stands_for_it_too(api):
    body, key = PACK | {"window_id": "known"}, {"Idempotency-Key": "k-2", "Prefer": "wait=60"}
    asked(api, body, Prefer="wait=60")

    assert asked(api, body, **key).status_code == 200
    assert_problem(asked(api, PACK | {"window_id": "unknown"}, **key), 409)


@pytest.mark.parametrize(
    ("prefer", "applied"),
    [
        ([("Prefer", "respond-async; q=1")], "respond-async"), ([("Prefer", "wait=0;foo=bar")], "wait=0"),
        ([("Prefer", "handling=lenient"), ("Prefer", "wait=0")], "wait=0"), ([("Prefer", "wait=0, " + "x" * 600)], "wait=0"),
    ],
)  # fmt: skip
def test_preferences_are_read_as_the_standard_has_them(api, prefer, applied):
    created = api.competition()

    begun = api.alice.post(f"/competitions/{created}/start", headers=prefer)

    assert (begun.status_code, begun.headers["preference-applied"]) == (202, applied)


@pytest.mark.parametrize("path", ["/backtests/bt_absent/cancel", "/backtests/run_x/cancel"])
def test_unknown_backtests_can_not_be_cancelled(api, path):
    assert_problem(api.nobody.post(path, headers={"Idempotency-Key": "k"}), 404)


@pytest.mark.parametrize("path", ["/runs/absent/progress", "/backtests/absent/tear-sheet"])
def test_of_what_is_unknown_there_is_neither_progress_nor_sheet(api, path):
    assert_problem(api.nobody.get(path), 404)


def test_a_competition_starts_asynchronously(api):
    created = api.competition()

    begun = api.alice.post(f"/competitions/{created}/start", headers=ASYNC)

    assert begun.status_code == 202
    assert begun.headers["location"] == f"/competitions/{created}"
    assert begun.json()["competition_id"] == created
    until(lambda: api.get(f"/competitions/{created}")["status"] == "finalized")
    assert api.get(f"/competitions/{created}")["run_id"] == begun.json()["run_id"]
    assert_problem(api.alice.post(f"/competitions/{created}/cancel"), 409)


def test_only_its_owner_cancels_a_competition_and_only_one_that_runs(api):
    created = api.competition()

    assert_problem(api.bob.post(f"/competitions/{created}/cancel"), 403)
    assert_problem(api.alice.post(f"/competitions/{created}/cancel"), 409)
    assert_problem(api.alice.post("/competitions/absent/cancel"), 404)
