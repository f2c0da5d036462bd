"""A second look at live runs: read back, and replayed over what they captured."""

import json
from dataclasses import replace

import pytest

import clvlab as cl
from clvlab.agents.registry import template
from clvlab.arena.packs import open_pack
from clvlab.arena.replays import prices_again, replay_run
from clvlab.errors import PackTamperedError, ReplayError
from clvlab.proof.canonical import canonical
from clvlab.runs.live.paper import run_live
from clvlab.runs.live.request import LiveRequest
from clvlab.runs.run import content_hash_of, reopen
from clvlab.runs.run_folder import FolderRecorder
from tests.live import FIXTURE, Cutting, played

OWN = """
import clvlab as cl

class Swings(cl.TickAgent):
    agent_id = "swings"

    def on_tick(self, book):
        if book.tick_seq % 40 == 7:
            return book.back(book.sides()[0], stake=3)

class Failing(cl.TickAgent):
    agent_id = "failing"

    def on_tick(self, book):
        if book.tick_seq == 30:
            raise RuntimeError("no more")
        return book.back(book.sides()[0]) if book.tick_seq == 3 else None
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("agents") / "mine.py"
    path.write_text(OWN)
    return path


@pytest.fixture(scope="module")
def live(source, tmp_path_factory):
    """A run with a gap, by a template, an agent of one's own, and one that fails."""
    folder = tmp_path_factory.mktemp("live")
    agents = [template("cumulative-drift"), cl.isolated(f"{source}:Swings"), cl.isolated(f"{source}:Failing")]
    return run_live(LiveRequest(Cutting(50), FIXTURE), agents, FolderRecorder(folder / "runs", lambda: 1), folder / "live")


@pytest.fixture
def agents(source):
    return [cl.isolated(f"{source}:Swings"), cl.isolated(f"{source}:Failing")]


def forged(run, kind, change):
    """The run with the first line of a kind altered."""
    lines = run.events.splitlines(keepends=True)
    n = next(n for n, line in enumerate(lines) if line.startswith(b'{"kind":"%s"' % kind))
    event = json.loads(lines[n])
    change(event["payload"])
    lines[n] = canonical(event) + b"\n"
    return replace(run, events=b"".join(lines))


def test_agents_asked_about_the_whole_decide_as_they_did_live(live, agents):
    found = replay_run(live.sealed, live.receipts, pack=live.pack.folder, agents=agents)

    assert found.agrees, found.detail
    assert "all 4 files have the same bytes: with the whole tape at once, the agents decide as they did live" in found.detail
    assert {row["agent_id"] for row in live.scores.iter_rows(named=True)} == {"cumulative-drift", "swings"}


def test_prices_follow_from_the_captured_pack(live):
    assert prices_again(live.sealed, live.pack.folder).agrees


def test_the_pack_has_to_be_named_and_be_the_one_that_was_captured(live, agents):
    with pytest.raises(ReplayError, match="name the folder of the pack that it captured"):
        replay_run(live.sealed, agents=agents)
    with pytest.raises(
        ReplayError, match=r"'starter' is another pack .* the run was over the pack that it captured of sha256:"
    ):
        prices_again(live.sealed, "starter")


def test_an_agent_whose_source_is_not_at_hand_is_named(live):
    with pytest.raises(ReplayError, match="agent 'swings'"):
        replay_run(live.sealed, pack=live.pack.folder)


def test_a_decision_that_nobody_made_live_is_found(live, agents):
    def another_stake(payload):
        payload["action"]["stake"] = 999

    found = replay_run(forged(live.sealed, b"DECISION", another_stake), pack=live.pack.folder, agents=agents)

    assert not found.agrees
    assert "events.jsonl differs from the stored one at line 2" in found.detail


def test_it_is_read_back_over_its_pack_and_no_other(live):
    again = reopen(open_pack(live.pack.folder), live.sealed, live.receipts)

    assert again.is_live
    assert again.scores.equals(live.scores)
    assert again.report == live.report
    with pytest.raises(PackTamperedError):
        reopen(open_pack("starter"), live.sealed)


def test_its_report_bears_the_label_and_says_what_was_missed(live):
    assert live.report["mode_label"] == "Live paper"
    assert live.report["gaps"] == {"cut": 1}
    assert "backtest_id" not in live.report
    assert live.report["content_hash"] == live.pack.content_hash == content_hash_of(live.sealed)


def test_what_was_sent_again_is_no_gap_of_the_report(live):
    gap = live.pack.manifest.capture.gaps[0].model_copy(update={"replayed": True})
    capture = live.pack.manifest.capture.model_copy(update={"gaps": (gap,)})
    pack = replace(live.pack, manifest=live.pack.manifest.model_copy(update={"capture": capture}))

    assert replace(live, packs=[pack]).report["gaps"] == {}


def test_two_runs_of_the_same_question_are_two(tmp_path):
    feed, record = played(), FolderRecorder(tmp_path / "runs", lambda: 1)
    ids = {run_live(LiveRequest(feed, FIXTURE), [template("baseline")], record, tmp_path / "live").run_id for _ in range(2)}

    assert len(ids) == 2
