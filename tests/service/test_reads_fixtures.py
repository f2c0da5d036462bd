"""Fixtures of a pack: what there is to choose a replay by."""

import io

import polars as pl
import pytest

from clvlab.arena.packs import bundled_catalog
from tests.service.serving import FIXTURE, assert_problem

ARROW = "application/vnd.apache.arrow.stream"
PATH = "/replay-packs/season/fixtures"


@pytest.fixture(scope="module")
def season(api):
    """All fixtures of a pack, in one answer."""
    return api.get(PATH, limit=1000)


def arrow(response):
    assert response.headers["content-type"] == ARROW, response.text[:500]
    return pl.read_ipc_stream(io.BytesIO(response.content))


def test_a_fixture_shows_names_times_and_markets_as_the_pack_has_them(api):
    pack = bundled_catalog().open("starter")
    ticks = pack.tape([FIXTURE]).ticks().collect()
    answer = api.get("/replay-packs/starter/fixtures")

    about = {name: value for name, value in answer.items() if name != "fixtures"}
    assert about == {
        "pack_id": "starter", "content_hash": pack.content_hash, "kickoff": "scheduled", "gaps": [], "quality": None,
        "total": 12, "next_cursor": None,
    }  # fmt: skip
    shown, declared = answer["fixtures"][0], pack.manifest.fixtures[0]
    assert [fixture["fixture_id"] for fixture in answer["fixtures"]] == list(pack.fixture_ids)
    markets = shown.pop("markets")
    assert shown == {
        "fixture_id": FIXTURE, "names": list(declared.names), "source_id": None,
        "announced_ts_ms": declared.kickoff_ts_ms, "kickoff_ts_ms": declared.kickoff_ts_ms,
        "first_ts_ms": ticks["ts_ms"].min(), "last_ts_ms": ticks["ts_ms"].max(), "ticks": ticks["tick_seq"].n_unique(),
    }  # fmt: skip
    for market in markets:
        own = ticks.filter(pl.col("market_key") == market["market_key"])
        assert market["sides"] == sorted(set(own["side"]))
        assert market["ticks"] == own["tick_seq"].n_unique()
    assert [market["market_key"] for market in markets] == sorted(set(ticks["market_key"]))


def test_pages_follow_each_other_without_gap_or_repetition(api, season):
    found, cursor = [], {}
    while cursor is not None:
        page = api.get(PATH, limit=77, **cursor)
        assert len(page["fixtures"]) <= 77
        assert page["total"] == season["total"]
        found += page["fixtures"]
        cursor = page["next_cursor"] and {"cursor": page["next_cursor"]}

    assert found == season["fixtures"]


def test_pages_of_arrow_link_to_the_next(api, season):
    found, url = [], f"{PATH}?limit=130"
    while url:
        response = api.nobody.get(url, headers={"Accept": ARROW})
        found += arrow(response).to_dicts()
        url = response.links and response.url.join(response.links["next"]["url"])

    assert found == season["fixtures"]


def test_as_arrow_all_fixtures_come_unless_a_limit_is_given(api, season):
    every = arrow(api.nobody.get(PATH, headers={"Accept": ARROW}))

    assert every.to_dicts() == season["fixtures"]
    assert arrow(api.nobody.get(f"{PATH}?limit=5", headers={"Accept": ARROW})).height == 5


def test_fixtures_are_chosen_by_kickoff_and_market(api, season):
    kickoffs = sorted({fixture["announced_ts_ms"] for fixture in season["fixtures"]})
    after, before = kickoffs[2], kickoffs[5]
    prefix = "1X2"

    chosen = api.get(PATH, after=after, before=before, market=prefix)

    expected = [one for one in season["fixtures"] if after <= one["announced_ts_ms"] < before]
    assert [one["fixture_id"] for one in chosen["fixtures"]] == [one["fixture_id"] for one in expected]
    assert chosen["total"] == len(expected) > 0
    for one in chosen["fixtures"]:
        assert one["markets"]
        assert all(market["market_key"].startswith(prefix) for market in one["markets"])


@pytest.mark.parametrize("query", ["market=none", "after=9000000000000000", "before=-1", "market=%00", "market=%ED%A0%80"])
def test_what_no_fixture_has_gives_an_empty_page(api, query):
    answer = api.nobody.get(f"{PATH}?{query}").json()

    assert (answer["fixtures"], answer["total"], answer["next_cursor"]) == ([], 0, None)


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "cursor=x",
        "cursor=%00",
        f"cursor={'9' * 30}",
        f"after={2**63}",
        "before=x",
        "market=" + "m" * 201,
    ],
)
def test_a_query_of_the_wrong_form_is_refused(api, query):
    assert_problem(api.nobody.get(f"{PATH}?{query}"), 422)


@pytest.mark.parametrize("pack_id", ["absent", "..%2Fstarter", "%00", "a" * 300])
def test_an_unknown_pack_is_404(api, pack_id):
    assert_problem(api.nobody.get(f"/replay-packs/{pack_id}/fixtures"), 404)
