import hashlib
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType

import pytest

from clvlab.proof.closure import audit, package_folder, source_digest
from tests.length import length


@pytest.fixture
def package(tmp_path):
    """Package folder whose trust folders are clean."""
    folder = tmp_path / "clvlab"
    for name in ("law", "proof"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("import polars\n")
    (folder / "errors.py").write_text("")
    (folder / "__init__.py").write_text("")
    return folder


def add(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\0")


@pytest.mark.parametrize(
    "name",
    [
        *(f"{module}{suffix}" for module in ("law", "proof", "errors", "__init__") for suffix in EXTENSION_SUFFIXES),
        "law.cpython-399-x86_64-linux-gnu.so",
        "errors.pyd",
        "errors.pyc",
        "law.py",
        "proof.pyc",
        "errors/__init__.py",
        "errors/__init__.so",
        "__init__/__init__.py",
    ],
)
def test_what_python_would_import_instead_is_found(package, name):
    add(package / name)

    assert audit(package) == (f"{name.split('/')[0]}: stands next to the source that it may be imported for",)


@pytest.mark.parametrize("name", ["lab.py", "lawyer.so", "agents/errors.py", "errors.py.orig", "law~", "py.typed"])
def test_what_python_imports_by_other_names_is_no_concern(package, name):
    add(package / name)

    assert audit(package) == ()


@pytest.mark.parametrize("name", ["law/__init__.so", *(f"proof/verify{suffix}" for suffix in EXTENSION_SUFFIXES), "law/a.pyc"])
def test_compiled_module_in_a_trust_folder_is_found(package, name):
    add(package / name)

    assert audit(package) == (f"{name}: only Python sources may stand in a trust folder",)


@pytest.mark.parametrize("name", ["evil.py", "evil.so", "deep/evil.py", "deep/clv.cpython-311.pyc"])
def test_what_is_no_bytecode_in_a_cache_is_found(package, name):
    add(package / "law" / "__pycache__" / name)

    top = name.split("/")[0]
    assert audit(package) == (f"law/__pycache__/{top}: only bytecode may stand in a cache",)


@pytest.mark.parametrize("name", ["law", "proof", "errors.py", "law/__init__.py"])
def test_link_in_place_of_a_part_is_found(package, name):
    part, away = package / name, package.parent / "away"
    part.rename(away)
    part.symlink_to(away, target_is_directory=away.is_dir())

    assert audit(package) == (f"{name}: a symbolic link",)


@pytest.mark.parametrize(
    "name", ["law/clv.py", "law/deep", "proof/__pycache__", "law/__pycache__/a.cpython-311.pyc", "proof/x"]
)
@pytest.mark.parametrize("target", ["outside", "nowhere", "law/__init__.py", ".."])
def test_link_in_a_trust_folder_is_found(package, name, target):
    (package / "outside").mkdir()
    (package / "outside" / "evil.py").write_text("import openai\n")
    (package / name).parent.mkdir(exist_ok=True)
    (package / name).symlink_to(package / target)

    assert audit(package) == (f"{name}: a symbolic link",)


def test_package_that_is_reached_by_a_link_is_clean(package, tmp_path):
    (tmp_path / "link").symlink_to(package, target_is_directory=True)

    assert audit(tmp_path / "link") == ()


def test_pipe_is_found_and_not_read(package):
    os.mkfifo(package / "law" / "clv.py")

    assert audit(package) == ("law/clv.py: only Python sources may stand in a trust folder",)


def test_source_that_can_not_be_read_is_found(package):
    (package / "law" / "clv.py").write_bytes(b"x = '\xff'\n")

    assert [violation.split(":")[0] for violation in audit(package)] == ["law/clv.py"]


@pytest.mark.parametrize("name", ["clvlab.law.evil", "clvlab.law.clv", "clvlab.errors", "clvlab.proof.deep.evil"])
@pytest.mark.parametrize("file", ["/elsewhere/clv.py", None, "clv.so", ""])
def test_module_loaded_from_elsewhere_is_found(monkeypatch, name, file):
    module = ModuleType(name)
    if file != "":
        module.__file__ = file
    monkeypatch.setitem(sys.modules, name, module)

    assert [violation.split(" ")[0] for violation in audit()] == [name]


def test_modules_of_like_names_may_come_from_anywhere(monkeypatch):
    for name in ("clvlab.lawyer", "clvlab.errors_of_others", "clv_verify"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))

    assert audit() == ()


@pytest.mark.long
@pytest.mark.parametrize("flags", length([[], ["-OO"]], [[], ["-O"], ["-OO"]]))
def test_a_copy_that_wrote_its_own_bytecode_is_clean(tmp_path, flags):
    subprocess.run(["cp", "-r", str(package_folder()), str(tmp_path)], check=True)
    code = (
        "from clvlab.proof.closure import audit, package_folder; import clvlab.proof.verify; print(package_folder(), audit())"
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(tmp_path)}

    for _ in range(2):  # the second time from the bytecode of the first
        command = [sys.executable, *flags, "-c", code]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)

        assert done.stdout.strip() == f"{tmp_path / 'clvlab'} ()"
    assert list((tmp_path / "clvlab" / "proof" / "__pycache__").glob("verify.*.pyc"))


def test_audit_that_found_nothing_is_kept_for_the_same_files_only(tmp_path):
    subprocess.run(["cp", "-r", str(package_folder()), str(tmp_path)], check=True)
    copy, kept = tmp_path / "clvlab", tmp_path / "clvlab" / "__pycache__" / "audited"
    kept.unlink(missing_ok=True)
    code = "from clvlab.proof import closure; print(*closure.audit()); print(closure._audited.cache_info().misses)"

    def audited():
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": str(tmp_path)}, cwd=tmp_path, capture_output=True, check=True
        )
        found, times = done.stdout.decode().split("\n")[:2]
        return found, int(times)

    assert audited() == ("", 1)
    assert audited() == ("", 0)
    law = copy / "law" / "policy.py"
    law.write_text(law.read_text() + "\nimport socket\n")
    for _ in range(2):  # what was found is never kept
        found, times = audited()
        assert (found.endswith("socket"), times) == (True, 1)
    kept.write_bytes(b"0" * 64)
    law.write_text(law.read_text().replace("\nimport socket\n", ""))
    assert audited() == ("", 1)
    assert audited() == ("", 0)


def test_process_with_older_rules_keeps_no_audit(tmp_path):
    subprocess.run(["cp", "-r", str(package_folder()), str(tmp_path)], check=True)
    kept = tmp_path / "clvlab" / "__pycache__" / "audited"
    kept.unlink(missing_ok=True)
    rules = tmp_path / "clvlab" / "proof" / "closure.py"
    code = (
        f"from pathlib import Path; from clvlab.proof.closure import audit; rules = Path({str(rules)!r}); "
        "rules.write_text(rules.read_text() + '# stricter'); print(*audit())"
    )

    subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(tmp_path)}, cwd=tmp_path, check=True)

    assert not kept.exists()


def test_digest_is_that_of_the_lines_of_sha256sum(package):
    (package / "law" / "b.py").write_text("b = 1\n")
    (package / "law" / "b").mkdir()
    (package / "law" / "b" / "a.py").write_text("a = 1\n")
    add(package / "law" / "__pycache__" / "b.cpython-311.pyc")
    names = ["errors.py", "law/__init__.py", "law/b.py", "law/b/a.py", "proof/__init__.py"]
    lines = subprocess.run(["sha256sum", *names], cwd=package, capture_output=True, check=True).stdout

    assert source_digest(package) == f"sha256:{hashlib.sha256(lines).hexdigest()}"


@pytest.mark.parametrize("name", ["errors.py", "law/__init__.py", "proof/new.py"])
def test_digest_names_every_source(package, name):
    before = source_digest(package)

    (package / name).write_text("x = 1\n")

    assert source_digest(package) != before
