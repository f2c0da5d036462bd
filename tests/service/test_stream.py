import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect

import clvlab
from tests.service.serving import BOUND, api, make_entry
from tests.waiting import PATIENCE_S, until

EAGER = {"cooldown_s": 0, "min_drift_micro_logits": 1, "min_persistence": 0.0, "warmup_ticks": 1}


@pytest.fixture(scope="module")
def served(store, keys):
    with api(keys, store, stream_poll_s=0.05) as found:
        yield found


def stream_url(api, competition_id, since_seq=-1):
    return f"{api.url.replace('http', 'ws', 1)}/competitions/{competition_id}/arena?since_seq={since_seq}"


def read(url, **options):
    with connect(url, **options) as messages:
        return [json.loads(message) for message in messages], messages.protocol.close_code


def test_a_live_client_sees_the_log_as_it_grows_and_in_the_end_all_of_it(served):
    created = served.competition()
    seen = []

    def follow():
        with connect(stream_url(served, created)) as messages:
            seen.extend((time.monotonic(), json.loads(message)) for message in messages)

    with ThreadPoolExecutor() as pool:
        following = pool.submit(follow)
        time.sleep(0.2)
        assert seen == []
        served.post(f"/competitions/{created}/start")
        following.result(timeout=PATIENCE_S)

    assert [event for _, event in seen] == served.get(f"/competitions/{created}/events", since_seq=-1)
    assert seen[0][1]["kind"] == "COMPETITION_STARTED"


def test_the_stream_of_a_competition_that_is_deleted_ends(served):
    created = served.competition()

    with connect(stream_url(served, created)) as messages:
        served.alice.delete(f"/competitions/{created}")

        assert list(messages) == []
        assert messages.protocol.close_reason == "the competition was deleted"


def test_many_clients_see_the_same(served):
    created = served.competition()

    with ThreadPoolExecutor(8) as pool:
        following = [pool.submit(read, stream_url(served, created)) for _ in range(8)]
        time.sleep(0.2)
        served.post(f"/competitions/{created}/start")
        logs = [future.result(timeout=PATIENCE_S) for future in following]

    whole = served.get(f"/competitions/{created}/events", since_seq=-1)
    assert all(log == (whole, 1000) for log in logs)


@pytest.mark.parametrize("since_seq", [0, 5, 10**6])
def test_a_stream_resumes_after_since_seq(served, since_seq):
    created, _ = served.started()

    found, code = read(stream_url(served, created, since_seq))

    assert found == served.get(f"/competitions/{created}/events", since_seq=since_seq)
    assert code == 1000


def test_the_client_library_follows_a_stream(served):
    created, _ = served.started()

    with clvlab.Client(served.url) as client:
        assert list(client.stream(created)) == client.events(created, since_seq=-1)


@pytest.mark.parametrize(
    ("competition_id", "since_seq", "status"),
    [("gone", "-1", 404), ("%00", "-1", 404), ("gone", "x", 422), ("gone", "9" * 30, 422), ("gone", "0" * 30, 422)],
)
def test_a_bad_handshake_is_answered_with_a_problem(served, competition_id, since_seq, status):
    with pytest.raises(InvalidStatus) as refusal:
        read(stream_url(served, competition_id, since_seq))

    response = refusal.value.response
    assert response.status_code == status
    assert json.loads(response.body)["status"] == status


def test_what_a_client_says_is_ignored(served):
    created = served.competition()

    with connect(stream_url(served, created), close_timeout=0.1) as messages:  # which leaves most of it unread
        messages.send("hello")
        messages.send(b"\x00" * 1000)
        served.post(f"/competitions/{created}/start")
        assert json.loads(messages.recv(timeout=PATIENCE_S))["seq"] == 0


def test_a_client_that_leaves_ends_its_stream(served):
    created = served.competition()

    with connect(stream_url(served, created)):
        pass

    until(lambda: "clvlab_streams_open 0.0" in served.nobody.get("/metrics").text)


def test_one_stream_too_many_is_asked_to_come_later(keys):
    with api(keys, max_streams=1) as served:
        created = served.competition()
        with connect(stream_url(served, created)), pytest.raises(ConnectionClosedError) as closed:
            read(stream_url(served, created))

    assert closed.value.rcvd.code == 1013


def test_a_slow_client_is_closed_with_1013_and_can_resume(keys):
    with api(keys, send_buffer=4096, stream_send_timeout_s=2) as served:
        created = served.competition(config=BOUND, agents=())
        for name in ("a", "b", "c"):
            served.post(f"/competitions/{created}/agents", make_entry("cumulative-drift", agent_id=name, config=EAGER))
        served.post(f"/competitions/{created}/start")
        whole = served.get(f"/competitions/{created}/events", since_seq=-1)
        assert len(json.dumps(whole)) > 300_000, "too small a log to fill the buffers"

        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", int(served.url.rpartition(":")[2])))
        first = []
        with connect(stream_url(served, created), sock=slow, max_queue=1, compression=None) as messages:
            time.sleep(3)  # the service gives up after 2 s, and waits as long again to say so
            with pytest.raises(ConnectionClosedError) as closed:
                first.extend(json.loads(message) for message in messages)
        rest, _ = read(stream_url(served, created, first[-1]["seq"]))

    assert closed.value.rcvd.code == 1013
    assert 0 < len(first) < len(whole)
    assert first + rest == whole


def test_the_service_stops_while_a_stream_is_open(keys):
    closed, open_ = [], threading.Event()

    def follow(url):
        with connect(url) as messages:
            open_.set()
            with pytest.raises(ConnectionClosedError) as error:
                list(messages)
        closed.append(error.value.rcvd.code)

    with api(keys) as served:
        created = served.competition()
        following = threading.Thread(target=follow, args=(stream_url(served, created),))
        following.start()
        assert open_.wait(PATIENCE_S)
    following.join(timeout=PATIENCE_S)

    assert not following.is_alive()
    assert closed == [1012]
