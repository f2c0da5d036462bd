import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.field import page, pictures
from tests.benchmarks.field.code import code_lines, lines_of
from tests.benchmarks.field.measuring import _too_long, merged
from tests.benchmarks.field.parts import PARTS

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "tests" / "benchmarks" / "field" / "measured.json"
ROW = {"tool": "leaderboard", "seconds": [0.5, 0.7], "peak_mb": [100.0, 120.0]}


@pytest.mark.long
def test_the_command_measures_its_parts_at_the_smallest_size_and_names_what_is_not_installed(tmp_path):
    report = tmp_path / "measured.json"
    chosen = ["--only", "momentum", "clusters", "runs", "--rounds", "1", "--largest", "1"]

    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.field", "--here", *chosen, "--json", str(report)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    parts = json.loads(report.read_bytes())["parts"]
    assert set(parts) == {"momentum", "clusters", "runs"}
    assert not any(part["different"] for part in parts.values())
    for name, part in parts.items():
        done_or_named = {row["tool"] for row in part["measured"]} | {note["text"].partition(":")[0] for note in part["notes"]}
        assert done_or_named == set(PARTS[name].tools)
        assert all(row["seconds"][0] > 0 and row["peak_mb"][0] > 10 for row in part["measured"])
    assert {row["tool"] for row in parts["momentum"]["measured"]} >= {
        "Polars script",
        "DuckDB script",
        "clvlab, from the stream",
    }


def test_tools_that_find_different_things_are_told_apart():
    assert PARTS["momentum"].agree({"one": {"ML": [1, 5]}, "two": {"ML": [1, 5]}}, 10)
    assert not PARTS["momentum"].agree({"one": {"ML": [1, 5]}, "two": {"ML": [1, 6]}}, 10)
    assert not PARTS["momentum"].agree({"one": {}, "two": {}}, 10)
    assert PARTS["clusters"].agree({"one": [1.0], "two": [1.0 + 1e-12]}, 10)
    assert not PARTS["clusters"].agree({"one": [1.0], "two": [1.0 + 1e-8]}, 10)
    assert not PARTS["margin-shin"].agree({"one": 0.0, "two": 1e-4}, 10)
    assert not PARTS["runs"].agree({"leaderboard": 9}, 10)


def test_a_size_that_is_measured_anew_takes_the_place_of_the_old_one():
    before = {
        "measured": [ROW | {"size": 10}, ROW | {"size": 100}],
        "notes": [{"size": 100, "text": "old"}],
        "different": [{"size": 100}],
    }
    found = {"measured": [ROW | {"size": 100, "seconds": [9.0]}], "notes": [], "different": []}

    kept = merged(before, found, 100)

    assert [(row["size"], row["seconds"]) for row in kept["measured"]] == [(10, [0.5, 0.7]), (100, [9.0])]
    assert kept["notes"] == []
    assert kept["different"] == []


def test_a_tool_is_left_out_by_how_its_time_grew_and_not_by_what_it_begins_with():
    def rows(*seconds):
        return [{"tool": "slow", "size": 10**n, "seconds": [taken]} for n, taken in enumerate(seconds)]

    assert list(_too_long(rows(2.0), 1000, 300)) == []
    assert list(_too_long(rows(2.0, 2.9), 1000, 300)) == []
    assert list(_too_long(rows(2.0, 11.0), 1000, 300)) == [("slow", 1001.0)]
    assert list(_too_long(rows(2.0, 1.0), 1000, 300)) == []


def test_blank_lines_comments_and_docstrings_are_no_lines_of_code():
    assert code_lines('"""Says.\n\nMore."""\n\n# why\nx = (1,\n     2)\n\n\ndef f():\n    """Says."""\n    return x\n') == 4


@pytest.mark.parametrize("name", PARTS)
def test_the_code_of_every_tool_is_there(name):
    assert all(lines_of(tool.code) > 0 for tool in PARTS[name].tools.values() if tool.code)


def test_the_pages_show_what_was_measured_with_a_picture_of_each_curve():
    kept = json.loads(MEASURED.read_bytes())
    texts = {block: (ROOT / name).read_text(encoding="utf-8") for block, name in page.PAGES.items()}

    assert {block: page.rendered(text, kept, block) for block, text in texts.items()} == texts
    assert all(f"pictures/{name}.svg" in texts["summary"] for name in pictures.PICTURES)
    assert not any(part["different"] for part in kept["parts"].values())


@pytest.mark.parametrize("block", page.PAGES)
def test_a_page_without_markers_is_refused(block):
    with pytest.raises(ValueError, match=f"no markers of field {block}"):
        page.rendered("# Performance\n", {"parts": {}}, block)
