import re

import pytest

from tests.browser.pages import THEMES, click_mark, cut_off, open_notebook, run_all, set_theme

pytestmark = pytest.mark.browser


def output_of(page, selector):
    """The whole output that holds an element."""
    return page.locator(".jp-OutputArea", has=page.locator(selector)).first


def shoot(page, selector, artefacts, name):
    """Keep a picture of an output in both themes."""
    for theme in THEMES:
        set_theme(page, theme)
        output_of(page, selector).screenshot(path=artefacts / f"{name}-{theme}.png", animations="disabled")


@pytest.fixture
def opened(browser, lab, requests):
    pages = []

    def run(name):
        page = open_notebook(browser, lab, name, requests)
        pages.append(page)
        assert run_all(page) == []
        return page

    yield run
    for page in pages:
        page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        page.close()


def test_a_notebook_that_was_not_run_here_shows_no_letters_of_pictures(browser, lab, requests):
    page = open_notebook(browser, lab, "01_first_backtest.ipynb", requests)
    card = page.locator(".jp-OutputArea-output .clvlab", has_text="Loses at its prices").first
    card.wait_for()

    assert card.locator(".untrusted").is_visible()
    assert card.locator("svg").count() == 0
    assert "3 Jan 2026" not in card.inner_text()
    page.close()


def test_the_first_notebook_explores_a_market_and_verifies_its_run(opened, requests, artefacts):
    page = opened("01_first_backtest.ipynb")
    marks = page.locator(".clvlab-explorer .scatterlayer .points path")
    dates = page.locator(".clvlab-explorer .xaxislayer-above text", has_text="Jan")
    marks.first.wait_for(state="attached")
    explorer = page.locator(".clvlab-explorer").first
    explorer.scroll_into_view_if_needed()
    page.wait_for_function(
        "() => { const root = document.querySelector('.clvlab-chart'); const plot = root.querySelector('.main-svg');"
        " return plot && plot.clientWidth > 0.9 * root.clientWidth; }"
    )
    dates.nth(2).wait_for()

    click_mark(page, marks.nth(2), page.locator(".clvlab-record h4", has_text="Decision"))
    page.locator(".clvlab-verify").click()
    page.locator(".clvlab-verdict .marks").wait_for()
    assert page.locator(".clvlab-verdict .marks li").count() == 7
    shoot(page, ".clvlab-explorer", artefacts, "explorer")

    handle = page.locator(".clvlab-explorer .noUi-handle").first
    handle.focus()
    handle.press("PageDown")
    page.locator(".clvlab-explorer .clvlab p", has_text=re.compile(r" of \d+ price updates")).wait_for()
    page.locator(".clvlab-record", has_text="CLV and verdict are hidden").wait_for()
    page.locator(".clvlab-explorer .legend li", has_text="not closed yet").wait_for()
    dates.nth(2).wait_for()
    shoot(page, ".clvlab-explorer", artefacts, "replay")

    assert cut_off(page, ".clvlab") == []
    assert requests.external == []


@pytest.mark.long
def test_the_third_notebook_shows_a_proof_and_what_breaks_it(opened, requests, artefacts):
    page = opened("03_verify_a_run.ipynb")

    browse = page.locator(".clvlab-browser").first
    browse.wait_for()
    number = browse.locator("input[type=number]")
    number.fill(number.get_attribute("max"))
    number.press("Enter")
    browse.locator("td", has_text="as sealed").wait_for()
    shoot(page, ".clvlab-browser", artefacts, "evidence")

    playground = page.locator(".clvlab-playground").first
    playground.get_by_role("button", name="Restore").click()
    playground.locator("p", has_text="Seal intact, no check failed").wait_for()
    playground.get_by_role("button", name="Flip a bit of it").click()  # of the score that the notebook forged
    playground.locator("p", has_text="Seal intact, a check failed").wait_for()
    playground.locator("select").nth(1).select_option("events.jsonl")
    playground.get_by_role("button", name="Flip a bit of it").click()
    playground.locator("p", has_text="Seal broken").wait_for()
    assert playground.locator("table span.fail").count() >= 2
    shoot(page, ".clvlab-playground", artefacts, "playground")
    shoot(page, "svg[aria-label^='Merkle path']", artefacts, "merkle")
    shoot(page, "h4:has-text('Proof card')", artefacts, "card")

    assert cut_off(page, ".clvlab") == []
    assert requests.external == []


@pytest.mark.long
def test_the_eighth_notebook_follows_a_match_and_its_view_says_how_it_ended(opened, requests, artefacts):
    page = opened("08_live_on_paper.ipynb")

    page.locator(".clvlab h4", has_text="Live run of risers: sealed").wait_for()
    shoot(page, "h4:has-text('Live run of risers')", artefacts, "live")

    assert cut_off(page, ".clvlab") == []
    assert requests.external == []
