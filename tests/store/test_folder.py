import hashlib
from dataclasses import replace

import pytest

from clvlab.errors import RunConflictError, UnknownRunError
from clvlab.store.folder import read_run, write_run
from tests.factories import make_sealed_run

FILES = ["events.jsonl", "manifest.json", "scores.jsonl"]


@pytest.fixture(scope="module")
def sealed():
    return make_sealed_run()


def test_run_reads_back_as_it_was_written(sealed, tmp_path):
    folder = write_run(sealed, tmp_path / "new" / "runs")

    assert folder == tmp_path / "new" / "runs" / sealed.run_id
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert read_run(folder) == sealed


def test_hashes_are_those_of_the_files(sealed, tmp_path):
    folder = write_run(sealed, tmp_path)

    events, manifest = ((folder / name).read_bytes() for name in ("events.jsonl", "manifest.json"))
    assert sealed.evidence_hash == "sha256:" + hashlib.sha256(events).hexdigest()
    assert sealed.manifest_hash == "sha256:" + hashlib.sha256(manifest).hexdigest()


def test_same_bytes_again_change_nothing(sealed, tmp_path):
    folder = write_run(sealed, tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}

    assert write_run(sealed, tmp_path) == folder

    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@pytest.mark.parametrize("part", ["events", "scores", "manifest"])
def test_other_bytes_under_the_same_id_are_refused_and_nothing_is_written(sealed, tmp_path, part):
    folder = write_run(sealed, tmp_path)

    with pytest.raises(RunConflictError, match=sealed.run_id) as caught:
        write_run(replace(sealed, **{part: b"{}"}), tmp_path)

    assert caught.value.stored == sealed.manifest_hash
    assert read_run(folder) == sealed
    assert [path.name for path in tmp_path.iterdir()] == [sealed.run_id]


def test_refusal_says_where_the_system_held_more_of_agents(sealed, tmp_path):
    write_run(sealed, tmp_path)
    held = b'"isolation":[{"agent_id":"a","held":["calls","files"]}],"kind":"backtest"'

    with pytest.raises(
        RunConflictError, match="there the system restricted nothing of its agents' processes, and here calls, files"
    ):
        write_run(replace(sealed, events=sealed.events.replace(b'"kind":"backtest"', held, 1)), tmp_path)


def test_refusal_says_that_the_same_run_stands_elsewhere_in_a_log(sealed, tmp_path):
    write_run(sealed, tmp_path)
    logged = replace(sealed, manifest=sealed.manifest.replace(b'"commit_index":null', b'"commit_index":0'))

    with pytest.raises(RunConflictError, match="only the manifests differ, as by a place in a run log"):
        write_run(logged, tmp_path)
    with pytest.raises(RunConflictError, match=r"nothing was written$"):
        write_run(replace(sealed, scores=b"{}"), tmp_path)


def test_writing_that_breaks_off_leaves_nothing(sealed, tmp_path):
    unwritable = replace(sealed, manifest="no bytes")

    with pytest.raises(TypeError):
        write_run(unwritable, tmp_path)

    assert list(tmp_path.iterdir()) == []
    assert write_run(sealed, tmp_path).is_dir()


@pytest.mark.parametrize("missing", ["events.jsonl", "manifest.json"])
def test_folder_without_evidence_or_manifest_is_no_run(sealed, tmp_path, missing):
    folder = write_run(sealed, tmp_path)
    (folder / missing).unlink()

    with pytest.raises(UnknownRunError, match="is not a run: "):
        read_run(folder)


def test_missing_scores_read_as_empty(sealed, tmp_path):
    folder = write_run(sealed, tmp_path)
    (folder / "scores.jsonl").unlink()

    assert read_run(folder) == replace(sealed, scores=b"")


def test_relative_path_has_the_name_of_its_folder(sealed, tmp_path, monkeypatch):
    monkeypatch.chdir(write_run(sealed, tmp_path))

    assert read_run(type(tmp_path)(".")).run_id == sealed.run_id


def test_no_folder_is_no_run(tmp_path):
    with pytest.raises(UnknownRunError):
        read_run(tmp_path / "nowhere")
