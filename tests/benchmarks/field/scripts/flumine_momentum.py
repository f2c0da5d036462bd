"""Momentum in flumine: market by market, book by book before play, from files of Betfair's stream."""

from collections import Counter, deque
from pathlib import Path

from flumine import FlumineSimulation, clients
from flumine.strategy.strategy import BaseStrategy
from flumine.streams.betfairhistoricalstream import BetfairHistoricalStream


class Momentum(BaseStrategy):
    """Backs a runner whose probability rose over its last 20 books, and values it at the last book before play."""

    def start(self, _flumine):
        self.found = Counter()

    def process_new_market(self, _market, market_book):
        self.books = {runner.selection_id: deque(maxlen=21) for runner in market_book.runners}
        self.signals = []

    def check_market_book(self, _market, market_book):
        return not market_book.inplay

    def process_market_book(self, _market, market_book):
        self.time = market_book.publish_time_epoch
        for runner in market_book.runners:
            books = self.books[runner.selection_id]
            books.append(self.prob_bps(market_book, runner))
            if len(books) == 21 and None not in (books[0], books[-1]) and books[-1] - books[0] > self.context["threshold"]:
                self.signals.append((runner.selection_id, self.time, books[-1]))

    def prob_bps(self, market_book, runner):
        if market_book.status != "OPEN" or not runner.ex.available_to_back or not runner.ex.available_to_lay:
            return None
        back, lay = runner.ex.available_to_back[0]["price"], runner.ex.available_to_lay[0]["price"]
        return round((1 / back + 1 / lay) / 2 * 10_000)

    def process_closed_market(self, _market, market_book):
        kind = market_book.market_definition.market_type
        for selection_id, time, prob_bps in self.signals:
            close_bps = self.books[selection_id][-1]
            if close_bps is not None and self.time - time >= self.context["horizon_ms"]:
                self.found[kind, "count"] += 1
                self.found[kind, "clv_bps"] += close_bps - prob_bps


def run(folder: Path, threshold: int, horizon_ms: int) -> dict[str, list[int]]:
    files = sorted(str(path) for path in folder.iterdir())
    streams = [BetfairHistoricalStream(file, listener_kwargs={"inplay": False}) for file in files]
    strategy = Momentum(streams=streams, context={"threshold": threshold, "horizon_ms": horizon_ms})
    simulation = FlumineSimulation(client=clients.SimulatedClient())
    simulation.add_strategy(strategy)
    simulation.run()
    found = strategy.found
    return {kind: [found[kind, "count"], found[kind, "clv_bps"]] for kind, what in sorted(found) if what == "count"}
