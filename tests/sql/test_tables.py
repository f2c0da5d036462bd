import polars as pl
import pytest

from clvlab.errors import QueryError
from clvlab.sql import PackTables, query

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
    files = PackTables({"it's": tmp_path / "a's.parquet", "b": tmp_path / "b.parquet"})
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


@pytest.mark.parametrize(
    "statement",
    [
        "copy (select 1 as n) to '{path}' (format parquet, use_tmp_file false)",
        "select n from ticks; copy (select 1 as n) to '{path}' (format parquet, use_tmp_file false)",
        "explain analyze copy (select 1 as n from ticks) to '{path}' (format parquet, use_tmp_file false)",
        "attach '{path}' as ticks",
        "install ticks",
        "set threads = 1",
        "pragma database_list",
        "create table ticks (n int)",
        "select 1; select 2",
    ],
)
def test_all_but_one_select_is_refused_before_a_table_is_made(tmp_path, statement):
    path, made = tmp_path / "ticks.parquet", []
    pl.DataFrame({"n": [7]}).write_parquet(path)
    tables = {"ticks": lambda: made.append("ticks") or PackTables({"pack": path})}

    with pytest.raises(QueryError, match="one SELECT"):
        query(statement.format(path=path), tables)

    assert made == []
    assert pl.read_parquet(path)["n"].to_list() == [7]


def test_a_copy_inside_a_select_writes_nothing(tmp_path):
    path = tmp_path / "ticks.parquet"
    pl.DataFrame({"n": [7]}).write_parquet(path)

    with pytest.raises(QueryError):
        query(
            f"with x as (copy (select 1 as n) to '{path}' (format parquet, use_tmp_file false)) select * from x, ticks",
            {"ticks": lambda: PackTables({"pack": path})},
        )

    assert pl.read_parquet(path)["n"].to_list() == [7]


@pytest.mark.parametrize("statement", ["with a as (select * from numbers) from a", "values (1)", "describe numbers"])
def test_whatever_only_selects_is_answered(statement):
    assert not query(statement, NUMBERS).is_empty()


def test_a_column_that_no_frame_can_hold_is_refused():
    with pytest.raises(QueryError, match="cast it to text"):
        query("select interval 1 day", NUMBERS)
