import http.client
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from clvlab.packs.synthetic import Recipe, build

BUCKET = "odds"


@dataclass
class Server:
    """An object store on loopback, and what was asked of it."""

    port: int
    asked: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def bytes_served(self):
        return sum(size for _, _, size in self.asked)

    def change(self, key, content):
        """Write over an object, as whoever owns the bucket can."""
        self._ask("PUT", key, content)

    def remove(self, key):
        self._ask("DELETE", key)

    def keys(self):
        return re.findall("<Key>([^<]+)</Key>", self._ask("GET", "?list-type=2").decode())

    def get(self, key):
        return self._ask("GET", key)

    def _ask(self, method, key, content=b""):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request(method, f"/{BUCKET}/{key}".rstrip("/"), content, {"Host": "s3.amazonaws.com"})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        assert answer.status < 300, (answer.status, content)
        return content


class Counting:
    """Middleware that notes method, path and bytes of every answer."""

    def __init__(self, app, asked):
        self.app, self.asked = app, asked

    def __call__(self, environ, start_response):
        size = 0
        for chunk in self.app(environ, start_response):
            size += len(chunk)
            yield chunk
        self.asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], size))


@pytest.fixture(scope="session")
def store():
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    asked = []
    app = Counting(DomainDispatcherApplication(create_backend_app), asked)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Server(server.server_port, asked)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def s3(store, monkeypatch, tmp_path):
    """An empty bucket, whose credentials stand in the environment."""
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{store.port}",
        "AWS_ACCESS_KEY_ID": "mine",
        "AWS_SECRET_ACCESS_KEY": "hidden-key",
        "AWS_REGION": "us-east-1",
        "CLVLAB_CACHE": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    connection = http.client.HTTPConnection("127.0.0.1", store.port)
    connection.request("POST", "/moto-api/reset")
    assert connection.getresponse().read() == b'{"status": "ok"}'
    connection.close()
    store.change("", b"")  # a bucket is made by putting it
    store.asked.clear()
    return store
