"""``python -m tests.benchmarks.imports [--data FOLDER] [--rounds 3] [--json report.json]``: imports beside their peers.

Without ``--data`` the sources are made up; with it they are real ones: a Betfair stream, and changes of The Odds API.
"""

from __future__ import annotations

import argparse
import bz2
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.benchmarks.import_data import three_way_odds, write_changes, write_stream
from tests.benchmarks.measure import Sample, fresh, spread
from tests.benchmarks.report import Figure, machine, rate, ratio, table

_METHODS = ("multiplicative", "additive", "power", "shin", "odds-ratio", "goto")
_PEERS = {"shin": "shin", "penaltyblog power": "power", "penaltyblog shin": "shin", "penaltyblog odds-ratio": "odds-ratio"}
_ROWS = 1_000_000
_PEER_ROWS = 4_000
_CHUNKS = (50_000, 250_000, 1_000_000)


def main() -> int:
    """Time every job in turn, in processes of its own, and print the table."""
    asked = _arguments()
    with tempfile.TemporaryDirectory(prefix="clvlab-imports-") as name:
        folder = Path(name)
        stream, changes = _sources(folder, asked.data, asked.scale)
        samples = _measured(_jobs(stream, changes, asked.scale), asked.rounds)
    figures = list(_figures(samples))
    sys.stdout.write(table(figures) + "\n")
    sys.stdout.write("".join(f"note: {text}\n" for text in _notes()))
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine(), "figures": [f.payload() for f in figures]}, indent=2) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.imports", description="Measure imports beside their peers."
    )
    parser.add_argument("--data", type=Path, help="folder with betfair-stream and the-odds-api")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size of what is made up")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="report.json")
    return parser.parse_args()


def _sources(folder: Path, data: Path | None, scale: float) -> tuple[Path, Path]:
    if data is not None:
        return data / "betfair-stream" / "1.200806927.bz2", data / "the-odds-api" / "mlb_ticks.parquet"
    write_stream(folder / "1.200000009.bz2", int(20_000 * scale), seed=7)
    return folder / "1.200000009.bz2", write_changes(folder, int(600_000 * scale), seed=7)


def _jobs(stream: Path, changes: Path, scale: float) -> dict[str, list[str]]:
    rows, peer_rows = str(int(_ROWS * scale)), str(int(_PEER_ROWS * scale))
    jobs = {f"margin {method}": ["margin", method, rows] for method in _METHODS}
    jobs |= {name: ["margin_peer", name, peer_rows] for name in _PEERS if find_spec(name.split()[0])}
    jobs["stream clvlab"] = ["pack", "betfair", str(stream), "250000"]
    jobs["stream floor"] = ["floor", str(stream)]
    jobs["stream books"] = ["books", str(stream)]
    jobs["stream betfairlightweight"] = ["betfairlightweight", str(stream)]
    if find_spec("betfair_data"):
        jobs["stream betfair_data"] = ["betfair_data", str(stream)]
    return jobs | {f"changes {chunk}": ["pack", "the-odds-api", str(changes), str(chunk)] for chunk in _CHUNKS}


def _measured(jobs: dict[str, list[str]], rounds: int) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            samples[name].append(Sample(**fresh(["-m", "tests.benchmarks.imports", "--job", *job])))
    return samples


def _figures(samples: dict[str, list[Sample]]) -> Iterator[Figure]:
    for method in _METHODS:
        ours = samples[f"margin {method}"]
        yield Figure("margin removal", method, "rows/s", rate(ours, ours[0].facts["rows"]))
    for name, method in _PEERS.items():
        if name not in samples:
            continue
        peer, ours = samples[name], samples[f"margin {method}"]
        per_row = [
            (theirs.seconds / theirs.facts["rows"]) / (own.seconds / own.facts["rows"])
            for theirs, own in zip(peer, ours, strict=True)
        ]
        label = name if name.startswith("penaltyblog") else "shin, the package"
        rows = rate(peer, peer[0].facts["rows"])
        yield Figure("margin removal", label, "rows/s", rows, None, f"clvlab {method}, time a row", spread(per_row))
    books = samples["stream books"]
    messages = books[0].facts["messages"]
    for name, label in (
        ("stream floor", "unpacked and parsed, no more"),
        ("stream books", "books alone"),
        ("stream clvlab", "to a written pack"),
        ("stream betfairlightweight", "betfairlightweight, books alone"),
        ("stream betfair_data", "betfair_data, books alone"),
    ):
        if name in samples:
            yield Figure(
                "exchange stream",
                label,
                "messages/s",
                rate(samples[name], messages),
                None,
                "books alone",
                ratio(samples[name], books),
            )
    for chunk in _CHUNKS:
        found = samples[f"changes {chunk}"]
        rows = found[0].facts["messages"]
        yield Figure("changes to a pack", f"chunks of {chunk} rows", "s", spread([sample.seconds for sample in found]))
        yield Figure("changes to a pack", f"chunks of {chunk} rows, speed", "rows/s", rate(found, rows))
        peaks = spread([sample.peak_mb for sample in found])
        yield Figure("changes to a pack", f"chunks of {chunk} rows, peak memory", "MB", peaks)


def _notes() -> list[str]:
    peers = dict.fromkeys(name.split()[0] for name in [*_PEERS, "betfair_data"])
    return [f"{peer} is not installed and was left out" for peer in peers if not find_spec(peer)]


def _margin(method: str, rows: str) -> Callable[[], dict[str, Any]]:
    from clvlab.odds.margin import fair_probabilities

    odds = three_way_odds(int(rows))
    return lambda: {"rows": len(fair_probabilities(odds, method).prob)}


def _margin_peer(name: str, rows: str) -> Callable[[], dict[str, Any]]:
    odds = three_way_odds(int(rows))
    if name == "shin":
        from tests.benchmarks.field.scripts import shin_margin

        return lambda: {"rows": len(shin_margin.run(odds))}
    from tests.benchmarks.field.scripts import penaltyblog_margin

    return lambda: {"rows": len(penaltyblog_margin.run(odds, _PEERS[name]))}


def _pack(source: str, path: str, chunk: str) -> Callable[[], dict[str, Any]]:
    from clvlab.sources.importer import import_source
    from clvlab.sources.source import Options

    folder = Path(tempfile.mkdtemp(prefix="clvlab-pack-")) / "pack"
    options = Options(lenient=True, chunk_rows=int(chunk))
    return lambda: {"messages": import_source(source, [Path(path)], folder, options).quality.messages}


def _floor(path: str) -> Callable[[], dict[str, Any]]:
    import orjson

    return lambda: {"messages": sum(1 for line in bz2.decompress(Path(path).read_bytes()).splitlines() if orjson.loads(line))}


def _books(path: str) -> Callable[[], dict[str, Any]]:
    from clvlab.sources.betfair.history import market_files
    from clvlab.sources.source import ImportStats, Options

    def job() -> dict[str, Any]:
        account = ImportStats()
        for file in market_files({Path(path).name: Path(path)}, Options(), account):
            for _ in file.read(250_000):
                for book in file.books.values():
                    book.take()
        return {"messages": account.messages}

    return job


def _betfairlightweight(path: str) -> Callable[[], dict[str, Any]]:
    """Read books with a library that takes plain files: unpacking is part of the job, as it is of the others."""
    import betfairlightweight

    def job() -> dict[str, Any]:
        with tempfile.NamedTemporaryFile() as plain:
            plain.write(bz2.decompress(Path(path).read_bytes()))
            plain.flush()
            listener = betfairlightweight.StreamListener(max_latency=None, lightweight=True)
            client = betfairlightweight.APIClient("", "", "")
            stream = client.streaming.create_historical_generator_stream(plain.name, listener)
            return {"messages": sum(len(books) for books in stream.get_generator()())}

    return job


def _betfair_data(path: str) -> Callable[[], dict[str, Any]]:
    from betfair_data import bflw

    return lambda: {"messages": sum(len(books) for file in bflw.Files([path]) for books in file)}


_WORK: dict[str, Callable[..., Callable[[], dict[str, Any]]]] = {
    "margin": _margin,
    "margin_peer": _margin_peer,
    "pack": _pack,
    "floor": _floor,
    "books": _books,
    "betfairlightweight": _betfairlightweight,
    "betfair_data": _betfair_data,
}


def work(name: str, *arguments: str) -> None:
    """Do one job in this process and print what it took."""
    job = _WORK[name](*arguments)
    start = time.perf_counter()
    facts = job()
    seconds = time.perf_counter() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"seconds": seconds, "peak_mb": peak_mb, "facts": facts}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        work(*sys.argv[2:])
    else:
        sys.exit(main())
