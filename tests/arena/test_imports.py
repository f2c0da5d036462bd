"""Several imports at once: the same packs, whoever reads the files."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import clvlab as cl
from clvlab.base import parallel
from clvlab.errors import PackFormatError, SourceError

NAMES = ["may", "june", "july"]
ROWS = "fixture,time,market,side,odds\n" + "".join(
    f"match {match},2026-03-01T1{hour}:00Z,WINNER||,{side},{odds + hour / 100}\n"
    for match in range(3) for hour in range(9) for side, odds in (("home", 2.1), ("away", 1.8))
)  # fmt: skip


@pytest.fixture
def files(tmp_path):
    for name in NAMES:
        (tmp_path / f"{name}.csv").write_text(ROWS.replace("match", f"{name} match"))
    return tmp_path


@pytest.fixture
def far(monkeypatch):
    """An executor that gets every import but the first."""
    monkeypatch.setattr(parallel, "_ALONE_S", 1e-9)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


def asked(files, out):
    return {files / out / name: files / f"{name}.csv" for name in NAMES}


def test_packs_of_other_processes_are_those_of_this_one(files, far):
    there = cl.imports("csv", asked(files, "there"), executor=far)
    here = [cl.import_odds("csv", files / f"{name}.csv", files / "here" / name) for name in NAMES]

    assert [pack.pack_id for pack in there] == NAMES
    assert [pack.content_hash for pack in there] == [pack.content_hash for pack in here]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_file_that_cannot_be_read_is_named_and_the_packs_before_it_stay(files, elsewhere, request):
    (files / "june.csv").write_text(ROWS.replace("1.8", "none"))
    executor = request.getfixturevalue("far") if elsewhere else None

    with pytest.raises(SourceError, match=r"june\.csv:3: "):
        cl.imports("csv", asked(files, "packs"), executor=executor)

    assert cl.open_pack(files / "packs" / "may").pack_id == "may"
    assert not (files / "packs" / "june").exists()


def test_progress_is_told_by_none(files, far):
    said = []

    cl.imports("csv", asked(files, "packs"), executor=far, progress=said.append)

    assert said == []


def test_two_packs_in_one_folder_are_refused_before_a_file_is_read(files):
    with pytest.raises(PackFormatError, match=r"two packs would stand in '.*may'"):
        cl.imports("csv", {files / "may": files / "may.csv", files / "june" / ".." / "may": files / "june.csv"})

    assert not (files / "may").exists()
