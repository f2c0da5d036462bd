import json

import pytest

from clvlab.arena.application import Application
from clvlab.arena.seats.requests import SeatCompetitionRequest
from tests.commands import clvlab
from tests.factories import ALICE

PLAYER = """
import clvlab

class Player(clvlab.TickAgent):
    def on_tick(self, book):
        return book.back(book.sides()[0]) if book.tick_seq == 20 else None
"""


@pytest.fixture
def competition_id(tmp_path):
    """An open competition over one fixture, in ``seats.db`` of a folder with an agent."""
    application = Application(f"sqlite:///{tmp_path / 'seats.db'}")
    rules = {"name": "Spring [bold]", "pack_id": "starter", "fixture_ids": [90000000], "blind": "open", "max_stake": 100}
    created = application.seat_competitions.create(ALICE, SeatCompetitionRequest(**rules))
    application.close()
    (tmp_path / "player.py").write_text(PLAYER)
    return created["competition_id"]


def one_line(text):
    return " ".join(text.split())


def test_an_agent_plays_in_a_competition_by_its_rules_and_stands_in_it(competition_id, tmp_path):
    store = ("--store", "seats.db")

    code, played, errors = clvlab(tmp_path, "arena", "play", "player.py:Player", "--competition", competition_id, *store)
    _, listed, _ = clvlab(tmp_path, "arena", "competitions", *store)
    _, stands, _ = clvlab(tmp_path, "arena", "competitions", competition_id, *store)
    _, found, _ = clvlab(tmp_path, "arena", "competitions", competition_id, *store, "--json")

    assert (code, errors) == (0, "")
    assert "--pack starter" in one_line(played)
    assert "Spring [bold]" in listed
    assert "1 entrant; seats: 1 sealed" in one_line(listed)
    assert "- Player of local" in stands
    assert "1 fixture" in one_line(stands)
    assert "Too few seats are sealed" in one_line(stands)
    assert json.loads(found)["standing"][0]["seats"] == {"playing": 0, "sealed": 1, "abandoned": 0}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--blind", "aliased"], "is open, not aliased"),
        (["--pack", "season"], "is starter, not season"),
        (["--horizon-s", "5"], "is 60, not 5"),
        (["--market", "1X2"], "market_allowlist"),
    ],
)
def test_another_rule_than_the_competition_has_is_refused(competition_id, tmp_path, options, said):
    named = ["--competition", competition_id, "--store", "seats.db", *options]

    code, _, errors = clvlab(tmp_path, "arena", "play", "player.py:Player", *named)

    assert code != 0
    assert said in one_line(errors)


def test_a_place_that_cannot_be_written_costs_no_seat(competition_id, tmp_path):
    (tmp_path / "taken.clv").write_text("mine")
    named = ["--competition", competition_id, "--store", "seats.db"]

    for out in ("taken.clv", "nowhere/seat.clv"):
        assert clvlab(tmp_path, "arena", "play", "player.py:Player", *named, "--out", out)[0] == 2

    stands = json.loads(clvlab(tmp_path, "arena", "competitions", *named[1:], "--json")[1])
    assert stands["standing"] == []
    assert (tmp_path / "taken.clv").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["play", "player.py:Player"], "name one of them"),
        (["competitions"], "name one of them"),
        (["competitions", "seats_none", "--store", "seats.db"], "unknown competition of seats 'seats_none'"),
        (["competitions", "--store", "seats.db", "--cursor", "x"], "cursor 'x'"),
    ],
)
def test_what_is_missing_or_unknown_is_named(competition_id, tmp_path, words, said):
    code, _, errors = clvlab(tmp_path, "arena", *words)

    assert competition_id
    assert code != 0
    assert said in one_line(errors)
