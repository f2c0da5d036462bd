"""Which scores a gap of the capture touches: a plain model of one decision after the other, and packs that have gaps."""

import math
from random import Random

import polars as pl
import pytest

import clvlab as cl
from clvlab.packs.lookup import open_pack
from clvlab.packs.manifest import Capture, Gap
from clvlab.packs.writer import write_pack
from clvlab.runs.live.capture import capture
from clvlab.runs.reasons import in_gap
from clvlab.sources.capture.feed import Cut, GapCause, Resumption, Stop
from clvlab.sources.capture.replay import ReplayFeed

KEYS = {"fixture_id": pl.Int64, "market_key": pl.String}
TIMES = {"ts_ms": pl.Int64, "state_ts_ms": pl.Int64}


def frames(rows):
    """Decisions and closes of rows (action, market, state, decision, closing state, close)."""
    decisions = pl.DataFrame(
        [(1, market, action, ts, state) for action, market, state, ts, *_ in rows],
        schema={
            "fixture_id": pl.Int64,
            "market_key": pl.String,
            "action": pl.String,
            "ts_ms": pl.Int64,
            "state_ts_ms": pl.Int64,
        },
        orient="row",
    )
    found = {market: (closing, close) for _, market, _, _, closing, close in rows if market is not None}
    closes = pl.DataFrame(
        [(1, market, close, closing) for market, (closing, close) in sorted(found.items())],
        schema=KEYS | {"close_ts_ms": pl.Int64, "state_ts_ms": pl.Int64},
        orient="row",
    )
    return decisions, closes


def gap(since, until, *markets):
    return Gap(from_ts_ms=since, to_ts_ms=until, markets=markets or None)


@pytest.mark.parametrize(
    ("gaps", "touched"),
    [
        ([gap(0, 9)], False),
        ([gap(0, 10)], True),  # ends with the state that was acted on
        ([gap(12, 13)], True),  # the state was carried over it
        ([gap(20, 25)], True),  # begins with the decision
        ([gap(21, 49)], False),  # between decision and closing state
        ([gap(50, 50)], True),
        ([gap(55, 57)], True),  # the close was carried over it
        ([gap(61, 99)], False),
        ([gap(0, 5), gap(70, 80), gap(1, 2)], False),
        ([gap(0, 15), gap(1, 2)], True),  # a long gap under a short one
        ([gap(12, 13, "M")], True),
        ([gap(12, 13, "N")], False),
        ([gap(12, 13, "N", "0xabc")], True),  # a name that says no market: it may be any
        ([gap(12, 13, "M", "N")], True),
    ],
)
def test_a_score_is_marked_where_its_entry_or_close_lies_in_or_is_carried_over_a_gap(gaps, touched):
    decisions, closes = frames([("BACK", "M", 10, 20, 50, 60)])

    assert in_gap(decisions, closes, gaps, {"M", "N"}).to_list() == [touched]


def test_waiting_and_what_has_no_state_are_touched_by_nothing_but_their_own_time():
    rows = [("WAIT", None, None, 20, None, None), ("WAIT", "M", 10, 20, 50, 60), ("BACK", "N", None, 20, None, 60)]
    decisions, closes = frames(rows)

    assert in_gap(decisions, closes, [gap(0, 100)]).to_list() == [False, False, True]
    assert in_gap(decisions, closes, [gap(21, 100)]).to_list() == [False, False, False]


def by_hand(rows, gaps, markets):
    def meets(since, until, market):
        return since is not None and any(
            g.from_ts_ms <= until and g.to_ts_ms >= since
            for g in gaps
            if not g.markets or not set(g.markets) <= markets or market in g.markets
        )

    return [
        action == "BACK" and (meets(ts if state is None else state, ts, market) or meets(closing, close, market))
        for action, market, state, ts, closing, close in rows
    ]


@pytest.mark.parametrize("seed", range(30))
def test_many_decisions_at_once_are_marked_as_one_after_the_other(seed):
    chance = Random(seed)
    markets = {key: (chance.choice([None, chance.randrange(40, 90)]), chance.randrange(90, 100)) for key in "KLMN"}
    rows = []
    for _ in range(200):
        market, ts = chance.choice("KLMN"), chance.randrange(90)
        state = chance.choice([None, chance.randrange(ts + 1)])
        rows.append((chance.choice(["BACK", "BACK", "WAIT"]), market, state, ts, *markets[market]))
    gaps = []
    for _ in range(chance.randrange(6)):
        since = chance.randrange(110)
        named = chance.choice([(), ("K",), ("L", "M"), ("N", "X"), ()])
        gaps.append(gap(since, since + chance.randrange(12), *named))

    assert in_gap(*frames(rows), gaps, set("KLMN")).to_list() == by_hand(rows, gaps, set("KLMN"))


def test_a_million_decisions_are_marked():
    n, ts = 1_000_000, 10 * pl.int_range(1_000_000)
    market = pl.format("M{}", pl.int_range(n) % 50)
    base = pl.select(
        fixture_id=pl.repeat(1, n, dtype=pl.Int64), market_key=market, action=pl.lit("BACK"), ts_ms=ts, state_ts_ms=ts - 5
    )
    closes = pl.select(
        fixture_id=pl.repeat(1, 50, dtype=pl.Int64),
        market_key=pl.format("M{}", pl.int_range(50)),
        close_ts_ms=pl.lit(10_000_000, pl.Int64),
        state_ts_ms=pl.lit(9_999_990, pl.Int64),
    )
    gaps = [gap(number * 100_000, number * 100_000 + 10, f"M{number % 50}") for number in range(1000)]

    touched = in_gap(base, closes, gaps, set(closes["market_key"]))

    assert touched.len() == n
    assert touched.sum() == 20_000 + 2  # all of M0, whose close lies in the gap at its end; two of M1, in gaps of their own


@pytest.fixture(scope="module")
def gapped(tmp_path_factory):
    """A pack with prices that were carried over a gap, as in captures that were imported."""
    source = open_pack("starter")
    times = source.tape().messages["ts_ms"].sort()
    decided = cl.backtest("starter", "baseline").source.evidence.decisions["ts_ms"].sort()
    gaps = (gap(decided[len(decided) // 3], decided[len(decided) // 2]),)
    capture = Capture(method="m", tool="t", started_ts_ms=times[0], ended_ts_ms=times[-1], gaps=gaps)
    folder = tmp_path_factory.mktemp("packs") / "gapped"
    write_pack(source.tape().ticks().collect(), source.manifest.model_copy(update={"capture": capture}), folder)
    return open_pack(folder)


def test_report_scores_and_tear_sheet_say_what_a_gap_touches(gapped):
    result = cl.backtest(gapped.folder, "baseline")

    touched = result.scores.filter(pl.col("in_gap"), pl.col("reason") == "scored").height
    assert 0 < touched < result.scores.height
    assert result.report["in_gap"] == touched
    assert any("in a gap of the capture" in warning for warning in result.report["warnings"])
    sheet = result.tear_sheet()
    assert dict(sheet.tables["by_gap"].select("entry and close", "n").iter_rows())["touched by a gap"] == touched
    assert "gaps of the capture" in sheet._repr_html_()
    assert "in_gap" not in result.run.source.scores.decode()


def test_a_run_that_is_read_from_a_laboratory_says_the_same(gapped):
    lab = cl.Lab()
    made = lab.backtest(gapped.folder, "baseline")

    stored = lab.open_run(made.run_id)

    assert stored.scores["in_gap"].null_count() == stored.scores.height  # the pack is not the laboratory's
    assert stored.scores.drop("in_gap").equals(made.scores.drop("in_gap"))


def test_a_pack_without_gaps_counts_none():
    result = cl.backtest("starter", "baseline")

    assert result.report["in_gap"] == 0
    assert result.report["warnings"] == []
    assert result.scores["in_gap"].sum() == 0
    assert result.tear_sheet().tables["by_gap"].height == 0


class Broken:
    """A replay that is broken off once for some hours of its own time, with every message or without some."""

    def __init__(self, *, resumes):
        self.feed, self.resumes = ReplayFeed(pack=open_pack("starter"), speed=math.inf), resumes
        self.name, self.provenance, self.health = self.feed.name, self.feed.provenance, self.feed.health

    def fixtures(self):
        return self.feed.fixtures()

    def listen(self, stop, fixture_ids=(), after=None):
        for number, item in enumerate(self.feed.listen(stop, fixture_ids, after)):
            if number == 1000:
                yield Cut(GapCause.CUT, item.provider_ts_ms, resumable=self.resumes)
            if number == 1000 if self.resumes else number == 1700:
                yield Resumption(item.provider_ts_ms + 10**7, replayed=self.resumes)
            if self.resumes or not 1000 <= number < 1700:
                yield item


@pytest.mark.parametrize("resumes", [True, False])
def test_prices_that_were_sent_again_or_withdrawn_at_a_gap_are_not_carried_over_it(tmp_path, resumes):
    pack = capture(Broken(resumes=resumes), tmp_path / "pack", Stop())

    assert [gap.replayed for gap in pack.manifest.capture.gaps] == [resumes or None]
    assert cl.backtest(pack.folder, "baseline", fixtures=[90000000]).report["in_gap"] == 0


def test_agents_of_one_run_are_marked_apart(gapped):
    result = cl.Lab().compete(gapped.folder, ["baseline", "cumulative-drift"])

    for agent_id in result.agent_ids:
        own = result.scores.filter(pl.col("agent_id") == agent_id, pl.col("reason") == "scored")
        assert result.tear_sheet(agent_id).scored["in_gap"].sum() == own["in_gap"].sum()
