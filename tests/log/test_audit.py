"""What an auditor says of entries that no writer by the rules would have written."""

import pytest

from clvlab.log.audit import Auditor, Falls
from clvlab.log.entries import read_entry
from clvlab.log.log import Claim, RunCounts, abandon, commit, conclude
from clvlab.proof import merkle
from clvlab.proof.canonical import canonical
from clvlab.store.runlog import RunLog
from tests.logs import hashed, run_of

PACK, OTHER, MANIFEST = "sha256:" + "c" * 64, "sha256:" + "d" * 64, "sha256:" + "e" * 64


def committed(name, owner="o", **changed):
    entry = {"kind": "COMMIT", "schema": "clvlab-log/2", "inputs_hash": hashed(name), "content_hash": PACK, "ts_ms": 1}
    return entry | {"run_id": run_of(name), "owner": owner} | changed


def older(name, owner="o"):
    entry = committed(name, owner, schema="clvlab-log/1")
    del entry["content_hash"]
    return entry


def sealed(name, index, **changed):
    entry = {"kind": "RESULT", "schema": "clvlab-log/2", "manifest_hash": MANIFEST, "ts_ms": 1}
    return entry | {"run_id": run_of(name), "commit_index": index} | changed


def newer(entry, **changed):
    """An entry as it is written now."""
    more = {"COMMIT": {"sources_hash": MANIFEST}, "RESULT": {"content_hash": PACK}}.get(entry["kind"], {})
    return entry | {"schema": "clvlab-log/6"} | more | changed


def abandoned(name, index, **changed):
    entry = {"kind": "ABANDONED", "schema": "clvlab-log/2", "cause": "failed", "ts_ms": 1}
    return entry | {"run_id": run_of(name), "commit_index": index} | changed


def audits(name, index, **changed):
    entry = {"kind": "AUDITS", "schema": "clvlab-log/7", "agents": 1, "ts_ms": 1}
    return entry | {"run_id": run_of(name), "commit_index": index} | changed


def answered(name, index, **changed):
    entry = {"kind": "ANSWERED", "schema": "clvlab-log/7", "agent_id": "a", "answers_hash": MANIFEST, "ts_ms": 1}
    return entry | {"run_id": run_of(name), "commit_index": index} | changed


def audited(*entries):
    auditor = Auditor()
    for entry in entries:
        auditor.add(entry if isinstance(entry, bytes) else canonical(entry))
    auditor.finish()
    return auditor


def test_log_that_was_written_by_the_rules_is_sound():
    with RunLog().write() as rows:
        for number in range(40):
            run_id, inputs, pack = run_of(number % 25), hashed(number % 25), OTHER if number % 4 == 0 else PACK
            commit(rows, run_id, f"owner {number % 3}", inputs, pack, number) if number < 25 else None
            if number < 25 and number % 4 == 0:
                abandon(rows, run_id, "failed", number)
                commit(rows, run_id, "another", inputs, pack, number)
            elif number < 25 and number % 4 == 1:
                conclude(rows, run_id, MANIFEST, pack, number)
        found = audited(*(entry for _, entry in rows.page(0, 1000)))

        assert (found.broken, found.size) == ([], rows.size())
        leaves = [merkle.leaf_hash(entry) for _, entry in rows.page(0, 1000)]
    assert found.root() == merkle.root(leaves)
    assert sum(one.runs.committed for one in found.counts()) == 25 + 7
    assert {(one.owner, one.content_hash) for one in found.counts()} == {
        *((f"owner {number}", pack) for number in range(3) for pack in (PACK, OTHER)), ("another", OTHER),
    }  # fmt: skip


def test_older_entries_are_counted_over_no_pack_that_is_named():
    found = audited(older("run_1"), committed("run_2"), sealed("run_1", 0, schema="clvlab-log/1"), abandoned("run_2", 1))

    assert not found.broken
    counted = [(one.owner, one.content_hash, one.runs) for one in found.counts()]
    assert counted == [("o", None, RunCounts(1, 1, 0)), ("o", PACK, RunCounts(1, 0, 1))]


def test_entries_of_every_version_stand_in_one_log():
    found = audited(
        older("a"), committed("b"), newer(committed("c")),
        sealed("a", 0, schema="clvlab-log/1"), newer(sealed("b", 1)), newer(abandoned("c", 2)),
        newer(committed("d")), sealed("d", 6), older("e"), newer(sealed("e", 8)),
    )  # fmt: skip

    assert not found.broken
    assert sum(one.runs.sealed for one in found.counts()) == 4


@pytest.mark.parametrize(
    ("entries", "index", "rule"),
    [
        ([committed("a"), sealed("a", 0), sealed("a", 0)], 2, "ends commitment 0, which entry 1 ended already"),
        ([committed("a"), sealed("a", 0), sealed("a", 0, manifest_hash=OTHER)], 2, "which entry 1 ended already"),
        ([committed("a"), sealed("a", 0), abandoned("a", 0)], 2, "which entry 1 ended already"),
        ([committed("a"), abandoned("a", 0), sealed("a", 0)], 2, "which entry 1 ended already"),
        ([committed("a"), abandoned("a", 0), committed("a"), sealed("a", 0)], 3, "which entry 1 ended already"),
        ([committed("a"), committed("a")], 1, f"commits again to run '{run_of('a')}', whose commitment 0 is open"),
        ([committed("a"), sealed("a", 0), committed("a")], 2, "whose commitment 0 has the result 1"),
        ([committed("a"), committed("a", "other")], 1, "whose commitment 0 is open"),
        ([committed("a", run_id=run_of("b"))], 0, f"which is not the id of {hashed('a')}"),
        ([committed("a", run_id="run_x", inputs_hash="x")], 0, "commits by no hash: 'x'"),
        ([committed("a", inputs_hash=hashed("a").upper())], 0, "commits by no hash"),
        ([committed("a", content_hash="sha256:1")], 0, "commits by no hash"),
        ([committed("a", content_hash="")], 0, "commits by no hash"),
        ([committed("a", run_id="run_\x1b[2J")], 0, r"commits to run 'run_\x1b[2J', which is not the id"),
        ([committed("a"), sealed("a", 0, manifest_hash="x")], 1, "names no manifest hash: 'x'"),
        ([committed("a"), sealed("a", 0, manifest_hash=MANIFEST + "\n")], 1, "names no manifest hash"),
        ([committed("a"), abandoned("a", 0), committed("a", content_hash=OTHER)], 2, "over another pack than entry 0"),
        (
            [committed("a"), abandoned("a", 0), older("a"), abandoned("a", 2), committed("a", content_hash=OTHER)],
            4,
            "over another pack than entry 0",
        ),
        ([committed("a", "x\x1b[2J")], 0, r"a name that can't be printed: 'x\x1b[2J'"),
        ([committed("a", "x\u202ey")], 0, r"a name that can't be printed: 'x\u202ey'"),
        ([committed("a"), abandoned("a", 0, cause="x\ny")], 1, r"a name that can't be printed: 'x\ny'"),
        ([newer(committed("a"), sources_hash="x")], 0, "commits by no hash"),
        ([newer(committed("a"), sources_hash=None)], 0, "not well-formed"),
        ([newer(committed("a")), newer(sealed("a", 0), content_hash=OTHER)], 1, "is over another pack than its commitment 0"),
        ([committed("a"), newer(sealed("a", 0), content_hash=None)], 1, "is over another pack than its commitment 0"),
        ([older("a"), newer(sealed("a", 0), content_hash="x")], 1, "names no pack: 'x'"),
        ([committed("a"), sealed("a", 0, content_hash=PACK)], 1, "not well-formed"),
        ([committed("a"), sealed("a", 0, schema="clvlab-log/6")], 1, "not well-formed"),
        ([committed("a", schema="clvlab-log/6")], 0, "not well-formed"),
        ([sealed("a", 1), committed("a")], 0, "names entry 1, which is not a commitment before it"),
        ([sealed("a", 0)], 0, "names entry 0, which is not a commitment before it"),
        ([committed("a"), sealed("a", 0), abandoned("a", 1)], 2, "names entry 1, which is not a commitment before it"),
        ([committed("a"), committed("b"), sealed("a", 1)], 2, f"names entry 1, which commits to run '{run_of('b')}'"),
        ([committed("a", schema="clvlab-log/3")], 0, "not well-formed"),
        ([committed("a", kind="RETRACTED")], 0, "not well-formed"),
        ([committed("a", note="more")], 0, "not well-formed"),
        ([committed("a", content_hash=1)], 0, "not well-formed"),
        ([committed("a", ts_ms=-1)], 0, "not well-formed"),
        ([committed("a", ts_ms=True)], 0, "not well-formed"),
        ([committed("a") | {"schema": "clvlab-log/1"}], 0, "not well-formed"),
        ([older("a") | {"schema": "clvlab-log/2"}], 0, "not well-formed"),
        ([committed("a"), sealed("a", -1)], 1, "not well-formed"),
        ([committed("a", "")], 0, "a name of 0 bytes"),
        ([committed("a", "x" * 301)], 0, "a name of 301 bytes"),
        ([committed("a"), abandoned("a", 0, cause="")], 1, "a name of 0 bytes"),
        ([committed("a", run_id="a" * 20_000)], 0, "not well-formed: it has"),
        ([canonical(committed("a")) + b"\n"], 0, "not well-formed"),
        ([canonical(committed("a")).replace(b'"ts_ms":1', b'"ts_ms": 1')], 0, "not well-formed"),
        ([b""], 0, "not well-formed"),
        ([b"[]"], 0, "not well-formed"),
        ([b"null"], 0, "not well-formed"),
        ([b'{"kind":["COMMIT"],"schema":{}}'], 0, "not well-formed"),
        ([b"\xff"], 0, "not well-formed"),
        ([committed("a"), audits("b", 0)], 1, "not a commitment to it"),
        ([committed("a"), audits("a", 1)], 1, "not a commitment to it"),
        ([committed("a"), audits("a", 0, agents=0)], 1, "must state another count than its commitment 0"),
        ([committed("a"), audits("a", 0), audits("a", 0)], 2, "must state another count than its commitment 0"),
        ([committed("a"), sealed("a", 0), audits("a", 0)], 2, "before its result"),
        ([committed("a"), audits("a", 0, schema="clvlab-log/6")], 1, "not well-formed"),
        ([committed("a"), answered("b", 0)], 1, "not a commitment to it"),
        ([committed("a"), sealed("a", 0), answered("a", 0)], 2, "must come before the entry that ends its commitment 0"),
        ([committed("a"), answered("a", 0, answers_hash="x")], 1, "names no agent and answer"),
        ([committed("a"), answered("a", 0, agent_id="a\x1b[2J")], 1, "names no agent and answer"),
    ],
)
def test_broken_rule_names_its_entry(entries, index, rule):
    found = audited(*entries)

    assert (found.broken_count, found.broken[0].index) == (1, index)
    assert rule in found.broken[0].rule


def test_three_results_of_one_commitment_are_all_named_and_counted_once():
    found = audited(committed("a"), sealed("a", 0), sealed("a", 0), sealed("a", 0))

    assert [broken.index for broken in found.broken] == [2, 3]
    assert [one.runs for one in found.counts()] == [RunCounts(1, 1, 0)]


def test_broken_rules_without_end_are_counted_and_the_first_are_kept():
    found = audited(*[b"{}"] * 5000)

    assert (found.broken_count, len(found.broken), found.broken[-1].index) == (5000, 20, 19)


ENTRIES = [canonical(entry) for entry in (
    committed("a"), committed("b", content_hash=OTHER), committed("c"), abandoned("c", 2), older("d"), committed("e"),
    committed("f", "other"), sealed("a", 0), committed("g"),
)]  # fmt: skip


def recounted(index, size, stated):
    auditor = Auditor()
    auditor.recount(read_entry(ENTRIES[index]), index, size, stated, "run.clv")
    for entry in ENTRIES:
        auditor.add(entry)
    auditor.finish()
    return auditor


def claimed(index, size, **changed):
    right = {"earlier": 1, "later": 1, "abandoned": 1, "unknown_pack": 1} | changed
    return [broken.rule for broken in recounted(index, size, Claim(**right)).broken]


def test_claim_is_counted_again_at_the_size_at_which_it_was_made():
    assert claimed(2, 6) == []
    assert claimed(2, 9, later=2) == []
    assert claimed(0, 9, earlier=0, later=3) == []
    assert claimed(2, 3, later=0, abandoned=0, unknown_pack=0) == []


@pytest.mark.parametrize("changed", [{"earlier": 0}, {"later": 0}, {"later": 2}, {"abandoned": 0}, {"unknown_pack": 0}])
def test_claim_that_hides_or_invents_a_run_is_named(changed):
    [rule] = claimed(2, 6, **changed)

    assert rule.startswith("run.clv states")
    assert "entries give 1 earlier, 1 later and 1 abandoned over this pack, and 1 that name none" in rule


def test_claim_of_a_later_size_or_of_another_entry_does_not_hold():
    assert "speaks of 12 entries, the log has 9" in claimed(2, 12)[0]
    assert claimed(4, 6)[0] == "run.clv states counts over a pack that its commitment does not name"


def test_recount_says_what_the_entries_give_whether_or_not_a_bundle_states_it():
    [named], [unnamed] = recounted(2, 9, None).recounts, recounted(4, 9, None).recounts

    assert (named.bundle, named.size, named.counts, named.elsewhere) == ("run.clv", 9, Claim(1, 2, 1, 1), 1)
    assert (unnamed.counts, unnamed.elsewhere) == (None, 5)


def test_losers_under_another_pack_stand_beside_the_winner():
    losers = [committed(number, content_hash=OTHER) for number in range(49)]
    auditor = Auditor()
    winner = committed("winner")
    auditor.recount(read_entry(canonical(winner)), 49, 50, None, "run.clv")
    for entry in [*losers, winner]:
        auditor.add(canonical(entry))
    auditor.finish()

    assert [(one.content_hash, one.runs.committed, one.elsewhere) for one in auditor.counts()] == [
        (PACK, 1, 49),
        (OTHER, 49, 1),
    ]
    [found] = auditor.recounts
    assert (found.counts, found.elsewhere, found.draws) == (Claim(0, 0, 0, 0), 49, ())


def test_times_that_fall_are_counted_and_break_no_rule():
    found = audited(*(committed(number, ts_ms=ts_ms) for number, ts_ms in enumerate([5, 5, 4, 9, 8])))

    assert (found.broken, found.falls) == ([], Falls(2, 2))
    assert audited(committed("a"), committed("b")).falls == Falls(0, None)


def test_root_and_entries_seen_elsewhere_must_be_those_of_the_log():
    root = merkle.root([merkle.leaf_hash(entry) for entry in ENTRIES[:4]])
    auditor = Auditor()
    auditor.expect_root(0, merkle.root([]), "nothing")
    auditor.expect_root(4, root, "sound")
    auditor.expect_root(4, bytes(32), "forked")
    auditor.expect_root(10, root, "longer")
    auditor.expect_entry(1, ENTRIES[1], "sound")
    auditor.expect_entry(1, ENTRIES[0], "other")
    auditor.expect_entry(20, ENTRIES[0], "beyond")
    auditor.expect_owners(9, {"o": RunCounts(6, 1, 1), "other": RunCounts(1, 0, 0)}, "the keeper")
    auditor.expect_owners(9, {"o": RunCounts(6, 2, 0), "ghost": RunCounts(1, 0, 0)}, "a liar")
    for entry in ENTRIES:
        auditor.add(entry)
    auditor.finish()

    words = [broken.rule.split()[0] + " " + broken.rule.split()[1] for broken in auditor.broken]
    assert words == ["other has", "forked at", "a liar", "a liar", "a liar", "longer speaks", "beyond has"]
