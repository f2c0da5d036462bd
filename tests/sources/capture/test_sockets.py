import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

from clvlab.sources.capture.connection import Patience, Socket
from clvlab.sources.capture.feed import Cut, GapCause, Health, Stop
from tests.waiting import PATIENCE_S

QUICK = Patience(answer_s=2.0, silence_s=5.0, data_s=0.4, first_s=0.01, most_s=0.05)


@contextmanager
def sending(say):
    """A server that says something on each connection; its address."""

    def handle(connection):
        try:
            say(connection)
        except ConnectionClosed:
            return  # the client has given up

    with serve(handle, "127.0.0.1", 0, compression=None, close_timeout=0.2) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join()


def first_cut(url, patience=QUICK, **options):
    stop = Stop()
    timer = threading.Timer(PATIENCE_S, stop.set)
    timer.start()
    socket = Socket(url, "url", Health(), patience, lambda _: [], lambda _, message: [message], lambda _: None, **options)
    with closing(socket.listen(stop)) as items:
        found = next((item for item in items if isinstance(item, Cut)), None)
    timer.cancel()
    return found


def pongs(connection):
    connection.send("{}")
    while True:
        connection.send("PONG")
        time.sleep(0.02)


def test_answers_to_heartbeats_without_end_are_no_messages():
    with sending(pongs) as url:
        assert first_cut(url).cause is GapCause.SILENCE


def test_a_message_that_no_capture_can_hold_is_a_cut_that_says_so():
    def say(connection):
        connection.send(b"7" * (16 << 20))
        connection.recv()

    with sending(say) as url:
        assert first_cut(url, replace(QUICK, data_s=PATIENCE_S)).cause is GapCause.OVERSIZE


def test_one_of_several_connections_is_a_gap_of_its_markets_before_it_stands():
    assert first_cut("ws://127.0.0.1:9", markets=("a",)).markets == ("a",)
