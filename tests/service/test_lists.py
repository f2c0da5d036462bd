"""Lists of competitions and of their events in pages."""

from urllib.parse import urlsplit

import pytest

from tests.length import any_store
from tests.service.serving import BOUND, CONFIG, assert_problem


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


def test_a_list_without_a_limit_is_all_of_it_oldest_first_and_names_no_next_page(api, made):
    response = api.nobody.get("/competitions")

    assert [one for one in ids(response.json()) if one in made] == made
    assert "link" not in response.headers


@pytest.mark.parametrize("limit", [7, 200])
def test_pages_hold_the_whole_list_in_its_order(api, made, limit):
    whole = ids(api.get("/competitions"))
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
        ({"pack_id": "starter"}, [0, 1, 2, 4]),
        ({"pack_id": "starter", "owner": "did:key:bob"}, [2]),
        ({"owner": "did:key:alice"}, [0, 1, 4]),
        ({"owner": "did:key:alice", "status": "FINALIZED"}, [4]),
        ({"owner": "did:key:nobody"}, []),
        ({"pack_id": "\x00"}, []),
        ({"pack_id": ""}, []),
    ],
    ids=str,
)
def test_filters_hold_together(api, made, filters, present):
    found = ids(api.get("/competitions", **filters))

    assert [made.index(one) for one in found if one in made] == present


@pytest.mark.usefixtures("made")
def test_what_comes_and_goes_between_two_pages_moves_nothing(api):
    first = api.nobody.get("/competitions", params={"owner": "did:key:alice", "limit": 2})
    seen = ids(first.json())
    doomed = api.post("/competitions", CONFIG)["competition_id"]
    late = api.post("/competitions", CONFIG)["competition_id"]
    api.alice.delete(f"/competitions/{doomed}")

    rest = [one for page in pages(api, first.links["next"]["url"]) for one in ids(page)]

    assert seen + rest == ids(api.get("/competitions", owner="did:key:alice"))
    assert late in rest


def test_a_cursor_goes_on_where_its_competition_was_deleted(api):
    owner = "did:key:carol"
    headers = {"Authorization": f"Bearer {api.token(owner)}"}
    created = [api.post("/competitions", CONFIG, by=api.nobody, headers=headers)["competition_id"] for _ in range(3)]
    first = api.nobody.get("/competitions", params={"owner": owner, "limit": 2})

    api.nobody.delete(f"/competitions/{created[1]}", headers=headers)

    assert ids(api.nobody.get(first.links["next"]["url"]).json()) == created[2:]


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
    whole = api.get("/leaderboard")["rows"]
    pages = [api.get("/leaderboard", after_rank=number, limit=1)["rows"] for number in range(len(whole) + 1)]
    paged = [row for page in pages for row in page]

    assert len(whole) > 1
    assert [(row["agent_id"], row["rank"]) for row in paged] == [(row["agent_id"], row["rank"]) for row in whole]


@any_store
@pytest.mark.parametrize("wrong", ["limit=0", "limit=1001", "after_rank=-1", "limit=x"])
def test_pages_of_the_leaderboard_are_bounded(api, wrong):
    assert_problem(api.nobody.get(f"/leaderboard?{wrong}"), 422)
