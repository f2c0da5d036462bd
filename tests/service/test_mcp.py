import asyncio
import base64
import json
from contextlib import asynccontextmanager

import httpx2
import pytest
from clvlab_service.mcp.answers import MOST_BYTES, fitted
from clvlab_service.mcp.server import plain
from clvlab_service.mcp.tools import TOOLS
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from clvlab.arena.application import Application
from clvlab.arena.runs.bundles import verify_bundle
from clvlab.packs.synthetic import Recipe, build
from tests.ecosystem.clients import play_http, play_mcp
from tests.service.serving import PLAIN, make_settings, running
from tests.service.serving import api as serve_api

BETS = """\
placed at,match,market,selection,odds,stake
2026-01-02T09:00Z,Birch North v Glen North,1X2,home,2.10,10
2026-01-02T09:00Z,Birch North v Glen North,1X2,draw,3.60,4
2026-01-01T18:30Z,Kestrel Coast v Glen Coast,Over/Under 2.5,Over,1.95,10
2026-01-02T08:00Z,Nowhere v Nobody,1X2,home,2.00,10
"""
WIRE = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


class Counted(httpx2.AsyncHTTPTransport):
    """Counts calls of tools and their bytes, of requests and answers."""

    def __init__(self):
        super().__init__(verify=False)
        self.calls, self.bytes = 0, 0

    async def handle_async_request(self, request):
        response = await super().handle_async_request(request)
        body = await response.aread()
        if b'"tools/call"' in request.content:
            self.calls += 1
            self.bytes += len(request.content) + len(body)
        return httpx2.Response(response.status_code, headers={"content-type": response.headers["content-type"]}, content=body)


@asynccontextmanager
async def session(url, token=None, transport=None):
    headers = {"Accept-Encoding": "identity"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    async with (
        httpx2.AsyncClient(headers=headers, transport=transport, **PLAIN) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


def every_fifth(tick):
    return {"action": "BACK", "side": tick["sides"][0][0]} if tick["sides"] and tick["tick"] % 5 == 0 else {}


def called(url, *calls, token=None):
    """Call tools one after the other; gives whether each was refused, and its answer."""

    async def run():
        async with session(url, token) as client:
            found = [await client.call_tool(name, arguments) for name, arguments in calls]
            return [(one.is_error, one.structured_content) for one in found]

    return asyncio.run(run())


def token_of(client):
    return client.headers["authorization"].removeprefix("Bearer ")


@pytest.fixture(scope="module")
def urls(api_in_memory):
    base = str(api_in_memory.nobody.base_url).rstrip("/")
    return base, f"{base}/mcp", f"{base}/mcp/practice"


@pytest.fixture(scope="module")
def alice(api_in_memory):
    return token_of(api_in_memory.alice)


@pytest.fixture(scope="module")
def bob(api_in_memory):
    return token_of(api_in_memory.bob)


def test_a_player_over_mcp_gets_a_sealed_result(urls, alice, api_in_memory):
    made = asyncio.run(play_mcp(urls[1], alice))

    chain = api_in_memory.get(f"/arena/seats/{made['seat']}/chain", by=api_in_memory.alice)
    assert (made["head"], made["secret"]) == (chain["ticks"][-1]["head"], chain["secret"])
    assert made["decisions"] == sum(len(tick["decisions"]) for tick in chain["ticks"]) > 1
    assert "fail" not in made["checks"].values()
    assert (
        api_in_memory.get(f"/runs/{made['run_id']}")["run"]["owner"] == api_in_memory.get("/me", by=api_in_memory.alice)["did"]
    )


def test_a_held_back_seat_gets_its_result_and_nobody_else_reads_its_pack(keys, tmp_path):
    build(Recipe(seed=977, fixtures=1, messages=40), tmp_path / "vault")
    url = f"sqlite:///{tmp_path / 'clvlab.db'}"
    operator = Application(url)
    operator.seats.held.hold_back(tmp_path / "vault")
    operator.close()
    with serve_api(keys, url) as api:
        mcp = f"{api.url}/mcp"
        made = asyncio.run(play_mcp(mcp, token_of(api.alice), decide=every_fifth, blind="held-back"))
        own, other = (
            called(mcp, ("tear_sheet", {"run_id": made["run_id"]}), token=token_of(by))[0] for by in (api.alice, api.bob)
        )

    assert made["decisions"] > 1
    assert "fail" not in made["checks"].values()
    assert (own[0], other[0], other[1]["code"]) == (False, True, "unknown-pack")


def test_a_live_seat_waits_for_its_ticks(keys, tmp_path, monkeypatch):
    build(Recipe(seed=5, fixtures=1, messages=30), tmp_path / "brief")
    monkeypatch.setenv("CLVLAB_REPLAY_PACK", str(tmp_path / "brief"))
    monkeypatch.setenv("CLVLAB_REPLAY_SPEED", "1e9")
    seen = []

    def decide(tick):
        seen.append(tick)
        return every_fifth(tick)

    with serve_api(keys, devfeed=True, live_folder=tmp_path / "live", seat_live_s=600) as api:
        made = asyncio.run(play_mcp(f"{api.url}/mcp", token_of(api.alice), decide=decide, blind="live"))
        chain = api.get(f"/arena/seats/{made['seat']}/chain", by=api.alice)

    shown = [tick for tick in seen if not tick.get("waiting")]
    assert [tick["tick"] for tick in shown] == list(range(1, len(chain["ticks"]) + 1))
    assert (made["head"], made["decisions"]) == (
        chain["ticks"][-1]["head"],
        sum(len(one["decisions"]) for one in chain["ticks"]),
    )
    assert "fail" not in made["checks"].values()


def test_a_player_over_http_answers_every_tick(urls, alice):
    made = play_http(urls[0], alice)

    assert made["status"] in ("finished", "sealed")
    assert made["answered"] > 100


def test_practice_needs_no_token_and_is_on_no_board(urls, api_in_memory):
    made = asyncio.run(play_mcp(urls[2], agent="nobody-in-particular"))

    assert made["decisions"] > 1
    rows = api_in_memory.get("/leaderboard?limit=200")["rows"]
    assert "nobody-in-particular" not in json.dumps(rows)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic abc"}])
def test_without_a_token_the_sdk_refuses(urls, headers):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}

    answer = httpx2.post(urls[1], json=body, headers=WIRE | headers, **PLAIN)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer ")


def test_a_seat_of_another_owner_is_unknown(urls, alice, bob):
    [(_, tick)] = called(urls[1], ("enter", {"agent": "mine"}), token=alice)
    act, where = ("act", {"seat": tick["seat"], "tick": 1}), ("standing", {"seat": tick["seat"]})

    for found in (called(urls[1], act, where, token=bob), called(urls[2], act, where)):
        assert [(refused, answer["code"]) for refused, answer in found] == [(True, "unknown-seat")] * 2
    assert [refused for refused, _ in called(urls[1], act, where, token=alice)] == [False, False]


def test_the_same_answer_is_answered_alike_and_others_say_what_to_do(urls, alice):
    [(_, tick)] = called(urls[1], ("enter", {"agent": "mine", "blind": "open"}), token=alice)
    back = {"seat": tick["seat"], "tick": 1, "action": "BACK", "side": tick["sides"][0][0]}

    first, again, other, late, wrong = called(
        urls[1],
        ("act", back),
        ("act", back),
        ("act", back | {"action": "WAIT", "side": None}),
        ("act", back | {"tick": 9}),
        ("act", {"seat": tick["seat"], "tick": 2, "action": "BACK", "side": "nobody"}),
        token=alice,
    )

    assert first == again
    assert first[1]["tick"] == 2
    assert first[1]["about"]["home"]
    assert [one[1]["code"] for one in (other, late, wrong)] == ["seat-conflict", "seat-conflict", "decision"]
    assert other[1]["open_tick"] == late[1]["open_tick"] == 2
    assert all(one[1]["remedy"] for one in (other, late, wrong))


def test_overlong_reasons_are_refused_clearly(urls, alice):
    [(_, tick)] = called(urls[1], ("enter", {"agent": "mine"}), token=alice)
    act = {"seat": tick["seat"], "tick": 1, "action": "WAIT", "reason": "x" * 200_000}

    [(refused, answer)] = called(urls[1], ("act", act), token=alice)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "act", "arguments": act}}
    body["params"]["arguments"]["reason"] *= 2
    large = httpx2.post(urls[1], json=body, headers=WIRE | {"Authorization": f"Bearer {alice}"}, **PLAIN)

    assert (refused, answer["code"]) == (True, "invalid-request")
    assert "reason" in answer["detail"]
    assert "xxx" not in answer["detail"]
    assert large.status_code == 413
    assert "larger than" in large.json()["error"]["message"]
    [(_, place)] = called(urls[1], ("standing", {"seat": tick["seat"]}), token=alice)
    assert place["open_tick"] == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403), ({"Origin": "http://127.0.0.1:1"}, 200)],
)
def test_pages_of_other_sites_do_not_reach_it(urls, headers, status):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}

    assert httpx2.post(urls[2], json=body, headers=WIRE | headers, **PLAIN).status_code == status


def test_hosts_of_the_settings_reach_it(keys):
    from clvlab_service.app import create_app

    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    with running(create_app(make_settings(keys, mcp_hosts=("arena.example",)))) as url:
        found = [
            httpx2.post(f"{url}/mcp/practice", json=body, headers=WIRE | {"Host": host}, **PLAIN).status_code
            for host in ("arena.example", "other.example")
        ]

    assert found == [200, 421]


def test_only_posts_are_answered_and_metrics_name_the_route(urls):
    assert httpx2.get(urls[2], headers=WIRE, **PLAIN).status_code == 405
    assert 'route="/mcp/practice"' in httpx2.get(f"{urls[0]}/metrics", **PLAIN).text


def test_practice_is_bounded(keys):
    from clvlab_service.app import create_app

    enter = ("enter", {"agent": "one"})
    with running(create_app(make_settings(keys, practice_client_seats=2))) as url:
        found = called(f"{url}/mcp/practice", enter, enter, enter)
    with running(create_app(make_settings(keys, practice_seats=1))) as url:
        both = called(f"{url}/mcp/practice", enter, enter)

    assert [refused for refused, _ in found] == [False, False, True]
    assert found[2][1]["code"] == both[1][1]["code"] == "owner-limit"
    assert found[2][1]["retry_after_s"] > 0


def test_practice_reaches_nothing_of_owners(urls, alice):
    [(_, done)] = called(urls[1], ("backtest", {"pack_id": "starter"}), token=alice)

    found = called(urls[2], ("verify", {"run_id": done["run_id"]}), ("tear_sheet", {"run_id": done["run_id"]}))
    named = called(urls[2], ("enter", {"agent": "one", "pack_id": "nowhere"}), ("enter", {"agent": "a", "competition_id": "c"}))

    assert [answer["code"] for _, answer in found] == ["unknown-run"] * 2
    assert [answer["code"] for _, answer in named] == ["unknown-pack", "not-owner"]
    assert refusal(urls[2], done["bundle"]).startswith("unknown-run")


async def _read(url, uri, token=None):
    async with session(url, token) as client:
        first = (await client.read_resource(uri)).contents[0]
        rest = range(2, (first.meta or {}).get("pages", 1) + 1)
        return [first, *[(await client.read_resource(f"{uri}/{number}")).contents[0] for number in rest]]


def refusal(url, uri):
    """Read a resource, and return why it is refused."""

    async def run():
        async with session(url) as client:
            with pytest.raises(MCPError) as refused:
                await client.read_resource(uri)
            return str(refused.value)

    return asyncio.run(run())


@pytest.mark.parametrize("practice", [False, True])
def test_bets_are_graded_and_sealed_within_six_calls_and_eight_kilobytes(urls, alice, practice, tmp_path, capsys):
    """The bytes of the CSV itself are not counted, nor is the list of tools."""
    transport, url = Counted(), urls[2] if practice else urls[1]

    async def run():
        async with session(url, None if practice else alice, transport) as client:
            packs = (await client.call_tool("list_packs", {})).structured_content
            pack_id = packs["packs"][-1]["pack_id"]
            graded = (await client.call_tool("grade_bets", {"csv": BETS, "pack_id": pack_id})).structured_content
            checked = (await client.call_tool("verify", {"run_id": graded["run_id"]})).structured_content
            sheet = (await client.call_tool("tear_sheet", {"run_id": graded["run_id"]})).structured_content
            return graded, checked, sheet

    graded, checked, sheet = asyncio.run(run())
    pages = asyncio.run(_read(url, graded["bundle"], None if practice else alice))

    spent = transport.bytes - len(json.dumps(BETS))
    with capsys.disabled():
        print(f"\nfrom bets to a sealed answer: {transport.calls} calls, {spent} bytes")
    assert transport.calls <= 6
    assert spent <= 8_000
    assert (graded["rows"], graded["matched"], graded["unmatched"]) == (4, 3, {"fixture_unknown": 1})
    assert graded["verdict"] == sheet["verdict"]
    assert checked["passed"]
    bundle = tmp_path / "bets.clv"
    bundle.write_bytes(b"".join(base64.b64decode(page.blob) for page in pages))
    own = verify_bundle(bundle)
    assert own.verified
    assert own.evidence_hash == graded["evidence_hash"]


def test_grading_again_is_the_same_run(urls, alice):
    grade = ("grade_bets", {"csv": BETS, "pack_id": "starter"})

    first, again = called(urls[1], grade, grade, token=alice)

    assert first == again


def test_bad_bets_name_what_is_wrong(urls):
    found = called(urls[2], ("grade_bets", {"csv": "a,b\n1,2\n", "pack_id": "starter"}), ("grade_bets", {"csv": "x"}))

    assert [answer["code"] for _, answer in found] == ["source", "invalid-request"]
    assert "pack_id" in found[1][1]["detail"]


def test_competitions_are_listed_and_entered(urls, alice, api_in_memory):
    rules = {"name": "cup", "pack_id": "starter"}
    made = api_in_memory.alice.post("/arena/competitions", json=rules).json()
    made = made["competition_id"]

    listed, tick, place = called(
        urls[1],
        ("list_competitions", {}),
        ("enter", {"agent": "cupper", "competition_id": made}),
        ("standing", {"competition_id": made}),
        token=alice,
    )

    assert made in [one["competition_id"] for one in listed[1]["competitions"]]
    assert tick[1]["tick"] == 1
    assert [one["agent_id"] for one in place[1]["standing"]] == ["cupper"]


def test_tools_say_truly_what_they_do(urls):
    async def listed():
        async with session(urls[2]) as client:
            return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in asyncio.run(listed())}

    assert set(tools) == set(TOOLS)
    reading = {name for name, tool in tools.items() if tool.annotations.read_only_hint}
    assert reading == {"list_competitions", "list_packs", "standing", "tear_sheet", "verify"}
    assert not tools["enter"].annotations.idempotent_hint
    assert all(tool.output_schema["properties"] and tool.description for tool in tools.values())


def test_a_long_answer_is_cut_and_names_the_rest():
    sides = [[f"s-{number:016x}", 100, 100_000] for number in range(200)]

    answer, text = fitted({"seat": "one", "tick": 3, "sides": sides}, "sides", "clv://seats/one")
    short, told = fitted({"seat": "one", "sides": sides[:3]}, "sides", "clv://seats/one")

    assert 20 < len(answer["sides"]) < 200
    assert answer["sides"] == sides[: len(answer["sides"])]
    assert len(json.dumps(answer)) + len(text) <= MOST_BYTES * 1.2
    assert answer["more"] == json.loads(text)["more"] == "clv://seats/one"
    assert (short, json.loads(told)) == ({"seat": "one", "sides": sides[:3]},) * 2


def test_schemas_have_no_references():
    for tool in TOOLS.values():
        assert "$ref" not in json.dumps(plain(tool.request.model_json_schema()))


@pytest.mark.parametrize("uri", ["clv://nothing", "clv://packs/9", "clv://seats/x/result", "file:///etc/passwd"])
def test_unknown_resources_are_refused(urls, uri):
    assert refusal(urls[2], uri).startswith("unknown-")
