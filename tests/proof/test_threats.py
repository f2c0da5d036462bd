"""Forgeries by somebody who knows the format: what each verifier says of them, by every key and with none."""

import json
from base64 import b64encode
from dataclasses import replace

import pytest
from solders.keypair import Keypair
from solders.transaction import VersionedTransaction

from clvlab.arena.runs.bundles import verify_bundle
from clvlab.engine.run import run
from clvlab.errors import BundleError
from clvlab.law.closing import Window
from clvlab.law.clv import scores
from clvlab.law.positions import positions
from clvlab.log.bundles import Trust
from clvlab.log.note import Signer, Verifier, write_note
from clvlab.proof import clv_verify, events
from clvlab.proof import verify as verifier
from clvlab.proof.bundle import bundle, read_bundle, run_of
from clvlab.proof.canonical import canonical, parsed, sha256
from clvlab.proof.events import score_lines
from clvlab.proof.evidence import read_evidence
from clvlab.proof.manifest import manifest
from clvlab.proof.merkle import root_of_lines
from clvlab.proof.seal import SealedRun
from clvlab.sql import second_opinion
from clvlab.store.folder import write_run
from tests.factories import make_agent, make_decisions, make_mixed_run, make_tape, message
from tests.proof.bundles import LOG_KEY, WITNESS_KEY, anchor_part, log_part, logged, make_bundle, receipts, trust
from tests.proof.test_bundle import TRUST, WHOLE, by_package, check, failed, log_of, packed, with_log

__all__ = ["check"]

REQUIRED = ("anchor", "log")


def resealed(run, events):
    """What an operator can make of altered events: scores, roots and manifest that follow from them."""
    evidence = read_evidence(events)
    rows = score_lines(scores(positions(*evidence.events.lines), evidence.window, evidence.max_close_age_s))
    bound = manifest(
        evidence.started,
        evidence_hash=sha256(events),
        evidence_root=root_of_lines(events),
        event_count=evidence.count,
        score_root=root_of_lines(rows),
        commit_index=run.commit_index,
    )
    return SealedRun(run.run_id, events, rows, canonical(bound))


@pytest.mark.parametrize("lines", [1, 8192])
@pytest.mark.parametrize(
    "altered", [lambda rows: rows.replace(b'"seq":1,', b'"seq":2,', 1), lambda rows: rows + b"{}\n", lambda rows: rows[:0]]
)
def test_scores_of_a_large_run_are_compared_byte_by_byte(monkeypatch, altered, lines):
    monkeypatch.setattr(verifier, "_SMALL_BYTES", 0)
    monkeypatch.setattr(events, "_BATCH_ROWS", lines)
    run = make_mixed_run().sealed
    forged = replace(run, scores=altered(run.scores))
    assert forged.scores != run.scores

    assert verifier.verify(run).passed
    assert verifier.verify(forged).checks["metrics_recomputed"].verdict == "fail"


def without_decision(events, seq):
    """Drop one decision, and number and count the others again."""
    lines = [json.loads(line) for at, line in enumerate(events.splitlines()) if at != seq]
    lines[-1]["payload"]["decisions"] -= 1
    return b"".join(canonical(line | {"seq": at}) + b"\n" for at, line in enumerate(lines))


FORGERIES = {
    "close made better": lambda events: (
        events[: events.index(b"MARKET_CLOSE")]
        + events[events.index(b"MARKET_CLOSE") :].replace(b'"prob_bps":4500', b'"prob_bps":9500', 1)
    ),
    "last decision dropped": lambda events: without_decision(events, 7),
    "claims rewritten": lambda events: events.replace(b"rises", b"falls"),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES.keys())
def test_full_consistent_forgery_fails_with_anchor_or_log_and_passes_without(check, change):
    run, log, before = logged()
    forged = resealed(run, change(run.events))
    assert forged.events != run.events
    proofs = {"anchor": anchor_part(run.manifest_hash), "log": log_part(run, log, before)}

    assert failed(check(bundle(forged, receipts(), **proofs))) == {"anchor", "log"}
    assert failed(check(bundle(forged), required=REQUIRED)) == {"anchor", "log"}
    assert failed(check(bundle(forged), required=())) == set()  # which is what a seal does not prove
    assert second_opinion(forged.events, forged.scores).agrees


def test_memo_of_the_forged_run_by_another_key_does_not_count(check):
    run, log, before = logged()
    forged = resealed(run, FORGERIES["close made better"](run.events))
    own = {"anchor": anchor_part(forged.manifest_hash, Keypair()), "log": log_part(run, log, before)}

    assert failed(check(bundle(forged, **own))) == {"anchor", "log"}


TRANSACTION = VersionedTransaction.from_bytes(clv_verify.decoded(anchor_part("sha256:0")["transaction"]))


def altered_anchor(change):
    part = anchor_part(run_of(read_bundle(WHOLE)).manifest_hash)
    raw = bytearray(clv_verify.decoded(part["transaction"]))
    change(raw)
    return part | {"transaction": b64encode(bytes(raw)).decode()}


def long_length(raw):
    """Write the number of signatures in two bytes where one does."""
    raw[0:1] = b"\x81\x00"


def no_signature(raw):
    raw[0:65] = b"\x00"


def scalar_plus_order(raw):
    scalar = int.from_bytes(raw[33:65], "little") + clv_verify.ORDER
    raw[33:65] = scalar.to_bytes(32, "little")


def named_table(raw):
    raw[-1:] = b"\x01" + bytes(32) + b"\x00\x00"


def other_program(raw):
    known = bytes(TRANSACTION.message.account_keys[-1])
    at = bytes(raw).index(known)
    raw[at] ^= 1


@pytest.mark.parametrize("change", [long_length, no_signature, scalar_plus_order, named_table, other_program, bytearray.clear])
def test_transaction_in_another_form_fails(check, change):
    part = altered_anchor(change)
    if change is scalar_plus_order:
        part["signature"] = clv_verify.base58(clv_verify.decoded(part["transaction"])[1:65])

    assert failed(check(make_bundle(anchor=part))) == {"anchor"}


@pytest.mark.parametrize(
    "part",
    [
        [1],
        {},
        "anchor",
        None,
        anchor_part("x") | {"more": 1},
        anchor_part("x") | {"cluster": 1},
        anchor_part("x") | {"schema": "x"},
        b"",
        b'{"schema": 1}',
        b"\xff",
    ],
)
def test_bundle_whose_anchor_is_no_record_is_refused_whoever_is_trusted(check, tmp_path, part):
    content = packed(read_bundle(WHOLE) | {"anchor.json": part if isinstance(part, bytes) else canonical(part)})
    (tmp_path / "run.clv").write_bytes(content)

    for trusted in (TRUST, clv_verify.NO_TRUST):
        assert failed(check(content, trusted, ())) == {"bundle"}
    with pytest.raises(BundleError, match=r"anchor\.json"):
        verify_bundle(tmp_path / "run.clv")


def noted(text, *signers):
    return write_note(text, *(signer.line(text, 1) for signer in signers))


def test_checkpoint_under_the_name_of_another_log_fails(check):
    text = log_of()["checkpoint"].rpartition("\n\n")[0].replace("log.example", "log.other") + "\n"

    proofs = {"checkpoint": noted(text, LOG_KEY, WITNESS_KEY), "earlier": None}

    assert failed(check(with_log(**proofs), trust(checkpoint=None))) == {"log"}


def test_witness_does_not_count_as_a_log_nor_twice_as_a_witness(check):
    text = log_of()["checkpoint"].rpartition("\n\n")[0] + "\n"
    witnessed = with_log(checkpoint=noted(text, WITNESS_KEY), earlier=None)
    twice = with_log(checkpoint=noted(text, LOG_KEY, WITNESS_KEY, WITNESS_KEY), earlier=None)
    key = str(WITNESS_KEY.verifier)

    assert failed(check(witnessed, trust(checkpoint=None, logs=[key, str(LOG_KEY.verifier)], witnesses=[]))) == {"log"}
    assert failed(check(twice, trust(checkpoint=None, witnesses=[key, key], witness_quorum=2))) == {"log"}
    assert failed(check(twice, trust(checkpoint=None))) == set()


def checkpoint_text(origin="log.example"):
    return log_of()["checkpoint"].rpartition("\n\n")[0].replace("log.example", origin) + "\n"


def signed_with(*signers, origin="log.example", more=""):
    return with_log(checkpoint=noted(checkpoint_text(origin), *signers) + more, earlier=None)


LOG_TEXT, WITNESS_TEXT = str(LOG_KEY.verifier), str(WITNESS_KEY.verifier)
LOG_AS_WITNESS = Signer("log.example", 4, LOG_KEY.seed)
WITNESS_AS_LOG = Signer("log.example", 1, WITNESS_KEY.seed)
SECOND = Signer("log.example", 1, bytes(range(3, 35)))
SECOND_OF_WITNESS = Signer("witness.example", 4, bytes(range(4, 36)))
OTHER_NAME = Signer("another.example", 4, WITNESS_KEY.seed)
OTHER = Signer("other.example", 4, bytes(range(5, 37)))
PLAIN = signed_with(LOG_KEY, WITNESS_KEY)
ML_DSA = f"\u2014 pq.example {b64encode(bytes(4) + bytes([6]) * 2420).decode()}\n"
BY_KEY_ID = signed_with(LOG_KEY, WITNESS_KEY, origin=f"log.example+{LOG_KEY.verifier.key_id.hex()}")


@pytest.mark.parametrize(
    ("content", "changed", "wrong"),
    [
        (PLAIN, {}, False),
        # A log's name is the whole name, not the beginning of one, nor a name and a key id.
        (BY_KEY_ID, {}, True),
        (signed_with(LOG_KEY, WITNESS_KEY, origin="log.exampl"), {}, True),
        (signed_with(LOG_KEY, WITNESS_KEY, origin="log.example.org"), {}, True),
        (signed_with(LOG_KEY, WITNESS_KEY, origin="log.example+"), {}, True),
        (signed_with(LOG_KEY, WITNESS_KEY, origin="LOG.EXAMPLE"), {}, True),
        (signed_with(Signer("log.example.org", 1, LOG_KEY.seed), WITNESS_KEY, origin="log.example"), {}, True),
        # Another key of the same name: either signs, and a witness with two keys is one witness.
        (PLAIN, {"logs": [LOG_TEXT, str(SECOND.verifier)]}, False),
        (signed_with(SECOND, WITNESS_KEY), {"logs": [LOG_TEXT, str(SECOND.verifier)]}, False),
        (signed_with(SECOND, WITNESS_KEY), {}, True),
        (signed_with(LOG_KEY, WITNESS_KEY, SECOND_OF_WITNESS), {
            "witnesses": [WITNESS_TEXT, str(SECOND_OF_WITNESS.verifier)], "witness_quorum": 2}, True),
        (signed_with(LOG_KEY, WITNESS_KEY, OTHER), {
            "witnesses": [WITNESS_TEXT, str(OTHER.verifier)], "witness_quorum": 2}, False),
        # The same text twice is one key; spaces around one are none of it.
        (PLAIN, {"logs": [LOG_TEXT, LOG_TEXT], "witnesses": [WITNESS_TEXT, WITNESS_TEXT]}, False),
        (PLAIN, {"witnesses": [WITNESS_TEXT, WITNESS_TEXT], "witness_quorum": 2}, True),
        *((PLAIN, {"logs": [changed]}, True) for changed in (
            f" {LOG_TEXT}", f"{LOG_TEXT} ", f"{LOG_TEXT}\n", f"\t{LOG_TEXT}", f"\u00a0{LOG_TEXT}", f"{LOG_TEXT}\u2028")),
        (PLAIN, {"witnesses": [f"{WITNESS_TEXT}\n"]}, True),
        (PLAIN, {"logs": [LOG_TEXT, ""]}, True),
        (PLAIN, {"logs": [LOG_TEXT, LOG_TEXT.upper()]}, True),
        # A key is for one purpose: type 1 for a log, type 4 for a witness.
        (signed_with(LOG_AS_WITNESS, WITNESS_KEY), {"logs": [str(LOG_AS_WITNESS.verifier)]}, True),
        (signed_with(LOG_AS_WITNESS, WITNESS_KEY), {"logs": [LOG_TEXT]}, True),
        (PLAIN, {"logs": [LOG_TEXT, WITNESS_TEXT]}, True),
        (PLAIN, {"witnesses": [LOG_TEXT], "witness_quorum": 1}, True),
        (PLAIN, {"witnesses": [LOG_TEXT, WITNESS_TEXT]}, True),
        (signed_with(LOG_KEY, LOG_AS_WITNESS), {"witnesses": [str(LOG_AS_WITNESS.verifier)]}, True),
        (signed_with(WITNESS_AS_LOG, WITNESS_KEY), {"logs": [str(WITNESS_AS_LOG.verifier)]}, True),
        (signed_with(LOG_KEY, WITNESS_KEY, OTHER_NAME), {
            "witnesses": [WITNESS_TEXT, str(OTHER_NAME.verifier)], "witness_quorum": 2}, True),
        # Signatures of other types, and by nobody in particular, are skipped.
        (signed_with(LOG_KEY, WITNESS_KEY, more=ML_DSA), {}, False),
        (signed_with(LOG_KEY, WITNESS_KEY, more=ML_DSA.replace("pq.example", "log.example")), {}, False),
        (signed_with(LOG_KEY, WITNESS_KEY, more=ML_DSA.replace("pq.example", "a+b")), {}, True),
        (signed_with(LOG_KEY, WITNESS_KEY, more="\u2014 short AAAA\n"), {}, True),
        (signed_with(LOG_KEY, WITNESS_KEY, more="\u2014 two words AAAAAAAA\n"), {}, True),
        (PLAIN, {"logs": [LOG_TEXT, f"pq.example+00000000+{b64encode(bytes([6]) * 1313).decode()}"]}, True),
        # A trusted key of a name that no key can have.
        *((PLAIN, {"logs": [LOG_TEXT, str(Verifier(name, 1, SECOND.verifier.public))]}, True)
          for name in ("", "a+b", "a b", "a\u00a0b", "a\x00b", "a\u202eb")),
    ],
)  # fmt: skip
def test_both_verifiers_count_the_same_keys(check, content, changed, wrong):
    found = failed(check(content, trust(checkpoint=None, witness_quorum=1) | changed))

    assert found == ({"log"} if wrong else set())


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (signed_with(LOG_KEY, WITNESS_KEY, more=98 * ML_DSA), False),
        (signed_with(LOG_KEY, WITNESS_KEY, more=99 * ML_DSA), True),
        (signed_with(LOG_KEY, WITNESS_KEY, more=ML_DSA.replace("pq", "p\u2003q")), True),
        (signed_with(LOG_KEY, WITNESS_KEY, more=ML_DSA.replace("pq", "p\x1bq")), True),
        (signed_with(LOG_KEY, more=WITNESS_KEY.line(checkpoint_text(), 2**63 - 1)), False),
        (signed_with(LOG_KEY, more=WITNESS_KEY.line(checkpoint_text(), 2**63)), True),
    ],
    ids=["100 signatures", "101 signatures", "space", "escape", "last time", "time beyond"],
)  # fmt: skip
def test_both_verifiers_read_the_same_notes(check, content, wrong):
    assert failed(check(content, trust(checkpoint=None, witness_quorum=1))) == ({"log"} if wrong else set())


def test_size_of_a_checkpoint_beyond_the_integers_is_refused_by_both(check):
    text = checkpoint_text().replace("\n8\n", "\n9007199254740993\n")

    assert failed(check(with_log(checkpoint=noted(text, LOG_KEY, WITNESS_KEY), earlier=None), trust(checkpoint=None))) == {
        "log"
    }


@pytest.mark.parametrize("y", [2**255 - 19 + 3, 2**255 - 1, 1, 0], ids=hex)
def test_key_off_the_curve_fails_whether_it_signed_or_not(check, y):
    strange = str(Verifier("strange.example", 1, y.to_bytes(32, "little")))

    assert failed(check(WHOLE, trust(logs=[LOG_TEXT, strange]))) == {"log"}


SMALL = [0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18] + [
    int.from_bytes(bytes.fromhex(y), "little")
    for y in (
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    )
]


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("y", SMALL, ids=hex)
def test_key_for_which_anybody_can_sign_does_not_count(check, y, sign):
    public = (y | sign << 255).to_bytes(32, "little")
    weak = Verifier("log.example", 1, public)
    text = log_of()["checkpoint"].rpartition("\n\n")[0] + "\n"
    # R the identity and S 0 hold wherever the digest is a multiple of the key's order, whatever the text.
    signature = b64encode(weak.key_id + b"\1" + bytes(63)).decode()
    forged = f"\u2014 log.example {signature}\n"

    trusting = trust(logs=[str(weak)], checkpoint=None, witness_quorum=0)

    assert failed(check(with_log(checkpoint=f"{text}\n{forged}", earlier=None), trusting)) == {"log"}
    with pytest.raises(clv_verify.BrokenError):
        clv_verify.check_signature(public, b"", b"\1" + bytes(63), "anybody")


@pytest.mark.parametrize(
    "key",
    [
        str(LOG_KEY.verifier).replace("+", "+00000000+", 1).replace("+" + LOG_KEY.verifier.key_id.hex(), "", 1),
        str(LOG_KEY.verifier).replace("log.example", "log.other"),
        str(LOG_KEY.verifier) + "A",
        "log.example",
        "log.example++",
        "",
    ],
)
def test_key_that_is_not_what_it_says_fails(check, key):
    assert failed(check(WHOLE, trust(logs=[key]))) == {"log"}


def entry_of(name, **changed):
    return canonical(json.loads(log_of()[name]["entry"]) | changed).decode()


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("commit", {"kind": "ABANDONED"}),
        ("commit", {"run_id": "run_other"}),
        ("commit", {"inputs_hash": "sha256:0"}),
        ("commit", {"content_hash": "sha256:0"}),
        ("commit", {"content_hash": None}),
        ("commit", {"content_hash": 1}),
        ("commit", {"schema": "clvlab-log/1"}),  # whose commitments name no pack
        ("commit", {"schema": "clvlab-log/3"}),
        ("outcome", {"schema": "clvlab-log/3"}),
        ("commit", {"sources_hash": "sha256:0"}),
        ("commit", {"sources_hash": None}),
        ("commit", {"schema": "clvlab-log/2"}),  # whose commitments name no sources
        ("outcome", {"content_hash": "sha256:0"}),
        ("outcome", {"content_hash": None}),
        ("outcome", {"schema": "clvlab-log/2"}),  # whose results name no pack
        ("commit", {"note": "more"}),
        ("outcome", {"kind": "COMMIT"}),
        ("outcome", {"commit_index": True}),
        ("outcome", {"manifest_hash": "sha256:0"}),
        ("outcome", {"cause": "more"}),
    ],
)
def test_log_of_one_owner_that_says_something_else_fails(check, name, changed):
    """A log whose key is trusted, and whose tree holds an entry that is not the run's."""
    proofs = log_of()
    entry = entry_of(name, **changed)
    other = "outcome" if name == "commit" else "commit"
    entries = {name: entry, other: proofs[other]["entry"]}
    leaves = [clv_verify.leaf(entries[part].encode()) for part in ("commit", "outcome")]
    filler = clv_verify.leaf(b"{}")
    root = clv_verify.node(clv_verify.node(filler, leaves[0]), clv_verify.node(filler, leaves[1]))
    text = f"log.example\n4\n{b64encode(root).decode()}\n"
    pairs = {
        "commit": (1, [filler, clv_verify.node(filler, leaves[1])]),
        "outcome": (3, [filler, clv_verify.node(filler, leaves[0])]),
    }

    def part(which, entry):
        index, path = pairs[which]
        return {"entry": entry, "index": index, "proof": [value.hex() for value in path]}

    def made(given):
        both = {which: part(which, given[which]) for which in ("commit", "outcome")}
        return with_log(checkpoint=noted(text, LOG_KEY, WITNESS_KEY), earlier=None, **both)

    assert failed(check(made(entries), trust(checkpoint=None))) == {"log"}


HEADER = json.loads(WHOLE.partition(b"\n")[0])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"size":', b'"size":0'),
        (b'"size":', b'"size":1e0,"size":'),
        (b'"size":%d' % HEADER["parts"][0]["size"], b'"size":%d.0' % HEADER["parts"][0]["size"]),
        (b'"size":%d' % HEADER["parts"][0]["size"], b'"size":true'),
        (b'"size":%d' % HEADER["parts"][0]["size"], b'"size":9007199254740993'),
        (b'"name":"context.json"', b'"name":"\\u0063ontext.json"'),
        (b'"name":"context.json"', b'"name":"manifest.json"'),
        (b'"name":"context.json"', b'"name":null'),
        (b'"sha256":"sha256:', b'"sha256":"SHA256:'),
        (b'{"parts":[', b'{"parts":[[],'),
        (b'{"parts":[', b'\xef\xbb\xbf{"parts":['),
        (b'{"parts":[', b' {"parts":['),
    ],
)
def test_header_that_plays_games_is_refused_by_both(check, old, new):
    assert old in WHOLE

    assert failed(check(WHOLE.replace(old, new, 1)))
    with pytest.raises(BundleError):
        read_bundle(WHOLE.replace(old, new, 1))


@pytest.mark.parametrize(
    "field",
    [
        {"commit_index": True},
        {"commit_index": "2"},
        {"commit_index": -1},
        {"commit_index": None},
        {"event_count": "9"},
        {"more": 1},
    ],
    ids=str,
)
def test_manifest_with_values_of_other_types_is_not_bound(check, field):
    run = run_of(read_bundle(WHOLE))
    stored = canonical(json.loads(run.manifest) | field)
    contents = read_bundle(WHOLE) | {"manifest.json": stored}
    named = json.loads(contents["context.json"]) | {"manifest_hash": sha256(stored)}

    found = check(packed(contents | {"context.json": canonical(named)}))

    assert "manifest_bound" in failed(found) or field == {"commit_index": None}
    assert failed(found) & {"anchor", "log", "manifest_bound"}


@pytest.mark.parametrize(
    "manifest_bytes",
    [
        lambda text: text.decode().encode("utf-16"),
        lambda text: text.replace(b'{"commit_index"', b'{"commit_index":0,"commit_index"'),
        lambda text: text.replace(b'"event_count":', b'"event_count":1e999,"event_count":'),
        lambda _: b"[" * 100_000,
        lambda _: b'{"event_count":' + b"9" * 5000 + b"}",
    ],
    ids=["utf-16", "repeated key", "infinity", "nested", "digits"],
)
def test_manifest_in_odd_bytes_fails(check, manifest_bytes):
    contents = read_bundle(WHOLE)
    content = packed(contents | {"manifest.json": manifest_bytes(contents["manifest.json"])})

    assert failed(check(content))
    package = by_package(content, TRUST, REQUIRED)
    assert package is None or "fail" in {check.verdict for check in package.values()}


@pytest.mark.parametrize("first", [b"[]", b"1", b'{"payload":[]}', b'{"payload":{"binding":1}}', b"\xff", b""])
def test_bundle_whose_first_event_is_none_is_refused(check, first):
    contents = read_bundle(WHOLE)
    events = first + b"\n" + contents["events.jsonl"].partition(b"\n")[2]

    assert failed(check(packed(contents | {"events.jsonl": events})))
    with pytest.raises(BundleError):
        read_bundle(packed(contents | {"events.jsonl": events}))


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"null", b'{"logs":"all"}', b'{"logs":[1]}', b'{"witness_quorum":-1}', b'{"witness_quorum":true}',
     b'{"anchor_signers":[]}', b'{"anchor_signers":{"devnet":"key"}}', b'{"anchor_signers":{"devnet":[1]}}',
     b'{"checkpoint":1}', b'{"log":[]}'],
)  # fmt: skip
def test_file_of_keys_that_is_none_is_refused_by_both(tmp_path, text):
    (tmp_path / "keys.json").write_bytes(text)

    with pytest.raises(clv_verify.InputError):
        clv_verify.read_trust(tmp_path / "keys.json")
    with pytest.raises(BundleError):
        Trust.read(text)


def test_file_of_keys_may_leave_out_what_it_does_not_trust(tmp_path):
    (tmp_path / "keys.json").write_bytes(b"{}")

    assert clv_verify.read_trust(tmp_path / "keys.json") == clv_verify.NO_TRUST
    assert Trust.read(b"{}") == Trust(anchor_signers={}, logs=[], witnesses=[])


def test_signer_of_another_log_under_the_same_name_is_nobody(check):
    text = log_of()["checkpoint"].rpartition("\n\n")[0] + "\n"
    stranger, seen = Signer.new("log.example"), trust(checkpoint=None)

    assert failed(check(with_log(checkpoint=noted(text, stranger, WITNESS_KEY), earlier=None), seen)) == {"log"}


def test_context_of_another_run_is_refused(check):
    contents = read_bundle(WHOLE)
    other = canonical(parsed(contents["context.json"]) | {"run_id": "run_other"})

    assert failed(check(packed(contents | {"context.json": other}))) == {"bundle"}
    with pytest.raises(BundleError):
        read_bundle(packed(contents | {"context.json": other}))


@pytest.mark.parametrize("name", ["a\npass  manifest_bound: all is well", "a\x1b[2J", "a\u202e", "a\u2028pass", "\xe9"])
def test_names_can_not_write_lines_of_their_own(tmp_path, capsys, name):
    tape = make_tape([message(0, 0, {"part1": 5000, "part2": 5000})])
    sealed = run(tape, [make_agent(make_decisions({}), name)], Window()).sealed
    folder = write_run(sealed, tmp_path)
    events, config = folder / "events.jsonl", b'"config_hash":"sha256:'
    events.write_bytes(events.read_bytes().replace(config, config[:-7] + b"SHA256:", 1))
    forged = events.read_bytes()
    bound = json.loads(sealed.manifest) | {"evidence_hash": sha256(forged), "evidence_root": root_of_lines(forged)}
    bound["config_hash"] = "SHA256:" + bound["config_hash"][7:]
    (folder / "manifest.json").write_bytes(canonical(bound))

    assert clv_verify.main([str(folder)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "pass",
        "pass",
        "fail",
        "pass",
        "pass",
        "none",
        "none",
        "evidence",
        "manifest",
    ]
    assert "config_hash of a" in lines[2] or name == "\xe9"
    assert "".join(lines).isascii()


def test_manifest_with_half_a_character_is_shown_and_not_tripped_over(tmp_path, capsys):
    sealed = make_mixed_run().sealed
    folder = write_run(sealed, tmp_path)
    (folder / "manifest.json").write_bytes(b'{"evidence_hash":"\\ud800"}')

    assert clv_verify.main([str(folder)]) == 1
    assert "\\ud800" in capsys.readouterr().out
