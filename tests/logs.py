"""The run log of a test: its entries, and what an auditor finds in some."""

from clvlab.runlog.audit import Auditor


def entries(log):
    with log.read() as rows:
        return [rows.entry(index) for index in range(rows.size())]


def audited(found):
    auditor = Auditor()
    for data in found:
        auditor.add(data)
    auditor.finish()
    return auditor
