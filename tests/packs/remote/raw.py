"""A pack that keeps its provider's messages."""

from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.writer import write_pack
from tests.factories import make_tape, message


def make_raw_pack(folder):
    source = folder.parent / "messages.json"
    source.write_bytes(b'{"of": "a provider"}\n')
    tape = make_tape([message(0, 0, {"part1": 4000, "part2": 6000}), message(1, 60, {"part1": 4100, "part2": 5900})], {1: 600})
    manifest = PackManifest(
        pack_id=folder.name, provenance="imported-test", fixtures=(Fixture(fixture_id=1, kickoff_ts_ms=600_000),)
    )
    write_pack(tape.ticks().collect(engine="in-memory"), manifest, folder, {"a b#%é.json": source})
    return folder
