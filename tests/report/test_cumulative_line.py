import re

import pytest

from clvlab.report.svg import cumulative_line, day_marks

_DAY = 86_400_000


def test_the_line_goes_up_where_the_sum_does_and_stays_in_its_frame():
    drawn = cumulative_line([0, _DAY, 2 * _DAY], [0.0, 50.0, 100.0], [None, -10.0, 20.0], [None, 110.0, 180.0])

    band, line = (re.findall(r"([\d.-]+),([\d.-]+)", path) for path in re.findall(r' d="M([^"]+)"', drawn))
    heights = [float(y) for _, y in line]
    assert heights == sorted(heights, reverse=True)
    assert [float(x) for x, _ in line] == [0, 500, 1000]
    assert all(0 <= float(y) <= 166 for _, y in band + line)


def test_a_band_that_is_wide_at_first_does_not_flatten_the_line():
    drawn = cumulative_line([0, _DAY, 2 * _DAY], [1.0, 2.0, 3.0], [-1e6, -3.0, -2.0], [1e6, 7.0, 8.0])

    line = re.findall(r' d="M([^"]+)"', drawn)[1]
    heights = [float(y) for _, y in re.findall(r"([\d.-]+),([\d.-]+)", line)]
    assert max(heights) - min(heights) > 10


def test_one_date_is_no_line():
    assert cumulative_line([5, 5], [1.0, 2.0], [None, None], [None, None]) == ""


@pytest.mark.parametrize("days", [0.2, 1, 3, 12, 40, 80, 200, 500, 1500, 4000])
def test_dates_are_few_in_order_and_inside(days):
    first = 1_754_000_000_000
    last = first + days * _DAY

    marks = day_marks(first, last, 4)

    times = [time for time, _ in marks]
    assert 1 <= len(marks) <= 5
    assert times == sorted(times)
    assert all(first <= time <= last for time in times)
    assert re.search(r"\d{4}", marks[0][1])
