import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Text, select, type_coerce

from clvlab.arena.application import Application
from clvlab.arena.packs import open_pack
from clvlab.arena.report_requests import BacktestRunRequest
from clvlab.arena.run_store import KeptRuns
from clvlab.errors import PageError, UnknownBacktestError, UnknownFixtureError, UnknownPackError, UnknownRunError, WindowError
from clvlab.law.closing import Window
from clvlab.runs.execute import Commitment, perform
from clvlab.runs.spec import backtest_spec
from clvlab.store.tables import reports
from tests.factories import kept_run
from tests.tampering import rewrite

FIELDS = {"pack_id": "starter", "fixture_id": 90000001, "window_id": "w1", "market_allowlist": [""]}


def asked(application, **fields):
    return application.backtests.run(BacktestRunRequest(**FIELDS | fields))


def test_a_backtest_is_stored_with_its_run_and_is_what_the_library_gives(application):
    answer = asked(application)

    report = application.backtests.report(answer["backtest_id"])
    plan = backtest_spec(open_pack("starter"), fixture_ids=[90000001], window=Window("w1"))
    own = perform(plan, Commitment(plan.run_id, 0)).report

    assert answer == {"backtest_id": report["backtest_id"], "mode_label": "Backtest", "run_id": report["run_id"]}
    assert report == own
    assert report["real_executable_edge_bps"] is None
    assert application.runs.verify(answer["run_id"])["evidence_hash"] == report["evidence_hash"]
    assert application.runs.card(answer["run_id"])["run"]["kind"] == "backtest"


def test_asking_twice_gives_the_same_and_asking_differently_another(application):
    answers = [
        asked(application), asked(application), asked(application, window_id="w2"), asked(application, min_clv_horizon_s=0),
        asked(application, market_allowlist=["1X2"]), asked(application, fixture_id=90000002),
        asked(application, end_rule="fixed_duration", duration_s=600), asked(application, end_rule="manual_stop"),
    ]  # fmt: skip

    assert answers[0] == answers[1]
    assert len({answer["backtest_id"] for answer in answers}) == len(answers) - 1
    assert len(application.backtests.page()["backtests"]) == len(answers) - 1


def test_concurrent_identical_requests_give_one_report(application):
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: asked(application), range(24)))

    assert len({answer["backtest_id"] for answer in answers}) == 1
    assert application.jobs.counts() == {"queued": 0, "leased": 0, "done": 1, "failed": 0}
    assert application.leaderboard.rows()["rows"][0]["runs"] == 1


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"pack_id": "absent", "fixture_id": 1, "end_rule": "never"}, UnknownPackError),
        ({"pack_id": "../starter"}, UnknownPackError),
        ({"fixture_id": 1, "end_rule": "never"}, UnknownFixtureError),
        ({"end_rule": "never"}, WindowError),
        ({"end_rule": "fixed_duration"}, WindowError),
        ({"duration_s": 60}, WindowError),
        ({"end_rule": "fixed_duration", "duration_s": 0}, WindowError),
        ({"min_clv_horizon_s": -1}, WindowError),
        ({"window_id": ""}, WindowError),
        ({"window_id": "w" * 201}, WindowError),
    ],
)
def test_what_can_not_be_replayed_is_refused_in_order_and_not_stored(in_memory, fields, error):
    with pytest.raises(error):
        asked(in_memory, **fields)

    assert in_memory.runs.page()["runs"] == []


@pytest.mark.parametrize(
    "fields", [{"fixture_id": True}, {"fixture_id": "90000001"}, {"fixture_id": 9.0}, {"pack_dir": "/"}, {"window_id": 1}]
)
def test_bodies_of_the_wrong_form_are_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        BacktestRunRequest(**FIELDS | fields)


def test_an_unknown_report_is_said_to_be(in_memory):
    with pytest.raises(UnknownBacktestError, match="bt_absent"):
        in_memory.backtests.report("bt_absent")


def test_lists_page_through_everything_newest_first(application):
    ids = [asked(application, window_id=f"w{number}")["backtest_id"] for number in range(7)]

    found, cursor = [], None
    while True:
        page = application.backtests.page(cursor, limit=3)
        found += [row["backtest_id"] for row in page["backtests"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert sorted(found) == sorted(ids)
    times = [row["created_ts_ms"] for row in application.backtests.page()["backtests"]]
    assert times == sorted(times, reverse=True)
    assert len(application.runs.page(limit=5)["runs"]) == 5


@pytest.mark.parametrize(("cursor", "limit"), [(None, 0), (None, 201), ("x", 1), ("1", 1), ("-1.a", 1), ("9" * 30 + ".a", 1)])
def test_a_page_that_was_never_given_is_refused(in_memory, cursor, limit):
    with pytest.raises(PageError):
        in_memory.backtests.page(cursor, limit)


def test_tear_sheet_shows_only_what_was_sealed(application):
    answer = asked(application)
    with application._database.write() as connection:
        rewrite(connection, answer["run_id"], lambda lines: lines.replace(b'"stake":100', b'"stake":900', 1), part="events")

    with pytest.raises(UnknownRunError, match="not stored as it was sealed"):
        application.backtests.tear_sheet(answer["backtest_id"])


def test_backtest_that_a_laboratory_sealed_in_the_same_database_has_a_report_too(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    plan = backtest_spec(open_pack("starter"), fixture_ids=[90000001], window=Window("w1"))
    kept = KeptRuns(url)
    run_id = kept_run(kept, plan).run_id
    kept.close()
    application = Application(url)

    answer = asked(application)

    assert answer["run_id"] == run_id
    assert application.backtests.look(answer["backtest_id"])["run_id"] == run_id
    assert len(application.backtests.page()["backtests"]) == 1
    assert application.leaderboard.rows()["rows"][0]["runs"] == 1
    application.close()


def replace_stored(application, backtest_id, change):
    text = type_coerce(reports.c.report, Text)
    with application.backtests.database.write() as connection:
        found = connection.execute(select(text).where(reports.c.backtest_id == backtest_id)).scalar_one()
        changed = reports.update().where(reports.c.backtest_id == backtest_id)
        connection.execute(changed.values(report=type_coerce(change(found), Text)))
        return found


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"fixture_id":90000001', '"fixture_id":90000002'),
        lambda text: text[:-10],
        lambda _text: "",
        lambda _text: "[]",
        lambda _text: '{"report":null,"sha256":null}',
    ],
)
def test_a_report_that_is_not_as_it_was_stored_is_made_again_of_its_run(application, change):
    backtest_id = asked(application)["backtest_id"]
    expected = application.backtests.report(backtest_id)
    text = replace_stored(application, backtest_id, change)
    assert change(text) != text

    with pytest.warns(UserWarning, match=f"report of {backtest_id} is damaged in the store"):
        assert application.backtests.report(backtest_id) == expected
    assert application.backtests.report(backtest_id) == expected


def test_the_report_of_another_backtest_is_made_again_of_its_run(application):
    own, other = (asked(application, window_id=name)["backtest_id"] for name in ("w1", "w2"))
    expected = application.backtests.report(own)
    another = replace_stored(application, other, lambda text: text)
    replace_stored(application, own, lambda _: another)

    with pytest.warns(UserWarning, match=f"report of {own} is damaged in the store"):
        assert application.backtests.report(own) == expected


def test_a_report_of_before_there_were_digests_is_made_again_and_nothing_said(application):
    backtest_id = asked(application)["backtest_id"]
    expected = application.backtests.report(backtest_id)
    replace_stored(application, backtest_id, lambda _: json.dumps({**expected, "fixture_id": 90000002}))

    assert application.backtests.report(backtest_id) == expected
