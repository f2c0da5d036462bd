"""The trials of ``python -m tests.trials``, as short as they can be."""

import pytest

from tests.trials.__main__ import main


def trialled(capsys, monkeypatch, *arguments):
    """Exit status and rows of the table of some trials."""
    monkeypatch.setattr("sys.argv", ["trials", *arguments])
    held = main()
    return held, [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]


@pytest.mark.long  # what they find dies in tests/service/test_outage.py and tests/arena/test_restoring.py as well
def test_the_short_trials_hold_and_print_their_table(capsys, monkeypatch):
    held, rows = trialled(capsys, monkeypatch, "--only", "freeze,restore")

    assert [row[0] for row in rows] == ["| freeze", "| restore"]
    assert (held, {row[-1] for row in rows}) == (0, {"yes |"}), rows


@pytest.mark.long
def test_services_and_workers_that_are_killed_under_load_leave_every_run_sealed_once(capsys, monkeypatch):
    short = "--only", "kills-workers", "--rounds", "1", "--clients", "3"

    held, rows = trialled(capsys, monkeypatch, *short)

    assert [row[0] for row in rows] == ["| kills-workers"]
    assert (held, "kills 2" in rows[0][1]) == (0, True), rows


@pytest.mark.long
def test_services_that_are_killed_while_seats_play_lose_no_decision(capsys, monkeypatch):
    held, rows = trialled(capsys, monkeypatch, "--only", "seats-sqlite", "--kills", "2", "--players", "4")

    assert (held, rows[0][1].split(",")[0]) == (0, "kills 2"), rows


@pytest.mark.long
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_forty_kills_of_twenty_seats_lose_no_decision(store, capsys, monkeypatch):
    held, rows = trialled(capsys, monkeypatch, "--only", f"seats-{store}")

    assert (held, rows[0][1].split(",")[0]) == (0, "kills 40"), rows
