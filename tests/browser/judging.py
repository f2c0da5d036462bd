"""The verifier's page in headless Chromium, asked about many cases at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clvlab.report.browser.page import verifier_page
from tests.browser.jupyter import chromium
from tests.browser.recording import Case

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["PageJudge", "disagreement", "launched"]

_BATCH = 200
_BULK = Path(__file__).with_suffix(".js")
_STATES = "states_from_ticks"
_ASK = "async cases => (await window.bulk.ask('batch', {cases}))"


class PageJudge:
    """A page from the disk, and a judge of it that takes questions in bulk."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.file = folder / "verify.html"
        self.file.write_bytes(verifier_page())
        self.page: Page = browser.new_page()
        self.page.set_default_timeout(120_000)
        self.page.goto(self.file.as_uri())
        self.page.evaluate("more => { window.bulk = new Judge(the('judge').textContent + more); }", _BULK.read_text())

    def answers(self, cases: Iterable[Case]) -> Iterator[tuple[Case, Any]]:
        """Each case with what the page says of it."""
        waiting = iter(cases)
        while some := list(islice(waiting, _BATCH)):
            asked = [{"kind": case["kind"], "given": case["given"]} for case in some]
            yield from zip(some, self.page.evaluate(_ASK, asked), strict=True)


@contextmanager
def launched(folder: Path) -> Iterator[PageJudge]:
    """Start a browser of one's own, outside of tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield PageJudge(browser, folder)
        browser.close()


def disagreement(said: Any, page: Any) -> str | None:
    """Say how the page differs from the stand-alone file, or null."""
    ours, theirs = _verdicts(said), _verdicts(page)
    if ours in ("holds", "broken") and isinstance(theirs, dict):  # asked for the one check of a disclosure
        theirs = "broken" if set(theirs["checks"].values()) == {"fail"} else "holds"
    if isinstance(ours, dict) and ours.get("checks", {}).keys() == {_STATES}:  # asked for the prices alone
        ours, theirs = ours["checks"][_STATES], theirs["checks"][_STATES]
    return None if ours == theirs else f"the file says {ours}, the page {theirs} ({page})"


def _verdicts(said: Any) -> Any:
    """What must be the same: all but the sentences; and of those that a forged manifest states, the texts."""
    if not isinstance(said, dict) or "checks" not in said:
        return said
    checks = {name: "fail" if fault else "pass" for name, fault in said["checks"].items()}
    recomputed = re.sub("^recompute_error:.*", "recompute_error", said["recomputed_evidence_hash"], flags=re.DOTALL)
    stated = {name: said[name] for name in ("run_id", "evidence_hash") if name in said and _plain(said[name])}
    others = {
        name: said[name] for name in ("manifest_hash", "verified", "without", "log", "bundle_states_unsigned") if name in said
    }
    return {"checks": checks, "recomputed_evidence_hash": recomputed} | stated | others


def _plain(value: object) -> bool:
    return isinstance(value, str) and value.isascii()
