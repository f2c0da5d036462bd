import datetime as dt
import pickle

import orjson
import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import ArgumentError, PackTamperedError, ReplayError, UnknownPackError, UnsupportedError, ViewError
from clvlab.law.closing import Window
from clvlab.packs.reader import Pack
from clvlab.packs.views.view_file import load_place, place_of
from clvlab.proof import clv_verify
from clvlab.proof.canonical import canonical, sha256
from clvlab.runs.search.search import search_of
from tests.commands import clvlab

AFTER = "2026-01-04"


@pytest.fixture
def pack(written):
    return cl.open_pack(written("whole"))


def test_the_hash_of_a_view_is_that_of_its_rule_and_its_parents_hash(pack):
    view = pack.where(league="E0", after=AFTER)
    rule = {"after_ms": 1767484800000, "leagues": ["E0"]}
    content = {"kind": "where", "parents": [pack.content_hash], "rule": rule, "schema": "clvlab-view/1"}

    assert view.content_hash == sha256(canonical(content))
    assert view.pack_id == f"whole.where-{view.content_hash[7:15]}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"league": "E0"}, {"league": ["E0", "E0"]}),
        ({"league": ["SP1", "E0"]}, {"league": ("E0", "SP1")}),
        ({"season": "2025/26"}, {"season": ["2025-2026"]}),
        ({"after": AFTER}, {"after": dt.date(2026, 1, 4)}),
        ({"after": AFTER}, {"after": dt.datetime(2026, 1, 4, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))}),
        ({"after": AFTER}, {"after": "2026-01-04T00:00:00Z"}),
        ({"markets": ["OU", "OU||line=2.5"]}, {"markets": "OU"}),
        ({"league": "E0", "markets": ["", "OU"]}, {"league": "E0"}),
        ({"fixtures": [3, 1, 3]}, {"fixtures": pl.Series([1, 3])}),
        ({"max_overround": 0.05}, {"max_overround": 0.05000000001}),
    ],
)
def test_equal_rules_have_equal_hashes_and_equal_runs(pack, one, other):
    views = pack.where(**one), pack.where(**other)

    assert views[0].content_hash == views[1].content_hash != pack.content_hash
    assert len({cl.backtest(view, "baseline").run_id for view in views}) == 1


def test_rules_that_filter_nothing_give_the_pack_itself(pack):
    assert pack.where().source is pack.source
    assert pack.where(markets="").content_hash == pack.content_hash


def test_a_view_of_a_view_has_what_both_leave(pack):
    view = pack.where(league="E0").where(after=AFTER).where(markets="OU")
    once = pack.where(league="E0", after=AFTER, markets="OU")

    assert view.ticks().equals(once.ticks())
    assert view.content_hash != once.content_hash
    assert view.source.sources == (pack.content_hash,)
    assert view.pack_id.startswith("whole.where-")
    assert view.pack_id.count("where") == 1
    assert "(view of (view of 'whole': league E0): kickoff at or after 2026-01-04)" in repr(view)


def test_what_each_filter_left_out_is_said(pack):
    view = pack.where(league="E0", after=AFTER, markets="1X2", max_overround=0.1, drop_close_older_than_s=60)
    known = [one for one in pack.source.manifest.fixtures if one.source_id.startswith("E0")]
    late = [one for one in known if (one.kickoff_ts_ms or 0) >= 1767484800000]
    said = {(name, what): (removed, of) for name, what, removed, of in view.removed.iter_rows()}

    assert said["league", "fixtures"] == (6, 12)
    assert said["after", "fixtures"] == (6 - len(late), 6)
    unknown = sum(one.kickoff_ts_ms is None for one in known)
    assert said.get(("after", "fixtures of which it is not known"), (0, 6)) == (unknown, 6)
    assert said["markets", "markets"][0] > 0
    assert said["max_overround", "messages, marked suspended"][0] > 0
    assert said["drop_close_older_than_s", "closes"][1] > 0
    assert pack.removed.is_empty()


def test_closes_that_are_too_old_do_not_count(pack):
    view = pack.where(drop_close_older_than_s=60)
    stale = cl.backtest(view, "baseline").scores.filter(reason="closing_stale").height

    ((_, _, removed, closes),) = view.removed.iter_rows()
    assert 0 < stale <= removed < closes
    assert cl.backtest(pack, "baseline").scores.filter(reason="closing_stale").is_empty()


def test_a_stricter_limit_on_the_age_of_closes_stays(written):
    strict = cl.open_pack(written("strict", max_close_age_s=60)).where(drop_close_older_than_s=600)

    assert strict.source.manifest.max_close_age_s == 60


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"league": "EO"}, "no league 'EO'; it has E0, SP1"),
        ({"season": "1999-00"}, "no season '1999-00'.*2025-26"),
        ({"after": dt.datetime(2026, 1, 4, tzinfo=dt.UTC).replace(tzinfo=None)}, "after= has no time zone"),
        ({"before": "2026-01-04T12:00"}, "before= has no time zone"),
        ({"after": "4 January"}, "after= is a day"),
        ({"after": "2026-01-05", "before": "2026-01-05"}, "before= is the later one"),
        ({"after": True}, "after= is a day"),
        ({"before": -1}, "before= is out of range"),
        ({"before": "1960-01-01"}, "before 1970"),
        ({"fixtures": []}, "fixtures= is a list"),
        ({"fixtures": ["1"]}, "fixtures= is a list"),
        ({"fixtures": [99]}, "fixture 99 is not in pack 'whole'"),
        ({"markets": []}, "markets= is a text"),
        ({"markets": 3}, "markets= is a text"),
        ({"league": ""}, "league= has an empty text"),
        ({"max_overround": "15"}, "max_overround= is a share"),
        ({"max_overround": float("nan")}, "max_overround= is a share"),
        ({"drop_close_older_than_s": 0}, "drop_close_older_than_s= is a whole number"),
        ({"after": "2030-01-01"}, "kickoff at or after 2030-01-01 leaves out 12 of 12"),
    ],
)
def test_what_can_not_be_meant_is_refused_by_its_name(pack, filters, said):
    with pytest.raises(ViewError, match=said):
        pack.where(**filters)


def test_an_argument_that_is_misspelt_is_refused(pack):
    with pytest.raises(ArgumentError, match="did you mean 'league'"):
        pack.where(leage="E0")


def test_markets_that_are_not_there_are_refused_when_they_are_read(pack):
    with pytest.raises(ViewError, match=r"no market of 'whole' begins with '1x2'; it has 1X2\|\|, OU"):
        pack.where(markets="1x2").ticks()


def test_a_pack_without_leagues_says_what_to_choose_by():
    with pytest.raises(ViewError, match="its fixtures name none: choose by after= and before="):
        cl.open_pack("season").where(league="E0")


def test_a_view_is_a_pack_wherever_packs_are_taken(written):
    pack = cl.open_pack(written("whole", ids=range(1, 51)))
    view = pack.where(fixtures=range(1, 41), markets="1X2")
    folds = {number: number % 2 for number in view.fixture_ids}
    grid = {"warmup_ticks": [0, 2]}

    bt = cl.backtest(view, "baseline")
    swept = cl.sweep(view, "baseline", grid, progress=False)
    walked = cl.walk_forward(view, "baseline", grid, by=folds, progress=False)

    assert isinstance(view.source, Pack)
    assert swept.sources[0].scores.equals(bt.scores.drop("in_gap"))
    assert walked.frame.height == 1
    assert cl.backtests([view, "starter"], "baseline")[0].run_id == bt.run_id
    assert "1X2" in str(bt.tear_sheet()._repr_html_())
    assert "view of &#39;whole&#39;" in view._repr_html_() or "view of 'whole'" in view._repr_html_()
    assert bt.explore() is not None
    assert view.price_path().known.height
    assert view.results.height == 40
    assert not cl.lookahead_audit(cl.strategy(first_of_each), view).moved.height
    assert pickle.loads(pickle.dumps(view)).content_hash == view.content_hash
    with pytest.raises(UnsupportedError, match="no folder of its own"):
        _ = view.source.folder


def first_of_each(ticks):
    first = ticks.filter(~pl.col("suspended")).unique(["fixture_id", "market_key"], keep="first", maintain_order=True)
    return first.select("fixture_id", "tick_seq", "market_key", "side", action=pl.lit("BACK"), stake=pl.lit(1))


def test_processes_make_the_view_again(pack):
    view = pack.where(league="E0").where(markets="OU").source
    place = search_of(view, "baseline", None, Window(), {}).place

    again = load_place(pickle.loads(pickle.dumps(place)), view.content_hash)

    assert again.tape().rows.equals(view.tape().rows)
    assert place == place_of(view)
    assert hash(place) == hash(place_of(view))


def test_a_run_over_a_view_binds_its_hash_and_verifies_alone(pack, tmp_path):
    view = pack.where(league="E0")
    folder = cl.backtest(view, "baseline").run.save(tmp_path)

    started = orjson.loads((folder / "events.jsonl").read_bytes().splitlines()[0])["payload"]
    assert started["binding"]["content_hash"] == view.content_hash
    alone = clv_verify.verify(folder)
    assert alone["verified"]
    assert not any(alone["checks"].values())
    assert cl.open_run(folder).verify().passed
    assert cl.open_run(folder).save(tmp_path / "again").joinpath("view.json").is_file()


class TestCommands:
    @pytest.fixture
    def stored(self, pack, tmp_path):
        view = pack.where(league="E0").where(markets=["1X2", "OU"], max_overround=0.1)
        return cl.backtest(view, "baseline").run.save(tmp_path / "runs")

    @pytest.mark.parametrize("given", ["whole", "."])
    def test_verify_makes_the_view_again_of_its_parent(self, stored, tmp_path, given):
        code, out, err = clvlab(tmp_path, "verify", stored, "--pack", given)
        again, shown, _ = clvlab(tmp_path, "verify", stored, "--pack", given, "--replay")

        assert (code, again) == (0, 0), err
        assert "prices: agrees" in out
        assert "replay: agrees" in shown
        assert clvlab(tmp_path, "report", stored, "--pack", given)[0] == 0

    def test_another_parent_is_refused(self, stored, tmp_path, written):
        code, _, err = clvlab(tmp_path, "verify", stored, "--pack", written("other", seed=5))

        assert code != 0
        assert "is not at hand" in " ".join(err.split())

    def test_a_view_file_that_was_changed_is_refused(self, stored, tmp_path):
        path = stored / "view.json"
        path.write_text(path.read_text().replace('"E0"', '"SP1"'))

        code, _, err = clvlab(tmp_path, "verify", stored, "--pack", "whole")

        assert code != 0
        assert "can't be made again" in " ".join(err.split())

    def test_the_rule_of_another_view_is_refused(self, stored, tmp_path, pack):
        pack.where(league="SP1").save(stored / "view.json")

        code, _, err = clvlab(tmp_path, "verify", stored, "--pack", "whole")

        assert code != 0
        assert "view.json of the run" in " ".join(err.split())

    def test_a_view_file_is_named_as_a_pack_is(self, pack, tmp_path):
        view = pack.where(league="E0")
        view.save(tmp_path / "e0.json")

        code, out, err = clvlab(tmp_path, "backtest", "e0.json", "--agent", "baseline", "--json")

        assert code == 0, err
        assert view.pack_id in out
        assert cl.open_pack(tmp_path / "e0.json").ticks().equals(view.ticks())
        assert "view of 'whole': league E0" in " ".join(clvlab(tmp_path, "packs", "show", "e0.json")[1].split())

    def test_verifying_a_view_file_verifies_what_it_is_of(self, pack, tmp_path):
        pack.where(league="E0").save(tmp_path / "e0.json")
        assert clvlab(tmp_path, "packs", "verify", "e0.json")[0] == 0

        path = tmp_path / "whole" / "results.parquet"
        path.write_bytes(path.read_bytes()[:-1])

        assert clvlab(tmp_path, "packs", "verify", "e0.json")[0] == 1

    def test_a_view_file_is_no_pack_to_push(self, pack, tmp_path):
        pack.where(league="E0").save(tmp_path / "e0.json")

        code, _, err = clvlab(tmp_path, "packs", "push", "e0.json", "s3://odds/e0")

        assert code == 2
        assert "name the packs that it is of" in " ".join(err.split())


class TestViewFiles:
    def test_a_view_file_says_what_is_missing(self, pack, tmp_path):
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        pack.where(league="E0").save(elsewhere / "e0.json")

        with pytest.raises(UnknownPackError, match="pack 'whole' of sha256:"):
            cl.open_pack(elsewhere / "e0.json")

    @pytest.mark.parametrize(
        ("change", "error"),
        [
            (lambda own: own.update(content_hash="sha256:" + "0" * 64), PackTamperedError),
            (lambda own: own["rule"].update(leagues=["SP1", "E0"]), ViewError),
            (lambda own: own["rule"].update(color="red"), ViewError),
            (lambda own: own["rule"].update(leagues=[["E0"]]), ViewError),
            (lambda own: own["rule"].update(max_overround_bps="many"), ViewError),
            (lambda own: own.update(kind="join"), ViewError),
            (lambda own: own.update(kind="concat"), ViewError),
            (lambda own: own.update(parents=[]), ViewError),
            (lambda own: own.update(parents=own["parents"] * 2), ViewError),
            (lambda own: own["parents"][0].update(pack_id="../whole"), ViewError),
        ],
    )
    def test_what_is_no_view_file_is_refused(self, pack, tmp_path, change, error):
        path = tmp_path / "e0.json"
        pack.where(league="E0").save(path)
        content = orjson.loads(path.read_bytes())
        change(content)
        path.write_bytes(orjson.dumps(content))

        with pytest.raises(error):
            cl.open_pack(path)

    def test_a_view_without_end_is_refused(self, pack, tmp_path):
        path = tmp_path / "deep.json"
        pack.where(league="E0").save(path)
        own = orjson.loads(path.read_bytes())
        for _ in range(60):
            own = {**own, "parents": [{name: value for name, value in own.items() if name != "schema"}]}
        path.write_bytes(orjson.dumps(own))

        with pytest.raises(ViewError, match="more than 50 views"):
            cl.open_pack(path)

    def test_a_pack_of_its_own_has_no_view_file(self, pack, tmp_path):
        with pytest.raises(ViewError, match="not a view"):
            pack.save(tmp_path / "pack.json")
        with pytest.raises(ViewError, match=r"ends in \.json"):
            pack.where(league="E0").save(tmp_path / "e0")


def test_without_its_view_file_a_run_says_which_pack_it_was_over(pack, tmp_path):
    from clvlab.arena.replays import prices_again

    run = cl.backtest(pack.where(league="E0"), "baseline").run

    with pytest.raises(ReplayError, match=r"whole\.where-"):
        prices_again(run.source, tmp_path / "whole")
    assert prices_again(run.source, tmp_path / "whole", run.view).agrees


def test_a_laboratory_reads_its_runs_over_views_again(written, tmp_path):
    folder = written("here")
    with cl.Lab(tmp_path / "lab.db") as lab:
        ran = lab.backtest(cl.open_pack(folder).where(league="E0"), "baseline").run_id
        known = lab.backtest(cl.open_pack("season").where(before="2026-01-10"), "baseline").run_id
    with cl.Lab(tmp_path / "lab.db") as later:
        assert later.open_run(known).tear_sheet() is not None
        assert later.verify(ran).passed
        with pytest.raises(UnknownPackError, match=r"here\.where-"):
            _ = later.open_run(ran).pack
