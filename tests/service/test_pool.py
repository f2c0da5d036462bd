"""Pools whose parties take turns."""

import asyncio
import threading
from functools import partial

from clvlab_service.middleware import Metrics
from clvlab_service.pool import BoundedPool


def test_nobody_waits_behind_all_that_another_party_has_waiting():
    order, gate = [], threading.Event()

    async def race():
        pool = BoundedPool("p", 1, 100, Metrics())
        first = pool.fly("first", gate.wait)
        flights = [pool.fly(f"{n}", partial(order.append, party), party) for n, party in enumerate("aaaabbc")]
        gate.set()
        await asyncio.gather(first, *flights)
        await pool.close(1)

    asyncio.run(race())

    assert order == list("abcabaa")


def test_one_party_is_served_in_its_own_order():
    order = []

    async def race():
        pool = BoundedPool("p", 1, 100, Metrics())
        await asyncio.gather(*(pool.fly(str(n), partial(order.append, n), "a") for n in range(20)))
        await pool.close(1)

    asyncio.run(race())

    assert order == list(range(20))
