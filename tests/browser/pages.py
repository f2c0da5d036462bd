"""What a person does in JupyterLab and Notebook 7, and what must hold of any page."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.browser.jupyter import WAIT_MS, Lab, Requests

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

__all__ = ["LOOKS", "THEMES", "click_mark", "cut_off", "follow", "open_notebook", "run_all", "set_theme"]

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
_SOON = {(360, "dark"), (1440, "light")}
LOOKS = [  # widths of windows and schemes of colours
    pytest.param(width, scheme, marks=() if (width, scheme) in _SOON else pytest.mark.long)
    for width in (360, 800, 1440)
    for scheme in ("light", "dark")
]
_IDLE = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
# Elements whose content is wider than they are: cut off, unless they scroll.
_CUT_OFF = """root => [...root.querySelectorAll('*')].filter(element => {
  const style = getComputedStyle(element);
  return style.display !== 'inline' && !(element instanceof SVGElement) && element.clientWidth > 0
    && element.scrollWidth > element.clientWidth + 1 && !['auto', 'scroll'].includes(style.overflowX);
}).map(element => `${element.tagName}.${element.className} ${element.scrollWidth} > ${element.clientWidth}`)"""


def follow(where: Locator) -> None:
    """Click what leads to another page, and wait until it is there: a reading right after a click may meet the old one."""
    with where.page.expect_navigation():
        where.click()


def open_notebook(
    browser: Browser, lab: Lab, name: str, requests: Requests, *, height: int = 2400, house: str = "JupyterLab"
) -> Page:
    """Open a notebook in a window of its own, wait for its kernel, and note every request from the first on."""
    page = browser.new_page(viewport={"width": 1280, "height": height}, timezone_id="Asia/Tokyo", locale="en-US")
    page.set_default_timeout(WAIT_MS)
    page.on("request", lambda request: requests.urls.append(request.url))
    page.on("websocket", lambda socket: requests.urls.append(socket.url))
    page.goto(lab.open(name, house))
    page.wait_for_selector(".jp-Notebook .jp-CodeCell")
    page.wait_for_function(_IDLE)
    page.evaluate("window.jupyterapp.shell.collapseLeft()")
    return page


def run_all(page: Page) -> list[str]:
    """Run every cell, wait until the last is done, and give the errors that cells show."""
    page.evaluate(
        "() => { window.ran = null; window.jupyterapp.commands.execute('notebook:run-all-cells').then("
        "() => { window.ran = true; }, error => { window.ran = String(error); }); }"
    )
    page.wait_for_function("window.ran !== null")
    found = page.evaluate(
        "() => [...window.jupyterapp.shell.currentWidget.content.model.cells].filter(cell => cell.type === 'code')"
        ".flatMap(cell => cell.outputs.toJSON()).filter(output => output.output_type === 'error').map(output => output.evalue)"
    )
    return [*found, *([] if page.evaluate("window.ran") is True else [page.evaluate("window.ran")])]


def _timeout() -> type[Exception]:
    """Playwright's own class, which is there only where playwright is."""
    from playwright.sync_api import TimeoutError as NotInTime

    return NotInTime


def click_mark(page: Page, mark: Locator, shown: Locator) -> None:
    """Click a mark of a plotly figure until what it opens is shown: while outputs above still grow, a click can miss."""
    deadline = time.monotonic() + WAIT_MS / 1000
    while not shown.is_visible():
        if time.monotonic() > deadline:
            raise TimeoutError(f"a click on {mark} opened nothing in {WAIT_MS / 1000:.0f} s")
        mark.scroll_into_view_if_needed()
        if box := mark.bounding_box():  # none while the figure is drawn anew
            page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        with suppress(_timeout()):
            shown.wait_for(timeout=3000)


def set_theme(page: Page, theme: str) -> None:
    """Change the theme as the menu does, and wait for it."""
    page.evaluate(f"window.jupyterapp.commands.execute('apputils:change-theme', {json.dumps({'theme': THEMES[theme]})})")
    page.wait_for_function(f"document.body.dataset.jpThemeLight === '{json.dumps(theme == 'light')}'")


def cut_off(page: Page, selector: str) -> list[str]:
    """Name the elements under a selector that are wider inside than outside, and do not scroll."""
    return [name for root in page.locator(selector).all() for name in root.evaluate(_CUT_OFF)]
