"""The service's pages in a browser: what they look like, what they ask for, and a newcomer's way through them."""

import json
from importlib.util import find_spec
from urllib.parse import quote

import pytest

from clvlab.arena.seats.requests import SeatAction
from clvlab.words import seat_power
from tests.browser.jupyter import WAIT_MS
from tests.browser.pages import LOOKS, cut_off, follow
from tests.length import few
from tests.service import serving
from tests.service.tokens import ALICE

pytestmark = pytest.mark.browser

_PACK = {"pack_id": "season", "fixture_ids": None, "strategy": "cumulative-drift"}
_LONG = "<b>long</b> " + 150 * "x"
_LIVE = serving.CONFIG | {"source_mode": "live", "fixture_id": serving.FIXTURE}
_AGENTS = ("baseline", "cumulative-drift", "sharp-momentum-v2")
_OUTLINE = "() => { const style = getComputedStyle(document.activeElement); return [style.outlineStyle, style.outlineWidth]; }"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    feed = {"devfeed": True, "live_folder": tmp_path_factory.mktemp("live"), "replay_speed": 40000}  # a match lasts 9 seconds
    with serving.api(tmp_path_factory.mktemp("keys"), stream_poll_s=0.1, **feed) as found:
        found.run_id = found.post("/backtests", _PACK, by=found.nobody, headers={"Prefer": "wait=60"})["run_id"]
        found.competition_id, started = found.started()
        found.several_id = started["run_id"]
        found.draft_id = found.competition(agents=())
        found.post(f"/competitions/{found.draft_id}/agents", serving.make_entry(agent_id=_LONG))
        waited = {"fixture_id": serving.FIXTURE, "tick_seq": 0, "action": "WAIT"}
        hostile = serving.make_entry("llm", agent_id=_LONG, config={"transcript": [waited]}, proof_mode="verified")
        found.hostile_id = found.competition(agents=("cumulative-drift",))
        found.post(f"/competitions/{found.hostile_id}/agents", hostile)
        found.post(f"/competitions/{found.hostile_id}/start")
        found.seats_id, found.blind_id = _seats(found)
        yield found


_ENTRANTS = (("underdog", -1, 5), ("favourite", 0, 40), (_LONG[:199].rstrip(), 1, 500))


def _seats(served):
    """An open competition of three sealed seats, one that plays and one that was given up; and a blind one."""
    fixtures = served.get("/replay-packs/season/fixtures", limit=8)["fixtures"]
    rules = {"pack_id": "season", "blind": "open", "fixture_ids": [one["fixture_id"] for one in fixtures]}
    made = served.post("/arena/competitions", {"name": f"Autumn {_LONG[:150]}", **rules})["competition_id"]
    seats, runs = served.app.state.application.seats, []
    for agent_id, side, every in _ENTRANTS:
        start = served.post("/arena/seats", {"agent_id": agent_id, "competition_id": made})
        tick = start["next"]
        while tick:
            view = tick["view"]
            body = {"tick": view["tick"]}
            if view["tick"] % every == 1 and view["sides"][side % 2][1]:
                body |= {"action": "BACK", "side": view["sides"][side % 2][0]}
            tick = seats.act(ALICE, start["seat_id"], SeatAction.model_validate(body))["next"]
        runs.append(start["run_id"])
    for run_id in runs:
        served.app.state.application.jobs.require_sealed(run_id)
    playing = served.post("/arena/seats", {"agent_id": "slow", "competition_id": made}, by=served.bob)
    served.post(f"/arena/seats/{playing['seat_id']}/actions", {"tick": 1}, by=served.bob)
    lost = served.post("/arena/seats", {"agent_id": "gone", "competition_id": made}, by=served.bob)
    served.bob.delete(f"/arena/seats/{lost['seat_id']}")
    blind = served.post("/arena/competitions", {"name": "Nobody knows", "pack_id": "season", "blind": "aliased"})
    start = served.post("/arena/seats", {"agent_id": "me", "competition_id": blind["competition_id"]}, by=served.bob)
    served.post(f"/arena/seats/{start['seat_id']}/actions", {"tick": 1}, by=served.bob)
    return made, blind["competition_id"]


def addresses(served):
    run = f"/runs/{served.run_id}"
    return {
        "home": "/", "leaderboard": "/leaderboard", "runs": "/runs", "run": run, "run-of-two": f"/runs/{served.several_id}",
        "decisions": f"{run}/decisions?limit=20", "decision": f"{run}/actions/1", "competitions": "/competitions",
        "competition": f"/competitions/{served.competition_id}", "competition-draft": f"/competitions/{served.draft_id}",
        "competition-hostile": f"/competitions/{served.hostile_id}?agent_id={quote(_LONG)}",
        "competition-filtered": f"/competitions/{served.competition_id}?action=WAIT", "mine": f"/leaderboard?owner={ALICE}",
        "packs": "/replay-packs", "pack": "/replay-packs/starter", "fixtures": "/replay-packs/season/fixtures?limit=20",
        "problem": "/runs/unknown", "seat-competitions": "/arena/competitions",
        "seat-competition": f"/arena/competitions/{served.seats_id}", "seat-blind": f"/arena/competitions/{served.blind_id}",
        "log": "/log", "strategies": "/strategies", "problems": "/problems", "wrong": "/runs?limit=0",
    }  # fmt: skip


@few(1)
@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_every_page_fits_asks_nobody_else_and_complains_of_nothing(browser, served, artefacts, width, theme):
    for name, path in addresses(served).items():
        asked, complaints = [], []
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=theme)
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.on("console", lambda message, complaints=complaints: complaints.append(message.text))
        page.on("pageerror", lambda error, complaints=complaints: complaints.append(str(error)))

        page.goto(f"{served.url}{path}")
        page.screenshot(path=artefacts / f"page-{name}-{width}-{theme}.png", full_page=True)

        assert all(url.startswith(served.url) for url in asked), name
        assert [said for said in complaints if " (" not in said or name not in ("problem", "wrong")] == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), name
        assert [found for found in cut_off(page, "main") if ".unseen" not in found and "SELECT" not in found] == [], name
        page.close()


@few(1)
@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_axe_finds_nothing(browser, served, width, theme):
    if find_spec("axe_playwright_python") is None:
        pytest.skip("no axe-core: pip install axe-playwright-python")
    from axe_playwright_python.sync_playwright import Axe

    for name, path in addresses(served).items():
        # axe puts itself into the page, which the policy of the page does not allow a page of its own
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=theme, bypass_csp=True)
        page.goto(f"{served.url}{path}")
        found = Axe().run(page).response["violations"]
        assert [(one["id"], one["impact"], one["nodes"][0]["html"][:200]) for one in found] == [], name
        assert page.locator("h1").count() == page.locator("main").count() == 1, name
        page.close()


def test_a_newcomer_finds_a_losing_decision_by_links_alone(browser, served):
    page = browser.new_page(viewport={"width": 360, "height": 700}, java_script_enabled=False)

    page.goto(f"{served.url}/")
    follow(page.get_by_role("link", name="All runs"))
    follow(page.get_by_role("region", name="Runs, newest first").get_by_role("link").last)
    assert "299 fixtures" in page.locator(".verdict").first.inner_text()
    follow(page.get_by_role("region", name="Largest losses").get_by_role("link").first)
    assert page.locator("h1").inner_text().startswith("Decision ")
    assert "The price moved against it" in page.locator(".verdict").inner_text()
    assert page.locator(".steps tbody tr").count() == 2
    page.close()


def test_a_spectator_finds_how_far_each_entrant_is_and_what_the_sealed_seats_show(browser, served):
    page = browser.new_page(viewport={"width": 1440, "height": 900}, java_script_enabled=False)
    page.goto(f"{served.url}/competitions")
    follow(page.get_by_role("link", name="competitions of seats"))
    follow(page.get_by_role("link", name="Autumn"))

    info = served.get(f"/arena/competitions/{served.seats_id}")
    rows = [row.inner_text() for row in page.get_by_role("region", name="Entrants by mean CLV").locator("tbody tr").all()]

    assert len(rows) == len(info["standing"]) == 5
    assert "needs about" in page.locator(".verdict").inner_text()
    assert seat_power(**info["power"]) in page.locator(".verdict").inner_text()
    slow = next(row for row in rows if "slow" in row)
    [ticks] = [one["ticks"] for one in info["standing"] if one["agent_id"] == "slow"]
    assert f"1 of {ticks:,} price updates" in slow
    assert "1 abandoned" in next(row for row in rows if "gone" in row)
    assert page.locator(".figures figure").count() == 3
    follow(page.locator(".forest td a").first)
    assert info["standing"][0]["run_ids"][0][:16] in page.inner_text("main")

    page.goto(f"{served.url}/arena/competitions/{served.blind_id}")
    [row] = page.get_by_role("region", name="Entrants by mean CLV").locator("tbody tr").all()
    assert "1 price update answered" in row.inner_text()
    assert "Too few seats are sealed" in page.locator(".verdict").inner_text()
    page.close()


def test_the_keyboard_reaches_everything_and_shows_where_it_is(browser, served):
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"{served.url}/runs")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    seen = set()
    for _ in range(25):
        style, outline = page.evaluate(_OUTLINE)
        assert (style, outline) == ("solid", "3px")
        seen.add(page.evaluate("document.activeElement.tagName + (document.activeElement.name || '')"))
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
    assert {"A", "SELECTkind", "INPUTowner", "BUTTON"} <= seen
    page.close()


def test_filters_work_without_a_script(browser, served):
    page = browser.new_page(java_script_enabled=False)
    page.goto(f"{served.url}/runs/{served.run_id}/decisions")

    page.get_by_label("Order").select_option("clv")
    page.get_by_label("Market").select_option("Match result")
    follow(page.get_by_role("button", name="Show"))
    figures = [int(said.replace(",", "")) for said in page.locator("tbody td.strong").all_inner_texts()]

    assert len(figures) == 100
    assert figures == sorted(figures)
    titles = [named.get_attribute("title") for named in page.locator("tbody td small span[title]").all()]
    keys = [title for title in titles if not title.startswith("fixture ")]
    assert len(keys) == 100
    assert all(key.startswith("1X2") for key in keys)
    follow(page.get_by_role("link", name="Next page"))
    assert int(page.locator("tbody td.strong").first.inner_text()) >= figures[-1]
    page.close()


def test_a_competition_is_followed_as_it_goes(browser, served):
    created = served.competition()
    complaints = []
    page = browser.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(f"{served.url}/competitions/{created}")
    assert "Scores appear when the run is sealed, after the close." in page.inner_text("main")

    served.post(f"/competitions/{created}/start")
    page.wait_for_selector("#live-standings figure", timeout=WAIT_MS)
    page.locator("#news", has_text="It is over.").wait_for(timeout=WAIT_MS)

    state = served.get(f"/competitions/{created}")
    assert page.locator("#live-standings tbody th").all_inner_texts() == [row["agent_id"] for row in state["leaderboard"]]
    assert complaints == []
    assert json.dumps(state["run_id"])[1:17] in page.inner_text("main")
    page.close()


def test_a_live_competition_shows_decisions_as_they_come_and_their_scores_after_the_seal(browser, served):
    created = served.competition(_LIVE, _AGENTS)
    page = browser.new_page(viewport={"width": 1440, "height": 800})
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{served.url}/competitions/{created}?agent_id=sharp-momentum-v2")
    assert "Decisions appear after the start." in page.inner_text("#live-decisions")

    assert served.alice.post(f"/competitions/{created}/start").status_code == 202
    page.locator("#live-decisions .pending").first.wait_for()
    assert "They are not sealed" in page.inner_text("#live-decisions")
    assert page.inner_text("h1") == "Birch North – Glen North"
    page.get_by_role("region", name="Table of decisions").focus()  # a reader who scrolls is still told what is new
    before = page.locator("#live-decisions tbody tr").count()
    page.locator("#live-decisions tbody tr").nth(before).wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Table of decisions"

    page.locator("#news", has_text="It is over.").wait_for()
    run_id = served.get(f"/competitions/{created}")["run_id"]
    rows = served.get(f"/runs/{run_id}/decisions", agent_id="sharp-momentum-v2", limit=25)["decisions"]
    said = page.locator("#live-decisions td.gain").all_inner_texts()
    assert [int(text.replace(",", "").removesuffix(" bps")) for text in said if text.endswith(" bps")] == [
        row["clv_bps"] for row in rows if row["clv_bps"] is not None
    ]
    assert len(said) == len(rows)
    assert "pending until" not in page.inner_text("main")
    page.close()


def test_a_kickoff_is_also_shown_by_the_readers_clock_once_however_often_the_page_is_renewed(browser, served):
    created = served.competition(agents=("baseline",))
    page = browser.new_page(timezone_id="Asia/Tokyo", locale="en-US")
    page.goto(f"{served.url}/competitions/{created}")
    shown = page.locator("dd:has(time)")
    assert " ".join(shown.inner_text().split()) == "2026-01-02 12:00:00 UTC Jan 2, 2026, 9:00 PM for you"

    served.post(f"/competitions/{created}/start")
    page.locator("#news", has_text="It is over.").wait_for(timeout=WAIT_MS)

    assert shown.inner_text().count("for you") == 1
    page.close()
    page = browser.new_page(java_script_enabled=False)
    page.goto(f"{served.url}/competitions/{created}")
    assert page.locator("dd:has(time)").inner_text() == "2026-01-02 12:00:00 UTC"
    page.close()


def test_every_time_of_a_page_is_also_the_readers_unless_that_is_the_same_or_the_clock_is_a_feeds(browser, served):
    run = f"{served.url}/runs/{served.run_id}"
    page = browser.new_page(timezone_id="Asia/Tokyo", locale="en-US")
    for path in (f"{served.url}/runs", run, f"{run}/decisions", f"{run}/actions/1", f"{served.url}/replay-packs/starter"):
        page.goto(path)
        times = page.locator("main time")
        assert times.count() == page.locator("main time + .own-time").count() > 0, path
    page.goto(f"{served.url}/replay-packs/starter/fixtures")
    assert page.locator("main .own-time").first.text_content() == "Jan 2, 2026, 9:00 PM for you"
    page.close()

    page = browser.new_page(timezone_id="UTC")
    page.goto(run)
    assert page.locator("main time").count() > 0
    assert page.locator(".own-time").count() == 0
    page.close()


def test_the_next_page_of_a_story_keeps_its_filters_and_needs_no_script(browser, served):
    created = served.competition(serving.BOUND | {"roster_size": 8}, ())
    for number in range(4):
        served.post(f"/competitions/{created}/agents", serving.make_entry("cumulative-drift", agent_id=f"agent {number}"))
    served.post(f"/competitions/{created}/start")
    page = browser.new_page(java_script_enabled=False)
    page.goto(f"{served.url}/competitions/{created}")

    page.get_by_label("Action").select_option("bet")
    follow(page.get_by_role("button", name="Show"))
    follow(page.get_by_role("link", name="Next page"))

    assert "action=BACK" in page.url
    total = served.get(f"/runs/{served.get(f'/competitions/{created}')['run_id']}/decisions")["total"]
    assert page.locator("#live-decisions tbody tr").count() == min(total - 25, 25)
    page.close()
