"""Evidence has the same bytes whatever the number of threads, and with the oldest Polars that the project allows."""

import subprocess
import sys

import pytest

from tests.matrix import Cell, ends_of_polars, with_polars

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_one_thread_and_sixteen_seal_equal_bytes():
    own = ends_of_polars()[1]

    assert len({Cell(sys.executable, (), HERE, own, threads).digest() for threads in (1, 16)}) == 1


@pytest.mark.long
def test_the_oldest_polars_on_one_thread_seals_the_bytes_of_the_newest_on_sixteen(tmp_path):
    oldest, newest = ends_of_polars()
    try:
        path = with_polars(oldest, tmp_path)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"Polars {oldest} can't be had here: {error.stderr.decode()[-200:]}")

    cells = (Cell(sys.executable, path, HERE, oldest, 1), Cell(sys.executable, (), HERE, newest, 16))
    assert len({cell.digest() for cell in cells}) == 1
