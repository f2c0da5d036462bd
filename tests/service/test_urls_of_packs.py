"""A service opens packs of its catalog: no client makes it ask a URL, whatever ids it sends."""

import socket
from urllib.parse import quote

import pytest

from tests.service.serving import BACKTEST, BOUND, DEPLOY


@pytest.fixture
def listener(monkeypatch):
    """A socket on loopback, which is also where a bucket would be."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.settimeout(0.1)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{sock.getsockname()[1]}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "anything")
        yield sock


@pytest.mark.parametrize("scheme", ["http", "https", "s3"])
def test_no_id_of_a_pack_is_asked_as_a_url(api_in_memory, listener, scheme):
    url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/pack"
    alice = api_in_memory.alice

    answers = [
        alice.post("/backtests", json=BACKTEST | {"pack_id": url}),
        alice.post("/backtests", json={"pack_id": url, "fixture_ids": None, "strategy": "baseline"}),
        alice.post("/competitions", json=BOUND | {"pack_id": url}),
        alice.post("/agents/deploy", json=DEPLOY | {"pack_id": url}),
        alice.get(f"/replay-packs/{quote(url, safe='')}"),
        alice.get(f"/replay-packs/{quote(url, safe='')}/fixtures"),
        alice.get("/runs", params={"pack_id": url}),
    ]

    assert [answer.status_code for answer in answers[:-1] if not 400 <= answer.status_code < 500] == []
    with pytest.raises(TimeoutError):
        listener.accept()
