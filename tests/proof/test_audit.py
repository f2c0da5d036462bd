import ast
import gc
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from clvlab.proof.closure import audit, package_folder, violations


@pytest.fixture
def package(tmp_path):
    """Package folder whose trust folders are clean."""
    for name in ("law", "proof"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("import polars\n")
    (tmp_path / "errors.py").write_text("")
    return tmp_path


def test_installed_package_is_clean():
    assert audit() == ()
    assert (package_folder() / "proof" / "clv_verify.py").is_file()


def test_clean_folder_passes(package):
    assert audit(package) == ()


@pytest.mark.parametrize("name", ["law", "proof", "errors.py"])
def test_missing_part_fails_closed(package, name):
    (package / name).rename(package / "elsewhere")

    assert audit(package) == (f"{name} is missing",)


def test_missing_package_fails_closed(package):
    assert audit(package / "nowhere")


@pytest.mark.parametrize(
    "source",
    [
        "import openai",
        "import openai as polars",
        "import polars, anthropic",
        "from openai import OpenAI as Decimal",
        "import openai.types",
        "def lazily():\n    import litellm",
        "try:\n    import agno\nexcept ImportError:\n    agno = None",
        "if False:\n    import some_vendor_of_tomorrow",
        "class A:\n    from httpx import get",
        "import importlib\nimportlib.import_module('openai')",
        "from importlib import import_module as polars",
        "__import__('openai')",
        "load = __import__",
        "__builtins__['__import__']('openai')",
        "import sys\nsys.modules['openai']",
        "import sys\nsys.meta_path.append(1)",
        "getattr(__builtins__, '__imp' + 'ort__')",
        "eval('1')",
        "exec('import openai')",
        "compile('import openai', '', 'exec')",
        "globals()['x']",
        "().__class__.__base__.__subclasses__()",
        "f.__globals__['x']",
        "import polars\npolars.importlib",
        "import urllib.request",
        "import subprocess",
        "import os",
        "import builtins",
        "import ctypes",
        "from clvlab.engine import run",
        "from clvlab import agents",
        "import clvlab.packs",
        "from ..packs import catalog",
        "from .. import engine",
        "import lawyer",
        "from clvlab.lawless import x",
        "not python at all",
        "x = '\\0'\n\0",
        "x = " + "(" * 5_000,
        "import json\njson" + ".x" * 2_500,
        "x = " + "-" * 50_000 + "1",
        # a module that an allowed one holds
        "from json import codecs",
        "from pathlib import os",
        "from pathlib import os as Path",
        "from argparse import _sys",
        "from polars import io",
        "from polars import *",
        "from clvlab.law.tape import *",
        "from pyarrow import flight",
        "from concurrent.futures import thread",
        "import json.decoder",
        "import json\njson.codecs.open('x')",
        "import pathlib\npathlib.os.system('x')",
        "import pathlib as p\np.os.system('x')",
        "import enum\nenum.sys",
        "import polars as pl\npl.subprocess.run('x')",
        "import polars as pl\npl.io.cloud",
        "import pyarrow as pa\npa.flight",
        "import concurrent.futures\nconcurrent.futures.thread.os",
        "import concurrent.futures as futures\nfutures.process",
        "import json\nheld = json\nheld.codecs",
        "import json\n[json][0].codecs",
        "import json\nmatch json:\n    case object(codecs=x):\n        pass",
        "import json\ndef f(x=json):\n    return x.codecs",
        "if x:\n    import json as x\nelse:\n    from . import seal as x\nx.codecs",
        "from pathlib import Path\nPath.parser.os.system('x')",
        "from pathlib import Path\nPath._flavour",
        # a name of an allowed module that hands over others
        "from sys import modules",
        "from sys import modules as m",
        "from sys import meta_path",
        "import sys as s\ns.modules",
        "import sys\nsys.__dict__['modules']",
        "import sys\nsys._getframe()",
        "from operator import attrgetter",
        "from functools import partial",
        "from typing import get_type_hints",
        "from dataclasses import make_dataclass",
        "from polars import read_database_uri",
        "import polars as pl\npl.scan_parquet('https://example.com')",
        # roads to the built-in functions
        "from builtins import getattr as g",
        "print.__self__",
        "object.__getattribute__(f, 'x')",
        "type(f).__getattribute__(f, 'x')",
        "(x for x in ()).gi_frame.f_builtins",
        "match f:\n    case object(__globals__=x):\n        pass",
        "f.__code__",
        "x.__reduce_ex__(4)",
        "__spec__.loader",
        "__path__.append('x')",
        "breakpoint()",
        "help()",
    ],
)
def test_reaching_out_is_found(package, source):
    (package / "law" / "clv.py").write_text(source + "\n")

    found = audit(package)

    assert found
    assert all(violation.startswith("law/clv.py") for violation in found)


@pytest.mark.parametrize(
    "source",
    [
        "from clvlab.law.clv import scores",
        "from clvlab import law",
        "from clvlab.errors import EvidenceError",
        "from . import canonical",
        "from .canonical import sha256",
        "import polars as pl\nimport orjson\nfrom pathlib import Path",
        "# import openai\nname = 'import openai'",
        "from concurrent import futures\nfutures.ThreadPoolExecutor(1)",
        "from collections import abc\nabc.Mapping",
        "import concurrent.futures\nconcurrent.futures.ThreadPoolExecutor(1)",
        "import msgspec\nmsgspec.json.Decoder",
        "import polars as pl\npl.exceptions.PolarsError",
        "import polars as pl\npl.col('x').struct.field('y')",
        "import polars as pl\npl.DataFrame().select(pl.struct('x'))",
        "class A:\n    def f(self):\n        return self._x",
    ],
)
def test_own_modules_and_the_allowed_ones_are_fine(source):
    assert violations(source, "proof/seal.py") == []


@pytest.mark.parametrize(
    "source",
    [
        "from clvlab.law.tape import pl",
        "from clvlab.law.tape import pl as polars",
        "from ..law import tape\ntape.pl.subprocess",
        "import clvlab.law.tape\nclvlab.law.tape.pl.subprocess",
        "import clvlab.law.tape as t\nt.pl",
        "from clvlab.law import tape\nheld = tape",
        "from clvlab.law.missing import x",
        "from clvlab.law.__pycache__ import tape",
        "import clvlab\nclvlab.engine",
    ],
)
def test_module_is_not_taken_through_one_of_our_own(package, source):
    (package / "law" / "tape.py").write_text("import polars as pl\nclass Tape: ...\n")
    (package / "proof" / "seal.py").write_text("from clvlab.law import tape\ntape.Tape()\n")
    assert audit(package) == ()

    (package / "proof" / "seal.py").write_text(source + "\n")

    assert {violation.split(":")[0] for violation in audit(package)} == {"proof/seal.py"}


def test_source_is_read_in_the_encoding_that_it_names(package):
    (package / "law" / "clv.py").write_bytes(b"# coding: utf-7\n# +AAo-import openai\n")

    assert audit(package) == ("law/clv.py:3: openai",)


@pytest.mark.parametrize("name", ["native.so", "notes.txt", "cached.pyc", "deep/native.so"])
def test_file_that_is_no_source_is_found(package, name):
    path = package / "proof" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\0")

    assert audit(package) == (f"proof/{name}: only Python sources may stand in a trust folder",)


def test_change_after_an_audit_is_seen(package):
    assert audit(package) == ()

    (package / "errors.py").write_text("import openai\n")

    assert audit(package) == ("errors.py:1: openai",)


def test_new_folder_below_a_trust_folder_is_audited(package):
    (package / "law" / "deep").mkdir()
    (package / "law" / "deep" / "a.py").write_text("import openai\n")

    assert audit(package) == ("law/deep/a.py:1: openai",)


def test_another_parser_does_not_disturb_an_audit(package):
    shutil.copy(package_folder() / "proof" / "closure.py", package / "proof" / "twin.py")

    def parse(phase, info):  # noqa: ARG001
        ast.parse("1")

    gc.callbacks.append(parse)  # as a thread that runs while cycles are collected, whatever it imports or shows
    try:
        found = audit(package)
    finally:
        gc.callbacks.remove(parse)

    assert not [one for one in found if "not Python" in one]
    assert gc.isenabled()


def test_audits_at_once_do_not_disturb_each_other(tmp_path):
    folders = [tmp_path / str(number) for number in range(8)]
    for folder in folders:
        for name in ("law", "proof"):
            shutil.copytree(package_folder() / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(package_folder() / "errors.py", folder)

    def give_way(phase, info):  # noqa: ARG001
        time.sleep(0)

    gc.callbacks.append(give_way)  # as a profiler or a test runner may: threads take turns inside ast.parse
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(audit, folders))
    finally:
        gc.callbacks.remove(give_way)

    assert set(found) == {()}
