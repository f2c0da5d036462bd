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
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from clvlab.feeds.devfeed.betfair_conversation import PATIENCE_S, Conversation, LeftError
from clvlab.feeds.devfeed.betfair_exchange import Exchange
from clvlab.feeds.devfeed.betfair_markets import STEP_MS, made_up_markets
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
    port
        On loopback; 0 takes a free one.

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
        port: int = 0,
    ) -> None:
        self.exchange = Exchange(script, plan or Plan(), app_key, session, published, missed, kept, segment, pace_s)
        self.port = port
        self._threads: list[threading.Thread] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def sent(self) -> list[bytes]:
        return self.exchange.sent

    @property
    def finished(self) -> threading.Event:
        return self.exchange.finished

    @property
    def is_done(self) -> bool:
        """Whether some client has been sent the end of the script."""
        return self.finished.is_set()

    @property
    def published_count(self) -> int:
        """How many messages went by."""
        return self.exchange.published

    @property
    def variables(self) -> dict[str, str]:
        """The settings with which it is listened to, once the context was entered."""
        own = {"HOST": self.host, "PORT": str(self.port), "CAFILE": self.cafile}
        keys = {"APP_KEY": self.exchange.app_key, "SESSION_TOKEN": self.exchange.session}
        return {"CLVLAB_FEED": "betfair"} | {f"CLVLAB_BETFAIR_{name}": value for name, value in (own | keys).items()}

    def __enter__(self) -> BetfairServer:
        self._listener = socket.create_server((self.host, self.port))
        self._folder = tempfile.TemporaryDirectory(prefix="clvlab-devfeed-")
        certificate, key = write_certificate(Path(self._folder.name))
        self.cafile = str(certificate)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._listener.settimeout(0.2)
        self.port = self._listener.getsockname()[1]
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


def betfair_server(*, speed: float = 60.0, plan: Plan | None = None, port: int = 0) -> BetfairServer:
    """Return a server of two matches that are made up, from now until their results, at so many times their pace."""
    script = made_up_markets(0, start_ms=int(time.time() * 1000))
    first = sum("img" in change for message in script for change in message["mc"])  # so that there is something to ask for
    return BetfairServer(script, plan, published=first, pace_s=STEP_MS / 1000 / speed, port=port)
