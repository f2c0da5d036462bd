"""Archives are imported as the folders that they hold: each file by its own content, and what can't be read told of by name."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

import pytest

from clvlab.errors import SourceError
from clvlab.packs.verification import verify_pack
from clvlab.sources import archives
from clvlab.sources.importer import import_options, import_source
from tests.commands import clvlab
from tests.length import few
from tests.sources.betfair.test_history import OPENING, change, offers, stream
from tests.sources.test_recognition import TEXTS

HEADER = "fixture,time,side,odds\n"


def odds(fixture):
    return "".join(f"{fixture},2026-01-02T12:00:00Z,{side},2.0\n" for side in "ab").encode()


def table(fixture):
    return HEADER.encode() + odds(fixture)


def zipped(files):
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return body.getvalue()


def tarred(files, form=tarfile.PAX_FORMAT):
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w", format=form) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.pax_headers = {"path": name} if "\0" in name else {}
            tar.addfile(member, io.BytesIO(content))
    return body.getvalue()


def before_ustar(files):
    """A tar of the seventh edition of Unix, which has no mark but a checksum."""
    body = bytearray(tarred(files, tarfile.USTAR_FORMAT))
    at = 0
    for content in files.values():
        body[at + 257 : at + 512] = bytes(255)
        body[at + 148 : at + 156] = b" " * 8
        body[at + 148 : at + 156] = b"%06o\0 " % sum(body[at : at + 512])
        at += 512 + -(-len(content) // 512) * 512
    return bytes(body)


FORMS = {
    "zip": zipped,
    "tar": tarred,
    "gnu.tar": lambda files: tarred(files, tarfile.GNU_FORMAT),
    "old.tar": before_ustar,
    "tar.gz": lambda files: gzip.compress(tarred(files)),
    "tar.bz2": lambda files: bz2.compress(tarred(files)),
    "tar.xz": lambda files: lzma.compress(tarred(files)),
    "no ending": lambda files: gzip.compress(tarred(files)),
    "zip in a tar": lambda files: tarred({"inner.zip": zipped(files)}),
    "tar.xz in a zip": lambda files: zipped({"x/inner.tar.xz": lzma.compress(tarred(files))}),
}


@pytest.mark.parametrize("source", [None, "csv"])
@pytest.mark.parametrize("form", FORMS)
def test_an_archive_is_imported_as_its_folder(tmp_path, form, source):
    files = {"x/a.csv": table("a"), "x/b.csv.gz": gzip.compress(table("b"))}
    (tmp_path / "given").write_bytes(FORMS[form](files))

    report = import_source(source, [tmp_path / "given"], tmp_path / "p")

    assert (report.quality.fixtures, report.quality.refused) == (2, ())
    assert [one.name.rpartition("/")[2] for one in verify_pack(tmp_path / "p").manifest.sources] == ["a.csv", "b.csv.gz"]
    assert {path.name for path in tmp_path.iterdir()} == {"given", "p"}


def test_a_table_in_xz_and_archives_in_a_folder_are_read(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv.xz").write_bytes(lzma.compress(table("a")) + lzma.compress(odds("b")))
    (tmp_path / "in" / "1.zip").write_bytes(zipped({"same.csv": table("c")}))
    (tmp_path / "in" / "2.zip").write_bytes(zipped({"same.csv": table("d")}))
    (tmp_path / "in" / "e.csv").write_bytes(table("e"))

    report = import_source(None, [tmp_path / "in"], tmp_path / "p")

    assert (report.quality.fixtures, report.unread) == (5, ())
    assert [one.name for one in report.manifest.sources] == ["1.zip/same.csv", "2.zip/same.csv", "a.csv", "e.csv"]


def test_files_of_one_name_in_several_places_are_all_read(tmp_path):
    for name in ("", "more", "most"):
        (tmp_path / "in" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name / "a.csv.xz").write_bytes(lzma.compress(table(f"xz {name}")))
        (tmp_path / "in" / name / "a.zip").write_bytes(
            zipped({"a.csv": table(f"plain {name}"), "a.csv.xz": lzma.compress(table(f"zip {name}"))})
        )

    assert import_source(None, [tmp_path / "in"], tmp_path / "p", import_options(lenient=False)).quality.fixtures == 9


def older(n):
    return f"id,day,H\n{n},1,2.0\n".encode()


def test_of_an_archive_of_another_header_every_reason_is_reported_with_its_count(tmp_path):
    files = {f"{n:03}.csv": older(n) for n in range(619)} | {"log.csv": b"run,rows\n1,2\n", "new.csv": table("m")}
    (tmp_path / "x.zip").write_bytes(zipped(files | {"READ.me": b"hello\n"}))

    code, out, err = clvlab(tmp_path, "packs", "import", "x.zip", "--lenient", "--out", "p")

    assert code == 0, err
    assert "Read 2 messages of 621 files: 1 tick, 0 of them suspended; refused 620" in out
    assert "are 'id', 'day', 'H': 619, as 000.csv; 001.csv; 002.csv\n" in out.replace("the columns are", "are")
    assert "'run', 'rows': 1, as log.csv\n" in out
    assert "not read: text that begins with 'hello': 1, as READ.me\n" in out


def test_of_an_archive_of_which_nothing_can_be_read_every_reason_is_reported(tmp_path):
    files = {f"{n:03}.csv": older(n) for n in range(619)} | {"log.csv": b"run,rows\n1,2\n"}
    (tmp_path / "x.zip").write_bytes(zipped(files))

    with pytest.raises(SourceError, match=r"no tick could be made of 000\.csv.* and 615 more; refused 620\n") as refused:
        import_source("csv", [tmp_path / "x.zip"], tmp_path / "p", import_options(lenient=True))

    assert ": 619, as 000.csv; 001.csv; 002.csv\n" in str(refused.value)
    assert ": 1, as log.csv" in str(refused.value)


HOSTILE = ["../../evil.csv", "/etc/evil.csv", "..\\evil.csv", "a\x00b.csv", "a\x1b[31m.csv", "x" * 300 + ".csv", "é\udcff.csv"]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leads_out_of_the_archive_or_is_printed_as_it_is(tmp_path, name):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.tar").write_bytes(tarred({name: table("m") + b"m,soon,a,2.0\n", "log.csv": b"run\n"}))

    code, out, err = clvlab(tmp_path, "packs", "import", "csv", "in/x.tar", "--lenient", "--out", "p")

    assert code == 0, err
    assert all(char.isprintable() or char == "\n" for char in out)
    assert all(one.name.isprintable() for one in verify_pack(tmp_path / "p").manifest.sources)
    assert {path.name for path in tmp_path.iterdir()} == {"in", "p"}


def test_a_name_on_disk_that_cant_be_printed_is_escaped(tmp_path):
    (tmp_path / "a\x1b.csv").write_bytes(table("m") + b"m,soon,a,2.0\n")

    with pytest.raises(SourceError) as refused:
        import_source("csv", [tmp_path / "a\x1b.csv"], tmp_path / "p", import_options(lenient=False))

    assert str(refused.value).startswith("a\\x1b.csv:4: 'soon' is no")


def linked(tar):
    link = tarfile.TarInfo("link.csv")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    tar.addfile(link)


def test_what_is_no_file_or_has_no_place_is_reported(tmp_path):
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as tar:
        for name, content in (("a.csv", table("a")), ("a.csv", table("b")), ("a.csv/c.csv", table("c"))):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        linked(tar)
    (tmp_path / "x.tar").write_bytes(body.getvalue())

    report = import_source("csv", [tmp_path / "x.tar"], tmp_path / "p", import_options(lenient=True))

    assert (report.quality.fixtures, report.quality.refused_rows) == (1, 3)
    assert {(row.reason.partition(":")[0], example) for row in report.quality.refused for example in row.examples} == {
        ("a file of an archive has no place", "x.tar/a.csv"),
        ("a file of an archive has no place", "x.tar/a.csv/c.csv"),
        ("a file of an archive is a symbolic link", "x.tar/link.csv"),
    }
    with pytest.raises(SourceError, match=r"x\.tar/a\.csv: a file of an archive has no place"):
        import_source("csv", [tmp_path / "x.tar"], tmp_path / "q", import_options(lenient=False))


@few(2)
@pytest.mark.parametrize(
    ("form", "rows"),
    [("tar", 3_000), ("tar.gz", 3_000), ("tar.bz2", 30_000), ("tar.xz", 3_000)],  # a block of bzip2 has 900 kB
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_of_an_archive_that_is_cut_off_the_files_before_are_kept_when_lenient(tmp_path, form, rows):
    noise = b"".join(odds(n * 7919 % 30_011) for n in range(rows))
    whole = FORMS[form]({"a.csv": table("a"), "b.csv": HEADER.encode() + noise})
    (tmp_path / "x").write_bytes(whole[: len(whole) * 2 // 3])

    with pytest.raises(SourceError, match=r"x: an archive can't be read to its end"):
        import_source("csv", [tmp_path / "x"], tmp_path / "p", import_options(lenient=False))
    report = import_source("csv", [tmp_path / "x"], tmp_path / "p", import_options(lenient=True))

    assert report.quality.fixtures >= 1
    assert any(row.reason.startswith("an archive can't be read to its end") for row in report.quality.refused)


def test_limits_hold_for_all_archives_together(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    for n in range(2):
        (tmp_path / "in" / f"{n}.zip").write_bytes(zipped({f"{k}.csv": table(f"{n} {k}") for k in range(3)}))
    monkeypatch.setattr(archives, "MAX_FILES", 5)

    with pytest.raises(SourceError, match=r"1\.zip: the archives hold more than 5 files: import them in parts"):
        import_source("csv", [tmp_path / "in"], tmp_path / "p")

    assert {path.name for path in tmp_path.iterdir()} == {"in"}


@few(1)
@pytest.mark.parametrize("form", ["zip", "tar.gz", "tar.xz"])
def test_an_archive_that_grows_beyond_all_odds_is_refused(tmp_path, form):
    (tmp_path / "bomb").write_bytes(FORMS[form]({"a.csv": bytes(100 << 20)}))

    with pytest.raises(SourceError, match=r"bomb/a\.csv: .* no odds shrink like that"):
        import_source("csv", [tmp_path / "bomb"], tmp_path / "p", import_options(lenient=True))

    assert {path.name for path in tmp_path.iterdir()} == {"bomb"}


def test_archives_are_opened_so_many_deep(tmp_path):
    body = table("m")
    for n in range(5):
        body = zipped({f"{n}.zip" if n else "a.csv": body})
    (tmp_path / "x.zip").write_bytes(zipped({"deep.zip": body, "b.csv": table("b")}))

    report = import_source("csv", [tmp_path / "x.zip"], tmp_path / "p", import_options(lenient=True))

    assert [row.reason for row in report.quality.refused] == ["an archive lies in 3 others"]


def test_streams_of_betfair_are_read_from_whatever_they_are_packed_in(tmp_path):
    path = stream(tmp_path, OPENING, change(5, rc=[offers(1, 1.95, 2.05)]))
    files = {f"BASIC/{path.name}": path.read_bytes()}
    for form in ("tar", "tar.gz", "zip"):
        (tmp_path / f"streams.{form}").write_bytes(FORMS[form](files))

    reports = [
        import_source(source, [tmp_path / f"streams.{form}"], tmp_path / f"{form}-{source}")
        for form in ("tar", "tar.gz", "zip")
        for source in (None, "betfair")
    ]

    assert len({report.quality.ticks for report in reports}) == 1
    assert [one.name for one in reports[0].manifest.sources] == ["streams.tar"]  # a plain tar is read as it is


@pytest.mark.realdata
def test_the_archive_of_snapshots_is_read_file_by_file(realdata, tmp_path):
    mapping = {
        "columns": {"fixture": "game_id", "time": "snapshot_taken_at_utc", "book": "bookmaker"},
        "sides": {"home": "ml_home", "away": "ml_away"},
    }
    options = import_options(mapping=mapping, odds_format="american", lenient=True)

    report = import_source(None, [realdata / "other" / "nhl_snapshots_sample.tar.gz"], tmp_path / "p", options)

    older_files, log = report.quality.refused
    assert (report.quality.messages, older_files.count, log.count) == (674, 29, 1)
    assert "the mapping names 'snapshot_taken_at_utc', which is not one of the columns 'date'" in older_files.reason
    assert log.examples == ("data/heartbeat.csv",)


def test_of_an_archive_of_several_sources_one_is_named_to_read_its_own_files(tmp_path):
    (tmp_path / "x.zip").write_bytes(zipped({f"{name}.csv": text for name, text in TEXTS.items()} | {"csv2.csv": table("n")}))

    with pytest.raises(
        SourceError, match=r"several sources: csv, for csv\.csv .*, as 1 more files have; .*: name one before"
    ) as refused:
        import_source(None, [tmp_path / "x.zip"], tmp_path / "p")
    report = import_source("csv", [tmp_path / "x.zip"], tmp_path / "p", import_options(lenient=True))

    assert str(tmp_path) not in str(refused.value)
    assert (report.quality.fixtures, report.quality.refused_rows) == (2, 2)
