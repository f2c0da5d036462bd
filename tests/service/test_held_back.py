"""Whatever is read of a service that holds a pack back: nothing of it but what a seat shows."""

import re
from itertools import product

import pytest

from clvlab.packs.synthetic import Recipe, build, synthetic
from clvlab.packs.verification import verify_pack
from clvlab.packs.writer import write_pack
from tests.service.serving import BACKTEST, BOUND, DEPLOY
from tests.service.serving import api as serve_api
from tests.waiting import until

SHIFT = 7_000_000
ACCEPTED = ("application/json", "text/html")
PARAMETER = re.compile(r"\{(\w+)\}")


@pytest.fixture(scope="module")
def vault(tmp_path_factory):
    """A pack whose names, ids and times no other pack has."""
    recipe, folder = Recipe(seed=977, fixtures=3, messages=25), tmp_path_factory.mktemp("held")
    made, manifest = synthetic(recipe), build(recipe, folder / "like")
    fixtures = tuple(
        one.model_copy(
            update={
                "fixture_id": one.fixture_id + SHIFT,
                "names": (f"Zebra{number} Rovers", f"Quagga{number} City"),
                "kickoff_ts_ms": one.kickoff_ts_ms + 12_345,
            }
        )
        for number, one in enumerate(made.fixtures)
    )
    ticks, results = (frame.with_columns(frame["fixture_id"] + SHIFT) for frame in (made.ticks, made.results))
    manifest = manifest.model_copy(update={"pack_id": "vault", "recipe": None, "fixtures": fixtures})
    write_pack(ticks, manifest, folder / "vault", results=results)
    return verify_pack(folder / "vault")


@pytest.fixture(scope="module")
def holding(keys, vault):
    with serve_api(keys) as found:
        found.app.state.application.seats.held.hold_back(vault.folder)
        yield found


def secrets_of(vault, left=()):
    """Texts that only the pack has, of its fixtures but those in ``left``."""
    fixtures = [one for one in vault.manifest.fixtures if one.fixture_id not in left]
    words = [str(word) for one in fixtures for word in (one.fixture_id, *one.names, one.kickoff_ts_ms, one.digest)]
    return {*words, *(word.removeprefix("sha256:") for word in words), str(vault.folder)}


def read_everything(api, vault, **known):
    """Every answer to a read of the service, by anybody, where a path or a query can name the pack, its fixtures or a seat."""
    ids = list(vault.fixture_ids)
    named = {"pack_id": ["vault"], "fixture_id": ids, "fixture_ids": ids[:1]} | {name: [value] for name, value in known.items()}
    for path, operations in api.app.openapi()["paths"].items():
        if "get" not in operations or "stream" in path or "events" in path:
            continue
        declared = operations["get"].get("parameters", ())
        query = [one["name"] for one in declared if one["in"] == "query" and one["name"] in named]
        free = PARAMETER.findall(path)
        for values in product(*(named.get(name, ["vault", "0"]) for name in free), *(named[name] for name in query)):
            url = PARAMETER.sub("{}", path).format(*values)
            params = dict(zip(query, values[len(free) :], strict=True))
            for by, accept in product((api.alice, api.nobody), ACCEPTED):
                answer = by.get(url, params=params, headers={"Accept": accept})
                yield f"{url} {params}", answer.text + str(answer.headers)
    for path, body in {
        "/backtests": BACKTEST,
        "/competitions": BOUND,
        "/deploys": DEPLOY,
        "/arena/seats": {"agent_id": "x", "blind": "open"},
    }.items():
        for fixture in ({"fixture_id": ids[0]}, {"fixture_ids": ids}, {"fixture_ids": "all", "fixture_id": None}, {}):
            answer = api.bob.post(path, json={**body, **fixture, "pack_id": "vault"})
            assert answer.status_code >= 400 or path == "/competitions", (path, answer.text)
            yield path, answer.text.replace(f"unknown fixture {ids[0]}", "")


def found_in(answers, secrets):
    return {(where, word) for where, text in answers for word in secrets if word in text}


def test_no_read_shows_anything_of_a_pack_that_is_held_back(holding, vault):
    named = {str(one) for one in vault.fixture_ids}  # whoever guesses an id hears it again
    start = holding.post("/arena/seats", {"agent_id": "me", "pack_id": "vault", "blind": "held-back"})
    tick, own = start["next"], {"seat_id": start["seat_id"], "run_id": start["run_id"]}
    for _ in range(5):
        answer = holding.post(f"/arena/seats/{start['seat_id']}/actions", {"tick": tick["view"]["tick"]})
        tick = answer["next"]

    before = list(read_everything(holding, vault, **own))
    while tick:
        said = {"tick": tick["view"]["tick"]}
        if said["tick"] == 9:
            said |= {"action": "BACK", "side": tick["view"]["sides"][0][0]}
        tick = holding.post(f"/arena/seats/{start['seat_id']}/actions", said)["next"]
    until(lambda: holding.get(f"/arena/seats/{start['seat_id']}", by=holding.alice)["status"] == "sealed")
    dealt = holding.get(f"/arena/seats/{start['seat_id']}", by=holding.alice)["fixture_ids"]
    after = list(read_everything(holding, vault, **own))

    assert len(before) > 250
    assert found_in(before, secrets_of(vault) - named) == set()
    assert found_in(after, secrets_of(vault, left=dealt) - named) == set()
    assert found_in(after, {str(dealt[0])})  # so that a search finds what is there
