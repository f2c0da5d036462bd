"""Policies of logs and witnesses, by which the package and the stand-alone file give the same verdicts."""

import json
from base64 import b64encode
from random import Random

import pytest

from clvlab.errors import BundleError, LogError
from clvlab.log.bundles import Trust
from clvlab.log.policy import Policy
from clvlab.proof import clv_verify
from tests.commands import clvlab
from tests.fuzz.policies import CONTENTS, LOG, OTHER_TYPE, WITNESSES, signed_bundle
from tests.proof.bundles import trust
from tests.proof.test_bundle import packed

A, B, C, *_ = (str(signer.verifier) for signer in WITNESSES)
# Two keys of a type that is not read here, whose base64 is the same after its last plus.
PQ = [
    f"pq.example+0a0b0c0d+{b64encode(bytes([6, last, last]) + bytes.fromhex('fbffff') + bytes(9)).decode()}" for last in (1, 2)
]
OF_TWO = f"log {LOG}\nwitness A {A}\nwitness B {B}\nwitness C {C}\ngroup two 2 A B C\nquorum two\n"


def alone(text):
    return clv_verify.Quorum(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))


def test_file_counts_groups_of_groups_like_the_package():
    text = OF_TWO.replace("quorum two", "group all all two\nquorum all")
    for signed, holds in (([], False), (["a.example/w"], False), (["a.example/w", "c.example/w"], True), (["x", "b"], False)):
        assert [alone(text).fault({*signed}) is None, Policy.read(text).fault(signed) is None] == [holds, holds]


@pytest.mark.parametrize(
    "text",
    [
        "group A any B\ngroup B any A\nquorum A\n",
        "group A any A\nquorum A\n",
        f"witness A {A}\ngroup G any A\ngroup H any A\nquorum G\n",
        f"witness A {A}\nwitness B {A}\nquorum A\n",
        f"witness A {A}\nquorum A\nquorum A\n",
        f"witness A {A}\ngroup G 2 A\nquorum G\n",
        f"witness none {A}\nquorum none\n",
        f"witness A {LOG}\nquorum A\n",
        f"log {A}\nquorum none\n",
        f"log {LOG}\n",
        f"log {LOG}\nlog {LOG}\nquorum none\n",
        f"witness P {OTHER_TYPE}\nwitness Q {OTHER_TYPE}\nquorum P\n",
        f"witness A {A.replace('a.example', chr(0xDC80))}\nquorum A\n",
        f"witness A {OTHER_TYPE.replace('pq', chr(0xDCFF))}\nquorum A\n",
        "quorum none\r\n",
        "quorum none\x00\n",
        "\n" * 10_000 + "quorum none",
        "",
    ],
)
def test_cycles_repetitions_and_other_text_are_refused_by_both(text):
    with pytest.raises(LogError):
        Policy.read(text)
    with pytest.raises(clv_verify.BrokenError):
        alone(text)


@pytest.mark.parametrize(
    "text",
    [
        "quorum none",
        "\n" * 9_999 + "quorum none",
        "# \udcff and \x80\n\t \nquorum none\n",
        f"witness \udcff\udcfe {A} https://\udcff\ngroup \u212a any \udcff\udcfe\ngroup K any \u212a\nquorum K\n",
        f"witness P {PQ[0]}\nwitness Q {PQ[1]}\nquorum P\n",
    ],
)
def test_names_are_any_bytes_and_limits_are_met_by_both(text):
    Policy.read(text)
    alone(text)


def test_no_chain_of_groups_is_too_deep():
    lines = [f"witness A {A}", "group G0 any A", *(f"group G{number} all G{number - 1}" for number in range(1, 9_000))]
    text = "\n".join([*lines, "quorum G8999", ""])

    assert Policy.read(text).fault(["a.example/w"]) is alone(text).fault({"a.example/w"}) is None
    assert Policy.read(text).fault([]) == alone(text).fault(set())


def test_policy_is_an_option_of_both_next_to_the_signers_of_a_chain(tmp_path, capsys, monkeypatch):
    (tmp_path / "policy").write_text(OF_TWO)
    (tmp_path / "more").write_text(OF_TWO.replace("2 A B C", "all A B C"))
    (tmp_path / "bad").write_text("quorum two\n")
    (tmp_path / "signers.json").write_text(json.dumps({"anchor_signers": trust()["anchor_signers"]}))
    (tmp_path / "keys.json").write_text(json.dumps(trust()))
    rng = Random(5)
    while True:  # until two of the three signed, and not the third
        (tmp_path / "run.clv").write_bytes(signed_bundle(rng))
        signed = clv_verify.read_parts(tmp_path / "run.clv")["log.json"].decode()
        if sum(f"{name}.example/w" in signed for name in "abc") == 2:
            break

    def judged(*arguments):
        capsys.readouterr()
        monkeypatch.chdir(tmp_path)
        file = clv_verify.main(["run.clv", *arguments])
        return file, capsys.readouterr(), clvlab(tmp_path, "verify", "run.clv", *arguments)

    both = judged("--policy", "policy", "--trust", "signers.json", "--require", "anchor,log")
    file, _, package = both
    assert (file, package[0]) == (0, 0), both
    assert "trusted witnesses that signed: 2 ('" in " ".join(package[1].split())
    file, said, package = judged("--policy", "more", "--require", "log")
    assert (file, package[0]) == (1, 1)
    assert "no quorum 'two' of the policy" in said.out
    assert "no quorum 'two' of the policy" in " ".join(package[1].split())
    for wrong in (("--policy", "bad"), ("--policy", "policy", "--trust", "keys.json"), ("--trust", "bad")):
        file, said, package = judged(*wrong)
        assert (file, package[0]) == (2, 2), (wrong, said, package)
    file, _, package = judged("--trust", "policy", "--require", "log")
    assert (file, package[0]) == (0, 0)


def test_policy_that_needs_no_witness_still_needs_one_where_the_log_is_required(tmp_path):
    (tmp_path / "policy").write_text(f"log {LOG}\nquorum none\n")
    (tmp_path / "run.clv").write_bytes(packed(CONTENTS))
    whom = clv_verify.trust_under(tmp_path / "policy")

    assert clv_verify.verify(tmp_path / "run.clv", whom)["checks"]["log"] is None
    assert "1 must" in clv_verify.verify(tmp_path / "run.clv", whom, ["log"])["checks"]["log"]
    assert clv_verify.verify(tmp_path / "run.clv", whom, ["log"], without_witness=True)["checks"]["log"] is None


def test_policy_is_read_from_a_file_within_its_limit(tmp_path):
    (tmp_path / "policy").write_bytes(b"#" * (1 << 20) + b"\nquorum none\n")

    with pytest.raises(clv_verify.InputError, match="more than 1,048,576 bytes"):
        clv_verify.trust_under(tmp_path / "policy")
    with pytest.raises(BundleError, match="can't read the policy: the policy has no line"):
        Trust.under_policy(b"# nothing\n")
