import re
from itertools import pairwise

import pytest

from clvlab.report.svg import cumulative_line, interval_bar, scale_axis


def _places(drawn):
    return [float(found) for found in re.findall(r'(?:x1|x2|cx|x)="([\d.-]+)%"', drawn)]


@pytest.mark.parametrize("bounds", [(30.0, 34.0), (-6.0, 77.0), (-90.0, -1.0), (0.0, 0.0)])
def test_everything_lies_inside_with_room_for_its_numbers(bounds):
    drawn = interval_bar(sum(bounds) / 2, *bounds)

    inside = [place for place in _places(drawn) if place not in (0.0, 100.0)]
    assert min(inside) >= 20
    assert max(inside) <= 80


_NARROW, _PADDING, _LETTER = 336, 12, 6.5  # a telephone's picture, what is around it, and a bold letter of 11 pixels


def _boxes(drawn, whole=_NARROW, letter=_LETTER):
    """Left, right and height of each text."""
    for at, y, anchor, dx, _, content in re.findall(
        r'<text x="([\d.]+)%" y="(\d+)" text-anchor="(\w+)"(?: dx="([-\d.]+)")?([^>]*)>([^<]+)<', drawn
    ):
        width = letter * len(content)
        left = whole * float(at) / 100 + float(dx or 0) - width * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        yield left, left + width, y


@pytest.mark.parametrize(
    "found",
    [
        (0.0, 0.0, 0.0),
        (0.0, None, None),
        (0.0, -5.0, 5.0),
        (270.0, None, None),
        (34.0, 34.0, 34.0),
        (-3.46, -3.46, -3.46),
        (0.02, 0.01, 0.03),
        (-0.02, -0.5, 0.4),
        (34.2, 33.9, 34.5),
        (1e-9, -1.0, 1.0),
        (-9999.9, -10_000.0, -9_990.0),
        (9999.9, 9_990.0, 10_000.0),
        (5.0, -10_000.0, 10_000.0),
    ],
)
def test_labels_stand_apart_and_inside_the_page_of_a_telephone(found):
    boxes = sorted(_boxes(interval_bar(*found)), key=lambda box: (box[2], box[0]))

    assert len(boxes) >= (1 if found[1] is None else 2)
    for (_, right, y), (left, _, other) in pairwise(boxes):
        assert y != other or left >= right + 4
    assert min(left for left, _, _ in boxes) >= -_PADDING
    assert max(right for _, right, _ in boxes) <= _NARROW + _PADDING


@pytest.mark.parametrize("within", [(0.0, 4500.0), (-2100.0, 2100.0), (-10_000.0, 3.0), (-0.004, 0.001), (-200.0, 210.0)])
def test_numbers_of_a_scale_stand_apart_in_the_narrowest_cell_and_zero_is_one(within):
    drawn = scale_axis(within)

    boxes = sorted(_boxes(drawn, 100, 6))
    assert ">0<" in drawn
    assert all(after[0] >= before[1] for before, after in pairwise(boxes))


@pytest.mark.parametrize("hours", [3, 8, 23, 40, 24 * 20, 24 * 400, 24 * 4000])
@pytest.mark.parametrize("start_ms", [1_778_925_600_000, 1_778_889_600_000])
def test_dates_under_a_curve_stand_apart_on_a_telephone_and_the_first_has_the_year(hours, start_ms):
    times = [start_ms, start_ms + hours * 1_800_000, start_ms + hours * 3_600_000]

    drawn = cumulative_line(times, [0.0, 1.0, 2.0], [None] * 3, [None] * 3)

    dates = sorted(box for box in _boxes(drawn, 300, 6) if box[2] == "162")
    assert dates
    assert re.search(r">[^<>]*20\d\d[^<>]*</text>", drawn)
    assert all(after[0] >= before[1] + 3 for before, after in pairwise(dates))


def test_a_mean_without_an_interval_is_a_hollow_point():
    drawn = interval_bar(5.0, None, None)

    assert 'fill="none" stroke=' in drawn
    assert "no interval" in drawn


def test_a_unit_is_escaped():
    assert "<b>" not in interval_bar(1.0, 0.0, 2.0, unit="<b>")
