"""A price that TxLINE proved passes both verifiers; a changed price, leaf or sibling is refused by both, and named."""

import gzip
import json
import subprocess
import sys
from contextlib import closing

import orjson
import pytest

from clvlab.arena.runs.provider import judge_prices, prove
from clvlab.errors import BundleError, SourceError
from clvlab.packs.lookup import open_pack
from clvlab.proof import clv_verify
from clvlab.proof.verify import verify
from clvlab.runs.live.capture import capture
from clvlab.sources.capture.feed import FeedMessage, Stop
from clvlab.sources.devfeeds.txline import TOKENS, ScriptedMessage, TxLineServer
from clvlab.sources.txline.live import TxLineFeed
from clvlab.sources.txline.proofs import climbed, implied_bps, kept_proofs, leaf_hash, summary_hash
from clvlab.store.folder import read_run
from tests.commands import clvlab
from tests.provider import START_MS, Provider, message, proofs_in, proved_run

MESSAGES = [message(number, fixture_id) for number in range(12) for fixture_id in (7, 9)]


@pytest.fixture(scope="module")
def proved(tmp_path_factory):
    return proofs_in(tmp_path_factory.mktemp("proved"), MESSAGES)


def package(run, lines, tmp_path):
    (tmp_path / "proofs.jsonl").write_bytes(lines)
    check = judge_prices(run, verify(read_run(run)), tmp_path / "proofs.jsonl")
    return check.verdict.value, check.detail


def stand_alone(run, lines, _):
    result = clv_verify.verify(run, provider_proofs=lines)
    fault = result["checks"]["provider"]
    return ("fail", fault) if fault else ("pass", result["provider"])


def changed(lines, change, line=2):
    head, *rest = lines.splitlines()
    own = orjson.loads(rest[line])
    change(own)
    rest[line] = orjson.dumps(own)
    return b"\n".join([head, *rest]) + b"\n"


def price(own):
    own["proof"]["odds"]["Prices"][0] += 1


def price_and_leaf(own):
    price(own)
    own["leaf"] = leaf_hash(own["proof"]["odds"]).hex()


def whole_other_price(own):
    """A price with the root that belongs to it: the proof holds, and is of another price than the sealed one."""
    price_and_leaf(own)
    proof = own["proof"]
    proof["summary"]["oddsSubTreeRoot"] = list(climbed(leaf_hash(proof["odds"]), proof["subTreeProof"]))


def leaf(own):
    own["leaf"] = "0" * 64


def sibling(own):
    own["proof"]["subTreeProof"][0]["hash"][5] ^= 1


def side(own):
    own["proof"]["subTreeProof"][0]["isRightSibling"] ^= True


def in_play(own):
    own["proof"]["odds"]["InRunning"] = True
    whole_other_price(own)


FORGERIES = {
    price: "leaf", price_and_leaf: "oddsSubTreeRoot", whole_other_price: "price", leaf: "leaf", sibling: "oddsSubTreeRoot",
    side: "oddsSubTreeRoot", in_play: "price",
    (lambda own: own["proof"]["summary"]["updateStats"].update(maxTimestamp=1)): "batch",
    (lambda own: own["proof"].pop("odds")): "can't be read",
    (lambda own: own["proof"]["odds"].update(Prices="none")): "can't be read",
    (lambda own: own["proof"]["subTreeProof"][0].update(hash=[256])): "can't be read",
    (lambda own: own.update(tick_seq=10_000)): "no proof",
}  # fmt: skip


@pytest.mark.parametrize("judge", [package, stand_alone])
def test_proofs_of_all_scored_prices_pass_and_say_how_many(proved, judge, tmp_path):
    run, _, lines = proved

    verdict, text = judge(run, lines, tmp_path)

    assert verdict == "pass", text
    states = lines.count(b"\n") - 1
    assert f"the {states:,} messages of scored entries and closes lead to 2 roots" in text
    assert f"of {states:,} the probability follows from the price" in text
    assert "probability not" not in text


@pytest.mark.parametrize("judge", [package, stand_alone])
@pytest.mark.parametrize(("forgery", "named"), FORGERIES.items())
def test_a_changed_proof_is_refused_and_named(proved, judge, forgery, named, tmp_path):
    run, _, lines = proved

    verdict, text = judge(run, changed(lines, forgery), tmp_path)

    assert verdict == "fail"
    assert named in text
    assert "line 4" in text or "entry" in text or "close" in text


@pytest.mark.parametrize("judge", [package, stand_alone])
def test_a_file_of_something_else_is_refused(proved, judge, tmp_path):
    run, _, lines = proved

    assert judge(run, b"", tmp_path)[0] == "fail"
    assert "first line" in package(run, lines[1:], tmp_path)[1]


@pytest.mark.parametrize("judge", [package, stand_alone])
def test_a_probability_that_does_not_follow_is_said(judge, tmp_path):
    messages = [*MESSAGES[:-1], message(11, 9, Pct=["40.000", "60.000"])]
    run, _, lines = proofs_in(tmp_path, messages)

    verdict, text = judge(run, lines, tmp_path)

    assert (verdict, "of 1 the price is proved, the probability not" in text) == ("pass", True)


def test_the_stand_alone_file_checks_proofs_by_name(proved, tmp_path):
    run, _, lines = proved
    (tmp_path / "good.jsonl").write_bytes(lines)
    (tmp_path / "bad.jsonl").write_bytes(changed(lines, sibling))

    def called(name):
        command = [sys.executable, "-I", "-S", clv_verify.__file__, str(run), "--provider-proofs", str(tmp_path / name)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    good, bad = called("good.jsonl"), called("bad.jsonl")

    assert (good.returncode, "pass  provider: TxLINE's proofs" in good.stdout) == (0, True)
    assert (bad.returncode, "fail  provider: line 4" in bad.stdout) == (1, True)


def test_a_proof_that_is_not_there_yet_is_counted_and_asked_for_again(tmp_path):
    run, pack, provider = proved_run(tmp_path, MESSAGES)
    provider.away = {MESSAGES[0]["MessageId"]}

    partial, missing = prove(run, pack, provider)
    provider.away = set()
    lines, none = prove(run, pack, provider)

    assert (missing, none) == (1, 0)
    assert "1 of " in package(run, partial, tmp_path)[1]
    assert package(run, lines, tmp_path)[0] == "pass"


def test_a_run_or_a_pack_that_cannot_be_proved_is_refused(proved, tmp_path):
    run, pack, _ = proved
    broken = tmp_path / "run"
    broken.mkdir()
    for file in run.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    (broken / "scores.jsonl").write_bytes(b"")

    with pytest.raises(BundleError, match="does not verify"):
        prove(broken, pack, Provider(MESSAGES))
    with pytest.raises(SourceError, match="not made of messages of TxLINE"):
        prove(run, open_pack("starter"), Provider(MESSAGES))


def served(n=40):
    """A server whose messages are two batches and more."""
    texts = [ScriptedMessage(orjson.dumps(message(number, 7))) for number in range(n)]
    return TxLineServer(texts, heartbeat_s=0.1)


def test_a_capture_of_all_proofs_makes_a_pack_that_carries_them(tmp_path, monkeypatch):
    with served() as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        feed = TxLineFeed(jwt=TOKENS[0], api_token=TOKENS[1], url=server.url, proofs="all")
        stop = Stop()
        pack = capture(feed, tmp_path / "match", stop, on_state=lambda state: stop.set() if state.messages == 40 else None)
        code, out, errors = clvlab(tmp_path, "packs", "verify", "match")

    assert code == 0, out + errors
    assert sorted(kept_proofs(pack)) == sorted(raw["MessageId"] for raw in (message(number, 7) for number in range(40)))
    assert not (tmp_path / "match.capture").exists()
    again = open_pack(str(tmp_path / "match"))
    assert again.content_hash == again.manifest.model_copy(update={"proofs_sha256": None}).content_hash


def test_a_server_proves_a_message_once_its_batch_is_over():
    with served(20) as server:
        feed = TxLineFeed(jwt=TOKENS[0], api_token=TOKENS[1], url=server.url)
        with closing(feed.listen(Stop())) as items:
            for item in items:
                if isinstance(item, FeedMessage) and server.is_done:
                    break
        server.script.ended.clear()
        with feed.proving() as ask:
            first, last = ask("7:00000", START_MS), ask("7:00019", START_MS)
            nothing = ask("unknown", START_MS)

    assert (last, nothing) == (None, None)
    proof = json.loads(first)
    assert climbed(leaf_hash(proof["odds"]), proof["subTreeProof"]) == bytes(proof["summary"]["oddsSubTreeRoot"])


@pytest.mark.realdata
def test_the_published_proof_leads_to_its_root_and_no_other_does(realdata):
    published = json.loads((realdata / "txline" / "odds_proof.json").read_text())
    proof, root = published["proof"], bytes(published["proof"]["summary"]["oddsSubTreeRoot"])

    assert climbed(leaf_hash(proof["odds"]), proof["subTreeProof"]) == root
    assert clv_verify.message_leaf(proof["odds"]) == leaf_hash(proof["odds"])
    assert len(climbed(summary_hash(proof["summary"]), proof["mainTreeProof"])) == 32
    for field, other in (("Prices", [1049, 25800, 140000]), ("Ts", 1783117829021), ("InRunning", False), ("GameState", "")):
        assert climbed(leaf_hash(proof["odds"] | {field: other}), proof["subTreeProof"]) != root
    for step in proof["subTreeProof"]:
        step["hash"][0] ^= 1
        assert climbed(leaf_hash(proof["odds"]), proof["subTreeProof"]) != root
        step["hash"][0] ^= 1


@pytest.mark.realdata
def test_every_probability_of_real_messages_follows_from_its_price(realdata):
    seen = 0
    for path in sorted((realdata / "txline").glob("*.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            raw = json.loads(line)
            for own, percent in zip(raw["Prices"], raw["Pct"], strict=True):
                if percent != "NA":
                    seen += 1
                    whole, _, rest = percent.partition(".")
                    assert implied_bps(own) == clv_verify.implied_bps(own) == (int(whole + rest.ljust(3, "0")) + 5) // 10
    assert seen > 1_000
