"""Lists in pages, each continued by the header ``Link``."""

import shutil
import time
from urllib.parse import urlsplit

import orjson
import polars as pl
import pytest
from sqlalchemy import select

from clvlab.arena.competitions.requests import CompetitionConfig
from clvlab.arena.packs import bundled_catalog
from clvlab.store import competitions, instances
from clvlab.store.tables import competitions as table
from tests.length import any_store, few
from tests.service import serving
from tests.service.serving import BACKTEST, BOUND, CONFIG, DEPLOY, assert_problem, make_entry
from tests.service.tokens import ALICE
from tests.waiting import until


def pages(api, url, **params):
    """Every page of a list, from one ``Link`` to the next."""
    found, response = [], api.nobody.get(url, params=params or None)
    while True:
        assert response.status_code == 200, response.text
        found.append(response.json())
        link = response.links.get("next")
        if link is None:
            return found
        assert not urlsplit(link["url"]).netloc
        response = api.nobody.get(link["url"])


def ids(page):
    return [entry["competition_id"] for entry in page]


@pytest.fixture(scope="module")
def made(api):
    """Competitions: four drafts, the last two of Bob and the last without a pack, and one that was run."""
    created = [
        api.post("/competitions", config, by=by)["competition_id"]
        for config, by in ((BOUND, api.alice), (BOUND, api.alice), (BOUND, api.bob), (CONFIG, api.bob))
    ]
    return [*created, api.started()[0]]


def add_competitions(api, owner, count):
    config = CompetitionConfig.model_validate(CONFIG).snapshot()
    row = {"owner": owner, "status": "draft", "config": config, "roster_size": 3, "created_ts_ms": 7, "updated_ts_ms": 7}
    with api.app.state.application._database.write() as connection:
        for number in range(count):
            competitions.add(connection, row | {"competition_id": f"{owner}-{number:05}"})


def test_a_list_is_newest_first_in_pages_of_a_hundred(api, made):
    owner = "did:key:prolific"
    add_competitions(api, owner, 201)
    found = pages(api, "/competitions", owner=owner)

    assert [one for one in ids(api.get("/competitions", limit=200)) if one in made] == made[::-1]
    assert [len(page) for page in found] == [100, 100, 1]
    assert [one for page in found for one in ids(page)] == [f"{owner}-{number:05}" for number in reversed(range(201))]


@pytest.mark.parametrize("limit", [7, 200])
def test_pages_hold_the_whole_list_in_its_order(api, made, limit):
    with api.app.state.application._database.read() as connection:
        rows = connection.execute(select(table.c.competition_id).order_by(table.c.created_ts_ms, table.c.competition_id))
        whole = list(rows.scalars())[::-1]
    found = pages(api, "/competitions", limit=limit)

    assert all(len(page) <= limit for page in found)
    assert [one for page in found for one in ids(page)] == whole
    assert set(made) <= set(whole)


def test_pages_keep_their_filters(api, made):
    filters = {"status": "DRAFT", "owner": "did:key:bob", "limit": 1}
    found = [ids(page) for page in pages(api, "/competitions", **filters)]

    assert {made[2], made[3]} <= {one for page in found for one in page}
    assert not {made[0], made[1], made[4]} & {one for page in found for one in page}


@pytest.mark.parametrize(
    ("filters", "present"),
    [
        ({"pack_id": "starter"}, [4, 2, 1, 0]),
        ({"pack_id": "starter", "owner": "did:key:bob"}, [2]),
        ({"owner": "did:key:alice"}, [4, 1, 0]),
        ({"owner": "did:key:alice", "status": "FINALIZED"}, [4]),
        ({"owner": "did:key:nobody"}, []),
        ({"pack_id": "\x00"}, []),
        ({"pack_id": ""}, []),
    ],
    ids=str,
)
def test_filters_hold_together(api, made, filters, present):
    found = ids(api.get("/competitions", **filters, limit=200))

    assert [made.index(one) for one in found if one in made] == present


@pytest.mark.usefixtures("made")
def test_what_comes_and_goes_between_two_pages_moves_nothing(api):
    there = [one for page in pages(api, "/competitions", owner="did:key:alice", limit=200) for one in ids(page)]
    first = api.nobody.get("/competitions", params={"owner": "did:key:alice", "limit": 2})
    doomed = api.post("/competitions", CONFIG)["competition_id"]
    late = api.post("/competitions", CONFIG)["competition_id"]
    api.alice.delete(f"/competitions/{doomed}")

    rest = [one for page in pages(api, first.links["next"]["url"]) for one in ids(page)]

    assert ids(first.json()) + rest == there
    assert late == ids(api.get("/competitions", owner="did:key:alice", limit=1))[0]


def test_a_cursor_goes_on_where_its_competition_was_deleted(api):
    owner = "did:key:carol"
    headers = {"Authorization": f"Bearer {api.token(owner)}"}
    for _ in range(3):
        api.post("/competitions", CONFIG, by=api.nobody, headers=headers)
    there, first = ids(api.get("/competitions", owner=owner)), api.nobody.get(f"/competitions?owner={owner}&limit=2")

    api.nobody.delete(f"/competitions/{there[1]}", headers=headers)

    assert ids(first.json()) + ids(api.nobody.get(first.links["next"]["url"]).json()) == there


# Every list, from one link to the next, while others add to it.


LISTS = [
    "competitions", "runs", "runs of an agent", "backtests", "instances", "log", "leaderboard", "leaderboard, grouped",
    "events", "runtime events", "decisions", "decisions by CLV", "fixtures", "packs",
]  # fmt: skip


@pytest.fixture(scope="module")
def lists(api, made):
    """Path, field and key of every list; its query; and a request that adds to it."""
    run_id = api.get(f"/competitions/{made[4]}")["run_id"]
    instance = api.post("/agents/deploy", DEPLOY)["instance_id"]
    deploys = api.app.state.application.deploys
    until(lambda: deploys.runtime_events(ALICE, instance)["events"][-1]["type"] == "RUN_SEALED")
    for number in range(5):
        api.post("/backtests", BACKTEST | {"window_id": f"early {number}"}, by=api.nobody)
        api.post("/agents/deploy", DEPLOY | {"params": {"stake": 50 + number}})

    def backtest(number):
        api.post("/backtests", BACKTEST | {"window_id": f"late {number} {time.time_ns()}"}, by=api.nobody)

    def deploy(number):
        api.post("/agents/deploy", DEPLOY | {"params": {"stake": 100 + number}})

    def ranked(number):
        created = api.competition(agents=())
        name = f"late {number} {time.time_ns()}"
        api.post(f"/competitions/{created}/agents", make_entry(agent_id=name, config={"stake": 100 + number}))
        api.post(f"/competitions/{created}/start")

    def logged(_):
        event = {"kind": "FEED_HEALTH", "run_id": run_id, "evidence": False, "payload": {}}
        noted = {"type": "AGENT_ACTION", "agent_id": "a", "run_id": "r", "session_id": "s", "payload": {}}
        with api.app.state.application._database.write() as connection:
            competitions.append(connection, made[4], time.time_ns() // 10**6, [event])
            instances.append(connection, instance, 1, [noted])

    return {
        "competitions": ("/competitions", None, "competition_id", {}, lambda _: api.post("/competitions", CONFIG)),
        "runs": ("/runs", "runs", "run_id", {}, backtest),
        "runs of an agent": ("/runs", "runs", "run_id", {"agent_id": "baseline"}, backtest),
        "backtests": ("/backtests", "backtests", "backtest_id", {}, backtest),
        "instances": ("/agents/instances", "instances", "instance_id", {}, deploy),
        "log": ("/log/entries", "entries", "index", {}, backtest),
        "leaderboard": ("/leaderboard", "rows", "agent_id", {}, ranked),
        "leaderboard, grouped": ("/leaderboard", "rows", "agent_id", {"grouped": "true"}, ranked),
        "events": (f"/competitions/{made[4]}/events", None, "seq", {"since_seq": -1}, logged),
        "runtime events": (f"/agents/instances/{instance}/runtime-events", "events", "id", {}, logged),
        "decisions": (f"/runs/{run_id}/decisions", "decisions", "seq", {}, backtest),
        "decisions by CLV": (f"/runs/{run_id}/decisions", "decisions", "seq", {"sort": "-clv"}, backtest),
        "fixtures": ("/replay-packs/season/fixtures", "fixtures", "fixture_id", {}, backtest),
        "packs": ("/replay-packs", "packs", "pack_id", {}, backtest),
    }


@few(10)
@pytest.mark.parametrize("name", LISTS)
def test_every_list_is_paged_through_by_its_links_while_rows_are_added_and_none_is_lost_or_doubled(api, lists, name):
    path, field, key, query, add = lists[name]

    def walked(limit, between):
        found, number, response = [], 0, api.alice.get(path, params=query | {"limit": limit})
        while True:
            assert response.status_code == 200, response.text
            page = [entry[key] for entry in (response.json() if field is None else response.json()[field])]
            assert 0 < len(page) <= limit
            found += page
            link = response.links.get("next")
            if link is None:
                return found
            assert not urlsplit(link["url"]).netloc
            if number < 3:
                between(number)
            number += 1
            response = api.alice.get(link["url"])

    there = walked(100, lambda _: None)
    found = walked(max(len(there) // 3, 1), add)

    assert len(found) == len(set(found)) >= len(there) > 1
    assert [one for one in found if one in set(there)] == there


@few(2)
@pytest.mark.parametrize("name", ["decisions", "fixtures"])
def test_a_table_in_arrow_is_paged_through_by_the_same_links(api, lists, name):
    path, field, key, *_ = lists[name]
    whole = [row[key] for row in api.get(path, limit=1000)[field]]
    headers, found = {"Accept": "application/vnd.apache.arrow.stream"}, []
    response = api.nobody.get(path, params={"limit": 2}, headers=headers)
    while True:
        found += pl.read_ipc_stream(response.content)[key].to_list()
        if "next" not in response.links:
            break
        response = api.nobody.get(response.links["next"]["url"], headers=headers)

    assert list(dict.fromkeys(found)) == whole


@pytest.mark.parametrize("name", LISTS)
def test_a_list_names_its_next_page_unless_there_is_none_and_head_does_too(api, lists, name):
    path, _, _, query, _ = lists[name]
    short = ("/competitions", "/runs", "/backtests", "/agents/instances", "/replay-packs")
    most = 200 if path in short else 1000
    alone = {"owner": "did:key:nobody"} if path in ("/competitions", "/runs") else {}

    whole = api.alice.get(path, params=query | alone | {"limit": most})

    assert whole.status_code == 200, whole.text
    assert "link" not in whole.headers
    assert "next" in api.alice.head(path, params=query | {"limit": 1}).links


def test_objects_that_have_a_life_say_whose_they_are_and_when_they_were_made_and_changed(api, made, lists):
    path = lists["runtime events"][0].removesuffix("/runtime-events")
    state, backtest = api.get(f"/competitions/{made[4]}"), api.get("/backtests", limit=1)["backtests"][0]
    listed = {one["competition_id"]: one for one in api.get("/competitions", owner=ALICE, status="FINALIZED", limit=200)}
    instances = {one["instance_id"]: one for one in api.get("/agents/instances", by=api.alice, limit=200)["instances"]}
    listed_runs = {one["run_id"]: one for one in api.get("/runs", owner=ALICE, limit=200)["runs"]}
    found = {
        "competition": (ALICE, state),
        "competition in a list": (ALICE, listed[made[4]]),
        "run": (ALICE, api.get(f"/runs/{state['run_id']}")["run"]),
        "run in a list": (ALICE, listed_runs[state["run_id"]]),
        "instance": (ALICE, api.get(path, by=api.alice)),
        "instance in a list": (ALICE, instances[path.rpartition("/")[2]]),
        "backtest": ("anonymous", api.get(f"/backtests/{backtest['backtest_id']}")),
        "backtest in a list": ("anonymous", backtest),
    }

    for name, (owner, one) in found.items():
        assert one["owner"] == owner, name
        assert 10**12 < one["created_ts_ms"] <= one["updated_ts_ms"] < 10**13, name
        alone = found[name.removesuffix(" in a list")][1]
        assert [one[key] for key in ("created_ts_ms", "updated_ts_ms")] == [
            alone[key] for key in ("created_ts_ms", "updated_ts_ms")
        ]


def test_every_change_of_a_competition_dates_it(api):
    created = api.competition(agents=())
    path, seen = f"/competitions/{created}", []
    for act in (
        lambda: None,
        lambda: api.post(f"{path}/agents", make_entry()),
        lambda: api.alice.delete(f"{path}/agents/baseline"),
        lambda: api.post(f"{path}/open"),
        lambda: api.post(f"{path}/agents", make_entry()),
        lambda: api.post(f"{path}/start"),
        lambda: api.post(f"{path}/complete"),
    ):
        time.sleep(0.002)
        act()
        state = api.get(path)
        seen.append(state["updated_ts_ms"])

    assert seen == sorted(set(seen))
    assert state["created_ts_ms"] <= seen[0]


@any_store
@pytest.mark.parametrize(
    "wrong",
    [{"limit": 0}, {"limit": 201}, {"limit": "x"}, {"cursor": "garbage"}, {"cursor": ""}, {"cursor": "1.\x00"}],
    ids=str,
)
def test_limits_are_bounded_and_cursors_checked(api, wrong):
    assert_problem(api.nobody.get("/competitions", params=wrong), 422)


def test_events_are_limited_to_the_first_after_since_seq(api, made):
    path = f"/competitions/{made[4]}/events"
    whole = api.get(path, since_seq=-1)

    assert api.get(path, since_seq=-1, limit=3) == whole[:3]
    assert api.get(path, limit=2) == whole[1:3]
    assert api.get(path, since_seq=whole[-3]["seq"], limit=10_000) == whole[-2:]
    assert api.get(path, since_seq=whole[-1]["seq"], limit=1) == []


@any_store
@pytest.mark.parametrize("limit", [0, -1, 10_001, "x"])
def test_the_limit_of_events_is_bounded(api, made, limit):
    assert_problem(api.nobody.get(f"/competitions/{made[4]}/events", params={"limit": limit}), 422)


@pytest.mark.usefixtures("made")
def test_the_leaderboard_in_pages_is_the_whole_one(api):
    api.quiet()
    whole = api.get("/leaderboard")["rows"]
    pages = [api.get("/leaderboard", after_rank=number, limit=1)["rows"] for number in range(len(whole) + 1)]
    paged = [row for page in pages for row in page]

    assert len(whole) > 1
    assert [(row["agent_id"], row["rank"]) for row in paged] == [(row["agent_id"], row["rank"]) for row in whole]


@pytest.mark.usefixtures("made")
def test_pages_of_the_leaderboard_that_begin_at_a_rank_go_on_by_links(api):
    api.quiet()
    whole = pages(api, "/leaderboard", limit=1000)[0]["rows"]

    found = pages(api, "/leaderboard", after_rank=1, limit=1)

    assert [row for page in found for row in page["rows"]] == whole[1:]


@any_store
@pytest.mark.parametrize(
    "wrong", ["cursor=1.AAAA&after_rank=1", "cursor=garbage", "cursor=", "limit=0", "limit=1001", "after_rank=-1", "limit=x"]
)
def test_pages_of_the_leaderboard_are_bounded(api, wrong):
    assert_problem(api.nobody.get(f"/leaderboard?{wrong}"), 422)


def test_a_client_that_has_the_last_page_hears_of_the_next_one(keys, tmp_path):
    """A new pack after the last one changes the header ``Link`` of a page, and not its body."""
    folder = shutil.copytree(bundled_catalog().folder, tmp_path / "packs")
    entries = bundled_catalog().entries()
    (folder / "catalog.json").write_bytes(orjson.dumps({"season": entries["season"]}))
    with serving.api(keys, packs=folder) as found:
        last = found.nobody.get("/replay-packs", params={"limit": 1})
        (folder / "catalog.json").write_bytes(orjson.dumps(entries))
        again = found.nobody.get("/replay-packs", params={"limit": 1}, headers={"If-None-Match": last.headers["etag"]})
        kept = found.nobody.get("/replay-packs", params={"limit": 1}, headers={"If-None-Match": again.headers["etag"]})

    assert "next" not in last.links
    assert (again.status_code, again.json()) == (200, last.json())
    assert "cursor=season" in again.links["next"]["url"]
    assert kept.status_code == 304
