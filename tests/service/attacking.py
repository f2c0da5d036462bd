"""Clients that take what a service has: sockets that are many, slow or large, from addresses of this machine."""

import itertools
import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event

JSON = b"Host: x\r\nContent-Type: application/json\r\n"
UPGRADE = b"Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "

AT_ONCE, AGAIN = 500, 20  # sockets that are opened at a time, for the first time and again


@dataclass
class Attack:
    """Sockets that are opened by thousands a second, and again when they are closed, by hundreds.

    Attributes
    ----------
    count
        Number of sockets.
    opening, drip
        Bytes that each sends first, and then every ``pause_s``.
    addresses
        Number of addresses of this machine that they come from.
    """

    count: int
    opening: bytes
    drip: bytes = b""
    pause_s: float = 0.5
    addresses: int = 1
    closed: int = 0
    answers: set[bytes] = field(default_factory=set)

    def run_until(self, place: tuple[str, int], over: Event) -> None:
        """Attack a service until an event of another process."""
        self.run(place, lambda: not over.is_set())

    def run(self, place: tuple[str, int], holds: Callable[[], bool]) -> None:
        """Attack a service while ``holds``."""
        sources = itertools.cycle(f"127.0.{number // 250}.{number % 250 + 1}" for number in range(self.addresses))
        with selectors.DefaultSelector() as selector:
            due_s, left = 0.0, self.count
            while holds():
                missing = min(AT_ONCE if left > 0 else AGAIN, self.count - len(selector.get_map()))
                left -= missing
                for _ in range(missing):
                    self._open(selector, next(sources), place)
                if time.monotonic() > due_s:
                    due_s = time.monotonic() + self.pause_s
                    for key in list(selector.get_map().values()):
                        if self.drip and not key.data:  # the opening is sent
                            with suppress(OSError):
                                key.fileobj.send(self.drip)
                self._hear(selector, 0.05)
                time.sleep(0.05)
            for key in list(selector.get_map().values()):
                key.fileobj.close()

    def _open(self, selector, source, place):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # ports are free at once
        sock.bind((source, 0))
        sock.settimeout(0)
        sock.connect_ex(place)
        selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, bytearray(self.opening))

    def _hear(self, selector, wait_s):
        for key, events in selector.select(wait_s):
            try:
                if events & selectors.EVENT_WRITE:
                    del key.data[: key.fileobj.send(key.data)]
                    if not key.data:
                        selector.modify(key.fileobj, selectors.EVENT_READ, key.data)
                if not events & selectors.EVENT_READ:
                    continue
                if received := key.fileobj.recv(65_536):
                    self.answers.add(received[:200])
                    continue
            except BlockingIOError:
                continue
            except OSError:
                pass
            selector.unregister(key.fileobj)
            key.fileobj.close()
            self.closed += 1


def post(path: bytes, body: bytes, length: int | None = None) -> bytes:
    """Return a request with a JSON body, of which more may follow."""
    return b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (path, JSON, len(body) if length is None else length, body)
