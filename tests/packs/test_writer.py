import polars as pl
import pytest

from clvlab.base.progress import listening
from clvlab.errors import PackFormatError
from clvlab.law.schema import TICKS
from clvlab.law.tape import Tape
from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.reader import load_pack
from clvlab.packs.verification import verify_pack
from clvlab.packs.writer import PackWriter, write_pack


def ticks(*rows):
    return pl.DataFrame(rows, schema=TICKS, orient="row")


def message(seq, ts, probs, *, market="OU||", fixture=1, suspended=False, in_running=False):
    odds = [None if p is None else 10_000_000 // p for p in probs]
    sides = ["over", "under", "void"][: len(probs)]
    rows = zip(sides, probs, odds, strict=True)
    return [(fixture, seq, ts, in_running, market, side, prob, price, suspended) for side, prob, price in rows]


SOUND = [*message(0, 1000, [4000, 6000]), *message(1, 2000, [None, None], suspended=True), *message(2, 2000, [4100, 5900])]
MANIFEST = PackManifest(pack_id="p", provenance="unknown", fixtures=(Fixture(fixture_id=1),))


def test_a_written_pack_reads_back_as_it_was(tmp_path):
    write_pack(ticks(*SOUND), MANIFEST, tmp_path / "p")

    pack = verify_pack(tmp_path / "p")

    assert pack.tape().ticks().collect().rows() == sorted(SOUND, key=lambda row: (row[1], row[5]))
    assert pack.fixtures["rows"].to_list() == [6]


def test_row_order_of_the_input_does_not_change_the_content_hash(tmp_path):
    one = write_pack(ticks(*SOUND), MANIFEST, tmp_path / "a")
    other = write_pack(ticks(*reversed(SOUND)), MANIFEST, tmp_path / "b")

    assert one.content_hash == other.content_hash


def test_a_limit_on_the_age_of_a_close_is_in_descriptor_and_hash_only_where_it_is_set(tmp_path):
    free = write_pack(ticks(*SOUND), MANIFEST, tmp_path / "a")
    bound = write_pack(ticks(*SOUND), MANIFEST.model_copy(update={"max_close_age_s": 60}), tmp_path / "b")

    assert free.content_hash == "sha256:a52461793e6e0b979626cd0ad752ecf73bf80261884b077d412b2e28aee79781"
    assert "max_close_age_s" not in (tmp_path / "a" / "datapackage.json").read_text()
    assert bound.content == free.content | {"max_close_age_s": 60}
    assert bound.content_hash != free.content_hash
    assert verify_pack(tmp_path / "b").manifest == bound


def test_one_fixture_reads_as_if_it_were_alone(tmp_path):
    two = MANIFEST.model_copy(update={"fixtures": (Fixture(fixture_id=1), Fixture(fixture_id=2))})
    other = [(2, *row[1:]) for row in SOUND]
    write_pack(ticks(*SOUND, *other), two, tmp_path / "both")
    write_pack(ticks(*other), MANIFEST.model_copy(update={"fixtures": (Fixture(fixture_id=2),)}), tmp_path / "alone")

    both, alone = load_pack(tmp_path / "both"), load_pack(tmp_path / "alone")

    assert both.tape([2]).rows.equals(alone.tape().rows)
    assert both.tape().fixture(2).rows.equals(alone.tape().rows)
    assert both.tape().fixture(2).series.equals(alone.tape().series)
    assert both.manifest.fixtures[1].digest == alone.manifest.fixtures[0].digest


def test_a_fixture_without_ticks_can_stand_in_a_pack(tmp_path):
    empty = MANIFEST.model_copy(update={"fixtures": (Fixture(fixture_id=1), Fixture(fixture_id=7))})
    write_pack(ticks(*SOUND), empty, tmp_path / "p")

    assert verify_pack(tmp_path / "p").tape([7]).rows.is_empty()


def test_an_empty_pack_can_be_written_and_read(tmp_path):
    write_pack(ticks(), MANIFEST, tmp_path / "p")

    assert verify_pack(tmp_path / "p").tape().rows.is_empty()


def test_a_pack_is_never_overwritten(tmp_path):
    write_pack(ticks(*SOUND), MANIFEST, tmp_path / "p")

    with pytest.raises(PackFormatError, match="exists"):
        write_pack(ticks(), MANIFEST, tmp_path / "p")

    assert verify_pack(tmp_path / "p").fixtures["rows"].to_list() == [6]


BROKEN = {
    "sum to 10000": message(0, 1000, [4000, 6051]),
    "prob_bps must be 0 to 10000": message(0, 1000, [-5, 10_005]),
    "time must not go backwards": [*message(0, 2000, [4000, 6000]), *message(1, 1999, [4000, 6000])],
    "count 0, 1, 2": [*message(0, 1000, [4000, 6000]), *message(2, 2000, [4000, 6000])],
    "a tick must have one market": [*message(0, 1000, [4000, 6000]), *message(0, 1000, [4000, 6000], market="other")],
    "one row per side": [*message(0, 1000, [4000, 6000]), (1, 1, 2000, False, "OU||", "over", 4000, 2500, False)],
    "at least two sides": [(1, 0, 1000, False, "OU||", "over", 10_000, 2500, False)],
    "agree on ts_ms": [
        (1, 0, 1000, False, "OU||", "over", 4000, 2500, False),
        (1, 0, 1001, False, "OU||", "under", 6000, 1600, False),
    ],
    "share a tick": [*message(0, 1000, [4000, 6000]), *message(0, 1000, [4000, 6000])],
    "must not carry a probability": message(0, 1000, [4000, 6000], suspended=True),
    "must be marked suspended": message(0, 1000, [None, None]),
    "odds_milli must be": [
        (1, 0, 1000, False, "OU||", "over", 4000, 1000, False),
        (1, 0, 1000, False, "OU||", "under", 6000, 1600, False),
    ],
    "no control character": message(0, 1000, [4000, 6000], market="a\nb"),
    "must not be null": [(1, 0, None, False, "OU||", s, 5000, 2000, False) for s in ("over", "under")],
}


@pytest.mark.parametrize("rule", BROKEN)
def test_ticks_that_break_a_rule_are_refused_and_nothing_is_left(tmp_path, rule):
    with pytest.raises(PackFormatError, match=rule):
        write_pack(ticks(*BROKEN[rule]), MANIFEST, tmp_path / "p")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("probs", [[4000, 6050], [4000, 5950], [None, 9000], [0, 10_000]])
def test_ticks_at_the_edge_of_a_rule_are_accepted(tmp_path, probs):
    rows = [(1, 0, 1000, False, "OU||", side, p, None, False) for side, p in zip(("over", "under"), probs, strict=True)]

    write_pack(ticks(*rows), MANIFEST, tmp_path / "p")

    assert verify_pack(tmp_path / "p").pack_id == "p"


def test_ticks_of_an_undeclared_fixture_are_refused(tmp_path):
    with pytest.raises(PackFormatError, match="fixture 9, which the manifest does not declare"):
        write_pack(ticks(*message(0, 1000, [4000, 6000], fixture=9)), MANIFEST, tmp_path / "p")


def test_fixtures_are_added_in_order_without_a_look_at_all_before(tmp_path):
    class Unread(dict):
        def __iter__(self):
            raise AssertionError("a look at every fixture for each that is added")

    fixtures = tuple(Fixture(fixture_id=number) for number in range(1, 6))
    alone = {number: ticks(*((number, *row[1:]) for row in SOUND)) for number in (1, 2, 4, 3)}

    with PackWriter(tmp_path / "p", fixtures) as writer:
        writer._written = Unread()
        for number in (1, 2, 4):
            writer.add(Tape.from_ticks(alone[number], writer.kickoffs))
        with pytest.raises(PackFormatError, match="fixture 3 comes after fixture 4"):
            writer.add(Tape.from_ticks(alone[3], writer.kickoffs))
        writer.finish(MANIFEST)

    assert verify_pack(tmp_path / "p").fixtures["rows"].to_list() == [6, 6, 0, 6, 0]


def test_whoever_verifies_is_told_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr("clvlab.packs.reader.SHARD_ROWS", 1)
    fixtures = tuple(Fixture(fixture_id=number) for number in (1, 2, 3))
    rows = [(number, *row[1:]) for number in (1, 2) for row in SOUND]
    write_pack(ticks(*rows), MANIFEST.model_copy(update={"fixtures": fixtures}), tmp_path / "p")
    told = []

    with listening(lambda stage, done=0, total=0: told.append((done, total)) if stage == "checking rows" else None):
        verify_pack(tmp_path / "p")

    assert told[-1] == (12, 12)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert len(told) > 1
