"""Agents of every kind whose digests are known: a change of this file is a change of what it is to seal one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

import clvlab as cl


def plain(ticks):
    """Back what is likely."""
    return ticks.filter(pl.col("prob_bps") >= 6000)


@cl.strategy
def decorated(ticks):
    return ticks.filter(pl.col("prob_bps") >= 6000).unique("series", keep="first", maintain_order=True)


@cl.strategy(markets=("1X2",), stake=50)
def columnar(ticks, *, rise_bps=150, texts=("a", "b")):
    rise = pl.col("prob_bps") - pl.col("prob_bps").shift(10).over("series")
    return ticks.filter(rise >= rise_bps, pl.col("side").is_in([text.lower() for text in texts]))


class Ticking(cl.TickAgent):
    markets = ("1X2",)

    def __init__(self, least=6000):
        self.least = least

    @property
    def threshold(self):
        return self.least

    @staticmethod
    def __side():
        return "part1"

    @classmethod
    def made(cls):
        return cls(7000)

    likely = lambda self, book: (book.prob_bps(self.__side()) or 0) >= self.threshold  # noqa: E731
    probable = likely

    def on_tick(self, book):
        if self.likely(book):
            return book.back("part1")
        return None


class Cached(Ticking):
    @cached_property
    def once(self):
        return [2 * number for number in range(3)]


class Inherited(Ticking):
    version = "2"


@dataclass(frozen=True, slots=True)
class Stated:
    agent_id: str
    least: int = 6000
    seen: list[int] = field(default_factory=list)

    @property
    def identity(self):
        raise NotImplementedError

    def decide(self, tape):
        return tape.rows.head(self.least)


def closing(least):
    def nested(ticks):
        return ticks.filter(pl.col("prob_bps") >= least)

    return nested


shortest = lambda ticks: ticks.head(1)  # noqa: E731
