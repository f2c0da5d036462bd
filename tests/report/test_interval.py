import re

import pytest

from clvlab.report.svg import interval_bar


def _places(drawn):
    return [float(found) for found in re.findall(r'(?:x1|x2|cx|x)="([\d.-]+)%"', drawn)]


@pytest.mark.parametrize("bounds", [(30.0, 34.0), (-6.0, 77.0), (-90.0, -1.0), (0.0, 0.0)])
def test_everything_lies_inside_with_room_for_its_numbers(bounds):
    drawn = interval_bar(sum(bounds) / 2, *bounds)

    inside = [place for place in _places(drawn) if place not in (0.0, 100.0)]
    assert min(inside) >= 20
    assert max(inside) <= 80


def test_a_mean_without_an_interval_is_a_hollow_point():
    drawn = interval_bar(5.0, None, None)

    assert 'fill="none" stroke=' in drawn
    assert "no interval" in drawn


def test_a_unit_is_escaped():
    assert "<b>" not in interval_bar(1.0, 0.0, 2.0, unit="<b>")
