"""Clients without a token that take connections, bodies and memory; and slow ones that want nothing but an answer."""

import json
import multiprocessing
import os
import re
import resource
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx2
import psutil
import pytest
import yaml
from clvlab_service.dev import dev_token
from clvlab_service.server import _allow_files
from clvlab_service.settings import Settings
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from clvlab.errors import SettingsError
from clvlab.packs.synthetic import Recipe, build
from tests.arena.archives import files_of, zipped
from tests.length import length
from tests.service.attacking import UPGRADE, Attack, post
from tests.service.serving import ALICE, BACKTEST, BOUND, assert_problem, make_settings, stoppable
from tests.service.test_serving import serving
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[2]
OTHERS = 640  # files besides those of connections
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
LAST_HEALTH = HEALTH.replace(b"Host", b"Connection: close\r\nHost")
NO_BODY = post(b"/backtests", b"{", 200_000)


@contextmanager
def served(keys, **settings):
    """Host and port of a service with limits."""
    with stoppable(make_settings(keys, **settings)) as (url, _):
        yield "127.0.0.1", int(url.rpartition(":")[2])


def opened(place, *sent, source="127.0.0.1"):
    """A connection from an address of this machine, on which something was sent."""
    sock = socket.create_connection(place, PATIENCE_S, source_address=(source, 0))
    for part in sent:
        sock.sendall(part)
    return sock


def heard(sock):
    """What a service sends until it closes."""
    answer = b""
    with suppress(ConnectionError):
        while chunk := sock.recv(65_536):
            answer += chunk
    return answer


def healthy(place, source="127.0.0.1"):
    with opened(place, LAST_HEALTH, source=source) as sock:
        return heard(sock).startswith(b"HTTP/1.1 200")


@contextmanager
def under(attack, place):
    """Attack a service on a thread."""
    over = threading.Event()
    thread = threading.Thread(target=attack.run, args=(place, lambda: not over.is_set()))
    thread.start()
    try:
        yield attack
    finally:
        over.set()
        thread.join()


def test_bodies_that_drip_without_a_pause_are_given_up(keys):
    with served(keys, body_timeout_s=1) as place, under(Attack(20, NO_BODY, b" ", pause_s=0.1), place) as attack:
        until(lambda: attack.closed >= 20)

        assert healthy(place)
    assert any(b"CLVLAB_BODY_TIMEOUT_S=1, CLVLAB_BODY_MIN_RATE=1000" in answer for answer in attack.answers)


def test_headers_that_drip_are_given_up(keys):
    slow = Attack(20, b"GET /healthz HTTP/1.1\r\nHost: ", b"x", pause_s=0.1)
    with served(keys, header_timeout_s=1) as place, under(slow, place) as attack:
        until(lambda: attack.closed >= 20)

        assert healthy(place)
    assert any(b"CLVLAB_HEADER_TIMEOUT_S=1" in answer for answer in attack.answers)


def test_a_rest_that_no_answer_needs_is_not_received_for_ever(keys):
    with served(keys, max_body_bytes=1000) as place, opened(place) as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        assert sock.recv(1000).startswith(b"HTTP/1.1 200")

        with pytest.raises(ConnectionError):
            sock.sendall(b"x" * 999_000_000)


@pytest.mark.parametrize("limits", [{"max_client_connections": 5}, {"max_connections": 5}], ids=str)
def test_a_new_connection_takes_the_place_of_the_oldest_idle_one(keys, limits):
    with served(keys, header_timeout_s=PATIENCE_S, **limits) as place, ExitStack() as stack:
        idle = [stack.enter_context(opened(place)) for _ in range(5)]

        until(lambda: healthy(place))  # not in the moment of the burst
        assert idle[0].recv(1) == b""
        idle[4].sendall(LAST_HEALTH)
        assert heard(idle[4]).startswith(b"HTTP/1.1 200")


def test_of_all_connections_those_of_the_most_crowded_address_make_room(keys):
    body = json.dumps(BACKTEST).encode()
    with served(keys, header_timeout_s=PATIENCE_S, max_connections=5) as place, ExitStack() as stack:
        phone = stack.enter_context(opened(place, post(b"/backtests", body[:5], len(body)), source="127.0.0.2"))
        crowd = [stack.enter_context(opened(place, HEALTH[:5])) for _ in range(4)]

        assert all(healthy(place, f"127.0.1.{number}") for number in range(1, 10))
        assert heard(crowd[0]).partition(b" ")[2][:3] in (b"", b"503"), "without an answer, if its bytes were not read yet"
        phone.sendall(body[5:])
        assert phone.recv(100).startswith(b"HTTP/1.1 201")


def draft(keys, place):
    """Path of the stream of a new competition, which stays open."""
    made = httpx2.post(
        f"http://{place[0]}:{place[1]}/competitions",
        json=BOUND,
        headers={"Authorization": f"Bearer {dev_token(keys, ALICE, 600)}"},
        timeout=PATIENCE_S,
    )
    return f"ws://{place[0]}:{place[1]}/competitions/{made.json()['competition_id']}/arena"


@pytest.mark.parametrize("limit", ["max_client_connections", "max_connections"])
def test_streams_are_not_closed_for_a_new_connection(keys, limit):
    with served(keys, **{limit: 2}) as place:
        url = draft(keys, place)
        with connect(url) as first, connect(url):
            with opened(place) as sock:
                answer = heard(sock)

            assert answer.startswith(b"HTTP/1.1 503")
            assert f"CLVLAB_{limit.upper()}=2".encode() in answer
            assert b"retry-after: 1" in answer.lower()
            assert first.ping().wait(PATIENCE_S)
        until(lambda: healthy(place))


def test_streams_beyond_their_limit_do_not_keep_others_out(keys):
    ask = b"GET /competitions/%s/arena HTTP/1.1\r\n" + UPGRADE + b"AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    with served(keys, max_client_streams=2, max_client_connections=8) as place:
        url = draft(keys, place)
        attack = Attack(40, ask % url.split("/")[-2].encode(), pause_s=0.1)
        with connect(url) as stream, under(attack, place):
            until(lambda: attack.closed > 80)
            until(lambda: healthy(place))

            assert stream.ping().wait(PATIENCE_S)


def test_a_client_of_a_stream_can_not_send_what_nobody_reads(keys):
    with served(keys) as place, connect(draft(keys, place)) as stream:
        stream.send("x" * 10_000)
        with pytest.raises(ConnectionClosedError) as closed:
            stream.recv(PATIENCE_S)

    assert closed.value.rcvd.code == 1009


def answer_to(place, request):
    """The answer to a request, if one comes before the rest of its body."""
    with opened(place, request) as sock, suppress(TimeoutError):
        sock.settimeout(0.2)
        return heard(sock)


def test_a_trusted_proxy_may_have_more_connections_and_each_of_its_clients_as_many_requests(keys):
    def asked(client):
        return NO_BODY.replace(b"Host", f"X-Forwarded-For: {client}\r\nHost".encode())

    with served(keys, max_client_connections=2, trusted_proxies="127.0.0.0/8") as place, ExitStack() as stack:
        for client in ("203.0.113.1", "203.0.113.1", "203.0.113.2"):
            stack.enter_context(opened(place, asked(client)))
        # the requests above have begun when one of the same client is refused
        refused = until(lambda: answer_to(place, asked("203.0.113.1").replace(b"Host", b"Connection: close\r\nHost")))

        assert refused.startswith(b"HTTP/1.1 503")
        assert b"CLVLAB_MAX_CLIENT_CONNECTIONS=2" in refused
        assert b"retry-after: 1" in refused.lower()
        assert healthy(place)


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("long", [b"GET /%s HTTP/1.1\r\n", b"GET /runs?%s HTTP/1.1\r\n", b"GET /runs HTTP/1.1\r\nX: %s\r\n"])
def test_a_head_over_the_limit_is_refused(keys, long, parts):
    head = (long % (b"x" * 20_000)) + b"Host: x\r\n\r\n"
    size = len(head) // parts + 1
    with served(keys) as place, opened(place) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(head), size):
            sock.sendall(head[start : start + size])
            time.sleep(0.05 * (parts > 1))
        answer = heard(sock)

    assert answer.startswith(b"HTTP/1.1 431")
    assert b"16384 bytes" in answer


def test_an_object_with_too_many_names_is_refused(api_in_memory):
    body = {str(number): 1 for number in range(1_001)}

    problem = assert_problem(api_in_memory.nobody.post("/backtests", json=body), 400)

    assert problem["detail"].endswith("an object has 1,001 names, the limit is 1,000")


def test_of_a_list_of_wrong_numbers_the_first_is_named(api_in_memory):
    body = {"pack_id": "starter", "fixture_ids": [90000000, *["x"] * 10_000]}

    problem = assert_problem(api_in_memory.nobody.post("/backtests", json=body), 422)

    assert [error["loc"][-1] for error in problem["errors"] if error["type"] == "int_type"] == [1]
    assert len(problem["errors"]) <= 2, "the second one says what else may be in place of the list"


# Slow clients that are no attackers.


def test_a_phone_that_sends_at_the_least_rate_is_waited_for(keys):
    body = json.dumps(BACKTEST | {"window_id": "x" * 100}).encode()
    limits = {"body_timeout_s": 2, "body_min_rate": 20, "max_client_connections": 2}
    with served(keys, **limits) as place, opened(place, post(b"/backtests", b"", len(body))) as phone:
        for byte in body:
            phone.sendall(bytes([byte]))
            time.sleep(0.02)

        assert phone.recv(100).startswith(b"HTTP/1.1 201")


def test_a_phone_that_uploads_at_the_least_rate_is_waited_for(keys, tmp_path):
    build(Recipe(seed=7, fixtures=1, messages=40), tmp_path / "mine")
    pack = zipped(files_of(tmp_path / "mine"))
    with served(keys, uploads=tmp_path / "uploads", body_timeout_s=1, body_min_rate=len(pack) / 20) as place:
        head = f"Host: x\r\nAuthorization: Bearer {dev_token(keys, ALICE, 600)}\r\nContent-Length: {len(pack)}\r\n\r\n"
        with opened(place, b"POST /me/packs HTTP/1.1\r\n" + head.encode()) as phone:
            for start in range(0, len(pack), len(pack) // 20):  # for three seconds, three times as long as a pause may be
                phone.sendall(pack[start : start + len(pack) // 20])
                time.sleep(0.15)

            assert phone.recv(100).startswith(b"HTTP/1.1 201")


def test_a_stream_may_be_silent_for_longer_than_a_request(keys):
    with served(keys, header_timeout_s=0.5, body_timeout_s=0.5) as place, connect(draft(keys, place)) as stream:
        time.sleep(2)

        assert stream.ping().wait(PATIENCE_S)


def test_a_reader_of_a_long_list_may_be_slow(keys):
    with served(keys, max_client_connections=3, header_timeout_s=1, body_timeout_s=1) as place:
        docs = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        with opened(place, docs) as whole:
            expected = heard(whole).partition(b"\r\n\r\n")[2]
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(place)
            reader.sendall(docs)
            answer = b""
            while chunk := reader.recv(4096):
                answer += chunk
                time.sleep(0.03)

    assert answer.partition(b"\r\n\r\n")[2] == expected
    assert len(expected) > 100_000


# What a process may have.


def test_a_process_that_may_not_open_as_many_files_does_not_start(keys):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most == resource.RLIM_INFINITY:
        pytest.skip("this process may open any number of files")

    with pytest.raises(SettingsError, match=f"CLVLAB_MAX_CONNECTIONS={most} needs {most + OTHERS} open files"):
        _allow_files(make_settings(keys, max_connections=most))


def test_units_and_containers_allow_the_files_of_all_connections_and_bound_memory():
    unit = dict(re.findall(r"^(\w+)=(\w+)$", (ROOT / "docs/how-to/operate.md").read_text(encoding="utf-8"), re.MULTILINE))
    composed = yaml.safe_load((ROOT / "service/compose.yaml").read_text(encoding="utf-8"))
    needed = Settings().max_connections + OTHERS

    assert unit["UMask"] == "0077"
    assert int(unit["LimitNOFILE"]) > needed
    assert {"MemoryMax", "TasksMax"} <= set(unit)
    for name in ("service-1", "worker-1", "proxy"):
        assert composed["services"][name]["ulimits"]["nofile"] > needed
    assert [name for name, one in composed["services"].items() if "mem_limit" not in one] == []


# The whole attacks, against ``clvlab service serve`` in a process of its own.


def again(request):
    """Four clients that send a request again and again, on a new connection each time."""
    return Attack(4, request.replace(b"Host", b"Connection: close\r\nHost", 1))


BIG = {
    "pack_id": "starter",
    "fixture_ids": [""] * 65_000,
}
WHOLE = {
    "bodies": Attack(1_000, NO_BODY, b" "),
    "bodies-of-many": Attack(1_000, post(b"/backtests", b"{" + b" " * 199_000, 200_000), b" ", addresses=100),
    "headers": Attack(500, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ", b"x"),
    "sockets": Attack(2_000, b"GET /runs/x/progress HTTP/1.1\r\n" + UPGRADE + b"AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"),
    "connections": Attack(10_000, b""),
    "connections-of-many": Attack(10_000, b"", addresses=250),
    "errors": again(post(b"/backtests", json.dumps(BIG).encode())),
    "names": again(post(b"/backtests", json.dumps({str(number): 1 for number in range(22_000)}).encode())),
    "nests": again(post(b"/backtests", b"[" * 131_000 + b"]" * 131_000)),
    "queries": again(b"GET /runs?%s HTTP/1.1\r\nHost: x\r\n\r\n" % b"&".join(b"%x=" % number for number in range(2_900))),
}
GROWTH_BYTES = 300 << 20
OTHER = "127.3.0.1"


def look(client, url):
    """How long readiness takes to be told, on a new connection."""
    started = time.monotonic()
    assert client.get(f"{url}/readyz", headers={"Connection": "close"}, timeout=PATIENCE_S).status_code == 200
    return time.monotonic() - started


@contextmanager
def under_from_outside(attack, place):
    """Attack a service from a process of its own, which takes nothing from who measures."""
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    process = context.Process(target=attack.run_until, args=(place, over))
    process.start()
    try:
        yield
    finally:
        over.set()
        process.join()


@pytest.mark.long
@pytest.mark.parametrize("name", WHOLE)
def test_no_attack_delays_readiness_past_a_second_or_takes_memory(tmp_path, name):
    with (
        serving(tmp_path) as (url, process, _),
        httpx2.Client(transport=httpx2.HTTPTransport(local_address=OTHER, verify=False)) as other,
    ):
        memory, took_s = psutil.Process(process.pid).memory_info, []
        calm_s = sorted(look(other, url) for _ in range(20))[-2]
        before = most = memory().rss
        ends_s = time.monotonic() + length(5, 30)
        with under_from_outside(WHOLE[name], ("127.0.0.1", int(url.rpartition(":")[2]))):
            while time.monotonic() < ends_s:
                took_s.append(look(other, url))
                most = max(most, memory().rss)
                time.sleep(0.02)

    took_s.sort()
    allowed_s = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # all takes longer where others work too
    assert took_s[-2] < allowed_s, f"{len(took_s)} looks, the longest of {took_s[-3:]} s, {calm_s:.3f} s without an attack"
    assert most - before < GROWTH_BYTES, f"{(most - before) >> 20} MB more"
