"""Ladders of captures: gaps end them, times are those of the ticks, and a pack of a genuine feed has to earn them."""

import json

import orjson
import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import FeedError, PackTamperedError, SourceError
from clvlab.packs.files import file_sha256
from clvlab.packs.ladders import ladder_digests
from clvlab.packs.lookup import open_pack
from clvlab.packs.verification import verify_pack
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Resumption
from clvlab.sources.capture.records import Header
from clvlab.sources.capture.replay import ReplayFeed
from clvlab.sources.devfeeds.polymarket import match_event
from clvlab.sources.importer import pack_capture
from clvlab.sources.source import Options
from tests.sources.betfair.test_history import change, definition, offers
from tests.sources.capture.test_packing import _rehash, prices, segments_of
from tests.sources.kalshi.test_messages import ALONE, delta, snapshot

T = 2_000_000_000_000
KALSHI = [
    ALONE,
    snapshot(1, [[39, 5], [40, 10]], [[57, 5], [58, 10]]),
    delta(2, "yes", 40, -4, T + 1_000),
    delta(3, "no", 59, 2.5, T + 2_000),
]


def heard(*messages):
    """Return messages as they came, a second apart."""
    return [FeedMessage(orjson.dumps(message), T - 1_000 + 1_000 * n) for n, message in enumerate(messages)]


def packed(tmp_path, items, feed="kalshi", provenance="synthetic-devfeed"):
    folder = tmp_path / "pack"
    paths = segments_of(tmp_path / "c", items, Header(feed, provenance, "cap", 1, None))
    pack_capture(paths, folder, Options(ladders=True))
    return verify_pack(folder)


def rows_of(pack, side):
    rows = pack.ladders().filter(pl.col("side") == side).collect()
    return [(level, ts_ms - T, odds, stake) for *_, level, ts_ms, odds, stake in rows.iter_rows()]


def test_bids_for_no_are_offers_of_yes(tmp_path):
    pack = packed(tmp_path, heard(*KALSHI))

    assert rows_of(pack, "yes") == [
        (0, 0, 2381, 420), (0, 2_000, 2439, 103),  # 10 at 42 cents; then 2.5 at 41
        (1, 0, 2326, 215), (1, 2_000, 2381, 420),
        (2, 2_000, 2326, 215),
    ]  # fmt: skip
    assert rows_of(pack, "no") == [(0, 0, 1667, 600), (0, 1_000, 1667, 360), (1, 0, 1639, 305)]


def test_a_cut_ends_the_ladders_at_the_last_message_before_it(tmp_path):
    full = snapshot(1, [[30, 2]], [[60, 1]], sid=2)
    full["msg"]["ts_ms"] = T + 9_000
    items = [
        *heard(*KALSHI[:3]),
        Cut(GapCause.CUT, T + 5_000),
        Resumption(T + 6_000),
        FeedMessage(orjson.dumps(full), T + 9_000),
    ]

    pack = packed(tmp_path, items)

    assert rows_of(pack, "yes") == [
        (0, 0, 2381, 420), (0, 1_000, None, None), (0, 9_000, 2500, 40),
        (1, 0, 2326, 215), (1, 1_000, None, None),
    ]  # fmt: skip
    (gap,) = pack.manifest.capture.gaps
    assert (gap.from_ts_ms, gap.to_ts_ms) == (T + 5_000, T + 6_000)


def test_a_hole_in_the_numbers_ends_the_ladders(tmp_path):
    pack = packed(tmp_path, heard(*KALSHI[:3], delta(9, "yes", 40, 1, T + 3_000)))

    assert rows_of(pack, "yes") == [(0, 0, 2381, 420), (0, 3_000, None, None), (1, 0, 2326, 215), (1, 3_000, None, None)]


def test_a_refused_message_of_betfair_ends_the_ladders_until_the_next_image(tmp_path):
    opened = change(0, define=definition(), rc=[offers(1, 1.9, 2.1), offers(2, 1.9, 2.1)], img=True)
    image = change(9, define=definition(), rc=[offers(1, 1.7, 1.8)], img=True)
    wrong, later = change(3, rc=[{"id": 7, "atb": [[1.9, 5]]}]), change(5, rc=[offers(1, 1.95)])
    start = opened["pt"]
    items = [FeedMessage(orjson.dumps(one), one["pt"]) for one in (opened, wrong, later, image)]

    pack = packed(tmp_path, items, "betfair")

    assert [(level, at + T - start, *rest) for level, at, *rest in rows_of(pack, "1")] == [
        (0, 0, 1900, 1000), (0, 3_000, None, None), (0, 9_000, 1700, 1000),
    ]  # fmt: skip


def test_a_refused_message_of_polymarket_ends_the_ladders_until_the_next_full_book(tmp_path):
    def book(asset, price, at):
        bids, asks = ([{"price": f"0.{cents}", "size": "10"}] for cents in (price - 1, price))
        return {"event_type": "book", "asset_id": asset, "timestamp": str(T + at), "bids": bids, "asks": asks}

    def ask(price, at):
        changed = {"asset_id": "12", "price": price, "size": "5", "side": "SELL"}
        return {"event_type": "price_change", "timestamp": str(T + at), "price_changes": [changed]}

    full = [book(asset, 34, 0) for asset in ("11", "12", "13")]
    messages = [[match_event(1)], full, ask("0.33", 1), ask("x", 2), ask("0.32", 3), book("12", 31, 9)]

    pack = packed(tmp_path, heard(*messages), "polymarket")

    assert rows_of(pack, "draw") == [(0, 0, 2941, 340), (0, 1, None, None), (0, 9, 3226, 310)]


def test_a_pack_of_a_genuine_feed_has_to_earn_its_ladders(tmp_path):
    pack = packed(tmp_path, heard(*KALSHI), provenance="genuine-kalshi")
    assert pack.is_genuine

    path = pack.folder / "ladders.parquet"
    rows = pl.read_parquet(path)
    changed = rows.with_columns(stake_cents=pl.when(pl.int_range(pl.len()) == 0).then(7).otherwise("stake_cents"))
    changed.write_parquet(path)
    text = json.loads((pack.folder / "datapackage.json").read_bytes())
    next(one for one in text["resources"] if one["name"] == "ladders")["hash"] = file_sha256(path)
    for fixture in text["clvlab"]["fixtures"]:
        fixture["ladders_digest"] = ladder_digests(changed)[fixture["fixture_id"]]
    _rehash(text)
    (pack.folder / "datapackage.json").write_text(json.dumps(text))

    with pytest.raises(PackTamperedError, match="a capture that gives these ticks"):
        verify_pack(pack.folder)


def test_feeds_without_depth_are_refused_before_anything_is_captured(tmp_path):
    paths = segments_of(tmp_path / "c", *prices("synthetic-devfeed"))
    with pytest.raises(SourceError, match=r"txline-capture/1 reads no ladders: leave ladders out"):
        pack_capture(paths, tmp_path / "pack", Options(ladders=True))
    feed = ReplayFeed(pack=open_pack("starter"), speed=float("inf"))
    with pytest.raises(FeedError, match=r"'replay' has no depth: ladders are read of betfair, kalshi, polymarket"):
        cl.Lab().capture(feed, tmp_path / "captured", ladders=True, progress=False)
    assert not list(tmp_path.glob("captured*"))
