"""A newcomer's trip: the README's five lines, notebook 01, the run's page, the verifier in the browser, and what lost most."""

import re
from pathlib import Path

import pytest

from clvlab.report.browser.page import verifier_page
from tests.browser.jupyter import WAIT_MS
from tests.browser.pages import cut_off, follow, open_notebook, run_all
from tests.service import serving

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]


def five_lines():
    """What the README's first Python says, once it was run."""
    namespace = {}
    exec(re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)[1], namespace)
    return namespace["bt"]


@pytest.fixture
def served(tmp_path):
    with serving.api(tmp_path) as found:
        yield found


def test_from_the_readme_to_the_decision_that_lost_most(browser, lab, requests, served, tmp_path):
    # The README, as it is printed.
    bt = five_lines()
    scored = bt.scores.frame.filter(reason="scored").sort("clv_bps")
    lost = scored.row(0, named=True)

    # The first notebook, from top to bottom.
    notebook = open_notebook(browser, lab, "01_first_backtest.ipynb", requests)
    assert run_all(notebook) == []
    assert notebook.locator(".clvlab .verdict", has_text="+27 bps [-6, +60] of CLV, and -3.56 %").count() >= 1
    notebook.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    notebook.close()

    # The same backtest at a service: its page is found by links alone, and says the same.
    asked = {"pack_id": "season", "fixture_ids": None, "strategy": "cumulative-drift"}
    run_id = served.post("/backtests", asked, by=served.nobody, headers={"Prefer": "wait=60"})["run_id"]
    page = browser.new_page(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    page.goto(served.url)
    follow(page.get_by_role("link", name=f"{run_id[:16]}…"))
    assert (
        "Loses at its prices, and its CLV may be luck: +27 bps [-6, +60] of CLV" in page.locator(".verdict").first.inner_text()
    )
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Proof bundle").click()
    downloading.value.save_as(tmp_path / "run.clv")

    # The verifier, from the disk and without a network.
    (tmp_path / "verify.html").write_bytes(verifier_page())
    verifier = browser.new_page(offline=True)
    verifier.goto((tmp_path / "verify.html").as_uri())
    verifier.set_input_files("#files", tmp_path / "run.clv")
    computed = f"{bt.scores.frame.height:,} scores were recomputed"
    verifier.locator("#verdict.pass", has_text=computed).wait_for(timeout=WAIT_MS)
    verifier.close()

    # The decision that lost most, and why.
    follow(page.locator(".moved").first.get_by_role("link").first)
    assert page.locator("h1").inner_text() == f"Decision {lost['seq']}"
    assert f"{lost['clv_bps']:,} bps of CLV" in page.locator(".verdict").inner_text()
    arithmetic = f"{lost['close_prob_bps']} - {lost['entry_prob_bps']}"
    assert page.locator("td", has_text=arithmetic).count() == 1
    assert [found for found in cut_off(page, "main") if ".unseen" not in found] == []
    page.close()
