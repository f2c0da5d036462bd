"""``GET /leaderboard`` narrowed, grouped and asked for again."""

import pytest
from sqlalchemy import update

from clvlab.client import Client
from clvlab.store.labels import CAUSALITIES
from clvlab.store.tables import standings
from tests.service import serving
from tests.service.serving import BACKTEST, FIXTURE, assert_problem, make_entry


@pytest.fixture(scope="module")
def served(keys):
    """A service with two templates, another name for one of them, and somebody's transcript."""
    with serving.api(keys) as found:
        created = found.competition(agents=("baseline", "cumulative-drift"))
        found.post(f"/competitions/{created}/agents", make_entry(agent_id="baseline again"))
        found.post(f"/competitions/{created}/start")
        said = {"fixture_id": FIXTURE, "tick_seq": 0, "action": "WAIT", "reason": "w", "confidence": 0.5}
        written = found.competition(agents=())
        found.post(f"/competitions/{written}/agents", make_entry("llm", config={"transcript": [said]}))
        found.post(f"/competitions/{written}/start")
        yield found


def ids(served, **query):
    return [row["agent_id"] for row in served.get("/leaderboard", **query)["rows"]]


def test_without_a_query_all_rows_have_one_rank(served):
    rows = served.get("/leaderboard")["rows"]

    assert {row["agent_id"] for row in rows} == {"baseline", "baseline again", "cumulative-drift", "llm"}
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    means = [row["avg_clv_bps"] for row in rows if row["avg_clv_bps"] is not None]
    assert means == sorted(means, reverse=True)
    assert {row["knowledge"] for row in rows} == {"history"}


def test_it_is_narrowed_by_how_agents_decided_and_what_was_known(served):
    assert ids(served, causality="transcript") == ids(served, causality="transcript", knowledge="history") == ["llm"]
    assert set(ids(served, causality="template")) == {"baseline", "baseline again", "cumulative-drift"}
    assert ids(served, knowledge="live") == ids(served, knowledge="committed-before") == []
    first, second = ids(served, causality="template", limit=1), ids(served, causality="template", limit=1, after_rank=1)
    assert [*first, *second] == ids(served, causality="template")[:2]


def test_grouped_the_first_row_stands_for_all_that_decide_alike(served):
    rows = {row["agent_id"]: row for row in served.get("/leaderboard", grouped="true")["rows"]}

    assert set(rows) == {"baseline", "cumulative-drift", "llm"}
    assert rows["baseline"]["others"] == ["baseline again"]
    assert "others" not in rows["llm"]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("causality=x", ("'x'", *CAUSALITIES)),
        ("causality=", ("''", *CAUSALITIES)),
        ("knowledge=Live", ("'Live'", "live", "committed-before", "history")),
        ("grouped=perhaps", ("grouped", "boolean")),
        ("knowlege=live", ("knowlege", "knowledge")),
    ],
)
def test_a_bad_value_is_named_with_those_that_there_are(served, query, named):
    detail = assert_problem(served.nobody.get(f"/leaderboard?{query}"), 422)["detail"]

    assert all(word in detail for word in named)


def test_an_unchanged_leaderboard_is_not_sent_again(served):
    first = served.nobody.get("/leaderboard")
    tag = first.headers["etag"]

    again = served.nobody.get("/leaderboard", headers={"If-None-Match": tag})
    narrowed = served.nobody.get("/leaderboard?limit=1", headers={"If-None-Match": tag})

    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    assert again.headers["etag"] == tag
    assert first.headers["cache-control"] == again.headers["cache-control"] == "no-cache"
    assert (narrowed.status_code, len(narrowed.json()["rows"])) == (200, 1)


def test_a_sealed_run_changes_the_tag(keys):
    with serving.api(keys) as served:
        tag = served.nobody.get("/leaderboard").headers["etag"]

        served.post("/backtests", BACKTEST, by=served.nobody)

        changed = served.nobody.get("/leaderboard", headers={"If-None-Match": tag})
        assert changed.status_code == 200
        assert changed.headers["etag"] != tag
        assert [row["agent_id"] for row in changed.json()["rows"]] == ["baseline (anonymous)"]


def test_nobody_pays_twice_for_an_answer_that_has_not_changed(keys):
    with serving.api(keys) as served:
        served.post("/backtests", BACKTEST, by=served.nobody)
        first = served.get("/leaderboard")
        with served.app.state.application.leaderboard.database.write() as connection:
            connection.execute(update(standings).values(runs=99))  # which no code does without a new revision

        assert served.get("/leaderboard") == first
        assert served.get("/leaderboard", limit=1)["rows"][0]["runs"] == 99


def test_the_client_asks_for_the_same(served):
    with Client(served.url) as client:
        narrowed, grouped = client.leaderboard(causality="transcript", limit=5), client.leaderboard(grouped=True)

    assert [row["agent_id"] for row in narrowed["rows"]] == ["llm"]
    assert len(grouped["rows"]) == 3
