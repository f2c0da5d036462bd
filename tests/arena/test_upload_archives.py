"""What the process of an upload does with an archive, here without the process."""

import gzip
import os
import stat
import tarfile
import zipfile

import orjson
import polars as pl
import pytest

from clvlab.arena.uploads.archive import MAX_ENTRIES, unpack
from clvlab.arena.uploads.worker import check_shape
from clvlab.errors import PackError, UploadRefusedError
from clvlab.packs.manifest import PackManifest
from clvlab.packs.synthetic import Recipe, build
from clvlab.packs.verification import verify_pack
from tests.arena.archives import files_of, member, sparse_tar, special, tarred, zipped
from tests.booked import frames, write_booked

LIMIT = 256 << 20
TICKS, DESCRIPTOR = "ticks.parquet", "datapackage.json"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packs") / "mine"
    build(Recipe(seed=7, fixtures=2, messages=40), folder)
    return files_of(folder)


def described(files, changed):
    """The files with another descriptor."""
    return files | {DESCRIPTOR: orjson.dumps(changed(orjson.loads(files[DESCRIPTOR])))}


def resource_elsewhere(descriptor):
    descriptor["resources"][0]["path"] = "../ticks.parquet"
    return descriptor


def raw_elsewhere(descriptor):
    descriptor["clvlab"]["raw"] = [{"name": "../x", "digest": "sha256:" + "0" * 64}]
    return descriptor


def relabelled(descriptor):
    """The descriptor of a pack that calls itself genuine, with a content hash that fits."""
    own, (ticks, *_) = descriptor["clvlab"], descriptor["resources"]
    own["provenance"] = "genuine-txline"
    said = {name: value for name, value in own.items() if name not in ("schema", "content_hash")}
    own["content_hash"] = PackManifest(pack_id=descriptor["name"], ticks_sha256=ticks["hash"], **said).content_hash
    return descriptor


def results_unnamed(descriptor):
    """The descriptor of a pack without results."""
    descriptor["resources"] = [resource for resource in descriptor["resources"] if resource["name"] != "results"]
    return descriptor


def first(link, files):
    """A zip that begins with a special entry."""
    return zipped([(link, b"/etc/passwd"), *files.items()])


HOSTILE = {
    "nothing": (lambda _: b"", "body is empty"),
    "text": (lambda _: b"hello, is this a pack?" * 100, "not an archive of a pack"),
    "form": (lambda _: b"--x\r\nContent-Disposition: form-data\r\n\r\n", "not an archive of a pack"),
    "zip without a directory": (lambda _: b"PK\x03\x04" + b"x" * 100, "can't be read to its end"),
    "zip cut in the middle": (lambda files: zipped(files)[:-300], "can't be read to its end"),
    "zip with a wrong checksum": (
        lambda files: zipped(files, zipfile.ZIP_STORED).replace(b"PAR1", b"PAR2"), "can't be read to its end: Bad CRC"),
    "tar.gz cut in the middle": (lambda files: tarred(files)[:-300], "can't be read to its end"),
    "empty zip": (lambda _: zipped({}), "no datapackage.json"),
    "no ticks": (lambda files: zipped({DESCRIPTOR: files[DESCRIPTOR]}), "no ticks.parquet"),
    "parent": (lambda files: zipped(files | {"../evil": b"x"}), r"'\.\./evil' leads out"),
    "parent in raw": (lambda files: tarred(files | {"raw/../../evil": b"x"}), "leads out"),
    "absolute": (lambda files: tarred(files | {"/etc/evil": b"x"}), "leads out"),
    "backslash": (lambda files: zipped(files | {"..\\evil": b"x"}), "leads out"),
    "drive": (lambda files: zipped(files | {"C:evil": b"x"}), "leads out"),
    "folder around all": (lambda files: zipped({f"mine/{n}": c for n, c in files.items()}), "is in a folder"),
    "empty folder": (lambda files: tarred(files, "w", member("sub", tarfile.DIRTYPE)), "'sub' is not a file of a pack"),
    "folder in raw": (lambda files: tarred(files | {"raw/a/b": b"x"}), "is not a file of a pack"),
    "file that packs have not": (lambda files: zipped(files | {"README.md": b"x"}), "'README.md' is not a file of a pack"),
    "control character": (lambda files: tarred(files | {"raw/a\x07b": b"x"}), "is not a file of a pack"),
    "NUL": (lambda files: zipped(files | {"raw/aXb": b"x"}).replace(b"raw/aXb", b"raw/a\0b"), "is not a file of a pack|read"),
    "hidden file": (lambda files: zipped(files | {"raw/.x": b"x"}), "is not a file of a pack"),
    "name of 400 bytes": (lambda files: tarred(files | {"raw/" + "é" * 200: b"x"}), "is not a file of a pack"),
    "raw file that no hash covers": (lambda files: zipped(files | {"raw/a": b"x"}), "'raw/a' is not named in datapackage.json"),
    "results that no hash covers": (lambda files: zipped(described(files, results_unnamed)), "'results.parquet' is not named"),
    "two cases": (lambda files: zipped(files | {"raw/a": b"x", "raw/A": b"x"}), "take the two for one file"),
    "two ways to write an accent": (
        lambda files: zipped(files | {"raw/\u00e9": b"x", "raw/e\u0301": b"x"}), "take the two for one file"),
    "twice": (lambda files: zipped([*files.items(), (TICKS, files[TICKS])]), "'ticks.parquet' twice"),
    "twice by another name": (lambda files: tarred(files | {"./ticks.parquet": files[TICKS]}), "'./ticks.parquet' twice"),
    "symbolic link in a zip": (lambda files: first(special(TICKS, stat.S_IFLNK), files), "is a symbolic link"),
    "pipe in a zip": (lambda files: first(special(TICKS, stat.S_IFIFO), files), "is no plain file"),
    "symbolic link": (lambda _: tarred({}, "w", member(TICKS, tarfile.SYMTYPE, linkname="/etc/passwd")), "symbolic link"),
    "hard link": (lambda _: tarred({}, "w", member(TICKS, tarfile.LNKTYPE, linkname="x")), "is a hard link"),
    "device": (lambda _: tarred({}, "w", member(TICKS, tarfile.CHRTYPE, devmajor=1, devminor=5)), "is a device"),
    "pipe": (lambda _: tarred({}, "w", member(TICKS, tarfile.FIFOTYPE)), "is a pipe"),
    "sparse file": (lambda _: sparse_tar(TICKS), "is a sparse file"),
    "unusual compression": (lambda files: zipped(files, zipfile.ZIP_BZIP2), "in another way than by deflate"),
    "zip bomb": (lambda _: zipped({TICKS: bytes(20 << 20)}), "no pack shrinks like that"),
    "tar bomb": (lambda _: tarred({TICKS: bytes(20 << 20)}), "no pack shrinks like that"),
    "large descriptor": (lambda files: zipped(files | {DESCRIPTOR: os.urandom(5 << 20)}), "more than 4,194,304 bytes"),
    "descriptor that is no JSON": (lambda files: zipped(files | {DESCRIPTOR: b"{"}), "no pack descriptor"),
    "descriptor of deep JSON": (lambda files: zipped(files | {DESCRIPTOR: b"[" * 100_000}), "no pack descriptor"),
    "resource outside": (lambda files: zipped(described(files, resource_elsewhere)), r"resources\.0\.path"),
    "raw file outside": (lambda files: zipped(described(files, raw_elsewhere)), r"raw\.0\.name"),
    "label": (
        lambda files: zipped(files | {DESCRIPTOR: files[DESCRIPTOR].replace(b'"synthetic-clvlab"', b'"genuine-txline"')}),
        "content_hash of 'mine'"),
    "label that is not earned": (lambda files: zipped(described(files, relabelled)), "provenance of 'mine'"),
    "other ticks": (lambda files: zipped(files | {TICKS: files[TICKS][:99] + b"xxx" + files[TICKS][102:]}), "expected sha256"),
    "no Parquet": (lambda files: zipped(files | {TICKS: b"PAR1" + bytes(999) + b"PAR1"}), "can't be read as Parquet"),
}  # fmt: skip


def checked(body, folder):
    (folder / "archive").write_bytes(body)
    unpack(folder / "archive", folder / "pack", LIMIT)
    check_shape(folder / "pack", None, 10_000_000)
    return verify_pack(folder / "pack")


@pytest.mark.parametrize("name", HOSTILE)
def test_an_archive_of_no_sound_pack_is_refused_by_what_is_wrong(files, tmp_path, name):
    make, why = HOSTILE[name]
    (tmp_path / "home").mkdir()

    with pytest.raises(PackError, match=why):
        checked(make(files), tmp_path / "home")

    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]


@pytest.mark.parametrize("make", [zipped, tarred, lambda files: tarred({f"./{n}": c for n, c in files.items()}, "w")])
def test_the_usual_archives_are_taken(files, tmp_path, make):
    assert checked(make(files), tmp_path).pack_id == "mine"


@pytest.mark.parametrize(
    "body",
    [
        lambda: zipped([("raw/", b"")] * (MAX_ENTRIES + 1)),
        lambda: b"PK\x01\x02" * (2 * MAX_ENTRIES + 1),
        lambda: tarred({}, "w:gz", *[member("raw", tarfile.DIRTYPE)] * (MAX_ENTRIES + 1)),
    ],
    ids=["zip", "list of a zip", "tar"],
)
def test_entries_are_counted_whatever_they_are(tmp_path, body):
    (tmp_path / "archive").write_bytes(body())

    with pytest.raises(UploadRefusedError, match="more than 10,000 entries"):
        unpack(tmp_path / "archive", tmp_path / "pack", LIMIT)


def test_a_header_as_large_as_a_file_counts_as_well(tmp_path):
    header = member("x", tarfile.XHDTYPE, size=64 << 20).tobuf()
    (tmp_path / "archive").write_bytes(gzip.compress(header + bytes(64 << 20)))

    with pytest.raises(UploadRefusedError, match="unpacks to more bytes than are read of it: an owner may keep"):
        unpack(tmp_path / "archive", tmp_path / "pack", 1 << 20)


def test_more_bytes_than_an_owner_may_keep_are_refused(files, tmp_path):
    (tmp_path / "archive").write_bytes(zipped(files))

    with pytest.raises(UploadRefusedError, match="more than the 4,096 bytes an owner may keep"):
        unpack(tmp_path / "archive", tmp_path / "pack", 4096)


def test_more_ticks_than_a_run_should_hold_are_refused(files, tmp_path):
    (tmp_path / "archive").write_bytes(zipped(files))
    unpack(tmp_path / "archive", tmp_path / "pack", LIMIT)

    with pytest.raises(UploadRefusedError, match="rows, the limit is 10"):
        check_shape(tmp_path / "pack", None, 10)


def test_more_rows_of_books_than_a_run_should_hold_are_refused(tmp_path):
    ticks = frames(1)[0].height
    write_booked(tmp_path / "pack")
    check_shape(tmp_path / "pack", None, ticks)
    books = pl.read_parquet(tmp_path / "pack" / "books.parquet")
    pl.concat([books] * (20 * ticks // books.height + 1)).write_parquet(tmp_path / "pack" / "books.parquet")

    with pytest.raises(UploadRefusedError, match=r"books\.parquet has .* rows, the limit is"):
        check_shape(tmp_path / "pack", None, ticks)
