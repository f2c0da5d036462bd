"""Cards and widgets in each application that shows notebooks: JupyterLab, Notebook 7, marimo, and the page of VS Code."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import clvlab as cl
from tests.browser.jupyter import HOUSES, WAIT_MS, marimo
from tests.browser.pages import THEMES, cut_off, open_notebook, run_all, set_theme
from tests.length import few

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
# The contrast of each text with the nearest ground that is painted, by WCAG 2.2; text that is not seen has none.
CONTRAST = """root => {
  const parse = text => { const at = text.match(/[\\d.]+/g).map(Number); return [at[0], at[1], at[2], at[3] ?? 1]; };
  const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const up = element => element.parentElement ?? element.getRootNode().host;
  const rgb = text => { const c = document.createElement('canvas').getContext('2d'); c.fillStyle = text; c.fillRect(0, 0, 1, 1);
    const d = c.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
  const ground = element => {
    const layers = [];
    for (let one = element; one; one = up(one)) layers.unshift(rgb(getComputedStyle(one).backgroundColor));
    return layers.reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const found = [];
  const walk = element => {
    for (const child of element.children) walk(child);
    if (element.shadowRoot) for (const child of element.shadowRoot.children) walk(child);
    const text = [...element.childNodes].filter(node => node.nodeType === 3).map(node => node.data.trim()).join(' ').trim();
    if (!text || !element.checkVisibility?.() || element.closest('svg, style, option, [aria-hidden=true], :disabled')) return;
    const under = ground(element);
    let ink = rgb(getComputedStyle(element).color);
    for (let one = element; one; one = up(one)) ink[3] *= Number(getComputedStyle(one).opacity);
    const [a, b] = [light(over(ink, under)), light(under)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push(`${text.slice(0, 40)}: ${contrast.toFixed(2)}`);
  };
  walk(root);
  return found;
}"""
WIDGET = "application/vnd.jupyter.widget-view+json"
CELLS = ['import clvlab as cl\nbt = cl.backtest("starter", "cumulative-drift")\nbt', "bt.explore(90000005)"]


def notebook(outputs=((), ())):
    """A notebook of a card and an explorer; with outputs it is one that somebody else ran."""
    cells = [
        {
            "cell_type": "code",
            "id": f"cell-{at}",
            "execution_count": None,
            "metadata": {},
            "outputs": [*shown],
            "source": source,
        }
        for at, (source, shown) in enumerate(zip(CELLS, outputs, strict=True))
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps({"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture(scope="module")
def bt():
    return cl.backtest("starter", "cumulative-drift")


@pytest.fixture(scope="module")
def stored(bt):
    """The outputs of ``CELLS`` as a notebook keeps them: a card, and a widget after its still."""
    explorer = bt.explore(90000005)
    forms = [{"text/plain": repr(bt), "text/html": str(bt._repr_html_())}, explorer._still(), explorer._view()]
    shown = [{"output_type": "display_data", "metadata": {}, "data": json.loads(json.dumps(form))} for form in forms]
    return shown[:1], shown[1:]


def shut(page):
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    page.close()


@few(1)
@pytest.mark.parametrize("house", HOUSES)
def test_a_notebook_that_was_run_shows_card_and_widget_readable_in_both_themes(browser, lab, requests, house):
    (lab.root / "run.ipynb").write_text(notebook())
    page = open_notebook(browser, lab, "run.ipynb", requests, house=house)
    assert run_all(page) == []
    page.locator(".clvlab-explorer .scatterlayer .points path").first.wait_for(state="attached")

    assert page.locator(".clvlab .verdict").first.is_visible()
    assert not page.locator(".clvlab-still").first.is_visible()
    page.get_by_role("button", name="Next decision").click()
    page.locator(".clvlab-record .verdict", has_text="Bet on Linden Valley, Match result").wait_for()
    for theme in THEMES:
        set_theme(page, theme)
        for part in (".clvlab", ".clvlab-record", ".clvlab-explorer .legend"):
            assert page.locator(part).first.evaluate(CONTRAST) == [], (theme, part)
    assert cut_off(page, ".clvlab") == []
    assert requests.external == []
    shut(page)


@few(1)
@pytest.mark.parametrize("house", HOUSES)
def test_a_notebook_of_somebody_else_shows_card_and_still_and_no_widget(browser, lab, requests, stored, house):
    (lab.root / "other.ipynb").write_text(notebook(stored))
    page = open_notebook(browser, lab, "other.ipynb", requests, house=house)
    page.locator("table", has_text="beat the close").wait_for()

    shown = page.locator(".jp-Notebook")
    assert shown.get_by_text("Not distinguishable from zero").first.is_visible()
    still = shown.get_by_role("img", name="Linden Valley - Dale Valley")
    assert still.evaluate("image => image.decode().then(() => image.naturalWidth)") > 600
    assert still.is_visible()
    assert page.locator(".clvlab-live, .jp-Notebook svg[role=img]").count() == 0
    for theme in THEMES:
        set_theme(page, theme)
        assert page.locator(".jp-RenderedHTMLCommon", has_text="beat the close").first.evaluate(CONTRAST) == [], theme
    assert requests.external == []

    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:trust'); }")  # done only once it was confirmed
    page.locator(".jp-Dialog .jp-mod-accept").click()
    page.locator(".clvlab-still svg").first.wait_for()
    assert not page.locator(".clvlab-still img").first.is_visible()
    assert not page.get_by_text(re.compile("Loading widget|model not found")).first.is_visible()
    shut(page)


@pytest.fixture(scope="module")
def marimo_url(browser_path, tmp_path_factory):  # noqa: ARG001  without a browser nothing is served
    if find_spec("marimo") is None:
        pytest.skip("no marimo: pip install 'clvlab[marimo]'")
    with marimo(ROOT / "notebooks" / "explore_in_marimo.py", tmp_path_factory.mktemp("marimo")) as url:
        yield url


def test_marimo_shows_cards_and_an_explorer_that_moves(browser, marimo_url, requests, artefacts):
    page = browser.new_page(viewport={"width": 1280, "height": 2400})
    page.set_default_timeout(WAIT_MS)
    page.on("request", lambda request: requests.urls.append(request.url))
    page.goto(marimo_url)
    explorer = page.locator(".clvlab-explorer")
    explorer.locator(".scatterlayer .points path").first.wait_for(state="attached")

    assert page.locator(".verdict", has_text="Not distinguishable from zero").is_visible()
    before = explorer.locator(".clvlab strong").first.inner_text()
    explorer.get_by_role("button", name="Next decision").click()
    explorer.locator(".clvlab-record .verdict", has_text="Bet on").wait_for()
    slider = explorer.get_by_label("Replay")
    slider.focus()
    slider.press("Home")
    explorer.get_by_text(re.compile(r"\b0 of \d+ price updates")).wait_for()
    slider.press("ArrowRight")
    explorer.get_by_text(re.compile(r"\b1 of \d+ price updates")).wait_for()
    explorer.get_by_role("button", name="Play").click()
    explorer.get_by_text(re.compile(r"\b[4-9] of \d+ price updates")).wait_for()
    explorer.get_by_role("button", name="Pause").click()
    explorer.get_by_label("Fixture").select_option(index=0)
    page.wait_for_function("before => !document.body.innerText.includes(before)", arg=before)
    page.locator(".clvlab-merkle").get_by_role("button", name="Line after").click()
    page.locator(".clvlab-merkle p", has_text="Line 6 of").wait_for()
    page.screenshot(path=artefacts / "marimo.png", animations="disabled")

    for part in (".clvlab", ".clvlab-explorer"):
        assert page.locator(part).first.evaluate(CONTRAST) == [], part
    assert requests.external == []
    page.close()


# VS Code renders an output as HTML under a body of its own, with its colours as variables and with no script of Jupyter.
VSCODE = {
    "dark": ("vscode-dark", "--vscode-editor-foreground:#cccccc", "#1f1f1f"),
    "light": ("vscode-light", "--vscode-editor-foreground:#3b3b3b", "#ffffff"),
    "high contrast": ("vscode-high-contrast", "--vscode-editor-foreground:#ffffff", "#000000"),
}


@pytest.mark.parametrize("theme", VSCODE)
def test_an_output_has_the_colours_of_vs_code_and_needs_no_script(browser, stored, requests, theme):
    name, variables, ground = VSCODE[theme]
    forms = [output["data"] for shown in stored for output in shown]
    cells = "".join(
        f'<div class="output_container"><div class="output">{form.get("text/html", form["text/plain"])}</div></div>'
        for form in forms
    )
    scheme = "light" if theme != "light" else "dark"  # that of the desktop may differ from the editor's
    page = browser.new_page(viewport={"width": 1000, "height": 1600}, color_scheme=scheme)
    page.on("request", lambda request: requests.urls.append(request.url))
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    body = f'<body class="{name}" style="background:{ground};color:#808080">{cells}</body>'
    page.set_content(f'<html style="{variables}">{body}</html>')

    wanted = variables.partition(":")[2]
    ink = page.locator(".clvlab h4").first.evaluate("heading => getComputedStyle(heading).color")
    assert ink == "rgb({}, {}, {})".format(*bytes.fromhex(wanted[1:]))
    assert page.locator(".clvlab").first.evaluate(CONTRAST) == []
    assert page.locator(".clvlab-still").first.evaluate(CONTRAST) == []
    assert page.locator(".clvlab-still svg").first.is_visible()
    assert not page.get_by_text("Run this cell for the interactive view.").is_visible()  # the still says it
    assert requests.external == []
    page.close()
