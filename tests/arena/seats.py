"""Players of seats, for tests of the use cases and of the service."""

from clvlab.agents.ticks import TickAgent
from clvlab.arena.seats.requests import SeatAction, SeatRequest
from clvlab.log.note import Signer

FIXTURES = [90000000, 90000001]
LOG = "log.example"
MINUTE = 60


class Favourite(TickAgent):
    """Backs the first side of a market above a probability, waits at once, and backs another market later."""

    def __init__(self):
        self.done = set()

    def on_tick(self, book):
        place = (book.fixture_id, book.market_key)
        if book.tick_seq % 50 == 7:
            first = book.markets[0]
            return book.back(book.sides(first)[-1], first, stake=7, limit_odds_milli=1200)
        for side in book.sides():
            if place not in self.done and (book.prob_bps(side) or 0) >= 4500:
                self.done.add(place)
                said = {"reason": "likely é", "confidence": len(self.done) * 0.37, "claimed_edge_bps": -3}
                return [book.wait("one is enough"), book.back(side, **said)]
        return None


def request(**fields):
    return SeatRequest(**{"agent_id": "Favourite", "pack_id": "starter", "fixture_ids": FIXTURES} | fields)


def action(tick, *decisions, **one):
    return SeatAction.model_validate({"tick": tick, **one} | ({"decisions": list(decisions)} if decisions else {}))


def back(view, at=0, **fields):
    return {"action": "BACK", "side": view["sides"][at][0]} | fields


def answered(application, owner, start, ticks, every=5):
    """Answer so many ticks of a seat, every fifth by a BACK; the last answer."""
    answer = start
    for _ in range(ticks):
        view = answer["next"]["view"]
        said = [] if view["tick"] % every else [back(view)]
        answer = application.seats.act(owner, start["seat_id"], action(view["tick"], *said))
    return answer


def finished(application, owner, start):
    """Answer all ticks of a seat, and seal its run; the last answer."""
    answer = start
    while answer["next"]:
        answer = answered(application, owner, start | {"next": answer["next"]}, 1)
    application.jobs.require_sealed(start["run_id"])
    return answer


def signed():
    return Signer.new(LOG)
