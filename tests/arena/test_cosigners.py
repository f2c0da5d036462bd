"""Witnesses that are asked over HTTP, ours behind its own server and others that answer badly."""

import threading
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest

from clvlab.arena.log.operations import signed_checkpoint, witness_request
from clvlab.arena.log.public import PublicLog
from clvlab.arena.log.witness_server import serve_witness
from clvlab.arena.log.witnesses import SIZE_TYPE, Cosigners, CosignerWatch, WitnessOutcome, cosigners_at
from clvlab.errors import LogError
from clvlab.log.log import abandon, commit, conclude
from clvlab.log.note import Keys, Signer, trusted_checkpoint, write_signer
from clvlab.log.policy import Policy
from clvlab.log.publication import Publication
from clvlab.store.database import Database
from clvlab.store.runlog import RunLog
from tests.arena.test_auditing import served
from tests.logs import hashed, run_of
from tests.proof.bundles import LOG_KEY, WITNESS_KEY

KEYS = Keys.read([str(LOG_KEY.verifier)], [str(WITNESS_KEY.verifier)])
NAME = WITNESS_KEY.name


def grown(log, size, name=""):
    with log.write() as rows:
        for number in range(rows.size(), size):
            commit(rows, run_of(f"{name}{number}"), "did:x:me", hashed(f"{name}{number}"), None, number)
    return log


@contextmanager
def witness_at(folder, place="127.0.0.1:0"):
    key = folder / "witness.key"
    if not key.exists():
        write_signer(WITNESS_KEY, key)
    with serve_witness(place, key, [str(LOG_KEY.verifier)], folder / "seen.json") as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.url
        server.shutdown()


def policy(url, quorum="w"):
    return Policy.read(f"witness w {WITNESS_KEY.verifier} {url}\nquorum {quorum}\n")


def ask(url, log, signer=LOG_KEY, cosigners=None):
    cosigners = cosigners or Cosigners(policy(url))
    note = cosigners.cosigned(log, signed_checkpoint(log, signer))
    return note, cosigners.replies[0]


def post(url, body, path="/add-checkpoint", **headers):
    connection = HTTPConnection(url.removeprefix("http://"), timeout=10)
    connection.request("POST", path, body.encode() if isinstance(body, str) else body, headers)
    answer = connection.getresponse()
    found = answer.status, answer.getheader("Content-Type"), answer.read().decode()
    connection.close()
    return found


def test_growing_log_is_cosigned_by_who_knows_the_size_and_who_does_not(tmp_path):
    log = grown(RunLog(Database()), 3)
    with witness_at(tmp_path) as url:
        cosigners = Cosigners(policy(url))
        notes = [ask(url, log, cosigners=cosigners)[0], ask(url, grown(log, 300), cosigners=cosigners)[0], ask(url, log)[0]]
    with witness_at(tmp_path) as url:
        notes.append(ask(url, grown(log, 301))[0])

    assert [trusted_checkpoint(note, KEYS)[0].size for note in notes] == [3, 300, 300, 301]
    assert {trusted_checkpoint(note, KEYS)[1] for note in notes} == {(NAME,)}


def test_statuses_are_those_of_the_protocol(tmp_path):
    log, fork = grown(RunLog(Database()), 8), grown(RunLog(Database()), 8, "other")
    note, of_fork = signed_checkpoint(log, LOG_KEY), signed_checkpoint(fork, LOG_KEY)
    stranger = Signer("other.example", 1, bytes(range(3, 35)))
    impostor = Signer("log.example", 1, bytes(range(3, 35)))
    with witness_at(tmp_path) as url:
        first = post(url, witness_request(log, note, 0))
        behind = post(url, witness_request(log, note, 3))
        again = post(url, witness_request(log, note, 8))
        two_roots = post(url, witness_request(fork, of_fork, 8))
        longer = post(url, witness_request(grown(fork, 12), signed_checkpoint(fork, LOG_KEY), 8))
        unknown = post(url, witness_request(log, signed_checkpoint(log, stranger), 8))
        unsigned = post(url, witness_request(log, signed_checkpoint(log, impostor), 8))
        shrunk = post(url, witness_request(log, note, 8).replace("old 8", "old 9"))
        nothing = post(url, "old 8")
        binary = post(url, b"\xff\xfe")
        elsewhere = post(url, "x", path="/other")
        large = post(url, b"x" * (1 << 19))
        chunked = post(url, "", **{"Content-Length": "x"})

    assert (first[0], again[0]) == (200, 200)
    assert first[2].startswith(f"\u2014 {NAME} ")
    assert behind == (409, SIZE_TYPE, "8\n")
    assert (two_roots[0], longer[0]) == (409, 422)
    assert two_roots[1] != SIZE_TYPE
    assert "forked" in two_roots[2]
    assert str(tmp_path) not in two_roots[2] + longer[2]
    assert [found[0] for found in (unknown, unsigned, shrunk, nothing, binary, elsewhere, large, chunked)] == [
        404, 403, 400, 400, 400, 404, 413, 411,
    ]  # fmt: skip
    assert len(list(tmp_path.glob("seen.json.fork-*"))) == 2


def test_state_that_cannot_be_read_is_no_signature_and_names_no_file(tmp_path):
    log = grown(RunLog(Database()), 3)
    (tmp_path / "seen.json").write_text("{}")
    with witness_at(tmp_path) as url:
        status, _, text = post(url, witness_request(log, signed_checkpoint(log, LOG_KEY), 0))

    assert (status, text) == (500, "the state of the witness can't be used\n")


def test_fork_and_shrunk_log_are_shown(tmp_path):
    log = grown(RunLog(Database()), 8)
    with witness_at(tmp_path) as url:
        ask(url, log)
        fork_note, fork = ask(url, grown(RunLog(Database()), 8, "other"))
        _, later_fork = ask(url, grown(RunLog(Database()), 12, "other"))
        _, ahead = ask(url, grown(RunLog(Database()), 5))

    assert trusted_checkpoint(fork_note, KEYS)[1] == ()
    assert (fork.outcome, later_fork.outcome, ahead.outcome) == (
        WitnessOutcome.FORK, WitnessOutcome.FORK, WitnessOutcome.AHEAD,
    )  # fmt: skip
    assert ahead.detail == "it has seen 8 entries, this checkpoint has 5"


@pytest.mark.parametrize(
    ("status", "body", "outcome", "detail"),
    [
        (403, b"go away", WitnessOutcome.REFUSED, "it answers 403: 'go away'"),
        (500, b"", WitnessOutcome.REFUSED, "it answers 500"),
        (422, b"fork", WitnessOutcome.FORK, "it answers 422"),
        (409, b"3\n", WitnessOutcome.FORK, "it answers 409"),  # without the type that says that it is a size
        (200, b"", WitnessOutcome.REFUSED, "no cosignature by its key"),
        (200, b"\xe2\x80\x94 witness.example AAAAAAAA\n", WitnessOutcome.REFUSED, "did not sign"),
        (200, b"\xff", WitnessOutcome.REFUSED, "no cosignature by its key"),
    ],
)
def test_other_answers_are_shown_and_add_nothing_to_the_checkpoint(status, body, outcome, detail):
    log = grown(RunLog(Database()), 3)
    with served(lambda _: (status, body)) as url:
        note, reply = ask(url, log)

    assert reply.outcome == outcome
    assert detail in reply.detail
    assert note == signed_checkpoint(log, LOG_KEY)


def test_cosignature_of_another_checkpoint_is_not_taken():
    log = grown(RunLog(Database()), 3)
    line = WITNESS_KEY.line("another text\n", 5).encode()
    with served(lambda _: (200, line)) as url:
        note, reply = ask(url, log)

    assert "does not hold" in reply.detail
    assert note == signed_checkpoint(log, LOG_KEY)


def test_witness_that_names_another_size_each_time_is_not_asked_for_ever():
    log, asked = grown(RunLog(Database()), 9), []

    def answers(path):
        asked.append(path)
        return 409, f"{len(asked)}\n".encode()

    with served(answers, headers={"Content-Type": SIZE_TYPE}) as url:
        _, reply = ask(url, log)

    assert (reply.outcome, len(asked)) == (WitnessOutcome.REFUSED, 4)


def test_witness_that_is_away_is_shown_and_the_others_sign(tmp_path):
    log = grown(RunLog(Database()), 3)
    away = Signer("away.example", 4, bytes(range(7, 39)))
    with witness_at(tmp_path) as url:
        text = (
            f"witness a {away.verifier} http://127.0.0.1:9\nwitness w {WITNESS_KEY.verifier} {url}\ngroup g any a w\nquorum g\n"
        )
        cosigners = Cosigners(Policy.read(text))
        note = cosigners.cosigned(log, signed_checkpoint(log, LOG_KEY))

    assert [reply.outcome for reply in cosigners.replies] == [WitnessOutcome.AWAY, WitnessOutcome.COSIGNED]
    assert "no answer" in cosigners.replies[0].detail
    assert trusted_checkpoint(note, KEYS)[1] == (NAME,)


def test_regular_requests_publish_the_cosigned_checkpoint_and_say_who_is_away(tmp_path, caplog):
    database = Database()
    log = grown(RunLog(database), 3)
    with log.write() as rows:
        conclude(rows, run_of("0"), hashed("result"), None, 9)
        abandon(rows, run_of("1"), "failed", 9)
    published = Publication(tmp_path / "newest", LOG_KEY.verifier)
    with witness_at(tmp_path) as url:
        cosigners = Cosigners(policy(url))
        watch = CosignerWatch(log, LOG_KEY, published, cosigners, every_s=60)
        watch.ask()
        public = PublicLog(database, LOG_KEY, published, cosigners)
        proofs = public.proofs(run_of("0"))
        grown(log, 9)
        stale = public.proofs(run_of("0"))
        watch.ask()
        watch.ask()  # nothing is new, so nobody is asked
    grown(log, 12)
    with caplog.at_level("WARNING", logger="clvlab.log"):
        watch.ask()

    assert trusted_checkpoint(proofs["checkpoint"], KEYS)[1] == (NAME,)
    assert trusted_checkpoint(stale["checkpoint"], KEYS) == trusted_checkpoint(proofs["checkpoint"], KEYS)
    assert "the witness witness.example did not cosign: away: no answer" in caplog.text
    assert [one["outcome"] for one in public.state()["witnesses"]] == ["away"]
    assert trusted_checkpoint(public.tiles_checkpoint(), KEYS)[0].size == 12


def test_policy_without_a_witness_to_ask_is_refused(tmp_path):
    (tmp_path / "policy").write_text(f"witness w {WITNESS_KEY.verifier}\nquorum w\n")

    with pytest.raises(LogError, match="names no witness with a URL"):
        cosigners_at(tmp_path / "policy")
    with pytest.raises(LogError, match="no policy can be read from"):
        cosigners_at(tmp_path / "nothing")


@pytest.mark.parametrize("place", ["8100", "host:", "127.0.0.1:99999", "127.0.0.1:x"])
def test_address_that_is_none_is_refused(tmp_path, place):
    with pytest.raises(LogError, match="an address to serve at is host:port"), witness_at(tmp_path, place):
        pass
