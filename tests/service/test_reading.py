"""Long lists: whole, byte for byte, in parts of bounded size, and in a pool of their own."""

import asyncio
import json
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx2
import pytest
from clvlab_service.json_lists import PAGE, EventPages
from clvlab_service.pool import BoundedPool
from clvlab_service.telemetry import RequestMetrics
from pydantic import TypeAdapter

from clvlab.api.competitions import CompetitionEvent, RuntimeEventsResponse
from clvlab.errors import BusyError, ShuttingDownError
from clvlab.store import competitions, instances
from tests.service.serving import CONFIG, DEPLOY, PLAIN, api, assert_problem
from tests.service.tokens import ALICE
from tests.waiting import PATIENCE_S, until

EVENTS = TypeAdapter(list[CompetitionEvent])
RUNTIME_EVENTS = TypeAdapter(RuntimeEventsResponse)
MANY = 5 * PAGE + 7


def some_events(count):
    payload = {"text": 'ü "quoted" \u2028', "share": 0.1, "small": 1e-7, "large": 10**15, "null": None, "list": [1, {"a": []}]}
    return [{"kind": "AGENT_ACTION", "run_id": "run_1", "evidence": True, "payload": payload | {"n": n}} for n in range(count)]


def append(served, competition, count):
    with served.app.state.application._database.write() as connection:
        competitions.append(connection, competition, 1, some_events(count), packed=True)


def add_runtime_events(served, instance, count):
    row = {"type": "AGENT_ACTION", "agent_id": "a", "run_id": "r", "session_id": "s", "payload": {"é": 1.5}}
    with served.app.state.application._database.write() as connection:
        instances.append(connection, instance, 1, [row] * count)


@pytest.fixture(scope="module")
def served(store, keys):
    with api(keys, store) as found:
        yield found


@pytest.fixture(scope="module")
def logged(served):
    """A competition with a log of several pages."""
    created = served.competition(agents=())
    append(served, created, MANY)
    return created


@pytest.mark.parametrize("limit", [None, 1, PAGE, 2 * PAGE + 1, 10_000])
@pytest.mark.parametrize("since_seq", [-(2**53) + 1, -1, 0, PAGE - 1, PAGE, MANY - 2, MANY - 1, 2**53 - 1])
def test_the_log_in_parts_is_the_log_byte_for_byte(served, logged, since_seq, limit):
    asked = {"since_seq": since_seq} | ({} if limit is None else {"limit": limit})

    answer = served.nobody.get(f"/competitions/{logged}/events", params=asked)

    whole = served.app.state.application.competitions.events(logged, since_seq, limit)
    assert answer.content == EVENTS.dump_json(EVENTS.validate_python(whole))
    assert answer.headers["content-type"] == "application/json"


def test_runtime_events_in_parts_are_all_of_them_byte_for_byte(served):
    instance = served.post("/agents/deploy", DEPLOY)["instance_id"]
    deploys = served.app.state.application.deploys
    until(lambda: deploys.runtime_events(ALICE, instance)["events"][-1]["type"] == "RUN_SEALED")
    add_runtime_events(served, instance, 1203)

    for asked in ({}, {"since": 5}, {"since": 3, "limit": 700}, {"since": 10**6}):
        answer = served.alice.get(f"/agents/instances/{instance}/runtime-events", params=asked)

        whole = deploys.runtime_events(ALICE, instance, **asked)
        assert answer.content == RUNTIME_EVENTS.dump_json(RUNTIME_EVENTS.validate_python(whole))


@contextmanager
def begun(served, path):
    """An answer of which the first part was read, and the rest waits."""
    with served.nobody.stream("GET", path, headers={"Accept-Encoding": "identity"}) as answer:
        parts = answer.iter_raw(4096)
        yield [next(parts)], parts


def test_an_answer_is_of_what_the_log_held_when_it_began(keys):
    with api(keys, send_buffer=4096) as served:
        created = served.competition(agents=())
        append(served, created, 30 * PAGE)
        with begun(served, f"/competitions/{created}/events?since_seq=-1") as (read, rest):
            append(served, created, PAGE)
            read += rest

    assert [event["seq"] for event in json.loads(b"".join(read))] == list(range(30 * PAGE))


def test_memory_of_an_answer_does_not_grow_with_it(keys):
    with api(keys) as served:
        served.app.state.pages = EventPages(served.app.state.application.event_log, kept_bytes=0)
        created = served.competition(agents=())
        peaks = []
        for count in (4 * PAGE, 28 * PAGE):
            append(served, created, count)
            peaks.append(peak_of(served, f"/competitions/{created}/events?since_seq=-1"))
        (few, small), (many, large) = peaks

    assert many > 7 * few
    assert large < 1.5 * small


def peak_of(served, path):
    """Bytes of an answer, and the most that were allocated while it was made and read."""
    tracemalloc.start()
    try:
        with served.nobody.stream("GET", path, headers={"Accept-Encoding": "identity"}) as answer:
            size = sum(len(part) for part in answer.iter_raw())
        return size, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def pending(served):
    return served.app.state.pools["reads"]._pending


@contextmanager
def blocked(served):
    """A service whose threads for reading all wait."""
    over = threading.Event()
    for _ in range(served.app.state.settings.read_workers):
        served.get("/log")  # has one more thread begin
        served.app.state.pools["reads"]._threads._queue.put("", over.wait)
    try:
        yield
    finally:
        over.set()


def test_readers_beyond_the_pool_are_refused_and_all_else_is_answered(keys):
    with api(keys, read_workers=1, read_queue=1, public_workers=2) as served:
        created, started = served.started()
        run_id = started["run_id"]
        instance = served.post("/agents/deploy", DEPLOY)["instance_id"]
        path = f"/competitions/{created}/events"
        with ThreadPoolExecutor(2) as pool:
            with blocked(served):
                waiting = [pool.submit(served.nobody.get, path) for _ in range(2)]
                until(lambda: pending(served) == 2)
                for refused in (
                    path,
                    f"/runs/{run_id}/evidence",
                    f"/runs/{run_id}/scores",
                    f"/runs/{run_id}/manifest",
                    f"/runs/{run_id}/bundle",
                    f"/runs/{run_id}/decisions",
                    "/replay-packs/starter/fixtures",
                    f"/agents/instances/{instance}/runtime-events",
                    "/log",
                    "/log/entries",
                ):
                    answer = served.alice.get(refused)
                    assert assert_problem(answer, 503)["type"] == "urn:clvlab:problem:busy"
                    assert int(answer.headers["retry-after"]) >= 1
                lists = ("/leaderboard", "/runs", "/competitions")
                for answered in ("/readyz", "/healthz", f"/competitions/{created}", f"/runs/{run_id}", *lists):
                    served.get(answered)
                assert served.started()[1]["status"] == "finalized"
            assert [future.result(timeout=PATIENCE_S).status_code for future in waiting] == [200, 200]
        until(lambda: pending(served) == 0)


def test_many_readers_of_a_long_log_leave_a_call_of_an_owner_be(keys):
    with api(keys) as served, ThreadPoolExecutor(48) as pool:
        created = served.competition(agents=())
        append(served, created, 8 * PAGE)
        reading = [pool.submit(httpx2.get, f"{served.url}/competitions/{created}/events", **PLAIN) for _ in range(48)]
        meanwhile = 0
        with httpx2.Client(base_url=served.url, headers=served.alice.headers, **PLAIN) as owner:
            while not all(future.done() for future in reading):
                assert owner.post("/competitions", json=CONFIG).status_code == 201
                assert owner.get("/readyz").status_code == 200
                meanwhile += not all(future.done() for future in reading)
        answers = [future.result() for future in reading]

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert meanwhile


@pytest.mark.parametrize("leaves", ["after the headers", "at once", "never reads"])
def test_who_does_not_read_on_holds_no_place(keys, leaves):
    with api(keys, send_buffer=4096, read_send_timeout_s=0.3) as served:
        created = served.competition(agents=())
        append(served, created, 30 * PAGE)
        path = f"/competitions/{created}/events"
        if leaves == "after the headers":
            assert served.nobody.head(path).status_code == 200
        elif leaves == "at once":
            with begun(served, path):
                pass
        else:
            with begun(served, path) as (_, rest):
                until(lambda: pending(served) == 0)
                with pytest.raises(httpx2.RemoteProtocolError):
                    list(rest)

        until(lambda: pending(served) == 0)
        assert served.nobody.get(path, params={"limit": 1}).status_code == 200


def test_a_place_is_taken_until_nothing_is_done_for_whoever_went_away():
    async def held():
        pool, over = BoundedPool("p", 1, 0, RequestMetrics()), threading.Event()

        async def read():
            with pool.held() as place:
                await place.run(over.wait)

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.wait({reading})
        with pytest.raises(BusyError), pool.held():
            pass
        over.set()
        while pool._pending:
            await asyncio.sleep(0.01)
        with pool.held():
            pass
        await pool.close(1)

    asyncio.run(asyncio.wait_for(held(), PATIENCE_S))


def test_an_answer_under_way_ends_when_the_service_does():
    async def next_part():
        pool = BoundedPool("p", 1, 0, RequestMetrics())
        with pool.held() as place:
            await place.run(int)
            pool.give_up()
            with pytest.raises(ShuttingDownError):
                await place.run(int)

    asyncio.run(asyncio.wait_for(next_part(), PATIENCE_S))


def test_an_answer_whose_store_is_lost_half_way_is_broken_off_in_one_line(keys, capfd):
    with api(keys, send_buffer=4096) as served:
        created = served.competition(agents=())
        append(served, created, 30 * PAGE)
        with begun(served, f"/competitions/{created}/events") as (_, rest):
            with served.app.state.application._database.write() as connection:
                connection.exec_driver_sql("ALTER TABLE competition_events RENAME TO lost")
            with pytest.raises(httpx2.RemoteProtocolError):
                list(rest)

    said = [line for line in capfd.readouterr().err.splitlines() if "answer_broken_off" in line]
    assert len(said) == 1
    assert "Traceback" not in said[0]
