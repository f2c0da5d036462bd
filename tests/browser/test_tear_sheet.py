import pytest

import clvlab as cl
from tests.browser.pages import cut_off

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page_of_a_sheet(tmp_path_factory):
    sheet = cl.backtest("starter", "cumulative-drift").tear_sheet(resamples=500, draws=20)
    return sheet.to_html(tmp_path_factory.mktemp("sheet") / "sheet.html")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 800])
def test_an_exported_tear_sheet_fits_its_window_and_fetches_nothing(
    browser, requests, artefacts, page_of_a_sheet, width, theme
):
    page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=theme)
    page.on("request", lambda request: requests.urls.append(request.url))

    page.goto(page_of_a_sheet.as_uri())
    page.screenshot(path=artefacts / f"tear-sheet-{width}-{theme}.png", full_page=True)

    assert [url for url in requests.urls if not url.startswith("data:")] == [page_of_a_sheet.as_uri()]
    assert page.locator("svg").count() >= 8
    assert cut_off(page, "body") == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.close()
