import pytest

from clvlab.errors import LogError
from clvlab.log.tiles import WIDTH, Tile, TileCheck, entries_in, tiles_of
from clvlab.proof.merkle import leaf_hash, root

ENTRIES = [str(number).encode() for number in range(70_000)]
BUNDLE = Tile(None, 0, 2)


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 0), "tile/0/000"),
        (Tile(None, 1_234_067), "tile/entries/x001/x234/067"),
        (Tile(1, 1000, 17), "tile/1/x001/000.p/17"),
    ],
)
def test_path_of_a_tile_is_that_of_the_specification(tile, path):
    assert tile.path == path
    assert Tile.parse(path) == tile


@pytest.mark.parametrize(
    "path",
    ["tile/0/0", "tile/00/000", "tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/07", "tile/0/x000/000", "tile/8/000",
     "tile/0/../checkpoint", "tile/entries/000/", "tile/-1/000", "checkpoint", "tile/0/x999/x999/x999/x999/x999/999"],
)  # fmt: skip
def test_other_paths_are_no_tiles(path):
    assert Tile.parse(path) is None


def test_tiles_of_a_log_are_those_of_the_specification():
    hashes = [tile for tile in tiles_of(70_000) if tile.level is not None]

    partial = [(tile.level, tile.index, tile.width) for tile in hashes if tile.width < WIDTH]
    assert partial == [(0, 273, 112), (1, 1, 17), (2, 0, 1)]
    assert [sum(tile.level == level for tile in hashes) for level in range(4)] == [274, 2, 1, 0]
    assert [tile.path for tile in tiles_of(256)] == ["tile/entries/000", "tile/0/000", "tile/1/000.p/1"]
    assert all(tile.size <= 70_000 for tile in hashes)


@pytest.mark.parametrize(
    ("before", "size"), [(0, 1), (1, 2), (255, 256), (256, 257), (300, 300), (500, 70_000), (65_535, 65_536)]
)
def test_growth_needs_only_the_tiles_that_the_smaller_log_lacks(before, size):
    assert set(tiles_of(size, before)) == set(tiles_of(size)) - set(tiles_of(before))


def test_bundle_that_is_cut_or_has_more_is_refused_and_named():
    content = b"\x00\x01a\x00\x00"
    assert entries_in(content, BUNDLE) == [b"a", b""]
    for wrong in (content[:-1], content + b"\x00", content + b"\x00\x01", b"\x00\x01a", content * 2):
        with pytest.raises(LogError, match=r"the file of entries tile/entries/000\.p/2 "):
            entries_in(wrong, BUNDLE)


@pytest.mark.parametrize("size", [1, 255, 256, 257, 512, 1000, 65_536, 70_000])
def test_hashes_of_entries_give_every_tile_of_the_log(size):
    check = TileCheck(size)
    bundles = (ENTRIES[first : min(first + WIDTH, size)] for first in range(0, size, WIDTH))
    made = dict(one for bundle in bundles for one in check.add(bundle))

    assert set(made) == {tile for tile in tiles_of(size) if tile.level is not None}
    leaves = [leaf_hash(entry) for entry in ENTRIES[:size]]
    for tile, hashes in made.items():
        span = WIDTH**tile.level
        start = tile.first * span
        assert hashes == [root(leaves[at : at + span]) for at in range(start, start + tile.width * span, span)]


def test_wrong_tile_is_named_with_the_first_entries_that_it_hides():
    check = TileCheck(512)
    hashes = [bytes([number]) * 32 for number in range(3)]
    good = b"".join(hashes)

    check.compare(Tile(0, 1, 3), good, hashes)
    check.compare(Tile(0, 1, 3), good[:32] + bytes(32) + good[64:], hashes)
    check.compare(Tile(1, 0, 3), good[:-1], hashes)
    check.compare(Tile(0, 0, 3), good + b"x", hashes)

    assert check.faults == [
        (257, "the tile tile/0/001.p/3 does not have the hash of entry 257"),
        (512, "the tile tile/1/000.p/3 does not have the hash of entries 512 to 767"),
        (3, "the tile tile/0/000.p/3 does not have the hash of entry 3"),
    ]
