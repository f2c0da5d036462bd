import pytest

from clvlab.sources.capture.feed import Health
from clvlab.sources.capture.peer import Retry


class Waits:
    """In the place of a ``Stop``: keeps how long it is waited for."""

    def __init__(self):
        self.lengths_s = []

    def wait(self, seconds):
        self.lengths_s.append(seconds)


def failed(retry, stop, times, at_least_s=0.0):
    for number in range(times):
        retry.note_failure(f"no {number}")
        retry.wait(stop, at_least_s)


def test_waits_double_up_to_a_limit_and_begin_again_after_a_success():
    stop, retry = Waits(), Retry(Health(), first_s=1.0, most_s=6.0)

    failed(retry, stop, 5)
    retry.reset()
    failed(retry, stop, 1)

    bounds = [1.0, 2.0, 4.0, 6.0, 6.0, 1.0]
    assert all(most / 2 <= length <= most for length, most in zip(stop.lengths_s, bounds, strict=True))


def test_a_provider_is_left_alone_as_long_as_it_wants():
    stop = Waits()

    failed(Retry(Health(), first_s=1.0, most_s=6.0), stop, 2, at_least_s=30.0)

    assert stop.lengths_s == [30.0, 30.0]


@pytest.mark.parametrize("times", [1, 3, 2_000])
def test_failures_in_a_row_are_counted(times):
    health = Health(connected=True)

    failed(Retry(health, first_s=0.5, most_s=30.0), Waits(), times)

    assert (health.connected, health.retries, health.error) == (False, times, f"no {times - 1}")
