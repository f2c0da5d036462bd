import socket
import sys
from time import sleep
from types import SimpleNamespace

import pytest

from clvlab.agents import endpoint
from clvlab.agents.endpoint import ChatEndpoint
from clvlab.errors import AgentError, AskError, MissingExtraError
from tests.agents.loopback import completion, serving


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def failure(reply, **options):
    with serving(reply) as server, pytest.raises(AskError) as raised:
        ChatEndpoint(server.base_url, "m", **options)("prompt")
    return raised.value.kind, raised.value.detail


def test_it_posts_a_chat_completion_and_gives_its_text():
    with serving(lambda prompt: completion(prompt.upper())) as server:
        ask = ChatEndpoint(server.base_url + "/", "m-1", api_key="secret", options={"temperature": 0})

        assert ask("who?") == "WHO?"

    ((path, headers, body),) = server.requests
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer secret"
    assert body == {"temperature": 0, "model": "m-1", "messages": [{"role": "user", "content": "who?"}]}


def test_a_key_is_neither_sent_without_being_given_nor_shown():
    with serving(lambda _: completion("")) as server:
        ChatEndpoint(server.base_url, "m")("prompt")

    assert "Authorization" not in server.requests[0][1]
    assert "secret" not in repr(ChatEndpoint("http://h/v1", "m", api_key="secret"))


def test_a_slow_answer_times_out():
    def reply(_):
        sleep(0.5)
        return completion("late")

    assert failure(reply, timeout_s=0.1) == ("timeout", "no answer within 0.1 s")


def test_an_answer_that_trickles_times_out_as_a_whole(monkeypatch):
    clock = iter([0.0, 61.0])
    monkeypatch.setattr(endpoint, "time", SimpleNamespace(monotonic=lambda: next(clock)))  # no other thread's clock

    assert failure(lambda _: completion("x")) == ("timeout", "the answer was not whole after 60.0 s")


@pytest.mark.parametrize("status", [204, 302, 401, 429, 500])
def test_any_other_status_than_success_is_an_error_with_what_it_said(status):
    kind, detail = failure(lambda _: (status, b"" if status == 204 else b"no \xff"))

    assert kind == "http_error"
    assert detail.startswith(f"status {status}")


@pytest.mark.parametrize(
    "body", [b"<html>", b"", b"[]", b"{}", b'{"choices":[]}', b'{"choices":[{"message":null}]}', b"[" * 100_000, b"\xff", b"3"]
)
def test_a_body_that_is_no_completion_is_an_error(body):
    assert failure(lambda _: (200, body))[0] == "bad_json"


def test_a_content_that_is_no_text_is_an_error():
    assert failure(lambda _: completion(None))[0] == "bad_json"


def test_a_body_without_end_is_cut_off():
    assert failure(lambda _: completion("x" * 1_000_001)) == ("bad_json", "the answer has more than 1000000 bytes")


def test_a_refusal_is_told_from_an_answer():
    assert failure(lambda _: completion(None, message={"refusal": "I won't."})) == ("refused", "I won't.")
    assert failure(lambda _: completion("", finish_reason="content_filter"))[0] == "refused"


def test_nobody_listening_is_an_error():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/v1"

    with pytest.raises(AskError, match="unreachable: ConnectError"):
        ChatEndpoint(address, "m")("prompt")


@pytest.mark.parametrize("base_url", ["", "/v1", "ftp://host/v1", "http://", "http://host:port"])
def test_an_address_that_cannot_be_asked_is_refused(base_url):
    with pytest.raises(AgentError, match="base_url must be"):
        ChatEndpoint(base_url, "m")


@pytest.mark.parametrize("timeout_s", [0, -1, 3601, float("nan"), float("inf")])
def test_a_time_out_is_bounded(timeout_s):
    with pytest.raises(AgentError, match="timeout_s must be"):
        ChatEndpoint("http://h", "m", timeout_s=timeout_s)


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)

    with pytest.raises(MissingExtraError, match=r'this needs httpx2, which is not installed: pip install "clvlab\[llm\]"'):
        ChatEndpoint("http://h", "m")
