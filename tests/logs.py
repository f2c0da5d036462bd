"""The run log of a test: its entries, and what an auditor finds in some."""

from clvlab.log.audit import Auditor
from clvlab.proof.canonical import sha256
from clvlab.proof.manifest import derived_run_id


def hashed(name):
    return sha256(str(name).encode())


def run_of(name):
    """The id of a run whose inputs have the hash of a name."""
    return derived_run_id(hashed(name))


def entries(log):
    with log.read() as rows:
        return [rows.entry(index) for index in range(rows.size())]


def audited(found):
    auditor = Auditor()
    for data in found:
        auditor.add(data)
    auditor.finish()
    return auditor
