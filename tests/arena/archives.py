"""Archives of packs, as callers make them and as no honest caller does."""

import io
import stat
import tarfile
import warnings
import zipfile


def files_of(pack):
    """Files of a pack's folder, by name."""
    return {path.relative_to(pack).as_posix(): path.read_bytes() for path in pack.rglob("*") if path.is_file()}


def zipped(files, compression=zipfile.ZIP_DEFLATED):
    """A zip of files by name, or of (name or ZipInfo, content) pairs."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in files.items() if isinstance(files, dict) else files:
            archive.writestr(name, content)
    return buffer.getvalue()


def special(name, kind):
    """An entry of a zip that is a link, a pipe or a device."""
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, (kind | 0o777) << 16
    assert stat.S_IFMT(kind) == kind
    return info


def tarred(files, mode="w:gz", *members):
    """A tar of files by name, with members of any kind after them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            archive.addfile(member(name, size=len(content)), io.BytesIO(content))
        for info in members:
            archive.addfile(info)
    return buffer.getvalue()


def member(name, kind=tarfile.REGTYPE, **fields):
    """A member of a tar."""
    info = tarfile.TarInfo(name)
    info.type = kind
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def sparse_tar(name):
    """A tar of 1 KiB whose member says that it is a hole of 1 TiB."""
    said = {"major": "1", "minor": "0", "realsize": str(1 << 40), "name": name}
    info = member(name, size=512, pax_headers={f"GNU.sparse.{key}": value for key, value in said.items()})
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(info, io.BytesIO(b"1\n0\n0\n".ljust(512, b"\0")))
    return buffer.getvalue()
