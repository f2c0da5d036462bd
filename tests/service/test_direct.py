"""The short way to an act answers as its route does, whatever is sent."""

import json
import random
import re

import httpx2
from clvlab_service import direct

from tests.service.serving import PLAIN

SEAT = {"agent_id": "me", "pack_id": "starter", "fixture_ids": "all", "blind": "open"}
REQUESTS = 300
NO_PATH = re.compile(r"(?!)")
BODIES = [
    b"", b" ", b"{}", b"[]", b"null", b"1", b'"x"', b"{", b"\xff", b'\xef\xbb\xbf{"tick": 1}', b'{"tick": NaN}', b"{}{}",
    b'{"tick": 1, "tick": 1}', b'{"tick": 1.0}', b'{"tick": true}', b'{"tick": "1"}', b'{"tick": 0}', b'{"tick": 1, "x": 1}',
    b'{"tick": 9007199254740992}', b'{"tick": ' + b"9" * 5000 + b"}", b"[" * 5000, b'{"tick": 1e400}', b'{"tick": -1}',
    b'{"tick": 1, "reason": "' + b"x" * 300_000 + b'"}', b'{"tick": 1, "action": "WAIT", "reason": "\\ud800"}',
    b'{"tick": 1, "action": "WAIT", "confidence": Infinity}', b'{"tick": 1, "decisions": null}',
    b'{"tick": 1, "action": "LAY"}',
]  # fmt: skip
TYPES = [
    ["application/json"], ["application/json"], ["application/json"], ["application/json; charset=utf-8"], ["text/plain"], [],
    ["application/json", "application/json"], ["application/json", "text/plain"], ["APPLICATION/JSON"], ["application/x+json"],
]  # fmt: skip
TOKENS = [None, "Bearer x", "Basic eDp5", "Bearer", "Bearer  {}", "bearer {}", "Bearer {}é"]
OTHERS = [
    {"Content-Encoding": "gzip"}, {"Content-Encoding": "identity"}, {"Accept": "text/html"}, {"Accept": "image/png"},
    {"X-Request-ID": "mine"}, {"Accept-Encoding": "gzip"}, {"Expect": "100-continue"}, {"Origin": "https://elsewhere.example"},
]  # fmt: skip
QUERIES = ["?", "?tick=1", "?tick=1&tick=2", "?%00=1"]
SEATS = ["seat_none", "x%2Fy", "", "%C3%A9", "a/b", " "]


def action(draw, tick, view):
    """A body that might be good, of the open tick or of one near it."""
    body = {"tick": tick + draw.choice([0, 0, 0, -1, 1, 10**6])}
    sides = [side for side, *_ in view["sides"]]
    one = {"action": draw.choice(["BACK", "BACK", "WAIT"]), "side": draw.choice([*sides, "nobody", None])}
    one |= draw.choice([{}, {}, {"stake": draw.choice([1, 0, 2.5, "3"])}, {"confidence": draw.choice([0.5, 7, "0.5", None])}])
    one |= draw.choice(
        [{}, {"reason": draw.choice(["", "é", "\0", "x" * 2001])}, {"market": draw.choice([view["market"], "m"])}]
    )
    body |= draw.choice([{}, {}, one, {"decisions": [one]}, {"decisions": [one, one]}, {"decisions": [one], **one}])
    data = bytearray(json.dumps(body).encode())
    if draw.random() < 0.1:
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def test_odd_requests_are_answered_as_by_the_route(api_in_memory, monkeypatch):
    api, seed = api_in_memory, random.randrange(2**32)
    draw, short = random.Random(seed), direct._PATH
    start = api.post("/arena/seats", SEAT, expect=201)
    seat, following, token = start["seat_id"], start["next"], api.alice.headers["authorization"].removeprefix("Bearer ")
    statuses = set()

    with httpx2.Client(base_url=api.url, **PLAIN) as client:
        for number in range(REQUESTS):
            tick, view = following["view"]["tick"], following["view"]
            content = draw.choice(BODIES) if draw.random() < 0.3 else action(draw, tick, view)
            odd = [draw.random() < 0.15 for _ in range(5)]
            if number < len(BODIES):  # each is met once by itself
                content, odd = BODIES[number], [False] * 5
            types = draw.choice(TYPES) if odd[0] else TYPES[0]
            said = draw.choice(TOKENS) if odd[1] else "Bearer {}"
            headers = [("Content-Type", one) for one in types] + list((draw.choice(OTHERS) if odd[2] else {}).items())
            headers += [] if said is None else [("Authorization", said.format(token).encode())]
            path = f"/arena/seats/{draw.choice(SEATS) if odd[3] else seat}/actions{draw.choice(QUERIES) if odd[4] else ''}"

            found = []
            for pattern in draw.sample([short, NO_PATH], 2):
                monkeypatch.setattr(direct, "_PATH", pattern)
                answer = client.post(path, content=content, headers=headers)
                body = json.loads(answer.content)
                assert body.pop("request_id", answer.headers["x-request-id"]) == answer.headers.pop("x-request-id")
                answer.headers.pop("date")
                found.append((answer.status_code, sorted(answer.headers.multi_items()), body))
            statuses.add(found[0][0])

            assert found[0] == found[1], f"request {number} of seed {seed}: {path} {headers} {content[:300]!r}"
            if found[0][0] == 200:
                following = found[0][2]["next"] if found[0][2]["answered"]["tick"] == tick else following

    assert statuses >= {200, 400, 401, 404, 409, 413, 415, 422}
