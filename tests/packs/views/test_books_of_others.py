"""What another source said, as a book: beside a plain loop over messages, and what agents and closes make of it."""

import random

import polars as pl
import pytest

import clvlab as cl
from clvlab.agents.registry import template
from clvlab.arena.replays import prices_again, replay_run
from clvlab.engine.run import run
from clvlab.errors import HeldOutError, ViewError
from clvlab.law.closing import Window
from clvlab.law.schema import BOOKS, FIXTURES, TICKS
from clvlab.law.tape import Tape
from clvlab.packs.books import at_their_times, check_books
from clvlab.packs.manifest import Fixture, PackManifest
from clvlab.packs.views.join import books_of, join_of, joined_by, joints, markets_of, otherwise_matched
from clvlab.packs.views.rule import rule
from clvlab.packs.views.view import view_of
from clvlab.packs.views.view_file import view_file
from clvlab.packs.writer import write_pack
from tests.commands import clvlab
from tests.length import few, length
from tests.packs.views.conftest import START_S

NAMES = ("Arsenal", "Leeds")


def drawn(draw, fixture_id, styles, count=25):
    """Draw a tape of markets in some styles: three sides, two, or yes and no about one of them."""
    rows, now = [], 1000 * START_S
    sides = {"1X2||": ["part1", "draw", "part2"], "h2h||": ["home", "x", "away"], "winner||": ["part1", "part2"]}
    sides |= {f"win_{role}||": ["yes", "no"] for role in ("home", "draw", "away")}
    for seq in range(count):
        now += draw.choice([0, 0, 1000, 60_000, 600_000])
        market = draw.choice(styles)
        own, suspended = sides[market], draw.random() < 0.15
        cuts = sorted(draw.sample(range(500, 9500), len(own) - 1))
        probs = [high - low for low, high in zip([0, *cuts], [*cuts, 10_000], strict=True)]
        for side, prob in zip(own, probs, strict=True):
            prices = (None, None) if suspended else (prob, round(10_000_000 / prob))
            rows.append((fixture_id, seq, now, False, market, side, *prices, suspended))
    ticks = pl.DataFrame(rows, schema=TICKS, orient="row")
    return Tape.from_ticks(ticks, pl.DataFrame([(fixture_id, None)], schema=FIXTURES, orient="row"))


def understood(tape, *, turned=False):
    sides = {}
    for market, side in tape.series.select("market_key", "side").iter_rows():
        sides.setdefault(market, []).append(side)
    return [market.swapped if turned else market for market in markets_of(sides, NAMES)]


def by_plain_loop(first, second, joined):
    """Go through the first source's ticks, and note what the other one had said by then whenever it said something new."""
    links = {(one.other_market_key, one.other_side): [] for one in joined}
    for one in joined:
        links[one.other_market_key, one.other_side].append((one.market_key, one.side))
    known, found, waiting = {}, [], second.ticks().collect().sort("tick_seq").to_dicts()
    sides = {}
    for market, side in first.series.select("market_key", "side").iter_rows():
        sides.setdefault(market, []).append(side)
    for _, seq, ts_ms, _ in first.messages.sort("tick_seq").iter_rows():
        news = set()
        while waiting and waiting[0]["ts_ms"] <= ts_ms:
            row = waiting.pop(0)
            for market, side in links.get((row["market_key"], row["side"]), []):
                known[market, side] = row["prob_bps"], row["odds_milli"]
                news.add(market)
        for market in news:
            states = {side: known.get((market, side), (None, None)) for side in sides[market]}
            probs = [prob for prob, _ in states.values() if prob is not None]
            whole = sum(probs)
            apart = len(probs) == len(states) and abs(whole - 10_000) > 50
            for side, (prob, odds) in states.items():
                own = (20_000 * prob + whole) // (2 * whole) if apart else prob
                found.append((1, market, side, "other", seq, ts_ms, own, odds, not probs))
    return pl.DataFrame(found, schema=BOOKS, orient="row").sort("market_key", "side", "tick_seq"), len(waiting)


@pytest.mark.parametrize("seed", range(length(15, 800)))
def test_a_book_of_another_source_is_what_a_plain_loop_notes(seed):
    draw = random.Random(seed)
    yes_no = ["win_home||", "win_draw||", "win_away||"]
    ours, theirs = draw.choice(
        [(["1X2||"], ["h2h||"]), (["1X2||", "winner||"], yes_no), (["1X2||"], yes_no[:1]), (["winner||"], yes_no[2:])]
    )
    first, second = drawn(draw, 1, ours), drawn(draw, 2, theirs)
    joined = joints(1, understood(first), 2, understood(second, turned=draw.random() < 0.5))

    rows, late = books_of(first, second, joined, "other")

    found = at_their_times(rows.lazy(), first).collect()
    plain, waiting = by_plain_loop(first, second, joined)
    assert found.equals(plain)
    assert joined
    linked = {(one.other_market_key, one.other_side) for one in joined}
    assert late <= waiting * len(linked)
    check_books(found, first)


def pack(folder, provenance, names, prices, *, key="1X2||", sides=("part1", "draw", "part2"), kickoff_s=START_S, minutes=0):
    """Write a pack of fixtures, each of two messages of the same probabilities."""
    fixtures, rows = [], []
    for number, (teams, probs) in enumerate(zip(names, prices, strict=True), start=len(provenance)):
        kickoff = kickoff_s + number * 86_400
        fixtures.append(Fixture(fixture_id=number, names=teams, kickoff_ts_ms=kickoff * 1000))
        for seq, before_s in enumerate((7200, 3600)):
            at = (kickoff - before_s + minutes * 60) * 1000
            rows += [
                (number, seq, at, False, key, side, prob + (seq if place == 0 else -seq if place == 1 else 0), 2000, False)
                for place, (side, prob) in enumerate(zip(sides, probs, strict=True))
            ]
    manifest = PackManifest(pack_id=folder.name, provenance=f"imported-{provenance}", fixtures=tuple(fixtures))
    write_pack(pl.DataFrame(rows, schema=TICKS, orient="row"), manifest, folder)
    return cl.open_pack(folder)


TEAMS = [("Arsenal", "Leeds United"), ("FC Köln", "Mainz"), ("Man United", "Wolves")]
PRICES = [(5000, 3000, 2000), (2000, 3000, 5000), (4000, 2500, 3500)]


@pytest.fixture
def first(tmp_path):
    return pack(tmp_path / "first", "a", TEAMS, PRICES)


@pytest.fixture
def other(tmp_path):
    names = [("Leeds", "ARSENAL FC"), ("1. FC Koln", "1. FSV Mainz 05"), ("Manchester Utd", "Wolverhampton Wanderers")]
    prices = [PRICES[0][::-1], *PRICES[1:]]
    return pack(tmp_path / "other", "b", names, prices, key="h2h||", sides=("home", "draw", "away"), minutes=-5)


def test_sources_joined_keep_the_first_ones_ticks_and_closes(first, other, tmp_path):
    joined = cl.join_sources([first, other])

    assert joined.ticks().equals(first.ticks())
    assert joined.matching["outcome"].to_list() == ["taken"] * 3
    assert joined.matching["turned"].to_list() == [True, False, False]
    assert joined.source.books == ("b",)
    books = joined.source.tape().books.collect()
    assert books.filter(tick_seq=0).select("fixture_id", "side", "prob_bps").rows() == [
        (1, "draw", 3000), (1, "part1", 5000), (1, "part2", 2000),
        (2, "draw", 3000), (2, "part1", 2000), (2, "part2", 5000),
        (3, "draw", 2500), (3, "part1", 4000), (3, "part2", 3500),
    ]  # fmt: skip
    closed = cl.backtest(joined, "baseline", window=cl.Window(close_source="b"))
    assert closed.run.verify().passed
    folder = closed.run.save(tmp_path / "runs")
    code, out, err = clvlab(tmp_path, "verify", folder, "--pack", ".", "--replay")
    assert code == 0, err
    assert "replay: agrees" in out
    assert "with 'other' as books; next" in repr(joined)


def turned(pairs):
    return [[first, second, 1 - turned] for first, second, turned in pairs]


FORGED = {
    "turned round": ({"pairs": turned}, "pairs fixture 1 and 1 of 'b', matching does not"),
    "one left out": ({"pairs": lambda pairs: pairs[:2]}, "does not pair fixture 3 and 3 of 'b'"),
    "another match": ({"pairs": lambda pairs: [pairs[0], [2, 3, 0]]}, "does not pair fixture 2 and 2 of 'b'"),
    "none": ({"pairs": lambda pairs: pairs[:0]}, "does not pair fixture 1 and 1 of 'b' turned round"),
    "another name": ({"books": lambda _: "pinnacle"}, "its view says {'books': ['pinnacle'], "),
    "written otherwise": (
        {"pairs": lambda pairs: [[*pair[:2], bool(pair[2])] for pair in pairs]},
        "[3, 3, False]]]}, matching {'books': ['b'], ",
    ),
}


@few(1)
@pytest.mark.parametrize("within", [lambda joined: joined, lambda joined: view_of(joined, rule(markets="1X2"))])
def test_a_run_over_pairs_that_matching_does_not_give_disagrees(first, other, within, subtests):
    packs = (first.source, other.source)
    honest = join_of(packs)[0].derivation.rule

    def looks(stated):
        view = within(joined_by(packs, stated))
        done = run(view.tape(), [template("baseline")], Window(close_source=stated["books"][0])).sealed
        return [look(done, pack=first.source.folder.parent, view=view_file(view)) for look in (prices_again, replay_run)]

    assert all(again.agrees for again in looks(honest))
    for forgery, (changes, detail) in FORGED.items():
        with subtests.test(forgery):
            for again in looks(honest | {name: [change(honest[name][0])] for name, change in changes.items()}):
                assert not again.agrees
                assert detail in again.detail


def test_a_view_of_sources_joined_keeps_the_books_of_what_is_left(first, other):
    view = cl.join_sources([first, other]).where(fixtures=[1, 2], markets="1X2")
    books = view.source.tape().books.collect()

    assert books["fixture_id"].unique().to_list() == [1, 2]
    check_books(books, view.source.tape())
    assert cl.backtest(view, "baseline", window=cl.Window(close_source="b")).scores.height


@pytest.mark.parametrize("seed", range(length(4, 200)))
def test_books_of_a_view_of_markets_are_what_a_plain_loop_notes(tmp_path, seed):
    draw = random.Random(seed)
    tape = drawn(draw, 1, ["1X2||", "winner||"])
    others = drawn(draw, 2, ["h2h||", "win_home||"])
    rows, _ = books_of(tape, others, joints(1, understood(tape), 2, understood(others)), "b")
    books = at_their_times(rows.lazy(), tape).collect()
    fixtures = (Fixture(fixture_id=1, names=NAMES),)
    write_pack(
        tape.ticks().collect(), PackManifest(pack_id="whole", provenance="unknown", fixtures=fixtures), tmp_path / "whole",
        books=books,
    )  # fmt: skip
    whole = cl.open_pack(tmp_path / "whole")
    market = draw.choice(sorted(set(tape.series["market_key"])))

    found = whole.where(markets=market).source.tape()

    kept = sorted(whole.ticks().filter(market_key=market)["tick_seq"].unique())
    times = dict(whole.ticks().select("tick_seq", "ts_ms").iter_rows())
    last = {}
    for row in books.filter(market_key=market).sort("tick_seq").iter_rows(named=True):
        after = [new for new, old in enumerate(kept) if old >= row["tick_seq"]]
        if after:
            last[row["side"], after[0]] = row | {"tick_seq": after[0], "ts_ms": times[kept[after[0]]]}
    plain = pl.DataFrame([last[key] for key in sorted(last)], schema=BOOKS)
    assert found.books.collect().equals(plain)
    check_books(found.books.collect(), found)


def test_prices_that_say_the_other_way_round_refuse_a_pair(first, tmp_path):
    other = pack(tmp_path / "other", "b", TEAMS, [PRICES[0], PRICES[1][::-1], PRICES[2]])
    joined = cl.join_sources([first, other])

    refused = joined.matching.filter(outcome="refused").row(0, named=True)
    assert joined.matching.filter(outcome="taken").height == 2
    assert refused["names"] == "FC Köln - Mainz"
    assert "by the names the teams stand in one order, not by the prices: a side differs by 30 points" in refused["reason"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda first, _: [first], "two sources or more"),
        (lambda first, _: [first, first], "two sources or more, each once"),
        (lambda first, _: [first, "season"], "no fixture of 'first' is one of 'season'"),
    ],
)
def test_what_can_not_be_joined_is_refused(first, other, given, said):
    with pytest.raises(ViewError, match=said):
        cl.join_sources(given(first, other))


def test_what_a_plan_holds_out_of_either_source_is_shut(tmp_path):
    words = ["Arden", "Birch", "Cedar", "Delta", "Ember", "Fjord", "Grove", "Haven", "Islet", "Jetty", "Knoll", "Ledge"]
    names = [(f"{word}ville", f"{word}stead") for word in words]
    prices = [(2000 + 300 * n, 2500, 5500 - 300 * n) for n in range(12)]
    first, other = (pack(tmp_path / name, name, names, prices, minutes=at) for name, at in (("x", 0), ("y", -1)))
    joined = cl.join_sources([first, other])
    with cl.Lab(tmp_path / "lab.db") as lab:
        lab.plan(other, "baseline", {"stake": [1, 2]}, hold_out=0.5)

        with pytest.raises(HeldOutError):
            lab.backtest(joined, "baseline")
        with pytest.raises(HeldOutError):
            lab.backtest(joined.where(fixtures=joined.fixture_ids[-2:]), "baseline")
        assert lab.backtest(joined.where(fixtures=joined.fixture_ids[:3]), "baseline").scores.height


OF_MARKETS = {
    "over_under": ["over", "under"], "totals||point=2.5": ["over", "under"], "alternate_totals||point=2.5": ["Over", "Under"],
    "totals_h1||point=2.5": ["over", "under"], "totals|half=1|line=2.5": ["o", "u"], "OVER_UNDER_25||": ["47972", "47973"],
    "spreads||line=-1": ["part1", "part2"], "spreads||point=-1": ["part1", "part2"], "handicap||line=1": ["home", "away"],
    "home_clean_sheet||": ["yes", "no"], "draw_first_half||": ["yes", "no"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("ours", "theirs", "first_version", "now"),
    [
        ("OVER_UNDER_25||", ["totals||point=2.5", "alternate_totals||point=2.5"], [], ["totals||point=2.5"]),
        ("totals||point=2.5", ["alternate_totals||point=2.5"], [], ["alternate_totals||point=2.5"]),
        ("totals_h1||point=2.5", ["totals||point=2.5", "totals|half=1|line=2.5"], [], ["totals|half=1|line=2.5"]),
        ("spreads||point=-1", ["spreads||line=-1"], ["spreads||line=-1"], []),  # whose line?
        ("spreads||point=-1", ["handicap||line=1"], [], []),
        ("1X2||", ["home_clean_sheet||", "draw_first_half||"], ["draw_first_half||", "home_clean_sheet||"], []),  # not who wins
    ],
)
def test_a_join_takes_for_the_same_what_its_version_reads_so(ours, theirs, first_version, now):
    sides = OF_MARKETS | {"1X2||": ["part1", "draw", "part2"]}
    for version, expected in (("1", first_version), ("2", now)):
        own, other = (markets_of({key: sides[key] for key in keys}, NAMES, version) for keys in ([ours], theirs))

        assert sorted({one.other_market_key for one in joints(1, own, 2, other)}) == expected


def test_a_join_of_the_first_version_stays_what_it_was(tmp_path):
    prices = [(5000, 5000)] * 2
    first = pack(tmp_path / "a", "a", [NAMES] * 2, prices, key="totals||point=2.5", sides=("over", "under"))
    other = pack(
        tmp_path / "b", "b", [NAMES] * 2, prices, key="alternate_totals||point=2.5", sides=("over", "under"), minutes=-1
    )
    pairs = {"books": ["b"], "pairs": [[[1, 1, 0], [2, 2, 0]]]}
    old, new = (joined_by((first.source, other.source), pairs | {"matching": version}) for version in "12")

    assert old.content_hash != new.content_hash
    assert (old.tape().books.collect().height, new.tape().books.collect().height) == (0, 8)
    with pytest.raises(ViewError, match="no rule by which sources are joined"):
        joined_by((first.source, other.source), pairs | {"matching": "3"})


def test_markets_that_no_join_reads_are_named(first, other, tmp_path):
    market = {"key": "corners||point=9.5", "sides": ("over", "under"), "minutes": 61}
    corners = pack(tmp_path / "c", "a", TEAMS, [(5000, 5000)] * 3, **market)
    late = corners.ticks().filter(tick_seq=0).with_columns(tick_seq=pl.lit(2, pl.Int32))
    both = pl.concat([first.ticks(), late])
    write_pack(both, first.source.manifest.model_copy(update={"pack_id": "both"}), tmp_path / "both")

    joined = cl.join_sources([cl.open_pack(tmp_path / "both"), other])

    assert list(map(str, joined.unread)) == ["'corners||point=9.5' is not read: the type 'corners' is not known"]
    assert cl.join_sources([first, other]).unread == []


def test_the_rule_of_a_join_says_its_pairs(first, other):
    joined, again = (cl.join_sources([first, other]) for _ in range(2))

    assert joined.content_hash == again.content_hash
    assert joined.source.derivation.rule == {"books": ["b"], "matching": "2", "pairs": [[[1, 1, 1], [2, 2, 0], [3, 3, 0]]]}
    assert cl.join_sources([other, first]).content_hash != joined.content_hash


def test_names_of_a_file_join_what_nothing_else_takes_for_one_team_and_stand_in_the_rule(first, tmp_path):
    names = [("Arsenal", "Leeds"), ("The Billy Goats", "Mainz"), ("Man United", "Wolves")]
    other = pack(tmp_path / "other", "b", names, PRICES, minutes=-5)
    file = tmp_path / "teams.toml"
    file.write_text('teams = [["1. FC Köln", "FC Köln", "The Billy Goats"], ["Nobody", "Nowhere"]]')

    plain, named = cl.join_sources([first, other]), cl.join_sources([first, other], team_aliases=file)

    assert [len(one.source.derivation.rule["pairs"][0]) for one in (plain, named)] == [2, 3]
    assert "aliases" not in plain.source.derivation.rule
    assert named.source.derivation.rule["aliases"] == [["fc koln", "the billy goats"]]
    file.unlink()
    assert otherwise_matched(named.source) == ""
    named.save(tmp_path / "named.json")
    assert cl.open_pack(tmp_path / "named.json").content_hash == named.content_hash
    without = {name: value for name, value in named.source.derivation.rule.items() if name != "aliases"}
    assert "pairs fixture 2 and 2" in otherwise_matched(joined_by((first.source, other.source), without))
    for wrong in ([], "fc koln", [["fc koln"]], [["fc koln", 7]], None):
        with pytest.raises(ViewError, match="no rule by which sources are joined"):
            joined_by((first.source, other.source), without | {"aliases": wrong})
