"""A web server on loopback that gives parts of files, and misbehaves when it is told to."""

import re
import threading
import time
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_STATUSES = {"broken": 500, "denied": 403}


class Web(ThreadingHTTPServer):
    """Serves a folder.

    ``fault`` is one of ``whole`` (no parts), ``short``, ``cut``, ``slow``, ``broken``, ``denied`` and ``bare`` (no ETag).
    """

    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.fault, self.asked = folder, None, []

    def url(self, path=""):
        return f"http://127.0.0.1:{self.server_port}/{path}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        fault, path = self.server.fault, self.server.folder / self.path.partition("?")[0].lstrip("/")
        self.server.asked.append(self.path)
        if fault == "slow":
            time.sleep(3.5)
        if fault in _STATUSES or not path.is_file():
            self._head(_STATUSES.get(fault, 404), {}, 0)
            return
        content = path.read_bytes()
        tag = f'"{sha256(content).hexdigest()}"'
        if self.headers.get("If-Match", tag) != tag:
            self._head(412, {}, 0)
            return
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        headers = {} if fault == "bare" else {"ETag": tag}
        if asked is None or fault == "whole":
            self._head(200, headers, len(content))
            self._send(content)
            return
        first, last = asked.groups()
        start = int(first) if first else max(0, len(content) - int(last))
        end = min(int(last) + 1, len(content)) if first and last else len(content)
        if fault == "short":
            end -= 1
        self._head(206, headers | {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}"}, end - start)
        self._send(content[start : end - 1 if fault == "cut" else end])

    def do_HEAD(self):
        self.do_GET()

    def _head(self, status, headers, length):
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(length)}).items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, content):
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@contextmanager
def serving(folder):
    with Web(folder) as web:
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield web
        finally:
            web.shutdown()
            thread.join()
