import bz2
import gzip
import io
import tarfile
from bisect import bisect_right

import betfairlightweight
import orjson
import polars as pl
import pytest

from clvlab.errors import SourceError
from clvlab.law.closing import Window, fixture_closes, market_closes
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_source
from clvlab.sources.source import Options
from tests.factories import performed, seen_kickoffs

T = 1_650_000_000_000
PLANNED = 1_650_002_400_000


def definition(status="OPEN", *, in_play=False, runners=((1, "ACTIVE"), (2, "ACTIVE")), **other):
    return {
        "status": status, "inPlay": in_play, "marketTime": "2022-04-15T06:00:00.000Z", "eventId": "9", "eventTypeId": "2",
        "marketType": "MATCH_ODDS", "numberOfWinners": 1, "bettingType": "ODDS",
        "runners": [{"id": number, "status": of, "sortPriority": number} for number, of in runners],
    } | other  # fmt: skip


def change(second, market="1.1", define=None, rc=(), **other):
    mc = {"id": market} | ({} if define is None else {"marketDefinition": define}) | ({"rc": list(rc)} if rc else {}) | other
    return {"op": "mcm", "clk": None, "pt": T + second * 1000, "mc": [mc]}


def offers(runner, back=None, lay=None, **other):
    ladders = ({"atb": [[back, 10]]} if back else {}) | ({"atl": [[lay, 10]]} if lay else {})
    return {"id": runner} | ladders | other


OPENING = change(0, define=definition(), rc=[offers(1, 1.9, 2.1), offers(2, 1.9, 2.1)], img=True)


def stream(tmp_path, *messages, name="1.1.bz2"):
    text = b"".join(message if isinstance(message, bytes) else orjson.dumps(message) + b"\n" for message in messages)
    pack = {"bz2": bz2.compress, "gz": gzip.compress}.get(name.rpartition(".")[2], bytes)
    (tmp_path / name).write_bytes(pack(text))
    return tmp_path / name


def imported(tmp_path, *paths, lenient=False, **options):
    report = import_source("betfair", list(paths), tmp_path / "p", Options(lenient=lenient, **options))
    return report, verify_pack(tmp_path / "p")


def states(pack):
    return pack.tape().ticks().collect().with_columns((pl.col("ts_ms") - T) // 1000)


def test_the_price_is_the_mid_in_probability_normalised_and_the_offer_is_the_best_back(tmp_path):
    path = stream(tmp_path, change(0, define=definition(), rc=[offers(1, 1.5, 1.6), offers(2, 2.8, 3.0)]))

    _, pack = imported(tmp_path, path)

    first, second = (1 / 1.5 + 1 / 1.6) / 2, (1 / 2.8 + 1 / 3.0) / 2
    expected = round(10_000 * first / (first + second))
    assert states(pack).select("side", "prob_bps", "odds_milli").rows() == [
        ("1", expected, 1500),
        ("2", 10_000 - expected, 2800),
    ]


def test_deltas_change_the_ladder_and_an_image_starts_it_again(tmp_path):
    path = stream(
        tmp_path,
        OPENING,
        change(1, rc=[{"id": 1, "atb": [[1.95, 5]]}]),
        change(2, rc=[{"id": 1, "atb": [[1.95, 0]]}]),
        change(3, define=definition(), rc=[offers(1, 1.8, 1.9), offers(2, 2.0, 2.2)], img=True),
    )

    _, pack = imported(tmp_path, path)

    assert states(pack).filter(side="1").sort("tick_seq")["odds_milli"].to_list() == [1900, 1950, 1900, 1800]


def test_levels_of_the_advanced_files_are_read_and_full_ladders_go_before_virtual_ones(tmp_path):
    path = stream(
        tmp_path,
        change(
            0, define=definition(), rc=[{"id": n, "batb": [[0, 1.9, 5], [1, 1.8, 5]], "batl": [[0, 2.1, 5]]} for n in (1, 2)]
        ),
        change(1, rc=[{"id": 1, "batb": [[0, 1.8, 5], [1, 1.7, 0]]}]),
        change(2, rc=[{"id": 1, "atb": [[1.85, 5]], "bdatb": [[0, 1.99, 5]]}]),
    )

    _, pack = imported(tmp_path, path)

    assert states(pack).filter(side="1").sort("tick_seq")["odds_milli"].to_list() == [1900, 1800, 1850]


def test_the_last_traded_price_stands_in_for_offers_that_lack_or_lie_far_apart(tmp_path):
    path = stream(
        tmp_path,
        change(0, define=definition(), rc=[{"id": 1, "ltp": 2.0}, {"id": 2, "ltp": 2.5}]),
        change(1, rc=[offers(1, 1.01, 1000), offers(2, 1.01)]),
    )

    _, pack = imported(tmp_path, path)

    assert states(pack).filter(side="1")["prob_bps"].to_list() == [5556, 5556]


def test_a_book_that_lacks_a_runners_price_is_suspended(tmp_path):
    path = stream(tmp_path, change(0, define=definition(), rc=[offers(1, 1.9, 2.1)]), change(1, rc=[offers(2, 1.9, 2.1)]))

    report, pack = imported(tmp_path, path)

    assert states(pack).filter(side="1").sort("tick_seq")["suspended"].to_list() == [True, False]
    assert report.quality.notes["open books that lack a runner's price are suspended"] == 1


def test_a_removed_runner_has_no_price_and_the_others_are_normalised_without_it(tmp_path):
    three = ((1, "ACTIVE"), (2, "ACTIVE"), (3, "ACTIVE"))
    path = stream(
        tmp_path,
        change(0, define=definition(runners=three), rc=[offers(n, 2.9, 3.1) for n in (1, 2, 3)]),
        change(1, define=definition(runners=(*three[:2], (3, "REMOVED")))),
    )

    _, pack = imported(tmp_path, path)

    assert states(pack).filter(tick_seq=1).select("prob_bps", "odds_milli").rows() == [(5000, 2900), (5000, 2900), (None, None)]


def test_the_close_is_the_last_open_book_before_the_off(tmp_path):
    path = stream(
        tmp_path,
        OPENING,
        change(60, rc=[offers(1, lay=2.02)]),
        change(70, define=definition("SUSPENDED")),
        change(80, define=definition("OPEN", in_play=True)),
        change(90, rc=[offers(1, 1.95)]),
        change(99, define=definition("CLOSED", in_play=True, runners=((1, "WINNER"), (2, "LOSER")))),
    )

    report, pack = imported(tmp_path, path)

    assert report.manifest.fixtures[0].kickoff_ts_ms == T + 80_000
    tape = pack.tape()
    closes = market_closes(tape, tape.series.select("fixture_id", "market_key").unique(), fixture_closes(tape, Window()))
    assert (tape.rows["ts_ms"][closes["close_row"][0]], closes["close_ts_ms"][0]) == (T + 60_000, T + 80_000)
    assert pack.results.select("side", "result").rows() == [("1", "won"), ("2", "lost")]


def test_agents_see_the_planned_time_as_first_announced_and_the_law_the_actual_off(tmp_path):
    moved = "2022-04-15T06:30:00.000Z"
    path = stream(
        tmp_path, OPENING, change(60, define=definition(marketTime=moved)), change(80, define=definition(in_play=True))
    )
    _, pack = imported(tmp_path, path)

    assert pack.manifest.kickoff == "actual"
    assert pack.tape().fixtures["kickoff_ts_ms"].to_list() == [T + 80_000]
    for tape in (pack.tape(), pack.tape().fixture(pack.fixture_ids[0])):
        assert seen_kickoffs(tape) == [PLANNED]


def test_without_play_the_off_is_the_last_suspension(tmp_path):
    path = stream(
        tmp_path,
        OPENING,
        change(50, define=definition("SUSPENDED")),
        change(55, define=definition("OPEN")),
        change(60, define=definition("SUSPENDED")),
        change(90, define=definition("CLOSED", runners=((1, "LOSER"), (2, "WINNER")))),
    )

    report, _ = imported(tmp_path, path)

    assert report.manifest.fixtures[0].kickoff_ts_ms == T + 60_000


def test_a_file_without_the_off_closes_at_the_planned_time_and_says_so(tmp_path):
    report, _ = imported(tmp_path, stream(tmp_path, OPENING))

    assert report.manifest.fixtures[0].kickoff_ts_ms == PLANNED
    assert report.quality.notes["fixtures whose off is not in the files close at the planned time"] == 1


def test_with_several_winners_each_runner_is_a_market(tmp_path):
    places = definition(marketType="PLACE", numberOfWinners=2)
    path = stream(tmp_path, change(0, define=places, rc=[offers(1, 1.25, 1.25), offers(2, 1.5, 1.6)]))

    _, pack = imported(tmp_path, path)

    assert states(pack).filter(market_key="PLACE||selection=1").select("side", "prob_bps", "odds_milli").rows() == [
        ("no", 2000, 5000), ("yes", 8000, 1250),
    ]  # fmt: skip


def test_markets_of_one_event_share_a_fixture_and_races_of_one_meeting_do_not(tmp_path):
    totals = change(0, "1.2", definition(marketType="OVER_UNDER_25"), [offers(1, 1.9, 2.1), offers(2, 1.9, 2.1)])
    event = stream(tmp_path, OPENING, totals, name="9.gz")
    at = {n: definition(eventTypeId="7", marketTime=f"2022-04-15T0{n}:00:00.000Z", eventId="5") for n in (7, 8)}
    races = [stream(tmp_path, change(0, f"1.{n}", start), name=f"1.{n}") for n, start in at.items()]

    import_source("betfair", [event], tmp_path / "event")
    assert [f.source_id for f in verify_pack(tmp_path / "event").manifest.fixtures] == ["9"]
    assert set(verify_pack(tmp_path / "event").tape().series["market_key"]) == {"MATCH_ODDS||", "OVER_UNDER_25||"}
    import_source("betfair", races, tmp_path / "races")
    assert len(verify_pack(tmp_path / "races").fixture_ids) == 2


def test_two_markets_of_one_type_have_different_keys(tmp_path):
    other = change(0, "1.2", definition(), [offers(1, 1.5, 1.6), offers(2, 2.8, 3.0)])

    _, pack = imported(tmp_path, stream(tmp_path, OPENING, other))

    assert set(pack.tape().series["market_key"]) == {"MATCH_ODDS||market=1.1", "MATCH_ODDS||market=1.2"}


def event_file(tmp_path, name="9.bz2"):
    """Two markets in one file; a runner of the second comes in late, and several messages carry one time."""
    three = ((1, "ACTIVE"), (2, "ACTIVE"), (3, "ACTIVE"))
    return stream(
        tmp_path,
        OPENING,
        change(0, rc=[offers(1, 1.92)]),
        change(1, "1.2", definition(marketType="OTHER"), [offers(1, 1.9, 2.1), offers(2, 1.9, 2.1)]),
        change(2, rc=[offers(2, 1.8)]),
        change(2, "1.2", rc=[offers(1, 1.8)]),
        change(3, "1.2", definition(marketType="OTHER", runners=three)),
        change(4, "1.2", rc=[offers(3, 3.0, 3.2)]),
        change(5, define=definition(in_play=True)),
        name=name,
    )


@pytest.mark.parametrize("chunk_rows", [1, 5])
def test_the_pack_is_the_same_however_often_states_are_written_away(tmp_path, chunk_rows):
    path = event_file(tmp_path)

    whole, _ = imported(tmp_path, path)
    report = import_source("betfair", [path], tmp_path / "parts", Options(chunk_rows=chunk_rows))

    assert report.manifest.content_hash == whole.manifest.content_hash
    assert (report.quality.ticks, report.quality.books_per_tick) == (whole.quality.ticks, None)
    assert states(verify_pack(tmp_path / "parts")).filter(market_key="OTHER||", side="3")["prob_bps"].null_count() == 3


def test_of_an_event_file_that_breaks_off_nothing_stays_that_was_written_away(tmp_path):
    good, cut = stream(tmp_path, OPENING, name="1.7.bz2"), event_file(tmp_path, name="9.gz")
    good.write_bytes(bz2.compress(orjson.dumps(OPENING | {"mc": [OPENING["mc"][0] | {"id": "1.7"}]})))
    cut.write_bytes(cut.read_bytes()[:-8])

    report, pack = imported(tmp_path, cut, good, lenient=True, chunk_rows=1)

    (refused,) = report.quality.refused
    assert refused.reason.startswith("a file can't be read to its end: Compressed file ended")
    assert pack.tape().rows.height == 2


def tarred(tmp_path, **members):
    with tarfile.open(tmp_path / "day.tar", "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(f"2022/Apr/{name}.bz2")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return tmp_path / "day.tar"


def test_a_tar_of_packed_markets_is_the_same_as_the_markets(tmp_path):
    one, two = (stream(tmp_path, OPENING | {"mc": [OPENING["mc"][0] | {"id": f"1.{n}"}]}, name=f"1.{n}.bz2") for n in (1, 2))
    tar = tarred(tmp_path, a=one.read_bytes(), b=two.read_bytes())

    import_source("betfair", [one, two], tmp_path / "files")
    import_source("betfair", [tar], tmp_path / "tar")

    assert verify_pack(tmp_path / "files").manifest.fixtures == verify_pack(tmp_path / "tar").manifest.fixtures


BAD = {
    "no market change message": {"op": "status", "pt": T},
    "is before the message above": change(-5, rc=[offers(1, 1.9)]),
    "changes before it is defined": change(1, "1.9", rc=[offers(1, 1.9)]),
    "KeyError: '77'": change(1, rc=[offers(77, 1.9)]),
    "an offer of 10 at 0.5": change(1, rc=[offers(1, 0.5)]),
    "an offer of 10 at -2": change(1, rc=[offers(1, -2)]),
    ".* is not a valid offer of batb": change(1, rc=[{"id": 1, "batb": [[1.9, 10]]}]),
    ".* is not a valid offer of atb": change(1, rc=[{"id": 1, "atb": [[0, 1.9, 10]]}]),
    "a last traded price of 0.5": change(1, rc=[{"id": 1, "ltp": 0.5}]),
    "an offer of -1": change(1, rc=[{"id": 1, "atb": [[2.0, -1]]}]),
    "import one sport at a time": change(1, "1.9", definition(eventTypeId="7")),
    "unexpected|JSON|EOF|invalid": b'{"op": "mcm"\n',
}


@pytest.mark.parametrize("reason", BAD)
def test_a_message_that_cant_be_read_is_refused_with_file_line_and_reason_or_counted(tmp_path, reason):
    path = stream(tmp_path, OPENING, BAD[reason], change(9, rc=[offers(1, 1.95)]))

    with pytest.raises(SourceError, match=rf"1\.1\.bz2:2: .*({reason})"):
        imported(tmp_path, path)
    assert not (tmp_path / "p").exists()
    report, _ = imported(tmp_path, path, lenient=True)

    assert [refused.count for refused in report.quality.refused] == [1]


def test_of_a_refused_message_nothing_is_taken(tmp_path):
    half = change(1, rc=[offers(1, 1.95), offers(77, 1.9)])
    path = stream(tmp_path, OPENING, half, change(9, rc=[offers(2, 1.8)]))

    _, pack = imported(tmp_path, path, lenient=True)

    assert states(pack).filter(side="1").sort("tick_seq")["odds_milli"].to_list() == [1900, 1900]


def test_a_file_cut_off_is_refused_or_counted_and_gives_nothing(tmp_path):
    good, cut = stream(tmp_path, OPENING, name="1.1.bz2"), stream(tmp_path, OPENING, name="1.2.bz2")
    cut.write_bytes(cut.read_bytes()[:-10])

    with pytest.raises(SourceError, match=r"1\.2\.bz2: can't be read to its end"):
        imported(tmp_path, good, cut)
    report, pack = imported(tmp_path, good, cut, lenient=True)

    assert (report.quality.refused_rows, len(pack.fixture_ids)) == (1, 1)


@pytest.mark.parametrize("name", ["1.1.bz2", "1.1.gz", "x.tar"])
def test_an_empty_file_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"")

    with pytest.raises(SourceError, match=r"holds no market|can't be read"):
        imported(tmp_path, tmp_path / name)


def test_a_line_without_end_in_a_small_file_is_refused_before_it_fills_the_memory(tmp_path):
    (tmp_path / "1.1.bz2").write_bytes(bz2.compress(b"0" * (20 << 20)))

    with pytest.raises(SourceError, match="a line of more than"):
        imported(tmp_path, tmp_path / "1.1.bz2")


def test_a_small_file_that_swells_without_end_is_refused(tmp_path):
    (tmp_path / "1.1.bz2").write_bytes(bz2.compress((b" " * (1 << 20) + b"\n") * 70))

    with pytest.raises(SourceError, match="no odds shrink like that"):
        imported(tmp_path, tmp_path / "1.1.bz2")


def test_handicap_lines_of_another_betting_type_are_refused(tmp_path):
    path = stream(tmp_path, OPENING | {"mc": [OPENING["mc"][0] | {"marketDefinition": definition(bettingType="LINE")}]})

    with pytest.raises(SourceError, match="bettingType 'LINE' is not read"):
        imported(tmp_path, path)


def peer_books(path):
    """Best prices after every message by betfairlightweight: [(pt ms, status, in play, {selection: (back, lay, ltp)})]."""
    client = betfairlightweight.APIClient("", "", "")
    listener = betfairlightweight.StreamListener(max_latency=None, lightweight=True)
    generator = client.streaming.create_historical_generator_stream(str(path), listener)
    for books in generator.get_generator()():
        for book in books:
            best = {
                str(runner["selectionId"]): (
                    next((offer["price"] for offer in runner["ex"]["availableToBack"]), None),
                    next((offer["price"] for offer in runner["ex"]["availableToLay"]), None),
                    runner["lastPriceTraded"],
                )
                for runner in book["runners"]
                if runner["status"] == "ACTIVE"
            }
            yield book["publishTime"], book["status"], book["inplay"], best


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["1.200806927", "1.197931750"])
def test_real_books_are_those_of_betfairlightweight(realdata, tmp_path, name):
    packed = realdata / "betfair-stream" / f"{name}.bz2"
    plain = tmp_path / name
    plain.write_bytes(bz2.decompress(packed.read_bytes()))

    _, pack = imported(tmp_path, packed)

    ticks = pack.tape().ticks().collect()
    ours = {
        (ts_ms, side): (prob, odds, suspended, playing)
        for ts_ms, side, prob, odds, suspended, playing in ticks.select(
            "ts_ms", "side", "prob_bps", "odds_milli", "suspended", "in_running"
        ).iter_rows()
    }
    kept = sorted({ts_ms for ts_ms, _ in ours})
    compared = 0
    theirs = {now: (status, playing, best) for now, status, playing, best in peer_books(plain)}
    for now, (status, playing, best) in theirs.items():
        if status != "OPEN":
            continue
        ts_ms = kept[bisect_right(kept, now) - 1]
        assert 0 <= now - ts_ms < 60_000
        mids = {
            side: (1 / b + 1 / a) / 2 if b and a and 1 / b - 1 / a <= 0.1 else (1 / t if t else None)
            for side, (b, a, t) in best.items()
        }
        if None in mids.values():
            assert all(ours[ts_ms, side][2] for side in mids)
            continue
        for side, mid in mids.items():
            prob, odds, suspended, in_running = ours[ts_ms, side]
            assert abs(prob - 10_000 * mid / sum(mids.values())) < 1
            assert (odds, suspended, in_running) == (best[side][0] and round(best[side][0] * 1000), False, playing)
            compared += 1
    assert compared > 900


@pytest.mark.realdata
def test_every_real_stream_becomes_a_pack_that_is_sealed_and_verified(realdata, tmp_path):
    report, pack = imported(tmp_path, realdata / "betfair-stream")

    assert (report.quality.files, report.quality.fixtures, report.quality.refused_rows) == (4, 3, 0)
    assert pack.results.filter(result="won").height == 1 + 1 + 1 + 6
    assert performed(pack).verification.passed
