"""Fixtures of the tests in a real browser; without Chromium, playwright or JupyterLab they are skipped, and say why."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.browser.jupyter import Requests, chromium, jupyterlab

_ROOT = Path(__file__).parents[2]
_ARTEFACTS = _ROOT / "test-artifacts"


@pytest.fixture(scope="session")
def browser_path():
    """Where Chromium is."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    if find_spec("playwright") is None:
        pytest.skip("no playwright: pip install 'clvlab[browser]'")
    return path


@pytest.fixture(scope="module")
def browser(browser_path):
    """Headless Chromium that resolves no name but this machine's; while it runs, so does an event loop of its driver."""
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=browser_path, args=arguments)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def lab(browser_path, tmp_path_factory):  # noqa: ARG001  without a browser nothing is served
    """A JupyterLab over copies of the notebooks."""
    if find_spec("jupyterlab") is None:
        pytest.skip("no JupyterLab: pip install 'clvlab[notebook]'")
    root = tmp_path_factory.mktemp("notebooks")
    for path in (_ROOT / "notebooks").glob("0*.ipynb"):
        shutil.copy(path, root)
    with jupyterlab(root, tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture
def requests():
    return Requests()


@pytest.fixture(scope="session")
def artefacts():
    """Where screenshots are kept, to be looked at; no part of the repository."""
    _ARTEFACTS.mkdir(exist_ok=True)
    return _ARTEFACTS
