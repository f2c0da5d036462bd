import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import orjson
import pytest

from clvlab.agents.seat import play
from clvlab.arena.application import Application
from clvlab.arena.caps import Caps
from clvlab.arena.packs import bundled_catalog
from clvlab.arena.seats.commits import GroupCommit
from clvlab.arena.seats.requests import SeatAction, SeatLimits
from clvlab.arena.seats.tape import SeatTape
from clvlab.errors import (
    DecisionError,
    OwnerLimitError,
    SeatConflictError,
    SeatTooLongError,
    UnknownFixtureError,
    UnknownPackError,
    UnknownRunError,
    UnknownSeatError,
)
from clvlab.log.audit import Auditor
from clvlab.log.bundles import Trust, judge
from clvlab.log.entries import SeatEntry, read_entry
from clvlab.log.note import open_note
from clvlab.log.seats import Blind, first_head, header, next_head, tick_digest
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.proof.canonical import parsed
from clvlab.proof.evidence import read_evidence
from clvlab.proof.verify import verify
from clvlab.runs.execute import execute
from clvlab.runs.spec import backtest_spec
from clvlab.sources.capture.replay import messages_of
from clvlab.store.runlog import RunLog
from tests.arena.seats import FIXTURES, MINUTE, Favourite, action, answered, back, finished, request, signed
from tests.factories import ALICE, BOB


@pytest.fixture(scope="module")
def pack():
    return bundled_catalog().open("starter")


@pytest.fixture
def signing():
    """Application in memory whose log has a key."""
    opened = Application(log_key=signed())
    yield opened
    opened.close()


class Clocks:
    """A system clock that may jump, and seconds that do not."""

    def __init__(self):
        self.wall_ms, self.passed_s = 1_800_000_000_000, 0.0

    def pass_s(self, seconds):
        self.wall_ms, self.passed_s = self.wall_ms + round(1000 * seconds), self.passed_s + seconds

    @property
    def options(self):
        return {"clock": lambda: self.wall_ms, "monotonic": lambda: self.passed_s}


def entries_of(application):
    with RunLog(application._database).read() as rows:
        return [read_entry(rows.entry(index)) for index in range(rows.size())]


def play_favourite(application, **fields):
    start = application.seats.take(ALICE, request(**fields))

    def act(tick, decisions):
        return application.seats.act(ALICE, start["seat_id"], action(tick, *decisions))

    play(Favourite(), start, act)
    application.jobs.require_sealed(start["run_id"])
    return start


def lines_of(evidence):
    """Decisions without what names their run and agent, in order."""
    return evidence.decisions.drop("agent_id").to_dicts()


def test_an_open_seat_seals_the_decisions_of_a_backtest(in_memory, pack):
    start = play_favourite(in_memory, blind="open")

    evidence = read_evidence(in_memory.runs.sealed_run(start["run_id"]).events)
    test = execute(backtest_spec(pack, Favourite(), fixture_ids=FIXTURES, audit=False))

    assert lines_of(evidence) == lines_of(test.evidence)
    assert evidence.decisions["action"].unique().sort().to_list() == ["BACK", "WAIT"]
    assert evidence.decisions["confidence_raw"].drop_nulls().len() > 0
    [agent] = evidence.started["agents"]
    assert (evidence.started["kind"], agent["strategy"], agent["causality"]) == ("seat", "seat", "asked")
    assert in_memory.runs.card(start["run_id"])["run"]["kind"] == "seat"
    assert in_memory.runs.verify(start["run_id"])["verified"]


def test_the_ticks_of_a_seat_are_the_messages_of_a_feed(pack):
    tape = SeatTape.of(pack, FIXTURES)

    messages = messages_of(pack, FIXTURES)

    assert tape.ticks == len(messages)
    for tick, message in enumerate(messages, 1):
        view = tape.view(tick, Blind.OPEN, b"")
        assert tape.message(tick) == (message.fixture_id, message.tick_seq)
        assert view["sides"] == [list(one) for one in zip(message.sides, message.prob_bps, message.odds_milli, strict=True)]
        assert (view["market"], view["time_ms"]) == (message.market_key, message.ts_ms)
        assert (view["suspended"], view["in_running"]) == (message.suspended, message.in_running)


def test_an_aliased_seat_shows_no_name_id_or_date_before_its_seal(in_memory, pack):
    start = in_memory.seats.take(ALICE, request(fixture_ids=None))
    shown = [start]
    while shown[-1]["next"]:
        shown.append(answered(in_memory, ALICE, start | {"next": shown[-1]["next"]}, 1))
        if len(shown) % 50 == 0:
            shown.append(in_memory.seats.seat(ALICE, start["seat_id"]))
    text = orjson.dumps([shown, in_memory.seats.page(ALICE)]).decode()

    about = pack.tape().about.select("home", "away").to_dict(as_series=False)
    series = pack.tape().series
    names = {*about["home"], *about["away"], *series["market_key"], *series["side"], *map(str, pack.fixture_ids)}
    assert not {name for name in names if f'"{name}"' in text or f" {name} " in text or (len(name) > 7 and name in text)}
    days = pack.tape().messages["ts_ms"] // 86_400_000
    assert not [day for day in days.unique() if f'"time_ms":{str(day)[:4]}' in text]
    in_memory.jobs.require_sealed(start["run_id"])
    opened = in_memory.seats.seat(ALICE, start["seat_id"])
    assert opened["fixture_ids"][0] in pack.fixture_ids
    assert len(bytes.fromhex(opened["secret"])) == 32


def test_the_run_of_a_seat_is_unknown_and_cannot_be_guessed_before_its_seal(in_memory, pack):
    from clvlab.arena.seats.job import seat_spec

    start = in_memory.seats.take(ALICE, request(fixture_ids=None))
    guesses = [
        seat_spec(request(fixture_ids=None), pack, [fixture_id], start["seat_id"], bytes(32)).run_id
        for fixture_id in pack.fixture_ids
    ]

    with pytest.raises(UnknownRunError):
        in_memory.runs.card(start["run_id"])
    finished(in_memory, ALICE, start)

    config = in_memory.runs.card(start["run_id"])["lineage"]["agents"][0]["config"]
    assert start["run_id"] not in guesses
    assert set(config) == {"seat", "blind", "blind_commitment", "run_salt"}
    assert config["blind_commitment"] == start["blind_commitment"]


def test_an_entrant_computes_the_chain_that_the_log_holds(signing):
    start = signing.seats.take(ALICE, request(fixture_ids=[FIXTURES[0]]))
    head, answer = start["answered"]["head"], start
    ticks = 0
    while answer["next"]:
        view, salt = answer["next"]["view"], answer["next"]["salt"]
        said = [] if view["tick"] % 3 else [back(view, stake=4, confidence=0.25)]
        answer = signing.seats.act(ALICE, start["seat_id"], action(view["tick"], *said))
        recorded = [one | {"market": view["market"], "confidence": "0.25"} for one in said]
        head = next_head(head, tick_digest(salt, view), recorded, missed=False)
        ticks += 1
        assert answer["answered"]["head"] == head
        text, [signer] = open_note(answer["answered"]["receipt"], signing.log.signer.verifier)
        assert (text, signer) == (f"clvlab-seat/1\n{start['seat_id']}\n{ticks}\n{head}\n", signing.log.signer.verifier)
    assert answer["done"]
    signing.jobs.require_sealed(start["run_id"])

    kinds = [type(one).__name__ for one in entries_of(signing)]
    first, last = (one for one in entries_of(signing) if isinstance(one, SeatEntry))
    secret = bytes.fromhex(signing.seats.seat(ALICE, start["seat_id"])["secret"])
    assert kinds == ["Commit", "SeatEntry", "SeatEntry", "Outcome"]
    assert (first.ticks, first.head) == (0, first_head(header(start["seat_id"], "Favourite", start["run_id"], secret)))
    assert (last.ticks, last.head) == (ticks, head)


def test_the_bundle_of_a_seat_proves_it_and_its_ticks_follow_from_the_pack(signing, pack):
    start = play_favourite(signing)
    parts = read_bundle(signing.runs.bundle(start["run_id"]))
    verification, trust = verify(run_of(parts)), Trust(logs=[str(signing.log.signer.verifier)])

    proved = judge(parts, verification, trust, ["seat", "log"], without_witness=True, views=SeatTape.of(pack, FIXTURES).views)
    other = judge(parts, verification, trust, views=SeatTape.of(pack, [FIXTURES[0]]).views)
    untrusted = judge(parts, verification, Trust())

    assert {name: check.verdict.value for name, check in proved.items()} == {
        "anchor": "not_applicable", "log": "pass", "seat": "pass",
    }  # fmt: skip
    assert other["seat"].verdict.value == "fail"
    assert untrusted["seat"].verdict.value == "not_applicable"
    assert "trust no key" in untrusted["seat"].detail
    assert parsed(parts["seat.json"])["ticks"] == signing.seats.chain(ALICE, start["seat_id"])["ticks"]


def test_the_same_answer_twice_in_one_commit_is_answered_alike(application):
    start = application.seats.take(ALICE, request())
    seat_id, said = start["seat_id"], back(start["next"]["view"])
    acts = [application.seats.prepared(ALICE, seat_id, wanted) for wanted in (action(1, said), action(1, said), action(1))]
    first, again, other = application.seats._commit(acts)

    assert first == again
    assert (first["answered"]["tick"], first["next"]["view"]["tick"]) == (1, 2)
    assert (other.reason, other.open_tick) == ("answered", 2)
    assert application.seats.seat(ALICE, seat_id)["answered"] == 1


def test_the_same_answer_again_is_answered_alike_and_another_is_refused(application):
    start = application.seats.take(ALICE, request())
    view, seat_id = start["next"]["view"], start["seat_id"]
    first = application.seats.act(ALICE, seat_id, action(1, back(view)))
    answered(application, ALICE, start | {"next": first["next"]}, 3)

    again = application.seats.act(ALICE, seat_id, action(1, action="BACK", side=view["sides"][0][0]))
    with pytest.raises(SeatConflictError, match=r"tick 1 of .* has another answer, .* open is 5") as other:
        application.seats.act(ALICE, seat_id, action(1, back(view, 1)))
    with pytest.raises(SeatConflictError, match="tick 6 has not left yet: open is 5") as early:
        application.seats.act(ALICE, seat_id, action(6))
    with pytest.raises(SeatConflictError, match="not left yet"):
        application.seats.act(ALICE, seat_id, action(2**53 - 1))

    assert again == first
    assert [(one.value.reason, one.value.open_tick) for one in (other, early)] == [("answered", 5), ("unserved", 5)]
    assert application.seats.seat(ALICE, seat_id)["answered"] == 4


def test_nothing_is_made_of_a_tick_that_has_not_left(application, pack, monkeypatch):
    start = application.seats.take(ALICE, request())
    answered(application, ALICE, start, 3)
    last, made = SeatTape.of(pack, FIXTURES).ticks, []
    monkeypatch.setattr(SeatTape, "view", lambda _, tick, *__: made.append(tick))
    monkeypatch.setattr(application.seats, "_spec", lambda _: made.append("run"))

    for tick in (5, last - 1, last, last + 1):
        assert not application.seats.is_known(start["seat_id"], tick)
        with pytest.raises(SeatConflictError, match="has not left yet: open is 4"):
            application.seats.act(ALICE, start["seat_id"], action(tick))

    assert made == []


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ([{"action": "BACK", "side": "part9"}], "has no side 'part9'; there are: "),
        ([{"action": "BACK", "market": "OU", "side": "x"}], "its fixture has shown no market 'OU'; there are: "),
        ([{"action": "WAIT"}, {"action": "WAIT"}], "two decisions 'WAIT'"),
        ([{"action": "BACK", "side": 0}, {"action": "BACK", "side": 0, "stake": 9}], "two decisions 'BACK"),
    ],
)
@pytest.mark.parametrize("blind", ["open", "aliased"])
def test_a_decision_that_the_seat_cannot_take_is_refused_and_the_tick_stays_open(in_memory, said, match, blind):
    start = in_memory.seats.take(ALICE, request(blind=blind))
    view = start["next"]["view"]
    said = [one | ({"side": view["sides"][0][0]} if one.get("side") == 0 else {}) for one in said]

    with pytest.raises(DecisionError, match=match):
        in_memory.seats.act(ALICE, start["seat_id"], action(1, *said))

    assert in_memory.seats.act(ALICE, start["seat_id"], action(1))["next"]["view"]["tick"] == 2


def test_a_market_that_comes_later_is_refused_before_its_first_message(in_memory, pack):
    tape = SeatTape.of(pack, [FIXTURES[0]])
    later = tape.messages["market_key"].unique(maintain_order=True)[-1]
    start = in_memory.seats.take(ALICE, request(blind="open", fixture_ids=[FIXTURES[0]]))
    since = tape.messages["market_key"].to_list().index(later) + 1
    named = {"action": "BACK", "market": later, "side": tape.messages["side"][since - 1][0]}

    with pytest.raises(DecisionError, match="shown no market"):
        in_memory.seats.act(ALICE, start["seat_id"], action(1, named))
    answer = answered(in_memory, ALICE, start, since - 1, every=10**6)

    assert answer["next"]["view"]["market"] == later
    assert in_memory.seats.act(ALICE, start["seat_id"], action(since, named))["answered"]["decisions"] == [
        named | {"stake": 100}
    ]


@pytest.mark.parametrize(
    "body",
    [
        {"tick": 0},
        {"tick": True},
        {"tick": "1"},
        {},
        {"tick": 1, "decisions": [{"action": "LAY", "side": "x"}]},
        {"tick": 1, "decisions": [{"action": "BACK"}]},
        {"tick": 1, "decisions": [{"action": "BACK", "side": "x", "reason": "é" * 1001}]},
        {"tick": 1, "decisions": [{"action": "BACK", "side": "x", "stake": 0}]},
        {"tick": 1, "decisions": [{"action": "BACK", "side": "x", "stake": 2.5}]},
        {"tick": 1, "decisions": [{"action": "BACK", "side": "x", "confidence": "likely"}]},
        {"tick": 1, "decisions": [{"action": "WAIT", "side": "x"}]},
        {"tick": 1, "decisions": [{"action": "WAIT"}] * 65},
        {"tick": 1, "decisions": [{"action": "WAIT"}], "action": "WAIT"},
        {"tick": 1, "side": "x"},
        {"tick": 1, "action": "BACK"},
        {"tick": 1, "colour": "red"},
    ],
)
def test_an_answer_of_another_form_is_refused(body):
    with pytest.raises(ValueError, match="validation error"):
        SeatAction.model_validate(body)


def test_a_seat_belongs_to_its_owner(in_memory):
    start = in_memory.seats.take(ALICE, request())
    seat_id = start["seat_id"]

    for use in (
        lambda: in_memory.seats.act(BOB, seat_id, action(1)),
        lambda: in_memory.seats.seat(BOB, seat_id),
        lambda: in_memory.seats.chain(BOB, seat_id),
        lambda: in_memory.seats.withdraw(BOB, seat_id),
        lambda: in_memory.seats.act(ALICE, "seat_none", action(1)),
    ):
        with pytest.raises(UnknownSeatError, match="unknown seat"):
            use()

    assert [one["seat_id"] for one in in_memory.seats.page(ALICE)["seats"]] == [seat_id]
    assert in_memory.seats.page(BOB)["seats"] == []


def test_a_late_answer_is_missed_and_the_seat_goes_on():
    clocks = Clocks()
    application = Application(**clocks.options)
    start = application.seats.take(ALICE, request(fixture_ids=[FIXTURES[0]], tick_s=30))
    view = start["next"]["view"]
    clocks.pass_s(31)

    late = application.seats.act(ALICE, start["seat_id"], action(1, back(view)))
    again = application.seats.act(ALICE, start["seat_id"], action(1, back(view)))
    clocks.pass_s(30)
    on_time = application.seats.act(ALICE, start["seat_id"], action(2, back(late["next"]["view"])))
    finished(application, ALICE, start | {"next": on_time["next"]})

    assert (late["answered"]["missed"], late["answered"]["decisions"]) == (True, [])
    assert again == late
    assert not on_time["answered"]["missed"]
    assert application.seats.chain(ALICE, start["seat_id"])["ticks"][0]["missed"]
    parts = read_bundle(application.runs.bundle(start["run_id"]))
    assert judge(parts, verify(run_of(parts)), Trust())["seat"].verdict.value == "not_applicable"
    application.close()


def test_a_clock_that_jumps_misses_nothing_and_abandons_nothing():
    clocks = Clocks()
    application = Application(**clocks.options)
    start = application.seats.take(ALICE, request(tick_s=30, seat_s=60))
    answer = start
    for jump_ms in (86_400_000, -2 * 86_400_000, 365 * 86_400_000):
        clocks.wall_ms += jump_ms
        application.seats.sweep()
        answer = answered(application, ALICE, start | {"next": answer["next"]}, 1)
        assert not answer["answered"]["missed"]

    assert application.seats.seat(ALICE, start["seat_id"])["status"] == "playing"
    application.close()


@pytest.mark.parametrize("touch", ["sweep", "act"])
def test_a_seat_left_alone_is_abandoned_on_the_log(touch):
    clocks = Clocks()
    application = Application(**clocks.options)
    start = application.seats.take(ALICE, request(seat_s=10 * MINUTE))
    answered(application, ALICE, start, 3)
    clocks.pass_s(10 * MINUTE)
    application.seats.sweep()
    assert application.seats.seat(ALICE, start["seat_id"])["status"] == "playing"
    clocks.pass_s(1)

    if touch == "sweep":
        application.seats.sweep()
    with pytest.raises(SeatConflictError, match="abandoned") as refused:
        application.seats.act(ALICE, start["seat_id"], action(4))

    found = application.seats.seat(ALICE, start["seat_id"])
    assert refused.value.reason == "over"
    assert (found["status"], found["cause"], found["secret"], found["next"]) == ("abandoned", "left alone", None, None)
    _, first, last, ended = entries_of(application)
    assert (first.ticks, last.ticks, last.head, ended.cause) == (0, 3, found["head"], "left alone")
    application.close()


def test_a_withdrawn_seat_stays_on_the_record(application):
    start = application.seats.take(ALICE, request())
    answered(application, ALICE, start, 2)

    application.seats.withdraw(ALICE, start["seat_id"])

    found = application.seats.seat(ALICE, start["seat_id"])
    assert (found["status"], found["cause"], found["answered"], found["secret"]) == ("abandoned", "withdrawn", 2, None)
    assert [type(one).__name__ for one in entries_of(application)] == ["Commit", "SeatEntry", "SeatEntry", "Outcome"]
    with pytest.raises(SeatConflictError, match="nothing to withdraw"):
        application.seats.withdraw(ALICE, start["seat_id"])
    with pytest.raises(SeatConflictError, match="is abandoned"):
        application.seats.chain(ALICE, start["seat_id"])


def test_two_processes_may_answer_one_seat(database_url):
    first, second = Application(database_url), Application(database_url)
    start = first.seats.take(ALICE, request(fixture_ids=[FIXTURES[0]]))
    answer, refused = start, 0
    with ThreadPoolExecutor(2) as pool:
        while answer["next"]:
            view = answer["next"]["view"]
            said = (action(view["tick"], back(view)), action(view["tick"], back(view, 1)))
            futures = [
                pool.submit(one.seats.act, ALICE, start["seat_id"], own) for one, own in zip((first, second), said, strict=True)
            ]
            failed = [future for future in futures if isinstance(future.exception(), SeatConflictError)]
            [kept] = [future for future in futures if future not in failed]
            refused += len(failed)
            answer = kept.result()
            if answer["answered"]["tick"] >= 20:
                break

    assert refused == 20
    assert second.seats.seat(ALICE, start["seat_id"])["answered"] == 20
    first.close()
    second.close()


def test_many_seats_at_once_lose_and_double_nothing(application):
    starts = [application.seats.take(ALICE, request()) for _ in range(12)]

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda start: answered(application, ALICE, start, 25), starts))

    for start, answer in zip(starts, answers, strict=True):
        found = application.seats.seat(ALICE, start["seat_id"])
        assert (found["answered"], found["head"]) == (25, answer["answered"]["head"])


def test_the_log_gets_the_head_every_so_many_ticks_and_seconds_and_its_audit_passes():
    clocks = Clocks()
    application = Application(seats=SeatLimits(log_ticks=10, log_s=60), **clocks.options)
    start = application.seats.take(ALICE, request())
    answer = answered(application, ALICE, start, 25)
    clocks.pass_s(61)
    answered(application, ALICE, start | {"next": answer["next"]}, 3)

    ticks = [one.ticks for one in entries_of(application) if isinstance(one, SeatEntry)]
    auditor = Auditor()
    with RunLog(application._database).read() as rows:
        for index in range(rows.size()):
            auditor.add(rows.entry(index))
    auditor.finish()
    assert ticks == [0, 10, 20, 26]
    assert auditor.broken == []
    application.close()


def test_a_seat_that_is_over_keeps_its_answers(in_memory):
    start = in_memory.seats.take(ALICE, request(fixture_ids=[FIXTURES[0]]))
    last = finished(in_memory, ALICE, start)
    tick = last["answered"]["tick"]

    again = in_memory.seats.act(ALICE, start["seat_id"], action(tick, *last["answered"]["decisions"]))
    with pytest.raises(SeatConflictError, match="is sealed") as beyond:
        in_memory.seats.act(ALICE, start["seat_id"], action(tick + 1))

    assert again == last
    assert (beyond.value.reason, beyond.value.open_tick) == ("over", None)


def test_a_run_that_cannot_be_sealed_abandons_its_seat(in_memory, monkeypatch):
    start = in_memory.seats.take(ALICE, request(fixture_ids=[FIXTURES[0]]))
    monkeypatch.setattr(
        SeatTape, "opened", lambda *_: iter([(FIXTURES[0], 10**6, "BACK", "x", "y", 1, None, None, None, None)])
    )

    with pytest.raises(Exception, match="failed"):
        finished(in_memory, ALICE, start)

    found = in_memory.seats.seat(ALICE, start["seat_id"])
    assert found["status"] == "abandoned"
    assert found["cause"]
    assert type(entries_of(in_memory)[-1]).__name__ == "Outcome"


def test_limits_hold_before_work():
    application = Application(caps=Caps(seats=2), seats=SeatLimits(ticks=500, decision_bytes=300, tick_s=20, seat_s=50))
    seats = application.seats

    with pytest.raises(SeatTooLongError, match="1 to 500 messages"):
        seats.take(ALICE, request(fixture_ids="all"))
    start = seats.take(ALICE, request(fixture_ids=[FIXTURES[0]], tick_s=10**6))
    with pytest.raises(SeatTooLongError, match="300 bytes"):
        seats.act(ALICE, start["seat_id"], action(1, {"action": "WAIT", "reason": "x" * 300}))
    seats.take(ALICE, request(fixture_ids=[FIXTURES[0]], seat_s=7))
    with pytest.raises(OwnerLimitError, match="2 seats that still play"):
        seats.take(ALICE, request(fixture_ids=[FIXTURES[0]]))
    seats.take(BOB, request(fixture_ids=[FIXTURES[0]]))
    with pytest.raises(UnknownPackError):
        seats.take(BOB, request(pack_id="none"))
    with pytest.raises(UnknownFixtureError):
        seats.take(BOB, request(fixture_ids=[1]))

    assert (start["tick_s"], start["seat_s"]) == (20, 50)
    assert seats.act(ALICE, start["seat_id"], action(1))["answered"]["tick"] == 1
    application.close()


def test_names_of_open_seats_count_as_names():
    application = Application(caps=Caps(names=2))
    for name in ("a", "b", "a"):
        application.seats.take(ALICE, request(agent_id=name))

    with pytest.raises(OwnerLimitError, match="another"):
        application.seats.take(ALICE, request(agent_id="c"))
    application.close()


def test_a_group_commit_that_fails_is_tried_item_by_item():
    committed, calls = [], count()

    def commit(items):
        next(calls)
        if 3 in items:
            raise RuntimeError("three")
        committed.extend(items)
        return [ValueError("two") if one == 2 else one * 10 for one in items]

    group = GroupCommit(commit)
    with ThreadPoolExecutor(8) as pool:
        futures = list(pool.map(group.submit, range(8)))
    outcomes = [future.exception() or future.result() for future in futures]
    group.stop()
    group.stop()

    assert sorted(committed) == [0, 1, 2, 4, 5, 6, 7]
    assert [repr(one) for one in outcomes if isinstance(one, Exception)] == ["ValueError('two')", "RuntimeError('three')"]
    assert [one for one in outcomes if not isinstance(one, Exception)] == [0, 10, 40, 50, 60, 70]


def test_what_a_turn_of_a_loop_answers_is_committed_together_and_wakes_the_loop_once(monkeypatch):
    batches, wakes = [], []

    def commit(items):
        batches.append(list(items))
        return [ValueError("two") if one == 2 else one * 10 for one in items]

    async def answers(group):
        loop = asyncio.get_running_loop()
        wake = loop.call_soon_threadsafe
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *call: (wakes.append(call), wake(*call)))
        waiting = [group.answer(one) for one in range(5)]
        waiting[4].cancel()
        return await asyncio.gather(*waiting, return_exceptions=True)

    group = GroupCommit(commit)
    first, second = asyncio.run(answers(group)), asyncio.run(answers(group))
    group.stop()

    for outcomes in (first, second):
        assert [repr(one) for one in outcomes] == ["0", "10", "ValueError('two')", "30", "CancelledError('')"]
    assert batches == 2 * [[0, 1, 2, 3, 4]]
    assert len(wakes) == 2


def test_a_seat_goes_on_in_another_process_from_what_the_store_says(database_url):
    first = Application(database_url)
    start = first.seats.take(ALICE, request(fixture_ids=[FIXTURES[0]]))
    before = answered(first, ALICE, start, 7)
    first.close()

    second = Application(database_url)
    found = second.seats.seat(ALICE, start["seat_id"])
    finished(second, ALICE, start | {"next": found["next"]})

    assert found["next"] == before["next"]
    assert second.seats.seat(ALICE, start["seat_id"])["status"] == "sealed"
    second.close()


def test_rows_of_seats_say_that_agents_answered_from_elsewhere(in_memory):
    play_favourite(in_memory)

    [row] = in_memory.leaderboard.rows()["rows"]

    assert (row["causality"], row["knowledge"], row["hindsight_possible"]) == ("asked", "history", True)


def test_every_seat_counts_as_a_commitment_over_its_pack(signing):
    for _ in range(2):
        signing.seats.withdraw(ALICE, signing.seats.take(ALICE, request())["seat_id"])
    start = play_favourite(signing)

    part = parsed(read_bundle(signing.runs.bundle(start["run_id"]))["log.json"])

    assert signing.seats.taken(start["run_id"]) == {"over_pack": 3, "abandoned": 2, "of_owner": 3, "packs": 1}
    assert signing.seats.taken("run_none") is None
    assert part["claim"] == {"earlier": 2, "later": 0, "abandoned": 2, "unknown_pack": 0}
    assert signing.principals.belongings(ALICE)["runs"] == {"committed": 3, "sealed": 1, "abandoned": 2}
