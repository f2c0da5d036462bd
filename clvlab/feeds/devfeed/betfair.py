"""A server on this machine that speaks as Betfair's stream does, from a script of market change messages.

Faults of a plan, at the message of their number: ``cut``, ``duplicate``, ``stall``, ``skew`` and ``malformed``; ``401`` refuses
the session, ``500`` says UNEXPECTED_ERROR, and both close; ``429`` closes and refuses connections with TOO_MANY_REQUESTS;
``old-snapshot`` finds the clock of the next resumption too old, so that an image is the answer. The others have no counterpart
in this protocol, and do nothing.
"""

from __future__ import annotations

import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from clvlab.feeds.devfeed.betfair_conversation import PATIENCE_S, Conversation, LeftError
from clvlab.feeds.devfeed.betfair_exchange import Exchange
from clvlab.feeds.devfeed.certificate import write_certificate
from clvlab.feeds.devfeed.faults import Plan


class BetfairServer:
    """A stand-in for Betfair's stream, as a context.

    Parameters
    ----------
    script
        ``mcm`` messages with ``pt`` and ``mc``; the server gives them clocks of its own.
    plan
        What goes wrong.
    app_key, session
        What a client has to show.
    published
        How many messages of the script lie behind before anybody connects: they are in the first image.
    missed
        How many more go by while a client is away after a fault.
    kept
        How many messages can be sent again; a clock before those is too old.
    segment
        Markets in one segment of an image.
    pace_s
        Time from one message to the next.

    Attributes
    ----------
    host, port, cafile
        Where it is, and the certificate that a client has to trust.
    sent
        Every line with market changes that was sent whole.
    finished
        Set once some client has been sent the end of the script.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        script: Sequence[Mapping[str, Any]],
        plan: Plan | None = None,
        *,
        app_key: str = "key",
        session: str = "session",
        published: int = 0,
        missed: int = 3,
        kept: int = 1000,
        segment: int = 50,
        pace_s: float = 0.0,
    ) -> None:
        self.exchange = Exchange(script, plan or Plan(), app_key, session, published, missed, kept, segment, pace_s)
        self._threads: list[threading.Thread] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def sent(self) -> list[bytes]:
        return self.exchange.sent

    @property
    def finished(self) -> threading.Event:
        return self.exchange.finished

    def __enter__(self) -> BetfairServer:
        self._folder = tempfile.TemporaryDirectory(prefix="clvlab-devfeed-")
        certificate, key = write_certificate(Path(self._folder.name))
        self.cafile = str(certificate)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._listener = socket.create_server((self.host, 0))
        self._listener.settimeout(0.2)
        self.port: int = self._listener.getsockname()[1]
        self._begin(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.exchange.closing.set()
        for thread in self._threads:
            thread.join(5)
        self._listener.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name="devfeed-betfair", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.exchange.closing.is_set():
            try:
                peer, _ = self._listener.accept()
            except TimeoutError:
                continue
            self._begin(self._serve, peer)

    def _serve(self, peer: socket.socket) -> None:
        peer.settimeout(PATIENCE_S)
        with peer:
            try:
                with self._context.wrap_socket(peer, server_side=True) as secure:
                    Conversation(self.exchange, secure).converse()
            except (OSError, ValueError, LeftError):  # the client went, was left, or asked nothing that can be read
                return
