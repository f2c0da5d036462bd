"""A pack of a capture says what the capture says, and is refused when it was changed to say otherwise."""

import json
import shutil

import orjson
import pytest

from clvlab.errors import PackError, SourceError
from clvlab.packs.files import content_digest, fixture_digests
from clvlab.packs.lookup import open_pack
from clvlab.packs.manifest import PackManifest
from clvlab.packs.verification import verify_pack
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Resumption, Stop
from clvlab.sources.capture.recorder import Segments
from clvlab.sources.capture.records import Header
from clvlab.sources.capture.replay import ReplayFeed
from clvlab.sources.devfeeds.polymarket import match_event
from clvlab.sources.importer import pack_capture

MINUTES = 300_000


def price(number, fixture_id=7):
    over = 1000 + number % 8000
    return orjson.dumps({
        "FixtureId": fixture_id, "MessageId": f"m{number}", "Ts": 1_700_000_000_000 + number,
        "Bookmaker": "TXLineStablePriceDemargined", "SuperOddsType": "OVERUNDER", "InRunning": False,
        "MarketParameters": f"line={number % 3}.5", "MarketPeriod": None, "PriceNames": ["over", "under"],
        "Prices": [2833, 1545], "Pct": [f"{over / 100:.3f}", f"{(10_000 - over) / 100:.3f}"],
    })  # fmt: skip


def segments_of(folder, items, header, each=40):
    segments = Segments(folder, header, None)
    for number, start in enumerate(range(0, len(items), each)):
        segments.roll(number * MINUTES)
        segments.write(items[start : start + each])
    segments.close()
    return segments.paths()


def prices(provenance="genuine-txline"):
    items = [FeedMessage(price(number, 7 + number % 2), 5_000 + number, mark=str(number)) for number in range(200)]
    items[100:100] = [Cut(GapCause.CUT, 5_099), Resumption(5_100)]
    items[50:50] = [FeedMessage(b"PONG\xff", 5_050)]
    return items, Header("txline", provenance, "cap", 1, None)


@pytest.fixture
def packed(tmp_path):
    paths = segments_of(tmp_path / "pack.capture", *prices())
    assert len(paths) > 3
    pack_capture(paths, tmp_path / "pack")
    return tmp_path / "pack"


def test_a_pack_of_a_genuine_feed_is_genuine_and_keeps_every_message(packed):
    pack = verify_pack(packed)

    assert (pack.provenance, pack.is_genuine) == ("genuine-txline", True)
    raw = b"".join(path.read_bytes() for path in sorted((packed / "raw").iterdir()))
    assert all(price(number, 7 + number % 2) in raw for number in range(200))
    (gap,) = pack.manifest.capture.gaps
    assert (gap.cause, gap.from_ts_ms, gap.to_ts_ms, gap.replayed) == ("cut", 5_099, 5_100, None)
    assert sum(fixture.rows for fixture in pack.manifest.fixtures) == 2 * (
        200 + 6
    )  # a state without prices for each market that was open


def test_a_pack_of_a_development_feed_is_not(tmp_path):
    paths = segments_of(tmp_path / "c", *prices("synthetic-devfeed"))
    pack_capture(paths, tmp_path / "pack")

    pack = verify_pack(tmp_path / "pack")

    assert (pack.provenance, pack.is_genuine) == ("synthetic-devfeed", False)


def test_a_capture_of_a_replay_has_the_ticks_of_its_pack_and_kickoffs_as_announced(tmp_path):
    source = open_pack("starter")
    feed = ReplayFeed(pack=source, speed=1e12)
    paths = segments_of(tmp_path / "c", list(feed.listen(Stop())), Header("replay", feed.provenance, "cap", 1, None), 999)

    pack_capture(paths, tmp_path / "pack")

    pack = verify_pack(tmp_path / "pack")
    assert fixture_digests(pack.tape()) == fixture_digests(source.tape())
    assert pack.fixtures.equals(source.fixtures)


def packed_odds_api(folder):
    """Return the pack of a capture of The Odds API, with two events of two sports."""
    when = "2026-01-02T12:00:00Z"
    quotes = [{"key": "h2h", "last_update": when, "outcomes": [{"name": "A", "price": 1.9}, {"name": "B", "price": 2.0}]}]
    books = [{"key": key, "title": key, "last_update": when, "markets": quotes} for key in "abc"]
    event = {"sport_key": "soccer_epl", "commence_time": "2026-01-02T18:00:00Z", "home_team": "A", "away_team": "B"}
    answer = orjson.dumps([event | {"id": name, "bookmakers": books} for name in ("e1", "e2")])
    header = Header("the-odds-api", "genuine-the-odds-api", "cap", 1, None)
    pack_capture(segments_of(folder / "odds.capture", [FeedMessage(answer, 1_767_355_260_000)], header), folder / "odds")
    return folder / "odds"


@pytest.mark.parametrize(
    ("leagues", "genuine"),
    [
        (["soccer_epl", "soccer_epl"], True),
        ([None, None], True),  # as packed before leagues were read
        (["soccer_epl", None], False),
        (["soccer_epl", "soccer_x"], False),
    ],
)
def test_a_capture_names_the_leagues_that_its_messages_say_or_none(tmp_path, leagues, genuine):
    folder = packed_odds_api(tmp_path)

    def lie(own):
        for fixture, league in zip(own["fixtures"], leagues, strict=True):
            fixture.pop("league")
            if league is not None:
                fixture["league"] = league

    assert [one.league for one in verify_pack(folder).manifest.fixtures] == ["soccer_epl"] * 2
    stated(lie)(folder)
    if genuine:
        assert verify_pack(folder).is_genuine
    else:
        with pytest.raises(PackError, match="a capture that gives these ticks"):
            verify_pack(folder)


def stated(change):
    """Change what the descriptor states, and hash it again: a change that no digest shows."""

    def tamper(folder):
        path = folder / "datapackage.json"
        descriptor = json.loads(path.read_bytes())
        change(descriptor["clvlab"])
        _rehash(descriptor)
        path.write_text(json.dumps(descriptor))

    return tamper


def _rehash(descriptor):
    own = {key: value for key, value in descriptor["clvlab"].items() if key not in ("schema", "content_hash")}
    hashes = {one["path"].partition(".")[0] + "_sha256": one["hash"] for one in descriptor["resources"]}
    manifest = PackManifest.model_validate(own | hashes | {"pack_id": descriptor["name"]})
    descriptor["clvlab"]["content_hash"] = manifest.content_hash


def _raw(change):
    """Change the segments as well as their digests in the descriptor."""

    def tamper(folder):
        change(folder / "raw")

        def digests(own):
            own["raw"] = [{"name": path.name, "digest": content_digest(path)} for path in sorted((folder / "raw").iterdir())]

        stated(digests)(folder)

    return tamper


def _changed_line(raw):
    path = raw / "000002.jsonl"
    path.write_bytes(path.read_bytes().replace(b"1545", b"1546", 1))


def _last_message_changed(raw):
    path = max(raw.iterdir())
    lines = path.read_bytes().splitlines(keepends=True)
    lines[-2] = lines[-2].replace(b"1545", b"1546")
    path.write_bytes(b"".join(lines))


def _gap_taken_out(raw):
    for path in raw.iterdir():
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if b'"cut":{' not in line and b'"resumed":{' not in line))


def _cut_without_content(raw):
    path = max(raw.iterdir())
    path.write_bytes(path.read_bytes() + b'{"at":5,"cut":{}}\n')


TAMPERINGS = {
    "a gap that is left out": stated(lambda own: own["capture"].update(gaps=[])),
    "a gap that is said to be replayed": stated(lambda own: own["capture"]["gaps"][0].update(replayed=True)),
    "a gap that is shorter": stated(lambda own: own["capture"]["gaps"][0].update(to_ts_ms=5_099)),
    "a gap of some markets": stated(lambda own: own["capture"]["gaps"][0].update(markets=["x"])),
    "another cause": stated(lambda own: own["capture"]["gaps"][0].update(cause="quota")),
    "another span": stated(lambda own: own["capture"].update(ended_ts_ms=9_000)),
    "a kickoff": stated(lambda own: own["fixtures"][0].update(kickoff_ts_ms=1_700_000_000_100)),
    "another closing policy": stated(lambda own: own.update(closing_policy="last_open")),
    "another source of closes": stated(lambda own: own.update(closing_source="venue")),
    "another way to take the margin out": stated(lambda own: own.update(margin="power")),
    "another consensus": stated(lambda own: own.update(consensus="single-venue")),
    "another kind of kickoff": stated(lambda own: own.update(kickoff="actual")),
    "names": stated(lambda own: own["fixtures"][0].update(names=["Home", "Away"])),
    "an id of the provider": stated(lambda own: own["fixtures"][0].update(source_id="7")),
    "a segment left out": _raw(lambda raw: (raw / "000002.jsonl").unlink()),
    "the last segment left out": _raw(lambda raw: max(raw.iterdir()).unlink()),
    "a segment added": _raw(lambda raw: shutil.copyfile(raw / "000001.jsonl", raw / "000009.jsonl")),
    "a message changed": _raw(_changed_line),
    "the last message changed": _raw(_last_message_changed),
    "the gap taken out of the segments": _raw(_gap_taken_out),
    "a line of nothing": _raw(_cut_without_content),
    "the raw files alone": lambda folder: _changed_line(folder / "raw"),
}


@pytest.mark.parametrize("tamper", TAMPERINGS.values(), ids=TAMPERINGS.keys())
def test_a_pack_that_was_changed_is_refused(packed, tamper):
    tamper(packed)

    with pytest.raises(PackError):
        verify_pack(packed)


def test_a_capture_that_is_read_again_gives_the_same_pack(packed, tmp_path):
    again = pack_capture(sorted((packed / "raw").iterdir()), tmp_path / "again")

    assert again.content_hash == verify_pack(packed).content_hash


@pytest.mark.parametrize(("feed", "label"), [("txline", "genuine-betfair"), ("replay", "genuine-txline")])
def test_a_capture_with_the_label_of_another_one_becomes_no_pack(tmp_path, feed, label):
    paths = segments_of(tmp_path / "c", [FeedMessage(price(1), 5)], Header(feed, label, "cap", 1, None))

    with pytest.raises(SourceError, match=f"captures of '{feed}' are not '{label}'"):
        pack_capture(paths, tmp_path / "pack")


def shares(kickoff, at_ms):
    books = [
        {"event_type": "book", "asset_id": asset, "timestamp": str(at_ms), "bids": [{"price": "0.33", "size": "1"}]}
        | {"asks": [{"price": "0.34", "size": "1"}]}
        for asset in ("11", "12", "13")
    ]  # fmt: skip
    return [FeedMessage(orjson.dumps(one), at_ms) for one in ([match_event(1, kickoff=kickoff)], *books)]


def test_a_kickoff_that_was_moved_meanwhile_is_none_that_agents_knew(tmp_path):
    header = Header("polymarket", "genuine-polymarket", "cap", 1, None)
    items = shares("2026-06-25T20:00:00Z", 1_782_000_000_000) + shares("2026-06-25T23:00:00Z", 1_782_000_001_000)

    pack_capture(segments_of(tmp_path / "c", items, header), tmp_path / "pack")
    pack_capture(segments_of(tmp_path / "d", items[:4], header), tmp_path / "still")

    pack, still = verify_pack(tmp_path / "pack"), verify_pack(tmp_path / "still")
    assert pack.is_genuine
    assert pack.manifest.kickoff == "actual"
    assert pack.tape().announced["kickoff_ts_ms"].to_list() == [1_782_417_600_000]
    assert pack.fixtures["kickoff_ts_ms"].to_list() == [1_782_428_400_000]
    assert (still.manifest.kickoff, still.manifest.fixtures[0].scheduled_ts_ms) == ("scheduled", None)


@pytest.mark.parametrize("items", [[], [FeedMessage(b"PONG", 5)]])
def test_a_capture_without_a_tick_becomes_no_pack(tmp_path, items):
    segments = Segments(tmp_path / "c", prices()[1], None)
    if items:
        segments.write(items)
    segments.close()

    with pytest.raises(SourceError, match="no tick could be made"):
        pack_capture(segments.paths(), tmp_path / "pack")
    assert not (tmp_path / "pack").exists()


def test_only_captures_that_can_be_read_become_packs(tmp_path):
    paths = segments_of(tmp_path / "c", [FeedMessage(b"{}", 5)], Header("bet-o-matic", "genuine-bet-o-matic", "cap", 1, None))

    with pytest.raises(SourceError, match="captures of 'bet-o-matic' can't be read"):
        pack_capture(paths, tmp_path / "pack")
    with pytest.raises(SourceError, match="no segment"):
        pack_capture([], tmp_path / "pack")
