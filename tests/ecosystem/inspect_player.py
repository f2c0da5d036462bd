"""An Inspect task: any model that Inspect knows plays a seat over MCP, and the mean CLV of the sealed run is its score.

Run as a script, a model that is none enters, and backs the first side of every hundredth tick.
"""

import json
import sys

from inspect_ai import Task, task
from inspect_ai import eval as run_eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageTool, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, mean, scorer
from inspect_ai.solver import solver, use_tools
from inspect_ai.tool import mcp_connection, mcp_server_http, mcp_tools
from mcp import Client

ENTRANT = "inspect-mock"


def answers(messages):
    """The answers of the tools so far, read from their text."""
    return [json.loads(one.text) for one in messages if isinstance(one, ChatMessageTool)]


@scorer(metrics=[mean()])
def mean_clv(url):
    async def score(state, _):
        seat = answers(state.messages)[0]["seat"]
        async with Client(url) as client:  # the sealed result, not the model's words
            found = json.loads((await client.read_resource(f"clv://seats/{seat}/result")).contents[0].text)
        return Score(value=found["mean_clv_bps"] or 0, explanation=found["verdict"], metadata={"run_id": found["run_id"]})

    return score


@solver
def playing(url):
    async def solve(state, generate):
        server = mcp_tools(mcp_server_http(url=url, name="arena"), tools=["enter", "act"])
        async with mcp_connection(server):  # one connection for all ticks
            return await generate(await use_tools(server)(state, generate))

    return solve


@task
def arena(url):
    return Task(
        dataset=[Sample(input=f"Enter as {ENTRANT}, then act at each tick until done.")],
        solver=playing(url),
        scorer=mean_clv(url),
        message_limit=5_000,
    )


def said(messages, *_):
    """What a model that is none says, with its tokens: Inspect would load a tokeniser to count them."""
    output = decision(messages)
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def decision(messages):
    told = answers(messages)
    if not told:
        return ModelOutput.for_tool_call("mockllm", "enter", {"agent": ENTRANT})
    tick = told[-1]
    if tick["done"]:
        return ModelOutput.from_content("mockllm", "done")
    answer = {"seat": told[0]["seat"], "tick": tick["tick"]}
    if tick["tick"] % 100 == 0:
        answer |= {"action": "BACK", "side": tick["sides"][0][0]}
    return ModelOutput.for_tool_call("mockllm", "act", answer)


if __name__ == "__main__":
    model = get_model("mockllm/model", custom_outputs=said)
    log = run_eval(arena(sys.argv[1]), model=model, display="none", log_dir="inspect_logs")[0]
    assert log.status == "success", log.error and log.error.message
    score = log.samples[0].scores["mean_clv"]
    print(f"score {score.value}: mean CLV in bps of {score.metadata['run_id']}, over {len(log.samples[0].messages)} messages")
