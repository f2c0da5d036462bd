import subprocess
import sys

import pytest

import clvlab as cl
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


def test_a_first_backtest_loads_what_it_calls_and_little_else():
    loaded = modules_after(
        "import clvlab; clvlab.backtest(clvlab.open_pack('starter'), 'cumulative-drift', fixtures=[90000000])"
    )

    assert not loaded & {"pyarrow", "pydantic_settings", "yaml", "jinja2", "loky", "rich", "typer"}
    assert not loaded & {"clvlab.bets", "clvlab.log", "clvlab.report.cards", "clvlab.sources", "clvlab.agents.isolation.agent"}
    assert len({name for name in loaded if name.partition(".")[0] == "clvlab"}) <= 110  # 272 when every verb loaded all verbs


HELP = [("--help",), ("verify", "--help"), ("packs", "import", "--help"), ("bets", "grade", "--help"), ("log", "--help")]


@pytest.mark.parametrize("words", [("--version",), *HELP], ids=" ".join)
def test_the_version_and_help_load_no_library_of_numbers(words):
    loaded = modules_of(*words)

    assert not loaded & {"msgspec", "numpy", "polars", "pyarrow", "pydantic", "scipy"}
    assert ("typer" in loaded) == (words != ("--version",))


def test_the_command_verify_loads_neither_importers_nor_templates_nor_settings(tmp_path):
    run = cl.backtest("starter", fixtures=[90000000]).run.save(tmp_path)

    loaded = modules_of("verify", str(run))

    assert not loaded & {"asyncio", "pyarrow", "pydantic", "pydantic_settings"}
    assert not loaded & {
        f"clvlab.{name}" for name in ("agents", "bets", "engine", "lab", "log", "packs", "sources", "statistics")
    }


def modules_of(*words):
    """Return the modules that a command has loaded at its end; it must end well."""
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); from clvlab.__main__ import main"
    called = [sys.executable, "-c", f"{code}; sys.argv = {['clvlab', *words]}; main()"]
    return set(subprocess.run(called, capture_output=True, text=True, check=True).stderr.split())


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
