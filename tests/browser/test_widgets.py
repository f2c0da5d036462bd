import json
import re
import subprocess
import sys

import pytest

from tests.browser.jupyter import Requests
from tests.browser.pages import THEMES, cut_off, open_notebook, run_all, set_theme

pytestmark = pytest.mark.browser

CELLS = [
    'import clvlab as cl\nbt = cl.backtest("starter", "cumulative-drift")\nbt.explore(90000005)',
    "bt.run.browse()",
    "bt.run.merkle_path(5)",
    'bt.run.tamper().attack("raise a stake")',
    "bt.plot.clv();",
]


def written(folder):
    cells = [
        {"cell_type": "code", "id": f"cell-{n}", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        for n, source in enumerate(CELLS)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = folder / "widgets.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}))
    return path


@pytest.fixture(scope="module")
def page(browser, lab):
    written(lab.root)
    opened = open_notebook(browser, lab, "widgets.ipynb", Requests())
    assert run_all(opened) == []
    opened.locator(".clvlab-explorer .scatterlayer .points path").first.wait_for(state="attached")
    yield opened
    opened.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    opened.close()


def test_the_still_picture_steps_aside_for_the_widget(page):
    stills = page.locator(".clvlab-still")

    assert stills.count() == 4
    assert [still.is_visible() for still in stills.all()] == [False] * 4


def test_keys_replay_the_market_and_reach_no_cell(page):
    cells = page.locator(".jp-CodeCell").count()
    said = page.locator(".clvlab-explorer .clvlab p")
    page.locator(".clvlab-chart").focus()

    page.keyboard.press("Home")
    said.filter(has_text=re.compile(r"\b0 of \d+ price updates")).wait_for()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    said.filter(has_text=re.compile(r"\b2 of \d+ price updates")).wait_for()
    page.keyboard.press("b")
    page.keyboard.press("End")
    said.filter(has_text=re.compile(r"^[^:]*\. \d+ price updates")).wait_for()
    page.keyboard.press("n")

    page.locator(".clvlab-record h4", has_text="Decision").wait_for()
    assert page.locator(".jp-CodeCell").count() == cells


def test_clock_and_record_say_the_time_in_utc_and_that_of_the_reader_once(page):
    clock = page.locator(".clvlab-explorer span:has(> time)")
    page.locator(".clvlab-chart").focus()

    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    clock.get_by_text("for you").wait_for()
    page.keyboard.press("n")
    page.locator(".clvlab-record .own-time").wait_for(state="attached")

    assert re.fullmatch(r"2026-\d\d-\d\d [\d:]{8} UTC \w+ \d+, 2026, [\d:]+\s[AP]M for you", clock.inner_text())
    assert page.locator(".clvlab-explorer .own-time").count() == page.locator(".clvlab-explorer time").count() == 2
    assert page.locator(".clvlab-still .own-time").count() == 0


def test_the_record_stands_beside_the_chart(page):
    page.get_by_role("button", name="Next decision").click()
    page.locator(".clvlab-record h4", has_text="Decision").wait_for()

    chart, record = page.locator(".clvlab-chart").bounding_box(), page.locator(".clvlab-record").bounding_box()

    assert record["x"] >= chart["x"] + chart["width"]
    assert abs(record["y"] - chart["y"]) < 40


def test_what_is_searched_for_is_chosen(page):
    find = page.locator(".clvlab-explorer input[placeholder^='team']")

    find.fill("90000003")
    find.press("Enter")
    page.locator(".clvlab-explorer select").first.locator("option:checked", has_text="90000003").wait_for(state="attached")

    find.fill("")
    find.press("Enter")


def test_a_row_of_the_evidence_is_picked_by_pointer_and_by_keyboard(page):
    browser = page.locator(".clvlab-browser")
    browser.locator("input[type=number]").fill("0")  # whichever lines were looked at before
    browser.locator("input[type=number]").press("Enter")

    browser.locator("tr", has=page.locator("[data-pick='3']")).locator("td").last.click()
    browser.locator("h4", has_text="Line 3:").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")

    browser.locator("h4", has_text="Line 4:").wait_for()
    browser.locator("[data-pick='4'][aria-current]").wait_for()


def test_a_kind_and_a_text_narrow_the_lines(page):
    browser = page.locator(".clvlab-browser")

    browser.get_by_role("button", name="RUN_SEALED").click()
    browser.locator("[role=status]", has_text="1 to 1 of 1 lines").wait_for()

    browser.get_by_role("button", name="RUN_SEALED").click()


def test_a_leaf_is_picked_from_the_keyboard_and_keeps_the_focus(page):
    tree = page.locator(".clvlab-merkle")
    tree.locator("[data-pick='5'][aria-current]").focus()

    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")

    tree.locator("p", has_text="Line 6 of").wait_for()
    assert page.evaluate("document.activeElement.dataset.pick") == "6"


def test_what_was_tampered_with_is_marked_with_its_reasons(page):
    playground = page.locator(".clvlab-playground")

    assert playground.locator("del").first.inner_text() == "1"
    assert playground.locator("ins").first.inner_text() == "9"
    assert "✗ evidence_integrity" in playground.locator(".reasons").inner_text()
    assert '"stake":900' in playground.locator("textarea").input_value()


def test_a_plot_has_the_ink_of_the_theme(page):
    picture, inks = page.locator("svg[aria-label^='CLV of']").first, []

    for theme in THEMES:
        set_theme(page, theme)
        inks.append(picture.locator("text").first.evaluate("text => getComputedStyle(text).fill"))

    light, dark = (int(re.search(r"\d+", ink).group()) for ink in inks)
    assert light < 60
    assert dark > 200


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_nothing_is_cut_off(page, width):
    page.set_viewport_size({"width": width + 170, "height": 1600})
    page.wait_for_timeout(500)

    assert cut_off(page, ".clvlab") == []

    page.set_viewport_size({"width": 1280, "height": 2400})


def test_an_exported_notebook_keeps_the_pictures(browser, tmp_path):
    command = [sys.executable, "-m", "jupyter", "nbconvert", "--execute", "--to", "html", "widgets.ipynb"]
    subprocess.run(command, cwd=written(tmp_path).parent, check=True, capture_output=True, timeout=300)

    page = browser.new_page()
    page.goto((tmp_path / "widgets.html").as_uri())

    assert page.locator(".clvlab-still").count() == 4
    for name in ("line of ", "Merkle path of", "CLV of"):
        assert page.locator(f"svg[aria-label^='{name}']").first.is_visible()
    page.close()
