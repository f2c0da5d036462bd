"""Room in the store: what is refused without any, what is left of a removed run, and evidence that is sent as it lies."""

import gzip

import httpx2
import pytest

from tests.service import serving
from tests.service.serving import BACKTEST, BOUND, assert_problem


def raw(served, path, **headers):
    """An answer whose content coding nobody undid."""
    with httpx2.stream("GET", f"{served.url}{path}", headers=headers) as response:
        return response, b"".join(response.iter_raw())


@pytest.mark.parametrize("path", ["evidence", "scores"])
def test_lines_are_sent_as_they_lie_to_whoever_takes_gzip(api, path):
    run_id = api.post("/backtests", BACKTEST, by=api.nobody)["run_id"]
    plain, whole = raw(api, f"/runs/{run_id}/{path}", **{"Accept-Encoding": "identity"})
    packed, sent = raw(api, f"/runs/{run_id}/{path}", **{"Accept-Encoding": "deflate, gzip;q=0.5"})
    refusing, unpacked = raw(api, f"/runs/{run_id}/{path}", **{"Accept-Encoding": "gzip;q=0, identity"})

    assert (packed.headers["content-encoding"], gzip.decompress(sent)) == ("gzip", whole)
    assert int(packed.headers["content-length"]) == len(sent) < len(whole)
    assert "content-encoding" not in plain.headers.keys() | refusing.headers.keys()
    assert unpacked == whole
    assert packed.headers["etag"] != plain.headers["etag"]
    assert {"accept", "accept-encoding"} <= {name.strip().lower() for name in packed.headers["vary"].split(",")}
    again = {"Accept-Encoding": "gzip", "If-None-Match": packed.headers["etag"]}
    assert raw(api, f"/runs/{run_id}/{path}", **again)[0].status_code == 304
    as_bytes = {"Accept-Encoding": "gzip", "Accept": "application/octet-stream"}
    named, sent = raw(api, f"/runs/{run_id}/{path}", **as_bytes)
    assert (named.headers["content-type"], gzip.decompress(sent)) == ("application/octet-stream", whole)


def test_a_removed_run_is_gone_with_its_hashes_until_it_is_asked_for_again(api):
    answer = api.post("/backtests", BACKTEST | {"window_id": "kept for a while"}, by=api.nobody)
    run_id, backtest_id = answer["run_id"], answer["backtest_id"]
    hashes = api.get(f"/runs/{run_id}")["evidence"]
    application = api.app.state.application
    application.retention.apply(-1)

    for path in ("", "/checks", "/log", "/evidence", "/scores", "/manifest", "/bundle", "/actions/1", "/decisions"):
        problem = assert_problem(api.nobody.get(f"/runs/{run_id}{path}"), 410)
        assert {name: problem[name] for name in hashes} == hashes
        assert problem["type"] == "urn:clvlab:problem:run-removed"
    assert_problem(api.nobody.post(f"/runs/{run_id}/verify"), 410)
    for path in ("", "/tear-sheet"):
        assert_problem(api.nobody.get(f"/backtests/{backtest_id}{path}"), 410)
    assert api.get(f"/runs/{run_id}/progress")["status"] == "removed"
    assert run_id in {run["run_id"] for run in api.get("/runs", status="removed", limit=200)["runs"]}

    assert api.post("/backtests", BACKTEST | {"window_id": "kept for a while"}, by=api.nobody) == answer
    assert api.get(f"/runs/{run_id}")["evidence"] == hashes


def instances(api):
    """Ids alone: those of other tests may go on meanwhile."""
    return [one["instance_id"] for one in api.get("/agents/instances", by=api.alice)["instances"]]


def test_runs_without_room_are_507_and_leave_nothing(store, keys):
    with serving.api(keys, store, max_public_run_bytes=0, max_owner_run_bytes=0) as served:
        competition_id = served.competition(BOUND, agents=("baseline",))
        deploy = {"strategy": "baseline", "source_mode": "replay", "pack_id": "starter"}
        before = instances(served)
        for response in (
            served.nobody.post("/backtests", json=BACKTEST | {"window_id": "no room"}),
            served.alice.post(f"/competitions/{competition_id}/start"),
            served.alice.post("/agents/deploy", json=deploy),
        ):
            problem = assert_problem(response, 507)
            assert "bytes of the 0 allowed; nothing was started" in problem["detail"]
        assert served.get(f"/competitions/{competition_id}")["status"] == "draft"
        assert instances(served) == before
