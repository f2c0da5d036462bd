"""What the tests of venues share: listening until a server has sent everything, reading what was heard, and a plain model."""

from concurrent.futures import ThreadPoolExecutor
from decimal import ROUND_HALF_UP, Decimal

import orjson

from clvlab.sources.capture.connection import Patience
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Resumption, Stop
from clvlab.sources.capture.records import CaptureRecord, Header, cut_line, message_line, name_of, resumed_line
from clvlab.sources.capture.source import Tracker
from tests.waiting import PATIENCE_S, until

QUICK = Patience(answer_s=PATIENCE_S, silence_s=PATIENCE_S, data_s=PATIENCE_S, first_s=0.01, most_s=0.05)
START_MS = 1_900_000_000_000


def heard(feed, server, *, quiet_s=0.4, **listen):
    """Everything that a feed yields until the server's script is over, its last words are heard, and nothing more has come."""
    stop, items = Stop(), []
    with ThreadPoolExecutor(1) as pool:
        ends = pool.submit(_end, server, stop, items, quiet_s)
        try:
            for item in feed.listen(stop, **listen):
                items.append(item)  # noqa: PERF402  # watched from the other thread
        finally:
            stop.set()
        ends.result()
    return items


def _end(server, stop, items, quiet_s):
    try:
        until(lambda: stop.is_set or (server.is_done.is_set() and _all_heard(server, items)))
        known = -1
        while len(items) != known and not stop.is_set:
            known = len(items)
            stop.wait(quiet_s)
    finally:
        stop.set()


def _all_heard(server, items):
    """Whether what the server said last on each connection that is still open has been heard."""
    heard = {item.text.decode() for item in items if isinstance(item, FeedMessage)}
    return all(peer.sent[-1] in heard for peer in server.peers if peer.sent and not peer.is_cut)


def tracker_of(source):
    header = Header(source.feed, "synthetic-devfeed", "c", 1, None)
    return Tracker(header, source.new_reader(header.live))


def record_of(item):
    if isinstance(item, FeedMessage):
        return CaptureRecord(item.received_ts_ms, text=item.text)
    if isinstance(item, Cut):
        cut = {"cause": str(item.cause), "markets": list(item.markets), "resumable": item.resumable}
        return CaptureRecord(item.from_ts_ms, cut=cut)
    return CaptureRecord(item.to_ts_ms, resumed={"replayed": item.replayed})


def written(folder, source, items):
    """A segment of a capture that holds what was heard."""
    lines = [Header(source.feed, "synthetic-devfeed", "c", 1, None).line()]
    for item in items:
        if isinstance(item, FeedMessage):
            lines.append(message_line(item.text, item.received_ts_ms, item.mark))
        elif isinstance(item, Cut):
            lines.append(cut_line(item.from_ts_ms, str(item.cause), item.markets, resumable=item.resumable))
        else:
            lines.append(resumed_line(item.to_ts_ms, replayed=item.replayed))
    path = folder / name_of(1)
    path.write_bytes(b"".join(lines))
    return path


def of_socket(items, is_description):
    """Messages without the answers about what the markets are: a list for each connection."""
    connections, is_cut = [[]], False
    for item in items:
        if isinstance(item, Cut):
            is_cut = is_cut or item.cause is not GapCause.SEQUENCE
        elif isinstance(item, Resumption) and is_cut:
            connections.append([])
            is_cut = False
        elif isinstance(item, FeedMessage) and not is_description(item.text):
            connections[-1].append(item.text.decode())
    return connections


def json_of(text):
    try:
        return orjson.loads(text)
    except ValueError:
        return None


class Model:
    """What the markets of a script are at each of its times: prices of sides, from books kept plainly.

    ``sides`` tells the market and side of each share.
    """

    def __init__(self, script, sides):
        self.sides = sides
        self.at = {}
        books = {share: {} for share in sides}
        for change in (*script.opening, *script.changes):
            books[change.share][change.is_bid, change.price] = change.size
            market = sides[change.share][0]
            quotes = {side: self._quote(books[share]) for share, (own, side) in sides.items() if own == market}
            self.at[market, change.ts_ms] = self._prices(quotes)

    def _quote(self, book):
        bids = [price for (is_bid, price), size in book.items() if size and is_bid]
        asks = [price for (is_bid, price), size in book.items() if size and not is_bid]
        return max(bids, default=0), min(asks, default=1000)

    def _prices(self, quotes):
        if any(not 0 < ask - bid <= 100 for bid, ask in quotes.values()):
            return None
        total = sum(bid + ask for bid, ask in quotes.values())
        return {
            side: (10_000 * (bid + ask) / total, int((Decimal(10**6) / ask).quantize(Decimal(1), ROUND_HALF_UP)))
            for side, (bid, ask) in quotes.items()
        }

    def fits(self, market, ts_ms, message):
        """Whether a message of the tape says what the market was at that time."""
        expected = self.at[market, ts_ms]
        if expected is None or message is None:
            return message is None or message.suspended
        if message.suspended or sum(message.prob_bps) != 10_000:
            return False
        sides = zip(message.sides, message.prob_bps, message.odds_milli, strict=True)
        return all(abs(prob - expected[side][0]) < 1 and odds == expected[side][1] for side, prob, odds in sides)


def misfits(source, items, model, changes_of):
    """The tracker, the last message of each market, and the times at which it is not what the model says.

    ``changes_of`` returns shares and times of a text. Between a cut and what resumes it a market has to be suspended.
    """
    tracker, last, wrong, cut = tracker_of(source), {}, [], set()
    for item in items:
        messages = tracker.take(record_of(item))
        last |= {(message.fixture_id, message.market_key): message for message in messages}
        if isinstance(item, Cut):
            cut |= {model.sides[share][0] for share in item.markets or model.sides}
        elif isinstance(item, Resumption):
            cut.clear()
        else:
            for share, ts_ms in changes_of(item.text):
                market = model.sides[share][0]
                state = last.get(market)
                if not (state is None or state.suspended if market in cut else model.fits(market, ts_ms, state)):
                    wrong.append(ts_ms)
    return tracker, last, wrong
