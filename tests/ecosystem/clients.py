"""A player over MCP and one over HTTP, as short as a stranger would write them."""

import json

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


def decide(tick):
    """Back the first side of every hundredth tick."""
    return {"action": "BACK", "side": tick["sides"][0][0]} if tick["tick"] % 100 == 0 else {}


async def play_mcp(url, token=None, agent="me", decide=decide, **rules):
    """Play a seat over MCP, and return its result; without a token ``url`` is that of practice."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as c,
    ):
        t = (await c.call_tool("enter", {"agent": agent, **rules})).structured_content
        seat = t["seat"]
        while not t["done"]:
            t = (await c.call_tool("act", {"seat": seat, "tick": t["tick"], **decide(t)})).structured_content
        return json.loads((await c.read_resource(f"clv://seats/{seat}/result")).contents[0].text)


def play_http(url, token, agent="me", decide=decide):
    """Play a seat over HTTP, and return it once its last tick is answered."""
    with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as http:
        start = http.post("/arena/seats", json={"agent_id": agent, "pack_id": "starter"}).raise_for_status().json()
        tick, path = start["next"], f"/arena/seats/{start['seat_id']}"
        while tick:
            answer = {"tick": tick["view"]["tick"], **decide(tick["view"])}
            tick = http.post(f"{path}/actions", json=answer).raise_for_status().json()["next"]
        return http.get(path).raise_for_status().json()
