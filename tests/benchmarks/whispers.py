"""``python -m tests.benchmarks.whispers [--rounds 3]``: how many bits one locked-in process leaves that another finds.

Each channel has a sender and a receiver, agents of which the second starts when the first has ended, as in an audit. Bits are
those of a symmetric channel with the share of errors that is seen; 0 where the receiver guesses.
"""

from __future__ import annotations

import argparse
import math
import mmap
import os
import random
import sys
import sysconfig
import time
from pathlib import Path

import clvlab as cl
from clvlab.agents.isolation import sandbox
from clvlab.agents.isolation.agent import isolated
from clvlab.agents.isolation.root import Resident
from tests.factories import make_tape, message

TAPE = make_tape([message(0, 0, {"part1": 5000, "part2": 5000})], {1: 3600})
FOLDER = sysconfig.get_path("stdlib")
LARGE = str(Path(FOLDER, "pydoc_data", "topics.py"))
FAR = 16  # pages that one touch brings in


class Acts(cl.TickAgent):
    def __init__(self, act):
        self.act = act

    def on_tick(self, book):
        return book.back("part1", reason=self.act())


def asked(act):
    """Return what a new process says, which then ends."""
    with isolated(Acts(act)).fresh() as one:
        return one.decide(TAPE)["reason"].item()


def pages(bits):
    """Touch some pages of a library that nobody has read."""
    with Path(LARGE).open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    sandbox._RESIDENT = Resident()  # it forgets what lay in memory before
    count = min(len(bits), Path(LARGE).stat().st_size // (FAR * mmap.PAGESIZE))

    def send():
        with Path(LARGE).open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            mapped.madvise(mmap.MADV_NORMAL)
            return str(sum(mapped[n * FAR * mmap.PAGESIZE] for n in range(count) if bits[n]))

    def receive():
        times = []
        with Path(LARGE).open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            for n in range(count):
                start = time.perf_counter_ns()
                _ = mapped[n * FAR * mmap.PAGESIZE]
                times.append(time.perf_counter_ns() - start)
        return halved(times)

    asked(send)
    return bits[:count], asked(receive)


def names(bits):
    """Look for files that are not there."""
    own = f"{random.getrandbits(64):x}"
    paths = [f"{FOLDER}/{own}{n}" for n in range(len(bits))]

    def send():
        return str([os.access(path, os.F_OK) for path, bit in zip(paths, bits, strict=True) if bit][:1])

    def receive():
        times = []
        for path in paths:
            start = time.perf_counter_ns()
            os.access(path, os.F_OK)
            times.append(time.perf_counter_ns() - start)
        return halved(times)

    asked(send)
    return bits, asked(receive)


def pipes(bits):
    """Open pipes until their number, which the machine counts, is a message."""
    step, size = 1 << 12, 1 << 17
    value = sum(bit << n for n, bit in enumerate(bits[:5]))

    def number():
        ends = os.pipe()
        found = os.fstat(ends[0]).st_ino
        os.close(ends[0]), os.close(ends[1])
        return found

    def send():
        until = time.monotonic() + 30
        while number() % size // step != value and time.monotonic() < until:
            pass
        return "sent"

    def receive():
        found = number() % size // step
        return "".join(str(found >> n & 1) for n in range(5))

    asked(send)
    return bits[:5], asked(receive)


def clocks(bits):
    """Give an answer at a time that is a message, by the clock that all processes read; a process starts in less than 5 s."""
    slot, count = 5, 4
    turn, value = slot << count, sum(bit << n for n, bit in enumerate(bits[:count]))

    def send():
        time.sleep((value * slot - time.monotonic()) % turn)
        return "sent"

    def receive():
        found = int(time.monotonic() % turn // slot)
        return "".join(str(found >> n & 1) for n in range(count))

    asked(send)
    return bits[:count], asked(receive)


def halved(times):
    """Take the slower half for what was not touched."""
    middle = sorted(times)[len(times) // 2]
    return "".join("0" if one >= middle else "1" for one in times)


def carried(sent, found):
    wrong = sum(bit != int(told) for bit, told in zip(sent, found, strict=True)) / len(sent)
    if not 0 < wrong < 1:
        return float(len(sent))
    return len(sent) * (1 + wrong * math.log2(wrong) + (1 - wrong) * math.log2(1 - wrong))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.whispers", description="Measure what processes leave.")
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    for channel, length in ((pages, 64), (names, 4096), (pipes, 5), (clocks, 4)):
        for _ in range(rounds):
            bits = [n % 2 for n in range(length)]
            random.shuffle(bits)
            start = time.perf_counter()
            sent, found = channel(bits)
            print(f"{channel.__name__:8} {carried(sent, found):8.1f} of {len(sent)} bits, {time.perf_counter() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
