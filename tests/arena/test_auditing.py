"""The audit of stored logs and of services, honest and hostile."""

import json
import sqlite3
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from clvlab.arena.log import audit as auditing
from clvlab.arena.log.audit import audit
from clvlab.arena.log.operations import log_proofs, open_log, signed_checkpoint
from clvlab.arena.log.public import PublicLog
from clvlab.arena.log.sources import SourceLimits
from clvlab.errors import BundleError, LogError
from clvlab.log.bundles import Trust
from clvlab.log.log import Claim, abandon, claim, commit, conclude, recommit
from clvlab.log.note import Signer, open_note, write_note
from clvlab.log.tree import completed_roots as tree_grown
from clvlab.proof.bundle import bundle, read_bundle
from clvlab.proof.canonical import canonical, parsed, sha256
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog
from tests.length import few
from tests.logs import hashed, run_of
from tests.proof.bundles import LOG_KEY, OTHER_PACK, WITNESS_KEY, bundled, logged
from tests.proof.test_bundle import packed

PACK = "sha256:" + "c" * 64
TRUST = Trust(logs=[str(LOG_KEY.verifier)])


def grown(log, size, start=0):
    with log.write() as rows:
        for number in range(start, start + size):
            commit(rows, run_of(number), f"did:x:{number % 2}", hashed(number), PACK, number)
            if number % 3:
                if number % 3 == 1:
                    conclude(rows, run_of(number), hashed("result"), PACK, number)
                else:
                    abandon(rows, run_of(number), "failed", number)
    return log


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "runs.log"
    with open_log(path, create=True) as log:
        grown(log, 9)
    return str(path)


def checkpoint_of(place, key=LOG_KEY):
    with open_log(place) as log:
        return signed_checkpoint(log, key)


def rules(done):
    return [broken.rule for broken in done.broken]


def test_stored_log_is_counted_by_owner_and_pack(place):
    done = audit(place)

    assert (done.sound, done.size, done.signature_judged, done.origin) == (True, 15, False, None)
    counted = done.facts()["counts"]
    assert counted == [
        {"owner": "did:x:0", "content_hash": PACK, "committed": 5, "sealed": 1, "abandoned": 2, "open": 2, "elsewhere": 0},
        {"owner": "did:x:1", "content_hash": PACK, "committed": 4, "sealed": 2, "abandoned": 1, "open": 1, "elsewhere": 0},
    ]
    json.dumps(done.facts())


def test_stored_log_of_every_database_is_audited(database_url):
    database = Database(database_url)
    grown(RunLog(database), 4)
    database.close()

    assert audit(database_url).size == 6


def test_signature_is_judged_by_a_key_and_else_said_not_to_be(place):
    note = checkpoint_of(place)
    other = Trust(logs=[str(Signer("log.example", 1, bytes(32)).verifier)])

    assert audit(place, checkpoints={"cp": note}).signature_judged is False
    done = audit(place, checkpoints={"cp": note}, trust=TRUST)
    assert (done.sound, done.signature_judged, done.origin, done.checkpoints) == (True, True, "log.example", 1)
    assert "is not signed by that log" in rules(audit(place, checkpoints={"cp": note}, trust=other))[0]
    assert rules(audit(place, trust=TRUST)) == ["no checkpoint of the log is signed by a key that you trust"]


def test_witnesses_are_counted_on_the_newest_checkpoint(place):
    note = checkpoint_of(place)
    text = open_note(note)[0]
    witnessed = write_note(text, LOG_KEY.line(text), WITNESS_KEY.line(text, 5))
    strict = Trust(logs=TRUST.logs, witnesses=[str(WITNESS_KEY.verifier)], witness_quorum=1)

    assert audit(place, checkpoints={"cp": witnessed}, trust=strict).witnesses == ("witness.example",)
    assert rules(audit(place, checkpoints={"cp": note}, trust=strict)) == ["0 trusted witnesses signed the checkpoint, 1 must"]


def test_log_that_was_replaced_or_cut_contradicts_a_checkpoint_seen_before(place, tmp_path):
    note = checkpoint_of(place)
    for name, size in (("other", 9), ("shorter", 2)):
        with open_log(tmp_path / name, create=True) as log:
            grown(log, size, start=100)

    assert "cp at 15 entries has the root" in rules(audit(str(tmp_path / "other"), checkpoints={"cp": note}))[0]
    assert (
        "speaks of 15 entries, the log has 4: it shrank" in rules(audit(str(tmp_path / "shorter"), checkpoints={"cp": note}))[0]
    )


def test_state_remembers_the_log_after_a_sound_audit_only(place, tmp_path):
    state = tmp_path / "state.json"
    note = checkpoint_of(place)
    audit(place, state=state, checkpoints={"cp": note})
    kept = state.read_bytes()
    with open_log(tmp_path / "fork.log", create=True) as log:
        grown(log, 20, start=100)

    forked = audit(str(tmp_path / "fork.log"), state=state)

    assert parsed(kept)["note"] == note
    assert "the state of the last audit at 15 entries" in rules(forked)[0]
    assert state.read_bytes() == kept
    with open_log(place) as log:
        grown(log, 3, start=50)
    assert audit(place, state=state).checkpoints == 1
    assert parsed(state.read_bytes())["size"] == 20
    state.write_text("{}")
    with pytest.raises(LogError, match="state of an audit"):
        audit(place, state=state)


def test_state_that_another_audit_wrote_meanwhile_is_not_written_over(place, tmp_path, monkeypatch):
    state, read = tmp_path / "state.json", auditing._read
    monkeypatch.setattr(auditing, "_read", lambda *given: (read(*given), state.write_bytes(b"another"))[0])

    with pytest.raises(LogError, match="another audit wrote"):
        audit(place, state=state)

    assert state.read_bytes() == b"another"


@pytest.mark.parametrize("what", ["missing", "empty"])
def test_no_log_is_nothing_to_audit(tmp_path, what):
    if what == "empty":
        with open_log(tmp_path / "runs.log", create=True):
            pass

    with pytest.raises(LogError, match=r"nothing to audit|no run log"):
        audit(str(tmp_path / "runs.log"))


def altered(place, *statements):
    with sqlite3.connect(place) as connection:
        for trigger in ("UPDATE", "DELETE"):
            connection.execute(f"DROP TRIGGER log_entries_no_{trigger.lower()}")
        for statement in statements:
            connection.execute(*statement)
    connection.close()


def test_operators_columns_that_differ_from_the_entries_are_named(place):
    altered(place, ("UPDATE log_entries SET owner = 'did:x:1' WHERE idx = 0",))

    found = rules(audit(place))

    assert found[0] == (
        "the log's keeper counts 4 committed, 1 sealed and 2 abandoned runs of 'did:x:0', the first 15 entries 5 committed, "
        "1 sealed and 2 abandoned"
    )


def test_entry_that_was_altered_cut_out_or_added_is_found(place):
    with open_log(place) as log, log.read() as rows:
        entry = rows.entry(1)
    altered(place, ("UPDATE log_entries SET entry = ? WHERE idx = 1", (entry.replace(run_of(1).encode(), run_of(7).encode()),)))
    assert "the state of the log at 15 entries has the root" in " ".join(rules(audit(place)))

    altered_place = place + "2"
    with open_log(altered_place, create=True) as log:
        grown(log, 9)
    altered(altered_place, ("DELETE FROM log_entries WHERE idx = 4",))
    assert "where entry 4 of 15 must be, the log has entry 5" in rules(audit(altered_place))[0].replace("'", "")


def test_bundle_must_stand_in_the_log_and_state_what_its_entries_give(tmp_path):
    path = tmp_path / "log.db"
    whole = bundled(path)
    part = parsed(read_bundle(whole)["log.json"])

    def judged(changed):
        content = packed(read_bundle(whole) | {"log.json": canonical(part | changed)})
        return audit(str(path), bundles={"run.clv": content}, trust=TRUST)

    sound = judged({})
    assert (sound.sound, sound.bundles, sound.checkpoints) == (True, 1, 1), rules(sound)
    assert sound.facts()["recounts"] == [
        {
            "bundle": "run.clv",
            "size": 7,
            "counts": {"earlier": 1, "later": 1, "abandoned": 1, "unknown_pack": 0},
            "elsewhere": 1,
            "draws": (),
        }
    ]
    for name, value in (("earlier", 0), ("later", 0), ("abandoned", 0), ("unknown_pack", 3)):
        done = judged({"claim": part["claim"] | {name: value}})
        assert [broken.index for broken in done.broken] == [part["commit"]["index"]]
        assert "run.clv states" in rules(done)[0]
    silent = {name: value for name, value in part.items() if name != "claim"} | {"schema": "clvlab-bundle-log/1"}
    content = packed(read_bundle(whole) | {"log.json": canonical(silent)})
    quiet = audit(str(path), bundles={"run.clv": content})
    assert (quiet.sound, quiet.recounts) == (True, sound.recounts)
    assert "has another entry 2" in " ".join(rules(judged({"commit": part["commit"] | {"index": 2}})))
    with pytest.raises(BundleError, match="holds no proofs of a log"):
        audit(str(path), bundles={"run.clv": bundle(logged()[0])})


def test_run_that_was_sealed_over_another_pack_than_its_commitment_names_is_an_error(tmp_path):
    content = bundled(tmp_path / "log.db", committed_pack=OTHER_PACK)

    done = audit(str(tmp_path / "log.db"), bundles={"run.clv": content}, trust=TRUST)

    [rule] = rules(done)
    assert rule == (f"the entries in run.clv do not fit its run: entry 1 commits to a run over another pack, {OTHER_PACK}")
    assert done.recounts == ()


def test_bundle_of_another_run_than_its_entries_are_about_is_an_error(tmp_path):
    content = bundled(tmp_path / "log.db")
    parts = read_bundle(content)
    manifest = parsed(parts["manifest.json"])
    context = parsed(parts["context.json"])

    manifest = canonical(manifest | {"commit_index": 0})
    context = canonical(context | {"manifest_hash": sha256(manifest)})
    moved = packed(parts | {"manifest.json": manifest, "context.json": context})
    done = audit(str(tmp_path / "log.db"), bundles={"run.clv": moved}, trust=TRUST)

    assert "the entries in run.clv do not fit its run: the log says that the result is" in " ".join(rules(done))


def test_run_in_a_bundle_that_does_not_verify_is_an_error(tmp_path):
    parts = read_bundle(bundled(tmp_path / "log.db"))

    done = audit(str(tmp_path / "log.db"), bundles={"run.clv": packed(parts | {"scores.jsonl": b""})}, trust=TRUST)

    assert "the run in run.clv does not verify: " in rules(done)[0]


def rebuilt(place, column, value):
    """Store a value in a row of the entries, in a table that takes any."""
    names = "idx, kind, run_id, owner, commit_index, entry, content_hash"
    with sqlite3.connect(place) as connection:
        connection.execute("ALTER TABLE log_entries RENAME TO before")
        connection.execute(f"CREATE TABLE log_entries ({names})")
        connection.execute(f"INSERT INTO log_entries ({names}) SELECT {names} FROM before")
        connection.execute(f"UPDATE log_entries SET {column} = ? WHERE idx = 4", (value,))
    connection.close()


@few(4)
@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("idx", "4", "an entry whose index is '4', of type str"),
        ("idx", "x\x1b[2J\n", r"an entry whose index is 'x\x1b[2J\n', of type str"),
        ("idx", b"\x04", "of type bytes"),
        ("idx", 4.5, "an entry whose index is '4.5', of type float"),
        ("idx", None, "where entry 4 of 15 must be, the log has entry '5'"),
        ("idx", -1, "where entry 4 of 15 must be, the log has entry '5'"),
        ("idx", 2**62, "more than the 10,000,000 that are to be read"),
        ("entry", "text\x1b[2J\n", "entry 4 of the run log is stored as str, not as bytes"),
        ("entry", 7, "entry 4 of the run log is stored as int, not as bytes"),
        ("entry", 1.5, "entry 4 of the run log is stored as float, not as bytes"),
        ("entry", None, "entry 4 of the run log is stored as NoneType, not as bytes"),
        ("entry", b"", "entry 4 is not well-formed"),
    ],
)
def test_log_entry_of_a_wrong_type_is_one_clear_line(place, column, value, said):
    rebuilt(place, column, value)

    try:
        found = next((rule for rule in rules(audit(place)) if said in rule), "")
    except LogError as error:
        found = str(error)

    assert said in found
    assert found.isprintable()


def add_older(rows, kind, run_id, **content):
    """Append an entry as the writer of the older schema did."""
    index, entry = rows.size(), canonical({"kind": kind, "run_id": run_id, "schema": "clvlab-log/1", "ts_ms": 1} | content)
    rows.add(index, kind, run_id, "o", None, content.get("commit_index"), entry, tree_grown(rows, index, entry))


def test_log_of_both_schemas_is_audited_and_its_older_runs_count_over_no_known_pack(tmp_path):
    """As a database is that an older version wrote and this one goes on with."""
    path = str(tmp_path / "mixed.db")
    database = Database(f"sqlite:///{path}")
    log = RunLog(database)
    with log.write() as rows:
        add_older(rows, "COMMIT", run_of(1), inputs_hash=hashed(1), owner="o")
        add_older(rows, "COMMIT", run_of(2), inputs_hash=hashed(2), owner="o")
        add_older(rows, "ABANDONED", run_of(2), cause="failed", commit_index=1)
        add_older(rows, "RESULT", run_of(1), commit_index=0, manifest_hash=hashed(9))
        assert recommit(rows, run_of(2), 5) == 4  # as silent as the entry that it repeats
        conclude(rows, run_of(2), hashed(8), PACK, 6)
        index = commit(rows, run_of(3), "o", hashed(3), PACK, 7)
        conclude(rows, run_of(3), hashed(7), PACK, 8)
        assert claim(rows, index, rows.size()) == Claim(0, 0, 0, 3)
        assert claim(rows, 0, rows.size()) is None
    assert (log_proofs(log, run_of(1), LOG_KEY)["schema"], log_proofs(log, run_of(3), LOG_KEY)["schema"]) == (
        "clvlab-bundle-log/1",
        "clvlab-bundle-log/2",
    )
    database.close()

    done = audit(path)

    assert done.sound
    assert [(one["content_hash"], one["committed"], one["sealed"]) for one in done.facts()["counts"]] == [
        (None, 3, 2),
        (PACK, 1, 1),
    ]


# Services. Each answer may be replaced by a function of what an honest service would answer.


@contextmanager
def served(answers, headers=()):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def do_GET(self):
            status, body = answers(self.path)
            if callable(body):
                body(self.wfile)
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if status == 302:
                self.send_header("Location", "/elsewhere")
            for name, value in dict(headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_):
            """Ignore clients that went away."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def public():
    database = Database()
    grown(RunLog(database), 900)
    return PublicLog(database, LOG_KEY)


def honest(public):
    state, note = public.state(), public.checkpoint()

    def answers(path):
        if path == "/log":
            return 200, json.dumps(state).encode()
        if path == "/log/checkpoint":
            return 200, note.encode()
        since, limit = (int(part.partition("=")[2]) for part in path.partition("?")[2].split("&"))
        return 200, json.dumps(public.entries(since, limit)).encode()

    return answers


def changed(public, which, change):
    answers = honest(public)

    def given(path):
        status, body = answers(path)
        return change(status, body) if path.partition("?")[0] == which else (status, body)

    return given


def test_service_is_audited_page_by_page(public):
    with served(honest(public)) as url:
        done = audit(url, trust=TRUST)

    assert (done.sound, done.size, done.origin, done.checkpoints) == (True, 1500, "log.example", 0), rules(done)


def test_log_that_grows_while_it_is_read_is_sound():
    database = Database()
    log = PublicLog(database, LOG_KEY)
    grown(RunLog(database), 5)
    before, state = honest(log), log.state()
    grown(RunLog(database), 5, start=50)
    later = honest(log)

    with served(lambda path: before(path) if path == "/log" else later(path)) as url:
        done = audit(url, trust=TRUST)

    assert (done.sound, state["size"] < done.size) == (True, True), rules(done)


def test_service_without_a_key_is_audited_without_a_checkpoint(public):
    with served(changed(public, "/log/checkpoint", lambda *_: (404, b"{}"))) as url:
        assert audit(url).sound
        assert rules(audit(url, trust=TRUST)) == ["no checkpoint of the log is signed by a key that you trust"]


def edited(**change):
    return lambda status, body: (status, json.dumps(json.loads(body) | change).encode())


def of_entries(change):
    return lambda status, body: (status, json.dumps({"entries": change(json.loads(body)["entries"])}).encode())


def resealed(size=None, key=LOG_KEY):
    def change(status, body):
        name, old, root = body.decode().split("\n")[:3]
        text = f"{name}\n{size or old}\n{root}\n"
        return status, write_note(text, key.line(text)).encode()

    return change


@pytest.mark.parametrize(
    ("which", "change", "rule"),
    [
        ("/log", edited(size=1499), "the state of the log at 1499 entries has the root"),
        ("/log", edited(size=1501), "speaks of 1501 entries|is missing"),
        ("/log", edited(root_hash="sha256:" + "0" * 64), "the state of the log at 1500 entries"),
        ("/log", edited(owners=[]), "the log's keeper counts 0 committed"),
        ("/log", edited(origin="other.example"), "is of the log 'log.example', not of 'other.example'"),
        ("/log/checkpoint", resealed(1400), "has 1400 entries, its state had 1500|at 1400 entries has the root"),
        ("/log/checkpoint", resealed(5000), "of 1000 entries from 1000 on the log gives 500: entry 1500 of 5000 is missing"),
        ("/log/checkpoint", resealed(key=Signer("log.example", 1, bytes(32))), "is not signed by that log"),
        ("/log/checkpoint", lambda *_: (200, b"no note"), "does not count: no signed note"),
        ("/log/entries", of_entries(lambda entries: entries[:-1]), "is missing"),
        ("/log/entries", of_entries(lambda _: []), "entry 0 of 1500 is missing"),
        ("/log/entries", of_entries(lambda entries: [*entries, entries[-1]]), "there are too many"),
        ("/log/entries", of_entries(lambda entries: [entries[0], *entries[:-1]]), "where entry 1 of 1500 must be"),
        ("/log/entries", of_entries(lambda entries: entries[::-1]), "where entry 0 of 1500 must be"),
        ("/log/entries", of_entries(lambda entries: [one | {"index": 1.0 * one["index"]} for one in entries]), "must be"),
        ("/log/entries", of_entries(lambda entries: [one | {"entry": "{}"} for one in entries]), "is not well-formed"),
        ("/log/entries", of_entries(
            lambda entries: [one | {"entry": one["entry"].replace("did:x:1", "did:x:2")} for one in entries]), "has the root"),
    ],
)  # fmt: skip
def test_service_that_contradicts_itself_breaks_a_rule(public, which, change, rule):
    with served(changed(public, which, change)) as url:
        done = audit(url, trust=TRUST)

    assert not done.sound
    assert any(part in " ".join(rules(done)) for part in rule.split("|")), rules(done)


def drip(wfile):
    wfile.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(1000):
        wfile.write(b"X")
        wfile.flush()
        time.sleep(0.05)


def drip_body(wfile):
    wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    for _ in range(1000):
        wfile.write(b" ")
        wfile.flush()
        time.sleep(0.05)


def endless(wfile):
    wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        wfile.write(b" " * 2**20)


@few(10)
@pytest.mark.parametrize("which", ["/log", "/log/checkpoint", "/log/entries"])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((200, b"garbage"), "not JSON|no signed note"),
        ((200, b"[]"), "is not the state|not a page|no signed note"),
        ((200, b"null"), "is not the state|not a page|no signed note"),
        ((200, b'{"entries": [1], "size": "1"}'), "is not the state|not a page|no signed note"),
        ((200, b"\xff"), "not JSON|is not the state"),
        ((200, b"[" * 100_000), "not JSON|no signed note"),
        ((500, b"{}"), "answers 500, not 200"),
        ((302, b""), "answers 302, not 200"),
        ((200, drip), "gives no answer: TimeoutError not within 0.4 s"),
        ((200, drip_body), "gives no answer: TimeoutError not within 0.4 s"),
        ((200, lambda _: time.sleep(2)), "gives no answer: TimeoutError"),
        ((200, lambda wfile: wfile.write(b"220 mail.example\r\n")), "gives no answer"),
        ((200, endless), "sends more than 16,777,216 bytes|gives no answer: TimeoutError"),
    ],
)  # fmt: skip
def test_service_that_answers_anything_ends_in_one_clear_line(public, which, answer, message):
    with served(changed(public, which, lambda *_: answer)) as url:
        try:
            said = " ".join(rules(audit(url, limits=SourceLimits(request_s=0.4 if callable(answer[1]) else 20))))
        except LogError as error:
            said = str(error)

    assert any(part in said for part in message.split("|")), said
    assert len(said.splitlines()) == 1


def test_log_without_end_is_not_read(public):
    with served(changed(public, "/log", edited(size=2**53 - 1))) as url, pytest.raises(LogError, match="than the 10,000,000"):
        audit(url)
    with served(honest(public)) as url, pytest.raises(LogError, match="not read whole within 0 s"):
        audit(url, limits=SourceLimits(total_s=0))


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://", "http://[::1", "http://127.0.0.1:99999", "http://a b/"])
def test_place_that_is_no_service_is_said_so(url):
    with pytest.raises(LogError, match="gives no answer"):
        audit(url)
