"""A view beside a pack that was filtered by plain loops and written anew: the same closes, decisions and scores."""

import random
import tempfile
from pathlib import Path

import polars as pl
import pytest

import clvlab as cl
from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.law.schema import TICKS
from clvlab.packs.manifest import PackManifest
from clvlab.packs.writer import write_pack
from tests.length import few, length
from tests.packs.views.conftest import DAY_S, START_S, write


def drawn_filters(draw, ids):
    """Filters of a view, and what a plain loop keeps by them."""
    filters = {}
    if draw.random() < 0.4:
        filters["league"] = draw.choice(["E0", "SP1"])
    if draw.random() < 0.3:
        filters["after"] = f"2026-01-{draw.randint(2, 5):02}"
    if draw.random() < 0.3:
        filters["before"] = f"2026-01-{draw.randint(9, 12):02}T12:00:00+01:00"
    if draw.random() < 0.3:
        filters["fixtures"] = draw.sample(sorted(ids), 9)
    if draw.random() < 0.5:
        filters["markets"] = draw.choice([["1X2"], ["OU||line=2", "1X2||"], "OU", ["OU", "OU||line=3.5"]])
    if draw.random() < 0.5:
        filters["max_overround"] = draw.choice([0.03, 0.1, 0.5])
    if draw.random() < 0.3:
        filters["drop_close_older_than_s"] = draw.choice([60, 3600])
    return filters


def plain_fixtures(pack, filters):
    days = {"after": filters.get("after"), "before": filters.get("before")}
    after = None if days["after"] is None else START_S + (int(days["after"][-2:]) - 1) * DAY_S
    before = None if days["before"] is None else START_S + (int(days["before"][8:10]) - 1) * DAY_S + 11 * 3600
    kept = []
    for one in pack.source.manifest.fixtures:
        if "league" in filters and not one.source_id.startswith(filters["league"] + "|"):
            continue
        if "fixtures" in filters and one.fixture_id not in filters["fixtures"]:
            continue
        if after is not None and (one.kickoff_ts_ms is None or one.kickoff_ts_ms < after * 1000):
            continue
        if before is not None and (one.kickoff_ts_ms is None or one.kickoff_ts_ms >= before * 1000):
            continue
        kept.append(one)
    return kept


def plain_ticks(pack, filters, fixtures):
    """Return the filtered ticks, counted anew, and how many messages were suspended."""
    prefixes = filters.get("markets", "")
    prefixes = [prefixes] if isinstance(prefixes, str) else prefixes
    rows, suspended = [], 0
    for one in fixtures:
        messages = {}
        for row in pack.ticks([one.fixture_id]).iter_rows(named=True):
            if any(row["market_key"].startswith(prefix) for prefix in prefixes):
                messages.setdefault(row["tick_seq"], []).append(row)
        for new, (_, sides) in enumerate(sorted(messages.items())):
            odds = [row["odds_milli"] for row in sides]
            limit = filters.get("max_overround")
            if limit is not None and None not in odds and sum(1000 / price for price in odds) > 1 + limit:
                suspended += not sides[0]["suspended"]
                for row in sides:
                    row.update(prob_bps=None, odds_milli=None, suspended=True)
            rows += [row | {"tick_seq": new} for row in sides]
    return pl.DataFrame(rows, schema=TICKS, orient="row"), suspended


def closes(pack):
    tape = pack.source.tape()
    markets = tape.series.filter(pl.col("side_no") == 0).select("fixture_id", "market_key")
    found = market_closes(tape, markets, fixture_closes(tape, Window()))
    state = tape.rows[found["close_row"]].select("ts_ms", "prob_bps", "odds_milli", "suspended")
    return found.select("fixture_id", "market_key", "n_sides", "close_ts_ms", "close_kind").hstack(state)


@few(3)
@pytest.mark.parametrize("seed", range(length(6, 400)))
def test_a_view_is_what_a_pack_written_by_plain_loops_is(seed):
    draw = random.Random(seed)
    ids = range(1, 13)
    with tempfile.TemporaryDirectory() as name:
        pack = cl.open_pack(write(Path(name) / "whole", seed, ids))
        filters = drawn_filters(draw, ids)
        fixtures = plain_fixtures(pack, filters)
        if not fixtures:
            with pytest.raises(cl.errors.ViewError, match="no fixture of 'whole' is left"):
                pack.where(**filters)
            return
        ticks, suspended = plain_ticks(pack, filters, fixtures)
        limit = filters.get("drop_close_older_than_s")
        manifest = PackManifest(
            pack_id="plain", provenance="synthetic-drawn", max_close_age_s=limit,
            fixtures=tuple(one.model_copy(update={"rows": 0, "digest": None}) for one in fixtures),
        )  # fmt: skip
        write_pack(ticks, manifest, Path(name) / "plain")
        plain, view = cl.open_pack(Path(name) / "plain"), pack.where(**filters)

        assert view.fixture_ids == plain.fixture_ids
        if ticks.is_empty():
            return
        assert closes(view).equals(closes(plain))
        assert view.source.tape().ticks().collect().equals(plain.source.tape().ticks().collect())
        for agent in ("baseline", "cumulative-drift"):
            one, other = (cl.backtest(own, agent, params={"warmup_ticks": 2}) for own in (view, plain))
            assert one.scores.equals(other.scores)
            assert one.run.verify().passed
        said = dict(view.removed.filter(pl.col("what") != "fixtures").select("filter", "removed").iter_rows())
        assert said.get("max_overround", 0) == suspended
