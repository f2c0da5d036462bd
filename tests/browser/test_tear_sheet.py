import polars as pl
import pytest

import clvlab as cl
from clvlab.report.tearsheet import tear_sheet_page
from tests.browser.pages import cut_off

pytestmark = pytest.mark.browser

_ADDRESS = "http://clvlab.test/tear-sheet"
_POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:"}


@pytest.fixture(scope="module")
def page_of_a_sheet():
    """A page with a name that is longer than a telephone is wide."""
    agent = cl.strategy(agent_id="<script>" + 60 * "x")(lambda ticks: ticks.filter(pl.col("tick_seq") == 0))
    return tear_sheet_page(cl.backtest("starter", agent).source)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1600, 800, 360])
def test_a_tear_sheet_fits_its_window_and_fetches_nothing_under_a_strict_policy(
    browser, requests, artefacts, page_of_a_sheet, width, theme
):
    page, complaints = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=theme), []
    page.on("request", lambda request: requests.urls.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.route(_ADDRESS, lambda route: route.fulfill(body=page_of_a_sheet, content_type="text/html", headers=_POLICY))

    page.goto(_ADDRESS)
    page.screenshot(path=artefacts / f"tear-sheet-{width}-{theme}.png", full_page=True)

    assert requests.urls == [_ADDRESS]
    assert complaints == []
    assert page.locator("svg").count() >= 8
    assert cut_off(page, "body") == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.close()
