"""A file that is no run is said to be none, and what it is instead; that is no verdict on a run."""

import sqlite3
import tarfile
import zipfile
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import UnknownRunError
from tests.commands import clvlab
from tests.length import few

STARTER = Path(__file__).parents[2] / "packs" / "starter"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("files")
    calls = ["backtest starter", "bundle latest --out run.clv", "report latest --html sheet.html"]
    for words in (*calls, "share latest --out card.png", "share latest --out card.svg"):
        assert clvlab(place, *words.split())[0] == 0
    (run,) = (place / "runs").iterdir()
    (place / "notes.md").write_text("# Notes\n")
    (place / "empty").touch()
    (place / "other.json").write_text('{"a": 1}')
    (place / "manifest.json").write_text('{"name": "a web app"}')
    (place / "bytes").write_bytes(bytes(range(256)))
    pl.DataFrame({"a": [1]}).write_parquet(place / "odds.parquet")
    with tarfile.open(place / "run.tar", "w") as tar, zipfile.ZipFile(place / "run.zip", "w") as archive:
        tar.add(run, "run")
        archive.write(run / "events.jsonl")
    with tarfile.open(place / "run.tar.gz", "w:gz") as tar:
        tar.add(run, "run")
    with closing(sqlite3.connect(place / "log.db")) as database:
        database.execute("CREATE TABLE a (b)")
    (place / "nothing").mkdir()
    (place / "half").mkdir()
    (place / "half" / "events.jsonl").write_bytes((run / "events.jsonl").read_bytes())
    (place / "part").symlink_to(run / "events.jsonl")
    return place


KINDS = {
    "notes.md": "it is a file of another kind",
    "empty": "it is an empty file",
    "other.json": "it is a file of another kind",
    "manifest.json": "it is a file of another kind",
    "bytes": "it is a file of another kind",
    "odds.parquet": "it is a table of a pack",
    "card.png": "it is an image, without the bytes of its run: ask its sender for the bundle",
    "card.svg": "it is an image, without the bytes of its run: ask its sender for the bundle",
    "sheet.html": "it is a web page, without the bytes of its run: ask its sender for the bundle",
    "run.zip": "it is an archive, to be unpacked first, with the folder of the run to be named then",
    "run.tar": "it is a file of another kind",
    "run.tar.gz": "it is an archive, to be unpacked first, with the folder of the run to be named then",
    "log.db": "it is a database, which the command 'log audit' checks if it is a run log",
    "nothing": "the folder is empty",
    "half": "manifest.json is missing in the folder",
    "runs": "the folder holds runs, such as run_",
    str(STARTER): "it is the folder of a pack, which clvlab.open_pack(...) opens and the command 'packs verify' checks",
}


@few(6)
@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_verify_says_that_a_file_is_not_a_run_and_what_it_is(folder, name, kind):
    code, out, err = clvlab(folder, "verify", name)

    assert (code, out) == (2, "")
    assert err.startswith(f"error: '{name}' is not a run: {kind}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_python_says_the_same(folder, name, kind):
    with pytest.raises(UnknownRunError) as caught:
        cl.open_run(folder / name)

    assert f" is not a run: {kind}" in str(caught.value)


def test_one_file_of_a_run_names_its_folder(folder):
    (run,) = (folder / "runs").iterdir()

    code, _, err = clvlab(folder, "verify", f"runs/{run.name}/scores.jsonl")

    assert (code, f"it is one file of a run folder: name the folder 'runs/{run.name}'" in err) == (2, True)


def test_a_bundle_that_is_cut_short_says_so(folder):
    whole = (folder / "run.clv").read_bytes()
    (folder / "cut.clv").write_bytes(whole[:-1])

    code, _, err = clvlab(folder, "verify", "cut.clv")

    assert code == 2
    assert err.startswith(
        f"error: 'cut.clv' is not a run: it is a bundle that is cut short, with {len(whole) - 1:,} of {len(whole):,} bytes"
    )


def test_a_damaged_bundle_is_still_a_bundle_that_is_damaged(folder):
    damaged = folder / "damaged.clv"
    damaged.write_bytes((folder / "run.clv").read_bytes() + b"!")

    code, _, err = clvlab(folder, "verify", damaged)

    assert (code, "is not a run" in err) == (2, False), err
    assert "bytes follow" in err, err


@pytest.mark.parametrize("options", [(), ("--decisions", 2), ("--json",), ("--seq", 1)])
def test_show_reads_a_bundle_as_it_reads_a_folder(folder, options):
    assert clvlab(folder, "show", "run.clv", *options) == clvlab(folder, "show", "latest", *options)
