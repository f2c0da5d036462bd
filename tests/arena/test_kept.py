import json
from dataclasses import replace

import polars as pl
import pytest

from clvlab.arena.packs import open_pack
from clvlab.arena.run_store import KeptRuns, trial_ids
from clvlab.errors import EvidenceError, LookaheadError, PackTamperedError
from clvlab.law.closing import Window
from clvlab.log.log import counts
from clvlab.runs.run import reopen
from clvlab.runs.spec import backtest_spec
from clvlab.store import plans
from clvlab.store.runlog import RunLog
from tests.agents.honest_agents import Ticking
from tests.factories import kept_run, performed

FIXTURES = [90000000, 90000001]


@pytest.fixture
def laboratory():
    made = KeptRuns(clock=lambda: 1_000)
    yield made
    made.close()


def perform(laboratory, strategy="baseline"):
    return kept_run(laboratory, backtest_spec(open_pack("starter"), strategy, fixture_ids=FIXTURES))


def log_of(laboratory):
    with RunLog(laboratory._database).read() as rows:
        return counts(rows)["laboratory"]


def test_a_run_is_committed_to_and_concluded_in_the_log(laboratory):
    done = perform(laboratory)

    found = log_of(laboratory)
    assert (found.committed, found.sealed, found.abandoned) == (1, 1, 0)
    assert done.sealed.commit_index == 0


def test_a_run_that_fails_is_abandoned_and_may_be_asked_for_again(laboratory, tmp_path):
    (tmp_path / "peek.py").write_text(
        "import clvlab as cl, polars as pl\n"
        "@cl.strategy\n"
        "def peek(ticks):\n"
        "    return ticks.filter(pl.col('prob_bps').shift(-1).over('series') > pl.col('prob_bps'))\n"
    )
    for _ in range(2):
        with pytest.raises(LookaheadError):
            perform(laboratory, f"{tmp_path / 'peek.py'}:peek")

    found = log_of(laboratory)
    assert (found.sealed, found.abandoned) == (0, 2)
    with laboratory._database.read() as connection:
        assert plans.of_pack(connection, open_pack("starter").content_hash) == set()


def test_a_stored_run_reopens_as_the_backtest_that_it_was(laboratory):
    done = perform(laboratory, "cumulative-drift")

    again = reopen(done.pack, laboratory.runs.sealed_run(done.sealed.run_id), laboratory.receipts(done.sealed.run_id))

    assert json.dumps(again.report) == json.dumps(done.report)  # key by key in one order
    assert again.scores.equals(done.scores)
    assert again.receipts == done.receipts
    assert again.evidence.closes.equals(done.evidence.closes.select(again.evidence.closes.columns))


def test_a_run_reopens_over_its_own_pack_only():
    done = performed(open_pack("starter"), "baseline", fixture_ids=FIXTURES)

    with pytest.raises(PackTamperedError, match=done.sealed.run_id):
        reopen(open_pack("season"), done.sealed)


def test_a_run_whose_pack_lies_elsewhere_now_is_reported_over_that():
    done = performed(open_pack("starter"), "baseline", fixture_ids=FIXTURES)
    report, elsewhere = done.report, replace(done.pack, files=replace(done.pack.files, verification="as it was read"))

    moved = done.moved(elsewhere)

    assert moved.report == {**report, "pack_verification": "as it was read"}
    assert moved.verification is done.verification


@pytest.mark.parametrize(
    "unreadable",
    [lambda lines: b"none\n", lambda lines: lines[:-1], lambda lines: lines.replace(b'"venue"', b'"place"', 1)],  # noqa: ARG005
)
def test_a_run_whose_receipts_cannot_be_read_is_not_reopened(unreadable):
    done = performed(open_pack("starter"), "baseline", fixture_ids=FIXTURES)

    with pytest.raises(EvidenceError):
        reopen(done.pack, done.sealed, unreadable(done.receipts))


def test_a_trial_is_what_shapes_scores():
    def trial(pack="starter", **asked):
        (found,) = trial_ids(backtest_spec(open_pack(pack), **asked))
        return found

    one = trial()

    assert trial(fixture_ids=list(open_pack("starter").fixture_ids)) == one
    others = [
        trial(params={"warmup_ticks": 1}),
        trial(window=Window(min_clv_horizon_s=1)),
        trial(fixture_ids=FIXTURES),
        trial("season"),
    ]
    assert pl.Series([one, *others]).is_unique().all()


def test_two_agents_whose_source_is_sealed_as_null_are_two_trials():
    def trial(side):
        agent = Ticking()
        agent.on_tick = lambda book: book.back(side)
        with pytest.warns(UserWarning, match="source of Ticking is sealed as null"):
            (found,) = trial_ids(backtest_spec(open_pack("starter"), agent))
        return found

    assert trial("part1") != trial("part2")
