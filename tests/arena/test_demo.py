from concurrent.futures import ThreadPoolExecutor

import pytest

from clvlab.arena.application import Application
from clvlab.errors import UnknownPackError
from clvlab.packs.catalog import Catalog


def test_the_demo_gives_a_verifiable_run_of_two_agents(application):
    answer = application.demo.run()

    assert set(answer) == {"run_id", "competition_id", "anchor_status", "leaderboard", "proof_card"}
    assert len(answer["leaderboard"]) == 2
    assert application.runs.verify(answer["run_id"])["verified"]
    assert application.competitions.state(answer["competition_id"])["status"] == "finalized"


def test_asking_for_the_demo_again_and_at_once_adds_nothing(application):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: application.demo.run(), range(16)))

    assert all(answer == answers[0] for answer in answers)
    assert len(application.competitions.page()[0]) == 1


def test_without_a_pack_there_is_no_demo(tmp_path):
    application = Application(catalog=Catalog(tmp_path))

    with pytest.raises(UnknownPackError):
        application.demo.run()
    application.close()
