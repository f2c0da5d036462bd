"""A language model behind an OpenAI-compatible endpoint. It needs the extra ``llm``. An import makes no request."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from clvlab.errors import AgentError, AskError, MissingExtraError

_MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class ChatEndpoint:
    """A model behind ``POST {base_url}/chat/completions`` (OpenAI API, "Create chat completion"), for use as ``ask``.

    The key is never shown or recorded. The time-out applies to the connection, to each part of an answer, and to the whole
    answer once it has begun.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 60.0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        httpx = _httpx()
        try:
            url = httpx.URL(self.base_url)
        except httpx.InvalidURL as error:
            raise AgentError(f"base_url must be an http or https address, not {self.base_url!r}: {error}") from error
        if url.scheme not in ("http", "https") or not url.host:
            raise AgentError(f"base_url must be an http or https address, not {self.base_url!r}")
        if not 0 < self.timeout_s <= 3600:
            raise AgentError(f"timeout_s must be above 0 and at most 3600, not {self.timeout_s!r}")

    def __call__(self, prompt: str) -> str:
        """Return the model's answer. Without an answer, ``AskError`` has a ``kind`` such as ``timeout`` or ``http_error``."""
        httpx = _httpx()
        try:
            status, body = self._posted(prompt)
        except httpx.TimeoutException as error:
            raise AskError("timeout", f"no answer within {self.timeout_s} s") from error
        except httpx.HTTPError as error:
            raise AskError("unreachable", f"{type(error).__name__}: {error}") from error
        if status != httpx.codes.OK:
            raise AskError("http_error", f"status {status}: {body[:300].decode(errors='replace')}")
        return _content(body)

    def _posted(self, prompt: str) -> tuple[int, bytes]:
        question = {**self.options, "model": self.model, "messages": [{"role": "user", "content": prompt}]}
        headers = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        httpx, body = _httpx(), bytearray()
        url = f"{self.base_url.rstrip('/')}/chat/completions"
        with (
            httpx.Client(timeout=self.timeout_s) as client,
            client.stream("POST", url, json=question, headers=headers) as response,
        ):
            deadline = time.monotonic() + self.timeout_s
            for part in response.iter_bytes():
                body += part
                if len(body) > _MAX_BYTES:
                    raise AskError("bad_json", f"the answer has more than {_MAX_BYTES} bytes")
                if time.monotonic() > deadline:
                    raise AskError("timeout", f"the answer was not whole after {self.timeout_s} s")
            return response.status_code, bytes(body)


def _content(body: bytes) -> str:
    try:
        choice = json.loads(body)["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (ValueError, RecursionError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise AskError("bad_json", f"no chat completion: {body[:300].decode(errors='replace')}") from error
    if refusal or choice.get("finish_reason") == "content_filter":
        raise AskError("refused", str(refusal or "stopped by a content filter"))
    if not isinstance(content, str):
        raise AskError("bad_json", f"the content of a completion must be a text, not {type(content).__name__}")
    return content


def _httpx() -> Any:
    try:
        return import_module("httpx2")
    except ImportError as error:
        raise MissingExtraError("llm", error.name) from error
