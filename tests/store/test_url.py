import random
import string
import traceback
from urllib.parse import quote

import pytest

from clvlab import Lab
from clvlab.arena.log.operations import open_log
from clvlab.cli import main
from clvlab.errors import ClvlabError, DatabaseUrlError, StoreUnreachableError
from clvlab.store.database import Database
from clvlab.store.url import database_url, public_text
from tests.length import few

NASTY = "@/?#:%&=+[]\\'\"<>;, |^~$!*(){}`é" + "QZXJV" + "70942"
SHAPES = {
    "plain": "postgresql://me:{}@127.0.0.1:1/none",
    "with a driver": "postgresql+psycopg://me:{}@127.0.0.1:1/none",
    "without a port": "postgresql://me:{}@/none?host=/nowhere/at/all",
    "without a host": "postgres://me:{}@",
    "without a user": "postgresql://:{}@127.0.0.1:1/none",
    "an option": "postgresql://me@127.0.0.1:1/none?password={}&connect_timeout=2",
    "the last option": "postgresql:///none?host=/nowhere/at/all&user=me&password={}",
    "IPv6": "postgresql://me:{}@[::1]:1/none",
    "another kind": "mysql://me:{}@127.0.0.1:1/none",
    "SQLite with a host": "sqlite://me:{}@127.0.0.1:1/none",
    "one slash": "postgresql:/me:{}@127.0.0.1:1/none",
    "no scheme": "//me:{}@127.0.0.1:1/none",
}


def passwords(seed, count):
    """Passwords of what separates the parts of a URL, of what escapes, and of letters that no message of ours has."""
    chosen = random.Random(seed)
    yield from ("p@55", "QZXJ@VXQZ", "12345/67890", "7094@70942:70942/70942", "%41%zz%", "@@@@@@", "QZXJ?VQXZ=70942&JZQX=V")
    for _ in range(count):
        yield "".join(chosen.choices(NASTY, k=chosen.randint(5, 24)))


def assert_hidden(password, said, url):
    """No four characters of a password, written or read, are in what was said, but for those that the URL has elsewhere."""
    elsewhere = url.format("") + "postgresql://USER:PASSWORD@HOST:PORT/DATABASE @ : / ? # [ ] % and spaces (@ is %40)"
    for form in (password, quote(password, safe="")):
        for start in range(len(form) - 3):
            part = form[start : start + 4]
            assert part not in said or part in elsewhere, (password, part, said)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_part_of_a_password_is_in_an_error_or_its_traceback(shape):
    for number, password in enumerate(passwords(len(shape), 25)):
        for written in (password, quote(password, safe="")):
            if written == password and number % 5 == 4:
                written = quote(password, safe="@/")  # half escaped
            url = SHAPES[shape].format(written)
            with pytest.raises(ClvlabError) as error:
                Database(url)

            text = "".join(traceback.format_exception(error.value))
            assert_hidden(password, "\n".join(line for line in text.splitlines() if not line.startswith("    ")), SHAPES[shape])
            assert_hidden(password, str(error.value), SHAPES[shape])


@pytest.mark.parametrize(
    "password", ["p@55wordQZ", "QZ/XJ@VQ", "QZXJ:VQXZ", "QZXJ?VQ#XZ", "QZXJ%", "%QZ70942", "QZ XJVQ", "QZ\nXJVQ"]
)
def test_a_password_that_is_not_escaped_is_refused_with_the_rule(password):
    with pytest.raises(DatabaseUrlError, match="percent-encoded") as error:
        database_url(SHAPES["plain"].format(password))

    assert_hidden(password, str(error.value), SHAPES["plain"])


def test_an_escaped_password_is_read_and_not_shown():
    password = string.printable.strip() + "é"
    for shape in ("plain", "an option", "without a port"):
        url = database_url(SHAPES[shape].format(quote(password, safe="")))

        assert url.password == password
        assert "password" not in url.query
        assert_hidden(password, repr(url), SHAPES[shape])


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("postgresql://u:p@h:5433/d?sslmode=require", ("postgresql+psycopg", "u", "p", "h", 5433, "d")),
        ("postgresql+asyncpg://u@h/d", ("postgresql+psycopg", "u", None, "h", None, "d")),
        ("postgres://h/d", ("postgresql+psycopg", None, None, "h", None, "d")),
        ("postgresql:///d?host=/run/postgresql", ("postgresql+psycopg", None, None, None, None, "d")),
        ("postgresql://u%40example:a+b@[::1]:1/my%20db", ("postgresql+psycopg", "u@example", "a+b", "::1", 1, "my db")),
        ("sqlite:///a@b#c.db", ("sqlite+pysqlite", None, None, None, None, "a@b#c.db")),
        ("sqlite:////srv/store.db", ("sqlite+pysqlite", None, None, None, None, "/srv/store.db")),
        ("sqlite://", ("sqlite+pysqlite", None, None, None, None, None)),
    ],
)
def test_urls_of_both_databases_are_read(text, read):
    url = database_url(text)

    assert (url.drivername, url.username, url.password, url.host, url.port, url.database) == read


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://h:70000/d",
        "postgresql://h/d?nonsense=1",
        "sqlite:///f?timeout=x",
        "sqlite://h/f",
        "postgresql://h/%FF",
        "",
    ],
)
def test_what_is_no_url_of_a_database_is_refused(text):
    with pytest.raises(DatabaseUrlError):
        database_url(text)


@few(8)
@pytest.mark.parametrize(
    "command", [["log", "show", "{}"], ["log", "audit", "{}"], ["service", "rebuild-leaderboard", "--database-url", "{}"]]
)
@pytest.mark.parametrize("password", ["QZXJ@VXQZ", "12345/67890", "QZXJ%40VXQZ"])
@pytest.mark.parametrize("shape", ["plain", "one slash"])
def test_a_command_says_in_one_line_why_it_has_no_database(command, password, shape, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["clvlab", *(word.format(SHAPES[shape].format(password)) for word in command)])

    with pytest.raises(SystemExit) as end:
        main()

    said = capsys.readouterr()
    assert end.value.code == 2
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert_hidden(password, said.err, SHAPES[shape])


def test_a_laboratory_does_not_repeat_a_url():
    for arguments in ({}, {"token": "t"}):
        with pytest.raises(ClvlabError) as error:
            Lab("postgresql://me:QZXJVQXZ@h/d", **arguments)

        assert_hidden("QZXJVQXZ", str(error.value), "")


def test_a_log_is_a_file_of_any_name(tmp_path):
    place = tmp_path / "a%41?b#c.db"

    with open_log(place, create=True):
        pass

    assert place.is_file()


def test_an_unreachable_database_is_named_by_its_address():
    with pytest.raises(StoreUnreachableError, match=r"127\.0\.0\.1"):
        Database(SHAPES["plain"].format("QZXJVQXZ"))


@pytest.mark.parametrize(
    ("url", "readable"),
    [
        ("postgres://me:QZXJ@db.example:5432/clvlab?sslmode=require", "postgresql://db.example:5432/clvlab"),
        ("postgresql:///clvlab?host=/run/db&password=QZXJ", "postgresql:///clvlab?host=%2Frun%2Fdb"),
        ("sqlite:////var/lib/store.db", "sqlite:////var/lib/store.db"),
        ("sqlite://", "sqlite://"),
    ],
)
def test_a_place_is_shown_without_user_password_and_options(url, readable):
    assert public_text(database_url(url)) == readable
