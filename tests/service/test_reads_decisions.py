"""Decisions of a sealed run as rows."""

import io
import time

import polars as pl
import pytest

from tests.service.serving import BOUND, DEPLOY, assert_problem
from tests.waiting import PATIENCE_S

ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def path(api):
    """Where the decisions of a run of three agents are."""
    agents = ("baseline", "cumulative-drift", "sharp-momentum-v2")
    config = BOUND | {"pack_id": "season", "market_scope": "1X2_PARTICIPANT_RESULT"}
    _, started = api.started(config=config, agents=agents)
    return f"/runs/{started['run_id']}/decisions"


@pytest.fixture(scope="module")
def every(api, path):
    """All of its decisions."""
    answer = api.get(path, limit=1000)
    assert answer["next_cursor"] is None
    assert answer["total"] == len(answer["decisions"]) > 20
    return answer["decisions"]


def following(api, path, **query):
    """The rows of all pages from the first on."""
    found, cursor = [], {}
    while True:
        page = api.get(path, **query, **cursor)
        assert len(page["decisions"]) <= query["limit"]
        found += page["decisions"]
        if page["next_cursor"] is None:
            assert page["total"] == len(found)
            return found
        cursor = {"cursor": page["next_cursor"]}


def test_every_row_says_what_the_inspector_says(api, path, every):
    run_id = path.split("/")[2]

    for row in every[::7]:
        record = api.get(f"/runs/{run_id}/actions/{row['seq']}")
        action, law = record["agent_action"], record["recompute"]
        allowed = record["policy"] and record["policy"]["pre"]["allowed"] and record["policy"]["post"]["allowed"]
        assert row == {
            "seq": row["seq"],
            **{name: record[name] for name in ("agent_id", "fixture_id", "tick_seq", "ts_ms")},
            "action": action["type"],
            **{name: action[name] for name in ("market_key", "side", "stake", "limit_odds_milli")},
            **{name: law[name] for name in ("entry_prob_bps", "close_prob_bps", "clv_bps", "valid", "reason", "close_kind")},
            "edge_bps": law["recomputed_edge_bps"],
            "closing_age_ms": law["closing_age_ms"],
            "odds_milli": row["odds_milli"],
            "confidence": record["untrusted_llm_metadata"]["confidence"],
            "policy": {None: None, True: "allowed", False: "refused"}[allowed],
        }
    assert [row["seq"] for row in every] == list(range(1, len(every) + 1))


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"agent_id": "baseline"},
        {"market": "OVERUNDER"},
        {"side": "part1"},
        {"reason": "scored"},
        {"valid": "false"},
        {"agent_id": "cumulative-drift", "market": "1X2", "valid": "true"},
        {"agent_id": "nobody"},
        {"fixture_id": -(2**53) + 1},
    ],
)
@pytest.mark.parametrize("sort", [None, "clv", "-clv"])
def test_pages_of_a_filter_in_an_order_are_what_is_chosen_of_all_rows(api, path, every, chosen, sort):
    rows = [
        row
        for row in every
        if all(
            str(row["market_key"]).startswith(value) if name == "market" else str(row[name]).lower() == str(value)
            for name, value in chosen.items()
        )
    ]
    sign = -1 if sort == "-clv" else 1
    if sort:
        rows.sort(key=lambda row: (row["clv_bps"] is None, sign * (row["clv_bps"] or 0), row["seq"]))

    assert following(api, path, limit=9, **chosen, **({"sort": sort} if sort else {})) == rows


def test_as_arrow_all_that_match_come_or_a_page_with_a_link_to_the_next(api, path, every):
    def read(url):
        response = api.nobody.get(url, headers={"Accept": ARROW})
        assert response.headers["content-type"] == ARROW
        following = response.links and response.url.join(response.links["next"]["url"])
        return pl.read_ipc_stream(io.BytesIO(response.content)), following

    rows, url = read(f"{path}?sort=-clv")
    assert not url
    assert rows.drop("confidence_raw").sort("seq").to_dicts() == every
    pages, url = [], f"{path}?sort=-clv&limit=8"
    while url:
        page, url = read(url)
        pages.append(page)
    assert pages[0].height == 8
    assert pl.concat(pages).equals(rows)


def test_decisions_never_change_so_they_may_be_kept(api, path):
    response = api.nobody.get(path)

    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert len(response.json()["decisions"]) <= 100


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=1001", "sort=edge", "reason=good", "valid=maybe", f"fixture_id={2**63}", f"fixture_id=-{2**70}",
        "cursor=x", "cursor=0", "cursor=999999999", f"cursor={'9' * 40}", "cursor=%00", "agent_id=" + "a" * 201,
        "market=" + "a" * 201, "side=" + "a" * 201,
    ],
)  # fmt: skip
def test_a_query_of_the_wrong_form_is_refused(api, path, query):
    assert_problem(api.nobody.get(f"{path}?{query}"), 422)


@pytest.mark.parametrize("value", ["%00", "%ED%A0%80", "%F0%9F%92%A3", "%25", "_"])
@pytest.mark.parametrize("name", ["agent_id", "market", "side"])
def test_a_name_that_no_decision_has_gives_an_empty_page(api, path, name, value):
    answer = api.nobody.get(f"{path}?{name}={value}").json()

    assert (answer["decisions"], answer["total"], answer["next_cursor"]) == ([], 0, None)


@pytest.mark.parametrize("run_id", ["run_absent", "%00", "%ED%A0%80", "a" * 300])
def test_an_unknown_run_is_404(api, run_id):
    assert_problem(api.nobody.get(f"/runs/{run_id}/decisions"), 404)


def test_decisions_of_a_deploy_show_what_its_policy_refused(api):
    deployed = api.post("/agents/deploy", DEPLOY | {"max_orders": 1})
    path = f"/runs/{deployed['run_id']}/decisions"
    deadline = time.monotonic() + PATIENCE_S
    while (answer := api.nobody.get(path)).status_code == 404 and time.monotonic() < deadline:
        time.sleep(0.02)  # not sealed yet

    policies = [row["policy"] for row in answer.json()["decisions"]]
    assert policies[0] == "allowed"
    assert set(policies[1:]) == {"refused"}
