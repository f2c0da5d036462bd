"""Pools whose parties take turns."""

import asyncio
import threading
from functools import partial

from clvlab_service.pool import BoundedPool
from clvlab_service.telemetry import RequestMetrics

from clvlab.errors import ShuttingDownError


def test_nobody_waits_behind_all_that_another_party_has_waiting():
    order, gate = [], threading.Event()

    async def race():
        pool = BoundedPool("p", 1, 100, RequestMetrics())
        first = pool.submit("first", gate.wait)
        futures = [pool.submit(f"{n}", partial(order.append, party), party) for n, party in enumerate("aaaabbc")]
        gate.set()
        await asyncio.gather(first, *futures)
        await pool.close(1)

    asyncio.run(race())

    assert order == list("abcabaa")


def test_one_party_is_served_in_its_own_order():
    order = []

    async def race():
        pool = BoundedPool("p", 1, 100, RequestMetrics())
        await asyncio.gather(*(pool.submit(str(n), partial(order.append, n), "a") for n in range(20)))
        await pool.close(1)

    asyncio.run(race())

    assert order == list(range(20))


def test_whoever_asks_before_work_begins_shares_it_and_whoever_comes_later_waits_for_the_next():
    gate, begun, calls = threading.Event(), threading.Event(), []

    def work(what):
        calls.append(what)
        number = len(calls)
        begun.set()
        gate.wait()
        return number

    async def race():
        pool = BoundedPool("p", 1, 2, RequestMetrics())  # of all who wait, only those who start something hold a place
        first = asyncio.create_task(pool.share_next("a", work, "a"))
        await asyncio.to_thread(begun.wait)
        later = [asyncio.create_task(pool.share_next("a", work, "a")) for _ in range(20)]
        other = asyncio.create_task(pool.share_next("b", work, "b"))
        await asyncio.sleep(0)
        gate.set()
        found = await asyncio.gather(first, *later, other)
        again = await pool.share_next("a", work, "a")
        await pool.close(1)
        return found, again

    found, again = asyncio.run(race())

    assert calls == ["a", "a", "b", "a"]
    assert (found, again) == ([1, *[2] * 20, 3], 4)


def test_an_error_of_shared_work_reaches_all_who_wait_for_it_and_nobody_after():
    def failing(answers):
        if not answers:
            raise ValueError("nothing left")
        return answers.pop()

    async def race():
        pool = BoundedPool("p", 1, 5, RequestMetrics())
        answers = []
        found = await asyncio.gather(*(pool.share_next("a", failing, answers) for _ in range(3)), return_exceptions=True)
        answers.append(7)
        after = await pool.share_next("a", failing, answers)
        await pool.close(1)
        return found, after

    found, after = asyncio.run(race())

    assert [str(error) for error in found] == ["nothing left"] * 3
    assert after == 7


def test_work_that_can_not_start_is_not_waited_for():
    async def race():
        pool = BoundedPool("p", 1, 5, RequestMetrics())
        await pool.close(1)
        return await asyncio.gather(*(pool.share_next("a", int) for _ in range(2)), return_exceptions=True)

    assert [type(error) for error in asyncio.run(race())] == [ShuttingDownError] * 2
