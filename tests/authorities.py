"""Time-stamp authorities of a test: certificates of any validity, and answers by ``openssl ts``."""

import shutil
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

has_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="stamps are made by the program openssl")
NOW = datetime.now(UTC)
_CONFIG = """
[tsa]
serial = {folder}/serial
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
accuracy = secs:1
ess_cert_id_alg = sha256
"""


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def issued(name, issuer=None, *, ca=False, usage=ExtendedKeyUsageOID.TIME_STAMPING, since=-10, until=10, path_length=None):
    """A key and a certificate by another key and certificate, or by itself; its validity in days from now."""
    key = rsa.generate_private_key(65537, 2048)
    by, signer = (_name(name), key) if issuer is None else (issuer[1].subject, issuer[0])
    builder = (
        x509.CertificateBuilder().subject_name(_name(name)).issuer_name(by).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(NOW + timedelta(days=since))
        .not_valid_after(NOW + timedelta(days=until))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=path_length), critical=True)
        .add_extension(x509.KeyUsage(
            digital_signature=not ca, key_cert_sign=ca, crl_sign=ca, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        ), critical=True)
    )  # fmt: skip
    if not ca:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
    return key, builder.sign(signer, hashes.SHA256())


def pem(*certificates):
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)


@dataclass
class Authority:
    """Answers queries with a key and a certificate, and sends the certificates of its chain along."""

    folder: Path
    signer: tuple
    chain: tuple = ()

    def __post_init__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        key, certificate = self.signer
        own = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        for name, content in {
            "key.pem": own, "signer.pem": pem(certificate), "chain.pem": pem(*self.chain), "serial": b"01\n",
            "tsa.cnf": _CONFIG.format(folder=self.folder).encode(),
        }.items():  # fmt: skip
            (self.folder / name).write_bytes(content)

    def answer(self, query):
        (self.folder / "query").write_bytes(query)
        files = {"queryfile": "query", "inkey": "key.pem", "signer": "signer.pem", "chain": "chain.pem", "config": "tsa.cnf"}
        options = [word for name, file in files.items() for word in (f"-{name}", str(self.folder / file))]
        command = ["openssl", "ts", "-reply", "-section", "tsa", *options, "-out", str(self.folder / "reply")]
        subprocess.run(command, check=True, capture_output=True)
        return (self.folder / "reply").read_bytes()


class AuthorityServer(ThreadingHTTPServer):
    """Serves an authority over HTTP while it is entered."""

    def __init__(self, authority):
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                query = self.rfile.read(int(self.headers["Content-Length"]))
                content = authority.answer(query) if authority else b"no stamp"
                self.send_response(200)
                self.send_header("Content-Type", "application/timestamp-reply")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
