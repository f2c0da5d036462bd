from base64 import b64encode

import pytest

from clvlab.errors import BundleError, LogError
from clvlab.log.bundles import Trust
from clvlab.log.note import Signer, Verifier
from clvlab.log.policy import Policy

LOG = str(Signer("log.example", 1, bytes(range(32))).verifier)
X1, X2, X3, Y1, Y2 = (str(Signer(name, 4, bytes(range(at, at + 32))).verifier) for at, name in enumerate(
    ("x.example/1", "x.example/2", "x.example/3", "y.example/1", "y.example/2"), 1
))  # fmt: skip
OTHER_TYPE = "pq.example+0a0b0c0d+" + b64encode(b"\x06" + bytes(1312)).decode()  # as ML-DSA-44, which is not judged here
TEXT = f"""# a comment
log {LOG} https://log.example/
witness X1 {X1} https://x.example/1
 witness\tX2 {X2}
witness X3 {X3}
group X 2 X1 X2 X3

witness Y1 {Y1}
witness Y2 {Y2}
group Y any Y1 Y2
group both all X Y
quorum both
"""


def test_policy_counts_members_of_groups_of_groups():
    policy = Policy.read(TEXT)

    assert [str(one.key) for one in policy.logs] == [LOG]
    assert policy.witnesses["X1"].url == "https://x.example/1"
    assert policy.fault(["x.example/1", "x.example/3", "y.example/2"]) is None
    assert policy.fault(["x.example/1", "x.example/2", "x.example/3"]) == (
        "no quorum 'both' of the policy: of its witnesses signed X1, X2, X3"
    )
    assert policy.fault(["x.example/1", "y.example/1", "y.example/2", "z.example"]) is not None
    assert policy.fault([]) == "no quorum 'both' of the policy: of its witnesses signed none"
    assert Policy.read("quorum none\n").fault([]) is None


def test_key_of_a_type_that_is_not_judged_here_is_passed_over_and_never_counts():
    text = f"log {OTHER_TYPE}\nwitness P {OTHER_TYPE}\nwitness X1 {X1}\ngroup G {{}} P X1\nquorum G\n"

    assert Policy.read(text.format("any")).fault(["x.example/1"]) is None
    assert Policy.read(text.format("all")).fault(["x.example/1", "pq.example"]) is not None
    assert Policy.read(text.format("all")).logs == ()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (TEXT.replace("quorum both\n", ""), "no line 'quorum NAME'"),
        (TEXT + "quorum X\n", "line 13 of the policy: no line of a policy"),
        (TEXT.replace("group X 2", "group X 4"), "line 6 of the policy: '4' of 3 members"),
        (TEXT.replace("group X 2", "group X 02"), "'02' of 3 members"),
        (TEXT.replace("group X 2", "group X 0"), "'0' of 3 members"),
        (TEXT.replace("any Y1 Y2", "any Y1 X1"), "'X1' is a member already"),
        (TEXT.replace("any Y1 Y2", "any Y1 Y3"), "'Y3' is not defined before it"),
        (TEXT.replace("any Y1 Y2", "any none"), "'none' is not defined before it"),
        (TEXT.replace("witness Y1", "witness X1"), "the name 'X1' has a meaning already"),
        (TEXT.replace("group Y any", "group X1 any"), "the name 'X1' has a meaning already"),
        (TEXT.replace("witness Y1", "witness none"), "the name 'none' has a meaning already"),
        (TEXT.replace(Y1, X1), "stands twice"),
        (TEXT.replace(Y1, LOG), "not the key of a witness"),
        (TEXT.replace(LOG, X1), "not the key of a log"),
        (TEXT.replace("quorum both", "quorum nobody"), "'nobody' is not defined before it"),
        (TEXT.replace("\nquorum", "\nquorums"), "no line of a policy"),
        (TEXT.replace("# a", "# \x07"), "line 1 of the policy: a control character"),
        (TEXT + f"log {LOG}\n", "stands twice"),
        ("\n" * 20_000, "more than 10,000"),
    ],
)
def test_policy_that_is_none_is_refused_with_its_line(wrong, why):
    with pytest.raises(LogError) as caught:
        Policy.read(wrong)
    assert why in str(caught.value)


def test_two_witnesses_under_one_name_of_a_key_are_refused():
    second = Verifier("x.example/1", 4, Signer("x", 4, bytes(range(9, 41))).verifier.public)

    with pytest.raises(LogError, match=r"a second witness of the name x.example/1"):
        Policy.read(f"witness A {X1}\nwitness B {second}\nquorum A\n")


def test_trust_is_read_from_a_policy_and_needs_its_quorum():
    trust = Trust.read(TEXT.encode())

    assert (trust.logs, trust.witnesses, trust.witness_quorum) == ([LOG], [X1, X2, X3, Y1, Y2], 0)
    assert trust.quorum_fault(["x.example/1", "x.example/2", "y.example/1"]) is None
    assert "no quorum 'both'" in trust.quorum_fault(["x.example/1"])
    with pytest.raises(BundleError, match="neither as JSON nor as a policy: line 1 of the policy"):
        Trust.read(b"nothing\n")
