import itertools
import random

import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import PackFormatError, ViewError
from clvlab.packs.files import fixture_digests
from clvlab.packs.manifest import PackManifest
from clvlab.packs.reader import load_pack
from clvlab.packs.views.concatenation import concatenated
from clvlab.packs.writer import write_pack
from clvlab.proof.canonical import canonical, sha256
from tests.commands import clvlab
from tests.length import length
from tests.packs.views.conftest import write

ODD, EVEN = range(1, 40, 2), range(2, 40, 2)


@pytest.fixture
def packs(written):
    return [
        cl.open_pack(written(name, seed, ids)) for name, seed, ids in (("a", 1, range(1, 40, 3)), ("b", 2, range(2, 40, 3)))
    ]


@pytest.mark.parametrize("seed", range(length(3, 100)))
def test_packs_together_are_what_a_pack_of_all_their_ticks_is(tmp_path, seed):
    draw = random.Random(seed)
    ids = draw.sample(range(1, 60), 24)
    parts = [ids[:8], ids[8:16], ids[16:]]
    packs = [cl.open_pack(write(tmp_path / f"p{number}", seed * 3 + number, part)) for number, part in enumerate(parts)]
    together = cl.concat(packs)
    fixtures = sorted((one for pack in packs for one in pack.source.manifest.fixtures), key=lambda one: one.fixture_id)
    manifest = PackManifest(pack_id="plain", provenance="synthetic-drawn", fixtures=tuple(fixtures))
    write_pack(pl.concat([pack.ticks() for pack in packs]), manifest, tmp_path / "plain")
    plain = cl.open_pack(tmp_path / "plain")

    assert together.fixture_ids == plain.fixture_ids
    one, other = together.source.tape(), plain.source.tape()
    assert one.rows.equals(other.rows)
    assert one.series.equals(other.series)
    assert fixture_digests(one) == {one.fixture_id: one.digest for one in together.source.manifest.fixtures}
    some = draw.sample(ids, 5)
    assert together.ticks(some).equals(plain.ticks(some))
    assert together.results.equals(plain.results or together.results)
    first, second = (cl.backtest(pack, "cumulative-drift") for pack in (together, plain))
    assert first.scores.equals(second.scores)
    assert first.run.verify().passed


def test_the_order_changes_nothing_and_twice_is_once(packs, written):
    packs = [*packs, cl.open_pack(written("c", 3, range(41, 50)))]
    hashes = {cl.concat(order).content_hash for order in itertools.permutations(packs)}
    parts = sorted(pack.content_hash for pack in packs)

    assert hashes == {sha256(canonical({"kind": "concat", "parents": parts, "rule": {}, "schema": "clvlab-view/1"}))}
    assert {cl.concat([packs[0], cl.concat(packs[1:])]).content_hash, cl.concat(packs * 2).content_hash} == hashes
    assert cl.concat([packs[0], packs[0]]).source == packs[0].source


def test_equal_fixtures_are_one(packs):
    early, late = packs[0].where(fixtures=[1, 4, 7]), packs[0].where(fixtures=[7, 10])

    assert cl.concat([early, late]).fixture_ids == (1, 4, 7, 10)
    assert cl.concat([early, late]).ticks().equals(packs[0].ticks([1, 4, 7, 10]))


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"margin": "shin"}, "their margin differs: '.*' in '.*', '.*' in '.*'"),
        ({"closing_policy": "last_open"}, "closing_policy"),
        ({"closing_source": "venue"}, "closing_source"),
        ({"max_close_age_s": 60}, "max_close_age_s"),
        ({"kickoff": "actual"}, "kickoff"),
    ],
)
def test_packs_that_close_or_were_made_otherwise_are_refused(packs, written, labels, said):
    other = cl.open_pack(written("other", 5, range(50, 53), **labels))

    with pytest.raises(ViewError, match=said):
        cl.concat([packs[0], other])


def test_one_id_for_two_fixtures_is_refused(packs, written):
    other = cl.open_pack(written("other", 9, [4, 50]))

    with pytest.raises(ViewError, match=r"fixture 4 is in '.*' and in '.*' with another .*digest"):
        cl.concat([packs[0], other])
    assert cl.concat([packs[0], other.where(fixtures=[50])]).fixture_ids[-1] == 50


@pytest.mark.parametrize("filters", [{"markets": "1X2"}, {"max_overround": 0.01}])
def test_a_fixture_that_two_views_may_read_otherwise_is_refused(packs, filters):
    with pytest.raises(ViewError, match="is in two views"):
        cl.concat([packs[0], packs[0].where(**filters)])


@pytest.mark.parametrize(("given", "error"), [([], ViewError), ("a", PackFormatError), (3, PackFormatError)])
def test_what_is_no_list_of_packs_is_refused(given, error):
    with pytest.raises(error):
        cl.concat(given)


@pytest.mark.parametrize(
    ("labels", "together"),
    [
        (["imported-a", "imported-b"], "imported-several"),
        (["imported-a", "synthetic-b"], "synthetic-several"),
        (["genuine-a", "unknown"], "unknown"),
        (["imported-a", "imported-a"], "imported-a"),
    ],
)
def test_what_packs_together_are_is_what_the_least_of_them_is(tmp_path, labels, together):
    packs = []
    for number, label in enumerate(labels):
        folder = write(tmp_path / f"p{number}", number, [number + 1], provenance=label)
        packs.append(load_pack(folder))

    assert concatenated(packs).provenance == together


def test_a_run_over_packs_together_is_verified_from_their_folder(packs, tmp_path):
    folder = cl.backtest(cl.concat(packs), "baseline").run.save(tmp_path / "runs")

    code, out, err = clvlab(tmp_path, "verify", folder, "--pack", ".", "--replay")

    assert code == 0, err
    assert "replay: agrees" in out
