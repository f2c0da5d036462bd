"""``python -m tests.benchmarks.tiles [--entries 100000] [--more 1000] [--rounds 3] [--json report.json]``.

A log is exported as tiles, then what it grew by, and audited over HTTP from a plain file server on this machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from clvlab.arena.log.audit import audit
from clvlab.arena.log.operations import open_log, signed_checkpoint
from clvlab.arena.log.tiles import TileExport, export_tiles
from clvlab.log.bundles import Trust
from clvlab.log.log import LogStore, commit
from clvlab.log.note import Signer
from clvlab.proof.canonical import sha256
from clvlab.proof.manifest import derived_run_id
from tests.benchmarks.measure import spread
from tests.benchmarks.report import Budget, Equality, Figure, machine, table
from tests.static_host import hosted

_KEY = Signer("log.example", 1, bytes(range(32)))
_PACK = sha256(b"pack")


def main() -> int:
    """Export, grow, export again and audit; 1 if an export is not what the audit reads."""
    asked = _arguments()
    exported, grown, audited, sizes, files = [], [], [], set(), set()
    with tempfile.TemporaryDirectory(prefix="clvlab-tiles-") as name:
        folder = Path(name)
        with open_log(folder / "runs.log", create=True) as log:
            _grow(log, asked.entries)
            for number in range(asked.rounds):
                out = folder / f"tiles-{number}"
                exported.append(_timed(_exported, log, out)[0])
            _grow(log, asked.more, asked.entries)
            for number in range(asked.rounds):
                out = folder / f"tiles-{number}"
                seconds, done = _timed(_exported, log, out)
                grown.append(seconds)
                files.add(done.files)
        with hosted(out) as url:
            for _ in range(asked.rounds):
                seconds, found = _timed(lambda place: audit(place, trust=Trust(logs=[str(_KEY.verifier)])), url)
                audited.append(seconds)
                sizes.add((found.sound, found.size))
    job = f"log of {asked.entries} entries"
    share = f"files of {asked.more} new entries"
    figures = [
        Figure(job, "exported as tiles", "s", spread(exported), Budget(5)),
        Figure(job, share, "files", spread([float(count) for count in files]), Budget(2 * (asked.more // 256 + 2) + 5)),
        Figure(job, f"exported again, {asked.more} more", "s", spread(grown)),
        Figure(job, "audited over HTTP", "s", spread(audited), Budget(10)),
    ]
    equalities = [Equality("the audit reads every entry, and is sound", sizes == {(True, asked.entries + asked.more)})]
    sys.stdout.write(table(figures) + "\n")
    if asked.json:
        report = {
            "machine": machine(),
            "figures": [figure.payload() for figure in figures],
            "equalities": {equality.name: equality.holds for equality in equalities},
        }
        asked.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if all(equality.holds for equality in equalities) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tiles", description="Measure the tiles of a log.")
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--more", type=int, default=1000, help="entries between two exports")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="report.json")
    return parser.parse_args()


def _grow(log: LogStore, count: int, start: int = 0) -> None:
    with log.write() as rows:
        for number in range(start, start + count):
            inputs = sha256(str(number).encode())
            commit(rows, derived_run_id(inputs), f"did:example:{number % 50}", inputs, _PACK, number, sources=[inputs])


def _exported(log: LogStore, out: Path) -> TileExport:
    return export_tiles(log, str(out), lambda: signed_checkpoint(log, _KEY))


def _timed(work, *given):
    started = time.perf_counter()
    done = work(*given)
    return time.perf_counter() - started, done


if __name__ == "__main__":
    raise SystemExit(main())
