"""The chain of a seat: its entries in the log, and what judges of a bundle say of chains that were changed."""

from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from clvlab.arena.application import Application
from clvlab.arena.seats import job
from clvlab.arena.seats.requests import SeatCompetitionRequest, SeatRequest
from clvlab.errors import EvidenceError, LogConflictError
from clvlab.log.bundles import Trust, judge
from clvlab.log.entries import SeatEntry, read_entry
from clvlab.log.log import abandon, commit, note_seat, seat_entries
from clvlab.log.seats import alias, blind_commitment, drawn, first_head, header, next_head, run_salt, tick_salt
from clvlab.packs.synthetic import Recipe, build
from clvlab.proof import clv_verify
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.proof.canonical import canonical, parsed, sha256
from clvlab.proof.verify import verify
from clvlab.store.runlog import RunLog
from tests.arena.seats import FIXTURES, answered, finished, request, signed
from tests.factories import ALICE
from tests.log.test_audit import PACK, audited, committed, newer, sealed
from tests.logs import run_of as run_named

HEAD, OTHER = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def seat(name, index, ticks, head=HEAD, **changed):
    entry = {"kind": "SEAT", "schema": "clvlab-log/8", "ticks": ticks, "head": head, "ts_ms": 1}
    return entry | {"run_id": run_named(name), "commit_index": index} | changed


def bundle_of(application, wanted):
    start = application.seats.take(ALICE, wanted)
    answer = answered(application, ALICE, start, 40)
    finished(application, ALICE, start | {"next": answer["next"]})
    if wanted.blind == "held-back":
        application.seats.held.release("vault")
    return read_bundle(application.runs.bundle(start["run_id"]))


@cache
def bundles():
    """Parts of bundles of seats of each blindness and of one in a competition, and the keys of their log."""
    application = Application(log_key=signed())
    found = {}
    with TemporaryDirectory() as scratch:
        build(Recipe(seed=977, fixtures=2, messages=60), Path(scratch) / "vault")
        application.seats.held.hold_back(Path(scratch) / "vault")
        rules = SeatCompetitionRequest(name="Spring", pack_id="starter")
        competition = application.seat_competitions.create(ALICE, rules)["competition_id"]
        requests = {
            "aliased": request(fixture_ids=[FIXTURES[0]]),
            "open": request(blind="open", fixture_ids=[FIXTURES[0]]),
            "held-back": request(blind="held-back", pack_id="vault", fixture_ids=None),
            "competing": SeatRequest(agent_id="Favourite", competition_id=competition),
        }
        for name, wanted in requests.items():
            found[name] = bundle_of(application, wanted)
    keys = {"logs": [str(application.log.signer.verifier)]}
    application.close()
    return found, keys


def packed(parts):
    listed = [{"name": name, "sha256": sha256(content), "size": len(content)} for name, content in parts.items()]
    return canonical({"parts": listed, "schema": "clvlab-bundle/1"}) + b"\n" + b"".join(parts.values())


def verdicts(parts, tmp_path, *, trusted=True):
    """What the package and the stand-alone file say of the seat in a bundle: pass, fail, or nothing."""
    _, keys = bundles()
    trust = Trust(**keys) if trusted else Trust()
    ours = judge(parts, verify(run_of(parts)), trust)["seat"].verdict.value
    (tmp_path / "run.clv").write_bytes(packed(parts))
    theirs = clv_verify.verify(tmp_path / "run.clv", keys if trusted else None)
    fault = theirs["checks"].get("seat", "")
    return ours, "not_applicable" if fault == "" else "fail" if fault else "pass"


def changed_part(blind, change):
    parts, part = dict(bundles()[0][blind]), deepcopy(parsed(bundles()[0][blind]["seat.json"]))
    change(part)
    return parts | {"seat.json": canonical(part)}


def rehashed(part):
    """Make the heads of a changed chain follow from it again."""
    head = first_head(part["header"])
    for tick in part["ticks"]:
        head = tick["head"] = next_head(head, tick["tick"], tick["decisions"], missed=tick["missed"])


def first_decision(part):
    return next(tick["decisions"][0] for tick in part["ticks"] if tick["decisions"])


def without_a_decision(part):
    next(tick for tick in part["ticks"] if tick["decisions"])["decisions"] = []
    rehashed(part)


def with_another_stake(part):
    first_decision(part)["stake"] += 1
    rehashed(part)


def with_another_side(part):
    first_decision(part)["side"] = "s-0000000000000000"
    rehashed(part)


def with_a_tick_less(part):
    del part["ticks"][-1]


def with_a_tick_more(part):
    part["ticks"].append({"tick": HEAD, "decisions": [], "missed": False, "head": HEAD})
    rehashed(part)


def with_decisions_swapped(part):
    one, *others = [tick for tick in part["ticks"] if tick["decisions"]]
    other = next(tick for tick in others if tick["decisions"] != one["decisions"])
    one["decisions"], other["decisions"] = other["decisions"], one["decisions"]
    rehashed(part)


def with_another_secret(part):
    part["secret"] = "0" * 64


def with_another_blindness(part):
    part["blind"] = "open" if part["blind"] == "aliased" else "aliased"


def without_held(part):
    part["blind"] = "aliased"
    part.pop("held", None)


CONTRADICTIONS = [
    without_a_decision, with_another_stake, with_another_side, with_decisions_swapped, with_another_secret,
    with_another_blindness,
    lambda part: part["ticks"][3].update(head=OTHER),
    lambda part: part["ticks"][3].update(missed=1),
    lambda part: part["ticks"][3].update(more=1),
    lambda part: part["header"].update(run_id="run_other"),
    lambda part: part["header"].update(seat="seat_other"),
    lambda part: part["header"].update(agent_id="other"),
    lambda part: part.update(schema="clvlab-seat-chain/2"),
    lambda part: part.update(secret="xyz"),
    lambda part: part.update(secret="G" * 64),
    lambda part: first_decision(part).update(action="LAY"),
    lambda part: first_decision(part).update(stake="5"),
    lambda part: first_decision(part).update(confidence="likely"),
    lambda part: part.pop("entries"),
]  # fmt: skip
OF_THE_LOG = [
    with_a_tick_less, with_a_tick_more,
    lambda part: part["entries"].clear(),
    lambda part: part["entries"].pop(0),
    lambda part: part["entries"].pop(),
    lambda part: part["entries"].reverse(),
    lambda part: part["entries"][0].update(index=part["entries"][0]["index"] + 1),
    lambda part: part["entries"][0]["proof"].pop(),
    lambda part: part["entries"][1].update(entry=part["entries"][1]["entry"].replace('"ticks":', '"ticks":1')),
]  # fmt: skip


@pytest.mark.parametrize("blind", ["aliased", "open", "held-back", "competing"])
def test_the_chain_of_a_finished_seat_passes_both_judges(blind, tmp_path):
    parts = bundles()[0][blind]

    assert verdicts(parts, tmp_path) == ("pass", "pass")
    assert verdicts(parts, tmp_path, trusted=False) == ("not_applicable", "not_applicable")
    assert sum(bool(tick["decisions"]) for tick in parsed(parts["seat.json"])["ticks"]) >= 8


@pytest.mark.parametrize("blind", ["aliased", "open", "held-back"])
@pytest.mark.parametrize("number", range(len(CONTRADICTIONS)))
def test_a_chain_that_contradicts_the_evidence_fails_whomever_one_trusts(blind, number, tmp_path):
    parts = changed_part(blind, CONTRADICTIONS[number])

    assert verdicts(parts, tmp_path) == ("fail", "fail")
    assert verdicts(parts, tmp_path, trusted=False) == ("fail", "fail")


OF_THE_PACK = [
    lambda part: part["held"].clear(),
    lambda part: part["held"].pop(0),
    lambda part: part["held"].reverse(),
    lambda part: part["held"].append(part["held"][0]),
    lambda part: part["held"].insert(1, part["held"][0]),
    lambda part: part.update(held=part["entries"]),
    lambda part: part["held"][0].update(index=part["held"][0]["index"] + 1),
    lambda part: part["held"][0]["proof"].pop(),
    lambda part: part["held"][0].update(entry=part["held"][0]["entry"].replace('"fixtures":2', '"fixtures":3')),
    lambda part: part["held"][1].update(entry=part["held"][1]["entry"].replace('"held_index":0', '"held_index":1')),
]


@pytest.mark.parametrize("number", range(len(OF_THE_PACK)))
def test_a_pack_that_the_log_does_not_hold_back_fails_by_a_trusted_log(number, tmp_path):
    parts = changed_part("held-back", OF_THE_PACK[number])

    assert verdicts(parts, tmp_path) == ("fail", "fail")
    assert verdicts(parts, tmp_path, trusted=False) == ("not_applicable", "not_applicable")


@pytest.mark.parametrize("change", [without_held, lambda part: part.pop("held"), lambda part: part.update(held=1)])
def test_a_held_back_seat_must_name_who_held_its_pack_back(change, tmp_path):
    parts = changed_part("held-back", change)

    assert verdicts(parts, tmp_path) == ("fail", "fail")
    assert verdicts(parts, tmp_path, trusted=False) == ("fail", "fail")


def test_another_seat_names_no_pack_that_was_held_back(tmp_path):
    held = parsed(bundles()[0]["held-back"]["seat.json"])["held"]

    assert verdicts(changed_part("aliased", lambda part: part.update(held=held)), tmp_path) == ("fail", "fail")


MISSHAPEN = [
    lambda part: part.update(secret=part["secret"].upper()),
    lambda part: part.update(secret=f" {part['secret'][1:]}"),
    lambda part: part["held"][0].update(index=-1),
    lambda part: part["held"][0].update(proof=["x"]),
    lambda part: part["entries"].reverse(),
    lambda part: part["entries"].pop(),
    lambda part: part["entries"].clear(),
]


@pytest.mark.parametrize("number", range(len(MISSHAPEN)))
def test_a_part_of_another_form_or_with_other_entries_fails_whomever_one_trusts(number, tmp_path):
    parts = changed_part("held-back", MISSHAPEN[number])

    assert verdicts(parts, tmp_path) == ("fail", "fail")
    assert verdicts(parts, tmp_path, trusted=False) == ("fail", "fail")


@pytest.mark.parametrize("number", range(len(OF_THE_LOG)))
def test_a_chain_that_the_log_does_not_hold_fails_by_a_trusted_log(number, tmp_path):
    assert verdicts(changed_part("aliased", OF_THE_LOG[number]), tmp_path) == ("fail", "fail")


def test_a_seat_of_a_competition_seals_its_name():
    configs = {name: verify(run_of(parts)).started["agents"][0]["config"] for name, parts in bundles()[0].items()}

    assert {name: "competition" in config for name, config in configs.items()} == {
        "aliased": False, "open": False, "held-back": False, "competing": True,
    }  # fmt: skip
    assert configs["competing"]["competition"].startswith("seats_")


@pytest.mark.parametrize("name", [None, 7, ["seats_1"]])
def test_a_competition_that_is_named_by_no_text_fails(name, tmp_path, monkeypatch):
    sealed_config = job.sealed_config
    monkeypatch.setattr(job, "sealed_config", lambda *of: sealed_config(*of) | {"competition": name})
    application = Application(log_key=signed())

    parts = bundle_of(application, request(fixture_ids=[FIXTURES[0]]))

    application.close()
    assert verdicts(parts, tmp_path, trusted=False) == ("fail", "fail")


def test_the_chain_of_another_seat_fails(tmp_path):
    parts = dict(bundles()[0]["open"]) | {"seat.json": bundles()[0]["aliased"]["seat.json"]}

    assert verdicts(parts, tmp_path) == ("fail", "fail")


def test_a_required_seat_must_be_there(tmp_path):
    parts = {name: content for name, content in bundles()[0]["open"].items() if name != "seat.json"}
    (tmp_path / "run.clv").write_bytes(packed(parts))

    ours = judge(parts, verify(run_of(parts)), Trust(**bundles()[1]), ["seat"], without_witness=True)
    theirs = clv_verify.verify(tmp_path / "run.clv", bundles()[1], ["seat"], without_witness=True)

    assert ours["seat"].verdict.value == "fail"
    assert theirs["checks"]["seat"] == "the proof is not here"


def test_a_required_seat_needs_a_witness(tmp_path):
    parts, keys = bundles()[0]["open"], bundles()[1]
    (tmp_path / "run.clv").write_bytes(packed(parts))

    assert judge(parts, verify(run_of(parts)), Trust(**keys), ["seat"])["seat"].verdict.value == "fail"
    assert "witness" in clv_verify.verify(tmp_path / "run.clv", keys, ["seat"])["checks"]["seat"]


def test_what_a_secret_gives_never_changes():
    secret = bytes(range(32))
    names = [("fixture", 7), ("market", 7, "OU|"), ("side", 7, "OU|", "over")]

    assert blind_commitment(secret) == "sha256:ebee9e8bc3949dad8827767232b47607c3f50503c6438045d0f25cadcc1bc724"
    assert alias(secret, *names[2]) == "s-5f7d1108595c1333"
    assert [alias(secret, *name) for name in names] == [clv_verify._alias(secret, *name) for name in names]
    assert (tick_salt(secret, 1)[:16], run_salt(secret)[:16], drawn(secret, 1000)) == (
        "49f2105032588bec", "41ffd6ab450356b8", 559,
    )  # fmt: skip
    assert first_head(header("seat_1", "a", "run_1", secret)) == sha256(
        canonical(
            {"agent_id": "a", "blind_commitment": blind_commitment(secret), "run_id": "run_1"}
            | {"schema": "clvlab-seat/1", "seat": "seat_1"}
        )
    )


def test_the_log_takes_heads_in_order_under_an_open_commitment(database_url):
    from clvlab.store.database import Database

    log = RunLog(Database(database_url))
    with log.write() as rows:
        with pytest.raises(LogConflictError, match="no open commitment"):
            note_seat(rows, "run_1", 0, HEAD, 1)
        index = commit(rows, "run_1", "o", OTHER, None, 1)
        first = note_seat(rows, "run_1", 0, HEAD, 2)
        assert note_seat(rows, "run_1", 0, HEAD, 3) == first
        note_seat(rows, "run_1", 5, OTHER, 4)
        for ticks, head in ((5, HEAD), (4, OTHER), (0, HEAD)):
            with pytest.raises(LogConflictError, match="in the log at tick 5"):
                note_seat(rows, "run_1", ticks, head, 5)
        abandon(rows, "run_1", "failed", 6)
        with pytest.raises(LogConflictError, match="no open commitment"):
            note_seat(rows, "run_1", 6, HEAD, 7)
        known = [(index, read_entry(rows.entry(index))) for index in seat_entries(rows, "run_1")]

    assert known == [(1, SeatEntry("run_1", index, 0, HEAD)), (2, SeatEntry("run_1", index, 5, OTHER))]


@pytest.mark.parametrize(
    ("entries", "index", "rule"),
    [
        ([seat("a", 0, 0)], 0, "not a commitment"),
        ([committed("a"), seat("b", 0, 0)], 1, "not a commitment"),
        ([committed("a"), seat("a", 0, 3)], 1, "must be of 0 ticks"),
        ([committed("a"), seat("a", 0, 0), seat("a", 0, 0)], 2, "must have more ticks"),
        ([committed("a"), seat("a", 0, 0), seat("a", 0, 9), seat("a", 0, 8)], 3, "must have more ticks"),
        ([newer(committed("a")), newer(sealed("a", 0)), seat("a", 0, 0)], 2, "precede the end"),
        ([committed("a"), seat("a", 0, 0, head="sha256:1")], 1, "names no head"),
        ([committed("a"), seat("a", 0, 0, schema="clvlab-log/7")], 1, "not well-formed"),
        ([committed("a"), seat("a", 0, 0) | {"owner": "o"}], 1, "not well-formed"),
    ],
)
def test_an_audit_finds_entries_of_seats_that_no_writer_would_have_written(entries, index, rule):
    [broken] = audited(*entries).broken

    assert broken.index == index
    assert rule in broken.rule


def test_an_audit_takes_the_entries_of_a_seat():
    found = audited(newer(committed("a")), seat("a", 0, 0), seat("a", 0, 9, OTHER), newer(sealed("a", 0)))

    assert found.broken == []
    assert read_entry(canonical(seat("a", 0, 9, OTHER))) == SeatEntry(run_named("a"), 0, 9, OTHER)
    with pytest.raises(EvidenceError, match="other keys"):
        read_entry(canonical(seat("a", 0, -1)))


def held(content_hash=PACK, **changed):
    entry = {"kind": "HELD", "schema": "clvlab-log/9", "content_hash": content_hash, "fixtures": 3, "fixtures_hash": HEAD}
    return entry | {"ts_ms": 1} | changed


def released(index, content_hash=PACK, **changed):
    entry = {"kind": "RELEASED", "schema": "clvlab-log/9", "content_hash": content_hash, "held_index": index, "ts_ms": 1}
    return entry | changed


@pytest.mark.parametrize(
    ("entries", "index", "rule"),
    [
        ([committed("a"), held()], 1, "over which an earlier entry commits to a run"),
        ([held(), held()], 1, "again, which is entry 0"),
        ([held(fixtures_hash="sha256:1")], 0, "by no hash"),
        ([held("sha256:1")], 0, "by no hash"),
        ([held(fixtures=-1)], 0, "not well-formed"),
        ([held() | {"salt": "1"}], 0, "not well-formed"),
        ([released(0)], 0, "not the earlier entry that holds it back"),
        ([held(), released(1)], 1, "not the earlier entry that holds it back"),
        ([held(), released(0, HEAD)], 1, "not the earlier entry that holds it back"),
        ([held(), released(0), released(0)], 2, "which entry 1 did"),
        ([held(), newer(committed("a")), newer(sealed("a", 1))], 2, "no seat's, and is over the pack that entry 0 holds back"),
    ],
)
def test_an_audit_finds_entries_of_held_packs_that_no_writer_would_have_written(entries, index, rule):
    [broken] = audited(*entries).broken

    assert broken.index == index
    assert rule in broken.rule


def test_an_audit_takes_seats_over_a_pack_that_is_held_back_and_other_runs_after_its_release():
    of_seat = [newer(committed("a")), seat("a", 1, 0), seat("a", 1, 9, OTHER), newer(sealed("a", 1))]

    found = audited(held(), *of_seat, released(0), newer(committed("b")), newer(sealed("b", 6)), held(OTHER))

    assert found.broken == []
    assert [(one.index, one.released) for one in found.held()] == [(0, 5), (8, None)]
