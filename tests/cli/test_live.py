import json
import os
import shlex
import signal
import subprocess
import sys

import pytest

from clvlab.sources.capture.replay import ReplayFeed
from tests.commands import clvlab
from tests.live import FIXTURE

OWN = """
import polars as pl
import clvlab as cl

@cl.strategy(markets=("1X2",))
def risers(ticks, *, rise_bps=80):
    rise = pl.col("prob_bps") - pl.col("prob_bps").shift(3).over("series")
    return ticks.filter(rise >= rise_bps)
"""
AT_ONCE = {"CLVLAB_FEED": "replay", "CLVLAB_REPLAY_SPEED": "1e12"}


@pytest.fixture
def feed(monkeypatch):
    for name, value in AT_ONCE.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    return tmp_path


@pytest.mark.usefixtures("feed")
class TestLive:
    def test_follows_seals_and_says_how_to_replay(self, folder):
        (folder / "my notes.txt").write_text("what it may read")
        call = ("live", "mine.py:risers", "--fixture", FIXTURE, "--log", "log.db", "--reads", "my notes.txt")
        code, out, err = clvlab(folder, *call)
        assert code == 0, err

        assert f"follows fixture {FIXTURE} (" in err
        assert "risers: BACK " in err
        assert ", pending" in err
        assert out.startswith("risers: Not distinguishable from zero, by the line or at its prices: ")
        assert "\nLive paper: risers on live-" in out
        assert "  gaps                 none" in out
        asked = shlex.split(out.split("Next: ")[1])
        code, out, err = clvlab(folder, *asked[asked.index("verify") :])
        assert code == 0, out + err
        assert "replay: agrees" in out
        assert "the agents decide as they did live" in out
        assert clvlab(folder, "log", "audit", "log.db")[0] == 0

    def test_prints_the_report_as_json(self, folder):
        code, out, err = clvlab(folder, "live", "cumulative-drift", "--param", "warmup_ticks=10", "--json", "--out", "mine")
        assert code == 0, err

        found = json.loads(out)
        assert found["mode_label"] == "Live paper"
        assert found["agent"]["config"]["warmup_ticks"] == 10
        assert (folder / found["run_folder"] / "events.jsonl").is_file()
        assert found["pack_folder"].startswith(f"mine/live/{found['run_id']}/live-")
        assert (folder / found["pack_folder"] / "datapackage.json").is_file()

    def test_several_agents_compete(self, folder):
        code, out, err = clvlab(folder, "live", "baseline", "cumulative-drift")
        assert code == 0, err

        assert "Leaderboard, by mean CLV" in out
        assert "Live paper: 2 agents on live-" in out
        found = json.loads(clvlab(folder, "live", "baseline", "cumulative-drift", "--json")[1])
        assert "agent" not in found
        assert {one["agent_id"] for one in found["metrics"]["agents"]} == {"baseline", "cumulative-drift"}

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["--feed", "radio"], "there is no feed 'radio'"),
            (["--fixture", "7"], "the feed has no fixture 7"),
            (["--until", "noon"], "Invalid value for --until"),
            (["--until", "+nan"], "Invalid value for --until"),
            (["--until", "+inf"], "Invalid value for --until"),
            (["--until", "+1e300"], "Invalid value for --until"),
            (["--until", "2020-01-01T00:00Z"], "is in the past"),
            (["--param", "warmup_ticks=2", "baseline"], "--param goes with one agent"),
            (["--log", "no/such/folder/log.db"], "the run log 'no/such/folder/log.db' can't be opened"),
            (["--policy", "max_money=2"], "a policy has no limit 'max_money'"),
        ],
    )
    def test_what_can_t_be_followed_is_said_in_a_line(self, folder, options, said):
        code, _, err = clvlab(folder, "live", "cumulative-drift", *options)

        assert code == 2
        assert said in err.replace("\n", " ")


def test_without_a_feed_it_says_what_to_set(folder):
    code, _, err = clvlab(folder, "live", "baseline")

    assert code == 2
    assert "set CLVLAB_FEED to one of" in err


def test_a_request_to_end_the_process_leaves_the_run_and_says_so(folder):
    command = [sys.executable, "-m", "clvlab", "live", "baseline"]
    slow = os.environ | AT_ONCE | {"CLVLAB_REPLAY_SPEED": "20000"}
    with subprocess.Popen(command, cwd=folder, env=slow, stderr=subprocess.PIPE, text=True) as process:
        assert "follows fixture" in process.stderr.readline()
        process.terminate()
        left = process.stderr.read()

    assert process.returncode == 130
    assert "left as it is: the same command continues it" in left


def test_an_interrupt_before_a_run_began_says_that_nothing_is_left(folder, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setenv("CLVLAB_FEED", "replay")
    monkeypatch.setattr(ReplayFeed, "fixtures", interrupted)

    code, _, err = clvlab(folder, "live", "baseline")

    assert (code, err) == (130, "interrupted before the run began: nothing was written\n")
    assert list((folder / "runs" / "live").iterdir()) == []


def test_control_c_in_a_terminal_leaves_the_run_and_its_agent_and_the_same_command_goes_on(folder):
    """Ctrl-C goes to all processes of the terminal: the agent's death would be sealed as its failure."""
    command = [sys.executable, "-m", "clvlab", "live", "mine.py:risers", "--log", "log.db"]
    slow = os.environ | AT_ONCE | {"CLVLAB_REPLAY_SPEED": "20000"}  # half a minute
    with subprocess.Popen(command, cwd=folder, env=slow, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        said = ""
        while "pending" not in said:
            said = process.stderr.readline()
            assert said, "it ended"
        os.killpg(process.pid, signal.SIGINT)
        left = process.stderr.read()
    assert process.returncode == 130, left
    assert "left as it is: the same command continues it" in left

    fast = slow | {"CLVLAB_REPLAY_SPEED": "1e12"}
    done = subprocess.run(command, cwd=folder, env=fast, capture_output=True, text=True, check=True)

    (run,) = (path for path in (folder / "runs").iterdir() if path.name != "live")
    kinds = [json.loads(line)["kind"] for line in (run / "events.jsonl").read_bytes().splitlines()]
    assert "AGENT_ERROR" not in kinds
    assert kinds.count("DECISION") > 3
    assert "Live paper: risers" in done.stdout
    assert len(list((folder / "runs" / "live").iterdir())) == 1
