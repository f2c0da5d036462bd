"""What a plan holds out is shut by the match, in whatever file it comes, and so are trials counted."""

import sqlite3
from contextlib import closing

import polars as pl
import pytest
from typer.testing import CliRunner

import clvlab as cl
from clvlab.arena.log.operations import open_log
from clvlab.cli.app import app
from clvlab.errors import HeldOutError, StatisticsError
from clvlab.packs import reader
from tests.packs.remote.web import serving

GRID = {"warmup_ticks": [3, 5]}
MINUTE_MS, DAY_MS = 60_000, 86_400_000
FIRST_MS = 1_772_323_200_000  # 2026-03-01
TEAMS = [
    ("Arsenal", "Chelsea"), ("Nottingham Forest", "Brighton & Hove Albion"), ("Liverpool", "Everton"),
    ("Fulham", "Brentford"), ("Leeds United", "Burnley"), ("Manchester United", "Aston Villa"),
    ("Tottenham Hotspur", "Newcastle United"), ("Wolverhampton Wanderers", "Crystal Palace"),
    ("West Ham United", "Sunderland"), ("AFC Bournemouth", "Queens Park Rangers"),
]  # fmt: skip
SPELLED = {
    "Manchester United": "Man United", "Tottenham Hotspur": "Spurs", "Newcastle United": "Newcastle Utd",
    "Wolverhampton Wanderers": "Wolves", "West Ham United": "West Ham", "AFC Bournemouth": "Bournemouth",
    "Queens Park Rangers": "QPR",
}  # fmt: skip
HELD = 5


def table():
    """Return odds of ten matches, one a day, of which the last five will be held out."""
    rows = []
    for match, (home, away) in enumerate(TEAMS):
        day = FIRST_MS + match * DAY_MS + 600 * MINUTE_MS
        for minute in range(40):
            prob = 0.4 + 0.01 * ((minute * (match + 3)) % 17)
            rows += [
                (
                    f"m{match}",
                    day + 600 * MINUTE_MS + minute * MINUTE_MS,
                    day + 720 * MINUTE_MS,
                    home,
                    away,
                    side,
                    round(odds, 3),
                )
                for side, odds in (("home", 1 / prob / 1.03), ("draw", 7.5), ("away", 1 / (1 - prob) / 1.03 + 0.4))
            ]
    columns = ["fixture", "time", "kickoff", "home", "away", "side", "odds"]
    return pl.DataFrame(rows, schema=columns, orient="row").insert_column(5, pl.lit("1X2||").alias("market"))


def renumbered(frame):
    return frame.with_columns(pl.col("fixture").str.replace("m", "other-"))


def moved(frame, *, ms):
    return renumbered(frame).with_columns(pl.col("time", "kickoff") + ms)


def swapped(frame):
    turned = renumbered(frame).rename({"home": "away", "away": "home"})
    return turned.with_columns(pl.col("side").replace({"home": "away", "away": "home"}))


def american(frame):
    odds = pl.col("odds")
    return renumbered(frame).with_columns(odds=pl.when(odds >= 2).then((odds - 1) * 100).otherwise(-100 / (odds - 1)).round(0))


def anonymous(frame):
    return renumbered(frame).with_columns(home=pl.col("fixture") + pl.lit("a"), away=pl.lit("z"))


FILES = {
    "another margin": lambda frame: frame,
    "another id of each fixture": renumbered,
    "parquet": renumbered,
    "american odds": american,
    "a dropped row": lambda frame: renumbered(frame)[3:],
    "every fifth message dropped": lambda frame: renumbered(frame).filter(pl.int_range(pl.len()) // 3 % 5 != 0),
    "a column more": lambda frame: renumbered(frame).with_columns(note=pl.lit("x")),
    "shuffled rows": lambda frame: renumbered(frame).sample(fraction=1, shuffle=True, seed=1),
    "a kickoff a day later": lambda frame: moved(frame, ms=DAY_MS),
    "a kickoff a day earlier": lambda frame: moved(frame, ms=-DAY_MS),
    "sides swapped": swapped,
    "teams spelled otherwise": lambda frame: renumbered(frame).with_columns(pl.col("home", "away").replace(SPELLED)),
    "other names, the same quotes": anonymous,
    "other names, a dropped row": lambda frame: anonymous(frame)[3:],
    "no names": lambda frame: renumbered(frame).drop("home", "away"),
    "neither names nor kickoffs": lambda frame: renumbered(frame).drop("home", "away", "kickoff"),
    "the same ids, no names, no kickoffs": lambda frame: frame.drop("home", "away", "kickoff")[3:],
    "the held-out matches alone": lambda frame: renumbered(frame)[5 * 120 :],
}
READ = {"parquet": {"ending": "parquet"}, "american odds": {"odds_format": "american"}}


@pytest.fixture
def lab(tmp_path):
    with cl.Lab(tmp_path / "lab.db") as made:
        yield made


@pytest.fixture
def bring(lab, tmp_path):
    """Imports a table into the laboratory, as a file of its own name."""

    def imported(frame, name, ending="csv", **options):
        path = tmp_path / f"{name}.{ending}"
        frame.write_csv(path) if ending == "csv" else frame.write_parquet(path)
        return lab.import_odds(ending, path, **options)

    return imported


@pytest.fixture
def plan(lab, bring):
    return lab.plan(bring(table(), "first"), "cumulative-drift", GRID, hold_out=0.5)


def shut_in(lab, pack):
    """Return how many fixtures are shut, of which every one is refused, and the others are not."""
    held = dict(lab._backend._without_held_out(pack.source).held_out)
    for fixture_id in held:
        with pytest.raises(HeldOutError):
            lab.backtest(pack, "baseline", fixtures=[fixture_id])
    left = [one for one in pack.fixture_ids if one not in held]
    if left:
        lab.backtest(pack, "baseline", fixtures=left)
    return len(held)


def test_the_same_match_is_shut_in_any_file(subtests, lab, bring, plan):
    for number, (file, change) in enumerate(FILES.items()):
        with subtests.test(file):
            pack = bring(change(table()), f"again-{number}", margin="shin", **READ.get(file, {}))

            assert pack.source.content_hash != plan.payload["content_hash"]
            assert shut_in(lab, pack) == HELD


def test_trials_over_the_same_match_count_in_any_file(subtests, lab, bring):
    first = bring(table(), "first")
    for number, (file, change) in enumerate(FILES.items()):
        with subtests.test(file):
            before = bring(change(table()), f"before-{number}", margin="shin", **READ.get(file, {}))
            lab.sweep(before, "baseline", GRID, progress=False)

            assert lab.sweep(first, "baseline", GRID, progress=False).earlier_trials == 2 * (number + 1)

    plan = lab.plan(first, "cumulative-drift", GRID, hold_out=0.5)
    assert dict(plan.frame.rows())["trials over these fixtures' packs before the plan"] == str(2 * (len(FILES) + 1))


@pytest.mark.usefixtures("plan")
def test_another_provider_of_the_same_match_is_shut(lab, tmp_path):
    lines = ["Div,Date,Time,HomeTeam,AwayTeam,PSH,PSD,PSA,PSCH,PSCD,PSCA"]
    for match, (home, away) in enumerate(TEAMS):
        lines.append(
            f"E0,{match + 1:02d}/03/2026,12:00,{SPELLED.get(home, home)},{SPELLED.get(away, away)},2,3.5,4,2.1,3.5,3.9"
        )
    (tmp_path / "E0.csv").write_text("\n".join(lines) + "\n")

    assert shut_in(lab, lab.import_odds("football-data", tmp_path / "E0.csv")) == HELD


@pytest.mark.parametrize("by", ["another row", "another message"])
def test_other_matches_of_the_same_days_are_open(by, lab, bring, plan):
    others = anonymous(table()).with_columns(odds=pl.col("odds") + (0.4 if by == "another row" else 0.03))

    assert plan.held_out
    assert shut_in(lab, bring(others, "others")) == 0


def test_ids_that_anybody_counts_are_no_match_where_teams_differ(lab, bring, plan):
    others = table().with_columns(pl.col("odds") + 0.4, home=pl.col("fixture"), away=pl.lit("z"))

    assert plan.held_out
    assert shut_in(lab, bring(others, "others")) == 0


def test_of_matches_on_following_days_a_day_decides_and_what_it_leaves_open_is_said(lab, bring):
    day = pl.col("fixture").str.slice(1).cast(pl.Int64)
    daily = table().with_columns(home=pl.lit("Yankees"), away=pl.lit("Red Sox"))
    plan = lab.plan(bring(daily, "daily"), "cumulative-drift", GRID, hold_out=0.5)

    same = bring(renumbered(daily), "same")
    later = bring(renumbered(daily.filter(day < 5)), "later")

    assert shut_in(lab, same) == HELD
    assert lab._backend._without_held_out(later.source).held_out == ()
    with pytest.warns(UserWarning, match=f"may be held out by {plan.plan_id}"):
        lab.backtest(later, "baseline")
    assert "that a plan may hold out, which is unknown" in later._repr_html_()


@pytest.mark.usefixtures("plan")
@pytest.mark.parametrize("change", [renumbered, anonymous])
def test_views_packs_together_and_joined_ones_are_shut_as_what_they_read(change, lab, bring):
    again = bring(change(table()), "again", margin="shin")
    later = moved(table(), ms=400 * DAY_MS).with_columns(pl.col("fixture") + "-later")
    other = bring(later, "other", margin="shin")

    for own in (
        again.where(markets="1X2"),
        again.where(max_overround=9.0),
        cl.concat([again, other]),
        cl.concat([again, other]).where(fixtures=again.fixture_ids),
    ):
        assert shut_in(lab, own) == HELD


@pytest.fixture
def elsewhere(tmp_path):
    """Imports a table outside of the laboratory."""

    def imported(frame, name, **options):
        path = tmp_path / f"{name}.csv"
        frame.write_csv(path)
        return cl.import_odds("csv", path, tmp_path / "elsewhere" / name, **options)

    return imported


@pytest.mark.usefixtures("plan")
def test_a_folder_of_another_name_is_shut(lab, elsewhere):
    assert shut_in(lab, elsewhere(table(), "another_name", margin="shin")) == HELD


@pytest.mark.usefixtures("plan")
@pytest.mark.parametrize("change", [renumbered, swapped])
def test_sources_that_are_joined_are_shut_whichever_has_the_match(change, lab, elsewhere):
    sources = [
        elsewhere(renumbered(table()), "ours"),
        elsewhere(change(table()).with_columns(pl.col("fixture") + "t"), "theirs"),
    ]

    assert shut_in(lab, cl.join_sources(sources)) == HELD
    assert shut_in(lab, cl.join_sources(sources[::-1])) == HELD


@pytest.mark.parametrize("change", [renumbered, anonymous])
def test_a_pack_at_a_url_is_shut_at_the_latest_when_it_is_run(change, lab, plan, elsewhere):
    folder = elsewhere(change(table()), "there").source.folder
    held = dict(lab._backend._without_held_out(reader.load_pack(folder)).held_out)

    with serving(folder.parent) as web:
        pack = cl.open_pack(web.url("there"))
        for fixture_id in held:
            with pytest.raises(HeldOutError, match=plan.plan_id):
                lab.backtest(pack, "baseline", fixtures=[fixture_id])

    assert len(held) == HELD


def test_a_fixture_is_not_held_out_while_its_match_is_searched_under_another_id(lab, bring):
    twice = pl.concat([table(), renumbered(table()).filter(pl.col("fixture") == "other-7")])
    pack = bring(twice, "twice")
    first, second = (one.fixture_id for one in pack.source.manifest.fixtures if one.source_id in ("m7", "other-7"))
    others = [one for one in pack.fixture_ids if one not in (first, second)]

    with pytest.raises(StatisticsError, match=f"fixture {first} .* while {second} is searched.*teams or quotes"):
        lab.plan(pack, "cumulative-drift", GRID, hold_out=[first, *others[:4]])
    assert lab.plan(pack, "cumulative-drift", GRID, hold_out=[first, second, *others[:3]]).held_out


def test_openings_of_other_plans_are_told_by_the_match(lab, bring):
    first = lab.plan(bring(table(), "first"), "cumulative-drift", GRID, hold_out=0.5)
    first.open({"warmup_ticks": 3})

    second = lab.plan(bring(renumbered(table()), "again", margin="shin"), "cumulative-drift", GRID, hold_out=0.5)

    assert dict(second.frame.rows())["opened by other plans"] == "1 before it, as 1"


def test_trials_in_a_pack_that_is_gone_count(lab, bring, elsewhere):
    lab.sweep(elsewhere(anonymous(table()), "gone", margin="shin"), "baseline", GRID, progress=False)

    found = lab.sweep(bring(table(), "first"), "baseline", GRID, progress=False)
    plan = lab.plan("first", "cumulative-drift", GRID, hold_out=0.5)

    assert found.earlier_trials == 2
    assert dict(plan.frame.rows())["trials over these fixtures' packs by now"] == "4"


def test_trials_over_other_matches_do_not_count(lab, bring):
    lab.sweep(bring(moved(table(), ms=400 * DAY_MS), "later"), "baseline", GRID, progress=False)

    assert lab.sweep(bring(table(), "first"), "baseline", GRID, progress=False).earlier_trials == 0


def test_what_is_held_out_is_open_again_when_its_plan_was_opened(lab, bring, plan):
    again = bring(renumbered(table()), "again", margin="shin")
    assert lab._backend._without_held_out(again.source).held_out

    plan.open({"warmup_ticks": 3})

    assert lab.backtest(again, "baseline").report["n_fixtures"] == len(TEAMS)


@pytest.mark.usefixtures("plan")
def test_a_command_that_commits_in_the_log_is_refused_by_the_match(elsewhere, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = elsewhere(anonymous(table()), "again", margin="shin").source.folder
    with open_log(tmp_path / "lab.db") as log, log.read() as rows:
        before = rows.size()

    refused = CliRunner().invoke(app, ["backtest", str(folder), "--log", str(tmp_path / "lab.db")])

    assert isinstance(refused.exception, HeldOutError)
    with open_log(tmp_path / "lab.db") as log, log.read() as rows:
        assert rows.size() == before


@pytest.mark.usefixtures("plan")
def test_packs_are_what_they_were(lab, elsewhere):
    pack = elsewhere(renumbered(table()), "again").source
    before = {path.name: path.read_bytes() for path in pack.folder.iterdir() if path.is_file()}

    shut = lab._backend._without_held_out(pack)

    assert len(shut.held_out) == HELD
    assert reader.load_pack(pack.folder).content_hash == pack.content_hash == shut.content_hash
    assert {path.name: path.read_bytes() for path in pack.folder.iterdir() if path.is_file()} == before


def test_matches_that_somebody_edited_are_read_again(lab, bring, tmp_path):
    pack = bring(anonymous(table()), "again", margin="shin")
    lab.sweep(pack, "baseline", GRID, progress=False)
    plan = lab.plan(bring(table(), "first"), "cumulative-drift", GRID, hold_out=0.5)
    lab.close()
    with closing(sqlite3.connect(tmp_path / "lab.db")) as database, database:
        database.execute("UPDATE matches SET digest = 'sha256:0' WHERE name = ?", [pack.content_hash])

    with cl.Lab(tmp_path / "lab.db") as later:
        with pytest.warns(UserWarning, match="damaged in the store"):
            assert len(later._backend._without_held_out(pack.source).held_out) == len(plan.held_out)
        assert len(later._backend._without_held_out(pack.source).held_out) == HELD
