"""A bucket on loopback."""

import http.client
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

import obstore
from obstore.store import S3Store

BUCKET = "tested"


@dataclass
class Server:
    """An object store on loopback, and what was asked of it."""

    port: int
    asked: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def variables(self):
        """What the environment has of whoever may read and write it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "mine",
            "AWS_SECRET_ACCESS_KEY": "hidden-key",
            "AWS_REGION": "us-east-1",
        }

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


@contextmanager
def bucket():
    """A bucket, and nothing in it."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Silent(WSGIRequestHandler):
        def log(self, *_):
            """Say nothing: commands that are called here say what is looked at."""

    asked = []
    app = Counting(DomainDispatcherApplication(create_backend_app), asked)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Silent)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    made = Server(server.server_port, asked)
    made.ask("PUT", f"/{BUCKET}")
    yield made
    server.shutdown()
    thread.join()
    server.server_close()
