from dataclasses import replace

import pytest
from sqlalchemy import text, update

from clvlab.arena.report_requests import BacktestRunRequest
from clvlab.arena.runs.in_database import check_records
from clvlab.errors import RunConflictError, UnknownDecisionError, UnknownRunError
from clvlab.proof.anchor import Anchor
from clvlab.proof.seal import SealedRun
from clvlab.runs.inspector import inspect_decision
from clvlab.store import anchors, runs, standings
from clvlab.store.database import Database
from clvlab.store.tables import receipts, run_chunks
from clvlab.store.tables import runs as run_table
from tests.factories import make_sealed_run
from tests.tampering import rewrite

REQUEST = {"pack_id": "season", "fixture_id": 90000001, "window_id": "w1", "market_allowlist": [""]}


@pytest.fixture
def run_id(application):
    return application.backtests.run(BacktestRunRequest(**REQUEST))["run_id"]


@pytest.fixture
def database(database_url):
    opened = Database(database_url)
    yield opened
    opened.close()


def queued(connection, run_id):
    row = {
        "run_id": run_id, "kind": "backtest", "origin_id": None, "source_mode": "replay", "mode_label": "Backtest",
        "lineage": {}, "owner": "o", "created_ts_ms": 0, "ranked": True,
    }  # fmt: skip
    return runs.add(connection, row)


def sealed(database, run, receipt_text=b""):
    with database.write() as connection:
        queued(connection, run.run_id)
        return runs.seal(connection, run, receipt_text, checks={}, metrics={}, ts_ms=1)


def change_events(application, run_id, old, new):
    """Change bytes of the evidence in the store."""
    with application._database.write() as connection:
        rewrite(connection, run_id, lambda lines: lines.replace(old, new, 1), part="events")


def test_a_card_has_the_seven_checks_and_no_metric_among_them(application, run_id):
    card = application.runs.card(run_id)

    assert len(card["checks"]) == 7
    assert card["metrics"]["agents"][0]["agent_id"] == "baseline"
    assert card["anchor"] == {"status": "not_anchored", "signature": None, "cluster": "devnet", "explorer_url": None}
    assert card["run"]["created_ts_ms"] <= card["run"]["sealed_ts_ms"]


def test_verifying_says_what_the_card_says_of_a_sound_run(application, run_id):
    fresh, card = application.runs.verify(run_id), application.runs.card(run_id)

    assert fresh["verified"]
    assert fresh["checks"] == card["checks"]
    assert fresh["metrics"] == card["metrics"]
    assert fresh["proof_card"] == card
    assert (fresh["evidence_hash"], fresh["manifest_hash"]) == (
        card["evidence"]["evidence_hash"],
        card["evidence"]["manifest_hash"],
    )


def test_verifying_finds_a_byte_changed_in_the_store_and_the_card_shows_it_from_then_on(application, run_id):
    sealed_ts_ms = application.runs.checks(run_id)["checked_ts_ms"]
    change_events(application, run_id, b'"type":"BACK"', b'"type":"WAIT"')
    before, was_final = application.runs.card_and_finality(run_id)

    fresh = application.runs.verify(run_id)

    assert not fresh["verified"]
    assert fresh["checks"]["evidence_integrity"] == "fail"
    card, is_final = application.runs.card_and_finality(run_id)
    newest = application.runs.checks(run_id)
    assert (before["checks"]["evidence_integrity"], was_final) == ("pass", True)
    assert card["check_details"] == fresh["proof_card"]["check_details"]
    assert card["run"] == fresh["proof_card"]["run"]
    assert not is_final
    assert (newest["checks"], newest["check_details"]) == (card["checks"], card["check_details"])
    assert newest["checked_ts_ms"] == card["run"]["updated_ts_ms"] >= sealed_ts_ms
    assert card["evidence"] == before["evidence"]


def test_a_card_keeps_its_sentences_when_another_version_words_the_same_verdicts_otherwise(application, run_id, monkeypatch):
    before = application.runs.card_and_finality(run_id)

    def reworded(checks):
        return {name: check | {"detail": f"Otherwise: {check['detail']}"} for name, check in check_records(checks).items()}

    monkeypatch.setattr("clvlab.arena.runs.runs.check_records", reworded)
    replace(application.runs, clock=lambda: before[0]["run"]["sealed_ts_ms"] + 60_000).verify(run_id)

    assert application.runs.card_and_finality(run_id) == before
    assert application.runs.checks(run_id)["checked_ts_ms"] == before[0]["run"]["sealed_ts_ms"] + 60_000


def test_a_card_stays_as_it_is_while_its_owner_commits_to_other_runs(application, run_id):
    before, standing = application.runs.card_and_finality(run_id), application.runs.log_standing(run_id)

    for number in range(3):
        application.backtests.run(BacktestRunRequest(**REQUEST | {"window_id": f"other {number}"}))
    application.runs.verify(run_id)

    after = application.runs.log_standing(run_id)
    assert before[1]
    assert application.runs.card_and_finality(run_id) == before
    assert (after["tree_size"], after["claim"]["later"]) == (standing["tree_size"] + 6, standing["claim"]["later"] + 3)
    assert {name: standing[name] for name in before[0]["log"]} == before[0]["log"]


@pytest.mark.parametrize(
    ("status", "age_ms", "final"),
    [
        ("not_anchored", 0, True),
        ("pending", 10**9, False),
        ("failed", 0, True),
        ("anchored", 3_599_999, False),
        ("anchored", 3_600_000, True),
    ],
)
def test_a_card_is_final_once_its_anchor_is_settled(application, run_id, status, age_ms, final):
    with application._database.write() as connection:
        anchors.set_anchor(connection, run_id, Anchor(status), 1000)
    stored = replace(application.runs, anchoring=replace(application.runs.anchoring, clock=lambda: 1000 + age_ms))

    assert stored.card_and_finality(run_id)[1] is final


def test_a_run_that_is_found_tampered_and_then_restored_fails_in_the_standings_only_meanwhile(application, run_id):
    failing = []
    for old, new in ((b'"BACK"', b'"WAIT"'), (b'"WAIT"', b'"BACK"')):
        change_events(application, run_id, old, new)
        application.runs.verify(run_id)
        application.runs.verify(run_id)
        with application._database.read() as connection:
            failing.append([row["failing_runs"] for row in standings.all_rows(connection)])

    assert failing == [[1], [0]]


def test_a_verification_that_finds_nothing_new_is_recorded_once_a_minute(run_id, application):
    now = application.runs.checks(run_id)["checked_ts_ms"]
    times = []
    for later_ms in (1, 59_999, 60_000, 60_001):
        stored = replace(application.runs, clock=lambda later_ms=later_ms: now + later_ms)
        stored.verify(run_id)
        times.append(stored.checks(run_id)["checked_ts_ms"] - now)

    assert times == [0, 0, 60_000, 60_000]


def test_a_manifest_that_is_lost_or_replaced_leaves_the_evidence_whole_and_unbound(application, run_id, subtests):
    for manifest in (None, b"{}", b"[]", b"\xff"):
        with subtests.test(manifest=manifest):
            with application._database.write() as connection:
                connection.execute(update(run_table).where(run_table.c.run_id == run_id).values(manifest=manifest))

            fresh = application.runs.verify(run_id)

            assert fresh["verified"]
            assert (fresh["checks"]["evidence_integrity"], fresh["checks"]["manifest_bound"]) == ("pass", "fail")


def test_run_forged_whole_in_the_store_is_held_against_the_hashes_recorded_at_its_seal(application, run_id):
    other = application.backtests.run(BacktestRunRequest(**REQUEST | {"window_id": "w2"}))["run_id"]
    recorded = application.runs.card(run_id)["evidence"]
    with application._database.write() as connection:
        forged = runs.sealed_run(connection, other)
        connection.execute(run_chunks.delete().where(run_chunks.c.run_id == run_id))
        connection.execute(update(run_chunks).where(run_chunks.c.run_id == other).values(run_id=run_id))
        connection.execute(update(run_table).where(run_table.c.run_id == run_id).values(manifest=forged.manifest))

    fresh = application.runs.verify(run_id)

    assert (fresh["verified"], fresh["evidence_hash"]) == (False, recorded["evidence_hash"])
    assert fresh["recomputed_evidence_hash"] == forged.evidence_hash
    assert (fresh["checks"]["evidence_integrity"], fresh["checks"]["manifest_bound"]) == ("fail", "fail")


def test_anchor_that_is_only_on_record_is_never_passed(application, run_id):
    with application._database.write() as connection:
        anchors.set_anchor(connection, run_id, Anchor("anchored", "forged", "mainnet", None), 1)

    assert application.runs.card(run_id)["checks"]["anchor"] == "pending"
    assert application.runs.verify(run_id)["checks"]["anchor"] == "pending"


def test_receipt_that_can_not_be_read_hides_no_other(application, run_id):
    with application._database.write() as connection:
        rewrite(connection, run_id, lambda lines: b"\xff[\n" + lines, receipts)

    shown = application.runs.receipts(run_id)["receipts"]

    assert shown[0] == {"unreadable": "\ufffd["}
    assert shown[1]["venue"] == "paper"
    assert application.runs.verify(run_id)["checks"]["policy_obeyed"] == "fail"


def test_receipts_are_apart_and_change_nothing_of_the_proof(application, run_id):
    before = application.runs.verify(run_id)
    assert application.runs.receipts(run_id)["non_scoring"] is True

    with application._database.write() as connection:
        connection.execute(receipts.delete())

    after = application.runs.verify(run_id)
    assert application.runs.receipts(run_id) is None
    assert (after["evidence_hash"], after["manifest_hash"], after["checks"]) == (
        before["evidence_hash"], before["manifest_hash"], before["checks"],
    )  # fmt: skip


def test_a_decision_reads_as_from_the_whole_run(application, run_id):
    whole = application.runs.sealed_run(run_id)
    count = whole.scores.count(b"\n")

    assert count > 3
    for seq in (1, 2, count):
        assert application.runs.inspect(run_id, seq) == inspect_decision(whole, seq)


def test_an_event_that_is_no_decision_is_unknown(application, run_id):
    closes = application.runs.sealed_run(run_id).scores.count(b"\n") + 1

    for number in (-1, 0, closes, 10**6, 2**62):
        with pytest.raises(UnknownDecisionError, match=str(number)):
            application.runs.inspect(run_id, number)


def test_unknown_runs_are_unknown_everywhere(in_memory):
    ask = in_memory.runs
    for question in (ask.card, ask.verify, ask.receipts, ask.sealed_run, lambda run_id: ask.inspect(run_id, 1)):
        with pytest.raises(UnknownRunError, match="run_absent"):
            question("run_absent")


def test_lines_are_found_across_chunks(database):
    lines = [b'{"seq":%d,"text":"%s"}' % (number, b"x" * (number % 700)) for number in range(3000)]
    text_of = b"".join(line + b"\n" for line in lines)
    run = make_sealed_run()
    long = SealedRun(run.run_id, text_of, text_of, run.manifest)
    sealed(database, long)

    with database.read() as connection:
        chunks = connection.execute(text("SELECT count(*) FROM run_chunks WHERE part = 'events'")).scalar_one()
        found = [runs.line(connection, run.run_id, runs.Part.EVENTS, number) for number in range(0, 3000, 97)]
        beyond = runs.line(connection, run.run_id, runs.Part.EVENTS, 3000)
        again = runs.sealed_run(connection, run.run_id)

    assert chunks > 5
    assert found == lines[::97]
    assert beyond is None
    assert (again.events, again.scores) == (text_of, text_of)


def test_sealing_the_same_bytes_again_is_nothing_and_other_bytes_a_conflict(database):
    run = make_sealed_run()
    other = SealedRun(run.run_id, run.events + b"x", run.scores, run.manifest + b" ")

    first, again = sealed(database, run), sealed(database, run)
    with pytest.raises(RunConflictError) as refused:
        sealed(database, other)

    assert (first, again) == (True, False)
    assert (refused.value.stored, refused.value.offered) == (run.manifest_hash, other.manifest_hash)
    with database.read() as connection:
        assert runs.sealed_run(connection, run.run_id) == SealedRun(run.run_id, run.events, run.scores, run.manifest)


def test_a_failed_run_is_queued_again_and_a_sealed_one_is_not(database):
    run = make_sealed_run()
    with database.write() as connection:
        fresh = queued(connection, run.run_id)
        twice = queued(connection, run.run_id)
        runs.mark(connection, run.run_id, runs.RunStatus.FAILED, "cause", ts_ms=1)
        revived = queued(connection, run.run_id)
    sealed(database, run)
    with database.write() as connection:
        runs.mark(connection, run.run_id, runs.RunStatus.FAILED, "too late", ts_ms=1)
        after = queued(connection, run.run_id)
        row = runs.row(connection, run.run_id)

    assert (fresh, twice, revived, after) == ("o", None, "o", None)
    assert (row["status"], row["cause"]) == ("sealed", None)
