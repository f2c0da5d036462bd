import random
from datetime import datetime
from fractions import Fraction

import polars as pl
import pytest

from clvlab.errors import SourceError
from clvlab.packs.verification import verify_pack
from clvlab.sources.importer import import_options, import_source
from tests.length import length
from tests.samples import trades
from tests.samples.kalshi import trade
from tests.samples.walks import mapping, matches
from tests.sources.plain import odds_of, shared_out, states_by_time

MATCH = matches(count=1)[0]
ASSETS = {
    "fixtures": [
        {"id": MATCH.id, "names": MATCH.names, "kickoff": MATCH.kickoff, "markets": {"GOAL||": {"yes": "KX"}}},
    ]
}


def imported(tmp_path, text, assets=ASSETS, name="trades.csv", *, lenient=False, **options):
    (tmp_path / name).write_text(text)
    return import_source(
        "trades", [tmp_path / name], tmp_path / "p", import_options(mapping=assets, lenient=lenient, **options)
    ).quality


@pytest.mark.parametrize("delimiter", ",;\t|")
@pytest.mark.parametrize(("price", "time"), [("44", "2026-03-01T14:00:00Z"), ("0.44", "1772373600"), ("44.0", "1772373600000")])
def test_a_row_is_a_trade_in_cents_or_dollars(tmp_path, delimiter, price, time):
    text = f"ticker,created_time,yes_price,taker_side\nKX,{time},{price},yes\n".replace(",", delimiter)

    quality = imported(tmp_path, text)

    ((at, state),) = states_by_time(verify_pack(tmp_path / "p")).items()
    assert (at[1], state) == (1_772_373_600_000, ({"no": 5600, "yes": 4400}, {"no": None, "yes": 2273}))
    assert "markets that serve to enter, not to close: a trade is no standing quote" in quality.notes


def test_a_column_in_dollars_is_never_read_as_cents(tmp_path):
    header = "ticker,created_time,yes_price_dollars,taker_side\n"

    with pytest.raises(SourceError, match="nothing is traded at '1'"):
        imported(tmp_path, f"{header}KX,2026-03-01T14:00:00Z,1,yes\n")
    imported(tmp_path, f"{header}KX,2026-03-01T14:00:00Z,.44,yes\n")

    ((_, (prob, _)),) = states_by_time(verify_pack(tmp_path / "p")).items()
    assert prob == {"no": 5600, "yes": 4400}


def test_the_close_of_a_pack_of_trades_says_what_it_is(tmp_path):
    imported(tmp_path, "ticker,created_time,yes_price,taker_side\nKX,2026-03-01T14:00:00Z,44,yes\n")

    assert verify_pack(tmp_path / "p").manifest.closing_source == "last trade, which is no quote"


BAD_ROWS = {
    "has no time zone": "KX,2026-03-01T14:00:00,44,yes",
    "nothing is traded at": "KX,2026-03-01T14:00:00Z,0,yes",
    "taker_side is yes or no, not 'buy'": "KX,2026-03-01T14:00:00Z,44,buy",
    "3 cells under a header of 4": "KX,2026-03-01T14:00:00Z,44",
    "is no price": "KX,2026-03-01T14:00:00Z,144,yes",
}


@pytest.mark.parametrize("reason", BAD_ROWS)
def test_a_row_that_is_no_trade_is_refused_with_its_line(tmp_path, reason):
    text = f"ticker,created_time,yes_price,taker_side\nKX,2026-03-01T14:00:00Z,40,yes\n{BAD_ROWS[reason]}\n"

    with pytest.raises(SourceError, match=rf"trades\.csv:3: .*{reason}"):
        imported(tmp_path, text)
    quality = imported(tmp_path, text, lenient=True)

    assert (quality.ticks, quality.refused_rows) == (1, 1)


def test_columns_may_have_other_names_if_the_mapping_says_so(tmp_path):
    text = "what,when,yes_price,taker_side\nKX,2026-03-01T14:00:00Z,44,yes\n"

    with pytest.raises(SourceError, match="there is no column for asset and time of a trade"):
        imported(tmp_path, text)
    quality = imported(tmp_path, text, ASSETS | {"columns": {"asset": "what", "time": "when"}})

    assert quality.ticks == 1


def plain_states(rows, shares, age_s):
    """Make the market's states trade by trade; rows are (microseconds, id, ticker, cents, taker)."""
    last, found, once = {}, {}, set()
    sides = dict(zip(shares, ("part1", "draw", "part2"), strict=True))
    for micros, number, ticker, cents, taker in sorted(rows):
        if (ticker, number) in once:
            continue
        once.add((ticker, number))
        ts_ms = round(micros / 1000)
        last[ticker] = (ts_ms, Fraction(cents, 100), taker)
        fresh = {sides[own]: trade for own, trade in last.items() if ts_ms - trade[0] <= age_s * 1000}
        state = dict.fromkeys(sorted(sides.values())), dict.fromkeys(sorted(sides.values()))
        if len(fresh) == 3:
            prices = {side: price for side, (_, price, _) in fresh.items()}
            odds = {side: odds_of(price) if who == "yes" else None for side, (_, price, who) in fresh.items()}
            state = shared_out(prices), odds
        found[ts_ms] = state
    return found


@pytest.mark.parametrize("seed", range(length(4, 60)))
def test_trades_agree_with_a_plain_loop_whatever_their_order_unit_repeats_and_pages(tmp_path, seed):
    dice = random.Random(seed)
    unit, age_s = dice.choice(["cents", "dollars"]), dice.choice([30, 600])
    rows = [
        trade(dice, dice.choice(MATCH.shares), MATCH.kickoff_s - dice.randrange(1, 600), unit, number) for number in range(120)
    ]
    truth = [
        (round(datetime.fromisoformat(row["created_time"]).timestamp() * 10**6), row["trade_id"], row["ticker"],
         row.get("yes_price") or round(float(row["yes_price_dollars"]) * 100), row["taker_side"])
        for row in rows
    ]  # fmt: skip
    rows += dice.sample(rows, 10)
    dice.shuffle(rows)
    folder = tmp_path / "pages"
    folder.mkdir()
    frame = pl.DataFrame(rows)
    time = pl.col("created_time").str.to_datetime(time_zone="UTC")
    frame[:50].with_columns(time).write_parquet(folder / "a.parquet")
    frame[50:].write_csv(folder / "b.csv")
    (tmp_path / "assets.yml").write_text(mapping([MATCH]))

    options = import_options(mapping=tmp_path / "assets.yml", max_age_s=age_s)
    quality = import_source("trades", [folder], tmp_path / "p", options).quality

    found = {ts_ms: state for (_, ts_ms, _), state in states_by_time(verify_pack(tmp_path / "p")).items()}
    assert found == plain_states(truth, MATCH.shares, age_s)
    assert quality.notes["trades that repeat another were dropped"] == 10


def test_the_sample_is_read_as_its_mapping_says(tmp_path):
    (tmp_path / "sample").mkdir()
    trades.write(tmp_path / "sample")

    options = import_options(mapping=tmp_path / "sample.yml")

    assert import_source("trades", [tmp_path / "sample"], tmp_path / "p", options).quality.messages == 300
