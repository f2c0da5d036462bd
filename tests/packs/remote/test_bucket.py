import builtins
import shutil
import subprocess
import sys
from random import Random

import pytest

import clvlab as cl
from clvlab.arena.packs import packs_at, push_pack
from clvlab.errors import MissingExtraError, PackError, RemoteError, RemoteMissingError, UnknownPackError
from clvlab.packs.reader import load_pack
from clvlab.packs.remote.bucket import Address, Bucket, is_url


@pytest.mark.parametrize("fault", [None, "bare"])
def test_a_pack_behind_a_web_server_is_that_in_the_folder(web, many, fault):
    shutil.copytree(many, web.folder / "many")
    web.fault = fault

    pack = cl.open_pack(web.url("many/"))

    assert pack.ticks().equals(cl.open_pack(many).ticks())
    assert pack.content_hash == load_pack(many).content_hash


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("slow", "did not answer in time"),
        ("broken", "the server answers 500 Internal Server Error"),
        ("denied", "access is denied"),
        ("whole", "can't be read in parts"),
        ("short", "is cut off"),
        ("cut", "is cut off"),
    ],
)
def test_a_server_that_fails_is_reported_by_url_and_reason(web, many, fault, reason):
    shutil.copytree(many, web.folder / "many")
    pack = cl.open_pack(web.url("many"))
    web.fault = fault

    with pytest.raises(RemoteError, match=reason) as caught:
        pack.ticks()

    assert str(caught.value).startswith(web.url("many/ticks.parquet"))


def test_a_file_that_changes_behind_a_web_server_is_noticed(web, many, monkeypatch):
    monkeypatch.setattr("clvlab.packs.remote.packs._TAIL_BYTES", 100)
    shutil.copytree(many, web.folder / "many")
    pack = cl.open_pack(web.url("many"))
    pack.ticks(list(pack.fixture_ids[:1]))
    with (web.folder / "many" / "ticks.parquet").open("ab") as file:
        file.write(b"more")

    with pytest.raises(RemoteError, match="was changed since it was opened"):
        pack.ticks(list(pack.fixture_ids[1:2]))


def test_no_damage_brings_other_ticks_or_another_kind_of_error(web, many, monkeypatch):
    monkeypatch.setenv("CLVLAB_CACHE_BYTES", "0")
    shutil.copytree(many, web.folder / "many")
    ticks, whole, random = cl.open_pack(many).ticks(), (many / "ticks.parquet").read_bytes(), Random(5)
    footer = len(whole) - int.from_bytes(whole[-8:-4], "little") - 8
    refused = 0

    for number in range(60):
        content = bytearray(whole)
        for _ in range(3):
            content[random.randrange(footer if number % 2 else 0, len(content))] = random.randrange(256)
        (web.folder / "many" / "ticks.parquet").write_bytes(content)
        try:
            assert cl.open_pack(web.url("many")).ticks().equals(ticks)
        except PackError:
            refused += 1

    assert refused > 30


def test_a_server_that_is_not_there_is_reported(web):
    url = web.url("many")
    web.server_close()

    with pytest.raises(RemoteError, match=r"can't be reached|did not answer in time"):
        cl.open_pack(url)


def test_the_query_reaches_the_server_and_no_message(web, many):
    shutil.copytree(many, web.folder / "many")
    url = web.url("many?token=secret")
    said = [repr(cl.open_pack(url)), repr(cl.open_pack(url).source)]
    assert web.asked == ["/many/datapackage.json?token=secret"] * 2

    for fault in ("slow", "broken", "denied", "whole", "short", "cut"):
        pack, web.fault = cl.open_pack(url), fault
        with pytest.raises(RemoteError) as caught:
            pack.ticks()
        said += told(caught.value)
        web.fault = None
    (web.folder / "many" / "datapackage.json").unlink()
    with pytest.raises(UnknownPackError) as caught:
        cl.open_pack(url)
    said += told(caught.value)

    assert [text for text in said if "secret" in text] == []


def told(error):
    """All that is told of an error and its causes, but for lines of source code."""
    return [
        str(error),
        *(told(error.__cause__) if error.__cause__ else []),
        *([] if error.__suppress_context__ else [repr(error.__context__)]),
    ]


def test_a_web_server_is_read_only_and_not_listed(web, many):
    with pytest.raises(RemoteError, match="is read only: nothing can be written there"):
        push_pack(many, web.url("mine"))
    with pytest.raises(RemoteError, match="is read only: a web server can't be listed"):
        packs_at(web.url())


@pytest.mark.usefixtures("s3")
@pytest.mark.parametrize("ask", [cl.open_pack, packs_at, lambda url: push_pack("starter", url)], ids=["open", "list", "push"])
def test_a_bucket_that_does_not_exist_is_reported(ask):
    with pytest.raises((RemoteMissingError, UnknownPackError), match=r"s3://nobody-has-this.*: no such bucket"):
        ask("s3://nobody-has-this/packs")


@pytest.mark.usefixtures("s3")
def test_a_bucket_that_is_not_open_to_all_is_reported(monkeypatch, many):
    push_pack(many, "s3://tested/many")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")

    with pytest.raises(RemoteError, match=r"s3://tested/many/datapackage\.json: access is denied; credentials are read"):
        cl.open_pack("s3://tested/many")


@pytest.mark.usefixtures("s3")
def test_missing_credentials_are_named(monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")

    with pytest.raises(RemoteError, match="needs credentials: set AWS_ACCESS_KEY_ID"):
        cl.open_pack("s3://tested/many")


def test_what_is_too_large_to_be_read_at_once_is_refused(web, monkeypatch):
    monkeypatch.setattr("clvlab.packs.remote.bucket.MAX_WHOLE_BYTES", 100)
    (web.folder / "datapackage.json").write_bytes(b" " * 101)

    with pytest.raises(RemoteError, match="has 101 bytes, the limit is 100"):
        cl.open_pack(web.url())


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://host/pack", "not at ftp://"),
        ("file:///etc", "not at file://"),
        ("https:///pack", "names no host"),
        ("s3:///pack", "names no bucket"),
        ("http://example.com/pack", "use https://"),
        ("http://127.0.0.1.example.com/pack", "use https://"),
        ("s3://tested/../other", "no fragment, and no '.' or '..'"),
        ("s3://tested/pack#part", "no fragment"),
        ("s3://me:word@tested/pack", "credentials stand in the environment"),
        ("s3://tested/pack?key=word", "credentials stand in the environment"),
        ("https://me:word@host/pack", "credentials stand in the environment"),
        ("https://[::1/pack", "a URL can't be read"),
    ],
)
def test_urls_that_are_not_taken(url, reason):
    with pytest.raises(RemoteError, match=reason) as caught:
        cl.open_pack(url)

    assert [text for text in told(caught.value) if "word" in text] == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://tested/mine/pack/", "s3://tested/mine/pack"),
        ("https://host:8443/a/b?token=x", "https://host:8443/a/b"),
        ("https://[::1]:8443/a", "https://[::1]:8443/a"),
        ("https://host", "https://host"),
    ],
)
def test_a_url_is_shown_without_what_is_secret(url, shown):
    assert str(Address(url)) == shown
    assert repr(Address(url)) == f"Address({shown!r})"


def test_an_address_below_another_keeps_its_query():
    assert Address("https://host/a?token=x").under("b").url == "https://host/a/b?token=x"


@pytest.mark.parametrize("text", ["starter", "./starter", "C:/packs", "/a//b", "", 3, None], ids=str)
def test_paths_and_names_are_no_urls(text):
    assert not is_url(text)


def test_without_the_extra_the_error_names_it(monkeypatch):
    known = builtins.__import__

    def without(name, *args, **options):
        if name.partition(".")[0] == "obstore":
            raise ModuleNotFoundError("No module named 'obstore'", name="obstore")
        return known(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)

    with pytest.raises(MissingExtraError, match=r'pip install "clvlab\[remote\]"'):
        Bucket(Address("s3://tested/many")).whole("datapackage.json")


def test_nothing_of_it_is_loaded_before_a_url_is_opened():
    code = "import sys, clvlab; clvlab.open_pack('starter'); sys.exit('obstore' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
