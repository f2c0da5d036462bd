"""Ten questions of a newcomer, each answered within three clicks on visible links from the first page."""

import re

import pytest

from tests.browser.jupyter import WAIT_MS
from tests.browser.pages import follow
from tests.service import serving

pytestmark = pytest.mark.browser

_PACK = {"pack_id": "season", "fixture_ids": None, "strategy": "cumulative-drift"}
_RUN = ("cumulative-drift",)  # the link of the newest run
# Per question: the names of the links to follow, and what the page then says.
QUESTIONS = {
    "does it beat the close?": (_RUN, r"Loses at its prices, and its CLV may be luck"),
    "by how much, and is it luck?": (_RUN, r"\+27 bps \[-6, \+60\] of CLV"),
    "is the top of the list luck?": (("Full leaderboard",), r"not corrected for how many agents were tried"),
    "over which matches?": ((*_RUN, "All decisions"), r"Cedar Valley – Linden Valley"),
    "over how many of them?": (_RUN, r"299 of 300\s+1 match without a bet that counts"),
    "who says so?": (_RUN, r"This service recomputed them .* That is no proof"),
    "how do I check it?": (_RUN, r"Download the proof and the verifier, and run it"),
    "how do I check it without a terminal?": ((*_RUN, "the verifier in a browser"), r"Drop a bundle"),
    "what was not checked?": (_RUN, r"Not checked\s+Whether the odds are the market's"),
    "how do I enter mine?": (("competition of seats",), r"Agents that run elsewhere get the same odds"),
    "what does CLV mean?": (("Questions",), r"how far the fair probability of your side rose from bet to close"),
    "which data?": ((*_RUN, "season"), r"Origin of the odds, by the pack's maker\s+synthetic-clvlab"),
    "is it money?": (("Questions",), r"No bet is placed, and no money moves"),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving.api(tmp_path_factory.mktemp("keys")) as found:
        found.post("/backtests", _PACK, by=found.nobody, headers={"Prefer": "wait=60"})
        yield found


@pytest.mark.parametrize("question", QUESTIONS)
def test_question_is_answered_within_three_clicks_from_the_first_page(question, browser, served):
    links, answer = QUESTIONS[question]
    page = browser.new_page(viewport={"width": 360, "height": 700})
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{served.url}/")

    assert len(links) <= 3
    for name in links:
        region = page.get_by_role("region", name="The newest runs") if (name,) == _RUN else page
        link = region.get_by_role("link", name=name).first
        assert link.is_visible()
        link.click() if name == "Questions" else follow(link)  # a place of the same page

    assert re.search(answer, page.locator("body").inner_text(), re.DOTALL)
    page.close()


def test_the_verifier_of_the_service_checks_the_run_that_the_first_page_leads_to(browser, served, tmp_path):
    page = browser.new_page(accept_downloads=True)
    page.goto(f"{served.url}/")
    follow(page.get_by_role("region", name="The newest runs").get_by_role("link").first)
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Proof bundle").click()
    downloading.value.save_as(tmp_path / "run.clv")
    follow(page.get_by_role("link", name="the verifier in a browser"))
    page.set_input_files("#files", tmp_path / "run.clv")

    page.locator("#verdict.pass", has_text="This run holds").wait_for(timeout=WAIT_MS)
    page.close()
