"""Keys, tokens and a JWKS server on loopback."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

from tests.waiting import PATIENCE_S

ISSUER, AUDIENCE = "https://issuer.example", "clvlab"
ALICE, BOB = "did:key:alice", "did:key:bob"


def make_key(algorithm="ES256"):
    match algorithm:
        case "ES256":
            return ec.generate_private_key(ec.SECP256R1())
        case "RS256":
            return rsa.generate_private_key(65537, 2048)
        case "EdDSA":
            return ed25519.Ed25519PrivateKey.generate()


def make_token(key, algorithm="ES256", kid="one", headers=None, **claims):
    """A good token, save for what is named; a claim that is None is left out."""
    now = int(time.time())
    base = {"sub": ALICE, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 600} | claims
    payload = {name: value for name, value in base.items() if value is not None}
    return jwt.encode(payload, key, algorithm, {"kid": kid} | (headers or {}))


def make_jwk(private, algorithm="ES256", kid="one"):
    return get_default_algorithms()[algorithm].to_jwk(private.public_key(), as_dict=True) | {"kid": kid, "alg": algorithm}


class Provider:
    """What the JWKS server says, and how often it was asked."""

    def __init__(self, *keys):
        self.keys, self.status, self.body, self.asked = list(keys), 200, None, 0
        self.url = ""
        self.goes_on = threading.Event()
        self.goes_on.set()

    def answer(self):
        self.asked += 1
        assert self.goes_on.wait(PATIENCE_S)
        return self.status, json.dumps({"keys": self.keys}).encode() if self.body is None else self.body


@contextmanager
def serving(provider):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = provider.answer()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    provider.url = f"http://127.0.0.1:{server.server_port}/jwks.json"
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
