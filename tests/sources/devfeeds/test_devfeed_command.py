import re
import signal
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from clvlab.sources.capture.feed import Cut, FeedMessage, Stop
from clvlab.sources.providers import FeedSettings, feed_of
from tests.commands import clvlab
from tests.length import few


def started(*options):
    """A devfeed in a process of its own, and the variables that it says to export."""
    process = subprocess.Popen(
        [sys.executable, "-m", "clvlab", "devfeed", "--port", "0", *options], stdout=subprocess.PIPE, text=True
    )
    variables, line = {}, ""
    while "ends it" not in line:
        line = process.stdout.readline()
        found = re.fullmatch(r"export (\w+)=(\S+)\n", line)
        variables |= {found[1]: found[2]} if found else {}
    return process, variables


def test_the_ticks_of_a_pack_come_over_the_settings_that_it_prints(monkeypatch):
    process, variables = started("--speed", "inf", "--fixture", "90000000", "--faults", "cut@100")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    items = []
    with process, closing(feed_of(FeedSettings()).listen(Stop())) as listened:
        for item in listened:
            items.append(item)
            if sum(isinstance(one, FeedMessage) for one in items) == 300:
                break
        output = process.stdout.read()

    assert process.returncode == 0
    assert re.search(r"ended: \d+ messages sent, no more to come", output)
    assert sum(isinstance(item, Cut) for item in items) == 1


def test_made_up_markets_of_betfair_are_captured_over_the_settings_that_it_prints(monkeypatch, tmp_path):
    process, variables = started("--feed", "betfair", "--speed", "inf", "--faults", "cut@100")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    with process:
        code, out, errors = clvlab(tmp_path, "capture", "betfair", "--out", "match", "--until", "+4")
        output = process.stdout.read()

    assert code == 0, errors
    assert "provenance           synthetic-devfeed" in out
    assert "gaps                 cut" in out
    assert "messages sent, no more to come" in output


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answers = [clvlab(tmp_path, "devfeed", "--feed", feed, "--port", port) for feed in ("txline", "betfair")]

    for code, _, errors in answers:
        assert (code, f"127.0.0.1:{port} can't be listened on: Address already in use" in " ".join(errors.split())) == (2, True)


@few(1)
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_control_c_and_a_request_to_end_end_it(signal_number):
    process, _ = started("--feed", "betfair")

    with process:
        process.send_signal(signal_number)
        assert "ended" in process.stdout.read()

    assert process.returncode == 0


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--faults", "flood@3", "is no fault"),
        ("--fixture", "1", "no fixture 1"),
        ("--pack", "x", "no pack"),
        ("--feed", "radio", "'radio' is not one of 'txline', 'betfair'"),
    ],
)
def test_what_can_t_be_sent_is_refused_by_name(tmp_path, option, value, message):
    code, _, errors = clvlab(tmp_path, "devfeed", option, value)

    assert (code, message in " ".join(errors.split())) == (2, True)
