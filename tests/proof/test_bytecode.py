import marshal
import py_compile
import subprocess
import sys
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path
from py_compile import PycInvalidationMode as Mode

import pytest

from clvlab.proof.closure import audit

SOURCE = 'def clv(entry, close):\n    """CLV of a position."""\n    assert entry\n    return entry - close\n'
OTHER = SOURCE.replace("entry - close", "close - entry")
DIFFERS = ("law/clv.py: Python would run bytecode that is not compiled from it",)


@pytest.fixture
def source(tmp_path):
    """Module of a package whose trust folders are clean."""
    for name in ("law", "proof"):
        (tmp_path / name).mkdir()
    (tmp_path / "errors.py").write_text("")
    path = tmp_path / "law" / "clv.py"
    path.write_text(SOURCE)
    return path


def cache(source, content, optimization=""):
    path = Path(cache_from_source(str(source), optimization=optimization))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def timestamped(source, text, *, mtime=0, optimize=0):
    """Bytecode of other text under the time and size of the source."""
    stat = source.stat()
    header = MAGIC_NUMBER + bytes(4) + (int(stat.st_mtime) + mtime).to_bytes(4, "little") + stat.st_size.to_bytes(4, "little")
    return header + marshal.dumps(compile(text, "x", "exec", optimize=optimize))


def hashed(source, text, flags, of=None):
    header = MAGIC_NUMBER + bytes([flags, 0, 0, 0]) + source_hash(of or source.read_bytes())
    return header + marshal.dumps(compile(text, "x", "exec"))


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("optimize", [0, 1, 2])
def test_bytecode_of_the_source_passes(source, mode, optimize):
    py_compile.compile(str(source), dfile="/elsewhere/clv.py", optimize=optimize, invalidation_mode=mode)

    assert audit(source.parent.parent) == ()


def test_bytecode_compiled_without_columns_passes(source):
    subprocess.run([sys.executable, "-X", "no_debug_ranges", "-m", "py_compile", str(source)], check=True)

    assert Path(cache_from_source(str(source))).is_file()
    assert audit(source.parent.parent) == ()


def audited_with(flag, package):
    """Audit in an interpreter that optimises, which has a cache of its own."""
    code = "import pathlib, sys; from clvlab.proof.closure import audit; print(audit(pathlib.Path(sys.argv[1])))"
    done = subprocess.run([sys.executable, flag, "-c", code, package], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_other_bytecode_under_the_time_of_the_source_is_found(source):
    cache(source, timestamped(source, OTHER))

    assert audit(source.parent.parent) == DIFFERS


@pytest.mark.parametrize(("flag", "level"), [("-O", 1), ("-OO", 2)])
def test_optimised_bytecode_is_judged_where_it_runs(source, flag, level):
    py_compile.compile(str(source), optimize=level)
    assert audited_with(flag, source.parent.parent) == "()"

    cache(source, timestamped(source, OTHER, optimize=level), optimization=level)

    assert audited_with(flag, source.parent.parent) == str(DIFFERS)
    assert audit(source.parent.parent) == ()


@pytest.mark.parametrize("flags", [0b01, 0b11])
def test_other_bytecode_under_the_hash_of_the_source_is_found(source, flags):
    cache(source, hashed(source, OTHER, flags))

    assert audit(source.parent.parent) == DIFFERS


def test_unchecked_bytecode_of_an_older_source_is_found(source):
    py_compile.compile(str(source), invalidation_mode=Mode.UNCHECKED_HASH)
    assert audit(source.parent.parent) == ()

    source.write_text(OTHER + "\n")

    assert audit(source.parent.parent) == DIFFERS


@pytest.mark.parametrize(
    "changed",
    [
        SOURCE.replace("clv(", "CLV("),
        SOURCE.replace("entry - close", "entry - close + 1"),
        SOURCE.replace("entry - close", "entry - +close"),
        SOURCE.replace("(entry, close)", "(entry, close=0)"),
        SOURCE.replace("a position", "no position"),
        SOURCE + "import openai\n",
        SOURCE.replace("    return", "    try:\n        return").replace("- close", "- close\n    finally:\n        pass"),
        "",
    ],
)
def test_any_other_code_is_found(source, changed):
    cache(source, timestamped(source, changed))

    assert audit(source.parent.parent) == DIFFERS


@pytest.mark.parametrize("code", [b"", b"\0", b"N", marshal.dumps("no code"), b"\xff" * 40])
def test_bytecode_that_can_not_be_read_is_found(source, code):
    cache(source, timestamped(source, SOURCE)[:16] + code)

    assert audit(source.parent.parent) == DIFFERS


def test_bytecode_that_python_compiles_again_is_no_concern(source):
    stale = [
        timestamped(source, OTHER, mtime=1),
        hashed(source, OTHER, 0b11, of=b"an older source"),
        b"\r\n\r\n" + timestamped(source, OTHER)[4:],
        b"cut short",
        b"",
    ]
    for content in stale:
        cache(source, content)
        assert audit(source.parent.parent) == ()


def test_bytecode_without_a_source_and_of_other_interpreters_is_no_concern(source):
    cache(source.with_name("removed.py"), timestamped(source, OTHER))
    cache(source, b"", optimization="")
    (source.parent / "__pycache__" / "clv.pypy311.pyc").write_bytes(timestamped(source, OTHER))
    (source.parent / "__pycache__" / "clv.cpython-311.pyc.140000").write_bytes(b"half wri")

    assert audit(source.parent.parent) == ()


def test_bytecode_of_errors_stands_beside_the_trust_folders(source):
    errors = source.parent.parent / "errors.py"
    cache(errors, timestamped(errors, "import openai\n"))

    assert audit(source.parent.parent) == ("errors.py: Python would run bytecode that is not compiled from it",)


def test_bytecode_kept_elsewhere_is_found(source, monkeypatch, tmp_path_factory):
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path_factory.mktemp("prefix")))
    path = Path(cache_from_source(str(source)))
    path.parent.mkdir(parents=True)
    path.write_bytes(timestamped(source, OTHER))

    assert audit(source.parent.parent) == DIFFERS


def test_bytecode_written_after_an_audit_is_seen(source):
    assert audit(source.parent.parent) == ()

    cache(source, timestamped(source, OTHER))

    assert audit(source.parent.parent) == DIFFERS
