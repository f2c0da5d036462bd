import polars as pl
import pytest

from clvlab.application.packs import bundled_catalog
from clvlab.errors import PackFormatError
from clvlab.packs.synthetic import Recipe, build, synthetic_ticks


@pytest.mark.parametrize("pack_id", ["starter", "season"])
def test_a_bundled_pack_is_rebuilt_from_its_recipe_to_the_same_content_hash(tmp_path, pack_id):
    bundled = bundled_catalog().open(pack_id)

    built = build(Recipe(**bundled.manifest.recipe), tmp_path / pack_id)

    assert built.content_hash == bundled.content_hash


def test_another_seed_gives_other_ticks():
    one, _ = synthetic_ticks(Recipe(seed=1, fixtures=1, messages=50))
    other, _ = synthetic_ticks(Recipe(seed=2, fixtures=1, messages=50))

    assert not one.equals(other)


def test_the_feed_has_what_real_feeds_have():
    ticks, fixtures = synthetic_ticks(Recipe(seed=3, fixtures=6, messages=400))

    messages = ticks.unique(["fixture_id", "tick_seq"])
    assert messages["market_key"].n_unique() == 6
    assert 0.005 < messages["suspended"].mean() < 0.1
    assert messages.filter("in_running")["fixture_id"].n_unique() == 4  # one league in three does not say that play began
    assert all(fixture.kickoff_ts_ms for fixture in fixtures)
    before = ticks.join(
        pl.DataFrame([(f.fixture_id, f.kickoff_ts_ms) for f in fixtures], schema=["fixture_id", "kickoff"], orient="row"),
        on="fixture_id",
    )
    assert (before["in_running"] == (before["ts_ms"] > before["kickoff"])).all()
    assert messages.select(pl.struct("fixture_id", "ts_ms").is_duplicated().any()).item()


@pytest.mark.parametrize("recipe", [{"seed": -1}, {"fixtures": 0}, {"messages": 5}])
def test_a_recipe_out_of_bounds_is_refused(recipe):
    with pytest.raises(PackFormatError, match="a recipe needs"):
        Recipe(**recipe)
