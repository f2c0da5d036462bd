"""Feeds of live runs in tests: a match of the starter pack, as fast as can be, and what breaks it off."""

from clvlab.arena.packs import bundled_catalog
from clvlab.errors import FeedError
from clvlab.sources.capture.feed import Cut, GapCause, Resumption
from clvlab.sources.capture.replay import ReplayFeed
from tests.waiting import PATIENCE_S

FIXTURE = 90000000
MESSAGES = 301
"""Until play begins."""


def played(speed=1e12, **options):
    """The starter pack as if it came now."""
    return ReplayFeed(pack=bundled_catalog().open("starter"), speed=speed, shift=True, **options)


class Around:
    """A feed around another one."""

    def __init__(self, feed=None):
        self.feed = feed or played()
        self.name, self.provenance, self.health = self.feed.name, self.feed.provenance, self.feed.health

    def fixtures(self):
        return self.feed.fixtures()

    def listen(self, stop, fixture_ids=(), after=None):
        return self.feed.listen(stop, fixture_ids, after)


class Pausing(Around):
    """Falls silent after so many messages, until it is stopped."""

    def __init__(self, messages, feed=None):
        super().__init__(feed)
        self.messages = messages

    def listen(self, stop, fixture_ids=(), after=None):
        for number, item in enumerate(super().listen(stop, fixture_ids, after)):
            if number == self.messages:
                stop.wait(PATIENCE_S)
                return
            yield item


class Ending(Around):
    """Can't go on after so many messages."""

    def __init__(self, messages, feed=None):
        super().__init__(feed)
        self.messages = messages

    def listen(self, stop, fixture_ids=(), after=None):
        for number, item in enumerate(super().listen(stop, fixture_ids, after)):
            if number == self.messages:
                raise FeedError("the token is not valid any more: renew CLVLAB_TXLINE_JWT")
            yield item


class Cutting(Around):
    """Loses two messages after so many."""

    def __init__(self, messages):
        super().__init__()
        self.messages = messages

    def listen(self, stop, fixture_ids=(), after=None):
        for number, item in enumerate(super().listen(stop, fixture_ids, after)):
            if number == self.messages:
                yield Cut(GapCause.CUT, item.received_ts_ms)
            elif number == self.messages + 2:
                yield Resumption(item.received_ts_ms)
            if number not in (self.messages, self.messages + 1):
                yield item


def interrupting(messages):
    """What looks at a run, and interrupts it once it has shown so many messages."""

    def look(view):
        if view.messages >= messages:
            raise KeyboardInterrupt

    return look
