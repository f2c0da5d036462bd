from importlib.util import find_spec
from itertools import pairwise

import polars as pl
import pytest

import clvlab as cl
from clvlab.report.html import page_policy
from clvlab.report.tearsheet import tear_sheet_page
from tests.browser.pages import LOOKS, cut_off

pytestmark = pytest.mark.browser

_ADDRESS = "http://clvlab.test/tear-sheet"
_POLICY = {"Content-Security-Policy": page_policy()}
_OPEN = "() => document.querySelectorAll('details').forEach(one => { one.open = true; })"
_OPACITY = "name => getComputedStyle(document.querySelector(name)).opacity"
_OUTLINE = "name => getComputedStyle(document.querySelector(name)).outlineStyle"


@pytest.fixture(scope="module")
def page_of_a_sheet():
    """A page with a name that is longer than a telephone is wide."""
    agent = cl.strategy(agent_id="<script>" + 60 * "x")(lambda ticks: ticks.filter(pl.col("tick_seq") == 0))
    return tear_sheet_page(cl.backtest("starter", agent).source)


@pytest.fixture(scope="module")
def page_of_a_template():
    return tear_sheet_page(cl.backtest("starter", "cumulative-drift").source)


def opened(browser, html, anchor="", **settings):
    page = browser.new_page(**settings)
    page.route(_ADDRESS, lambda route: route.fulfill(body=html, content_type="text/html", headers=_POLICY))
    page.goto(f"{_ADDRESS}{anchor}")
    return page


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_a_tear_sheet_fits_its_window_and_fetches_nothing_under_a_strict_policy(
    browser, requests, artefacts, page_of_a_sheet, width, theme
):
    page, complaints = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=theme), []
    page.on("request", lambda request: requests.urls.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.route(_ADDRESS, lambda route: route.fulfill(body=page_of_a_sheet, content_type="text/html", headers=_POLICY))

    page.goto(_ADDRESS)
    page.screenshot(path=artefacts / f"tear-sheet-{width}-{theme}.png", full_page=True)
    page.evaluate(_OPEN)

    assert requests.urls == [_ADDRESS]
    assert complaints == []
    assert page.locator("svg").count() >= 8
    assert cut_off(page, "body") == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.close()


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_axe_finds_nothing_with_all_details_open(browser, page_of_a_template, width, theme):
    if find_spec("axe_playwright_python") is None:
        pytest.skip("no axe-core: pip install axe-playwright-python")
    from axe_playwright_python.sync_playwright import Axe

    # axe puts itself into the page, which the policy of the page does not allow a page of its own
    page = opened(browser, page_of_a_template, viewport={"width": width, "height": 1000}, color_scheme=theme, bypass_csp=True)
    page.evaluate(_OPEN)

    found = Axe().run(page).response["violations"]

    assert [(one["id"], one["impact"], one["nodes"][0]["html"][:200]) for one in found] == []
    assert page.locator("h1").count() == page.locator("main").count() == 1
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(one => +one.tagName[1])")
    assert all(after <= before + 1 for before, after in pairwise(levels))
    page.close()


def test_the_contents_stay_in_sight_when_wide_and_fold_on_a_telephone(browser, page_of_a_template):
    wide = opened(browser, page_of_a_template, viewport={"width": 1440, "height": 900})
    narrow = opened(browser, page_of_a_template, viewport={"width": 360, "height": 900})

    wide.get_by_role("link", name="Questions").click()
    links = wide.locator("nav a")
    assert wide.url.endswith("#questions")
    assert all(links.nth(place).is_visible() for place in range(links.count()))
    assert wide.locator("nav").bounding_box()["y"] > 0
    assert not narrow.locator("nav a").first.is_visible()
    narrow.get_by_text("Contents").click()
    assert narrow.locator("nav a").first.is_visible()
    wide.close()
    narrow.close()


def test_a_group_that_is_pointed_at_or_named_by_the_address_is_marked_in_panel_curve_and_decisions(browser, page_of_a_template):
    page = opened(browser, page_of_a_template, viewport={"width": 1440, "height": 900})

    assert page.evaluate(_OPACITY, ".part.g-m0") == "0"
    page.locator("#m0").hover()
    assert page.evaluate(_OPACITY, ".part.g-m0") == "1"
    assert page.evaluate(_OPACITY, ".part.g-m1") == "0"
    assert page.evaluate(_OUTLINE, ".decision.g-m0") == "solid"
    assert not page.locator(".clear").first.is_visible()
    page.close()

    named = opened(browser, page_of_a_template, "#m1", viewport={"width": 1440, "height": 900})
    assert named.evaluate(_OPACITY, ".part.g-m1") == "1"
    named.locator("#where .clear").click()
    named.mouse.move(0, 0)
    assert named.evaluate(_OPACITY, ".part.g-m1") == "0"
    named.close()


def test_print_opens_what_is_folded_and_hides_the_contents(browser, artefacts, page_of_a_template):
    page = opened(browser, page_of_a_template, viewport={"width": 794, "height": 1123})

    page.emulate_media(media="print")

    assert not page.locator("nav").is_visible()
    shown = "document.querySelector('#questions table').checkVisibility({contentVisibilityAuto: true})"
    assert page.evaluate(shown)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("getComputedStyle(document.querySelector('.panel')).breakInside") == "avoid"
    written = page.pdf(path=artefacts / "tear-sheet.pdf", prefer_css_page_size=True)
    assert written.startswith(b"%PDF")
    assert 6 < written.count(b"/Type /Page\n") < 30
    page.emulate_media(media="screen")
    assert not page.evaluate(shown)
    page.close()
