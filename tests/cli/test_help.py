"""Help leads a newcomer to answers, in a pipe as in a terminal."""

import re
import shlex
import subprocess
import sys

import pytest
import typer.core
from typer.main import get_command

from clvlab.cli import app
from clvlab.cli.explain import QUESTIONS, TERMS
from tests.commands import clvlab
from tests.length import few

BETS = """\
placed_at,match,market,pick,odds,stake
2026-01-02T03:00Z,Ash - Birch,1X2,home,2.1,10
"""
ODDS = """\
fixture,time,market,side,odds,book,kickoff,home,away
1,2026-01-02T02:00Z,1X2,home,2.05,one,2026-01-02T12:00Z,Ash,Birch
1,2026-01-02T02:00Z,1X2,draw,3.4,one,2026-01-02T12:00Z,Ash,Birch
1,2026-01-02T02:00Z,1X2,away,4.0,one,2026-01-02T12:00Z,Ash,Birch
1,2026-01-02T08:00Z,1X2,home,2.2,one,2026-01-02T12:00Z,Ash,Birch
1,2026-01-02T08:00Z,1X2,draw,3.4,one,2026-01-02T12:00Z,Ash,Birch
1,2026-01-02T08:00Z,1X2,away,4.0,one,2026-01-02T12:00Z,Ash,Birch
"""
AGENT = """\
import clvlab


class Player(clvlab.TickAgent):
    def on_tick(self, book):
        return None
"""


def panels(text):
    """The commands of a help by their headings, of plain columns or of boxes."""
    found, heading = {}, None
    for line in text.splitlines():
        if start := re.match(r"([A-Z][\w ]+):$|╭─ ([A-Z][\w ]+?) ─", line):
            heading = start[1] or start[2]
        elif heading and (name := re.match(r"(?:  |│ )([a-z][a-z-]*)  ", f"{line}  ")):
            found.setdefault(heading, []).append(name[1])
    found.pop("Options", None)
    return found


def groups(command, path=()):
    if hasattr(command, "commands"):
        yield path
        for name, one in command.commands.items():
            yield from groups(one, (*path, name))


def leaves(command, path=()):
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path
        return
    for name, one in inner.items():
        yield from leaves(one, (*path, name))


@pytest.mark.parametrize("path", [*groups(get_command(app))], ids=" ".join)
def test_a_pipe_shows_the_panels_of_a_terminal(path, tmp_path, monkeypatch):
    piped = panels(clvlab(tmp_path, *path, "--help")[1])
    monkeypatch.setattr(sys.modules["clvlab.cli.app"], "_help_has_boxes", lambda: True)

    assert panels(clvlab(tmp_path, *path, "--help")[1]) == piped
    assert piped


def test_no_summary_of_a_command_is_cut(tmp_path):
    for path in groups(get_command(app)):
        assert "..." not in clvlab(tmp_path, *path, "--help")[1].replace("[ARGS]...", "")


def test_the_commands_of_operators_are_one_group(tmp_path):
    service = set(get_command(app).commands["service"].commands)
    shown = {name for names in panels(clvlab(tmp_path, "--help")[1]).values() for name in names}
    packs = {name for names in panels(clvlab(tmp_path, "packs", "--help")[1]).values() for name in names}

    assert service == {"serve", "worker", "dev-token", "backup", "retention", "rebuild-leaderboard", "uploads", "admit-upload",
                       "hold-back", "release"}  # fmt: skip
    assert not service & (shown | packs)
    assert not [name for name, one in get_command(app).commands.items() if one.hidden]


@pytest.mark.parametrize(
    ("name", "whole"), [("serve", "service serve"), ("witness", "log witness"), ("import", "packs import")]
)
def test_a_command_that_is_part_of_a_group_is_named_whole(name, whole, tmp_path):
    code, _, errors = clvlab(tmp_path, name)

    assert code == 2
    assert f"{whole}'?" in errors


@few(15)
@pytest.mark.parametrize("path", [*leaves(get_command(app))], ids=" ".join)
def test_an_interrupt_is_one_line_in_every_command(path, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(typer.core.TyperCommand, "parse_args", lambda *_: [], raising=False)
    monkeypatch.setattr(typer.core.TyperCommand, "invoke", interrupted, raising=False)

    code, out, err = clvlab(tmp_path, *path)

    assert (code, out, err) == (130, "", "\ninterrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_before_any_command_is_one_line_too(tmp_path):
    code = (
        "import sys\nfrom importlib.abc import MetaPathFinder\nclass Interrupt(MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'clvlab.cli.app':\n            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\nsys.argv = ['clvlab', 'runs']\nfrom clvlab.__main__ import main\nmain()"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\ninterrupted\n")


@pytest.mark.parametrize("words", [["--version"], ["-h"], ["explain", "CLV"], ["agents", "--version"]])
def test_what_a_script_asks_often_loads_no_polars(words, tmp_path):
    code = f"""
import sys
sys.argv = ['clvlab', *{words!r}]
from clvlab.__main__ import main
try:
    main()
except SystemExit:
    pass
print([name for name in ('polars', 'numpy', 'pyarrow') if name in sys.modules])
"""

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("newcomer")
    (place / "odds.csv").write_text(ODDS)
    (place / "bets.csv").write_text(BETS)
    (place / "agent.py").write_text(AGENT)
    return place


ANSWERS = {
    "How do I run a backtest?": "mean CLV",
    "Is the result luck?": "[",
    "What does CLV mean?": "how far the fair probability of your side rose",
    "How do I check a run or a file that somebody sent me?": "verified: the seal is intact",
    "Which packs of odds are there?": "season",
    "How do I use my own odds?": "content hash",
    "How do I grade my own bets?": "on the tape",
    "How do I compare two agents?": "cumulative-drift",
    "How do I share a result?": "Wrote",
    "How do I enter an arena?": "answered in seat",
    "Where are my runs?": "in runs",
}
"""What each answer shows."""


def test_every_question_has_an_answer_here():
    assert list(ANSWERS) == list(QUESTIONS)


def test_ten_questions_of_a_newcomer_are_answered_within_three_commands(folder):
    first = clvlab(folder, "--help")[1]
    assert "`explain` answers first questions" in " ".join(first.split())
    lines = clvlab(folder, "explain")[1].splitlines()

    for question, calls in QUESTIONS.items():
        at = lines.index(question) + 1
        typed = [shlex.split(line) for line in lines[at : at + len(calls)]]
        said = []
        for words, call in zip(typed, calls, strict=True):
            assert tuple(words[-len(call) :]) == call
            code, out, err = clvlab(folder, *map(own, call))
            assert code == 0, (call, err)
            said.append(out)
        assert ANSWERS[question] in "".join(said)


def own(word):
    """A word of a hint, the newcomer's own in place of an example's: the pack of the bets, and the file to check."""
    names = {"FILE": "latest", "agent.py:name": "agent.py:Player"}
    return names.get(word, word)


@pytest.mark.parametrize("term", TERMS)
def test_a_word_is_explained_however_it_is_spelt(term, tmp_path):
    code, out, _ = clvlab(tmp_path, "explain", *term.upper().split())

    assert (code, out) == (0, f"{term}\n{TERMS[term]}\n")


def test_a_word_that_is_not_explained_is_answered_with_the_nearest(tmp_path):
    code, out, err = clvlab(tmp_path, "explain", "intervall")

    assert (code, out) == (2, "")
    assert "did you mean 'interval'?" in err
