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
def store(tmp_path):
    """A store with an open competition over one fixture; its id."""
    file = tmp_path / "seats.db"
    application = Application(f"sqlite:///{file}")
    rules = {"name": "Spring [bold]", "pack_id": "starter", "fixture_ids": [90000000], "blind": "open", "max_stake": 100}
    created = application.seat_competitions.create(ALICE, SeatCompetitionRequest(**rules))
    application.close()
    (tmp_path / "player.py").write_text(PLAYER)
    return file, created["competition_id"]


def test_an_agent_plays_in_a_competition_by_its_rules_and_stands_in_it(store, tmp_path):
    file, competition_id = store
    player, bundle = tmp_path / "player.py", tmp_path / "own.clv"

    played = clvlab("arena", "play", f"{player}:Player", "--competition", competition_id, "--store", file, "--out", bundle)
    listed = clvlab("arena", "competitions", "--store", file)
    stands = clvlab("arena", "competitions", competition_id, "--store", file)
    found = json.loads(clvlab("arena", "competitions", competition_id, "--store", file, "--json").stdout)

    assert played.exit_code == 0, played.output
    assert "--pack starter" in " ".join(played.output.split())
    assert "Spring [bold]" in listed.output
    assert "1 entrant; seats: 1 sealed" in listed.output
    assert "- Player of local" in stands.output
    assert "1 fixture" in stands.output
    assert "Too few seats are sealed" in " ".join(stands.output.split())
    assert found["standing"][0]["seats"] == {"playing": 0, "sealed": 1, "abandoned": 0}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--blind", "aliased"], "is open, not aliased"),
        (["--pack", "season"], "is starter, not season"),
        (["--horizon-s", "5"], "is 60, not 5"),
        (["--market", "1X2"], "market_allowlist"),
    ],
)
def test_another_rule_than_the_competition_has_is_refused(store, tmp_path, options, said):
    file, competition_id = store
    named = ["--competition", competition_id, "--store", file, *options]

    refused = clvlab("arena", "play", f"{tmp_path / 'player.py'}:Player", *named)

    assert refused.exit_code != 0
    assert said in " ".join(refused.output.split())


def test_what_is_missing_is_named(store, tmp_path):
    file, _ = store

    nothing = clvlab("arena", "play", f"{tmp_path / 'player.py'}:Player")
    nowhere = clvlab("arena", "competitions")
    unknown = clvlab("arena", "competitions", "seats_none", "--store", file)

    assert "name one of them" in " ".join(nothing.output.split())
    assert "name one of them" in " ".join(nowhere.output.split())
    assert "unknown competition of seats 'seats_none'" in " ".join(unknown.output.split())
    assert 0 not in (nothing.exit_code, nowhere.exit_code, unknown.exit_code)
