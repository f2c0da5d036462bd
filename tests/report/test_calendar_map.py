import re
from datetime import date, timedelta

from clvlab.report.svg import calendar_map, cell_grid, time_columns

_FIRST = date(2026, 1, 5)  # a Monday


def _rects(drawn):
    return [
        (float(x), float(y), float(width))
        for x, y, width in re.findall(r'<rect x="([\d.]+)%" y="(\d+)" width="([\d.]+)%"', drawn)
    ]


def test_a_week_is_a_column_and_a_weekday_a_row():
    drawn = calendar_map({_FIRST + timedelta(days=k): (1.0, 1) for k in (0, 1, 7)})

    monday, tuesday, next_monday = _rects(drawn)
    assert monday[0] == tuesday[0] < next_monday[0]
    assert monday[1] == next_monday[1] < tuesday[1]


def test_many_weeks_are_drawn_by_month_with_means_over_their_decisions():
    drawn = calendar_map({date(2024, 3, 1): (10.0, 3), date(2024, 3, 2): (-10.0, 1), date(2026, 1, 9): (2.0, 1)})

    assert len(_rects(drawn)) == 2
    assert "Mar 2024: +5 bps, 4 decisions" in drawn


def test_an_extreme_day_does_not_make_all_others_pale():
    days = {_FIRST + timedelta(days=k): (10.0, 1) for k in range(30)} | {_FIRST + timedelta(days=31): (9_000.0, 1)}

    strengths = [float(opacity) for opacity in re.findall(r'fill-opacity="([\d.]+)"', calendar_map(days))]

    assert min(strengths) > 0.9


def test_cells_stay_inside_however_many_there_are():
    for columns in (1, 12):
        drawn = cell_grid([str(k) for k in range(columns)], ["a"], {(0, k): 1.0 for k in range(columns)}, {})
        assert max(x + width for x, _, width in _rects(drawn)) <= 100


def test_every_time_is_counted_once_in_spans_of_days():
    day = 86_400_000

    drawn = time_columns([k * day for k in range(400)])

    heights = [float(height) for height in re.findall(r'height="([\d.]+)" fill', drawn)]
    assert len(heights) == 58
    assert "at most 7 in 7 days" in drawn
    assert max(heights) == 62
