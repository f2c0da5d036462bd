"""A reader's records of verifications: the list of runs shows them, and nothing else ever does."""

import errno
import json
import os
import shutil
from datetime import UTC, datetime

import pytest

import clvlab as cl
from clvlab.report.run_list import listed_run
from clvlab.runs import verdicts
from clvlab.runs.versions import judge
from clvlab.words import local_minute
from tests.commands import clvlab
from tests.length import few
from tests.service.serving import api


@pytest.fixture
def folder(tmp_path):
    assert clvlab(tmp_path, "backtest", "starter")[0] == 0
    return tmp_path


def run_in(folder):
    (run,) = (folder / "runs").glob("run_*")
    return run


def word(folder):
    return verdicts.word_of(listed_run(run_in(folder)).record)


def shown(folder):
    """The last cells of the only run in the list."""
    code, out, _ = clvlab(folder, "runs")
    assert code == 0
    first, second = out.splitlines()[1:3]
    place = out.index("verified")
    return first[place:].strip(), second[place:].strip()


def test_the_list_shows_what_verify_found_when_and_by_which_version(folder):
    assert shown(folder) == ("not yet", "")
    before = datetime.now(UTC)

    assert clvlab(folder, "verify", "latest")[0] == 0

    (row,) = json.loads(clvlab(folder, "runs", "--json")[1])
    said = row["last_verification"]
    when = datetime.fromisoformat(said.pop("when"))
    assert said == {"passed": True, "failed": [], "by": judge(), "same_bytes": True}
    assert before.replace(microsecond=0) <= when <= datetime.now(UTC)
    assert row["verified"] is None  # by this call, which did not ask for a verification
    assert shown(folder) == ("yes", local_minute(when))


@few(2)
@pytest.mark.parametrize(
    "name", ["events.jsonl", "scores.jsonl", "manifest.json", "receipts.jsonl", "view.json", "anchor.json"]
)
def test_other_bytes_are_not_the_verified_ones_and_the_same_bytes_are_again(folder, name):
    file = run_in(folder) / name
    clvlab(folder, "verify", "latest")
    old = file.read_bytes() if file.exists() else None

    file.write_bytes((old or b"{}\n") + b" ")
    assert word(folder) == "changed since"
    file.unlink() if old is None else file.write_bytes(old)
    assert word(folder) == "yes"


def test_files_that_no_verification_reads_change_nothing(folder):
    clvlab(folder, "verify", "latest")
    (run_in(folder) / "provider-proofs.jsonl").write_text("{}")

    assert word(folder) == "yes"


def test_a_failed_verification_is_kept_with_its_checks_and_only_verify_sets_the_exit_status(folder):
    scores = run_in(folder) / "scores.jsonl"
    scores.write_bytes(b"".join(scores.read_bytes().splitlines(keepends=True)[1:]))

    assert clvlab(folder, "verify", "latest")[0] == 1

    assert shown(folder)[0] == "NO"
    assert listed_run(run_in(folder)).record.failed == ("metrics_recomputed",)
    assert clvlab(folder, "runs", "--verify")[0] == 1


def test_an_optional_check_counts(folder, monkeypatch):
    monkeypatch.setattr("clvlab.cli.proof.further", lambda *_, **__: {"replay": (False, "other bytes")})

    assert clvlab(folder, "verify", "latest", "--replay")[0] == 1
    assert listed_run(run_in(folder)).record.failed == ("replay",)


def test_a_list_with_verify_records_too(folder):
    assert clvlab(folder, "runs", "--verify")[0] == 0
    assert word(folder) == "yes"


def test_a_record_that_came_with_a_copied_folder_does_not_count(folder):
    clvlab(folder, "verify", "latest")
    shutil.copytree(folder / "runs", folder / "sent")

    code, out, _ = clvlab(folder, "runs", "--runs", "sent")

    assert (code, "not yet" in out) == (0, True)


@few(3)
@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'"x"', b"\xff", b'{"schema": "clvlab-verdict/1", "place": 1}'])
def test_a_record_that_cannot_be_read_is_none(folder, content):
    clvlab(folder, "verify", "latest")
    (record,) = (folder / "runs" / ".verdicts").iterdir()
    record.write_bytes(content)

    assert word(folder) == "not yet"


@few(2)
@pytest.mark.parametrize("name", ["when_ms", "by", "failed", "bytes", "passed"])
def test_a_record_that_lacks_a_field_is_none(folder, name):
    clvlab(folder, "verify", "latest")
    (record,) = (folder / "runs" / ".verdicts").iterdir()
    stated = json.loads(record.read_bytes())
    del stated[name]
    record.write_text(json.dumps(stated))

    assert word(folder) == "not yet"


IN_ITS_PLACE = {
    "a folder": lambda record, _: record.mkdir(),
    "a pipe": lambda record, _: os.mkfifo(record),
    "a huge file": lambda record, _: record.write_bytes(bytes((1 << 20) + 1)),
    "a time after all clocks": lambda record, stated: record.write_text(json.dumps(stated | {"when_ms": 10**20})),
}


def test_a_list_outlives_what_lies_in_place_of_a_record(folder):
    clvlab(folder, "verify", "latest")
    (record,) = (folder / "runs" / ".verdicts").iterdir()
    stated = json.loads(record.read_bytes())

    for name, put in IN_ITS_PLACE.items():
        record.rmdir() if record.is_dir() else record.unlink()
        put(record, stated)
        assert (name, word(folder)) == (name, "not yet")


def test_a_record_of_another_user_does_not_count(folder, monkeypatch):
    clvlab(folder, "verify", "latest")
    own = os.geteuid()

    monkeypatch.setattr(os, "geteuid", lambda: own + 1)

    assert word(folder) == "not yet"


def test_a_link_that_came_with_runs_of_others_leads_no_record_over_another_file(folder):
    (folder / f"{run_in(folder).name}.json").write_text("mine")
    (folder / "runs" / ".verdicts").symlink_to(folder)

    code, out, err = clvlab(folder, "verify", "latest")

    assert (code, "verified: the seal is intact" in out) == (0, True)
    assert err.startswith("note: this verdict is not kept")
    assert (folder / f"{run_in(folder).name}.json").read_text() == "mine"
    assert word(folder) == "not yet"


def test_a_verdict_stands_where_no_record_has_room(folder):
    records, run = folder / "runs" / ".verdicts", run_in(folder)
    records.touch()
    assert cl.open_run(run).verify().passed
    assert word(folder) == "not yet"

    records.unlink()
    run = run.rename(run.with_name("run_" + "x" * 250))
    assert cl.open_run(run).verify().passed
    assert word(folder) == "not yet"


def test_a_run_that_cannot_be_read_any_more_is_a_row_of_the_list(folder, monkeypatch):
    clvlab(folder, "verify", "latest")

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    for reader in ("clvlab.runs.verdicts.file_bytes", "clvlab.store.folder.file_bytes_or_none"):
        monkeypatch.setattr(reader, refuse)

    for verify in (False, True):
        row = listed_run(run_in(folder), verify=verify)
        assert (row.record, "Permission denied" in row.fault) == (None, True)


def test_nothing_of_a_record_enters_a_run_or_its_bundle(folder):
    before = {path.name: path.read_bytes() for path in run_in(folder).iterdir()}
    assert clvlab(folder, "bundle", "latest", "--out", "before.clv")[0] == 0

    clvlab(folder, "verify", "latest")

    assert {path.name: path.read_bytes() for path in run_in(folder).iterdir()} == before
    assert clvlab(folder, "bundle", "latest", "--out", "after.clv")[0] == 0
    assert (folder / "after.clv").read_bytes() == (folder / "before.clv").read_bytes()


def test_a_bundle_leaves_no_record(folder):
    clvlab(folder, "bundle", "latest", "--out", "run.clv")

    assert clvlab(folder, "verify", "run.clv")[0] == 0
    assert sorted(path.name for path in folder.iterdir()) == ["run.clv", "runs"]
    assert word(folder) == "not yet"


def test_where_nothing_can_be_written_the_verdict_stands_and_a_note_says_that_it_is_not_kept(folder, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(verdicts, "replace_file", refuse)

    code, out, err = clvlab(folder, "verify", "latest")

    assert (code, "verified: the seal is intact" in out) == (0, True)
    assert err.startswith("note: this verdict is not kept")
    assert word(folder) == "not yet"


def test_a_full_disk_is_an_error(folder, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(verdicts, "replace_file", refuse)

    assert clvlab(folder, "verify", "latest")[0] == 2


def test_bytes_that_change_during_a_verification_are_not_the_verified_ones(folder):
    keep = verdicts.keeper(run_in(folder))
    found = cl.open_run(run_in(folder)).verify().source
    (run_in(folder) / "receipts.jsonl").write_bytes(b"")
    (folder / "runs" / ".verdicts" / f"{run_in(folder).name}.json").unlink()

    assert keep(found) is None
    assert word(folder) == "not yet"


class TestInPython:
    def test_a_run_of_a_folder_is_recorded_for_the_list(self, folder):
        cl.open_run(run_in(folder)).verify()

        assert word(folder) == "yes"

    @pytest.mark.parametrize("file", [None, "lab.db"])
    def test_a_laboratory_lists_its_verdicts(self, tmp_path, file):
        with cl.Lab(file and tmp_path / file) as lab:
            run, other = lab.backtest("starter"), lab.backtest("starter", "cumulative-drift")
            found = lab.verify(run)

            words = dict(lab.runs().frame.select("run_id", "verified").iter_rows())
            assert found.passed
            assert words == {run.run.run_id: "yes", other.run.run_id: "not yet"}
            assert lab.sql("select count(verified_at) from runs").frame.item() == 1

    def test_a_laboratory_keeps_them_in_a_folder_of_its_file(self, tmp_path):
        with cl.Lab(tmp_path / "lab.db") as lab:
            lab.verify(lab.backtest("starter"))
        with cl.Lab(tmp_path / "lab.db") as lab:
            assert lab.runs().frame["verified"].to_list() == ["yes"]

    def test_what_a_service_found_is_of_the_hashes_that_it_states(self, tmp_path):
        with api(tmp_path) as service, cl.Lab(service.url, token=service.token()) as lab:
            run = lab.backtest("starter")
            assert lab.runs().frame["verified"].to_list() == ["not yet"]
            lab.verify(run)
            assert lab.runs().frame["verified"].to_list() == ["yes"]
