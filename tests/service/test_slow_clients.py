"""Clients that send slowly, never, or in two lengths, on sockets of their own."""

import json
import socket
import time

import pytest

from tests.service.serving import make_settings, stoppable
from tests.waiting import PATIENCE_S

HEADERS_S, BODY_S = 1.0, 2.0
POST = b"POST /backtests HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def timed(keys):
    """Host and port of a service that waits for nobody."""
    with stoppable(make_settings(keys, header_timeout_s=HEADERS_S, body_timeout_s=BODY_S, body_min_rate=0.5)) as (url, _):
        yield "127.0.0.1", int(url.rpartition(":")[2])


def talk(place, parts=(), pause_s=0.0):
    """What the service answers to bytes that come with pauses, until it closes, and how long that took."""
    with socket.create_connection(place) as client:
        client.settimeout(PATIENCE_S)
        started, answer = time.monotonic(), b""
        try:
            for part in parts:
                client.sendall(part)
                time.sleep(pause_s)
        except OSError:  # it has closed
            pass
        try:
            while chunk := client.recv(65_536):
                answer += chunk
        except ConnectionError:
            pass
        return answer, time.monotonic() - started


def test_headers_that_come_byte_by_byte_are_not_waited_for(timed):
    head = (bytes([byte]) for byte in b"GET /" + b"x" * 100_000)
    answer, _ = talk(timed, head, pause_s=0.05)

    assert next(head, None) is not None, "it waited for the last byte"

    assert answer == b"" or answer.startswith(b"HTTP/1.1 408")


def test_headers_that_stop_are_answered_with_408(timed):
    answer, took_s = talk(timed, [b"GET /healthz HTTP/1.1\r\nHost: x\r\n"])

    assert answer.startswith(b"HTTP/1.1 408")
    assert took_s >= HEADERS_S * 0.9


def test_a_connection_on_which_nothing_is_asked_is_closed(timed):
    assert talk(timed)[0] == b""


def test_a_body_that_stops_is_answered_with_408(timed):
    answer, took_s = talk(timed, [POST + b"Content-Length: 100\r\n\r\n{"])

    assert answer.startswith(b"HTTP/1.1 408")
    assert took_s >= BODY_S * 0.9


def test_a_body_that_comes_slowly_and_steadily_is_read(timed):
    body = b'{"pack_id": 5}'
    head = POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)

    answer, took_s = talk(timed, [head, *(bytes([byte]) for byte in body)], pause_s=BODY_S / 10)

    assert answer.startswith(b"HTTP/1.1 422")
    assert took_s > BODY_S


def test_a_connection_that_is_kept_open_has_the_servers_own_time_out(timed):
    ask = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection(timed) as client:
        client.settimeout(PATIENCE_S)
        for _ in range(2):
            client.sendall(ask)
            answer = b""
            while not answer.endswith(b"}"):
                chunk = client.recv(65_536)
                assert chunk, answer
                answer += chunk
            assert answer.startswith(b"HTTP/1.1 200")
            time.sleep(HEADERS_S * 1.5)
        client.sendall(ask[:20])
        answer = b""
        while chunk := client.recv(65_536):
            answer += chunk

    assert answer.startswith(b"HTTP/1.1 408")


def test_pipelined_requests_are_answered_in_turn(timed):
    ask = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

    answer, _ = talk(timed, [ask * 3 + ask.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")])

    assert answer.count(b"HTTP/1.1 200") == 4


@pytest.mark.parametrize("path", [b"POST /backtests", b"GET /healthz", b"GET /nowhere"])
def test_a_request_with_two_lengths_is_refused_and_its_connection_closed(timed, path):
    lengths = b"Content-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    smuggled = b"GET /leaderboard HTTP/1.1\r\nHost: x\r\n\r\n"

    answer, _ = talk(timed, [path + b" HTTP/1.1\r\nHost: x\r\n" + lengths + b"0\r\n\r\n" + smuggled])

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"connection: close" in head.lower()
    assert answer.count(b"HTTP/1.1") == 1
    assert "Transfer-Encoding" in json.loads(body)["detail"]
