"""Output fits the terminal: no line is wider, except one with a word that must stay whole, and nothing is cut."""

import re
import shlex
import sys
from io import StringIO

import pytest
from rich.console import Console

from tests.commands import clvlab
from tests.length import few

WIDTHS = (40, 80, 120)
CALLS = {
    "runs": "Next:",
    "packs list": "content hash",
    "packs show starter": "Birch North - Glen North",
    "verify latest": "verified: the seal is intact and no check failed",
    "backtest starter --agent cumulative-drift --policy max_orders=2": "the number of bets was used up: ",
    "show latest --decisions 3": ", price update ",
    "compare --pack starter baseline cumulative-drift": "edge at the price",
    "sweep starter --grid cooldown_s=3600,43200": "corrected p",
    "demo": "Leaderboard, by mean CLV (bps)",
    "agents list": "cumulative-drift",
    "explain": "What does CLV mean?",
    "report latest": "mean CLV",
}
TO_TYPE = re.compile(
    r"(Next: |  )?\S*clvlab |  sha256sum |An agent of your own: |Sealed in |\d+ runs? in "
)  # what is copied stays on one line


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("widths")
    for agent in ("baseline", "cumulative-drift"):
        assert clvlab(place, "backtest", "starter", "--agent", agent)[0] == 0
    assert clvlab(place, "verify", "latest")[0] == 0
    return place


def too_wide(line, width):
    if len(line.rstrip()) <= width or TO_TYPE.match(line):
        return False
    return not re.search(r"(^ *|\S+  +(pass +|fail +)?)sha256:\w{64}[,;]?$", line)  # a hash stays whole, with its label


@few(12)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("call", CALLS)
def test_no_line_is_wider_than_the_terminal(folder, call, width, monkeypatch):
    terminal = Console(
        file=StringIO(), force_terminal=True, width=width, highlight=False, soft_wrap=True, emoji=False, color_system=None
    )
    for name, module in list(sys.modules.items()):
        if name.startswith("clvlab.cli.") and hasattr(module, "out"):
            monkeypatch.setattr(module, "out", terminal)
    code, _, err = clvlab(folder, *shlex.split(call))
    said = terminal.file.getvalue()

    assert code == 0, err
    assert [line for line in said.splitlines() if too_wide(line, width)] == []
    assert CALLS[call] in " ".join(said.split())
    assert not re.search(r"(?<![\d.,+-])\b1 (runs|fixtures|decisions|bets|entries|packs|agents|trials|settings|files)\b", said)
