import threading

import pytest

from clvlab.base.cache import BoundedCache


def test_a_value_is_made_once_and_the_least_lately_read_is_dropped_beyond_the_bound():
    made = []
    cache = BoundedCache(10, len)

    def value(key):
        return cache.get(key, lambda: made.append(key) or key * 5)

    assert [value("a"), value("b"), value("a"), value("c")] == ["aaaaa", "bbbbb", "aaaaa", "ccccc"]
    assert made == ["a", "b", "c"]
    value("a")
    value("b")
    assert made == ["a", "b", "c", "b"]


def test_a_value_over_the_bound_is_returned_and_drops_no_other():
    cache = BoundedCache(10, len)
    cache.get("small", lambda: "s")

    assert cache.get("large", lambda: "l" * 11) == "l" * 11
    assert cache.get("small", lambda: "made anew") == "s"
    assert cache.get("large", lambda: "l") == "l"


def test_who_asks_while_a_value_is_made_waits_for_it():
    cache, making, go_on = BoundedCache(10, len), threading.Event(), threading.Event()
    found = []

    def slow():
        making.set()
        go_on.wait()
        return "slow"

    first = threading.Thread(target=lambda: found.append(cache.get("k", slow)))
    first.start()
    making.wait()
    second = threading.Thread(target=lambda: found.append(cache.get("k", lambda: "made twice")))
    second.start()
    go_on.set()
    first.join()
    second.join()

    assert found == ["slow", "slow"]


def test_a_failure_is_raised_and_not_kept():
    cache = BoundedCache(10, len)

    def failing():
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        cache.get("k", failing)
    assert cache.get("k", lambda: "there") == "there"
