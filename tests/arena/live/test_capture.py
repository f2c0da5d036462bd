"""A feed becomes a pack, however often its capture is broken off."""

import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import clvlab as cl
from clvlab.arena.log import operations
from clvlab.cli import live
from clvlab.errors import FeedError, FileLockedError, LogConflictError, PackFormatError, SourceError, StoreBusyError
from clvlab.log.log import segments
from clvlab.packs.files import file_sha256, fixture_digests
from clvlab.packs.lookup import open_pack
from clvlab.packs.reader import load_pack
from clvlab.packs.verification import verify_pack
from clvlab.runs.live.capture import capture, segments_folder
from clvlab.runs.live.watch import CaptureState, MarketAge
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Resumption, Stop
from clvlab.sources.capture.replay import ReplayFeed
from clvlab.sources.devfeeds.faults import read_plan
from clvlab.sources.devfeeds.txline import TOKENS, txline_server
from clvlab.sources.importer import pack_capture
from clvlab.store.runlog import RunLog
from tests.commands import clvlab, typed
from tests.waiting import PATIENCE_S, until

FIXTURE = 90000000
HOURS_A_SECOND = 30


@pytest.fixture(scope="module")
def pack():
    return open_pack("starter")


@pytest.fixture
def feed(pack):
    return ReplayFeed(pack=pack, speed=math.inf)


def test_a_feed_that_ends_becomes_a_verified_pack_and_its_segments_go_into_it(feed, pack, tmp_path):
    states = []

    made = capture(feed, tmp_path / "mine", Stop(), on_state=states.append)

    assert fixture_digests(made.tape()) == fixture_digests(pack.tape())
    assert list(tmp_path.iterdir()) == [made.folder]
    assert states[-1].messages == sum(1 for _ in ReplayFeed(pack=pack, speed=math.inf).listen(Stop()))
    assert (states[-1].refused, states[-1].gaps, states[-1].lost_bytes) == ({}, {}, 0)


def test_only_the_fixtures_that_were_asked_for(feed, tmp_path):
    assert capture(feed, tmp_path / "mine", Stop(), fixture_ids=[FIXTURE]).fixture_ids == (FIXTURE,)


def test_it_ends_when_its_time_has_come(pack, tmp_path):
    slow, now = ReplayFeed(pack=pack, speed=60 * 60, shift=True), [0]

    def tell(state):
        now[0] = state.messages

    made = capture(slow, tmp_path / "mine", Stop(), until_ts_ms=1, on_state=tell, clock=lambda: now[0])

    assert 0 < made.tape().messages.height < pack.tape().messages.height


class Interrupted:
    """A feed that stops its listener, as a process that is killed does, and leaves a torn line behind."""

    def __init__(self, feed, breaks, stop):
        self.name, self.provenance, self.health = feed.name, feed.provenance, feed.health
        self.feed, self.breaks, self.stop = feed, breaks, stop

    def fixtures(self):
        return self.feed.fixtures()

    def listen(self, stop, fixture_ids=(), after=None):
        for number, item in enumerate(self.feed.listen(stop, fixture_ids, after)):
            if number == self.breaks:
                raise FeedError("the key ran out: see CLVLAB_REPLAY_KEY")
            yield item


def test_a_feed_that_can_t_go_on_keeps_what_came_and_the_same_command_goes_on(feed, pack, tmp_path):
    for breaks in (100, 50):
        with pytest.raises(FeedError, match=r"CLVLAB_REPLAY_KEY.*mine\.capture.*goes on"):
            capture(Interrupted(feed, breaks, Stop()), tmp_path / "mine", Stop())
        with max(segments_folder(tmp_path / "mine").iterdir()).open("ab") as file:
            file.write(b'{"at":17,"mess')
    states = []

    made = capture(feed, tmp_path / "mine", Stop(), on_state=states.append)

    assert fixture_digests(made.tape()) == fixture_digests(pack.tape())
    assert (states[-1].gaps, states[-1].lost_bytes) == ({"restart": 2}, 14)
    assert [gap.replayed for gap in made.manifest.capture.gaps] == [True, True]


def test_until_now_makes_a_pack_of_what_is_there_without_asking_the_feed(feed, tmp_path):
    with pytest.raises(FeedError):
        capture(Interrupted(feed, 100, Stop()), tmp_path / "mine", Stop())

    made = capture(Interrupted(feed, 0, Stop()), tmp_path / "mine", Stop(), until_ts_ms=0)

    assert made.tape().messages.height == 100


def test_a_process_that_was_killed_after_the_pack_stood_is_finished(feed, tmp_path):
    made = capture(feed, tmp_path / "mine", Stop(), fixture_ids=[FIXTURE])
    shutil.copytree(made.folder / "raw", segments_folder(made.folder))

    again = capture(feed, tmp_path / "mine", Stop(), fixture_ids=[FIXTURE])

    assert again.content_hash == made.content_hash
    assert list(tmp_path.iterdir()) == [made.folder]


def test_a_pack_and_other_segments_are_never_overwritten(feed, tmp_path):
    made = capture(feed, tmp_path / "mine", Stop(), fixture_ids=[FIXTURE])
    with pytest.raises(PackFormatError, match="never overwritten"):
        capture(feed, tmp_path / "mine", Stop())

    other = segments_folder(made.folder)
    other.mkdir()
    (other / "000001.jsonl").write_text("other")
    with pytest.raises(PackFormatError, match="was not made from"):
        capture(feed, tmp_path / "mine", Stop())
    assert (other / "000001.jsonl").read_text() == "other"


def written(out, count, of=b""):
    """Wait until so many bytes of a capture are written, or so many of something in them."""
    until(lambda: sum(path.read_bytes().count(of) for path in segments_folder(out).glob("*.jsonl")) >= count)


def test_two_at_once_are_kept_apart(pack, tmp_path):
    stop, failed = Stop(), []
    slow = ReplayFeed(pack=pack, speed=60, shift=True)
    first = threading.Thread(target=lambda: capture(slow, tmp_path / "mine", stop))
    first.start()
    written(tmp_path / "mine", 1000)

    try:
        capture(ReplayFeed(pack=pack), tmp_path / "mine", Stop())
    except FileLockedError as error:
        failed.append(error)
    stop.set()
    first.join()

    assert failed
    assert verify_pack(tmp_path / "mine").provenance == "synthetic-replay"


def test_a_folder_with_something_else_in_it_is_let_be(feed, tmp_path):
    folder = segments_folder(tmp_path / "mine")
    folder.mkdir()
    (folder / "notes.txt").write_text("of somebody")

    with pytest.raises(FeedError, match=r"holds 'notes\.txt', which is no segment"):
        capture(feed, tmp_path / "mine", Stop())

    assert (folder / "notes.txt").read_text() == "of somebody"
    assert list(tmp_path.iterdir()) == [folder]


def test_what_was_put_into_the_folder_meanwhile_stays(feed, tmp_path):
    folder = segments_folder(tmp_path / "mine")

    capture(feed, tmp_path / "mine", Stop(), on_state=lambda _: (folder / "notes.txt").write_text("of somebody"))

    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_nobody_begins_to_capture_into_a_folder_of_which_a_pack_is_made(feed, tmp_path, monkeypatch):
    refused = []

    def packed(paths, out, options, proofs):
        try:
            capture(feed, out, Stop())
        except FileLockedError as error:
            refused.append(error)
        return pack_capture(paths, out, options, proofs)

    monkeypatch.setattr("clvlab.runs.live.capture.pack_capture", packed)
    made = capture(feed, tmp_path / "mine", Stop())

    assert len(refused) == 1
    assert list(tmp_path.iterdir()) == [made.folder]


def test_the_rest_of_the_segments_is_removed_if_only_some_were(feed, tmp_path):
    made = capture(feed, tmp_path / "mine", Stop(), fixture_ids=[FIXTURE])
    segments_folder(made.folder).mkdir()

    again = capture(feed, tmp_path / "mine", Stop(), fixture_ids=[FIXTURE])

    assert again.content_hash == made.content_hash
    assert list(tmp_path.iterdir()) == [made.folder]


def test_a_feed_without_a_message_that_can_be_read_says_where_its_segments_are(feed, tmp_path):
    class Garbled(Interrupted):
        def listen(self, *_):
            yield FeedMessage(b"PONG", 5)

    with pytest.raises(SourceError, match=r"no tick.*mine\.capture"):
        capture(Garbled(feed, 0, None), tmp_path / "mine", Stop())


@pytest.mark.parametrize("fails", [True, False])
def test_a_capture_to_which_nothing_came_stands_in_no_ones_way(feed, tmp_path, fails):
    class Mute(Interrupted):
        def listen(self, *_):
            self.health.error = "ConnectError: no route"
            if fails:
                raise FeedError("renew CLVLAB_TXLINE_JWT")
            yield from ()

    with pytest.raises(FeedError if fails else SourceError, match=r"renew CLVLAB_TXLINE_JWT$|nothing came .*no route"):
        capture(Mute(feed, 0, None), tmp_path / "mine", Stop())

    assert list(tmp_path.iterdir()) == []


def test_an_end_that_had_come_before_anything_was_captured_is_named(feed, tmp_path):
    with pytest.raises(SourceError, match="its end had come before it began"):
        capture(feed, tmp_path / "mine", Stop(), until_ts_ms=1)


class Rolling(Interrupted):
    """A feed that takes its time at every four hundredth message."""

    def listen(self, stop, fixture_ids=(), after=None):
        for number, item in enumerate(self.feed.listen(stop, fixture_ids, after)):
            yield item
            if number % 400 == 399:
                stop.wait(0.15)


def clock_of_minutes():
    """A clock by which each look takes six minutes, so that segments grow old at once."""
    now = [1_700_000_000_000]

    def clock():
        now[0] += 360_000
        return now[0]

    return clock


def test_segments_are_noted_in_the_log_in_order_with_the_hashes_of_the_pack(feed, tmp_path):
    log = RunLog()

    made = capture(Rolling(feed, 0, None), tmp_path / "mine", Stop(), log=log, clock=clock_of_minutes())

    files = sorted((made.folder / "raw").iterdir())
    assert len(files) > 2
    with log.read() as rows:
        (capture_id,) = {re.search(rb'"capture_id":"(\w+)"', rows.entry(index))[1].decode() for index in range(rows.size())}
        assert [one.sha256 for one in segments(rows, capture_id)] == [file_sha256(path) for path in files]


class Busy:
    """A log whose store is busy for the first tries."""

    def __init__(self, log, times):
        self.log, self.left = log, times

    def write(self):
        self.left -= 1
        if self.left >= 0:
            raise StoreBusyError("the database is busy")
        return self.log.write()


def test_a_busy_log_is_tried_again(feed, tmp_path):
    log = RunLog()

    capture(feed, tmp_path / "mine", Stop(), fixture_ids=[FIXTURE], log=Busy(log, 3))

    with log.read() as rows:
        assert rows.size() == 1


def test_a_capture_whose_closed_segments_were_changed_is_refused_by_the_log(feed, tmp_path):
    log = RunLog()
    folder = segments_folder(tmp_path / "mine")
    with pytest.raises(FeedError):
        capture(Interrupted(Rolling(feed, 0, None), 2500, None), tmp_path / "mine", Stop(), log=log, clock=clock_of_minutes())
    files = sorted(folder.iterdir())
    for file in files[1:]:
        file.unlink()  # and what refers to it
    files[0].write_bytes(files[0].read_bytes().replace(b'"fixture_id":90000000', b'"fixture_id":90000009', 1))

    with pytest.raises(LogConflictError):
        capture(feed, tmp_path / "mine", Stop(), log=log)


def test_the_log_takes_up_what_was_captured_without_it(feed, tmp_path):
    log = RunLog()
    with pytest.raises(FeedError):
        capture(Interrupted(Rolling(feed, 0, None), 2500, None), tmp_path / "mine", Stop(), clock=clock_of_minutes())

    made = capture(feed, tmp_path / "mine", Stop(), log=log)

    with log.read() as rows:
        assert rows.size() == len(made.manifest.raw) > 2


def test_the_state_says_what_was_refused_what_is_missing_and_what_is_silent(feed, tmp_path):
    class Odd(Interrupted):
        def listen(self, stop, fixture_ids=(), after=None):
            messages = list(self.feed.listen(stop, fixture_ids, after))[:40]
            yield from messages[:20]
            yield FeedMessage(b"PONG", 5_000)
            yield Cut(GapCause.SILENCE, 5_000)
            yield Resumption(6_000)
            yield from (FeedMessage(one.text, 7_000 + number) for number, one in enumerate(messages[20:]))
            yield Cut(GapCause.QUOTA, 8_000)

    states = []
    capture(Odd(feed, 0, None), tmp_path / "mine", Stop(), on_state=states.append, clock=lambda: 10_000)

    state = states[-1]
    assert state.messages == 41
    assert state.refused == {"no tick of a replay: JSONDecodeError": 1}
    assert state.gaps == {"silence": 1, "quota": 1}
    assert state.oldest == ()  # a cut that nobody resumed leaves no market open
    assert "gaps: silence 1, quota 1" in state.line
    assert state.facts["refused"] == "no tick of a replay: JSONDecodeError 1"


def test_the_oldest_open_markets_come_first(feed, tmp_path):
    states = []

    capture(feed, tmp_path / "mine", Stop(), on_state=states.append)

    ages = [market.age_s for market in states[-1].oldest]
    assert len(ages) == 10
    assert ages == sorted(ages, reverse=True)


@pytest.mark.long
def test_the_command_goes_on_after_kills_and_control_c_makes_the_pack(pack, tmp_path):
    command = [sys.executable, "-m", "clvlab", "capture", "txline", "--out", "mine", "--log", "log.db"]
    with txline_server(pack, speed=HOURS_A_SECOND * 3600, plan=read_plan("cut@150,malformed@200")) as server:
        keys = {"URL": server.url, "JWT": TOKENS[0], "API_TOKEN": TOKENS[1]}
        environ = os.environ | {f"CLVLAB_TXLINE_{name}": value for name, value in keys.items()}
        for size in (20_000, 200_000):
            with subprocess.Popen(command, cwd=tmp_path, env=environ, stderr=subprocess.DEVNULL) as process:
                written(tmp_path / "mine", size)
                process.kill()
        with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True) as process:
            server.script.ended.wait(PATIENCE_S)
            written(tmp_path / "mine", len(server.script.published), of=b'"mark":')
            process.send_signal(signal.SIGINT)
            said = process.stdout.read()

    assert process.returncode == 0, said
    assert re.search(r"gaps +.*restart 2", said)
    assert f"Next: {typed(tmp_path, 'backtest', Path('mine'))}" in said
    made = verify_pack(tmp_path / "mine")
    assert made.provenance == "synthetic-devfeed"
    assert all(gap.replayed for gap in made.manifest.capture.gaps)
    assert made.tape().messages.height == len(server.script.published) - 1  # but for the malformed one
    code, out, _ = clvlab(tmp_path, "backtest", "mine", "--agent", "baseline")
    assert code == 0, out


@pytest.mark.parametrize("asked", ["noon", "2026-07-04T18:00", "+soon"])
def test_the_command_says_what_a_time_is(monkeypatch, tmp_path, asked):
    monkeypatch.setenv("CLVLAB_FEED", "replay")

    code, _, said = clvlab(tmp_path, "capture", "replay", "--out", "mine", "--until", asked)

    assert code == 2
    assert "--until" in said


def test_the_command_says_which_setting_is_missing(monkeypatch, tmp_path):
    monkeypatch.delenv("CLVLAB_TXLINE_JWT", raising=False)

    code, _, said = clvlab(tmp_path, "capture", "txline", "--out", "mine")

    assert (code, "CLVLAB_TXLINE_JWT" in said) == (2, True)


def test_a_laboratory_captures_shows_how_it_is_and_opens_the_pack(feed, tmp_path):
    states = []
    lab = cl.Lab()

    made = lab.capture(feed, tmp_path / "mine", fixtures=[FIXTURE], log=tmp_path / "log.db", progress=states.append)

    assert lab.backtest(made, "baseline").report["n_fixtures"] == 1
    assert states[-1].messages > 100
    with operations.open_log(tmp_path / "log.db") as log, log.read() as rows:
        assert rows.size() == 1
    assert load_pack(tmp_path / "mine").content_hash == made.content_hash


@pytest.mark.parametrize(("until", "fixtures"), [("noon", None), (True, None), (None, "7")])
def test_a_laboratory_says_what_it_can_t_take(feed, tmp_path, until, fixtures):
    with pytest.raises(FeedError):
        cl.Lab().capture(feed, tmp_path / "mine", until=until, fixtures=fixtures)


def test_a_terminal_shows_a_table_that_changes(monkeypatch, tmp_path):
    monkeypatch.setenv("CLVLAB_REPLAY_SPEED", "1e12")
    screen = StringIO()
    monkeypatch.setattr(live, "err", Console(file=screen, force_terminal=True, width=100))

    code, out, _ = clvlab(tmp_path, "capture", "replay", "--out", "mine", "--fixture", FIXTURE)

    assert code == 0
    assert "on the disk" in screen.getvalue()
    assert "Captured" in out


def test_the_table_of_a_terminal_keeps_its_height_and_leaves_room_for_what_control_c_echoes():
    silent = tuple(MarketAge(FIXTURE, "OVERUNDER_PARTICIPANT_GOALS|half=1|line=1.5", age_s) for age_s in (7500.0, 3.0, 2.0))
    screen = StringIO()

    Console(file=screen, width=50).print(live._table(CaptureState(oldest=silent, clock_skew_ms=-7_500_000), 50))

    lines = screen.getvalue().splitlines()
    assert len(lines) == len(CaptureState(clock_skew_ms=1).facts) + 3
    assert max(map(len, lines)) <= 46
    assert "2 h 5 min behind" in screen.getvalue()
    assert "silent for longest  2 h 5 min: " in screen.getvalue()
