import pytest

from clvlab.engine.run import run
from clvlab.law.closing import Window
from clvlab.law.schema import ClosingPolicy
from clvlab.law.tape import Binding, Tape
from clvlab.proof.manifest import config_hash, roster_hash
from clvlab.proof.verify import verify
from tests.factories import make_agent, make_decisions, make_tape, message


def sealed(*, window=None, agents=({},), binding=None, policy=ClosingPolicy.LAST_STATE, limit=None, decisions=({},), **options):
    plain = make_tape([message(0, 0, {"part1": 5000, "part2": 5000}), message(1, 100, {"part1": 5500, "part2": 4500})])
    tape = Tape(binding or plain.binding, plain.rows, plain.series, plain.fixtures, policy, max_close_age_s=limit)
    named = [{"agent_id": "a"} | agent for agent in agents]
    return run(tape, [make_agent(make_decisions(*decisions), **agent) for agent in named], window or Window(), **options).sealed


BASE = Binding("pack", (1,), "sha256:aa")
CHANGES = {
    "window_id": {"window": Window(window_id="other")},
    "end_rule": {"window": Window(end_rule="manual_stop")},
    "duration_s": {"window": Window(end_rule="fixed_duration", duration_s=5)},
    "horizon": {"window": Window(min_clv_horizon_s=61)},
    "allowlist": {"window": Window(market_allowlist=("1X2",))},
    "closing_policy": {"policy": ClosingPolicy.LAST_OPEN},
    "max_close_age_s": {"limit": 3600},
    "other max_close_age_s": {"limit": 3601},
    "pack": {"binding": Binding("other", (1,), "sha256:aa")},
    "fixtures": {"binding": Binding("pack", (1, 2), "sha256:aa")},
    "content": {"binding": Binding("pack", (1,), "sha256:bb")},
    "agent_id": {"agents": ({"agent_id": "b"},)},
    "config": {"agents": ({"config": {"ticks": 20}},)},
    "fraction in config": {"agents": ({"config": {"ticks": 0.2}},)},
    "proof_mode": {"agents": ({"proof_mode": "attested"},)},
    "source": {"agents": ({"source_sha256": "sha256:cc"},)},
    "second agent": {"agents": ({}, {"agent_id": "b"})},
    "kind": {"kind": "competition"},
    "origin": {"origin_id": "comp_1"},
}


def test_every_input_of_a_run_shapes_its_id():
    ids = {name: sealed(**{"binding": BASE} | change).run_id for name, change in CHANGES.items()}
    ids["unchanged"] = sealed(binding=BASE).run_id

    assert len(set(ids.values())) == len(ids)


def test_same_inputs_give_the_same_run():
    assert sealed(binding=BASE) == sealed(binding=BASE)


def test_run_id_names_inputs_and_the_manifest_what_was_decided():
    one, other = sealed(), sealed(decisions=({"side": "part2"},))

    assert one.run_id == other.run_id
    assert one.manifest_hash != other.manifest_hash


@pytest.mark.parametrize("change", [*CHANGES.values()], ids=CHANGES.keys())
def test_run_with_any_inputs_verifies(change):
    assert verify(sealed(**{"binding": BASE} | change)).passed


@pytest.mark.parametrize("other", [("s", "1", {"a": 2}), ("s", "2", {"a": 1}), ("t", "1", {"a": 1}), ("s", "1", {"a": "1"})])
def test_config_hash_names_strategy_version_and_parameters(other):
    assert config_hash("s", "1", {"a": 1, "b": None}) == config_hash("s", "1", {"b": None, "a": 1})
    assert config_hash(*other) != config_hash("s", "1", {"a": 1})


def test_roster_hash_does_not_depend_on_order():
    one, two = {"agent_id": "a", "config_hash": "sha256:1"}, {"agent_id": "b", "config_hash": "sha256:0"}

    assert roster_hash([one, two]) == roster_hash([two, one]) not in {roster_hash([one]), roster_hash([two])}
    assert roster_hash([one]) == "sha256:1"
