"""What a user reads where an optional library is missing: one sentence, with a command that any shell takes."""

import ast
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from clvlab.arena import installation
from clvlab.arena.installation import EXTRAS, check_extras
from clvlab.errors import MissingExtraError, install_advice
from tests.length import few
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[1]
WITHOUT = """
import sys
from importlib.abc import MetaPathFinder
class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] == {library!r}:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)
sys.meta_path.insert(0, Missing())
import clvlab as cl
"""
BY_COMMAND = "sys.argv = ['clvlab', *{words!r}]\nfrom clvlab.cli import main\nmain()"
BY_PYTHON = "try:\n    {code}\nexcept cl.errors.MissingLibraryError as error:\n    sys.exit(f'error: {{error}}')"
COMMANDS = [
    ("fastapi", "service serve --dev", "clvlab[service]"),
    ("sqlalchemy", "service backup --out copy.db --database-url sqlite:///a.db", "clvlab[service]"),
    ("mcp", "mcp", "clvlab[arena]"),
    ("solders", "devchain --port 0", "clvlab[anchor]"),
    ("cryptography", "log keygen log.example --out key.txt", "clvlab[anchor]"),
    ("obstore", "packs pull s3://bucket/pack --out pack", "clvlab[remote]"),
]
CALLS = [
    ("sqlalchemy", "cl.Lab()", "clvlab[notebook]"),
    ("httpx2", "cl.Lab('http://127.0.0.1:1')", "clvlab[client]"),
    ("rfc3161_client", "from clvlab.log.stamps import query; query('x')", "clvlab[stamps]"),
    ("matplotlib", "cl.backtest('starter').run.share('card.png')", "matplotlib"),
    ("pandas", "cl.backtest('starter').to_pandas()", "pandas"),
    ("ipywidgets", "cl.backtest('starter').explore().widget", "ipywidgets"),
]


def without(library, then, folder):
    code = WITHOUT.format(library=library) + then
    call = [sys.executable, "-c", code]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode in (1, 2), done.stdout + done.stderr
    return done.stderr


@few(2)
@pytest.mark.parametrize(("library", "words", "requirement"), COMMANDS)
def test_a_command_without_a_library_says_how_to_install_it(library, words, requirement, tmp_path):
    said = without(library, BY_COMMAND.format(words=words.split()), tmp_path)

    error, here = said.splitlines()[-2:]
    assert error.startswith("error: ")
    assert error.endswith(f" needs {library}, which is not installed: {install_advice(requirement)}")
    assert here == f"into this environment: {install_advice(requirement, f'{shlex.quote(sys.executable)} -m pip')}"


@few(2)
@pytest.mark.parametrize(("library", "code", "requirement"), CALLS)
def test_a_call_without_a_library_says_how_to_install_it(library, code, requirement, tmp_path):
    said = without(library, BY_PYTHON.format(code=code), tmp_path)

    assert said.rstrip().endswith(f" needs {library}, which is not installed: {install_advice(requirement)}")


@pytest.mark.parametrize(("extra", "module"), [(extra, module) for extra in EXTRAS for module in extra.modules])
def test_every_library_of_an_extra_is_installed_by_that_extra(extra, module, monkeypatch):
    monkeypatch.setattr(installation, "find_spec", lambda name: None if name == module else object())

    with pytest.raises(MissingExtraError) as caught:
        check_extras(extra.name)

    assert str(caught.value).endswith(f'which is not installed: pip install "clvlab[{extra.name}]"')
    assert extra.command.endswith(f'-m pip install "clvlab[{extra.name}]"')


def test_the_command_reaches_pip_whole():
    words = shlex.split(install_advice("clvlab[service]"))

    assert words == ["pip", "install", "clvlab[service]"]


def test_one_function_writes_the_advice():
    spelt = [
        path.relative_to(ROOT).as_posix()
        for folder in ("clvlab", "service")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " install " in node.value and "pip" in node.value
    ]

    assert set(spelt) <= {"clvlab/errors.py"}
