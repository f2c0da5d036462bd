"""Evidence grown in one dimension at a time: verifiers take time by its bytes, never by a product of two counts."""

import json
import time

import pytest

from clvlab.errors import EvidenceError
from clvlab.proof import clv_verify
from clvlab.proof.canonical import canonical, sha256
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import verify
from clvlab.sql import second_opinion
from tests.factories import make_sealed_run
from tests.length import whole_only

pytestmark = pytest.mark.long

BASE = [json.loads(line) for line in make_sealed_run().events.splitlines()]
STARTED, FIRST, CLOSE, SEALED = BASE[0], BASE[1], BASE[-3], BASE[-1]
ERROR = next(line for line in BASE if line["kind"] == "AGENT_ERROR")
CPU_S = 12  # on a slow machine; a product of the counts below takes minutes


def changed(line, **payload):
    return line | {"payload": line["payload"] | payload}


def decisions(count, **payload):
    backs = {f"s{number:06}": FIRST["payload"]["action"] | {"side": f"s{number:06}"} for number in range(count)}
    return [changed(FIRST, action=action, **payload) for action in backs.values()]


def closing(count):
    sides = [{"odds_milli": None, "prob_bps": 1, "side": f"s{number:06}"} for number in range(count)]
    return changed(CLOSE, closing=CLOSE["payload"]["closing"] | {"sides": sides, "tick_seq": 2, "ts_ms": 300_000})


def many_agents_and_errors():
    agent = STARTED["payload"]["agents"][0]
    agents = [agent | {"agent_id": f"a{number:05}"} for number in range(15_000)]
    return [changed(STARTED, agents=agents), *[changed(ERROR, agent_id="a14999")] * 100_000]


def many_agents_that_failed():
    agent = STARTED["payload"]["agents"][0]
    agents = [agent | {"agent_id": f"a{number:05}"} for number in range(15_000)]
    return [changed(STARTED, agents=agents), *(changed(ERROR, agent_id=agent["agent_id"]) for agent in agents[1:])]


def many_decisions_and_closing_sides():
    return [STARTED, *decisions(20_000, market_state=None), closing(20_000)]


def many_prefixes_and_decisions():
    prefixes = [f"x{number}" for number in range(999)] + ["1X2"]
    window = STARTED["payload"]["window"] | {"market_allowlist": prefixes}
    policy = STARTED["payload"]["policy"] | {"market_allowlist": prefixes, "venue_allowlist": prefixes}
    return [changed(STARTED, window=window, policy=policy), *decisions(20_000), CLOSE]


def many_beginnings_and_decisions():
    return [*[STARTED] * 20_000, *decisions(20_000), CLOSE]


def many_decisions_and_closes_of_one_market():
    return [STARTED, *decisions(20_000), *[CLOSE] * 20_000]


def many_fixtures_named():
    binding = STARTED["payload"]["binding"] | {"fixture_ids": list(range(200_000))}
    return [changed(STARTED, binding=binding), *decisions(20_000), CLOSE]


@whole_only
@pytest.mark.parametrize(
    "lines",
    [
        many_agents_and_errors, many_agents_that_failed, many_decisions_and_closing_sides, many_prefixes_and_decisions,
        many_beginnings_and_decisions, many_decisions_and_closes_of_one_market, many_fixtures_named,
    ],
    ids=lambda lines: lines.__name__,
)  # fmt: skip
def test_no_product_of_two_counts_is_ever_gone_through(tmp_path, lines):
    events = lines()
    kinds = [line["kind"] for line in events]
    counts = {f"{name}s".lower(): kinds.count(name.upper()) for name in ("agent_error", "decision", "market_close")}
    numbered = [line | {"seq": seq} for seq, line in enumerate([*events, SEALED | {"payload": counts}])]
    text = b"".join(canonical(line) + b"\n" for line in numbered)
    bound = json.loads(make_sealed_run().manifest) | {"evidence_hash": sha256(text)}
    run = SealedRun("run_x", text, b"", canonical(bound))
    for name, content in {"events.jsonl": text, "scores.jsonl": b"", "manifest.json": run.manifest}.items():
        (tmp_path / name).write_bytes(content)
    spent = {}

    for name, judge in {
        "package": lambda: verify(run),
        "file": lambda: clv_verify.verify(tmp_path),
        "SQL": lambda: opinion(text),
    }.items():
        started = time.process_time()
        judge()
        spent[name] = time.process_time() - started

    assert max(spent.values()) < CPU_S, spent


def opinion(events):
    try:
        return second_opinion(events, b"")
    except EvidenceError as error:
        return error
