"""The picture to send: the same bytes everywhere, what it says, and that all of it fits, whatever a run is called."""

import os
import struct
import subprocess
import sys
from dataclasses import replace
from functools import cache
from xml.etree import ElementTree as ET

import pytest
import segno

import clvlab as cl
from clvlab.errors import ArgumentError, EvidenceError, FileError, MissingLibraryError, UnknownAgentError
from clvlab.report.share import HEIGHT, WIDTH, SharedPicture, _width
from tests.length import few

SVG = "{http://www.w3.org/2000/svg}"
PAGE = "https://example.org/runs/run_1"
LONG = "an-agent-that-is-called-by-a-name-which-goes-on-for-as-long-as-a-name-may-and-then-a-little-more"
ODD = "مراهن\u202e<b>& 勝負師" * 4
MANY = {f"{k}-{LONG}"[:100]: ("baseline", {"min_prob_bps": 4000 + 300 * k}) for k in range(12)}


@cache
def sealed(case):
    lab = cl.Lab()
    return {
        "one agent": lambda: cl.backtest("starter", "cumulative-drift"),
        "a season": lambda: cl.backtest("season", "cumulative-drift"),
        "one fixture": lambda: cl.backtest("starter", "cumulative-drift", fixtures=[90000005]),
        "nothing scored": lambda: cl.backtest("starter", "cumulative-drift", window=cl.Window(market_allowlist=("none",))),
        "too late": lambda: cl.backtest("starter", "baseline", window=cl.Window(min_clv_horizon_s=50_000_000)),
        "a long name": lambda: lab.compete("starter", {LONG: "baseline"}),
        "an odd name": lambda: lab.compete("starter", {ODD: "baseline"}),
        "many agents": lambda: lab.compete("starter", MANY),
    }[case]().run.source


CASES = (
    "one agent", "a season", "one fixture", "nothing scored", "too late", "a long name", "an odd name", "many agents",
)  # fmt: skip


def texts(picture):
    """Every text, with its begin, end and baseline, by the widths that the picture assumes."""
    for element in ET.fromstring(picture.svg()).iter(f"{SVG}text"):
        x, width = float(element.get("x")), _width(element.text, float(element.get("font-size")))
        start = x - {None: 0, "middle": width / 2, "end": width}[element.get("text-anchor")]
        yield element.text, start, start + width, float(element.get("y"))


def words(picture):
    return " ".join(text for text, *_ in texts(picture))


@few(5)
@pytest.mark.parametrize("page", [None, PAGE])
@pytest.mark.parametrize("case", CASES)
def test_every_text_fits_and_what_was_not_checked_is_said(case, page):
    run = sealed(case)
    picture = SharedPicture(run, page)

    assert [text for text, start, end, y in texts(picture) if not (start >= 0 and end <= WIDTH and 0 < y < HEIGHT - 6)] == []
    assert "Not checked: whether the prices are those of a real market, what else was tried" in words(picture)
    assert run.run_id in words(picture)
    assert (run.evidence_hash in words(picture)) == ("ask for the bundle" in words(picture)) == (page is None)


def test_no_letter_of_the_font_is_wider_than_the_picture_assumes():
    matplotlib = pytest.importorskip("matplotlib")
    from matplotlib.ft2font import FT2Font

    for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf"):
        font = FT2Font(f"{matplotlib.get_data_path()}/fonts/ttf/{name}")
        font.set_size(100, 72)
        for letter in map(chr, range(32, 127)):
            assert font.load_char(ord(letter)).linearHoriAdvance / 65536 <= _width(letter, 100) + 0.01, letter


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("a season", "Loses at its prices, and its CLV may be luck +27 bps [-6, +60] of CLV"),
        ("a season", "50 bps none"),
        ("a season", "Look-ahead: a template of clvlab, whose code uses no later price update."),
        ("one fixture", "An interval needs five fixtures or more."),
        ("one fixture", "Sum of CLV, bps, by decision"),
        ("nothing scored", "Nothing to judge: no decision was scored The agent made no decision."),
        ("too late", "decided too close to the close"),
        ("many agents", "of 12 agents"),
        ("many agents", "and 7 more"),
        ("an odd name", "[U+202E]<b>&"),
    ],
)
def test_a_picture_says(case, said):
    assert said in words(SharedPicture(sealed(case)))


def test_the_sentence_is_that_of_the_run():
    from clvlab.report.headline import headline_of
    from clvlab.runs.run import Run

    sentence = headline_of(Run(sealed("one agent"))).verdict.sentence

    assert sentence.replace(": ", " ", 1) in words(SharedPicture(sealed("one agent")))


def test_the_bytes_do_not_depend_on_process_threads_or_home(tmp_path):
    folder = cl.backtest("starter", "cumulative-drift").run.save(tmp_path)
    expected = SharedPicture(sealed("one agent")).svg().encode()

    for seed, threads in (("1", "1"), ("77", "4")):
        file = tmp_path / f"{seed}.svg"
        environment = {**os.environ, "PYTHONHASHSEED": seed, "POLARS_MAX_THREADS": threads, "TZ": "Asia/Tokyo", "LC_ALL": "C"}
        subprocess.run([sys.executable, "-m", "clvlab", "share", folder, "--out", file], check=True, env=environment)
        assert file.read_bytes() == expected


def test_neither_receipts_nor_anchor_change_the_picture(tmp_path):
    run = cl.backtest("starter", "cumulative-drift").run
    run.share(tmp_path / "with.svg")
    run.receipts = b""

    assert run.share(tmp_path / "without.svg").read_bytes() == (tmp_path / "with.svg").read_bytes()


def test_the_code_leads_to_the_page():
    drawn = ET.fromstring(SharedPicture(sealed("one agent"), PAGE).svg())
    boxes = [one.get("d")[1:-1].split(" ") for one in drawn.iter(f"{SVG}path") if one.get("fill") == "#000000"]
    corners = [[tuple(map(float, corner.split(","))) for corner in box] for box in boxes]
    left, top = min(box[0][0] for box in corners), min(box[0][1] for box in corners)
    size = corners[0][2][1] - corners[0][0][1]
    dark = {
        (round((x - left) / size), round((box[0][1] - top) / size))
        for box in corners
        for x in range(int(box[0][0]), int(box[2][0]), int(size))
    }

    modules = segno.make(PAGE, error="m", micro=False).matrix
    assert dark == {(x, y) for y, row in enumerate(modules) for x, cell in enumerate(row) if cell}
    assert left + size * (len(modules) + 4) <= WIDTH


def test_changed_bytes_are_not_recommended():
    run = sealed("one agent")
    changed = replace(run, scores=run.scores.replace(b'"clv_bps":', b'"clv_bps":1', 1))

    said = words(SharedPicture(changed))

    assert "Do not rely on this run: it fails" in said
    assert "metrics_recomputed" in said
    assert "The seal does not hold." in said
    assert "of CLV, and" not in said


def test_bytes_that_are_no_run_are_refused():
    with pytest.raises(EvidenceError, match="can't be read"):
        SharedPicture(replace(sealed("one agent"), events=b"{}\n")).svg()


def test_one_of_several_agents_can_be_shown():
    name = min(MANY)

    assert "of 12 agents" not in words(SharedPicture(sealed("many agents"), agent_id=name))
    with pytest.raises(UnknownAgentError, match="no agent 'nobody'"):
        SharedPicture(sealed("many agents"), agent_id="nobody")


@pytest.mark.parametrize("page", ["ftp://example.org", "https://example.org/" + 300 * "x", "https://example.org/a b", 7])
def test_an_address_is_checked(page):
    with pytest.raises(ArgumentError, match="begins with http:// or https://"):
        SharedPicture(sealed("one agent"), page)


def test_files_are_svg_or_png_of_1200_by_630(tmp_path):
    result = cl.backtest("starter", "cumulative-drift")
    picture = result.share(tmp_path / "card.png", page=PAGE).read_bytes()

    assert struct.unpack(">8sI4sII", picture[:24]) == (b"\x89PNG\r\n\x1a\n", 13, b"IHDR", WIDTH, HEIGHT)
    assert result.share(tmp_path / "card.png", page=PAGE).read_bytes() == picture
    for path in (tmp_path / "card.gif", tmp_path / "nowhere" / "card.png", tmp_path):
        with pytest.raises(FileError):
            result.share(path)


def test_png_names_the_library_that_it_needs_and_svg_needs_none(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    picture = SharedPicture(sealed("one agent"))

    with pytest.raises(MissingLibraryError, match=r"PNG .*needs matplotlib"):
        picture.write(tmp_path / "card.png")
    assert not (tmp_path / "card.png").exists()
    assert picture.write(tmp_path / "card.svg").read_bytes().startswith(b"<svg")
