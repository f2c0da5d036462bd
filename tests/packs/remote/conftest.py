"""A bucket and a web server on loopback, and a small pack of many row groups."""

import http.client
import threading
from contextlib import closing
from dataclasses import dataclass, field

import obstore
import pytest
from obstore.store import S3Store

from clvlab.packs.synthetic import Recipe, build
from tests.packs.remote.web import serving

BUCKET = "tested"


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
        obstore.put(self._owner, key, content)

    def remove(self, key):
        obstore.delete(self._owner, key)

    def names(self):
        return sorted(found["path"] for found in obstore.list(self._owner).collect())

    def get(self, key):
        return bytes(obstore.get(self._owner, key).bytes())

    @property
    def _owner(self):
        return S3Store.from_url(f"s3://{BUCKET}", client_options={"allow_http": True})

    def ask(self, method, path):
        """Ask without a signature, as nobody."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port)) as connection:
            connection.request(method, path, b"", {"Host": "s3.amazonaws.com"})
            answer = connection.getresponse()
            assert answer.status == 200, (answer.status, answer.read())


class Counting:
    """Middleware that notes method, path and bytes of every answer."""

    def __init__(self, app, asked):
        self.app, self.asked = app, asked

    def __call__(self, environ, start_response):
        content = b"".join(self.app(environ, start_response))
        self.asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], len(content)))
        return [content]


@pytest.fixture(scope="session")
def store():
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    asked = []
    app = Counting(DomainDispatcherApplication(create_backend_app), asked)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    made = Server(server.server_port, asked)
    made.ask("PUT", f"/{BUCKET}")
    yield made
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
    for key in store.names():
        store.remove(key)
    store.asked.clear()
    return store


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """A pack of eight fixtures in as many row groups."""
    folder = tmp_path_factory.mktemp("packs") / "many"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("clvlab.packs.grouped._ROWS_PER_GROUP", 1)
        build(Recipe(3, 8, 40), folder)
    return folder


@pytest.fixture
def web(tmp_path, monkeypatch):
    """A web server over the folder ``served``, whose failures are not waited for."""
    monkeypatch.setenv("CLVLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("clvlab.packs.remote.bucket.TIMEOUT_S", 3.0)
    monkeypatch.setattr("clvlab.packs.remote.bucket._RETRIES", 0)
    (tmp_path / "served").mkdir()
    with serving(tmp_path / "served") as server:
        yield server
