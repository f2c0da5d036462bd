"""Whatever somebody named or wrote comes out as text, on every face."""

import sys
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from ipywidgets import HTML

import clvlab as cl
from clvlab.lab.progress import state_display
from clvlab.report import axes, html, svg
from clvlab.report.explorer import figure
from clvlab.report.tearsheet import tear_sheet_page
from tests.hostile import ENDING, assert_only_text, hostile_values

GRID = {"warmup_ticks": [5, 20], "cooldown_s": [0, 3600]}
MANY = {"warmup_ticks": [5, 10, 15, 20, 30, 40], "cooldown_s": [0, 3600]}
NAME = f"Alpha{ENDING}"


@pytest.fixture(scope="module")
def bt():
    return cl.backtest("starter", "cumulative-drift")


@pytest.fixture(scope="module")
def sheet(bt):
    return bt.tear_sheet(resamples=100, draws=5)


@pytest.fixture(scope="module")
def sweep():
    return cl.sweep("starter", "cumulative-drift", GRID, resamples=1_000, progress=False)


@pytest.fixture(scope="module")
def leads():
    season = cl.open_pack("season").where(before="2026-01-04")
    return cl.lead_lag(cl.join_sources([season, season.where(markets="1X2")]), draws=19, max_lag_s=5)


def card(face):
    return face()._repr_html_()


def graded():
    fixture = cl.open_pack("starter").source.fixtures.row(0, named=True)
    row = {"placed at": "2026-01-01T00:00:00Z", "match": fixture["names"], "market": "1X2", "pick": "home", "odds": 2.4}
    return cl.grade_bets(pl.DataFrame([row | {"stake": "5"}, row | {"match": NAME, "stake": "5"}]), "starter")


def attacked(run):
    return run.tamper().attack("raise a stake")


def peeking():
    @cl.strategy
    def peeks(ticks):
        return ticks.filter(pl.col("prob_bps") < pl.col("prob_bps").last().over("series") - 300)

    return cl.lookahead_audit(peeks, "starter")


def plan():
    with cl.Lab() as lab:
        return lab.plan("starter", "cumulative-drift", GRID, hold_out=0.45)._repr_html_()


def searched():
    some = range(90000000, 90000040)
    return cl.sweep("season", "cumulative-drift", MANY, fixtures=some, resamples=1_000, progress=False)


def widget(made):
    """Return all HTML of a widget."""
    own = made.value if isinstance(made, HTML) else getattr(made, "content", "")
    parts = () if own.startswith("<style>") else (own,)
    return "".join([*parts, *(widget(child) for child in getattr(made, "children", ()))])


def explored(bt, act):
    from clvlab.lab.widgets.explorer import ExplorerWidget

    made = ExplorerWidget(bt.explore())
    act(made)
    return widget(made.box)


def named_by_nobody(made):
    made.search.value = NAME


def progress(monkeypatch):
    class Shell:
        def display(self, *_, **__):
            return self

        def update(self, shown):
            drawn.append(shown._repr_html_())

    class State:
        line, facts, outcome = "line", {"feed": "name"}, {"decisions": "7"}

    drawn = []
    monkeypatch.setattr("clvlab.lab.progress.notebook", Shell)
    with suppress(KeyboardInterrupt), state_display("Live run", "sealed", progress=True) as tell:
        tell(State())
        stopped = KeyboardInterrupt()
        stopped.add_note("stopped")
        raise stopped
    return "".join(drawn)


FACES = {
    "agents": lambda _: card(cl.agents),
    "audit": lambda _: card(lambda: cl.lookahead_audit("baseline", "starter")),
    "audit, failed": lambda _: card(peeking),
    "bankroll": lambda ask: card(lambda: ask("sheet").bankroll(edge=0.03)),
    "bets": lambda _: card(graded),
    "comparison": lambda ask: card(lambda: cl.compare([ask("bt"), cl.backtest("starter", "baseline")])),
    "evidence": lambda ask: card(ask("bt").run.browse),
    "evidence line": lambda ask: ask("bt").run.browse().detail(5),
    "evidence widget": lambda ask: widget(ask("bt").run.browse().widget),
    "explorer": lambda ask: card(ask("bt").explore),
    "explorer widget": lambda ask: explored(ask("bt"), lambda made: made._verify()),
    "explorer widget, no such fixture": lambda ask: explored(ask("bt"), named_by_nobody),
    "explorer's legend": lambda ask: figure.legend(ask("bt").explore().view),
    "explorer's record": lambda ask: explored(ask("bt"), lambda made: made._step(1)),
    "leaderboard": lambda ask: card(lambda: cl.leaderboard([ask("bt")])),
    "lead-lag": lambda ask: card(lambda: ask("leads")),
    "listing": lambda _: card(cl.packs),
    "Merkle path": lambda ask: card(lambda: ask("bt").run.merkle_path(5)),
    "Merkle widget": lambda ask: widget(ask("bt").run.merkle_path(5).widget),
    "moved lines": lambda ask: card(ask("bt").moved_lines),
    "no moved lines": lambda _: card(cl.backtest("starter", window=cl.Window("none", market_allowlist=("X",))).moved_lines),
    "overfitting": lambda _: card(lambda: searched().overfitting(blocks=8)),
    "pack": lambda _: card(lambda: cl.open_pack("starter")),
    "page": lambda ask: html.page(NAME, ask("bt")._repr_html_()),
    "plan": lambda _: plan(),
    "playground": lambda ask: card(lambda: attacked(ask("bt").run)),
    "playground widget": lambda ask: widget(attacked(ask("bt").run).widget),
    "power": lambda ask: card(lambda: ask("bt").power(34)),
    "power of a sweep": lambda ask: card(lambda: ask("sweep").power(34)),
    "price path": lambda _: card(cl.open_pack("starter").price_path),
    "progress": lambda ask: progress(ask("monkeypatch")),
    "proof card": lambda ask: card(ask("bt").run.proof_card),
    "regression": lambda ask: card(lambda: ask("bt").regress("clv_bps ~ side + market + stake")),
    "report": lambda ask: card(lambda: ask("bt").report),
    "result": lambda ask: card(lambda: ask("bt")),
    "run": lambda ask: card(lambda: ask("bt").run),
    "sweep": lambda ask: card(lambda: ask("sweep")),
    "tear sheet": lambda ask: card(lambda: ask("sheet")),
    "tear sheet, page": lambda ask: tear_sheet_page(ask("bt").source),
    "verification": lambda ask: card(ask("bt").run.verify),
    "walk forward": lambda _: card(lambda: cl.walk_forward("starter", "cumulative-drift", GRID, folds=2, progress=False)),
}
"""Name of each face, and what shows it; ``ask`` returns what is made once for all of them."""
ELSEWHERE = {"bar.html", "checks.html", "macros.html", "moved_means.html", "newest.html", "still.html"}
"""Templates that no face here shows by itself: other tests do, or other templates take them in."""


def test_hostile_text_is_text_on_every_face_and_every_template_is_part_of_one(request, monkeypatch, subtests):
    environment, seen = html._environment(), set()
    load = environment.get_template
    monkeypatch.setattr(
        environment, "get_template", lambda name, *more, **options: seen.add(name) or load(name, *more, **options)
    )

    for face, show in FACES.items():
        with subtests.test(face):
            with hostile_values():
                shown = show(request.getfixturevalue)

            assert_only_text(shown)

    own = {path.name for path in (Path(html.__file__).parent / "templates").glob("*.html")}
    assert own - seen <= ELSEWHERE


def test_no_template_and_no_module_calls_a_text_safe():
    root = Path(cl.__file__).parent
    pages = Path(sys.modules["clvlab_service"].__file__).parent if "clvlab_service" in sys.modules else root
    texts = {path: path.read_text() for folder in (root, pages) for path in folder.rglob("*.html")}

    assert texts
    assert [path for path, text in texts.items() if "|safe" in text.replace(" ", "") or "autoescape" in text] == []


PICTURES = {
    "calendar": lambda: svg.calendar_map({svg.day_of(0): (1.0, 2)}, unit=NAME, what=NAME),
    "cumulative line": lambda: svg.cumulative_line([0, 864e5], [1.0, 2.0], [None] * 2, [None] * 2, title=NAME, unit=NAME),
    "fall": lambda: svg.fall_area([0, 864e5], [0.0, -1.0], title=NAME, unit=NAME),
    "grid": lambda: svg.cell_grid([NAME], [NAME], {(0, 0): 1.0}, {(0, 0): NAME}, across=NAME, down=NAME, title=NAME),
    "interval": lambda: svg.interval_bar(1.0, 0.0, 2.0, unit=NAME),
    "matplotlib": lambda: axes.svg(lambda ax: ax.set(title=NAME.replace("\x00", ""), xlabel="\u202e"), NAME),
    "times": lambda: svg.time_columns([0, 1], what=NAME),
}


@pytest.mark.parametrize("picture", PICTURES)
def test_hostile_text_in_a_picture_is_text(picture):
    assert_only_text(PICTURES[picture]())


def test_a_template_that_calls_a_text_safe_is_found(monkeypatch):
    environment = html._environment()
    broken = environment.from_string("<p>{{ facts|safe }}</p>")
    monkeypatch.setattr(environment, "get_template", lambda *_: broken)

    with hostile_values(), pytest.raises(AssertionError):
        assert_only_text(html.render("facts.html", facts="harmless"))
