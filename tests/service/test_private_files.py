"""What a service writes is for its own user, whatever the umask was; and so is what an older version left."""

import json
import os
import stat

import httpx2
import pytest

from clvlab.arena.application import Application
from clvlab.arena.uploads.intake import UploadLimits
from clvlab.packs.synthetic import Recipe, build
from clvlab.runs.live.feed import live_settings
from clvlab.store.database import Database
from tests.arena.archives import files_of, zipped
from tests.service.serving import BACKTEST
from tests.service.test_serving import clvlab_prints, serving
from tests.waiting import PATIENCE_S, until

OTHERS = 0o077


@pytest.fixture(autouse=True)
def _wide_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def wide(*places):
    """Files and folders that other users may use."""
    found = [path for place in places for path in (place, *place.rglob("*"))]
    return [str(path) for path in found if stat.S_IMODE(path.lstat().st_mode) & OTHERS]


def test_files_of_a_database_are_private_while_it_is_written_to(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'store.db'}")
    with database.write():
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    database.close()

    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}


def test_wider_files_of_an_earlier_process_become_private_and_are_named(tmp_path, caplog):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    earlier = Database(url)  # it stays open, as the database of another process that was killed leaves its files
    uploads, live, other = tmp_path / "uploads", tmp_path / "live", tmp_path / "uploads" / "other"
    pack, run = uploads / ("0a" * 32) / "mine", live / "run_x"
    for folder in (pack, run, other):
        folder.mkdir(parents=True)
    for file in (pack / "ticks.parquet", run / "journal.jsonl", other / "kept"):
        file.write_bytes(b"x")
    files = sorted(tmp_path.glob("store.db*"))
    for path in files:
        path.chmod(0o664)

    settings = live_settings(live, 1, 900, dev=True)
    application = Application(url, uploads=UploadLimits(uploads), live=settings, workers=0)
    application.start()
    application.close()
    earlier.close()

    assert len(files) == 3
    assert wide(*(path for path in files if path.exists()), pack.parent, run) == []
    assert all(f"{str(path)!r} had the mode 0664" in caplog.text for path in files)
    assert f"{str(run / 'journal.jsonl')!r} had the mode 0644" in caplog.text
    assert stat.S_IMODE((other / "kept").stat().st_mode) == 0o644, "it is not the service's"
    assert stat.S_IMODE(uploads.stat().st_mode) == 0o755
    assert f"{str(uploads)!r} has the mode 0755" in caplog.text


@pytest.mark.long
def test_whatever_a_service_writes_is_private(tmp_path):
    state, packs = tmp_path / "state", tmp_path / "packs" / "mine"
    state.mkdir()
    build(Recipe(seed=7, fixtures=1, messages=40), packs)
    settings = {
        "CLVLAB_DATABASE_URL": f"sqlite:///{state / 'store.db'}",
        "CLVLAB_UPLOADS": str(state / "uploads"),
        "CLVLAB_CHECKPOINT_FILE": str(state / "newest"),
        "CLVLAB_LOG_KEY_FILE": str(tmp_path / "log.key"),
        "CLVLAB_REPLAY_SPEED": "100000",
        "TMPDIR": str(state),
    }
    clvlab_prints(tmp_path, "log", "keygen", "example.org/log", "--out", "log.key")
    with serving(tmp_path, "--dev", "--devfeed", **settings) as (url, _, _):
        headers = {"Authorization": f"Bearer {clvlab_prints(tmp_path, 'service', 'dev-token')}"}
        with httpx2.Client(base_url=url, headers=headers, timeout=PATIENCE_S) as client:
            assert client.post("/me/packs", content=zipped(files_of(packs))).status_code == 201
            assert client.post("/backtests", json=BACKTEST).status_code == 201
            live = {"strategy": "baseline", "source_mode": "live"}
            deployed = client.post("/agents/deploy", json=live)
            assert deployed.is_success, json.dumps(deployed.json())
            until(lambda: list((tmp_path / ".clvlab" / "live").glob("run_*/*")))
            found = wide(*(path for path in state.iterdir()), tmp_path / ".clvlab" / "live")

    assert found == []
