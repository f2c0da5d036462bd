"""A store that was restored from a backup: it says so, appends nothing, and goes on under another name once it is told to."""

import shutil
import sqlite3
from contextlib import closing, contextmanager
from copy import copy
from pathlib import Path
from threading import Thread

import orjson
import psycopg
import pytest

from clvlab.arena.application import Application
from clvlab.arena.log.audit import audit
from clvlab.arena.log.operations import open_log, restart_log
from clvlab.arena.report_requests import BacktestRunRequest
from clvlab.base.files import lock
from clvlab.errors import FileLockedError, LogBehindError, LogError, LogKeyError, StoreError
from clvlab.log.bundles import Trust
from clvlab.log.note import Signer, checkpoint, open_note
from clvlab.proof import clv_verify
from clvlab.store.database import back_up
from clvlab.store.tables import log_entries
from tests.factories import ALICE, make_competition

OLD, NEW = Signer("log.example", 1, bytes(range(32))), Signer("log.example/2", 1, bytes(range(1, 33)))
BOTH = [str(OLD.verifier), str(NEW.verifier)]
BODY = {"strategy": "baseline", "source_mode": "replay", "pack_id": "starter"}


def request(number):
    return BacktestRunRequest(pack_id="starter", fixture_id=90000000 + number, window_id="w", market_allowlist=[""])


@contextmanager
def opened(url, key=OLD, **given):
    application = Application(url, log_key=key, **given)
    try:
        yield application
    finally:
        application.close()


def size_of(note):
    return checkpoint(open_note(note)[0]).size


class Restored:
    """A store whose backup lacks a run that a published checkpoint has."""

    def __init__(self, folder):
        self.at(folder)
        with opened(self.url, checkpoint_file=self.file) as application:
            self.kept = application.backtests.run(request(0))["run_id"]
            self.early = application.log.checkpoint()
            self.queued = application.deploys.deploy(ALICE, BODY)["run_id"]
            back_up(self.url, folder / "backup.db", self.file)
            self.lost = application.backtests.run(request(1))["run_id"]
            self.bundles = {run_id: application.runs.bundle(run_id) for run_id in (self.kept, self.lost)}
            self.last = application.log.checkpoint()
        for rest in folder.glob("store.db*"):
            rest.unlink()
        (folder / "backup.db").rename(folder / "store.db")

    def at(self, folder):
        self.url, self.file, self.place = f"sqlite:///{folder / 'store.db'}", folder / "newest", str(folder / "store.db")

    def copied(self, folder):
        """Return the same store in another folder."""
        shutil.copytree(Path(self.place).parent, folder, dirs_exist_ok=True)
        there = copy(self)
        there.at(folder)
        return there

    def application(self, key=OLD, **given):
        return opened(self.url, key, checkpoint_file=self.file, **given)

    def restart(self, key=NEW):
        with open_log(self.place) as log:
            return restart_log(log, [self.file.read_text()], key, self.file, 5)


@pytest.fixture(scope="module")
def once_restored(tmp_path_factory):
    return Restored(tmp_path_factory.mktemp("restored"))


@pytest.fixture
def restored(once_restored, tmp_path):
    return once_restored.copied(tmp_path)


def test_log_that_lacks_what_was_published_appends_nothing_signs_nothing_and_is_read(restored):
    with restored.application() as application:
        application.start()
        competition_id = make_competition(application, "baseline")
        for write in (
            lambda: application.backtests.run(request(2)),
            lambda: application.deploys.deploy(ALICE, BODY),
            lambda: application.competitions.start(ALICE, competition_id),
            lambda: application.demo.run(),
            lambda: application.jobs.settle(restored.queued),
            lambda: application.jobs.run_one(),
            lambda: application.log.checkpoint(),
            lambda: application.runs.bundle(restored.kept),
        ):
            with pytest.raises(LogBehindError, match=r"with 5 entries was published, and the log has 3.*clvlab log restart"):
                write()

        assert application.runs.verify(restored.kept)["verified"]
        assert application.backtests.run(request(0))["run_id"] == restored.kept
        assert (application.log.state()["size"], len(application.log.entries()["entries"])) == (3, 3)
        assert application.competitions.state(competition_id)["status"] == "draft"
        assert application.jobs.counts()["queued"] == 1
    assert restored.file.read_text() == restored.last


def test_restarted_log_goes_on_at_once_and_under_its_new_key(restored):
    with restored.application() as before:
        with pytest.raises(LogBehindError):
            before.backtests.run(request(2))
        done, note = restored.restart()
        before.backtests.run(request(2))
        with pytest.raises(LogKeyError, match=r"goes on as log\.example/2"):
            before.log.checkpoint()

    assert (done.index, done.kept, done.before.size) == (3, 3, 5)
    assert restored.file.read_text() == note
    with restored.application(NEW) as after:
        assert after.jobs.run_one()
        assert after.runs.card(restored.queued)["run"]["status"] == "sealed"
        assert after.backtests.run(request(1))["run_id"] == restored.lost
        said = after.log.state()["restarts"]
        assert [(one["index"], orjson.loads(one["entry"])["before"]) for one in said] == [(3, restored.last)]
        assert [one["owner"] for one in after.log.state()["owners"]] == ["anonymous", ALICE]
        assert size_of(after.log.checkpoint()) == size_of(restored.file.read_text()) == 9


def test_bundles_from_before_and_after_a_restart_pass_the_file(restored, tmp_path):
    restored.restart()
    with restored.application(NEW) as application:
        runs = [restored.kept, application.backtests.run(request(2))["run_id"]]
        bundles = [*restored.bundles.values(), *(application.runs.bundle(run_id) for run_id in runs)]

    path = tmp_path / "run.clv"
    for bundle, key in zip(bundles, [OLD, OLD, NEW, NEW], strict=True):
        path.write_bytes(bundle)
        judged = clv_verify.verify(path, {"logs": [str(key.verifier)]}, ["log"], without_witness=True)
        assert not any(judged["checks"].values()), judged


def test_audit_with_checkpoints_and_bundles_from_before_tells_of_the_restart(restored):
    restored.restart()
    with restored.application(NEW) as application:
        application.backtests.run(request(2))
        now = application.log.checkpoint()
    seen = {"early": restored.early, "last": restored.last, "now": now}

    done = audit(restored.place, trust=Trust(logs=BOTH), checkpoints=seen, bundles=restored.bundles)

    assert (done.sound, done.origin, done.size) == (True, "log.example/2", 6), done.broken
    assert [(one.index, one.before.size, one.kept, one.key) for one in done.restarts] == [(3, 5, 3, NEW.verifier)]
    assert len(done.lost) == 3  # the last checkpoint, and those that the bundles are proved under
    assert "of which 3 were kept" in done.lost[0]
    assert (done.checkpoints, done.facts()["restarts"][0]["log"]) == (2, BOTH[1])


def test_audit_finds_a_checkpoint_that_the_restart_does_not_own_up_to(restored):
    with open_log(restored.place) as log:
        _, now = restart_log(log, [_note(OLD, 4)], NEW, None, 5)

    done = audit(restored.place, trust=Trust(logs=BOTH), checkpoints={"mine": restored.last, "now": now})

    assert [one.rule for one in done.broken] == ["mine is not the last checkpoint of 'log.example' that entry 3 names"]


def test_log_that_went_on_otherwise_after_a_restore_is_behind_too_and_keeps_nothing_for_sure(restored):
    with opened(restored.url) as unguarded:
        for number in (2, 3):
            unguarded.backtests.run(request(number))

    with (
        restored.application() as application,
        pytest.raises(LogBehindError, match="which are not the first ones of this log"),
    ):
        application.backtests.run(request(1))
    assert restored.restart()[0].kept == 0
    done = audit(restored.place, checkpoints={"last": restored.last})
    assert (done.sound, len(done.lost)) == (True, 1), done.broken


@pytest.mark.parametrize("content", ["", "no note", "log.example\n1\nAAAA\n\n\u2014 log.example AAAA\n"])
def test_file_that_holds_no_checkpoint_stops_writes_not_the_service(tmp_path, content):
    (tmp_path / "newest").write_text(content)

    with opened(None, checkpoint_file=tmp_path / "newest") as application:
        application.start()
        with pytest.raises(LogBehindError, match="can't be used"):
            application.backtests.run(request(0))
        assert application.leaderboard.rows() == {"rows": []}


def test_checkpoint_of_another_log_or_by_another_key_stops_writes(tmp_path):
    for key in (Signer("other.example", 1, bytes(32)), Signer("log.example", 1, bytes(32))):
        with opened(None, key) as application:
            (tmp_path / "newest").write_text(application.log.checkpoint())
        with opened(None, checkpoint_file=tmp_path / "newest") as application, pytest.raises(LogBehindError):
            application.backtests.run(request(0))


def test_file_that_the_log_extends_stops_nothing_and_never_goes_back(database_url, tmp_path):
    file = tmp_path / "newest"
    with opened(database_url, checkpoint_file=file) as application:
        application.backtests.run(request(0))
        first = application.log.checkpoint()
        assert file.read_text() == first
        application.backtests.run(request(1))
    with opened(database_url, checkpoint_file=file) as application, opened(database_url, checkpoint_file=file) as other:
        application.backtests.run(request(2))
        newest = application.log.checkpoint()
        notes = []
        threads = [Thread(target=lambda one=one: notes.append(one.log.checkpoint())) for one in (application, other) * 4]
        for thread in threads:
            thread.start()
        other.backtests.run(request(3))
        for thread in threads:
            thread.join()

        assert size_of(newest) == 6
        assert len(notes) == 8
        assert size_of(file.read_text()) == max(map(size_of, notes))
    assert audit(database_url, trust=Trust(logs=BOTH), checkpoints={"first": first, "newest": newest}).sound


def test_postgresql_that_lost_its_entries_refuses_until_it_is_restarted(emptied_postgres_url, tmp_path):
    file = tmp_path / "newest"
    with opened(emptied_postgres_url, checkpoint_file=file) as application:
        application.backtests.run(request(0))
        application.log.checkpoint()
        application.backtests.run(request(1))
        last = application.log.checkpoint()
    with psycopg.connect(emptied_postgres_url, autocommit=True) as connection:
        tables = ", ".join(table.name for table in log_entries.metadata.sorted_tables)
        connection.execute(f"TRUNCATE {tables} RESTART IDENTITY CASCADE")  # as a backup from before the first run

    with opened(emptied_postgres_url, checkpoint_file=file) as application:
        with pytest.raises(LogBehindError, match="the log has 0"):
            application.backtests.run(request(1))
        with open_log(emptied_postgres_url) as log:
            done, _ = restart_log(log, [last], NEW, file, 5)
        assert (done.kept, done.before.size) == (0, 4)
        application.backtests.run(request(1))
    with opened(emptied_postgres_url, NEW, checkpoint_file=file) as application:
        assert size_of(application.log.checkpoint()) == 3


def test_restart_is_refused_without_a_cause_a_new_name_and_a_new_key_and_said_once(restored):
    same_seed, witness = Signer("new.example", 1, OLD.seed), Signer("new.example", 4, bytes(32))
    for key in (OLD, Signer(OLD.name, 1, bytes(32)), same_seed, witness):
        with pytest.raises(LogError):
            restored.restart(key)
    with open_log(restored.place) as log:
        for notes in ([restored.early], [], [restored.last, _note(NEW, 7)]):
            with pytest.raises(LogError):
                restart_log(log, notes, NEW, None, 5)

    first = restored.restart()
    again = [restart_log(log, [restored.last], NEW, None, 6) for log in _logs(restored.place)]

    assert [one[0] for one in again] == [first[0]]
    with open_log(restored.place) as log, pytest.raises(LogError, match="ended by an earlier restart"):
        restart_log(log, [restored.last], Signer("third.example", 1, bytes(32)), None, 7)


def _note(signer, size):
    text = f"{signer.name}\n{size}\n{'A' * 43}=\n"
    return f"{text}\n{signer.line(text)}"


def _logs(place):
    with open_log(place) as log:
        yield log


def test_witness_that_saw_more_stops_writes(restored, tmp_path):
    restored.file.unlink()
    (tmp_path / "seen").write_text(restored.last)

    with opened(restored.url, witness=str(tmp_path / "seen")) as application:
        application.start()
        with pytest.raises(LogBehindError, match="with 5 entries was published"):
            application.backtests.run(request(2))


@pytest.mark.parametrize("content", [None, "nothing", _note(NEW, 70), _note(OLD, 70).replace("log.example ", "log.example A")])
def test_witness_that_has_nothing_that_the_log_signed_stops_nothing(tmp_path, content):
    if content is not None:
        (tmp_path / "seen").write_text(content)

    with opened(None, witness=str(tmp_path / "seen")) as application:
        application.start()
        application.backtests.run(request(0))


def test_backup_made_while_others_write_is_whole_and_comes_with_the_newest_checkpoint(tmp_path):
    url, file = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "newest"
    with opened(url, checkpoint_file=file) as application:
        application.backtests.run(request(0))
        note = application.log.checkpoint()
        writing = Thread(target=lambda: [application.backtests.run(request(number)) for number in range(1, 6)])
        writing.start()
        copies = [tmp_path / f"backup-{number}.db" for number in range(3)]
        beside = [back_up(url, copy, file) for copy in copies]
        writing.join()

    for path, checkpointed in zip(copies, beside, strict=True):
        assert checkpointed.read_text() == note
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert audit(str(path), checkpoints={"beside": note}).sound
        with opened(f"sqlite:///{path}", checkpoint_file=checkpointed) as application:
            application.backtests.run(request(9))
    assert not list(tmp_path.glob(".backup*"))


@pytest.mark.parametrize(("url", "said"), [
    ("postgresql+psycopg://clvlab:secret@db.example/clvlab", (
        "cp 'the newest' 'a backup.checkpoint' && pg_dump --format=custom --no-owner --file='a backup' "
        "--dbname=postgresql://clvlab@db.example/clvlab"
    )),
    ("sqlite://", "in memory"),
    ("sqlite:///nowhere.db", "no database at 'nowhere.db'"),
    ("mysql://db.example", "can't be read"),
])  # fmt: skip
def test_backup_of_what_is_no_file_says_what_to_do_instead(url, said):
    with pytest.raises(StoreError) as caught:
        back_up(url, Path("a backup"), Path("the newest"))

    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_backup_is_never_written_over_and_what_failed_leaves_nothing(tmp_path):
    (tmp_path / "no.db").write_bytes(b"no database" * 1000)
    (tmp_path / "there").touch()

    for out in ("there", "new"):
        with pytest.raises(StoreError):
            back_up(f"sqlite:///{tmp_path / 'no.db'}", tmp_path / out)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["no.db", "there"]


def test_file_that_can_not_be_used_stops_writes_and_checkpoints_and_names_no_path(tmp_path):
    (tmp_path / "newest").mkdir()

    with opened(None, checkpoint_file=tmp_path / "newest") as application:
        for act in (lambda: application.backtests.run(request(0)), application.log.checkpoint):
            with pytest.raises(LogBehindError, match="newest published checkpoint can't be used") as caught:
                act()
            assert "newest'" not in str(caught.value)
    with pytest.raises(LogError, match="no folder"):
        Application(log_key=OLD, checkpoint_file=tmp_path / "missing" / "newest")


def test_checkpoint_waits_a_bounded_time_for_another_that_is_being_published(tmp_path, monkeypatch):
    monkeypatch.setattr("clvlab.log.publication._LOCK_S", 0.1)

    with opened(None, checkpoint_file=tmp_path / "newest") as application:
        with lock(tmp_path), pytest.raises(FileLockedError):
            application.log.checkpoint()
        assert size_of(application.log.checkpoint()) == 0
