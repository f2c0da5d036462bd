"""What a page shows of our outputs if it has no widgets, scripts, styles or SVG, as a static view of a notebook on the web."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import IPython.display
import pytest
from anywidget import AnyWidget

import clvlab as cl
from clvlab.lab.widgets import explorer, interactive
from clvlab.lab.widgets.explorer import ExplorerWidget
from clvlab.lab.widgets.proofs import PlaygroundWidget

ROOT = Path(__file__).parents[2]
WIDGET = "application/vnd.jupyter.widget-view+json"
CARD_CSS = ROOT / "clvlab" / "report" / "templates" / "card.css"


class Static(HTMLParser):
    """The text, pictures and tables of a page after its scripts, styles, SVG and hidden parts are dropped."""

    DROPPED = ("script", "style", "svg")
    EMPTY = ("img", "br", "input", "hr", "wbr", "progress")

    def __init__(self, html):
        super().__init__()
        self.hidden, self.open, self.text, self.pictures, self.tables = 0, [], "", [], 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        drop = tag in self.DROPPED or "display:none" in (found.get("style") or "").replace(" ", "")
        if tag not in self.EMPTY:
            self.open.append(drop)
            self.hidden += drop
        if not self.hidden:
            self.tables += tag == "table"
            if tag == "img" and found["src"].startswith("data:image/png;base64,") and found["alt"]:
                self.pictures.append(found["alt"])

    def handle_endtag(self, tag):
        if tag not in self.EMPTY and self.open:
            self.hidden -= self.open.pop()

    def handle_data(self, data):
        if not self.hidden:
            self.text += data


def remains(outputs):
    """What a static page shows of the outputs of a cell."""
    texts = []
    for data in outputs:
        kept = {kind: "".join(value) for kind, value in data.items() if not isinstance(value, dict)}
        texts.append(kept.get("text/html") or f"<pre>{kept.get('text/plain', '')}</pre>")
    return Static("".join(texts))


@pytest.fixture(scope="module")
def bt():
    return cl.backtest("starter", "cumulative-drift")


WIDGETS = {
    "explorer": lambda bt: bt.explore(90000005),
    "evidence": lambda bt: bt.run.browse(),
    "merkle": lambda bt: bt.run.merkle_path(5),
    "playground": lambda bt: bt.run.tamper().attack("raise a stake"),
}


@pytest.mark.parametrize("name", WIDGETS)
class TestWithoutWidgetsScriptsAndStyles:
    def test_every_output_of_a_cell_shows_something(self, bt, name, monkeypatch):
        outputs = []
        monkeypatch.setattr(IPython.display, "publish_display_data", outputs.append)

        WIDGETS[name](bt)._ipython_display_()

        assert [WIDGET in data for data in outputs] == [False, True]
        assert all(remains([data]).text.strip() for data in outputs)
        assert remains(outputs).tables >= 1
        assert (name == "explorer") == bool(remains(outputs).pictures)

    def test_a_bundle_has_the_still_next_to_the_widget(self, bt, name):
        bundle = WIDGETS[name](bt)._repr_mimebundle_()

        assert {WIDGET, "text/html", "text/plain"} == set(bundle)
        assert remains([bundle]).tables >= 1
        assert not re.search(r"<script|require\(|Jupyter\.|https?://", bundle["text/html"])


def widget_cells():
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for at, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
            outputs = [output["data"] for output in cell.get("outputs", ()) if "data" in output]
            if any(WIDGET in data for data in outputs):
                yield pytest.param(outputs, id=f"{path.stem}-{at}")


@pytest.mark.parametrize("outputs", list(widget_cells()))
def test_a_stored_notebook_shows_a_picture_or_a_table_for_each_widget(outputs):
    shown = remains(outputs)

    assert shown.pictures or shown.tables


def test_the_notebooks_have_widgets():
    assert len(list(widget_cells())) >= 4


def test_colours_of_jupyter_fall_back_to_those_of_vs_code():
    for style in (CARD_CSS.read_text(encoding="utf-8"), explorer.STYLE):
        of_jupyter = re.findall(r"var\((--jp-[\w-]+),?([^;}]*)", style)

        assert of_jupyter
        assert all(rest.startswith("var(--vscode-") for _, rest in of_jupyter), of_jupyter


@pytest.mark.parametrize(
    "script", [explorer._KEYS_ESM, explorer._FITTING_ESM, interactive._PICKER_ESM, interactive._SINGLE_ESM]
)
def test_no_script_needs_anything_of_the_page(script):
    assert not re.search(r"require|Jupyter\b|jupyterapp|https?://|import ", script)


# marimo


@pytest.fixture
def marimo(monkeypatch):
    """Replace marimo by the two names that we use, which return what they get; the browser's tests run marimo itself."""
    module = SimpleNamespace(Html=lambda text: text, ui=SimpleNamespace(anywidget=lambda widget: widget))
    monkeypatch.setitem(sys.modules, "marimo", module)


@pytest.mark.usefixtures("marimo")
@pytest.mark.parametrize("shown", ["bt", "bt.report", "bt.run", "bt.run.verify()", "bt.tear_sheet(resamples=100, draws=5)"])
def test_marimo_gets_a_card_as_plain_text(bt, shown):
    card = eval(shown, {"bt": bt})._display_()

    assert type(card) is str
    assert card.startswith('<div class="clvlab">')


@pytest.mark.usefixtures("marimo")
@pytest.mark.parametrize("name", WIDGETS)
def test_marimo_gets_a_widget_as_one_anywidget(bt, name):
    made = WIDGETS[name](bt)._display_()

    assert isinstance(made, AnyWidget)
    json.dumps(made.get_state()["tree"])
    parts = [getattr(made, part) for part in made.trait_names() if part.startswith("part_")]
    assert parts
    assert {type(value) for part in parts for value in part.values()} <= {str, int, bool, float, tuple, type(None)}


@pytest.mark.usefixtures("marimo")
def test_marimo_without_anywidget_gets_the_card(bt, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)

    assert "<table" in bt.explore(90000005)._display_()


class TestSingle:
    def parts(self, made, kind):
        """Names of the parts of a kind, in their order in the tree."""

        def walk(node):
            if "children" in node:
                for child in node["children"]:
                    yield from walk(child)
            elif node.get("kind") == kind:
                yield node["part"]

        return list(walk(made.tree))

    def act(self, made, part, value=None, **more):
        made._handle_custom_msg({"part": part, "value": value, **more}, [])

    def test_what_a_person_does_moves_the_explorer_and_its_parts(self, bt):
        shell = ExplorerWidget(bt.explore(90000005))
        made = interactive.single(shell.box)
        (slider,), (play,) = self.parts(made, "IntSlider"), self.parts(made, "Play")
        search, (fixture, *_) = self.parts(made, "Text")[0], self.parts(made, "Dropdown")

        self.act(made, slider, 3)
        assert (shell.explorer.position, getattr(made, slider)["value"]) == (3, 3)
        self.act(made, play, 5)
        assert (shell.explorer.position, getattr(made, slider)["value"], getattr(made, play)["value"]) == (5, 5, 5)
        self.act(made, play, trait="playing", value=True)
        assert shell.play.playing
        self.act(made, search, "90000003")
        assert shell.explorer.fixture_id == 90000003
        self.act(made, fixture, 0)
        assert shell.explorer.fixture_id == shell.fixture.options[0][1]
        names = [getattr(made, part)["description"] for part in self.parts(made, "Button")]
        self.act(made, self.parts(made, "Button")[names.index("Next decision")])
        assert "Decision" in shell.record.value

    def test_a_line_is_written_in_the_playground(self, bt):
        shell = PlaygroundWidget(bt.run.tamper())
        made = interactive.single(shell.box)
        (text,) = self.parts(made, "Textarea")
        names = [getattr(made, part)["description"] for part in self.parts(made, "Button")]

        self.act(made, text, "{}")
        self.act(made, self.parts(made, "Button")[names.index("Write the line")])

        assert len(shell.playground.changes) == 1

    @pytest.mark.parametrize("message", [{}, {"part": "part_9999", "value": 1}, {"part": None}, {"part": "tree", "value": {}}])
    def test_a_message_about_no_part_changes_nothing(self, bt, message):
        shell = ExplorerWidget(bt.explore(90000005))
        made = interactive.single(shell.box)
        before = made.get_state()

        made._handle_custom_msg(message, [])

        assert made.get_state() == before
