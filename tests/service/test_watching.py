"""Many who watch one competition or run: what it costs, what each is sent, and how many may."""

import json
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from clvlab_service.app import create_app
from clvlab_service.json_lists import PAGE
from clvlab_service.streams.connection import StreamPlaces
from sqlalchemy import event
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from tests.length import few
from tests.service.serving import BOUND, api, make_entry, make_settings
from tests.waiting import PATIENCE_S, until

EAGER = {"cooldown_s": 0, "min_drift_micro_logits": 1, "min_persistence": 0.0, "warmup_ticks": 1}
POLL_S = 0.05


def url_of(served, path):
    return f"{served.url.replace('http', 'ws', 1)}{path}"


def arena(served, competition, since_seq=-1):
    return url_of(served, f"/competitions/{competition}/arena?since_seq={since_seq}")


def texts(url, **options):
    with connect(url, **options) as messages:
        return list(messages), messages.protocol.close_code


def long_competition(served):
    """A competition whose log, once it was run, has several pages."""
    created = served.competition(config=BOUND, agents=())
    for name in ("a", "b", "c"):
        served.post(f"/competitions/{created}/agents", make_entry("cumulative-drift", agent_id=name, config=EAGER))
    return created


@contextmanager
def reads_of(application, table):
    """Statements that read a table while this lasts."""
    engine, found = application._database._engine, []

    def note(*given):
        statement = given[2]
        if statement.startswith("SELECT") and f"FROM {table} " in statement.replace("\n", " "):
            found.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)


@pytest.mark.parametrize("watchers", [1, 30])
def test_what_is_read_of_the_store_does_not_grow_with_who_watches(keys, watchers):
    with api(keys, stream_poll_s=POLL_S) as served, ExitStack() as stack:
        created = served.competition()
        streams = [stack.enter_context(connect(arena(served, created))) for _ in range(watchers)]
        with reads_of(served.app.state.application, "competitions") as idle:
            started = time.monotonic()
            until(lambda: len(idle) >= 3)
            looks = (time.monotonic() - started) / POLL_S
        with reads_of(served.app.state.application, "competition_events") as reads:
            served.post(f"/competitions/{created}/start")
            logs = [list(stream) for stream in streams]

    assert len(idle) <= looks + 3
    assert len(reads) <= 12, "two for the claim, the entries and the end each, and those of the start itself"
    assert len({tuple(log) for log in logs}) == 1
    assert [json.loads(text)["seq"] for text in logs[0]] == list(range(len(logs[0])))


@pytest.fixture(scope="module")
def served(store, keys):
    with api(keys, store, stream_poll_s=POLL_S) as found:
        yield found


@pytest.fixture(scope="module")
def finished(served):
    """A competition whose log has several pages, and its log."""
    created = long_competition(served)
    served.post(f"/competitions/{created}/start")
    whole = served.get(f"/competitions/{created}/events", since_seq=-1)
    assert len(whole) > 2 * PAGE
    return created, whole


@few(6)
@pytest.mark.parametrize(
    "since_seq", [-(2**53) + 1, -2, -1, 0, PAGE - 2, PAGE - 1, PAGE, 2 * PAGE - 1, 2 * PAGE, "last but one", "last", 2**53 - 1]
)
def test_a_stream_begins_after_any_entry_and_misses_none(served, finished, since_seq):
    created, whole = finished
    since_seq = {"last but one": len(whole) - 2, "last": len(whole) - 1}.get(since_seq, since_seq)

    sent, code = texts(arena(served, created, since_seq))

    assert [json.loads(text) for text in sent] == whole[max(since_seq + 1, 0) :]
    assert code == 1000


@few(1)
def test_whoever_comes_while_a_log_grows_is_sent_all_of_it(served):
    created, sent = long_competition(served), []

    def follow(number):
        time.sleep(number * 0.04)
        sent.append(texts(arena(served, created)))

    with ThreadPoolExecutor(6) as pool:
        following = [pool.submit(follow, number) for number in range(6)]
        served.post(f"/competitions/{created}/start")
        for future in following:
            future.result(timeout=PATIENCE_S)

    whole = served.get(f"/competitions/{created}/events", since_seq=-1)
    assert [([json.loads(text) for text in found], code) for found, code in sent] == [(whole, 1000)] * 6


def test_services_on_one_postgresql_hear_of_each_other_at_once(emptied_postgres_url, keys):
    never = {"stream_poll_s": 600}
    with api(keys, emptied_postgres_url, **never) as one, api(keys, emptied_postgres_url, **never) as other:
        created = one.competition()
        with connect(arena(other, created)) as stream:
            started = one.post(f"/competitions/{created}/start")
            whole = one.get(f"/competitions/{created}/events", since_seq=-1)
            assert [json.loads(stream.recv(timeout=PATIENCE_S)) for _ in whole] == whole
        assert json.loads(texts(url_of(other, f"/runs/{started['run_id']}/progress"))[0][-1])["status"] == "sealed"


def test_a_client_that_left_is_no_error(keys, capfd):
    with api(keys, stream_poll_s=POLL_S) as served:
        created = long_competition(served)
        for _ in range(5):
            torn(arena(served, created), served.url)
        running_streams = [opened(arena(served, created), served.url) for _ in range(5)]
        served.post(f"/competitions/{created}/start")
        for stream in running_streams:
            reset(stream)
        for _ in range(20):
            torn(arena(served, created), served.url)
        until(lambda: "clvlab_streams_open 0.0" in served.nobody.get("/metrics").text)

    said = capfd.readouterr()
    assert "error" not in (said.out + said.err).lower()


def opened(url, base):
    """A socket that has asked for a stream and reads nothing."""
    host, _, port = base.removeprefix("http://").partition(":")
    found = socket.create_connection((host, int(port)))
    path = "/" + url.removeprefix("ws://").partition("/")[2]
    asked = [f"GET {path} HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade"]
    asked += ["Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13", "", ""]
    found.sendall("\r\n".join(asked).encode())
    return found


def reset(stream):
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.close()


def torn(url, base):
    """Ask for a stream, and break off at some time."""
    stream = opened(url, base)
    threading.Timer(0.01, reset, [stream]).run()


def test_one_address_has_a_bounded_number_of_streams(keys):
    with api(keys, max_client_streams=1) as served:
        created = served.competition()
        with connect(arena(served, created)), pytest.raises(ConnectionClosedError) as closed:
            texts(arena(served, created), additional_headers={"X-Forwarded-For": "203.0.113.9"})

    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (
        1013,
        "too many streams to one address: CLVLAB_MAX_CLIENT_STREAMS=1",
    )


def test_behind_a_trusted_proxy_the_address_is_whom_it_names(keys):
    with api(keys, max_client_streams=1, trusted_proxies="127.0.0.0/8") as served, ExitStack() as stack:
        created = served.competition()
        for client in ("203.0.113.1", "203.0.113.2"):
            named = {"X-Forwarded-For": f"192.0.2.7, {client}"}
            stack.enter_context(connect(arena(served, created), additional_headers=named))
        with pytest.raises(ConnectionClosedError) as closed:
            texts(arena(served, created), additional_headers={"X-Forwarded-For": "192.0.2.8, 203.0.113.2"})

    assert closed.value.rcvd.code == 1013


def test_addresses_that_one_subscriber_chooses_from_count_as_one(keys):
    app = create_app(make_settings(keys, max_client_streams=1))
    places: StreamPlaces = app.state.stream_places

    with places.taken("2001:db8:0:1::1"), places.taken("::ffff:192.0.2.1"):
        refused = [
            address
            for address in ("2001:db8:0:1:ffff::2", "2001:db8:0:2::1", "192.0.2.1", "192.0.2.2", None)
            if places.refusal(address)
        ]

    assert refused == ["2001:db8:0:1:ffff::2", "192.0.2.1"]
    assert places.refusal("192.0.2.1") is None
