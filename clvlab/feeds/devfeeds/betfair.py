"""A server on this machine that speaks as Betfair's stream does, from a script of market change messages.

Faults of a plan, at the message of their number: ``cut``, ``duplicate``, ``stall``, ``skew`` and ``malformed``; ``401`` refuses
the session, ``500`` says UNEXPECTED_ERROR, and both close; ``429`` closes and refuses connections with TOO_MANY_REQUESTS;
``old-snapshot`` finds the clock of the next resumption too old, so that an image is the answer. The others have no counterpart
in this protocol, and do nothing.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType

from clvlab.errors import MissingExtraError
from clvlab.feeds.devfeeds.betfair_conversation import PATIENCE_S, Conversation, Exchange, LeftError
from clvlab.feeds.devfeeds.betfair_markets import STEP_MS, made_up_markets
from clvlab.feeds.devfeeds.faults import FaultPlan
from clvlab.packs.importers.betfair_book import StreamMessage

# A certificate for a server on this machine, made when it starts and trusted by nobody who was not told to.


def write_certificate(folder: Path, name: str = "localhost", address: str = "127.0.0.1") -> tuple[Path, Path]:
    """Write a new certificate that vouches for itself, and its key; return both files.

    Raises
    ------
    MissingExtraError
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ModuleNotFoundError as error:
        raise MissingExtraError("anchor", error.name) from error
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"clvlab devfeed {name}")])
    now = datetime.now(UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    names = x509.SubjectAlternativeName([x509.DNSName(name), x509.IPAddress(ipaddress.ip_address(address))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "certificate.pem", folder / "key.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.touch(mode=0o600)
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return public, private


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
        script: Sequence[StreamMessage],
        plan: FaultPlan | None = None,
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
        self.exchange = Exchange(script, plan or FaultPlan(), app_key, session, published, missed, kept, segment, pace_s)
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


def betfair_server(*, speed: float = 60.0, plan: FaultPlan | None = None, port: int = 0) -> BetfairServer:
    """Return a server of two matches that are made up, from now until their results, at so many times their pace."""
    script = made_up_markets(0, start_ms=int(time.time() * 1000))
    first = sum("img" in change for message in script for change in message["mc"])  # so that there is something to ask for
    return BetfairServer(script, plan, published=first, pace_s=STEP_MS / 1000 / speed, port=port)
