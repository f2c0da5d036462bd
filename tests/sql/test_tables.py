import polars as pl
import pytest

from clvlab.errors import QueryError
from clvlab.sql import PackFiles, query

NUMBERS = {"numbers": lambda: pl.DataFrame({"n": [1, 2, 3]})}


def test_a_table_is_made_only_if_the_statement_names_it():
    made = []

    def maker(name):
        return lambda: made.append(name) or pl.DataFrame({"n": [1]})

    query("SELECT * FROM Used", {"used": maker("used"), "unused": maker("unused")})

    assert made == ["used"]


def test_a_sum_of_integers_is_an_integer():
    assert query("select sum(n) as total from numbers", NUMBERS).schema == {"total": pl.Int64}
    assert query("select sum(n) as total from numbers where n > 9", NUMBERS)["total"].to_list() == [None]


def test_a_sum_beyond_64_bits_keeps_its_digits():
    tables = {"large": lambda: pl.DataFrame({"n": [2**62, 2**62]})}

    assert int(query("select sum(n) from large", tables).item()) == 2**63


def test_files_of_packs_are_one_table_with_their_pack(tmp_path):
    files = PackFiles({"it's": tmp_path / "a's.parquet", "b": tmp_path / "b.parquet"})
    for number, path in enumerate(files.values()):
        pl.DataFrame({"n": [number]}).write_parquet(path)

    found = query("select pack_id, n from ticks order by n", {"ticks": lambda: files})

    assert found.rows() == [("it's", 0), ("b", 1)]


@pytest.mark.parametrize(
    "statement", ["", " -- nothing", "selct 1", "select * from missing", "select * from numbers where m = 1"]
)
def test_what_can_t_be_answered_is_refused_and_the_tables_are_named(statement):
    with pytest.raises(QueryError):
        query(statement, NUMBERS)


def test_no_file_is_read_or_written(tmp_path):
    (tmp_path / "other.parquet").touch()
    for statement in (
        f"select * from read_parquet('{tmp_path / 'other.parquet'}')",
        f"copy numbers to '{tmp_path / 'out.csv'}'",
        f"attach '{tmp_path / 'new.db'}' as new",
        "install httpfs",
        "set enable_external_access = true",
    ):
        with pytest.raises(QueryError):
            query(statement, NUMBERS)

    assert [path.name for path in tmp_path.iterdir()] == ["other.parquet"]
