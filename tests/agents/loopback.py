"""A chat-completions server on loopback that answers as it is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

__all__ = ["Loopback", "completion", "serving"]

# Takes a prompt, gives status and body.
Reply = Callable[[str], tuple[int, bytes]]


def completion(content: str | None, **choice: Any) -> tuple[int, bytes]:
    """A successful chat completion."""
    message = {"role": "assistant", "content": content} | choice.pop("message", {})
    return 200, json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"} | choice]}).encode()


@dataclass
class Loopback:
    """Address of the server, and the requests it had."""

    base_url: str
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)


@contextmanager
def serving(reply: Reply) -> Iterator[Loopback]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            had.requests.append((self.path, dict(self.headers), body))
            status, data = reply(body["messages"][0]["content"])
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except (BrokenPipeError, ConnectionResetError):  # the client has given up
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        had = Loopback(f"http://127.0.0.1:{server.server_port}/v1")
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield had
        finally:
            server.shutdown()
            thread.join()
