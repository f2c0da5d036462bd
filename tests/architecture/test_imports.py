import subprocess
import sys

import pytest


def modules_after(statement):
    code = f"import sys; {statement}; print(' '.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_loads_no_heavy_library():
    loaded = modules_after("import clvlab")

    assert not loaded & {"duckdb", "fastapi", "polars", "pyarrow", "numpy", "pydantic"}


def test_a_backtest_loads_neither_database_nor_service_nor_widgets():
    loaded = modules_after("import clvlab; clvlab.backtest('starter')")

    assert not loaded & {"alembic", "duckdb", "fastapi", "ipywidgets", "matplotlib", "psycopg", "solana", "sqlalchemy"}


def test_public_names_are_there_and_others_are_not():
    import clvlab

    assert all(getattr(clvlab, name) for name in clvlab.__all__)
    assert set(clvlab.__all__) <= set(dir(clvlab))
    with pytest.raises(AttributeError, match="nothing"):
        _ = clvlab.nothing
