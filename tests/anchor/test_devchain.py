import os
import re
import signal
import subprocess
import sys

import pytest

from clvlab.anchor.devchain import DevChain, NodeError
from clvlab.store.folder import write_run
from tests.factories import make_sealed_run

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("noSuchMethod", []),
        ("sendTransaction", ["not base64", {"encoding": "base64"}]),
        ("sendTransaction", ["", {"encoding": "base64"}]),
        ("sendTransaction", ["AA==", {"encoding": "base58"}]),
        ("getTransaction", ["x", {"encoding": "json"}]),
        ("getBalance", ["nobody"]),
        ("getBalance", []),
    ],
)
def test_calls_that_make_no_sense_are_errors_of_json_rpc(method, params):
    with pytest.raises(NodeError) as caught:
        DevChain().answer(method, params)

    assert -32700 <= caught.value.code <= -32000


def test_newcomer_anchors_and_verifies_by_doing_what_devchain_prints(tmp_path):
    folder = write_run(make_sealed_run(), tmp_path / "runs")
    command = [sys.executable, "-u", "-m", "clvlab"]
    with subprocess.Popen([*command, "devchain", "--port", "0"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as chain:
        printed = ""
        while "verify RUN" not in printed:
            printed += chain.stdout.readline()
        given = dict(re.findall(r"export (\w+)=(.*)", printed))
        environment = os.environ | given

        def called(*arguments):
            return subprocess.run(
                [*command, *arguments, str(folder)], env=environment, capture_output=True, text=True, check=False, cwd=tmp_path
            )

        before, anchored, again, after = called("verify"), called("anchor"), called("anchor"), called("verify")
        environment.pop("CLVLAB_ANCHOR_RPC_URL")
        environment.pop("CLVLAB_ANCHOR_KEYPAIR")
        offline = called("verify")
        chain.send_signal(signal.SIGINT)

    assert re.search(r"anchor +not applicable", before.stdout)
    assert (anchored.returncode, again.returncode) == (0, 0), anchored.stderr
    assert anchored.stdout == again.stdout
    assert (after.returncode, bool(re.search(r"anchor +pass", after.stdout))) == (0, True)
    assert re.search(r"anchor +pending", offline.stdout)
    assert oct((tmp_path / "devchain-key.json").stat().st_mode)[-3:] == "600"


def test_run_that_does_not_verify_is_not_anchored(tmp_path):
    folder = write_run(make_sealed_run(), tmp_path / "runs")
    (folder / "scores.jsonl").write_bytes(b"")

    done = subprocess.run(
        [sys.executable, "-m", "clvlab", "anchor", str(folder)], capture_output=True, text=True, check=False, cwd=tmp_path
    )

    assert (done.returncode, "does not verify" in done.stderr) == (2, True)
