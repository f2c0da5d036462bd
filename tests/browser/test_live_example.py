"""The page of the docs that shows a live competition from the public API alone, over a connection that breaks."""

import functools
import http.server
import re
import selectors
import socket
import threading
import time
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.browser.jupyter import WAIT_MS
from tests.browser.pages import cut_off
from tests.length import few
from tests.service import serving

pytestmark = pytest.mark.browser

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
HOSTILE = "<img src=x onerror=alert(1)>\u202egnp" + 120 * "x"
AGENTS = ("baseline", "cumulative-drift", "sharp-momentum-v2")
LIVE = {"competition_type": "arena", "source_mode": "live", "market_scope": "all", "roster_size": 4, "fixture_id": 90000000}
CUTS = 4


class Relay:
    """Passes TCP connections on to a service, and breaks all of them when told."""

    def __init__(self, port):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self._to, self._open, self._lock = port, set(), threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._pump, args=(near,), daemon=True).start()

    def _pump(self, near):
        far = socket.create_connection(("127.0.0.1", self._to))
        pair = {near: far, far: near}
        with self._lock:
            self._open |= pair.keys()
        with near, far, selectors.DefaultSelector() as ready:
            for one in pair:
                ready.register(one, selectors.EVENT_READ)
            try:
                while True:
                    for key, _ in ready.select(0.2):
                        data = key.fileobj.recv(65536)
                        if not data:
                            return
                        pair[key.fileobj].sendall(data)
            except OSError:  # cut
                return
            finally:
                with self._lock:
                    self._open -= pair.keys()

    def cut(self):
        with self._lock:
            for one in self._open:
                one.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()
        self.cut()


@contextmanager
def files(folder):
    """A web server of files that knows nothing of the service; gives its origin."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def origin():
    with files(EXAMPLES) as found:
        yield found


@pytest.fixture(scope="module")
def served(origin, tmp_path_factory):
    """A service with a feed for a first look, on which a match lasts nine seconds."""
    folder = tmp_path_factory.mktemp("live")
    feed = {"devfeed": True, "live_folder": folder / "live", "replay_speed": 40000}
    with serving.api(folder, stream_poll_s=0.05, cors_origins=origin, **feed) as found:
        found.done, _ = found.started()
        yield found


@pytest.fixture
def relay(served):
    with closing(Relay(int(served.url.rsplit(":", 1)[1]))) as found:
        yield found


def opened(browser, origin, served_url, competition="", status="", **options):
    page = browser.new_page(**options)
    page.set_default_timeout(WAIT_MS)
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(f"{origin}/live.html?service={served_url}&status={status}&competition={competition}")
    return page


def test_a_broken_connection_leaves_no_gap_and_shows_nothing_twice(browser, origin, served, relay):
    created = served.competition(LIVE, AGENTS)
    sockets = []
    page = browser.new_page()
    page.set_default_timeout(WAIT_MS)
    page.on("websocket", lambda one: sockets.append(one.url))
    page.goto(f"{origin}/live.html?service=http://127.0.0.1:{relay.port}&competition={created}")
    page.locator("#news", has_text="Live.").wait_for()

    assert served.alice.post(f"/competitions/{created}/start").status_code == 202
    pending = 0
    for _ in range(CUTS):
        page.wait_for_timeout(1200)
        pending = max(pending, page.locator("#decisions td", has_text="pending until the seal").count())
        relay.cut()
    page.locator("#news", has_text="The log is complete.").wait_for()

    log = served.get(f"/competitions/{created}/events", since_seq=-1)
    reported = [one for one in log if one["kind"] == "AGENT_ACTION" and not one["evidence"]]
    scores = [one["payload"] for one in log if one["kind"] == "LAW_RESULT"]
    assert len(sockets) >= CUTS
    assert len({re.search("since_seq=(.*)", url)[1] for url in sockets}) >= 2  # it was resumed within the log
    assert pending > 0
    assert page.evaluate("competition.entries") == len(log)
    seqs = [int(one.get_attribute("data-seq")) for one in page.locator("#decisions tr").all()]
    assert seqs == [one["seq"] for one in reversed(reported)]
    shown = [text for text in page.locator("#decisions tr td:nth-child(3)").all_inner_texts() if text.endswith(" bps")]
    said = [int(text.replace(",", "").removesuffix(" bps")) for text in shown]
    assert sorted(said) == sorted(one["clv_bps"] for one in scores if one["clv_bps"] is not None)
    assert page.locator("#decisions td", has_text="pending").count() == 0
    board = served.get(f"/competitions/{created}")["leaderboard"]
    assert page.locator("#entrants th").all_inner_texts() == [row["agent_id"] for row in board]
    assert page.inner_text("#title") == "Birch North – Glen North"
    page.close()


def test_the_list_leads_to_a_sealed_competition_without_its_whole_log(browser, origin, served):
    page = opened(browser, origin, served.url, status="FINALIZED")  # whatever drafts other tests made since

    page.get_by_role("link", name=served.done).click()
    page.locator("#news", has_text="This competition is over.").wait_for()

    run_id = served.get(f"/competitions/{served.done}")["run_id"]
    rows = served.get(f"/runs/{run_id}/decisions")["decisions"]
    assert page.locator("#decisions tr").count() == len(rows)
    assert page.locator("#entrants tr").count() == 2
    assert page.complaints == []
    page.close()


def test_a_long_list_is_read_page_by_page(browser, origin, served):
    for _ in range(60):
        served.post("/competitions", serving.CONFIG)
    page = opened(browser, origin, served.url)

    page.get_by_role("button", name="More").click()
    page.locator("#list li").nth(50).wait_for()

    ids = page.locator("#list a").all_inner_texts()
    assert ids == [one["competition_id"] for one in served.get("/competitions")[: len(ids)]]
    assert len(ids) > 60
    assert page.get_by_role("button", name="More").count() == 0
    page.close()


def test_hostile_names_are_text(browser, origin, served):
    created = served.competition(agents=())
    served.post(f"/competitions/{created}/agents", serving.make_entry(agent_id=HOSTILE))
    page = opened(browser, origin, served.url, created, viewport={"width": 360, "height": 700})
    page.wait_for_selector("#entrants th")

    assert page.locator("img").count() == 0
    assert page.locator("#entrants th").text_content() == HOSTILE
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.complaints == []
    page.close()


def test_what_is_wrong_is_said(browser, origin, served):
    page = opened(browser, origin, served.url, "comp_none")
    page.locator("#news", has_text="comp_none").wait_for()
    page.close()
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    page = opened(browser, origin, f"http://127.0.0.1:{port}")
    page.locator("#news", has_text="CLVLAB_CORS_ORIGINS").wait_for()
    page.close()


@few(2)
@pytest.mark.parametrize(("width", "theme"), [(360, "dark"), (800, "light"), (1440, "light"), (1440, "dark")])
def test_it_fits_asks_nobody_else_and_axe_finds_nothing_serious(browser, origin, served, artefacts, width, theme):
    asked = []
    page = opened(browser, origin, served.url, viewport={"width": width, "height": 800}, color_scheme=theme, bypass_csp=True)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{origin}/live.html?service={served.url}&status=&competition={served.done}")
    page.wait_for_selector("#decisions tr")
    time.sleep(0.2)
    page.screenshot(path=artefacts / f"live-example-{width}-{theme}.png", full_page=True)

    assert all(url.startswith((origin, served.url, "data:")) for url in asked)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert cut_off(page, "body") == []
    if find_spec("axe_playwright_python") is not None:
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(page).response["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical", "moderate")] == []
    page.close()
