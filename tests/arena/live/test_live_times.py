"""False times of a provider in a live run: it equals its replay, and decides as if they had not been said."""

import json
import random

import pytest

from clvlab.agents.registry import template
from clvlab.engine.run import run
from clvlab.packs.lookup import open_pack
from clvlab.packs.manifest import Fixture
from clvlab.packs.verification import verify_pack
from clvlab.runs.live.spec import LiveSpec, follow
from clvlab.sources.capture.feed import FeedMessage, Health, Stop
from clvlab.sources.capture.replay import messages_of
from clvlab.sources.devfeeds.txline import txline_message
from tests.live import FIXTURE

DAY = 86_400_000


class Lying:
    """A match of the starter pack as TxLINE's messages, among them some with false times; it breaks off once if asked to."""

    name, provenance = "txline", "genuine-txline"

    def __init__(self, seed=None, stop=None, breaks_at=None):
        self.health = Health()
        self.breaks_at, self.stop = breaks_at, stop
        chance = random.Random(seed)
        self.items = []
        for number, (text, at_ms) in enumerate(_told()):
            if seed is not None and number > 10 and chance.random() < 0.05:
                false_ms = at_ms + chance.choice([900_000, DAY, 3653 * DAY, -3653 * DAY])
                self.items.append(FeedMessage(_at(text, f"f{number}", false_ms), at_ms))
            self.items.append(FeedMessage(text, at_ms))
        self.items = [FeedMessage(item.text, item.received_ts_ms, mark=str(n)) for n, item in enumerate(self.items)]

    def fixtures(self):
        return [Fixture(fixture_id=FIXTURE)]

    def listen(self, _stop, _fixture_ids=(), after=None):
        for number, item in enumerate(self.items):
            if after is None or number > int(after):
                yield item
                if number == self.breaks_at:
                    self.breaks_at = None
                    self.stop.set()
                    return


def _told():
    for number, message in enumerate(messages_of(open_pack("starter"), [FIXTURE])):
        yield txline_message(message, f"m{number}"), message.ts_ms + 20


def _at(text, message_id, ts_ms):
    return json.dumps(json.loads(text) | {"MessageId": message_id, "Ts": ts_ms}).encode()


def plan_of(feed):
    (fixture,) = feed.fixtures()
    return LiveSpec(feed=feed, fixture=fixture, agents=agents(), origin_id="run of a test")


def agents():
    return [template(name) for name in ("baseline", "cumulative-drift", "sharp-momentum-v2")]


def lines(sealed, *kinds):
    found = [json.loads(line) for line in sealed.events.splitlines()]
    return [line["payload"] for line in found if line["kind"] in kinds]


def require_equal_to_its_replay(live):
    pack = verify_pack(live.pack.folder)
    again = run(pack.tape([FIXTURE]), agents(), live.window, audit_seed=None).sealed
    assert lines(live.sealed, "DECISION", "MARKET_CLOSE") == lines(again, "DECISION", "MARKET_CLOSE")
    return pack


def test_false_times_change_nothing_that_is_decided(tmp_path):
    sound, lied = follow(plan_of(Lying()), tmp_path / "a", Stop()), follow(plan_of(Lying(1)), tmp_path / "b", Stop())

    pack = require_equal_to_its_replay(lied)
    assert pack.is_genuine
    assert pack.manifest.reading.refused > 5
    assert len(lines(lied.sealed, "DECISION")) > 3
    kinds = "DECISION", "MARKET_CLOSE"
    assert lines(lied.sealed, *kinds) == lines(sound.sealed, *kinds)


@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_was_broken_off_equals_its_replay(tmp_path, seed):
    stop = Stop()
    plan = plan_of(Lying(seed, stop, breaks_at=120 + seed))

    assert follow(plan, tmp_path / "run", stop) is None
    live = follow(plan, tmp_path / "run", Stop())

    assert require_equal_to_its_replay(live).manifest.reading.refused > 5


def test_a_run_that_was_begun_under_the_first_rule_keeps_it(tmp_path, monkeypatch):
    stop = Stop()
    plan = plan_of(Lying(1, stop, breaks_at=120))
    with monkeypatch.context() as before:
        before.setattr("clvlab.sources.capture.source.Source.skew_s", lambda *_: None)
        assert follow(plan, tmp_path / "run", stop) is None

    assert require_equal_to_its_replay(follow(plan, tmp_path / "run", Stop())).manifest.reading is None
