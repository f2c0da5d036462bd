"""Packs by upload, over HTTP: what a caller may send, and what a hostile one gets."""

import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from clvlab.packs.synthetic import Recipe, build
from clvlab.packs.verification import verify_pack
from tests.arena.archives import files_of, tarred, zipped
from tests.booked import write_booked
from tests.service.serving import CONFIG, DEPLOY, api, assert_problem, make_entry
from tests.waiting import PATIENCE_S, until

MAX_BYTES = 400_000  # more than other bodies may have
ODDS = b"fixture,kickoff,time,market,side,odds,bookmaker\n" + b"".join(
    b"x,2025-01-01T20:00:00Z,2025-01-01T1%d:00:00Z,ML,%s,%s,b\n" % (hour, side, odds)
    for hour in range(5)
    for side, odds in ((b"home", b"2.0"), (b"away", b"1.9"))
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("uploads")


@pytest.fixture(scope="module")
def served(keys, folder):
    """A service that takes uploads."""
    with api(keys, uploads=folder, max_upload_bytes=MAX_BYTES) as found:
        yield found


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A zip of a pack of one's own."""
    folder = tmp_path_factory.mktemp("packs") / "mine"
    build(Recipe(seed=7, fixtures=1, messages=40), folder)
    return zipped(files_of(folder))


def unfinished(folder):
    return [name for _, names, _ in os.walk(folder) for name in names if name.startswith(".unfinished-")]


@pytest.fixture
def alone(keys, postgres_url, tmp_path):
    """A service that takes uploads, and whose store no other service serves."""
    with api(keys, postgres_url, uploads=tmp_path) as found:
        yield found


def test_a_pack_is_uploaded_used_and_deleted(alone, archive):
    made = alone.alice.post("/me/packs", content=archive)
    again = alone.alice.post("/me/packs", content=archive, headers={"Content-Type": "application/zip"})

    assert (made.status_code, again.status_code) == (201, 200), made.text
    assert made.headers["location"] == again.headers["location"] == "/me/packs/mine"
    assert made.json() == again.json() == alone.get("/me/packs/mine", by=alone.alice)
    assert made.json().keys() == {
        "pack_id", "content_hash", "provenance", "is_genuine", "grade", "fixtures", "bytes", "admitted", "owner",
        "created_ts_ms", "updated_ts_ms",
    }  # fmt: skip
    assert alone.get("/me/packs", by=alone.alice)["packs"] == [made.json()]

    config = CONFIG | {"pack_id": "mine"}
    competition, started = alone.started(config=config, agents=("baseline",))
    alone.post("/agents/deploy", DEPLOY | {"pack_id": "mine"})
    draft = alone.post("/competitions", config)["competition_id"]

    assert started["replay_binding"]["content_hash"] == made.json()["content_hash"]
    until(lambda: alone.get(f"/competitions/{competition}")["status"] == "finalized")
    assert "baseline" not in {row["agent_id"] for row in alone.get("/leaderboard")["rows"]}
    assert_problem(alone.bob.post("/competitions", json=config), 400)
    assert_problem(alone.nobody.get("/replay-packs/mine"), 404)
    assert_problem(alone.bob.get("/me/packs/mine"), 404)
    assert_problem(alone.bob.delete("/me/packs/mine"), 404)
    assert assert_problem(alone.alice.delete("/me/packs/mine"), 409)["reason"] == "in_use"
    alone.post(f"/competitions/{draft}/agents", make_entry())
    assert alone.alice.post(f"/competitions/{draft}/start").status_code in (200, 202)
    until(lambda: alone.get(f"/competitions/{draft}")["status"] == "finalized")
    assert alone.alice.delete("/me/packs/mine").status_code == 204
    assert_problem(alone.alice.get("/me/packs/mine"), 404)
    assert alone.post(f"/runs/{started['run_id']}/verify")["verified"]


def test_a_source_file_is_imported(served):
    about = {"pack_id": "odds", "source": "csv", "column": "book=bookmaker"}

    made = served.alice.post("/me/packs", content=ODDS, params=about, headers={"Content-Type": "text/csv"})

    assert made.status_code == 201, made.text
    assert made.json()["provenance"] == "imported-table"


def test_an_import_keeps_what_each_book_says_where_it_is_told_to(alone, tmp_path):
    two = ODDS + ODDS.partition(b"\n")[2].replace(b",b\n", b",c\n").replace(b"2.0", b"1.8").replace(b"1.9", b"2.1")
    about = {"pack_id": "odds", "source": "csv", "column": "book=bookmaker", "books": "true", "max_overround": "0.1"}

    made = alone.alice.post("/me/packs", content=two, params=about)

    assert made.status_code == 201, made.text
    (descriptor,) = tmp_path.rglob("datapackage.json")
    assert verify_pack(descriptor.parent).books == ("b", "c")


def test_an_archive_of_a_pack_of_books_is_taken(served, tmp_path):
    write_booked(tmp_path / "booked")

    made = served.alice.post("/me/packs", content=zipped(files_of(tmp_path / "booked")))

    assert made.status_code == 201, made.text


@pytest.mark.parametrize("source", ["oddsharvester", "oddsportal"])
def test_a_file_that_is_not_of_its_source_is_refused(served, source):
    problem = assert_problem(
        served.alice.post("/me/packs", content=b"a,b\n1,2\n", params={"pack_id": "a", "source": source}), 400
    )

    assert problem["type"] == "urn:clvlab:problem:upload-refused"


@pytest.mark.parametrize("body", [b"", b"hello", b"PK\x03\x04", zipped({"../evil": b"x"}), tarred({"a/datapackage.json": b""})])
def test_what_is_no_pack_is_a_problem_that_says_why_and_nothing_is_left(served, folder, body):
    problem = assert_problem(served.alice.post("/me/packs", content=body), 400)

    assert problem["type"] == "urn:clvlab:problem:upload-refused"
    assert str(folder) not in problem["detail"]
    until(lambda: unfinished(folder) == [])  # another test may have broken off an upload


SOURCE = {"source": "csv", "pack_id": "a"}
WRONG = [
    *({"pack_id": pack_id, "source": "csv"} for pack_id in ("a/b", "..", ".x", "a\x00b", "x" * 300, "é", "a\n", "")),
    {"source": "csv"},
    SOURCE | {"source": "nothing"},
    SOURCE | {"filename": "../x"},
    SOURCE | {"books": "perhaps"},
    SOURCE | {"max_overround": "much"},
    {"books": "true"},
    {"lenient": "true"},
    {"colour": "red"},
]


@pytest.mark.parametrize("params", WRONG, ids=str)
def test_parameters_of_the_wrong_form_are_422(served, folder, params):
    assert_problem(served.alice.post("/me/packs", content=ODDS, params=params), 422)

    until(lambda: unfinished(folder) == [])  # another test may have broken off an upload


@pytest.mark.parametrize("pack_id", ["%2e%2e%2f", "a%2Fb", "%00", "x" * 300, "%F0%9F%92%A3", "starter"])
def test_an_id_that_names_none_of_the_callers_packs_is_404(served, pack_id):
    for method in ("GET", "DELETE"):
        assert served.alice.request(method, f"/me/packs/{pack_id}").status_code in (404, 405)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_its_limit_is_413(served, folder, chunked):
    body = bytes(MAX_BYTES + 1)

    problem = assert_problem(served.alice.post("/me/packs", content=iter([body[:-1], body[-1:]]) if chunked else body), 413)

    assert problem["detail"] == f"the request body is larger than {MAX_BYTES} bytes"
    until(lambda: unfinished(folder) == [])  # another test may have broken off an upload


def test_only_uploads_may_be_larger_than_other_bodies(served):
    for path in ("/competitions", "/me/packs/mine", "/me/packs/"):
        assert served.alice.post(path, content=bytes(MAX_BYTES)).status_code in (404, 405, 413)


def test_401_comes_before_a_byte_is_read(served, folder):
    host, port = "127.0.0.1", int(served.url.rpartition(":")[2])
    with socket.create_connection((host, port), PATIENCE_S) as sock:
        sock.sendall(b"POST /me/packs HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 401 ")
    until(lambda: unfinished(folder) == [])  # another test may have broken off an upload


RAW = {
    "less than declared": (b"Content-Length: 100000\r\n\r\nPK", None),
    "cut in a chunk": (b"Transfer-Encoding: chunked\r\n\r\nffff\r\nPK", None),
    "chunks that are none": (b"Transfer-Encoding: chunked\r\n\r\nzz\r\nPK\r\n", b" 400 "),
    "negative length": (b"Content-Length: -1\r\n\r\nPK", b" 400 "),
    "two lengths": (b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nPK", b" 400 "),
    "a length beside chunks": (
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (MAX_BYTES + 1, bytes(MAX_BYTES + 1)),
        b" 413 | 400 ",
    ),
    "a larger body than declared": (b"Content-Length: 2\r\n\r\nPK" + b"x" * 1000, b" 400 "),
}


@pytest.mark.parametrize("name", RAW)
def test_a_body_that_lies_about_its_length_leaves_nothing(served, folder, name):
    sent, expected = RAW[name]
    host, port = "127.0.0.1", int(served.url.rpartition(":")[2])
    with socket.create_connection((host, port), PATIENCE_S) as sock:
        sock.sendall(f"POST /me/packs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.token()}\r\n".encode() + sent)
        if expected:
            answer = sock.recv(100)
            assert any(status in answer for status in expected.split(b"|")), answer
    served.get("/me/packs", by=served.alice)
    until(lambda: unfinished(folder) == [])


def test_a_body_that_does_not_come_in_time_is_408(keys, tmp_path):
    with api(keys, uploads=tmp_path, upload_receive_s=0.2) as served:
        host, port = "127.0.0.1", int(served.url.rpartition(":")[2])
        head = f"POST /me/packs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.token()}\r\nContent-Length: 99\r\n\r\nPK"
        with socket.create_connection((host, port), PATIENCE_S) as sock:
            sock.sendall(head.encode())
            assert sock.recv(100).startswith(b"HTTP/1.1 408 ")
        assert unfinished(tmp_path) == []


def test_uploads_that_are_more_than_may_be_under_way_are_503(keys, tmp_path):
    with api(keys, uploads=tmp_path, upload_queue=0) as served:
        arrived, go = threading.Event(), threading.Event()

        def slow():
            yield b"PK"
            arrived.set()
            go.wait(PATIENCE_S)
            yield b"x"

        with ThreadPoolExecutor() as pool:
            first = pool.submit(served.alice.post, "/me/packs", content=slow())
            arrived.wait(PATIENCE_S)
            until(lambda: unfinished(tmp_path) != [])
            second = served.bob.post("/me/packs", content=b"PK")
            go.set()

            assert assert_problem(second, 503)["type"] == "urn:clvlab:problem:busy"
            assert "retry-after" in second.headers
            assert_problem(first.result(), 400)
        assert unfinished(tmp_path) == []


@pytest.mark.parametrize(("method", "path"), [("POST", ""), ("GET", ""), ("GET", "/mine"), ("DELETE", "/mine")])
def test_a_service_without_uploads_says_so(api, method, path):
    problem = assert_problem(api.alice.request(method, f"/me/packs{path}"), 404)

    assert problem["type"] == "urn:clvlab:problem:uploads-off"
    assert_problem(api.nobody.request(method, f"/me/packs{path}"), 401)
