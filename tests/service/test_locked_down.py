"""``clvlab service serve`` as ``docs/how-to/operate.md`` locks it down: another user, over a root that nobody can write to."""

import errno
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2
import pytest

from clvlab.log.note import Signer, write_signer
from tests.service.serving import BACKTEST
from tests.service.test_serving import serving
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
NOBODY = 65534


def needs_root_of_linux():
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "becoming another user takes root"
    if not all(map(shutil.which, ("unshare", "setpriv", "mount"))):
        return "util-linux is missing"
    tried = subprocess.run(["unshare", "--mount", "mount", "--make-rprivate", "/"], capture_output=True, check=False)
    return "mount namespaces are not allowed here" if tried.returncode else None


def closed_above(*paths):
    """The uppermost folders above these paths that another user may not pass."""
    closed = {above for path in paths for above in path.parents if not above.stat().st_mode & stat.S_IXOTH}
    return sorted(folder for folder in closed if not closed & set(folder.parents))


def lock_down(script, writable, scratch):
    """Write a shell script that makes all but a folder read-only to what it starts, and starts it as nobody."""
    needed = [Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), ROOT]
    kept = {path: scratch / str(number) for number, path in enumerate([*needed, writable])}
    lines = ["set -e", "mount --make-rprivate /"]
    for path, aside in kept.items():
        aside.mkdir()
        lines.append(f"mount --bind {shlex.quote(str(path))} {shlex.quote(str(aside))}")
    lines += [f"mount -t tmpfs -o mode=755 none {shlex.quote(str(folder))}" for folder in closed_above(*kept)]
    for path, aside in kept.items():
        place = shlex.quote(str(path))
        lines.append(f"mkdir -p {place} && mount --bind {shlex.quote(str(aside))} {place}")
        if path != writable:
            lines.append(f"mount -o remount,bind,ro {place}")
    lines += ["mount -o remount,bind,ro /", f"cd {shlex.quote(str(writable))}"]
    drop = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --no-new-privs --inh-caps=-all"
    script.write_text("\n".join([*lines, f'exec {drop} {shlex.quote(sys.executable)} "$@"']) + "\n")


@pytest.fixture
def aside():
    """A folder outside those of pytest, which are private and get covered."""
    with tempfile.TemporaryDirectory(prefix="clvlab-aside-") as name:
        yield Path(name)


@pytest.mark.skipif(needs_root_of_linux() is not None, reason=str(needs_root_of_linux()))
def test_service_runs_as_another_user_over_a_read_only_root(tmp_path, aside, monkeypatch):
    state = tmp_path / "state"
    for folder in (state, state / "tmp"):
        folder.mkdir()
    write_signer(Signer("log.example", 1, bytes(range(32))), state / "log.key")
    for path in (state, *state.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    lock_down(tmp_path / "locked", state, aside)
    locked = ["unshare", "--mount", "sh", str(tmp_path / "locked")]
    environment = {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'service'}", "HOME": "/nonexistent", "TMPDIR": str(state / "tmp"),
        "MPLCONFIGDIR": str(state / "tmp"), "CLVLAB_DATABASE_URL": f"sqlite:///{state / 'store.db'}",
        "CLVLAB_LOG_KEY_FILE": str(state / "log.key"), "CLVLAB_CHECKPOINT_FILE": str(state / "newest"),
    }  # fmt: skip
    monkeypatch.setattr("tests.service.test_serving.CLVLAB", [*locked, "-m", "clvlab"])
    tried = [tmp_path / "here", ROOT / "here", Path("/tmp/here")]
    refused = "import sys\nfor name in sys.argv[1:]:\n    try: open(name, 'w')\n    except OSError as error: print(error.errno)"
    writes = subprocess.run([*locked, "-c", refused, *map(str, tried)], capture_output=True, text=True, check=True)

    with serving(state, **environment) as (url, _, _):
        made = httpx2.post(f"{url}/backtests", json=BACKTEST, timeout=PATIENCE_S)
        run = httpx2.get(f"{url}/runs/{made.json()['run_id']}/bundle", timeout=PATIENCE_S)
        sheet = httpx2.get(f"{url}/backtests/{made.json()['backtest_id']}/tear-sheet", timeout=PATIENCE_S)

    assert len(writes.stdout.split()) == len(tried), writes.stdout
    assert writes.stdout.split()[-1] == str(errno.EROFS)  # a folder in which everybody may write
    assert [answer.status_code for answer in (made, run, sheet)] == [201, 200, 200], sheet.text[:500]
    assert (state / "newest").read_text().startswith("log.example\n2\n")
    assert {path.owner() for path in state.glob("store.db*")} == {"nobody"}
