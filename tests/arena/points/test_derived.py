import warnings

import polars as pl
import pytest

from clvlab.runs.search.sums import derived_file, read_derived

FRAME = pl.DataFrame({"fixture_id": [1, 2], "clv_sums": [10.0, -3.5]})
CONTENT = derived_file(FRAME, "a/b.parquet")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "b.parquet"


def test_a_file_is_read_back_as_it_was_written(path):
    path.write_bytes(CONTENT)

    assert read_derived(path, "a/b.parquet").equals(FRAME)
    assert pl.read_parquet(path).equals(FRAME)


def test_no_file_is_nothing(path):
    assert read_derived(path, "a/b.parquet") is None


def test_a_file_of_another_owner_is_not_read(path):
    path.write_bytes(CONTENT)

    with pytest.warns(UserWarning, match="belongs to something else"):
        assert read_derived(path, "a/c.parquet") is None


@pytest.mark.parametrize("bit", [1, 0x80])
def test_a_file_with_any_flipped_bit_is_not_read(path, bit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for place in range(len(CONTENT)):
            path.write_bytes(CONTENT[:place] + bytes([CONTENT[place] ^ bit]) + CONTENT[place + 1 :])

            assert read_derived(path, "a/b.parquet") is None, place


def test_a_file_that_was_cut_short_or_lengthened_is_not_read(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for content in (*(CONTENT[:length] for length in range(len(CONTENT))), CONTENT + b"\0", CONTENT + CONTENT):
            path.write_bytes(content)

            assert read_derived(path, "a/b.parquet") is None, len(content)


def test_a_folder_in_a_files_place_is_not_read(path):
    path.mkdir()

    with pytest.warns(UserWarning, match="computed again"):
        assert read_derived(path, "a/b.parquet") is None
