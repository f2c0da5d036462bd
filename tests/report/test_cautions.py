import polars as pl
import pytest

import clvlab as cl

EVEN = (2.1, 1.8)


def sheet_of(folder, prices, *, times=("12:00", "13:00", "14:00")):
    """Tear sheet of whoever backs home at the first message, over a market with these prices by fixture and message."""
    lines = ["fixture,time,market,side,odds,kickoff,result"]
    for n, messages in enumerate(prices):
        day = f"2026-{1 + n // 20:02}-{1 + n % 20:02}"
        for time, odds in zip(times, messages, strict=True):
            for side, price, result in zip(("home", "away"), odds, ("won", "lost") if n % 2 else ("lost", "won"), strict=True):
                lines.append(f"m{n},{day}T{time}Z,WINNER||,{side},{price},{day}T15:00Z,{result}")
    (folder / "odds.csv").write_text("\n".join(lines))
    home = cl.strategy(agent_id="home")(lambda ticks: ticks.filter(pl.col("tick_seq") == 0, pl.col("side") == "home"))
    pack = cl.import_odds("csv", folder / "odds.csv", folder / "pack")
    return cl.backtest(pack, home, audit=False).tear_sheet(resamples=50, draws=2)


def said(sheet, words):
    return [one for one in sheet.cautions if words in one]


def steady(n, close=None):
    """Prices that move a little, up and down; all fixtures close alike where a close is given."""
    return [(EVEN, (2.0, 1.9), close or ((1.95, 1.95) if k % 2 else (2.2, 1.75))) for k in range(n)]


def test_sound_prices_over_enough_fixtures_need_no_caution(tmp_path):
    assert sheet_of(tmp_path, steady(12)).cautions == []


@pytest.mark.parametrize("close", [(3.0, 3.0), (1.2, 1.2)])
def test_an_impossible_close_is_told_though_the_entry_was_sound(tmp_path, close):
    (found,) = said(sheet_of(tmp_path, steady(12, close)), "impossible")

    assert found.startswith(
        "12 of 12 decisions have an entry or a close with an impossible overround, below 0 % or above 10 % for each side."
    )


def test_an_impossible_entry_is_told_though_the_close_is_sound(tmp_path):
    prices = steady(12)
    prices[3] = ((3.1, 2.8), *prices[3][1:])

    (found,) = said(sheet_of(tmp_path, prices), "impossible")

    assert found.startswith("1 of 12 decisions")


@pytest.mark.parametrize("fair", [(1.5, 3.0), (1.334, 4.0), (2.0, 2.0)])
def test_fair_prices_are_not_impossible_for_their_rounding(tmp_path, fair):
    assert not said(sheet_of(tmp_path, [(fair, *prices[1:]) for prices in steady(12, fair)]), "impossible")


def test_few_fixtures_are_told(tmp_path):
    sheet = sheet_of(tmp_path, steady(9))

    (found,) = said(sheet, "of equal size")

    assert found.startswith("9 fixtures, as informative as 9.0 of equal size. Below 10,")
    assert all(one.partition(".")[0] in sheet._repr_html_() for one in sheet.cautions)


def test_a_mean_that_hangs_on_a_few_fixtures_is_told_by_name(tmp_path):
    prices = steady(60)
    prices[7] = ((101.0, 1.005), (80.0, 1.008), (34.0, 1.02))  # 2 % more likely: a price that trebles

    found = said(sheet_of(tmp_path, prices), "skewness")

    assert [one.partition(":")[0] for one in found] == ["mean edge at the price taken", "return on investment"]


def test_favourites_are_told_of_losses_that_nobody_saw(tmp_path):
    rising = [((1.25, 4.4), (1.25, 4.4), (1.24 - 0.001 * (n % 3), 4.5)) for n in range(60)]

    found = said(sheet_of(tmp_path, rising), "skewness")

    assert found[0].startswith("mean CLV: possible losses exceed possible gains (skewness of the mean -")


def test_closes_of_yesterday_are_told(tmp_path):
    (found,) = said(sheet_of(tmp_path, steady(12), times=("01:00", "02:00", "05:00")), "older than 6 h")

    assert found.startswith("12 of 12 scored decisions (100.0%) have a close older than 6 h. The oldest is 10.0 h old.")
