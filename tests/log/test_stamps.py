"""Stamps over a log's checkpoints: those of an authority under the reader's roots date the run, all others are refused."""

from base64 import b64decode, b64encode

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from clvlab.arena.log.operations import add_stamps
from clvlab.errors import BundleError, LogError
from clvlab.log.bundles import Trust, judge, note_text
from clvlab.log.stamps import part_of, query, read_part, stamp_of
from clvlab.proof import clv_verify
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.proof.canonical import canonical, parsed
from clvlab.proof.verify import verify
from tests.authorities import Authority, AuthorityServer, has_openssl, issued, pem
from tests.commands import clvlab
from tests.proof.bundles import make_bundle

pytest.importorskip("rfc3161_client", reason="stamps need the extra clvlab[stamps]")
pytestmark = has_openssl
PARTS = read_bundle(make_bundle())
LOG = parsed(PARTS["log.json"])
NOTE, EARLIER = LOG["checkpoint"], LOG["earlier"]["checkpoint"]


@pytest.fixture(scope="module")
def root():
    return issued("root", ca=True, until=4000)


@pytest.fixture(scope="module")
def between(root):
    return issued("between", root, ca=True, path_length=0)


@pytest.fixture(scope="module")
def authority(between, tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tsa"), issued("stamps", between), (between[1],))


def stamped(authority, *notes):
    """The part of stamps by an authority over notes."""
    stamps, certificates = [], []
    for note in notes:
        request, nonce = query(note_text(note))
        stamp, chain = stamp_of(authority.answer(request), note_text(note), nonce)
        stamps, certificates = [*stamps, stamp], [*certificates, *chain]
    return canonical(part_of(stamps, certificates))


def judged(part, roots):
    verification = verify(run_of(PARTS), PARTS.get("receipts.jsonl", b""))
    check = judge(PARTS | {"stamps.json": part}, verification, Trust(), tsa_roots=roots)["stamps"]
    return check.verdict.value, check.detail


def changed(part, change):
    content = parsed(part)
    change(content)
    return canonical(content)


def test_a_stamp_under_the_readers_root_dates_commitment_and_result_without_a_key_of_the_log(authority, root):
    verdict, text = judged(stamped(authority, NOTE, EARLIER), pem(root[1]))

    assert verdict == "pass", text
    assert "with the commitment and the result, by 20" in text
    assert "with neither commitment nor result, by 20" in text
    assert "'CN=stamps', under your root 'CN=root'" in text


def test_a_stamp_adds_less_than_1_kb_and_the_certificates_stand_once(authority):
    one, two = (stamped(authority, *notes) for notes in ((NOTE,), (NOTE, EARLIER)))

    assert len(two) - len(one) < 1_000
    assert len(one) - (len(two) - len(one)) < 8_000


def test_without_a_root_nothing_is_judged_and_with_one_a_stamp_must_be_there(authority, root):
    verification = verify(run_of(PARTS), PARTS.get("receipts.jsonl", b""))

    assert judged(stamped(authority, NOTE), None) == ("not_applicable", "stamps are here, but you name no root")
    assert "stamps" not in judge(PARTS, verification, Trust())
    assert judge(PARTS, verification, Trust(), tsa_roots=pem(root[1]))["stamps"].verdict.value == "fail"


def test_an_authority_of_its_own_root_is_refused_though_it_sends_that_along(root, tmp_path):
    own = issued("root", ca=True)
    forged = Authority(tmp_path, issued("stamps", own), (own[1],))

    verdict, text = judged(stamped(forged, NOTE), pem(root[1]))

    assert (verdict, "no root of yours issued" in text) == ("fail", True)


@pytest.mark.parametrize(
    ("how", "named"),
    [
        ({"until": -1}, "was not valid"),
        ({"since": 1}, "was not valid"),
        ({"usage": ExtendedKeyUsageOID.SERVER_AUTH}, ""),
    ],
)
def test_a_certificate_that_was_not_valid_at_the_stamped_time_or_is_for_something_else_is_refused(root, tmp_path, how, named):
    try:
        part = stamped(Authority(tmp_path, issued("stamps", root, **how)), NOTE)
    except Exception:  # noqa: BLE001  openssl itself refuses to stamp with a certificate for something else
        assert "usage" in how
        return

    verdict, text = judged(part, pem(root[1]))

    assert (verdict, named in text) == ("fail", True)


def test_a_certificate_that_is_no_authority_issues_none(root, tmp_path):
    middle = issued("middle", root)

    verdict, text = judged(stamped(Authority(tmp_path, issued("stamps", middle), (middle[1],)), NOTE), pem(root[1]))

    assert (verdict, "no root of yours issued" in text) == ("fail", True)


def test_a_chain_longer_than_an_authority_allows_is_refused(root, between, tmp_path):
    further = issued("further", between, ca=True)
    chain = (between[1], further[1])

    verdict, text = judged(stamped(Authority(tmp_path, issued("stamps", further), chain), NOTE), pem(root[1]))

    assert (verdict, "no root of yours issued" in text) == ("fail", True)


def test_each_changed_byte_of_a_stamp_is_refused_and_the_stamp_named(authority, root):
    """A few bytes are covered by no signature, such as the name of the signature's algorithm; they change no time."""
    part = stamped(authority, EARLIER, NOTE)
    whole, unchanged, tried = b64decode(parsed(part)["stamps"][1]), judged(part, pem(root[1])), []

    for at in range(0, len(whole), 7):
        data = bytearray(whole)
        data[at] ^= 1
        changed_part = changed(part, lambda own, data=data: own["stamps"].__setitem__(1, b64encode(data).decode()))
        verdict, text = judged(changed_part, pem(root[1]))
        assert (verdict, text) == unchanged or (verdict, "stamp 2 of 2" in text) == ("fail", True), (at, text)
        tried.append(verdict)
    assert tried.count("fail") >= len(tried) - 3


def test_a_stamp_over_another_checkpoint_is_refused(authority, root):
    verdict, text = judged(stamped(authority, NOTE, NOTE.replace("\n", " \n", 1)), pem(root[1]))

    assert (verdict, text) == ("fail", "stamp 2 of 2 is over no checkpoint of the bundle")


@pytest.mark.parametrize(
    "content", [b"{}", b"[]", b"no", b'{"certificates":[],"schema":"clvlab-bundle-stamps/1","stamps":[1]}']
)
def test_a_part_that_is_no_list_of_stamps_is_refused(content, root):
    with pytest.raises(BundleError):
        read_part(content)
    assert judged(content, pem(root[1]))[0] == "fail"


def test_an_answer_about_something_else_or_no_answer_is_refused(authority, tmp_path):
    request, nonce = query("one")

    with pytest.raises(LogError, match="something else"):
        stamp_of(authority.answer(request), "another", nonce)
    with pytest.raises(LogError, match="something else"):
        stamp_of(authority.answer(request), "one", nonce + 1)
    with AuthorityServer(None) as server, pytest.raises(LogError, match="no stamp"):
        add_stamps(NOTE, [server.url], tmp_path / "stamps.json")
    with pytest.raises(LogError, match="gives no answer"):
        add_stamps(NOTE, ["http://127.0.0.1:9"], tmp_path / "stamps.json")
    assert not (tmp_path / "stamps.json").exists()


def test_from_a_log_to_a_bundle_that_others_verify(authority, root, tmp_path):
    (tmp_path / "roots.pem").write_bytes(pem(root[1]))
    for command in (
        ("log", "keygen", "log.example", "--out", "log.key"),
        ("backtest", "starter", "--fixture", "90000000", "--log", "log.db"),
    ):
        assert clvlab(tmp_path, *command)[0] == 0
    code, note, _ = clvlab(tmp_path, "log", "checkpoint", "log.db", "--key", "log.key")
    (tmp_path / "checkpoint").write_text(note)
    (run,) = (tmp_path / "runs").glob("run_*")
    with AuthorityServer(authority) as server:
        stamped_ = clvlab(tmp_path, "log", "stamp", "checkpoint", "--tsa", server.url, "--out", "stamps.json")
    bundled = clvlab(
        tmp_path, "bundle", str(run), "--out", "run.clv", "--log", "log.db", "--checkpoint", "checkpoint",
        "--stamps", "stamps.json",
    )  # fmt: skip
    verified = clvlab(tmp_path, "verify", "run.clv", "--tsa-roots", "roots.pem", "--json")
    alone = clv_verify.verify(tmp_path / "run.clv")

    assert (code, stamped_[0], bundled[0], verified[0]) == (0, 0, 0, 0), stamped_ + bundled + verified
    assert '"stamped: the checkpoint of 2 entries, with the commitment and the result' in verified[1]
    assert "this file does not check them" in alone["without"]["stamps"]
    assert not any(alone["checks"].values())
