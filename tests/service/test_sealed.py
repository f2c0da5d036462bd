"""Sealed answers: proof cards that never change, their tags, and parts of sealed bytes."""

import gzip
import hashlib
import os
import random
import subprocess
import sys
from dataclasses import replace

import httpx2
import pytest
from sqlalchemy import update

from clvlab.store import runs
from clvlab.store.tables import run_chunks
from tests.length import few, length
from tests.service.serving import BACKTEST, FIXTURE, PLAIN, api, assert_problem
from tests.tampering import rewrite

CODINGS = ("identity", "gzip", "zstd", "gzip, deflate, zstd")
FILES = ("evidence", "scores", "manifest", "bundle")
OWN_FILES = {"evidence": "events", "scores": "scores"}
YEAR = "public, max-age=31536000, immutable"
OTHER_PROCESS = """
import sys
from fastapi.testclient import TestClient
from clvlab_service.app import create_app
from clvlab_service.settings import Settings

with TestClient(create_app(Settings(database_url=sys.argv[1], log_level="error", jwt_public_key_file=sys.argv[2],
                                    jwt_issuer="i", jwt_audience="a"))) as client:
    for path in sys.argv[3:]:
        for coding in ("identity", "gzip"):
            with client.stream("GET", path, headers={"Accept-Encoding": coding}) as answer:
                print(answer.headers["etag"], b"".join(answer.iter_raw()).hex())
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'store.db'}"


@pytest.fixture(scope="module")
def served(keys, place):
    with api(keys, place) as found:
        yield found


@pytest.fixture(scope="module")
def run_id(served):
    return served.post("/backtests", BACKTEST, by=served.nobody)["run_id"]


@pytest.fixture
def small_chunks(served, monkeypatch):
    """A run in many chunks."""
    monkeypatch.setattr(runs, "_CHUNK_BYTES", 1000)
    body = {"pack_id": "season", "fixture_ids": [FIXTURE], "strategy": "cumulative-drift", "window_id": "small chunks"}
    body |= {"params": {"cooldown_s": 0, "min_drift_micro_logits": 1, "min_persistence": 0.0, "warmup_ticks": 1}}
    answer = served.post("/backtests", body, by=served.nobody, headers={"Prefer": "wait=60"})
    with served.app.state.application._database.read() as connection:
        assert len(runs.stored_part(connection, answer["run_id"], runs.Part.EVENTS, gzipped=False).ends) > 3
    return answer["run_id"]


def raw(served, path, coding="identity", **headers):
    """An answer, and its bytes as they were sent."""
    with served.nobody.stream("GET", path, headers={"Accept-Encoding": coding} | headers) as answer:
        return answer, b"".join(answer.iter_raw())


@pytest.mark.parametrize("coding", ["identity", "gzip", "gzip, deflate, zstd"])
def test_a_card_has_a_strong_tag_of_its_own_bytes_in_each_coding(served, run_id, coding):
    (first, content), (again, same) = (raw(served, f"/runs/{run_id}", coding) for _ in range(2))
    plain = raw(served, f"/runs/{run_id}")[1]

    assert first.headers["etag"].startswith('"')
    assert (again.headers["etag"], same) == (first.headers["etag"], content)
    assert first.headers["cache-control"] == YEAR
    assert (gzip.decompress(content) if "content-encoding" in first.headers else content) == plain
    assert ("content-encoding" in first.headers) is (coding != "identity")
    assert (raw(served, f"/runs/{run_id}")[0].headers["etag"] == first.headers["etag"]) is (coding == "identity")


def test_a_tag_of_bytes_that_the_service_compresses_itself_is_weak(served, run_id):
    zstd = raw(served, f"/runs/{run_id}", "zstd")[0]

    assert zstd.headers["content-encoding"] == "zstd"
    assert zstd.headers["etag"] == "W/" + raw(served, f"/runs/{run_id}")[0].headers["etag"]


@pytest.mark.parametrize("asked", CODINGS)
@pytest.mark.parametrize("known", CODINGS)
def test_a_client_that_has_a_card_in_any_coding_is_not_sent_it_again(served, run_id, asked, known):
    tag = raw(served, f"/runs/{run_id}", known)[0].headers["etag"]

    for named in (tag, f'"other", {tag}', f"W/{tag.removeprefix('W/')}", "*"):
        answer, content = raw(served, f"/runs/{run_id}", asked, **{"If-None-Match": named})
        assert (answer.status_code, content, answer.headers["cache-control"]) == (304, b"", YEAR)
        assert answer.headers["etag"].removeprefix("W/").startswith(tag.removeprefix("W/")[:33])
    for other in ('"other"', tag.upper(), tag.strip('W/"'), "", tag[:-2]):
        assert raw(served, f"/runs/{run_id}", asked, **{"If-None-Match": other})[0].status_code == 200


def test_another_process_sends_the_same_bytes_under_the_same_tag(served, run_id, place):
    names, key = (
        ("", "/evidence", "/scores", "/manifest", "/actions/1", "/decisions"),
        served.app.state.settings.jwt_public_key_file,
    )
    asked = [(f"/runs/{run_id}{name}", coding) for name in names for coding in ("identity", "gzip")]
    command = [sys.executable, "-c", OTHER_PROCESS, place, str(key), *(path for path, _ in asked[::2])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    other = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()

    for (path, coding), line in zip(asked, other, strict=True):
        answer, content = raw(served, path, coding)
        tag, sent = line.split(" ")
        assert tag == answer.headers["etag"], path
        if tag.startswith('"'):
            assert bytes.fromhex(sent) == content, path


def test_a_card_stays_as_it_is_while_others_commit_and_its_place_in_the_log_moves(served, run_id):
    before, standing = raw(served, f"/runs/{run_id}"), served.get(f"/runs/{run_id}/log")

    for number in range(3):
        served.post("/backtests", BACKTEST | {"window_id": f"later {number}"}, by=served.nobody)
    served.nobody.post(f"/runs/{run_id}/verify")

    after, moved = raw(served, f"/runs/{run_id}"), served.get(f"/runs/{run_id}/log")
    assert after[1] == before[1]
    assert after[0].headers["etag"] == before[0].headers["etag"]
    assert moved["tree_size"] == standing["tree_size"] + 6
    assert moved["claim"] == standing["claim"] | {"later": standing["claim"]["later"] + 3}
    assert served.get(f"/runs/{run_id}")["log"] == {name: moved[name] for name in ("owner", "content_hash", "commit_index")}


def test_checks_have_the_time_of_the_newest_verification_and_the_card_has_not(served, run_id):
    card, sealed_ts_ms = served.get(f"/runs/{run_id}"), served.get(f"/runs/{run_id}")["run"]["sealed_ts_ms"]
    runs_there = served.app.state.application.runs
    replace(runs_there, clock=lambda: sealed_ts_ms + 10**9).verify(run_id)

    newest = served.nobody.get(f"/runs/{run_id}/checks")

    assert newest.json() == {
        "run_id": run_id,
        "checked_ts_ms": sealed_ts_ms + 10**9,
        "checks": card["checks"],
        "check_details": card["check_details"],
    }
    assert newest.headers["cache-control"] == "no-cache"
    assert served.get(f"/runs/{run_id}") == card


@pytest.mark.parametrize("path", ["/runs/run_x/log", "/runs/run_x/checks", "/runs/%00/log"])
def test_an_unknown_run_has_no_log_and_no_checks(served, path):
    assert assert_problem(served.nobody.get(path), 404)["type"] == "urn:clvlab:problem:unknown-run"


def test_a_card_that_was_found_damaged_is_revalidated_from_then_on(keys):
    with api(keys) as served:
        run_id = served.post("/backtests", BACKTEST, by=served.nobody)["run_id"]
        tag = served.nobody.get(f"/runs/{run_id}").headers["etag"]
        with served.app.state.application._database.write() as connection:
            rewrite(connection, run_id, lambda lines: lines.replace(b'"type":"BACK"', b'"type":"WAIT"', 1), part="events")

        served.nobody.post(f"/runs/{run_id}/verify")

        answer = served.nobody.get(f"/runs/{run_id}", headers={"If-None-Match": tag})
        assert (answer.status_code, answer.json()["checks"]["evidence_integrity"]) == (200, "fail")
        assert answer.headers["cache-control"] == "no-cache"


# Ranges of sealed bytes, against slices of the whole.


@pytest.mark.parametrize("name", FILES)
def test_sealed_bytes_have_a_strong_tag_and_take_ranges(served, run_id, name):
    answer, content = raw(served, f"/runs/{run_id}/{name}")

    assert answer.headers["etag"].startswith('"')
    assert answer.headers["accept-ranges"] == "bytes"
    assert int(answer.headers["content-length"]) == len(content)
    assert answer.headers["cache-control"] == ("no-cache" if name == "bundle" else YEAR)


def some_ranges(size, rounds):
    """Ranges that are in the answer, at its edges, beyond it, and no ranges at all, with the slice that each asks for."""
    dice = random.Random(size)
    edges = [0, 1, 127, 128, 999, 1000, 1001, size // 2, size - 2, size - 1, size, size + 1, 10**17, 10**40]
    for _ in range(rounds):
        first, last = (dice.choice((*edges, dice.randrange(size))) for _ in range(2))
        kind = dice.choice(["both", "from", "suffix"])
        if kind == "both":
            yield f"bytes={first}-{last}", slice(first, min(last, size) + 1) if first <= last else None
        elif kind == "from":
            yield f"bytes={first}-", slice(first, size)
        else:
            yield f"bytes=-{first}", slice(max(size - first, 0), size) if first else slice(size, size)


@few(1)
@pytest.mark.parametrize("name", FILES)
def test_any_range_is_the_slice_of_the_whole(served, small_chunks, name):
    path, whole = f"/runs/{small_chunks}/{name}", raw(served, f"/runs/{small_chunks}/{name}")[1]
    for asked, of in some_ranges(len(whole), length(60, 2000)):
        answer = served.nobody.get(path, headers={"Range": asked})

        if of is None:  # the last byte comes before the first, so it is no range
            assert (answer.status_code, answer.content) == (200, whole), asked
        elif not whole[of]:
            assert answer.status_code == 416, asked
            assert answer.headers["content-range"] == f"bytes */{len(whole)}"
        else:
            start, stop, _ = of.indices(len(whole))
            assert (answer.status_code, answer.content) == (206, whole[of]), asked
            assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(whole)}"
            assert int(answer.headers["content-length"]) == stop - start
            assert "content-encoding" not in answer.headers


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("asked", ["bytes=0-9", "bytes=-1", "bytes=99999999-"])
def test_a_head_has_no_range(served, run_id, name, coding, asked):
    """RFC 9110, section 14.2: a range is defined for GET alone."""
    path, accepted = f"/runs/{run_id}/{name}", {"Accept-Encoding": coding}
    plain = served.nobody.head(path, headers=accepted)

    answer = served.nobody.head(path, headers=accepted | {"Range": asked})

    assert (answer.status_code, answer.content) == (200, b"")
    assert "content-range" not in answer.headers
    assert answer.headers["etag"] == plain.headers["etag"]


@pytest.mark.parametrize(
    "header",
    ["bytes=", "bytes=-", "bytes=a-b", "bytes=0-1,3-4", "bytes 0-1", "lines=0-1", "bytes=--1", "bytes=1", "bytes=0-1-2",
     "bytes=\u0661-\u0662", "bytes=+1-2", "bytes=0x1-2", "=0-1", ""],
)  # fmt: skip
def test_what_is_not_one_range_of_bytes_is_ignored(served, run_id, header):
    whole = raw(served, f"/runs/{run_id}/evidence")[1]

    answer = served.nobody.get(f"/runs/{run_id}/evidence", headers=[(b"Range", header.encode())])

    assert (answer.status_code, answer.content) == (200, whole)


@pytest.mark.parametrize("header", ["BYTES=0-9", "bytes=000-0009", "bytes=0-9"])
def test_spellings_of_a_range_of_bytes(served, run_id, header):
    answer = served.nobody.get(f"/runs/{run_id}/evidence", headers={"Range": header})

    assert (answer.status_code, len(answer.content)) == (206, 10)


def test_a_range_goes_on_only_with_the_same_bytes(served, run_id):
    path = f"/runs/{run_id}/evidence"
    answer, whole = raw(served, path)
    tag = answer.headers["etag"]

    for condition, status in ((tag, 206), (f"W/{tag}", 200), ('"other"', 200), ("Thu, 26 Nov 2026 00:00:00 GMT", 200)):
        found, content = raw(served, path, **{"Range": "bytes=5-", "If-Range": condition})
        assert (found.status_code, content) == (status, whole[5:] if status == 206 else whole), condition
    kept = raw(served, path, **{"Range": "bytes=5-", "If-None-Match": tag})[0]
    assert kept.status_code == 304


@pytest.mark.parametrize("name", sorted(OWN_FILES))
def test_a_download_of_the_stored_gzip_is_continued_where_it_broke_off(served, small_chunks, name):
    path = f"/runs/{small_chunks}/{name}"
    first, whole = raw(served, path, "gzip")
    tag = first.headers["etag"]

    for start in (0, 5, 10, 11, len(whole) // 2, len(whole) - 1):
        rest, content = raw(served, path, "gzip", **{"Range": f"bytes={start}-", "If-Range": tag})
        assert (rest.status_code, rest.headers["content-encoding"], rest.headers["etag"]) == (206, "gzip", tag)
        assert whole[:start] + content == whole
    assert gzip.decompress(whole) == raw(served, path)[1]
    fresh = raw(served, path, "gzip", Range="bytes=5-9")
    assert (fresh[0].status_code, fresh[1]) == (206, gzip.decompress(whole)[5:10])
    assert "content-encoding" not in fresh[0].headers


def test_a_range_reads_only_the_chunks_that_hold_it(served, small_chunks):
    application = served.app.state.application
    part = application.runs.part(small_chunks, runs.Part.EVENTS)
    whole = application.runs.piece(part, 0, part.size)
    kept = part.ends[1]  # the second chunk's first line, and where it ends
    with application._database.write() as connection:
        others = (run_chunks.c.run_id == small_chunks) & (run_chunks.c.part == "events") & (run_chunks.c.first_line != kept[0])
        before = connection.execute(run_chunks.select().where(others)).all()
        connection.execute(update(run_chunks).where(others).values(lines=b"damaged"))
    try:
        assert application.runs.piece(part, part.ends[0][1], kept[1]) == whole[part.ends[0][1] : kept[1]]
        damaged = served.nobody.get(f"/runs/{small_chunks}/evidence", headers={"Range": f"bytes=0-{part.size - 1}"})
        assert damaged.status_code == 200  # a slice of bytes of another number would not be what it says
    finally:
        with application._database.write() as connection:
            for row in before:
                own = (run_chunks.c.run_id == row.run_id) & (run_chunks.c.part == row.part)
                connection.execute(
                    update(run_chunks).where(own, run_chunks.c.first_line == row.first_line).values(lines=row.lines)
                )


def test_the_evidence_is_what_its_hash_says_in_pieces_of_any_size(served, run_id):
    path, size = f"/runs/{run_id}/evidence", len(raw(served, f"/runs/{run_id}/evidence")[1])
    pieces = [served.nobody.get(path, headers={"Range": f"bytes={at}-{at + 700}"}).content for at in range(0, size, 701)]

    digest = hashlib.sha256(b"".join(pieces)).hexdigest()
    assert served.get(f"/runs/{run_id}")["evidence"]["evidence_hash"] == f"sha256:{digest}"


def test_a_page_of_another_site_may_read_what_a_range_needs(keys):
    with api(keys, cors_origins=["https://other.example"]) as served, httpx2.Client(base_url=served.url, **PLAIN) as client:
        headers = client.get("/healthz", headers={"Origin": "https://other.example"}).headers

    exposed = {name.strip() for name in headers["access-control-expose-headers"].split(",")}
    assert {"Accept-Ranges", "Content-Range", "ETag", "Link"} <= exposed
