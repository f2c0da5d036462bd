"""The grader against one of plain loops, over bets of every kind, sound and bad."""

import csv
import io
import random
from collections import Counter

import polars as pl
import pytest

from clvlab.arena.packs import open_pack
from clvlab.bets.grades import plan_grading
from clvlab.bets.record import BetsFormat
from clvlab.proof.evidence import read_evidence
from clvlab.runs.execute import perform
from tests.arena.bets.plain import ZONE, Odds, graded, random_bets, written
from tests.length import length


@pytest.fixture(scope="module")
def pack():
    return open_pack("starter")


@pytest.fixture(scope="module")
def odds(pack):
    return Odds.of(pack)


def file_of(rows, folder, draw):
    text, delimiter = io.StringIO(), draw.choice(",;\t")
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    path = folder / "bets.csv"
    path.write_bytes(text.getvalue().encode(draw.choice(["utf-8", "utf-8-sig", "utf-16"])))
    return path


@pytest.mark.parametrize("seed", range(length(4, 60)))
def test_every_row_is_graded_as_a_plain_loop_grades_it(pack, odds, seed, tmp_path):
    draw = random.Random(seed)
    truths = random_bets(odds, length(150, 600), draw)
    rows = written(truths, odds, draw)
    bets = pl.DataFrame(rows) if seed % 3 == 0 else file_of(rows, tmp_path, draw)

    grading = plan_grading(bets, pack, BetsFormat(time_zone=ZONE))
    done = perform(grading.spec)
    found = grading.rows(done).frame

    said, stakes = graded(truths, odds)
    ours = [
        (
            row["unmatched"], row["reason"], row["clv_bps"], row["edge_bps"], row["edge_own_price_bps"], row["stake_cents"],
            row["flags"],
        )
        for row in found.iter_rows(named=True)
    ]  # fmt: skip
    theirs = [
        (
            row["unmatched"], row.get("reason"), row.get("clv"), row.get("edge"), row.get("own"),
            None if row["unmatched"] == "stake_unreadable" else truth.cents, row["flags"],
        )
        for row, truth in zip(said, truths, strict=True)
    ]  # fmt: skip
    assert ours == theirs
    sealed = read_evidence(done.sealed.events).decisions
    keys = sealed.select("fixture_id", "tick_seq", "market_key", "side").rows()
    assert dict(zip(keys, sealed["stake"].to_list(), strict=True)) == stakes
    assert done.verification.passed
    assert done.report["policy"]["refused"].keys() <= {"prob_out_of_range"}  # of suspended markets, and of nothing else
    assert len(Counter(row["unmatched"] for row in said)) > 7
