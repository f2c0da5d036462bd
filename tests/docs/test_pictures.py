import json
import re
import runpy
from pathlib import Path

from tests.benchmarks.field import pictures

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "explanation" / "pictures"
MEASURED = ROOT / "tests" / "benchmarks" / "field" / "measured.json"


def said(folder):
    """Everything that each picture says, and how many marks it has."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.svg")}
    return {name: (re.findall(r"<text[^>]*>([^<]*)<", text), text.count("<path")) for name, text in texts.items()}


def test_the_pictures_of_the_documentation_are_those_the_code_draws(tmp_path):
    runpy.run_path(str(PICTURES / "draw.py"))["main"](tmp_path)
    pictures.draw(json.loads(MEASURED.read_bytes()), tmp_path)

    assert said(tmp_path) == said(PICTURES)
    assert len(said(PICTURES)) == 7 + len(pictures.PICTURES)


def test_the_pictures_fetch_nothing():
    for path in PICTURES.glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"https?://[^\"]*", text)) == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
        assert "<script" not in text
