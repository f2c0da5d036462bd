"""What lies in the memory of a process that is asked step by step or by blocks: nothing of a message that is still to come."""

import contextlib
import fcntl
import io
import os
import re
import secrets
import struct
import tempfile
import termios
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import clvlab as cl
from clvlab.agents.isolation.agent import isolated
from clvlab.agents.isolation.sandbox import can_lock_in
from clvlab.agents.isolation.tapes import write_tape
from clvlab.engine.decisions import decisions_by_blocks
from clvlab.engine.lookahead import prefix
from tests.factories import make_tape, message
from tests.length import few

pytestmark = pytest.mark.skipif(not can_lock_in(), reason="the kernel or libseccomp can't lock a process in")
MESSAGES = 8


class EventWriter(cl.TickAgent):
    """Says at each message which process it is in, and how many messages it has had."""

    def __init__(self):
        self.seen = 0

    def on_tick(self, book):
        self.seen += 1
        print(f"{os.getpid()} {self.seen}")
        return book.back(book.sides()[0]) if self.seen % 4 == 0 else None


@cl.strategy
def telling(ticks):
    print(f"{os.getpid()} {ticks.select('tick_seq').unique().collect().height}")
    return ticks.filter(pl.col("tick_seq") % 4 == 0, pl.col("side") == "part1")


class Looking(io.StringIO):
    """Looks through a process when it says where it stands, which is before its answer is taken and anything more is sent."""

    def __init__(self, first):
        super().__init__()
        self._first, self.found = first, []

    def write(self, text):
        if said := re.fullmatch(r"(\d+) (\d+)", text):
            process, seen = numbered_here(int(said[1])), int(said[2])
            markers = {one for part in held_by(process) for one in markers_in(part, self._first)}
            self.found.append((seen, markers, waiting_for(process)))
        return len(text)


def numbered_here(number):
    """Return the number here of the newest process below this one that calls itself by a number of its own."""
    children, below = {}, [os.getpid()]
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # it has ended since
            told = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            children.setdefault(int(told["PPid"]), []).append((int(told["Pid"]), int(told["NSpid"].split()[-1])))
    found = []
    while below:
        for pid, own in children.get(below.pop(), []):
            below.append(pid)
            found += [pid] if own == number else []
    return max(found, key=lambda pid: int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]))


def held_by(process):
    """Read all pages that a process has in memory, and the files in folders of processes: in tests, of this one's alone."""
    parts, page = [], os.sysconf("SC_PAGE_SIZE")
    own = Path(f"/proc/{process}")
    with (own / "mem").open("rb", buffering=0) as memory, (own / "pagemap").open("rb", buffering=0) as pagemap:
        for line in (own / "maps").read_text().splitlines():
            first, last, kinds = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            if not kinds.startswith("rw"):  # what it can't write to are libraries, and the files that are read below
                continue
            start, end = int(first, 16), int(last, 16)
            for chunk in range(start, end, 512 * page):
                pagemap.seek(chunk // page * 8)
                entries = pagemap.read(min(512, (end - chunk) // page) * 8)
                if max(entries[7::8]) >> 6:  # one of them is in memory, or was moved out of it
                    memory.seek(chunk)
                    parts.append(memory.read(min(512 * page, end - chunk)))
    folders = list(Path(tempfile.gettempdir()).glob("clvlab-agent-*"))
    assert folders
    return [b"".join(parts), *(path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file())]


def markers_in(part, first):
    """Yield what stands behind the mark of a market, and behind the odds of a first side, side by side or marshalled."""
    for at in places(b"Mark", part):
        yield part[at + 4 : at + 36]
    for at in places(first, part):
        yield part[at + 4 : at + 8]
        if part[at - 1 : at] == part[at + 4 : at + 5] == b"i":
            yield part[at + 5 : at + 9]


def places(sought, part):
    """Yield where some bytes begin, by a search that is ten times as fast as one by a pattern."""
    at = part.find(sought)
    while at >= 0:
        yield at
        at = part.find(sought, at + 1)


def waiting_for(process):
    """Count the bytes that wait in the pipes from which a process reads."""
    total = 0
    for info in Path(f"/proc/{process}/fdinfo").iterdir():
        link = Path(f"/proc/{process}/fd/{info.name}")
        reads = int(re.search(r"flags:\s*(\d+)", info.read_text())[1], 8) & os.O_ACCMODE == os.O_RDONLY
        if reads and str(link.readlink()).startswith("pipe:"):
            number = os.open(link, os.O_RDONLY | os.O_NONBLOCK)
            total += struct.unpack("i", fcntl.ioctl(number, termios.FIONREAD, b"\0" * 4))[0]
            os.close(number)
    return total


def marked():
    """Return a tape whose every message has a market and odds of its own, these, and the odds by which they are found."""
    common = 1_000_000 + secrets.randbelow(90_000_000)  # odds of every first side, by which those of the second are found
    first, messages, markets, odds = struct.pack("<i", common), [], [], []
    for tick in range(MESSAGES):
        name, second = secrets.token_hex(16), 1_000_000 + secrets.randbelow(90_000_000)
        quotes = {"part1": (5000, common), "part2": (5000, second)}
        messages.append(message(tick, tick, quotes, market_key=f"Mark{name}"))
        markets.append(name.encode())
        odds.append(struct.pack("<i", second))
    return make_tape(messages), markets, odds, first


@few(1)
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may read any process")
@pytest.mark.parametrize("agent", [EventWriter(), telling], ids=["step by step", "by blocks"])
def test_nothing_of_a_later_message_is_in_memory_files_or_pipes(agent, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tape, markets, odds, first = marked()
    own, looking = isolated(agent, stepped=True), Looking(first)

    with contextlib.redirect_stdout(looking):
        decided = own.decide(tape) if own.steps else decisions_by_blocks(own, tape, seed=5, blocks=4).decisions

    told = [seen for seen, *_ in looking.found]
    assert decided.height == MESSAGES // 4
    assert told == list(range(1, MESSAGES + 1)) if own.steps else len(told) > 2
    for seen, markers, waiting in looking.found:
        assert markers >= {*markets[:seen], odds[seen - 1]}  # those it had are found: the look is good
        assert markers.isdisjoint([*markets[seen:], *odds[seen:]])
        assert waiting == 0


def test_the_files_of_a_prefix_hold_no_name_of_a_later_market(tmp_path):
    tape, markets, *_ = marked()
    books = tape.ticks().drop("in_running").with_columns(book=pl.lit("somebody")).collect()
    last = tape.messages.select("ts_ms", "fixture_id", "tick_seq").row(MESSAGES - 4)  # few are left out: buffers stay shared

    write_tape(prefix(replace(tape, books=books.lazy()), last), tmp_path)

    files = [path.read_bytes() for path in tmp_path.iterdir()]
    assert [any(market in data for data in files) for market in markets] == [True] * (MESSAGES - 3) + [False] * 3
