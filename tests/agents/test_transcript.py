import json

import pytest

from clvlab.agents.proposals import Entry
from clvlab.agents.recording import ModelAnswer, Transcript
from clvlab.agents.registry import template
from clvlab.errors import AgentError
from clvlab.proof.canonical import canonical, parsed, sha256

ENTRIES = (
    Entry(fixture_id=1, tick_seq=0, action="BACK", market_key="m", side="é", confidence=float("nan"), reason="ja\n"),
    Entry(fixture_id=1, tick_seq=4, action="WAIT", reason="no proposal: timeout"),
)
ANSWERS = (
    ModelAnswer(fixture_id=1, tick_seq=0, prompt_sha256=sha256(b"p"), text="{...}"),
    ModelAnswer(fixture_id=1, tick_seq=4, prompt_sha256=sha256(b"q"), error="timeout", detail="no answer within 2 s"),
)
TRANSCRIPT = Transcript("model-1", sha256(b"pack"), ENTRIES, ANSWERS)


def test_a_transcript_reads_back_as_it_was_written(tmp_path):
    path = TRANSCRIPT.write(tmp_path / "t.json")

    assert Transcript.read(path) == TRANSCRIPT
    body = parsed(path.read_bytes())
    assert body.pop("sha256") == sha256(canonical(body)) == TRANSCRIPT.sha256


def test_a_transcript_is_never_written_over(tmp_path):
    path = TRANSCRIPT.write(tmp_path / "t.json")

    with pytest.raises(AgentError, match="never written over"):
        Transcript("other", None, (), ()).write(path)
    assert Transcript.read(path) == TRANSCRIPT


def test_its_parameters_plug_into_the_template():
    config = template("llm", TRANSCRIPT.params).config

    assert config.transcript == ENTRIES
    assert TRANSCRIPT.errors == ANSWERS[1:]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(AgentError, match=r"no transcript can be read at .*absent\.json: No such file"):
        Transcript.read(tmp_path / "absent.json")


def test_an_altered_file_is_refused(tmp_path):
    path = TRANSCRIPT.write(tmp_path / "t.json")
    path.write_bytes(path.read_bytes().replace(b'"tick_seq":4', b'"tick_seq":5'))

    with pytest.raises(AgentError, match=r"the digest is .* it was altered"):
        Transcript.read(path)


@pytest.mark.parametrize("break_it", ["cut", "spaced", "key", "schema", "entry", "list"])
def test_a_file_that_is_no_transcript_is_refused(tmp_path, break_it):
    path = TRANSCRIPT.write(tmp_path / "t.json")
    value = json.loads(path.read_bytes())
    broken = {
        "cut": path.read_bytes()[:-1],
        "spaced": json.dumps(value).encode(),
        "key": canonical({key: item for key, item in value.items() if key != "model"}),
        "schema": canonical(value | {"schema": "clvlab-transcript/2"}),
        "entry": canonical(value | {"entries": [{"fixture_id": 1}]}),
        "list": canonical([value]),
    }
    path.write_bytes(broken[break_it])

    with pytest.raises(AgentError, match=r"t\.json is no transcript"):
        Transcript.read(path)
