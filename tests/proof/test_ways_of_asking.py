"""How agents were asked and what was held of them, as it stands in evidence; every verifier must say the same."""

import pytest

from clvlab.agents.registry import TEMPLATES, template
from clvlab.engine.agent import identify
from clvlab.engine.run import run
from clvlab.law.closing import Window
from clvlab.law.schema import Causality, Held
from clvlab.store.folder import write_run
from tests.agents.test_bets import bet, tape
from tests.factories import make_agent, make_decisions, make_tape, message
from tests.proof.test_tampering import FAILED, PASSED, edit, judged, reseal, swapped

TAPE = make_tape([message(0, 0, {"part1": 5000, "part2": 5000}), message(1, 100, {"part1": 5500, "part2": 4500})])
TEMPLATE, FIRST, SECOND = b'"causality":"template"', b'"schema":"clvlab-run/1"', b'"schema":"clvlab-run/2"'
HELD = b'"isolation":[{"agent_id":"tester","held":["calls","files"]}]'


def sealed(folder, **identity):
    return write_run(run(TAPE, [make_agent(make_decisions({}), **identity)], Window()).sealed, folder)


@pytest.fixture
def plain(tmp_path):
    folder = sealed(tmp_path / "plain", agent_id="tester")
    assert FIRST in (folder / "events.jsonl").read_bytes()
    return folder


@pytest.fixture
def held(tmp_path):
    folder = sealed(tmp_path / "held", agent_id="tester", held=(Held.CALLS, Held.FILES))
    events = (folder / "events.jsonl").read_bytes()
    assert HELD in events
    assert SECOND in events
    return folder


def labelled(label):
    return swapped(TEMPLATE, b'"causality":"%s"' % label.encode())


def test_what_was_held_of_an_agent_stands_in_evidence_of_the_second_schema(held):
    assert judged(held).checks == PASSED


def test_bets_that_are_repeated_are_sealed_as_a_transcript(tmp_path):
    folder = write_run(run(tape(), [template("bets", {"transcript": [bet()]})], Window()).sealed, tmp_path)

    events = (folder / "events.jsonl").read_bytes()
    assert b'"causality":"transcript"' in events
    assert SECOND in events
    assert judged(folder).checks == PASSED


@pytest.mark.parametrize("strategy", TEMPLATES)
def test_a_template_computes_or_repeats(strategy):
    label = Causality.TRANSCRIPT if strategy in ("llm", "bets") else Causality.TEMPLATE

    assert identify(template(strategy), audit=False).causality == label


@pytest.mark.parametrize("label", [Causality.TRANSCRIPT, Causality.ASKED])
def test_label_of_the_second_schema_is_read_under_it_alone(label, plain):
    edit(plain / "events.jsonl", labelled(label))
    reseal(plain)
    assert judged(plain).checks == FAILED

    edit(plain / "events.jsonl", swapped(FIRST, SECOND))
    reseal(plain)
    assert judged(plain).checks == PASSED | {"manifest_bound": "fail"}


@pytest.mark.parametrize("label", [Causality.STEPPED, Causality.STEPPED_BLOCKS])
def test_step_by_step_is_said_of_agents_that_were_held_to_calls_and_files(label, held):
    edit(held / "events.jsonl", labelled(label))
    reseal(held)
    assert judged(held).checks == PASSED | {"manifest_bound": "fail"}

    edit(held / "events.jsonl", swapped(b'"held":["calls","files"]', b'"held":["calls","root"]'))
    reseal(held)
    assert judged(held).checks == FAILED


def test_step_by_step_is_not_said_of_an_agent_that_nothing_was_held_of(plain):
    edit(plain / "events.jsonl", labelled(Causality.STEPPED))
    edit(plain / "events.jsonl", swapped(FIRST, SECOND))
    reseal(plain)

    assert judged(plain).checks == FAILED


def test_second_schema_is_of_no_run_that_the_first_has_words_for(plain):
    edit(plain / "events.jsonl", swapped(FIRST, SECOND))
    reseal(plain)

    assert judged(plain).checks == FAILED


def test_what_was_held_of_an_agent_names_no_other_run(plain, held):
    assert plain.name == held.name


def test_more_that_is_said_to_be_held_breaks_the_seal_and_not_the_run_id(held):
    edit(held / "events.jsonl", swapped(b'["calls","files"]', b'["calls","files","root"]'))
    assert judged(held).checks != PASSED

    reseal(held)
    assert judged(held).checks == PASSED


@pytest.mark.parametrize(
    "other",
    [
        b'"isolation":[]',
        b'"isolation":null',
        b'"isolation":{}',
        b'"isolation":["tester"]',
        b'"isolation":[{"agent_id":"tester"}]',
        b'"isolation":[{"agent_id":"tester","held":[]}]',
        b'"isolation":[{"agent_id":"tester","held":null}]',
        b'"isolation":[{"agent_id":"tester","held":[1]}]',
        b'"isolation":[{"agent_id":"tester","held":[["calls"]]}]',
        b'"isolation":[{"agent_id":"tester","held":["everything"]}]',
        b'"isolation":[{"agent_id":"tester","held":["files","calls"]}]',
        b'"isolation":[{"agent_id":"tester","held":["calls","calls"]}]',
        b'"isolation":[{"agent_id":"tester","held":["calls"],"pid":1}]',
        b'"isolation":[{"agent_id":"nobody","held":["calls"]}]',
        b'"isolation":[{"agent_id":1,"held":["calls"]}]',
        b'"isolation":[{"agent_id":"tester","held":["calls"]},{"agent_id":"tester","held":["files"]}]',
    ],
)
def test_isolation_in_another_form_fails_even_if_sealed_again(other, held):
    edit(held / "events.jsonl", swapped(HELD, other))
    reseal(held)

    assert judged(held).checks == FAILED
