"""Bundles against whoever would rather have another one pass."""

import json
import random
import subprocess
import sys
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from solders.keypair import Keypair

from clvlab.errors import BundleError
from clvlab.log.bundles import Trust, judge
from clvlab.log.note import Signer, Verifier
from clvlab.log.standing import Standing
from clvlab.proof import clv_verify
from clvlab.proof.bundle import PARTS, PROOF_FILES, proof_files, read_bundle, run_of
from clvlab.proof.canonical import canonical, sha256
from clvlab.proof.verify import verify
from tests.length import length
from tests.proof.bundles import LOG_KEY, anchor_part, log_part, logged, make_bundle, trust

WHOLE, TRUST = make_bundle(), trust()
REQUIRED = ("anchor", "log")
EVERY = PARTS[:7]  # few runs have a seat, stamps or files of proofs
PART = json.loads(read_bundle(WHOLE)["anchor.json"])


def packed(contents):
    """Put parts together again, with a header that fits them."""
    listed = [{"name": name, "sha256": sha256(content), "size": len(content)} for name, content in contents.items()]
    return canonical({"parts": listed, "schema": "clvlab-bundle/1"}) + b"\n" + b"".join(contents.values())


@pytest.fixture
def check(tmp_path):
    """Judge a bundle by the stand-alone file, and require the package to say the same."""

    def checked(content, trusted=TRUST, required=REQUIRED, **options):
        path = tmp_path / "run.clv"
        path.write_bytes(content)
        alone = clv_verify.verify(path, trust=trusted, required=required, **options)
        package = by_package(content, trusted, required, **options)
        if package is not None:
            assert {name: check.verdict.value for name, check in package.items()} == said(alone), alone
            assert not alone["log"] or standing_text(alone) == package["log"].detail
        return alone

    return checked


def standing_text(result):
    return clv_verify.standing_text(result["log"], result["bundle_states_unsigned"])


def said(result):
    """What the stand-alone file says of each check."""
    verdicts = {name: "fail" if fault else "pass" for name, fault in result["checks"].items() if name != "bundle"}
    return verdicts | dict.fromkeys(result["without"], "not_applicable")


def by_package(content, trusted, required, **options):
    """The checks by the package; null of what it refuses whole."""
    try:
        contents = read_bundle(content)
    except BundleError:
        return None
    found = verify(run_of(contents), contents.get("receipts.jsonl", b""))
    return {name: found.checks[name] for name in clv_verify.CHECKS} | judge(
        contents, found, Trust(**trusted), required, **options
    )


def failed(result):
    return {name for name, fault in result["checks"].items() if fault}


def test_bundle_with_every_proof_passes_in_package_and_file(check):
    result = check(WHOLE)
    contents = read_bundle(WHOLE)

    assert list(contents) == list(EVERY)
    assert (failed(result), result["without"], result["verified"]) == (set(), {}, True)
    assert {"anchor", "log", "bundle"} <= result["checks"].keys()
    assert verify(run_of(contents), contents["receipts.jsonl"]).passed
    assert result["manifest_hash"] == run_of(contents).manifest_hash


def test_file_alone_reads_it_from_the_command_line(tmp_path):
    (tmp_path / "run.clv").write_bytes(WHOLE)
    (tmp_path / "keys.json").write_text(json.dumps(TRUST))
    (tmp_path / "clv_verify.py").write_bytes(Path(clv_verify.__file__).read_bytes())

    def called(*arguments):
        command = [sys.executable, "-I", "-S", "clv_verify.py", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    whole = called("run.clv", "--require", "anchor,log", "--trust", "keys.json")
    untrusting = called("run.clv")
    (tmp_path / "bad.json").write_text('{"logs": "all"}')

    assert (whole.returncode, whole.stderr) == (0, "")
    assert untrusting.returncode == 0
    assert untrusting.stdout.count("none  ") == 2
    assert called("run.clv", "--require", "anchor").returncode == 1
    assert called("run.clv", "--require", "love").returncode == 2
    assert called("run.clv", "--trust", "bad.json").returncode == 2
    assert called("nowhere.clv").returncode == 2


def test_no_flipped_bit_goes_undetected(check):
    chance = random.Random(1)

    for _ in range(4000):
        place, bit = chance.randrange(len(WHOLE)), 1 << chance.randrange(8)
        content = WHOLE[:place] + bytes([WHOLE[place] ^ bit]) + WHOLE[place + 1 :]

        assert failed(check(content)), (place, bit)
        with pytest.raises(BundleError):
            read_bundle(content)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in (*EVERY, *PROOF_FILES) if name != "receipts.jsonl"])
def test_no_flipped_bit_in_a_part_goes_undetected_behind_a_header_made_to_fit(check, name):
    contents, chance = read_bundle(make_bundle(files=proof_files(log_of()))), random.Random(name)

    for _ in range(length(10, 40)):
        part = bytearray(contents[name])
        part[chance.randrange(len(part))] ^= 1 << chance.randrange(8)
        result = check(packed(contents | {name: bytes(part)}))

        # What a bundle states beside its proofs is told as its own, and no proof covers it.
        assert failed(result) or result["bundle_states_unsigned"] != log_of()["claim"], bytes(part)


@pytest.mark.parametrize(
    "content",
    [
        WHOLE + b"\n",
        WHOLE[:-1],
        b"",
        b"{}\n",
        packed(dict.fromkeys(PARTS[:3], b"")),
        packed(read_bundle(WHOLE) | {"notes.txt": b"trust me"}),
        packed(dict(reversed(read_bundle(WHOLE).items()))),
        packed({name: content for name, content in read_bundle(WHOLE).items() if name != "scores.jsonl"}),
        WHOLE.replace(b'"schema":"clvlab-bundle/1"', b'"schema":"clvlab-bundle/2"', 1),
        WHOLE.replace(b'{"parts"', b'{"note":"hi","parts"', 1),
        WHOLE.replace(b'"size":', b'"size":-', 1),
        WHOLE.replace(b'"size":', b'"more":1,"size":', 1),
    ],
    ids=range(12),
)
def test_unknown_missing_misplaced_or_trailing_content_is_refused_by_both(check, content):
    assert failed(check(content))
    with pytest.raises(BundleError):
        read_bundle(content)


@pytest.mark.parametrize("name", REQUIRED)
def test_stripped_proof_fails_when_it_is_required_and_is_said_when_not(check, name):
    contents = read_bundle(WHOLE)
    del contents[f"{name}.json"]

    assert failed(check(packed(contents))) == {name}
    assert (failed(check(packed(contents), required=())), check(packed(contents), required=())["without"]) == (
        set(),
        {name: "the proof is not here"},
    )


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"anchor_signers": {}}, "anchor"),
        ({"anchor_signers": {"localnet": [str(Keypair().pubkey())]}}, "anchor"),
        ({"anchor_signers": {"devnet": TRUST["anchor_signers"]["localnet"]}}, "anchor"),
        ({"logs": []}, "log"),
        ({"logs": [str(Signer.new("log.example").verifier)]}, "log"),
        ({"witnesses": []}, "log"),
        ({"witness_quorum": 2}, "log"),
        ({"checkpoint": TRUST["checkpoint"].replace("\n1\n", "\n2\n")}, "log"),
        ({"checkpoint": "never seen"}, "log"),
    ],
)
def test_only_what_the_caller_trusts_counts(check, changed, wrong):
    assert failed(check(WHOLE, trust(**changed))) == {wrong}


def test_keys_in_the_bundle_are_not_looked_at(check):
    """Whoever makes a whole new bundle with keys of their own gets nothing for it."""
    forged = anchor_part(run_of(read_bundle(WHOLE)).manifest_hash, Keypair())

    assert failed(check(make_bundle(anchor=forged))) == {"anchor"}


def test_anchor_of_another_manifest_fails(check):
    assert failed(check(make_bundle(anchor=anchor_part("sha256:" + "0" * 64)))) == {"anchor"}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff" * 2000,
        b"\x00",
        b"\x01" + bytes(64),
        b64decode(PART["transaction"])[:-1],
        b64decode(PART["transaction"]) + b"\0",
    ],
    ids=range(6),
)
def test_bytes_that_are_no_transaction_fail(check, raw):
    assert failed(check(make_bundle(anchor=PART | {"transaction": b64encode(raw).decode()}))) == {"anchor"}


def with_log(**changed):
    run, log, before = logged()
    return make_bundle(log=log_part(run, log, before) | changed)


def log_of(content=WHOLE):
    return json.loads(read_bundle(content)["log.json"])


@pytest.mark.parametrize(
    "changed",
    [
        {"commit": log_of()["outcome"]},
        {"outcome": log_of()["commit"]},
        {"commit": log_of()["commit"] | {"index": 0}},
        {"commit": log_of()["commit"] | {"proof": log_of()["commit"]["proof"][:-1]}},
        {"outcome": log_of()["outcome"] | {"proof": [*log_of()["outcome"]["proof"], "0" * 64]}},
        {"outcome": log_of()["outcome"] | {"proof": ["zz"]}},
        {"outcome": log_of()["outcome"] | {"entry": "[]"}},
        {"checkpoint": log_of()["earlier"]["checkpoint"]},
        {"checkpoint": "no note"},
        {"earlier": None},  # the caller has seen a checkpoint
        {"earlier": log_of()["earlier"] | {"proof": log_of()["earlier"]["proof"][:-1]}},
        {"earlier": {"checkpoint": log_of()["checkpoint"], "proof": []}},
        {"schema": "clvlab-bundle-log/1"},  # which has no claim
        {"schema": "clvlab-bundle-log/3"},
        {"claim": None},
        {"claim": {}},
        {"claim": log_of()["claim"] | {"earlier": -1}},
        {"claim": log_of()["claim"] | {"later": "1"}},
        {"claim": log_of()["claim"] | {"abandoned": True}},
        {"claim": log_of()["claim"] | {"sealed": 1}},
    ],
    ids=range(20),
)
def test_log_proof_that_does_not_hold_fails(check, changed):
    assert failed(check(with_log(**changed))) == {"log"}


def test_run_sealed_before_its_commitment_fails(check):
    contents = read_bundle(WHOLE)
    contents["manifest.json"] = canonical(json.loads(contents["manifest.json"]) | {"commit_index": 0})
    run = run_of(contents)
    contents["context.json"] = canonical(json.loads(contents["context.json"]) | {"manifest_hash": run.manifest_hash})

    assert failed(check(packed(contents))) == {"anchor", "log"}


def test_forged_log_that_a_witness_never_saw_fails_by_its_signature(check):
    proofs = log_of()
    text = proofs["checkpoint"].split("\n\n")[0] + "\n"
    proofs["checkpoint"] = f"{text}\n{LOG_KEY.line(text)}"

    assert failed(check(with_log(**proofs))) == {"log"}
    assert failed(check(with_log(**proofs), trust(witness_quorum=0))) == {"log"}
    assert failed(check(with_log(**proofs), trust(witness_quorum=0), without_witness=True)) == set()
    assert failed(check(with_log(**proofs), trust(witness_quorum=0), required=())) == set()
    assert failed(check(with_log(**proofs), without_witness=True)) == {"log"}  # the quorum is the caller's


def test_required_log_needs_a_witness_that_is_trusted(check):
    nobody = trust(witness_quorum=0, witnesses=[])

    assert failed(check(WHOLE, nobody)) == {"log"}
    assert failed(check(WHOLE, nobody, required=["anchor"])) == set()
    assert failed(check(WHOLE, nobody, without_witness=True)) == set()
    assert failed(check(WHOLE, trust(witness_quorum=0))) == set()


def test_what_the_log_proves_and_what_the_bundle_states_is_said_apart(check):
    text = standing_text(check(WHOLE))

    assert text == (
        "proved: entry 1 of 8 that 'log.example' signed commits to this run, ahead of the entry of its result; trusted "
        "witnesses that signed: 1 ('witness.example'); by that log's word its owner is 'did:x:me'; the bundle states, "
        "unsigned: 1 earlier and 2 later commitments over this pack by this owner, 1 abandoned; "
        "'clvlab log audit --bundle' counts them"
    )
    without = {name: value for name, value in log_of().items() if name != "claim"} | {"schema": "clvlab-bundle-log/1"}
    silent = check(packed(read_bundle(WHOLE) | {"log.json": canonical(without)}))
    assert standing_text(silent).endswith("; the bundle states nothing of this owner's other runs")


@pytest.mark.parametrize("name", ["earlier", "later", "abandoned", "unknown_pack"])
def test_count_that_the_holder_of_a_bundle_changed_is_not_told_as_the_logs(check, tmp_path, capsys, name):
    result = check(with_log(claim=log_of()["claim"] | {name: 987_654}))
    (tmp_path / "keys.json").write_text(json.dumps(TRUST))
    given = [str(tmp_path / "run.clv"), "--trust", str(tmp_path / "keys.json"), "--require", "anchor,log"]

    assert failed(result) == set()
    assert "987654" not in json.dumps(result["log"])
    assert result["bundle_states_unsigned"][name] == 987_654
    assert clv_verify.main(given) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if "987654" in line]
    proved, stated = line.split("; the bundle states, unsigned: ")
    assert "987654" in stated
    assert "987654" not in proved
    assert "the log claims" not in line


@pytest.mark.parametrize("name", ["'; proved: 'x", "did:x:\u202eevil", "a\nb", "both ' and \""])
def test_owner_can_not_write_what_is_proved(name):
    at = {"owner": name, "commit_index": 1, "tree_size": 2, "origin": "log", "witnesses": 1, "witness_names": [name]}
    text = clv_verify.standing_text(at, None)

    assert text.isascii()
    assert "\n" not in text
    assert text.startswith("proved: entry 1 of 2 that 'log' signed commits to this run")
    assert f"; by that log's word its owner is {name!a}; " in text
    assert Standing(name, None, 1, 2, None).text("log", [name]) == text


# Ed25519, by the vectors of RFC 8032, section 7.1: seed, public key, message, signature.
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("seed", "public", "message", "signature"), RFC_8032)
def test_signatures_of_rfc_8032_hold(seed, public, message, signature):
    key, text, signed = (bytes.fromhex(value) for value in (public, message, signature))
    assert Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed)).sign(text) == signed

    clv_verify.check_signature(key, text, signed, "RFC 8032")

    for other in (text + b"x", b"y"):
        with pytest.raises(clv_verify.BrokenError):
            clv_verify.check_signature(key, other, signed, "RFC 8032")


@pytest.mark.long
def test_signature_check_agrees_with_the_library_on_altered_signatures():
    chance = random.Random(2)
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    public, signature = key.public_key().public_bytes_raw(), key.sign(b"text")
    order = clv_verify.ORDER
    same_scalar = (int.from_bytes(signature[32:], "little") + order).to_bytes(32, "little")
    altered = [signature[:32] + same_scalar, bytes(64), signature[:63], signature + b"\0", b"\xff" * 64]
    for _ in range(length(10, 40)):
        place = chance.randrange(64)
        altered.append(signature[:place] + bytes([signature[place] ^ 1 << chance.randrange(8)]) + signature[place + 1 :])

    for other in altered:
        with pytest.raises((InvalidSignature, ValueError)):
            Ed25519PublicKey.from_public_bytes(public).verify(other, b"text")
        with pytest.raises(clv_verify.BrokenError):
            clv_verify.check_signature(public, b"text", other, "nobody")


def test_public_key_parses_as_it_is_trusted():
    assert Verifier.parse(TRUST["logs"][0]) == LOG_KEY.verifier
