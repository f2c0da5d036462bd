import hashlib
import re
import sys
from dataclasses import replace
from html import unescape

import pytest

import clvlab as cl
from clvlab.errors import EvidenceError
from clvlab.lab.results.run import Run
from clvlab.lab.widgets.proofs import EvidenceBrowser, EvidenceWidget, MerklePath, MerkleWidget
from clvlab.proof.checks import CHECKS
from clvlab.proof.merkle import check_inclusion, inclusion_proof, leaf_hashes, root_of_lines
from clvlab.proof.seal import SealedRun
from clvlab.report.proofs.evidence import Lines, Tree, TreePicture, byte_rows
from clvlab.words import CHECK_MEANINGS
from tests.factories import make_run, make_sealed_run, make_tape, message


@pytest.fixture(scope="module")
def run():
    return make_sealed_run()


@pytest.fixture(scope="module")
def shown():
    return cl.backtest("starter", agent="cumulative-drift").run


class TestLines:
    @pytest.mark.parametrize(
        ("text", "lines"),
        [(b"", []), (b"\n", [b""]), (b"a\n\nbc\n", [b"a", b"", b"bc"]), (b"a\nb", [b"a", b"b"])],
    )
    def test_lines_are_those_between_line_feeds(self, text, lines):
        own = Lines(text)

        assert [own.get(number) for number in range(len(own))] == lines

    @pytest.mark.parametrize("number", [-1, 2])
    def test_a_line_that_is_not_there_is_refused(self, number):
        with pytest.raises(IndexError, match=f"no line {number} in 2"):
            Lines(b"a\nb\n").span(number)


class TestProofCard:
    def test_has_the_seven_checks_and_what_each_means(self, shown):
        card = shown.proof_card()

        assert tuple(card.card["checks"]) == CHECKS == tuple(CHECK_MEANINGS)
        assert all(meaning in html_text(card) for meaning in CHECK_MEANINGS.values())

    def test_is_the_card_that_is_published(self, shown):
        assert shown.proof_card().card == shown.verify().proof_card

    def test_evidence_that_cannot_be_read_has_a_card_that_says_so(self, run):
        card = Run(replace(run, events=run.events[:-20])).proof_card()

        assert "seal broken" in repr(card)
        assert "can't be read" in html_text(card)

    def test_is_a_frame_of_its_entries(self, shown):
        frame = shown.proof_card().frame

        assert frame.filter(part="checks").height == 7


class TestEvidenceBrowser:
    def test_the_running_hash_ends_in_the_evidence_hash(self, run):
        browser = EvidenceBrowser(run)

        frame = browser.frame

        assert frame["running_sha256"][-1] == browser.running_hash(-1) == run.evidence_hash
        assert frame["running_sha256"][0] == f"sha256:{hashlib.sha256(run.events.splitlines(keepends=True)[0]).hexdigest()}"
        assert frame["bytes"].sum() == len(run.events)

    def test_a_page_has_the_hashes_of_the_whole(self, run):
        browser = EvidenceBrowser(run)

        assert browser.page(3, 4).equals(browser.frame[3:7])
        assert browser.page(10_000).is_empty()

    def test_an_edited_byte_changes_every_hash_from_its_line_on(self, run):
        before, after = EvidenceBrowser(run).frame, EvidenceBrowser(edited(run)).frame

        same = (before["running_sha256"] == after["running_sha256"]).to_list()
        assert same == [True] * 4 + [False] * (len(same) - 4)

    def test_bytes_that_are_no_json_are_shown_all_the_same(self, run):
        browser = EvidenceBrowser(replace(run, events=b'{"a"\n\xff<script>\nlast'))

        assert browser.text(1) == "\\xff<script>"
        assert browser.frame["kind"].to_list() == ["unreadable"] * 3
        assert "<script>" not in browser.detail(1)

    @pytest.mark.parametrize("seq", [-2, 999])
    def test_a_line_that_is_not_there_is_refused_by_number(self, run, seq):
        with pytest.raises(EvidenceError, match=f"has no line {seq}: it has 13"):
            EvidenceBrowser(run).text(seq)

    def test_the_widget_shows_the_line_that_is_asked_for(self, run):
        shell = EvidenceWidget(EvidenceBrowser(run))

        shell.line.value = 12

        assert "RUN_SEALED" in shell.rows.content
        assert "as sealed" in shell.rows.content
        assert "Line 12" in shell.detail.value

    def test_a_row_that_is_picked_shows_its_bytes_and_its_leaf(self, run):
        shell = EvidenceWidget(EvidenceBrowser(run))

        shell.rows._handle_custom_msg({"pick": "4"}, [])

        start = sum(map(len, run.events.splitlines(keepends=True)[:4]))
        assert 'data-pick="4" aria-current="true"' in shell.rows.content
        assert MerklePath(run, 4).leaf.hex() in shell.detail.value
        assert f"{start:08x}  7b 22" in shell.detail.value

    def test_kinds_and_text_choose_the_lines(self, run):
        browser = EvidenceBrowser(run)
        shell = EvidenceWidget(browser)
        kind = next(toggle for toggle in shell.kinds if toggle.tooltip == "MARKET_CLOSE")

        kind.value = True
        of_kind = shell.found
        shell.search.value = "NOWHERE"

        assert of_kind == browser.find(kinds=["MARKET_CLOSE"]) == browser.frame.filter(kind="MARKET_CLOSE")["seq"].to_list()
        assert shell.found == []
        assert "no such line" in shell.status.value
        assert browser.find("run_STARTED") == [0]

    def test_rows_that_are_apart_have_the_hashes_of_the_whole(self, run):
        browser = EvidenceBrowser(run)

        assert browser.rows([0, 3, 11]).equals(browser.frame[[0, 3, 11]])

    def test_lines_are_turned_page_by_page(self, run):
        shell = EvidenceWidget(EvidenceBrowser(run))

        shell.later.click()
        later = (shell.line.value, shell.later.disabled, shell.earlier.disabled)
        shell.earlier.click()

        assert later == (10, True, False)
        assert shell.line.value == 0

    def test_a_line_of_many_bytes_shows_where_it_was_cut(self):
        long = SealedRun("run_long", b"x" * 1099 + b"\n", b"", b"")

        assert "and 76 bytes more" in EvidenceBrowser(long).detail(0)
        assert byte_rows(b"x" * 17, 5)[1] == ("00000015", "78", "x")

    def test_stands_without_widgets(self, run, monkeypatch):
        monkeypatch.setitem(sys.modules, "ipywidgets", None)

        assert set(EvidenceBrowser(run)._repr_mimebundle_()) == {"text/plain", "text/html"}


class TestMerklePath:
    @pytest.mark.parametrize("seq", range(13))
    def test_every_line_leads_to_the_stated_root(self, run, seq):
        path = MerklePath(run, seq)

        assert path.holds
        proof = [step.sibling for step in path.steps]
        assert check_inclusion(path.leaf, seq, path.size, proof, bytes.fromhex(path.root.removeprefix("sha256:")))

    def test_an_edited_line_leads_elsewhere_and_says_so(self, run):
        path = MerklePath(edited(run), 4)

        assert not path.holds
        assert "does NOT arrive" in html_text(path)

    def test_a_manifest_without_a_root_holds_nothing(self, run):
        path = MerklePath(replace(run, manifest=b"{}"), 0)

        assert (path.stated_root, path.holds) == (None, False)

    def test_draws_a_box_for_every_node_and_sibling(self, run):
        path = MerklePath(run, 4)

        assert path.svg().count("<rect") == 8 + 4 + 2 + 2 + 1  # eight leaves and what is above them; five; the root
        assert path.svg().count("stroke-dasharray") == len(path.steps)
        assert path.frame.height == len(path.steps) + 1

    @pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 9, 13, 17, 20, 31])
    def test_the_tree_that_is_drawn_is_the_one_of_the_proofs(self, size):
        text = b"".join(b"line %d\n" % number for number in range(size))
        tree, leaves = Tree(text), leaf_hashes(text)

        for seq in range(size):
            beside = [tree.sibling(node) for node in tree.path(seq)]
            assert [node.digest for node in beside if node] == inclusion_proof(leaves, seq)
            drawn = TreePicture(tree, seq, live=True).svg()
            assert drawn.count("stroke-dasharray") == len(inclusion_proof(leaves, seq))
            assert f'data-pick="{seq}" aria-current="true"' in drawn
        assert tree.path(0)[-1].digest.hex() == root_of_lines(text).removeprefix("sha256:")

    def test_a_leaf_that_is_picked_shows_its_own_path(self, run):
        shell = MerkleWidget(MerklePath(run, 4))

        shell._go(2)

        assert (shell.line.value, shell.path.seq, shell.path.holds) == (2, 2, True)
        assert 'data-pick="2" aria-current="true"' in shell.picture.content
        assert MerklePath(run, 2).leaf.hex() in shell.hashes.value

    @pytest.mark.parametrize("seq", [-1, 13])
    def test_a_line_that_is_not_there_is_refused(self, run, seq):
        with pytest.raises(EvidenceError, match=f"has no line {seq}"):
            MerklePath(run, seq)

    def test_a_single_line_is_its_own_root(self, run):
        path = MerklePath(replace(run, events=b"only\n"), 0)

        assert path.root == f"sha256:{path.leaf.hex()}"
        assert ">root<" in path.svg()


def test_what_stands_in_the_evidence_is_text():
    nasty = "<script>alert(1)</script>"
    tape = make_tape([message(0, 0, {nasty: 5000, "b": 5000}, market_key=nasty)], {1: 600})
    run = Run(make_run(tape, {"market_key": nasty, "side": nasty, "reason": nasty}).sealed)

    for result in (run.proof_card(), run.browse(), run.merkle_path(1), run.tamper()):
        assert not re.search(r"<script|https?://", html_text(result))
    assert "<script" not in run.browse().detail(1)


def edited(run):
    """The run with another stake on line 4."""
    lines = run.events.split(b"\n")
    lines[4] = lines[4].replace(b'"stake":100', b'"stake":900')
    return replace(run, events=b"\n".join(lines))


def html_text(result):
    return unescape(str(result._repr_html_()))
