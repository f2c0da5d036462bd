import subprocess
import sys

import pytest

from clvlab.arena.installation import EXTRAS

OF_EXTRAS = {name for extra in EXTRAS for name in extra.modules} | {"starlette"}


def modules_after(statement):
    code = f"import sys; {statement}; print(' '.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_loads_no_heavy_library():
    loaded = modules_after("import clvlab")

    assert not loaded & {"duckdb", "fastapi", "polars", "pyarrow", "numpy", "pydantic"}


def test_a_backtest_loads_neither_database_nor_service_nor_widgets():
    loaded = modules_after("import clvlab; clvlab.backtest('starter')")

    assert not loaded & {"alembic", "duckdb", "fastapi", "ipywidgets", "matplotlib", "psycopg", "solana", "sqlalchemy"}


def without(*names):
    """Return a statement after which modules can't be imported."""
    return "; ".join(f"sys.modules[{name!r}] = None" for name in names)


def test_the_command_line_needs_no_extra_and_no_file_locks():
    missing = without(*sorted(OF_EXTRAS | {"fcntl"}))

    loaded = modules_after(
        f"{missing}; import clvlab.cli, clvlab.sources.betfair.live; clvlab.backtest('starter').run.verify()"
    )

    assert {"clvlab.cli.app", "clvlab.sources.betfair.live"} <= loaded


def test_the_client_of_a_service_needs_no_store():
    missing = without(*sorted(OF_EXTRAS - {"httpx2", "websockets"}))

    assert "clvlab.client.client" in modules_after(f"{missing}; import clvlab.client.client, clvlab.lab.laboratory.remote")


def test_public_names_are_there_and_others_are_not():
    import clvlab

    assert all(getattr(clvlab, name) for name in clvlab.__all__)
    assert set(clvlab.__all__) <= set(dir(clvlab))
    with pytest.raises(AttributeError, match="nothing"):
        _ = clvlab.nothing
