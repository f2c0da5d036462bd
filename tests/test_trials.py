"""The trials of ``python -m tests.trials``, as short as they can be."""

from tests.trials.__main__ import main


def test_the_short_trials_hold_and_print_their_table(capsys, monkeypatch):
    short = ["--only", "freeze,restore"]
    monkeypatch.setattr("sys.argv", ["trials", *short])

    held = main()

    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| freeze", "| restore"]
    assert (held, all(line.endswith("| yes |") for line in lines[2:])) == (0, True), lines
