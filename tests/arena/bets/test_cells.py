"""Prices, stakes and times as people write them."""

from zoneinfo import ZoneInfo

import pytest

from clvlab.base.times import check_form, days_of, moments_of, with_clocks
from clvlab.bets.values import cents_of, odds_milli_of
from clvlab.errors import OddsError, SourceError


@pytest.mark.parametrize(
    ("cell", "milli"),
    [
        ("+150", 2500), ("-110", 1909), ("\u2212110", 1909), ("+100", 2000), ("2.5", 2500), ("2,50", 2500), ("@2.10", 2100),
        ("3", 3000), ("5/2", 3500), ("evens", 2000), ("1.001", 1001), ("99.9", 99_900), ("176.92", 176_920),
        ("+50", None), ("-2.5", None), ("1", None), ("0.5", None), ("0", None), ("nan", None), ("inf", None),
        ("1,909", 1909), ("12,345", 12_345), ("+1,909", None), ("1,9090", None), ("123,456", None),
        ("1e3", None), ("5/0", None), ("SP", None), ("", None), (None, None),
    ],
)  # fmt: skip
def test_a_price_that_says_its_format_is_read_in_it(cell, milli):
    assert odds_milli_of([cell]) == [milli]


@pytest.mark.parametrize("cells", [["150"], ["150.0"], ["2.5", "150"], ["+150", "2.5", "150"], ["101", "1.9"]])
def test_a_price_that_may_be_in_two_formats_is_refused(cells):
    with pytest.raises(OddsError, match=rf"'{cells[-1] if cells[0] != '101' else 101}' of row .*odds_format='american'"):
        odds_milli_of(cells)


def test_among_american_prices_only_a_number_without_its_sign_is_american():
    assert odds_milli_of(["-110", "150", None, "n/a"]) == [1909, 2500, None, None]


def test_a_format_decides_for_cells_that_do_not_say():
    mixed = ["+150", "2.5", "150"]

    assert odds_milli_of(mixed, "american") == [2500, 2500, 2500]
    assert odds_milli_of(mixed, "decimal") == [2500, 2500, 150_000]
    assert odds_milli_of(["0.4", "2.5"], "probability") == [2500, None]
    with pytest.raises(OddsError, match="did you mean 'american'"):
        odds_milli_of(mixed, "americna")


@pytest.mark.parametrize(
    ("cell", "cents"),
    [
        ("£10", 1000), ("10 EUR", 1000), ("1,234.50", 123_450), ("1.234,50 €", 123_450), ("$1,000", 100_000),
        ("1,234", 123_400),
        ("1.234", 123), ("1 234,50", 123_450), ("1'234.50", 123_450), ("10,5", 1050), ("0.005", 1), ("2u", 200), ("US$5", 500),
        ("5 zł", 500), (".5", 50), ("0.004", None), ("0", None), ("-5", None), ("10%", None), ("1e3", None), ("1,2,3", None),
        ("12,34.5", None), ("ten", None), ("£", None), ("£5 EUR", None), ("", None), (None, None),
    ],
)  # fmt: skip
def test_a_stake_is_read_in_cents(cell, cents):
    assert cents_of([cell]) == [cents]


def test_stakes_in_two_currencies_are_refused_and_bare_ones_are_in_the_one_there_is():
    assert cents_of(["£1", "2", "3 GBP"]) == [100, 200, 300]
    with pytest.raises(SourceError, match=r"GBP \(row 1: '£1'\) and in EUR \(row 3: '€3'\).*columns=\{'stake': None\}"):
        cents_of(["£1", "2", "€3"])


LONDON = ZoneInfo("Europe/London")
NOON = 1_767_355_200_000  # 2026-01-02 12:00 UTC


@pytest.mark.parametrize(
    ("cell", "form", "ts_ms"),
    [
        ("2026-01-02T12:00:00Z", None, NOON), ("2026-01-02 07:00-05:00", None, NOON), ("1767355200", None, NOON),
        ("1767355200000", None, NOON), ("1767355200.0", None, NOON), ("2026-01-02 12:00", None, NOON),
        ("02/01/2026 12:00", "%d/%m/%Y %H:%M", NOON), ("01/02/26 12:00 PM", "%m/%d/%y %I:%M %p", NOON),
        ("2026-07-02 12:00", None, 1_782_990_000_000),
    ],
)  # fmt: skip
def test_a_time_is_read_in_its_zone(cell, form, ts_ms):
    assert moments_of([cell], LONDON, form, "time") == ([ts_ms], [None])


@pytest.mark.parametrize(
    "cell", ["2026-01-02", "", None, "yesterday", "02/01/2026 12:00", "2026-03-29 01:30", "2026-13-01T00:00Z"]
)
def test_a_time_that_can_t_be_read_says_why(cell):
    moments, reasons = moments_of([cell], LONDON, None, "time")

    assert moments == [None]
    assert len(reasons[0]) > 10


def test_the_way_to_say_another_format_is_named():
    assert "time_format='%d/%m/%Y %H:%M'" in moments_of(["02/01/2026 12:00"], LONDON, None, "time")[1][0]


@pytest.mark.parametrize(("cell", "form"), [("2026-01-02 12:00", None), ("02/01/2026 12:00", "%d/%m/%Y %H:%M")])
def test_a_local_time_without_a_zone_is_refused(cell, form):
    with pytest.raises(SourceError, match=r"of row 2 has no time zone.*time_zone='Europe/London'"):
        moments_of(["1767355200", cell], None, form, "time")


@pytest.mark.parametrize(
    ("cell", "form", "hours"),
    [
        ("2026-01-02", None, (-12, 12)), ("02/01/2026", "%d/%m/%Y %H:%M", (-12, 12)), ("2026-01-02T12:00Z", "%d/%m/%Y", (0, 0)),
        ("02/01/2026 13:00", "%d/%m/%Y %H:%M", (1, 1)), ("1767355200", None, (0, 0)), ("soon", None, None), (None, None, None),
    ],
)  # fmt: skip
def test_a_kickoff_is_a_moment_or_a_day(cell, form, hours):
    span = days_of([cell], ZoneInfo("UTC"), form)[0]

    said = None if span is None else (span.first_ms - NOON, span.last_ms - NOON + (span.first_ms < span.last_ms))
    assert said == (None if hours is None else tuple(3_600_000 * hour for hour in hours))


def test_a_kickoff_without_a_zone_is_when_it_is_that_time_somewhere():
    span = days_of(["2026-01-02 12:00"], None, None)[0]

    assert (span.first_ms, span.last_ms) == (NOON - 43_200_000, NOON + 43_200_000)


def test_days_and_times_of_day_are_put_together():
    assert with_clocks(["2026-01-02", "2026-01-02", None], ["12:00", "1:30 PM", "9:00"]) == [
        "2026-01-02 12:00:00", "2026-01-02 13:30:00", None,
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["noon", 5, ""])
def test_a_form_of_times_that_reads_none_is_refused(form):
    with pytest.raises(SourceError, match="strptime"):
        check_form(form)
