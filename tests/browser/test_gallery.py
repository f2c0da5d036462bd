import pytest

from tests.browser.gallery import SUBJECTS, WIDTHS
from tests.browser.pages import cut_off
from tests.length import few

pytestmark = pytest.mark.browser


@few(10)
@pytest.mark.parametrize("name", [name for name in SUBJECTS if name != "tear-sheet"])
def test_a_card_fits_a_telephone_and_says_its_sentence_above_the_fold(browser, requests, name):
    content = SUBJECTS[name]()
    for width in WIDTHS:
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.on("request", lambda request: requests.urls.append(request.url))

        page.set_content(content)

        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), width
        assert cut_off(page, "body") == []
        if name not in ("report", "verification"):
            assert page.locator(".verdict").first.bounding_box()["y"] < 200
        page.close()
    assert requests.external == []


def test_a_proof_card_is_no_taller_than_a_screen(browser):
    page = browser.new_page(viewport={"width": 360, "height": 740})

    page.set_content(SUBJECTS["proof-card"]())

    assert page.evaluate("document.documentElement.scrollHeight") <= 740
    page.close()
