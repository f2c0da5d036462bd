"""A verifiers environment: a model plays a seat over MCP, and the mean CLV of the sealed run is its reward.

Run as a script, a model that is none answers, by an endpoint on this machine. It sees every twentieth tick; the others are
answered by silence.
"""

import asyncio
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import verifiers.v1 as vf
from mcp import Client
from verifiers.v1.runtimes import ProgramResult, SubprocessConfig

ENTRANT, SHOWN_EVERY = "verifiers-mock", 20


class SeatData(vf.TaskData):
    arena: str


class SeatTask(vf.Task[SeatData]):
    @vf.reward
    async def mean_clv_bps(self, trace):
        async with Client(self.data.arena) as client:  # the sealed result, not the model's words
            seat = trace.info["seat"]
            found = json.loads((await client.read_resource(f"clv://seats/{seat}/result")).contents[0].text)
        trace.info |= {"run_id": found["run_id"], "verdict": found["verdict"]}
        return found["mean_clv_bps"] or 0.0


class SeatHarness(vf.Harness[vf.HarnessConfig]):
    """Plays the seat in this process: all that the model sees and says goes through the endpoint that records it."""

    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, *of):
        _, endpoint, secret, _, data = of
        messages = [{"role": "system", "content": "Answer each tick as JSON: {} or {action: BACK, side: NAME}."}]
        bearer = {"Authorization": f"Bearer {secret}"}
        async with Client(data.arena) as client, httpx.AsyncClient(headers=bearer, timeout=60) as model:
            tick = (await client.call_tool("enter", {"agent": ENTRANT})).structured_content
            trace.info["seat"] = tick["seat"]
            while not tick["done"]:
                said = {}
                if tick["tick"] % SHOWN_EVERY == 0:
                    messages.append({"role": "user", "content": json.dumps(tick)})
                    body = {"model": ctx.model, "messages": messages}
                    answer = (await model.post(f"{endpoint}/chat/completions", json=body)).raise_for_status().json()
                    messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
                    said = json.loads(messages[-1]["content"])
                tick = (await client.call_tool("act", {"seat": tick["seat"], "tick": tick["tick"], **said})).structured_content
        return ProgramResult(0, "", "")


class NoModel(BaseHTTPRequestHandler):
    """Backs the first side of every second tick that it sees."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tick = json.loads(asked["messages"][-1]["content"])
        said = {"action": "BACK", "side": tick["sides"][0][0]} if tick["tick"] % (2 * SHOWN_EVERY) == 0 else {}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": json.dumps(said)}}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        answer = {"id": "none", "object": "chat.completion", "created": 0, "model": "none", "choices": [choice], "usage": usage}
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


async def play(arena, model_url):
    client = vf.EvalClientConfig(base_url=model_url, api_key_var="NO_KEY")
    config = vf.AgentConfig(harness=vf.HarnessConfig(id="null"), runtime=SubprocessConfig(), model="none", client=client)
    async with vf.Agent(config) as agent:
        agent.harness = SeatHarness(agent.config.harness)
        return await agent.run(SeatTask(SeatData(arena=arena, prompt="Play a seat.")))


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), NoModel) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        trace = asyncio.run(play(sys.argv[1], f"http://127.0.0.1:{server.server_port}/v1"))
        server.shutdown()
    assert trace.ok, trace.errors
    print(f"reward {trace.reward}: mean CLV in bps of {trace.info['run_id']}, over {trace.num_turns} turns of the model")
