"""Doors of a service that holds a pack back: none but its seats leads to the pack."""

import re
from hashlib import sha256

import orjson
import pytest

from clvlab.arena.application import Application
from clvlab.packs.reader import load_pack
from clvlab.packs.synthetic import Recipe, build
from tests.service.serving import api as serve_api


@pytest.fixture
def vault(tmp_path):
    build(Recipe(seed=977, fixtures=2, messages=20), tmp_path / "vault")
    return load_pack(tmp_path / "vault")


@pytest.fixture
def served(keys, tmp_path, vault):
    """A service whose operator holds the pack back, and one seat over it that plays."""
    url = f"sqlite:///{tmp_path / 'clvlab.db'}"
    operator = Application(url)
    operator.seats.held.hold_back(vault.folder)
    with serve_api(keys, url) as api:
        yield api, operator
    operator.close()


SEAT = {"agent_id": "me", "blind": "held-back"}


def secrets_of(vault):
    """What nothing but a sealed seat may say: names, ids, kickoffs."""
    fixtures = vault.manifest.fixtures
    return {*(name for one in fixtures for name in one.names), *(str(one.kickoff_ts_ms) for one in fixtures)}


def test_no_door_leads_to_a_pack_that_is_held_back(served, vault):
    api, _ = served
    start = api.post("/arena/seats", SEAT, expect=201)
    run = {"pack_id": "vault", "fixture_id": vault.fixture_ids[0]}
    agents = {"strategy": "cumulative-drift", "source_mode": "replay"}
    api.post("/backtests", run | {"window_id": "full", "market_allowlist": [""]}, expect=404)
    config = {"competition_type": "arena", "source_mode": "replay", "market_scope": "all", "roster_size": 2, **run}
    api.post("/competitions", config, expect=400)
    api.post("/agents/deploy", agents | run, expect=422)
    for blind in ("open", "aliased"):
        api.post("/arena/seats", SEAT | {"blind": blind, "pack_id": "vault"}, expect=404)
    api.post("/arena/seats", SEAT | {"fixture_ids": [vault.fixture_ids[0]]}, expect=422)
    api.post("/arena/seats", SEAT | {"pack_id": "starter"}, expect=404)
    read = [api.get(path) for path in ("/replay-packs", "/runs", "/competitions", "/leaderboard", "/log", "/arena/held-packs")]
    read += [api.get(path, by=api.alice) for path in ("/arena/seats", f"/arena/seats/{start['seat_id']}", "/me")]
    pages = [
        api.nobody.get(path, headers={"Accept": "text/html"}).text for path in ("/", "/replay-packs", "/runs", "/leaderboard")
    ]
    for path in ("/replay-packs/vault", "/replay-packs/vault/fixtures", f"/runs/{start['run_id']}"):
        api.get(path, expect=404)
    api.get("/arena/held-packs/vault/fixtures", expect=409)
    api.get("/arena/held-packs/none/fixtures", expect=404)

    said = orjson.dumps(read).decode() + "".join(pages)
    assert not [one for one in secrets_of(vault) if one in said]
    assert read[0] == api.get("/replay-packs")
    assert "vault" not in orjson.dumps(read[:4]).decode() + "".join(pages)


def test_a_sealed_seat_shows_its_own_fixture_and_no_other(served, vault):
    api, operator = served
    start = api.post("/arena/seats", SEAT, expect=201)
    tick = start["next"]
    while tick:
        body = {"tick": tick["view"]["tick"], "action": "BACK", "side": tick["view"]["sides"][0][0]}
        tick = api.post(f"/arena/seats/{start['seat_id']}/actions", body)["next"]
    operator.jobs.require_sealed(start["run_id"])

    [own] = api.get(f"/arena/seats/{start['seat_id']}", by=api.alice)["fixture_ids"]
    other = next(one for one in vault.manifest.fixtures if one.fixture_id != own)
    run = f"/runs/{start['run_id']}"
    paths = ("", "/decisions", "/events", "/bundle")
    said = b"".join(api.nobody.get(run + path).content for path in paths).decode()
    page = api.nobody.get(run, headers={"Accept": "text/html"}).text
    assert str(own) in said
    assert not re.search(rf"\b{other.fixture_id}\b|{'|'.join(map(re.escape, other.names))}", said + page)
    assert "its pack was held back" in page
    assert "Its owner took 1 seat over this pack (0 abandoned), and 1 seat over 1 pack." in page
    [row] = api.get("/leaderboard", knowledge="held-back")["rows"]
    assert (
        "its owner took 1 seat over 1 pack (0 abandoned)"
        in api.nobody.get("/leaderboard", headers={"Accept": "text/html"}).text
    )
    assert (row["hindsight_possible"], row["causality"]) == (False, "asked")


def test_the_bytes_of_the_opened_list_have_the_hash_of_the_log(served, vault):
    api, operator = served
    operator.seats.held.release("vault")

    [info] = api.get("/arena/held-packs")["packs"]
    listing = api.nobody.get("/arena/held-packs/vault/fixtures").content

    assert f"sha256:{sha256(listing).hexdigest()}" == info["fixtures_hash"]
    assert [one["fixture_id"] for one in orjson.loads(listing)["fixtures"]] == list(vault.fixture_ids)
    assert api.post("/arena/seats", SEAT, expect=404)
    assert api.post("/arena/seats", SEAT | {"pack_id": "vault"}, expect=409)["reason"] == "opened"
