"""Ten questions of a newcomer are answered within three clicks of the start page of the documentation."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_links import FENCE, LINK, anchors

ROOT = Path(__file__).parents[2]
START = ROOT / "docs" / "README.md"
CLICKS = 3

ANSWERS = {
    "Does this agent beat the close?": ("docs/explanation/reading-a-tear-sheet.md", "line-and-price"),
    "Is it luck?": ("docs/explanation/naive-t.md", ""),
    "What is CLV?": ("docs/explanation/why-clv.md", ""),
    "What does a seal prove?": ("docs/explanation/what-a-seal-proves.md", ""),
    "How do I check a file?": ("docs/how-to/verify-a-run.md", ""),
    "How do I bring my odds?": ("docs/how-to/bring-your-odds.md", ""),
    "How do I bring my bets?": ("docs/how-to/grade-your-bets.md", ""),
    "How do I compare agents?": ("docs/tutorials/first-backtest.md", "6-compare-and-change-a-parameter"),
    "How do I enter an arena?": ("docs/tutorials/enter-the-arena.md", ""),
    "How do I deploy the service?": ("docs/how-to/run-the-service.md", ""),
}
QUESTIONS = re.compile(r"^## Common questions$(.*?)^## ", re.MULTILINE | re.DOTALL)


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Every relative link of a page: its text, the page it leads to, and the anchor there."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for found in re.finditer(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", text):
        path, _, anchor = found[2].partition("#")
        if "://" not in path and (not path or path.endswith(".md")):
            yield found[1], (page.parent / path).resolve() if path else page, anchor


def distances() -> dict[Path, int]:
    """Return the fewest clicks from the start page to each page."""
    clicks, edge = {START: 0}, [START]
    while edge:
        page = edge.pop(0)
        for _, target, _ in links(page):
            if target not in clicks and target.exists():
                clicks[target] = clicks[page] + 1
                edge.append(target)
    return clicks


@pytest.mark.parametrize("question", ANSWERS)
def test_a_question_of_a_newcomer_is_answered_within_three_clicks(question):
    path, anchor = ANSWERS[question]
    page = ROOT / path

    assert distances()[page] <= CLICKS
    assert not anchor or anchor in anchors(page.read_text(encoding="utf-8"))


def test_the_start_page_asks_these_questions_and_leads_to_their_answers():
    asked = QUESTIONS.search(START.read_text(encoding="utf-8"))[1]
    rows = [re.fullmatch(r"\| (.+?) \| (.+?) \|", line) for line in asked.strip().splitlines()]
    led = {row[1]: LINK.findall(row[2]) for row in rows if row}

    for question, (path, anchor) in ANSWERS.items():
        target = path.removeprefix("docs/") + (f"#{anchor}" if anchor else "")
        assert target in led.get(question, []), question


def test_every_page_is_within_three_clicks():
    clicks = distances()
    written = {page.resolve() for page in ROOT.glob("docs/**/*.md")}

    assert sorted(page.name for page in written if clicks.get(page, CLICKS + 1) > CLICKS) == []
