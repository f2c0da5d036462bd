"""The run log and proof bundles over HTTP, against the file that a sceptic runs."""

import json
import subprocess
import sys
from functools import partial
from threading import Thread

import pytest
from clvlab_service.app import create_app
from clvlab_service.settings import Settings
from pydantic import ValidationError
from typer.testing import CliRunner

from clvlab.arena.application import Application
from clvlab.arena.log.audit import audit
from clvlab.arena.log.operations import cosign
from clvlab.arena.log.witness_server import serve_witness
from clvlab.arena.report_requests import BacktestRunRequest
from clvlab.cli import app
from clvlab.errors import LogError
from clvlab.log.bundles import Trust, judge
from clvlab.log.note import Signer, write_signer
from clvlab.log.witness import request
from clvlab.proof import clv_verify
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.proof.checks import Verdict
from clvlab.proof.verify import verify
from tests.service.serving import BACKTEST, DEPLOY, api, assert_problem, make_settings
from tests.waiting import until

LOG_KEY, WITNESS_KEY = Signer("log.example", 1, bytes(range(32))), Signer("witness.example", 4, bytes(range(1, 33)))
NEW_WITNESS = Signer("new.example", 4, bytes(range(5, 37)))
NEW_KEY = Signer("log.example/2", 1, bytes(range(2, 34)))


@pytest.fixture
def proving(keys, tmp_path, local):
    """A service with a log key and a chain of its own."""
    write_signer(LOG_KEY, tmp_path / "log.key")
    settings = {
        "log_key_file": tmp_path / "log.key",
        "anchor": {
            "rpc_url": local.url, "cluster": "localnet", "genesis_hash": local.settings.genesis_hash,
            "keypair": local.settings.keypair,
        },
    }  # fmt: skip
    with api(keys, **settings) as found:
        yield found


def anchored(api, run_id):
    until(lambda: api.get(f"/runs/{run_id}")["anchor"]["status"] != "pending")
    return api.get(f"/runs/{run_id}")


def test_competition_is_logged_anchored_and_its_bundle_passes_the_file_with_both_proofs(proving, local, tmp_path):
    competition_id, started = proving.started()
    card = anchored(proving, started["run_id"])
    answer = proving.nobody.get(f"/runs/{started['run_id']}/bundle")
    (tmp_path / "run.clv").write_bytes(answer.content)
    trust = {"anchor_signers": {"localnet": [str(local.key.pubkey())]}, "logs": [proving.get("/log")["public_key"]]}
    (tmp_path / "keys.json").write_text(json.dumps(trust))

    command = [sys.executable, "-I", clv_verify.__file__, "run.clv", "--trust", "keys.json", "--require", "anchor,log"]
    command.append("--without-witness")  # which this service has not
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (checked.returncode, card["checks"]["anchor"]) == (0, "pass"), checked.stdout + checked.stderr
    verified = proving.post(f"/runs/{started['run_id']}/verify", by=proving.nobody)
    assert (verified["verified"], set(verified["checks"].values())) == (True, {"pass"})
    assert local.chain.memos() == [verified["manifest_hash"]]
    assert answer.headers["content-disposition"] == f'attachment; filename="{started["run_id"]}.clv"'
    log = proving.get(f"/competitions/{competition_id}/events")
    assert [event["payload"]["anchor_status"] for event in log if event["kind"] == "PROOF_ANCHOR"] == ["pending", "anchored"]


def test_witness_follows_the_log_over_http(proving, tmp_path):
    write_signer(WITNESS_KEY, tmp_path / "witness.key")
    seen, signed = 0, []
    for window in ("a", "b"):
        proving.post("/backtests", BACKTEST | {"window_id": window})
        note = proving.nobody.get("/log/checkpoint").text
        size = int(note.split("\n")[1])
        proof = proving.get("/log/consistency", first=seen, second=size)["proof"]
        asked = request(seen, [bytes.fromhex(value) for value in proof], note)
        signed.append(cosign(asked, tmp_path / "witness.key", [str(LOG_KEY.verifier)], tmp_path / "seen.json", 1_800_000_000))
        seen = size

    assert (seen, [line.startswith("\u2014 witness.example ") for line in signed]) == (4, [True, True])
    entries = proving.get("/log/entries", since=1, limit=2)["entries"]
    assert [(entry["index"], json.loads(entry["entry"])["kind"]) for entry in entries] == [(1, "RESULT"), (2, "COMMIT")]


def test_log_of_a_service_is_audited_with_the_claims_of_its_bundles_and_the_card_says_the_same(proving):
    asked = [proving.post("/backtests", BACKTEST | {"window_id": window}, by=proving.nobody) for window in "abc"]
    runs = [one["run_id"] for one in asked]
    bundles = {run_id: proving.nobody.get(f"/runs/{run_id}/bundle").content for run_id in runs}
    card, standing = proving.get(f"/runs/{runs[1]}"), proving.get(f"/runs/{runs[1]}/log")
    verified = proving.post(f"/runs/{runs[1]}/verify", by=proving.nobody)

    done = audit(proving.url, trust=Trust(logs=[str(LOG_KEY.verifier)]), bundles=bundles)

    assert (done.sound, done.size, done.origin, done.bundles) == (True, 6, "log.example", 3), done.broken
    pack = json.loads(proving.nobody.get(f"/runs/{runs[1]}/manifest").content)["content_hash"]
    committed = {"owner": "anonymous", "content_hash": pack, "commit_index": 2}
    assert card["log"] == verified["proof_card"]["log"] == committed
    claim = {"earlier": 1, "later": 1, "abandoned": 0, "unknown_pack": 0}
    assert standing == {"run_id": runs[1], **committed, "tree_size": 6, "claim": claim}
    assert [(one.owner, one.content_hash, one.runs.sealed) for one in done.counts] == [("anonymous", pack, 3)]


def test_service_over_a_restored_backup_refuses_writes_reads_on_and_goes_on_when_the_log_is_restarted(keys, tmp_path):
    place, file = tmp_path / "store.db", tmp_path / "newest"
    settings = {"database_url": f"sqlite:///{place}", "log_key_file": tmp_path / "log.key", "checkpoint_file": file}
    write_signer(LOG_KEY, tmp_path / "log.key")
    write_signer(NEW_KEY, tmp_path / "new.key")
    environment = {"CLVLAB_DATABASE_URL": settings["database_url"], "CLVLAB_CHECKPOINT_FILE": str(file)}
    clvlab = partial(CliRunner().invoke, app, env=environment, catch_exceptions=False)
    whole = Application(settings["database_url"], log_key=LOG_KEY, checkpoint_file=file)
    kept = whole.backtests.run(BacktestRunRequest(**BACKTEST))["run_id"]
    backed_up = clvlab(["service", "backup", "--out", str(tmp_path / "backup.db")])
    whole.backtests.run(BacktestRunRequest(**BACKTEST | {"window_id": "lost"}))
    last = whole.log.checkpoint()
    whole.close()
    for rest in tmp_path.glob("store.db*"):
        rest.unlink()
    (tmp_path / "backup.db").rename(place)

    with api(keys, **settings) as behind:
        created = behind.competition()
        refused = [
            behind.alice.post(path, json=body)
            for path, body in (
                ("/backtests", BACKTEST | {"window_id": "lost"}),
                ("/agents/deploy", DEPLOY),
                (f"/competitions/{created}/start", None),
                ("/demo/run", None),
            )
        ]
        problems = [assert_problem(answer, 503) for answer in refused]
        read = behind.get(f"/runs/{kept}"), behind.get("/readyz"), behind.get("/log")
        restarted = clvlab(["log", "restart", str(place), "--key", str(tmp_path / "new.key")])
        behind.post("/backtests", BACKTEST | {"window_id": "lost"})
        assert_problem(behind.nobody.get("/log/checkpoint"), 503)

    assert (backed_up.exit_code, restarted.exit_code) == (0, 0), backed_up.output + restarted.output
    assert {problem["type"] for problem in problems} == {"urn:clvlab:problem:log-behind"}
    assert "with 4 entries was published, and the log has 2" in problems[0]["detail"]
    assert (read[0]["run"]["status"], read[2]["size"], read[2]["restarts"]) == ("sealed", 2, [])
    trust = Trust(logs=[str(LOG_KEY.verifier), str(NEW_KEY.verifier)])
    done = audit(str(place), trust=trust, checkpoints={"last": last, "new": file.read_text()})
    assert (done.sound, [one.index for one in done.restarts], len(done.lost)) == (True, [2], 1), done.broken


def test_log_is_read_without_a_key_and_has_no_checkpoints(api):
    state = api.get("/log")

    assert (state["origin"], state["public_key"]) == (None, None)
    assert_problem(api.nobody.get("/log/checkpoint"), 404)
    for path in ("/log/consistency?first=2&second=1", "/log/entries?limit=0", "/log/entries?since=-1", "/log/entries?since=x"):
        assert_problem(api.nobody.get(path), 422)
    assert_problem(api.nobody.get("/runs/run_gone/bundle"), 404)


@pytest.mark.parametrize("given", [
    {"log_key_file": "nothing"}, {"anchor": {"commitment": "processed"}},
    {"anchor": {"rpc_url": "http://127.0.0.1:9", "cluster": "mine"}}, {"checkpoint_file": "newest"}, {"log_witness": "seen"},
])  # fmt: skip
def test_wrong_keys_and_settings_stop_the_service_before_it_starts(keys, given):
    with pytest.raises((LogError, ValidationError), match=r"nothing|confirmed|genesis hash|LOG_KEY_FILE"):
        create_app(make_settings(keys, **given))


def test_refused_settings_do_not_show_the_address_of_a_node():
    with pytest.raises(ValidationError, match="genesis hash") as caught:
        Settings(anchor={"rpc_url": "https://node.example/?key=secret", "cluster": "mine"})

    assert "secret" not in str(caught.value)


def test_settings_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("CLVLAB_ANCHOR_SIGNERS", "one, two")
    monkeypatch.setenv("CLVLAB_ANCHOR_PRIORITY_FEE", "7")

    settings = Settings().anchor

    assert (settings.signers, settings.priority_fee, settings.cluster) == (frozenset({"one", "two"}), 7, "devnet")


def test_tiles_of_a_service_are_cosigned_cached_and_audited_like_those_of_any_host(keys, tmp_path):
    write_signer(LOG_KEY, tmp_path / "log.key")
    write_signer(WITNESS_KEY, tmp_path / "witness.key")
    trust = f"log {LOG_KEY.verifier}\nwitness w {WITNESS_KEY.verifier} %s\nquorum w\n"
    with serve_witness("127.0.0.1:0", tmp_path / "witness.key", [str(LOG_KEY.verifier)], tmp_path / "seen.json") as server:
        Thread(target=server.serve_forever, daemon=True).start()
        (tmp_path / "policy").write_text(trust % server.url)
        settings = {"log_key_file": tmp_path / "log.key", "log_policy": tmp_path / "policy", "log_cosign_s": 0.1}
        with api(keys, **settings) as service:
            run_id = service.post("/backtests", BACKTEST)["run_id"]
            until(lambda: service.nobody.get("/log/tiles/checkpoint").text.split("\n")[1] == "2")
            done = audit(f"{service.url}/log/tiles", trust=Trust.read((trust % "").encode()))
            note, tile, missing = (
                service.nobody.get(f"/log/tiles/{path}") for path in ("checkpoint", "tile/0/000.p/2", "tile/0/000")
            )
            state, content = service.get("/log"), service.nobody.get(f"/runs/{run_id}/bundle").content
        server.shutdown()

    assert (done.sound, done.size, done.witnesses) == (True, 2, ("witness.example",)), done.broken
    assert [answer.headers["cache-control"] for answer in (note, tile)] == ["no-cache", "public, max-age=31536000, immutable"]
    assert (tile.headers["content-type"], len(tile.content)) == ("application/octet-stream", 64)
    assert_problem(missing, 404)
    assert [(one["name"], one["outcome"]) for one in state["witnesses"]] == [("witness.example", "cosigned")]
    parts = read_bundle(content)
    judged = judge(parts, verify(run_of(parts), parts.get("receipts.jsonl", b"")), Trust.read((trust % "").encode()), ["log"])
    assert judged["log"].verdict == Verdict.PASS, judged["log"].detail
    stricter = (trust % "").replace("quorum w", f"witness x {NEW_WITNESS.verifier}\ngroup all all w x\nquorum all").encode()
    refused = judge(parts, verify(run_of(parts), parts.get("receipts.jsonl", b"")), Trust.read(stricter), ["log"])["log"]
    assert (refused.verdict, refused.detail) == (
        Verdict.FAIL, "no quorum 'all' of the policy: of its witnesses signed w",
    )  # fmt: skip


def test_policy_without_a_key_of_the_log_is_refused(tmp_path):
    with pytest.raises(ValidationError, match="CLVLAB_LOG_POLICY need CLVLAB_LOG_KEY_FILE"):
        Settings(log_policy=tmp_path / "policy")
