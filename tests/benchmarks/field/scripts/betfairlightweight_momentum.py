"""Momentum in a script of betfairlightweight, which builds the books of a stream and no more."""

from collections import Counter, defaultdict, deque
from pathlib import Path

from betfairlightweight import APIClient, StreamListener


def prob_bps(book, runner):
    back, lay = runner["ex"]["availableToBack"], runner["ex"]["availableToLay"]
    if book["status"] != "OPEN" or not back or not lay:
        return None
    return round((1 / back[0]["price"] + 1 / lay[0]["price"]) / 2 * 10_000)


def run(folder: Path, threshold: int, horizon_ms: int) -> dict[str, list[int]]:
    client, found = APIClient("", "", ""), Counter()
    for file in sorted(folder.iterdir()):
        listener = StreamListener(max_latency=None, lightweight=True)
        books, signals, time = defaultdict(lambda: deque(maxlen=21)), [], 0
        for (book,) in client.streaming.create_historical_generator_stream(str(file), listener).get_generator()():
            if book["inplay"]:
                break
            time = book["publishTime"]
            for runner in book["runners"]:
                probs = books[runner["selectionId"]]
                probs.append(prob_bps(book, runner))
                if len(probs) == 21 and None not in (probs[0], probs[-1]) and probs[-1] - probs[0] > threshold:
                    signals.append((runner["selectionId"], time, probs[-1]))
        kind = book["marketDefinition"]["marketType"]
        for selection_id, signal_time, prob in signals:
            if books[selection_id][-1] is not None and time - signal_time >= horizon_ms:
                found[kind, "count"] += 1
                found[kind, "clv_bps"] += books[selection_id][-1] - prob
    return {kind: [found[kind, "count"], found[kind, "clv_bps"]] for kind, what in sorted(found) if what == "count"}
