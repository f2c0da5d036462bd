import hashlib
import json
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from clvlab.arena.application import Application
from clvlab.arena.log.operations import open_log
from clvlab.arena.report_requests import BacktestRunRequest
from clvlab.log.log import commit, conclude
from clvlab.proof import clv_states, clv_verify
from clvlab.proof.closure import source_digest
from clvlab.report.browser.page import verifier_page
from tests.commands import clvlab, typed
from tests.length import few
from tests.logs import hashed, run_of
from tests.proof.bundles import bundled, make_bundle, trust


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def sealed(folder):
    code, out, err = clvlab(folder, "backtest", "starter", "--agent", "cumulative-drift", "--json")
    assert code == 0, err
    return json.loads(out)


def test_demo_ranks_two_agents_seals_verifies_and_says_what_to_try_next(tmp_path):
    code, out, _ = clvlab(tmp_path, "demo")

    assert code == 0
    assert out.count("verified: the seal is intact") == 2
    assert "synthetic" in out
    assert out.index("cumulative-drift") < out.index("baseline")
    assert len(list((tmp_path / "runs").iterdir())) == 2
    for line in out.split("Try next:")[1].rstrip().splitlines()[1:]:
        words = shlex.split(line)
        if words[0] == "sha256sum":
            subprocess.run(words, cwd=tmp_path, capture_output=True, check=True)
        else:
            own = line.strip().removeprefix(f"{typed(tmp_path)} ")
            assert own != line.strip(), line
            assert clvlab(tmp_path, *shlex.split(own))[0] == 0, line


def test_the_evidence_hash_is_what_sha256_of_the_events_file_gives(folder, sealed):
    content = (folder / sealed["run_folder"] / "events.jsonl").read_bytes()

    assert sealed["evidence_hash"] == "sha256:" + hashlib.sha256(content).hexdigest()


def test_verify_exits_0_on_a_sound_run_and_1_on_a_tampered_one(folder, sealed, tmp_path):
    run = folder / sealed["run_folder"]
    code, out, _ = clvlab(folder, "verify", run, "--json")
    assert code == 0
    assert json.loads(out)["verified"] is True

    broken = tmp_path / run.name
    broken.mkdir()
    for path in run.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    rows = (run / "scores.jsonl").read_bytes().splitlines(keepends=True)
    (broken / "scores.jsonl").write_bytes(b"".join(rows[1:]))
    code, out, _ = clvlab(folder, "verify", broken)

    assert code == 1
    assert "not fully verified" in out
    assert clvlab(folder, "show", broken)[0] == 1


def test_verify_and_version_name_what_judged(folder, sealed):
    code, out, _ = clvlab(folder, "version", "--json")
    judge = json.loads(out)
    assert code == 0
    assert judge["source_digest"] == source_digest()

    code, out, _ = clvlab(folder, "verify", folder / sealed["run_folder"], "--json")
    assert (code, json.loads(out)["judged_by"]) == (0, judge)
    code, out, _ = clvlab(folder, "verify", folder / sealed["run_folder"])
    line = f"judged by            clvlab {judge['clvlab']}, source digest {judge['source_digest']}, polars {judge['polars']}, "
    assert (code, line in out) == (0, True)
    code, out, _ = clvlab(folder, "version")
    assert (code, f"clvlab {judge['clvlab']}\n  source digest        {judge['source_digest']}\n" in out) == (0, True)


def test_second_opinion_and_replay_agree_on_a_sound_run_and_not_on_a_tampered_one(folder, sealed, tmp_path):
    run, broken = folder / sealed["run_folder"], tmp_path / "broken"
    broken.mkdir()
    for path in run.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    (broken / "scores.jsonl").write_bytes((run / "scores.jsonl").read_bytes().replace(b'"valid":true', b'"valid":false', 1))
    unreadable = tmp_path / "unreadable"
    unreadable.mkdir()
    (unreadable / "manifest.json").write_bytes((run / "manifest.json").read_bytes())
    (unreadable / "events.jsonl").write_bytes(b"no json\n")

    code, out, _ = clvlab(folder, "verify", run, "--second-opinion", "--replay", "--json")
    assert (code, json.loads(out)["second_opinion"]["agrees"], json.loads(out)["replay"]["agrees"]) == (0, True, True)
    code, out, _ = clvlab(folder, "verify", broken, "--second-opinion", "--replay", "--json")
    assert (code, json.loads(out)["second_opinion"]["agrees"], json.loads(out)["replay"]["agrees"]) == (1, False, False)
    code, out, _ = clvlab(folder, "verify", unreadable, "--second-opinion")
    assert (code, "it can't be read" in out) == (1, True)


def test_bundle_verifies_and_a_tampered_one_is_refused(folder, sealed, tmp_path):
    path = tmp_path / "run.clv"
    assert clvlab(folder, "bundle", sealed["run_folder"], "--out", path)[0] == 0

    code, out, _ = clvlab(folder, "verify", path, "--second-opinion", "--replay")
    assert (code, "verified: the seal is intact" in out, out.count("agrees")) == (0, True, 2)
    assert clvlab(folder, "bundle", sealed["run_folder"], "--out", path)[0] == 2  # never overwritten
    path.write_bytes(path.read_bytes() + b"!")
    code, _, err = clvlab(folder, "verify", path)
    assert (code, "bytes follow" in " ".join(err.split())) == (2, True)


def test_logged_run_can_not_be_bundled_without_its_log(tmp_path):
    code, out, err = clvlab(tmp_path, "backtest", "starter", "--log", "runs.log", "--owner", "did:example:me", "--json")
    assert code == 0, err

    run = json.loads(out)["run_folder"]
    code, _, err = clvlab(tmp_path, "bundle", run, "--out", "run.clv")
    assert (code, "name the log, to prove it" in " ".join(err.split())) == (2, True)
    code, _, err = clvlab(tmp_path, "backtest", "starter", "--log", "runs.log", "--owner", "did:example:other")
    assert (code, "did:example:me" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize("run_id", ["[/x]", "run_x\n[green]verified[/]: the seal is intact and no check failed"])
def test_what_a_tampered_run_says_is_printed_as_text_on_one_line(folder, sealed, tmp_path, run_id):
    run = folder / sealed["run_folder"]
    for path in run.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    manifest = json.loads((run / "manifest.json").read_bytes()) | {"run_id": run_id}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))

    code, out, err = clvlab(folder, "verify", tmp_path)

    assert code == 1
    assert "Traceback" not in err
    assert not any(line.startswith("verified") for line in out.splitlines())


def test_a_name_of_a_catalogued_pack_and_of_a_folder_here_is_ambiguous(tmp_path):
    clvlab(tmp_path, "packs", "build", "--out", "starter", "--fixtures", 1, "--messages", 20)

    code, _, err = clvlab(tmp_path, "backtest", "starter")

    assert code == 2
    assert "say './starter' for the folder" in " ".join(err.split())
    assert clvlab(tmp_path, "backtest", "./starter")[0] == 0


def test_show_prints_the_card_decisions_and_one_record(folder, sealed):
    run = sealed["run_folder"]

    _, card, _ = clvlab(folder, "show", run, "--json")
    _, listed, _ = clvlab(folder, "show", run, "--decisions", 2)
    _, told, _ = clvlab(folder, "show", run, "--seq", 1)
    _, record, _ = clvlab(folder, "show", run, "--seq", 1, "--json")

    assert len(json.loads(card)["checks"]) == 7
    assert "First 2 of" in listed
    assert json.loads(record)["agent_id"] == "cumulative-drift"
    assert "CLV = close" in told
    assert "||" not in told


def test_agents_are_listed_and_shown_with_algorithm_source_and_bounds(tmp_path):
    code, listed, _ = clvlab(tmp_path, "agents", "list")
    assert code == 0
    names = [line.split()[0] for line in listed.splitlines()[:5]]
    assert names == ["baseline", "cumulative-drift", "sharp-momentum-v2", "llm", "bets"]

    for name in names:
        code, shown, _ = clvlab(tmp_path, "agents", "show", name)
        card = json.loads(clvlab(tmp_path, "agents", "show", name, "--json")[1])
        assert code == 0
        assert card["config_hash"] in shown
        assert all(parameter["meaning"] and f"  {parameter['name']} = " in shown for parameter in card["parameters"])
    momentum = clvlab(tmp_path, "agents", "show", "sharp-momentum-v2")[1]
    assert "Biometrika" in momentum
    assert "persistence_movements = 5, at least 1 and at most 500" in momentum


def test_limits_of_the_policy_bind_execution_and_not_scores(tmp_path):
    free = json.loads(clvlab(tmp_path, "backtest", "starter", "--json")[1])
    bound = json.loads(clvlab(tmp_path, "backtest", "starter", "--policy", "max_orders=2", "--json")[1])

    assert bound["policy"]["allowed"] == 2
    assert bound["metrics"] == free["metrics"]
    assert bound["run_id"] != free["run_id"]
    assert clvlab(tmp_path, "verify", bound["run_folder"])[0] == 0


def test_agent_of_ones_own_is_audited_on_the_command_line(tmp_path):
    head = "import clvlab, polars as pl\n\n@clvlab.strategy\n"
    (tmp_path / "honest.py").write_text(head + "def agent(ticks):\n    return ticks.filter(pl.col('prob_bps') > 7000)\n")
    (tmp_path / "cheat.py").write_text(
        head + "def agent(ticks):\n    return ticks.filter(pl.col('prob_bps') > pl.col('prob_bps').mean())\n"
    )

    assert clvlab(tmp_path, "backtest", "starter", "--agent", "honest.py:agent")[0] == 0
    code, _, error = clvlab(tmp_path, "backtest", "starter", "--agent", "cheat.py:agent")

    assert (code, error.count("\n")) == (2, 1)
    assert "depend on later ticks" in error
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert clvlab(tmp_path, "backtest", "starter", "--agent", "cheat.py:agent", "--no-audit")[0] == 0


def test_packs_are_built_shown_verified_and_exported(tmp_path):
    for args in (
        ("packs", "build", "--out", "mine", "--seed", 5, "--fixtures", 2, "--messages", 40),
        ("packs", "show", "mine"),
        ("packs", "verify", "mine"),
        ("packs", "export", "mine", "ticks.csv"),
        ("backtest", "mine"),
    ):
        code, _, err = clvlab(tmp_path, *args)
        assert code == 0, err

    assert (tmp_path / "ticks.csv").read_text().startswith("fixture_id,tick_seq,ts_ms,in_running,market_key,side")


def test_packs_verify_exits_1_on_a_tampered_pack(tmp_path):
    clvlab(tmp_path, "packs", "build", "--out", "mine", "--fixtures", 1, "--messages", 20)
    path = tmp_path / "mine" / "ticks.parquet"
    path.write_bytes(path.read_bytes()[:-1])

    code, _, err = clvlab(tmp_path, "packs", "verify", "mine")

    assert code == 1
    assert "ticks.parquet of 'mine'" in err


def test_packs_verify_says_as_data_whether_a_pack_is_sound(tmp_path):
    clvlab(tmp_path, "packs", "build", "--out", "mine", "--fixtures", 1, "--messages", 20)
    code, out, _ = clvlab(tmp_path, "packs", "verify", "./mine", "--json")
    assert (code, json.loads(out)["verdict"], json.loads(out)["pack_id"]) == (0, "pass", "mine")

    (tmp_path / "mine" / "ticks.parquet").write_bytes(b"no ticks")
    code, out, _ = clvlab(tmp_path, "packs", "verify", "./mine", "--json")
    assert (code, json.loads(out)["verdict"]) == (1, "fail")
    assert "ticks.parquet" in json.loads(out)["detail"]


def test_an_export_needs_a_known_ending_and_overwrites_nothing(tmp_path):
    (tmp_path / "there.csv").write_text("mine")

    assert clvlab(tmp_path, "packs", "export", "starter", "there.csv")[0] == 2
    assert clvlab(tmp_path, "packs", "export", "starter", "ticks.xlsx")[0] == 2
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("there.csv", "mine")]


def test_the_list_of_packs_names_the_bundled_ones(tmp_path):
    _, out, _ = clvlab(tmp_path, "packs", "list", "--json")

    assert [pack["pack_id"] for pack in json.loads(out)] == ["season", "starter"]


@few(12)
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("backtest", "nothing"), "no pack 'nothing'"),
        (("backtest", "starter", "--fixture", 5), "fixture 5 is not in pack 'starter'"),
        (("backtest", "starter", "--end-rule", "never"), "unknown end_rule 'never'"),
        (("backtest", "starter", "--end-rule", "fixed_duration"), "needs a duration_s"),
        (("backtest", "starter", "--duration-s", 60), "duration_s 60 goes with end_rule fixed_duration only"),
        (("backtest", "starter", "--horizon-s", -1), "min_clv_horizon_s must not be negative: -1"),
        (("backtest", "starter", "--window-id", ""), "window_id must have 1 to 200 bytes"),
        (("backtest", "starter", "--agent", "nobody"), "unknown agent 'nobody'"),
        (("backtest", "starter", "--param", "stake"), "is not name=value"),
        (("backtest", "starter", "--param", "stake=lots"), "parameter stake = 'lots'"),
        (("verify", "nowhere"), "no sealed run at 'nowhere'"),
        (("show", "nowhere"), "no sealed run at 'nowhere'"),
        (("packs", "import", "txline", "gone", "--out", "p"), "no such file or folder: gone"),
        (("packs", "import", "other", ".", "--out", "p"), "unknown source 'other'"),
        (("packs", "import", "csv", ".", "--out", "p"), "no file that ends in .csv, .csv.gz"),
        (("packs", "import", "csv", ".", "--out", "p", "--margin", "magic"), "unknown margin method 'magic'"),
        (("packs", "import", "csv", ".", "--out", "p", "--odds-format", "roman"), "unknown odds format 'roman'"),
        (("packs", "import", "csv", ".", "--out", "p", "--max-close-age-s", 0), "max_close_age_s must be a whole number"),
        (("packs", "import", "csv", ".", "--out", "p", "--max-close-age-s", "6h"), "'6h' is not a valid"),
        (
            ("packs", "import", "csv", ".", "--out", "p", "--weight", "a=x"),
            "--weight takes BOOK=N with a whole number, not 'a=x'",
        ),
        (("packs", "import", "csv", ".", "--out", "p", "--column", "time"), "--column takes NAME=VALUE, not 'time'"),
        (("packs", "import", "csv", ".", "--out", "p", "--mapping", "gone.yml"), "gone.yml: can't be read as YAML"),
        (("packs", "verify", "nothing"), "no pack 'nothing'"),
        (("anchor", "nowhere"), "no sealed run at 'nowhere'"),
        (("disclose", "nowhere", 1), "no sealed run at 'nowhere'"),
        (("bundle", "nowhere", "--out", "run.clv"), "no sealed run at 'nowhere'"),
        (("bundle", "nowhere", "--out", "run.clv", "--log", "runs.log"), "--log goes with either --log-key or --checkpoint"),
        (("log", "show", "nowhere"), "no run log at 'nowhere'"),
        (("log", "checkpoint", "nowhere", "--key", "nothing"), "no key file at 'nothing'"),
        (("log", "keygen", "two words", "--out", "log.key"), "name of a key"),
        (("log", "witness", "--key", "nothing", "--state", "seen.json", "--log", "x"), "no key file at 'nothing'"),
    ],
)
def test_bad_input_exits_2_with_one_error_that_names_the_value_and_leaves_nothing(tmp_path, args, message):
    code, _, err = clvlab(tmp_path, *args)

    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_leaderboard_is_rebuilt_from_the_sealed_runs(tmp_path):
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    application = Application(url)
    request = {"pack_id": "starter", "fixture_id": 90000001, "window_id": "w", "market_allowlist": [""]}
    application.backtests.run(BacktestRunRequest(**request))
    sound = application.leaderboard.rows()
    application.close()
    assert clvlab(tmp_path, "service", "rebuild-leaderboard", "--database-url", url)[0] == 0

    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("UPDATE standings SET total_clv_bps = 999999")
    connection.close()
    code, printed, _ = clvlab(tmp_path, "service", "rebuild-leaderboard", "--database-url", url)

    again = Application(url)
    assert again.leaderboard.rows() == sound
    again.close()
    assert (code, "total_clv_bps was 999999" in printed) == (1, True)


@pytest.mark.parametrize("library", ["cryptography.hazmat.primitives.asymmetric.ed25519", "solders.transaction"])
def test_a_bundle_is_not_told_to_fail_for_want_of_a_library(tmp_path, library, monkeypatch):
    (tmp_path / "run.clv").write_bytes(make_bundle())
    (tmp_path / "keys.json").write_text(json.dumps(trust()))
    monkeypatch.setitem(sys.modules, library, None)

    code, out, err = clvlab(tmp_path, "verify", "run.clv", "--trust", "keys.json")

    assert (code, "fail" in out) == (2, False)
    assert f'this needs {library}, which is not installed: pip install "clvlab[anchor]"' in err


def test_proofs_in_a_bundle_are_judged_by_the_keys_of_the_caller(tmp_path):
    (tmp_path / "run.clv").write_bytes(make_bundle())
    (tmp_path / "keys.json").write_text(json.dumps(trust()))
    (tmp_path / "strict.json").write_text(json.dumps(trust(witness_quorum=2)))

    def judged(*arguments):
        code, out, err = clvlab(tmp_path, "verify", "run.clv", *arguments)
        return code, out + err

    code, out = judged("--trust", "keys.json", "--require", "anchor,log", "--json")
    proofs, card = json.loads(out)["proofs"], json.loads(out)["proof_card"]
    assert card["log"] == {
        "owner": "did:x:me",
        "content_hash": "sha256:" + "c" * 64,
        "commit_index": 1,
    }
    assert (code, {name: proof["verdict"] for name, proof in proofs.items()}) == (0, {"anchor": "pass", "log": "pass"})
    code, out = judged("--trust", "strict.json")
    assert code == 1
    assert "log in the bundle: fail: 1 trusted witnesses signed" in out
    assert judged("--require", "log")[0] == 1
    (tmp_path / "alone.json").write_text(json.dumps(trust(witnesses=[], witness_quorum=0)))
    assert judged("--trust", "alone.json", "--require", "log")[0] == 1
    code, out = judged("--trust", "alone.json", "--require", "log", "--without-witness")
    assert code == 0
    assert "proved: entry 1 of 8 that 'log.example' signed commits to this run" in out
    assert "by that log's word its owner is 'did:x:me'" in out
    assert "the bundle states, unsigned: 1 earlier and 2 later commitments" in out
    (tmp_path / "clv_verify.py").write_bytes(Path(clv_verify.__file__).read_bytes())
    for arguments, status in ((("--require", "log"), 1), (("--require", "log", "--without-witness"), 0)):
        command = [sys.executable, "-I", "clv_verify.py", "run.clv", "--trust", "alone.json", *arguments]
        alone = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert alone.returncode == status
    assert alone.stdout.split("log: ")[1].split("\n")[0] == out.split("log in the bundle: pass: ")[1].split("\n")[0]
    assert judged("--require", "love")[0] == 2


def test_log_is_audited_from_the_command_line(tmp_path):
    with open_log(tmp_path / "runs.log", create=True) as log, log.write() as rows:
        commit(rows, run_of(1), "did:x:me", hashed(1), hashed(2), 1)
        conclude(rows, run_of(1), hashed(3), hashed(2), 2)
    (tmp_path / "log.pub").write_text(clvlab(tmp_path, "log", "keygen", "log.example", "--out", "log.key")[1])
    key = (tmp_path / "log.pub").read_text().strip()
    (tmp_path / "checkpoint").write_text(clvlab(tmp_path, "log", "checkpoint", "runs.log", "--key", "log.key")[1])

    code, out, _ = clvlab(tmp_path, "log", "audit", "runs.log", "--state", "seen.json")
    assert (code, (tmp_path / "seen.json").exists()) == (0, True)
    assert "did:x:me" in out
    assert "2 entries" in out
    assert "signature of the log: NOT judged" in out
    assert "the operator's word alone: names of owners, times, causes, and packs" in out
    assert json.loads(clvlab(tmp_path, "log", "audit", "runs.log", "--json")[1])["counts"][0]["elsewhere"] == 0
    code, out, _ = clvlab(tmp_path, "log", "audit", "runs.log", "--checkpoint", "checkpoint", "--key", key, "--json")
    assert (code, json.loads(out)["signature_judged"], json.loads(out)["counts"][0]["sealed"]) == (0, True, 1)

    with sqlite3.connect(tmp_path / "runs.log") as connection:
        again = "SELECT 2, kind, run_id, owner, 99, entry, content_hash FROM log_entries WHERE idx = 1"
        connection.execute(f"INSERT INTO log_entries {again}")
    connection.close()
    code, out, _ = clvlab(tmp_path, "log", "audit", "runs.log")
    assert (code, "ends commitment 0, which entry 1 ended already" in out, "NOT sound: 3 rules broken" in out) == (
        1,
        True,
        True,
    )
    assert "the run log lacks the root of subtree" in out
    code, out, err = clvlab(tmp_path, "log", "audit", "nowhere")
    assert (code, out, "no run log at 'nowhere'" in err) == (2, "", True)
    code, out, err = clvlab(tmp_path, "log", "audit", "http://127.0.0.1:1")
    assert (code, out, err.count("\n"), "gives no answer" in err) == (2, "", 1, True)


def test_audit_says_what_stands_beside_a_bundles_run_and_where_times_fall(tmp_path):
    (tmp_path / "run.clv").write_bytes(bundled(tmp_path / "runs.log"))

    code, out, _ = clvlab(tmp_path, "log", "audit", "runs.log", "--bundle", "run.clv")

    said = " ".join(out.split())
    assert code == 0
    assert (
        "run.clv, audited over 7 entries: 1 earlier and 1 later commitments over its pack by its owner, 1 abandoned; "
        "1 commitment under other packs of this owner, 0 that name none"
    ) in said
    assert "times fall from one entry to the next 1 time, first at entry 6" in said
    assert "log that calls itself log.example: 7 entries" in said


def test_verifier_prints_either_file(tmp_path):
    for arguments, module in (((), clv_verify), (("--states",), clv_states)):
        code, out, _ = clvlab(tmp_path, "verifier", *arguments)

        assert (code, out) == (0, Path(module.__file__).read_text(encoding="utf-8"))


def test_verifier_prints_the_page_for_a_browser_and_what_it_hashes_to(tmp_path):
    code, out, err = clvlab(tmp_path, "verifier", "--html")

    assert (code, out.encode()) == (0, verifier_page())
    assert err == f"{hashlib.sha256(out.encode()).hexdigest()}  verify.html\n"
    assert clvlab(tmp_path, "verifier", "--html", "--states")[0] == 2
