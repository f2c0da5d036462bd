import pytest

import clvlab as cl
from clvlab.errors import EvidenceError
from clvlab.lab.widgets.proofs import Playground
from clvlab.report import html
from tests.factories import make_mixed_run, make_run, make_tape, message


@pytest.fixture(scope="module")
def run():
    return cl.backtest("starter", agent="cumulative-drift").run


@pytest.fixture
def playground(run):
    return run.tamper()


RED = {
    "raise a stake": ["evidence_integrity", "manifest_bound"],
    "raise a score": ["metrics_recomputed"],
    "drop the worst score": ["metrics_recomputed"],
    "relabel the strategy": ["evidence_integrity", "manifest_bound"],
    "put a receipt into the evidence": [
        "evidence_integrity", "metrics_recomputed", "manifest_bound", "policy_obeyed", "receipt_separation",
    ],
    "add a receipt without an action": ["policy_obeyed"],
    "name another run in the manifest": ["manifest_bound"],
}  # fmt: skip


@pytest.mark.parametrize("attack", Playground.attacks)
def test_every_attack_turns_its_checks_red(playground, attack):
    assert playground.attack(attack).red == RED[attack]


def test_a_forger_who_closes_the_seal_is_told_apart_by_the_manifest_hash(playground):
    playground.attack("raise a stake").close_seal()

    assert playground.red == []
    assert playground.copy.run.manifest_hash != playground.untouched.manifest_hash
    assert "but it is another run" in playground._repr_html_()


def test_a_relabelled_strategy_is_seen_although_the_seal_is_closed_again(playground):
    assert playground.attack("relabel the strategy").close_seal().red == ["manifest_bound"]


def test_the_run_itself_is_never_touched(run, playground, tmp_path):
    folder = run.save(tmp_path)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    opened = cl.open_run(folder)
    opened.tamper().attack("drop the worst score").flip("events.jsonl", 100).close_seal()

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert opened.verify().passed
    assert playground.untouched.passed


def test_what_was_changed_is_shown_before_and_after_with_the_reasons_of_what_turned_red(playground):
    shown = playground.attack("raise a stake")._repr_html_()

    found = playground.differences[0]
    assert (found.file, found.before, found.after) == ("events.jsonl", b"1", b"9")
    assert "1</del>" in shown
    assert "9</ins>" in shown
    for name in playground.red:
        assert f"✗ {name}" in shown
        assert html.escape(playground.verification.checks[name].detail) in shown.partition("Changed bytes")[0]


def test_a_closed_seal_differs_in_every_file_that_it_was_closed_over(playground):
    playground.attack("raise a stake").close_seal()

    assert [found.file for found in playground.differences] == ["events.jsonl", "manifest.json"]
    assert playground.restore().differences == []


def test_restored_bytes_are_not_verified_again(playground):
    playground.attack("raise a score").restore()

    assert playground.verification is playground.untouched


def test_restore_begins_again(playground):
    playground.attack("raise a score").restore()

    assert (playground.red, playground.changes, playground.first_change) == ([], [], None)


@pytest.mark.parametrize("offset", [0, 1000, -1])
def test_any_flipped_bit_of_the_evidence_breaks_the_seal(run, playground, offset):
    place = offset % len(run.source.events)

    assert "evidence_integrity" in playground.flip("events.jsonl", place, 3).red


def test_a_line_is_read_and_written(playground):
    line = playground.line("events.jsonl", 3)

    playground.write_line("events.jsonl", 3, line.replace('"stake":100', '"stake":101'))

    assert playground.first_change == ("events.jsonl", 3)
    assert playground.write_line("events.jsonl", 3, line).red == []


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda own: own.attack("nothing"), "no attack 'nothing'; there are: raise a stake"),
        (lambda own: own.replace("events.jsonl", "absent", "x"), "events.jsonl does not hold 'absent'"),
        (lambda own: own.replace("tail.jsonl", "a", "b"), "a run has no file 'tail.jsonl'"),
        (lambda own: own.write_line("manifest.json", 5, ""), "manifest.json has no line 5: it has 1"),
        (lambda own: own.flip("events.jsonl", 10**9), "no bit 0 of byte 1000000000"),
        (lambda own: own.flip("events.jsonl", 0, 8), "no bit 8 of byte 0"),
        (lambda own: own.replace("manifest.json", "{", "[").close_seal(), "the manifest can't be read"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(playground, act, said):
    with pytest.raises(EvidenceError, match=said):
        act(playground)


def test_a_run_without_a_scored_decision_has_no_score_to_raise():
    tape = make_tape([message(0, 0, {"draw": 3000, "part1": 4000, "part2": 3000})], {1: 30})
    playground = Playground(make_run(tape, {}).sealed)

    with pytest.raises(EvidenceError, match=r"no line in scores\.jsonl"):
        playground.attack("raise a score")
    with pytest.raises(EvidenceError, match="no scored decision to drop"):
        playground.attack("drop the worst score")


def test_an_attack_on_a_copy_that_is_damaged_already_is_refused(playground):
    playground.write_line("scores.jsonl", 0, "no json")

    with pytest.raises(EvidenceError, match="too damaged already to raise a score"):
        playground.attack("raise a score")


def test_the_frame_sets_the_checks_before_and_after_beside_each_other():
    frame = Playground(make_mixed_run().sealed).attack("raise a score").frame

    assert frame.filter(check="metrics_recomputed").row(0)[1:3] == ("pass", "fail")


class TestWidget:
    @pytest.fixture
    def shell(self, playground):
        from clvlab.lab.widgets.proofs import PlaygroundWidget

        return PlaygroundWidget(playground)

    def test_an_attack_shows_what_turned_red_and_the_line_it_changed(self, shell):
        shell.attack.value = "drop the worst score"
        shell.try_it.click()

        assert 'class="fail"' in shell.result.value
        assert shell.file.value == "scores.jsonl"
        assert shell.text.value == shell.playground.line("scores.jsonl", shell.number.value)

    def test_a_line_written_by_hand_breaks_the_seal_until_it_is_restored(self, shell):
        shell.number.value = 1
        shell.text.value = shell.text.value.replace("100", "900")
        shell.write.click()
        broken = shell.playground.red
        shell.restore.click()

        assert broken[0] == "evidence_integrity"
        assert 'class="fail"' not in shell.result.value

    def test_a_bit_of_the_line_is_flipped(self, shell):
        shell.number.value = 2
        shell.flip.click()

        assert shell.playground.first_change == ("events.jsonl", 2)

    def test_a_refusal_is_shown(self, shell):
        shell.file.value = "manifest.json"
        shell.text.value = "no json"
        shell.write.click()
        shell.close.click()

        assert "the manifest can&#39;t be read" in shell.result.value

    def test_an_empty_file_can_be_looked_at(self, shell):
        shell.playground.replace("receipts.jsonl", shell.playground.copy.receipts.decode(), "")
        shell.file.value = "receipts.jsonl"
        shell.flip.click()

        assert "receipts.jsonl has no line 0" in shell.result.value
