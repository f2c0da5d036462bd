"""A start that fails, in this process: what is said of it, and what is not."""

import sys

import pytest
from clvlab_service.server import serve

from clvlab.cli import main
from clvlab.errors import DatabaseUrlError, StoreUnreachableError

ADDRESS, OPTION = "postgresql://me:{}@127.0.0.1:1/none", "postgresql:///none?host=/nowhere/at/all&password={}"


@pytest.mark.parametrize(
    ("url", "password", "code"),
    [
        (ADDRESS, "QZXJ@VXQZ", 2),
        (ADDRESS, "12345/67890", 2),
        (ADDRESS, "QZ?XJ#VXQZ", 2),
        (ADDRESS, "QZXJ:VXQZ:70942", 2),
        (ADDRESS, "QZXJ%40VXQZ", 3),
        (OPTION, "QZXJ@VXQZ", 2),
        (OPTION, "QZXJ&VXQZ=70942", 2),
        (OPTION, "QZXJ%40VXQZ", 3),
    ],
)
def test_a_database_that_cannot_be_used_is_one_line_and_nothing_is_said_to_serve(url, password, code, monkeypatch, capfd):
    monkeypatch.setenv("CLVLAB_DATABASE_URL", url.format(password))
    monkeypatch.setattr(sys, "argv", ["clvlab", "service", "serve", "--port", "0"])

    with pytest.raises(SystemExit) as end:
        main()

    said = capfd.readouterr()
    assert end.value.code == code
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    for start in range(len(password) - 3):
        assert password[start : start + 4] not in said.err


@pytest.mark.parametrize(("password", "error"), [("QZXJ", StoreUnreachableError), ("QZXJ@VXQZ", DatabaseUrlError)])
def test_the_error_of_a_start_that_failed_reaches_the_caller(password, error, monkeypatch, capfd):
    monkeypatch.setenv("CLVLAB_DATABASE_URL", ADDRESS.format(password))
    said = []

    with pytest.raises(error):
        serve("127.0.0.1", 0, None, said.append)

    assert said == []
    assert capfd.readouterr().err == ""


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, monkeypatch, capfd):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("CLVLAB_UPLOADS", str(tmp_path / "file" / "uploads"))
    monkeypatch.setattr(sys, "argv", ["clvlab", "service", "serve", "--port", "0"])

    with pytest.raises(SystemExit) as end:
        main()

    assert end.value.code == 2
    said = capfd.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
