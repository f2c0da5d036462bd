"""The documentation as a site: it builds strictly, has every public name, asks no other host, and can be searched."""

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.browser.pages import cut_off
from tests.docs.test_public_names import MEMBERS
from tests.length import few

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
PAGES = (
    "index",
    "tutorials/first-backtest",
    "api/backtest",
    "notebooks/02_compare_and_sweep",
    "explanation/performance",
    "reference/glossary",
)


class Fetched(HTMLParser):
    """What a page makes a browser fetch, as opposed to where its links lead; and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.fetched, self.ids, self.pictures = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        said = dict(attrs)
        self.ids += [said["id"]] if "id" in said else []
        if tag == "link" and said.get("rel") not in ("prev", "next", "canonical"):
            self.fetched.append(said["href"])
        self.fetched += [said[name] for name in ("src", "srcset", "data", "poster") if said.get(name) and tag != "a"]
        if tag == "img" or (tag == "svg" and said.get("role") == "img"):
            self.pictures.append(said.get("alt") or said.get("aria-label"))


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The site, built strictly: a warning is an error."""
    if find_spec("mkdocs") is None:
        pytest.skip("no MkDocs: pip install 'clvlab[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", ".mkdocs.yml", "--site-dir", folder]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def read(site):
    """Every page of the site, by its path."""
    return {str(path.relative_to(site)): Fetched(path.read_text("utf-8")) for path in sorted(site.glob("**/*.html"))}


@contextmanager
def served(folder):
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *said):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_no_page_fetches_from_elsewhere(site, read):
    outside = {path: [url for url in page.fetched if re.match(r"(\w+:)?//", url)] for path, page in read.items()}
    imported = re.compile(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//")
    styles = [path.name for path in site.glob("**/*.css") if imported.search(path.read_text("utf-8"))]

    assert len(read) > 50
    assert {path: urls for path, urls in outside.items() if urls} == {}
    assert styles == []


def test_every_public_name_has_an_anchor(read):
    anchors = {anchor for path, page in read.items() if path.startswith("api/") for anchor in page.ids}

    assert [name for name in MEMBERS if name != "errors" and f"clvlab.{name}" not in anchors] == []


def test_every_picture_says_what_it_shows(read):
    pictures = [said for page in read.values() for said in page.pictures if said != "logo"]

    assert len(pictures) > 15
    assert all(pictures)


def test_no_anchor_stands_twice_on_a_page(read):
    assert {path: twice for path, page in read.items() if (twice := {own for own in page.ids if page.ids.count(own) > 1})} == {}


@few(2)
@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (800, "dark"), (1280, "light")])
def test_pages_fit_and_ask_no_other_host(site, browser, artefacts, width, scheme):
    with served(site) as url:
        page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=scheme)
        asked, failed = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("requestfailed", lambda request: failed.append(request.url))
        for path in PAGES:
            page.goto(f"{url}{path}.html", wait_until="networkidle")
            page.screenshot(path=artefacts / f"site-{path.replace('/', '-')}-{width}-{scheme}.png")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
            assert cut_off(page, "main .md-content .picture") == []
        page.close()
        assert asked
        assert [one for one in asked if not one.startswith((url, "data:", "blob:"))] == []
        assert failed == []


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_axe_finds_nothing(site, browser, width, scheme):
    if find_spec("axe_playwright_python") is None:
        pytest.skip("no axe-core: pip install axe-playwright-python")
    from axe_playwright_python.sync_playwright import Axe

    with served(site) as url:
        page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=scheme)
        for path in PAGES[:4]:
            page.goto(f"{url}{path}.html", wait_until="networkidle")
            found = Axe().run(page).response["violations"]
            assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == [], path
        page.close()


def test_the_search_finds_a_public_name(site, browser):
    with served(site) as url:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(f"{url}index.html")
        search, found = page.locator(".md-search__input"), page.locator(".md-search-result__link").first
        for _ in range(30):  # the page listens once it has its index, and forgets what was typed before
            search.fill("")
            search.press_sequentially("walk_forward")
            page.wait_for_timeout(500)
            if found.is_visible():
                break
        found.wait_for()

        assert "api/" in found.get_attribute("href")
        page.close()


def test_a_term_leads_to_its_meaning(site, browser):
    with served(site) as url:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(f"{url}tutorials/first-backtest.html")
        page.locator("a.term", has_text="pack").first.click()
        page.wait_for_url("**/glossary.html#term-pack")

        assert page.locator("#term-pack").is_visible()
        page.close()
