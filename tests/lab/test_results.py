import re

import pytest

import clvlab as cl


@pytest.fixture(scope="module")
def bt():
    return cl.backtest("starter", agent="cumulative-drift")


def test_every_result_prints_one_line_with_a_next_step(bt):
    for result in (cl.open_pack("starter"), bt, bt.run, bt.run.verify()):
        assert "\n" not in repr(result)
        assert "next:" in repr(result)


def test_every_result_shows_itself_without_requests_or_scripts(bt):
    for result in (cl.open_pack("starter"), bt, bt.report, bt.run, bt.run.verify()):
        shown = result._repr_html_()
        assert not re.search(r"https?://|<script|src=|url\(", shown)
        assert shown.count("<table") == shown.count("</table>")


def test_a_run_is_saved_and_opened_again(bt, tmp_path):
    path = bt.run.save(tmp_path)

    opened = cl.open_run(path)

    assert opened.verify().passed
    assert opened.evidence_hash == bt.run.evidence_hash
    assert opened.decision(1)["clv_bps"] == bt.scores["clv_bps"][0]


def test_a_backtest_takes_a_window_and_fixtures():
    window = cl.Window("w", "manual_stop", market_allowlist=("OVERUNDER_PARTICIPANT_GOALS||line=1.5",))

    bt = cl.backtest("starter", fixtures=[90000000], window=window)

    assert bt.report["close_kinds"] == {"stop": 1}
    assert bt.report["n_fixtures"] == 1


def test_a_failed_verification_names_its_check(bt):
    run = type(bt.run)(bt.run.source.__class__(bt.run.run_id, bt.run.source.events, b"", bt.run.source.manifest))

    verdict = run.verify()

    assert verdict.verified
    assert not verdict.passed
    assert "metrics_recomputed" in repr(verdict)
    assert 'class="fail"' in verdict._repr_html_()


def test_anchored_run_is_pending_where_no_chain_is_asked(tmp_path):
    from clvlab.anchor.records import AnchorRecord, FolderRecords
    from clvlab.lab import open_run
    from clvlab.store.folder import write_run
    from tests.factories import make_sealed_run

    run = make_sealed_run()
    folder = write_run(run, tmp_path)
    FolderRecords(folder).put(
        AnchorRecord(run.run_id, run.manifest_hash, "localnet", "G", "S", "anchored", "signature"), replaces=None
    )

    checks = open_run(folder).verify().checks

    assert (checks["anchor"], checks["manifest_bound"]) == ("pending", "pass")
