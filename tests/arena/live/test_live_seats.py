"""Live seats: an agent elsewhere answers each message of a match within seconds, through silence, kills and withdrawals."""

import subprocess
import sys
import threading
import time

import pytest

from clvlab.arena.caps import Caps
from clvlab.arena.seats.requests import SeatLimits, SeatRequest
from clvlab.arena.seats.tape import SeatTape
from clvlab.errors import NoFeedError, OwnerLimitError, SeatConflictError, UnknownSeatError
from clvlab.log.bundles import Trust, judge
from clvlab.log.entries import SeatEntry
from clvlab.packs.synthetic import Recipe, build
from clvlab.proof import clv_verify
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.proof.evidence import read_evidence
from clvlab.proof.verify import verify
from tests.arena.live.services import live_application
from tests.arena.live.test_live_jobs import FIXTURE, captured, sealed
from tests.arena.seats import action, back, signed
from tests.arena.test_seats import entries_of
from tests.factories import ALICE, BOB
from tests.waiting import until

PATIENT = SeatLimits(live_s=600)


@pytest.fixture(scope="module")
def brief(tmp_path_factory):
    """Folder of a pack with few messages."""
    folder = tmp_path_factory.mktemp("brief") / "brief"
    build(Recipe(seed=5, fixtures=1, messages=40), folder)
    return folder


@pytest.fixture
def live(database_url, tmp_path, brief):
    application = live_application(database_url, tmp_path / "live", pack=brief, log_key=signed(), seats=PATIENT)
    application.start()
    yield application
    application.close()


def followed(application, owner=ALICE, **fields):
    return application.seats.take(owner, SeatRequest(**{"agent_id": "me", "blind": "live", "fixture_ids": [FIXTURE]} | fields))


def played(application, start, most=None, owner=ALICE, every=5):
    """Answer the ticks of a live seat as they come, every fifth by a BACK; what was shown."""
    shown, seat_id = [], start["seat_id"]
    while most is None or len(shown) < most:
        found = application.seats.seat(owner, seat_id)
        if found["status"] != "playing":
            break
        if found["next"] is None:
            time.sleep(0.002)
            continue
        view = found["next"]["view"]
        shown.append(view)
        said = [] if view["tick"] % every else [back(view)]
        answer = application.seats.act(owner, seat_id, action(view["tick"], *said))
        assert (answer["done"], answer["answered"]["tick"]) == (False, view["tick"])
        assert answer["waiting"] == (answer["next"] is None)
    return shown


def test_a_live_seat_answers_each_message_and_is_sealed_and_verified(live, tmp_path):
    start = followed(live)
    shown = played(live, start)
    run = sealed(live, start["run_id"])

    pack = captured(tmp_path, start["run_id"])
    parts = read_bundle(live.runs.bundle(start["run_id"]))
    (tmp_path / "run.clv").write_bytes(live.runs.bundle(start["run_id"]))
    keys, views = {"logs": [str(live.log.signer.verifier)]}, SeatTape.of(pack, [FIXTURE]).views
    check = judge(parts, verify(run_of(parts)), Trust(**keys), ["seat", "log"], without_witness=True, views=views)
    evidence, found = read_evidence(run.events), live.seats.seat(ALICE, start["seat_id"])
    [agent] = evidence.started["agents"]
    assert (start["next"], start["waiting"]) == (None, True)
    assert [one["tick"] for one in shown] == list(range(1, len(shown) + 1))
    assert len(shown) == pack.tape([FIXTURE]).messages.height
    assert evidence.decisions.height == len(shown) // 5
    assert (check["seat"].verdict.value, check["log"].verdict.value) == ("pass", "pass"), check["seat"].detail
    assert clv_verify.verify(tmp_path / "run.clv", keys)["checks"]["seat"] is None
    assert (evidence.started["kind"], evidence.started["source_mode"], agent["causality"]) == ("seat", "live", "live")
    assert (found["status"], found["content_hash"], found["fixture_ids"]) == ("sealed", pack.content_hash, [FIXTURE])
    assert not any(tick["missed"] for tick in live.seats.chain(ALICE, start["seat_id"])["ticks"])
    ticks = [one.ticks for one in entries_of(live) if isinstance(one, SeatEntry)]
    assert (ticks[0], ticks[-1]) == (0, len(shown))


def test_a_seat_that_is_silent_misses_its_ticks_and_the_run_is_sealed(database_url, tmp_path, brief):
    application = live_application(database_url, tmp_path / "live", pack=brief, seats=SeatLimits(live_s=1))
    application.start()
    start = followed(application)

    found = sealed(application, start["run_id"])

    chain = application.seats.chain(ALICE, start["seat_id"])
    assert read_evidence(found.events).decisions.is_empty()
    assert chain["ticks"]
    assert all(tick["missed"] for tick in chain["ticks"])
    application.close()


def test_a_late_answer_to_a_live_tick_is_missed_and_the_match_goes_on(database_url, tmp_path, brief):
    application = live_application(database_url, tmp_path / "live", pack=brief, seats=SeatLimits(live_s=1))
    application.start()
    start = followed(application)
    until(lambda: application.seats.seat(ALICE, start["seat_id"])["answered"] >= 1)

    late = application.seats.act(ALICE, start["seat_id"], action(1, action="WAIT"))

    assert (late["answered"]["missed"], late["answered"]["decisions"]) == (True, [])
    application.seats.withdraw(ALICE, start["seat_id"])
    application.close()


def test_a_tick_that_has_not_come_and_a_seat_of_another_are_refused(live):
    start = followed(live)
    until(lambda: live.seats.seat(ALICE, start["seat_id"])["next"])

    for tick in (2, 9, 2**53 - 1):
        with pytest.raises(SeatConflictError, match="has not"):
            live.seats.act(ALICE, start["seat_id"], action(tick))
    with pytest.raises(UnknownSeatError):
        live.seats.act(BOB, start["seat_id"], action(1))
    view = live.seats.seat(ALICE, start["seat_id"])["next"]["view"]
    first = live.seats.act(ALICE, start["seat_id"], action(1, back(view)))
    with pytest.raises(SeatConflictError, match="another answer"):
        live.seats.act(ALICE, start["seat_id"], action(1))
    assert live.seats.act(ALICE, start["seat_id"], action(1, back(view)))["answered"] == first["answered"]
    live.seats.withdraw(ALICE, start["seat_id"])


def test_a_withdrawn_live_seat_is_abandoned_on_the_log(live):
    start = followed(live)
    played(live, start, most=3)

    live.seats.withdraw(ALICE, start["seat_id"])

    found = live.seats.seat(ALICE, start["seat_id"])
    *_, last, ended = entries_of(live)
    assert (found["status"], found["cause"], found["secret"]) == ("abandoned", "withdrawn", None)
    assert (last.ticks, last.head, ended.kind) == (found["answered"], found["head"], "ABANDONED")
    with pytest.raises(SeatConflictError, match="nothing to withdraw"):
        live.seats.withdraw(ALICE, start["seat_id"])


def test_live_seats_are_bounded_and_need_a_feed(in_memory, tmp_path, brief):
    with pytest.raises(NoFeedError):
        followed(in_memory)
    for wrong in ({"pack_id": "starter"}, {"fixture_ids": "all"}, {"fixture_ids": [1, 2]}):
        with pytest.raises(ValueError, match="a live seat"):
            SeatRequest(agent_id="me", blind="live", **wrong)
    application = live_application(None, tmp_path / "live", pack=brief, caps=Caps(live=1))
    start = followed(application)
    with pytest.raises(OwnerLimitError, match="live runs"):
        followed(application)
    assert (start["tick_s"], followed(application, BOB, tick_s=10**6)["tick_s"]) == (5, 5)
    application.close()


@pytest.mark.parametrize("delay_s", [0.1])
def test_a_live_seat_goes_on_where_its_process_was_killed(database_url, tmp_path, brief, delay_s):
    application = live_application(database_url, tmp_path / "live", pack=brief, seats=PATIENT)
    start = followed(application)
    command = [sys.executable, "-m", "tests.arena.live.services", database_url, str(tmp_path / "live"), "1e12", str(brief)]
    shown = []
    player = threading.Thread(target=lambda: shown.extend(played(application, start)), daemon=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        player.start()
        until(lambda: application.seats.seat(ALICE, start["seat_id"])["answered"] >= 3)
        time.sleep(delay_s)
        process.kill()

    application.start()
    sealed(application, start["run_id"])
    player.join(10)

    chain = application.seats.chain(ALICE, start["seat_id"])
    parts = read_bundle(application.runs.bundle(start["run_id"]))
    assert len(chain["ticks"]) == len(shown) == captured(tmp_path, start["run_id"]).tape([FIXTURE]).messages.height
    assert judge(parts, verify(run_of(parts)), Trust())["seat"].verdict.value == "not_applicable"
    application.close()
