"""Pages for people: who gets one, what it may load, and that nothing on it is anything but text."""

import re
import subprocess
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import httpx2
import pytest
from clvlab_service.negotiation import prefers_page
from sqlalchemy import update

from clvlab.arena.events import EventKind, event
from clvlab.arena.packs import open_pack
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.report.share import SharedPicture
from clvlab.store import competitions, runs
from clvlab.store.tables import runs as run_table
from clvlab.words import CAUSALITY
from tests.service import serving
from tests.service.serving import BACKTEST, BOUND, FIXTURE, PLAIN, assert_problem, make_entry
from tests.waiting import PATIENCE_S

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
PROGRAMS = [{"Accept": "*/*"}, {"Accept": "application/json"}, {"Accept": ""}]
HOSTILE = "<script>alert(1)</script>\u202egnp.exe\u200b\"'&" + 120 * "x"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
PACK = {"pack_id": "starter", "fixture_ids": None, "strategy": "cumulative-drift"}


@pytest.fixture(scope="module")
def served(keys):
    """A service with a run over a pack, a competition that was run, and one of a hostile agent."""
    with serving.api(keys) as found:
        found.run_id = found.post("/backtests", PACK, by=found.nobody, headers={"Prefer": "wait=60"})["run_id"]
        found.competition_id, _ = found.started()
        found.draft_id = found.competition(BOUND, ())
        found.post(f"/competitions/{found.draft_id}/agents", make_entry(agent_id=HOSTILE, config={"x": HOSTILE}))
        said = {"fixture_id": FIXTURE, "tick_seq": 0, "action": "WAIT", "reason": HOSTILE, "confidence": 7.5}
        hostile = found.competition(agents=())
        entry = make_entry("llm", agent_id=HOSTILE, config={"transcript": [said]}, proof_mode="verified")
        found.post(f"/competitions/{hostile}/agents", entry)
        found.hostile_id, found.hostile_run_id = hostile, found.post(f"/competitions/{hostile}/start")["run_id"]
        yield found


def paths(served):
    run, competition = f"/runs/{served.run_id}", f"/competitions/{served.competition_id}"
    return [
        "/leaderboard", "/runs", run, f"{run}/decisions", f"{run}/actions/1", "/competitions", competition,
        "/replay-packs", "/replay-packs/starter", "/replay-packs/starter/fixtures", "/log", "/strategies",
    ]  # fmt: skip


def page(served, path, status=200, **headers):
    response = served.nobody.get(path, headers=BROWSER | headers)
    assert response.status_code == status, response.text[:500]
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    return response


def test_a_run_has_a_picture_that_other_sites_find(served):
    text = page(served, f"/runs/{served.run_id}").text
    about = {one["property"]: one["content"] for one in Elements(text).all("meta") if "property" in one}
    base = re.escape(f"/runs/{served.run_id}")

    assert re.fullmatch(rf"http://[^/]+{base}", about["og:url"])
    assert about["og:image"] == f"{about['og:url']}/card.png"
    assert about["og:description"] in unescape(Elements(text).text)
    assert (about["og:image:width"], about["og:image:height"]) == ("1200", "630")

    bundle = served.nobody.get(f"/runs/{served.run_id}/bundle").content
    drawn = served.nobody.get(f"/runs/{served.run_id}/card.svg", headers=BROWSER)
    assert drawn.headers["content-type"] == "image/svg+xml"
    assert drawn.headers["content-security-policy"] == "default-src 'none'"
    assert drawn.content.decode() == SharedPicture(run_of(read_bundle(bundle)), about["og:url"]).svg()
    again = served.nobody.get(f"/runs/{served.run_id}/card.svg", headers={"If-None-Match": drawn.headers["etag"]})
    assert again.status_code == 304

    png = served.nobody.get(f"/runs/{served.run_id}/card.png")
    assert (png.headers["content-type"], png.content[:8]) == ("image/png", b"\x89PNG\r\n\x1a\n")


def test_a_backtest_leads_to_the_page_of_its_run_and_that_to_its_tear_sheet(served):
    named = served.run_id.replace("run_", "bt_")
    led = served.nobody.get(f"/backtests/{named}", headers=BROWSER, follow_redirects=False)

    assert (led.status_code, led.headers["location"]) == (303, f"/runs/{served.run_id}")
    assert page(served, "/backtests/bt_nothing", status=404)
    links = [one["href"] for one in Elements(page(served, f"/runs/{served.run_id}").text).all("a")]
    assert f"/backtests/{named}/tear-sheet" in links
    assert served.nobody.get(f"/backtests/{named}").json()["run_id"] == served.run_id


def test_the_log_and_the_templates_are_pages(served):
    log, text = served.get("/log"), page(served, "/log").text

    assert log["root_hash"] in text
    assert all(one["owner"] in unescape(text) for one in log["owners"])
    templates = page(served, "/strategies").text
    assert all(one["summary"] in unescape(templates) for one in served.get("/strategies")["strategies"])


def test_rows_of_the_leaderboard_lead_to_runs(served):
    links = [one["href"] for one in Elements(page(served, "/leaderboard").text).all("a")]

    assert "/runs?agent_id=cumulative-drift" in links


def test_a_hostile_host_gets_into_no_picture_and_no_tag(served):
    path = f"/runs/{served.run_id}"

    for host in ('x"><script>', "a b", "a/b"):
        about = [one for one in Elements(page(served, path, Host=host).text).all("meta") if "property" in one]
        assert [one for one in about if host in one["content"]] == []
        assert f"http://{host}" not in served.nobody.get(f"{path}/card.svg", headers={"Host": host}).text


@pytest.mark.parametrize(("name", "form", "status"), [("run_" + 32 * "0", "svg", 404), (None, "gif", 422)])
def test_there_is_no_picture_of_no_run_and_in_no_other_form(served, name, form, status):
    assert_problem(served.nobody.get(f"/runs/{name or served.run_id}/card.{form}"), status)


def test_the_picture_of_a_hostile_agent_holds_its_name_as_text(served):
    drawn = served.nobody.get(f"/runs/{served.hostile_run_id}/card.svg").text

    assert "<script" not in drawn
    assert "&lt;script&gt;" in drawn


def commands(text):
    """What a page of a run tells to type."""
    return unescape(re.search(r'id="commands"><code>(.*?)</code>', text, re.DOTALL)[1])


def varies(response):
    return {name.strip().lower() for name in response.headers["vary"].split(",")}


def unseal(database, run_id, status):
    """Put a run back to what it was before its seal."""
    empty = {"checks": None, "metrics": None, "evidence_hash": None, "manifest_hash": None, "sealed_ts_ms": None}
    with database.write() as connection:
        connection.execute(update(run_table).where(run_table.c.run_id == run_id).values(status=status, **empty))


class Elements(HTMLParser):
    """All elements of a page, and all text."""

    def __init__(self, text):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, *tags):
        return [given for tag, given in self.found if tag in tags]


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        (BROWSER["Accept"], True),
        ("text/html", True),
        ("TEXT/HTML;q=0.5, application/json;q=0.4", True),
        ("text/html, application/json;q=0.9, */*;q=0.1", True),
        ("text/html, */*", False),
        ("text/html, application/json", False),
        ("text/html, application/*", False),
        ("text/html;q=0.9, application/json", False),
        ("text/html, application/vnd.apache.arrow.stream", False),
        ("text/html;q=0", False),
        ("text/*", False),
        ("application/xhtml+xml", False),
        ("*/*", False),
        ("", False),
        ("text/html;q=nan", False),
    ],
)
def test_a_page_is_for_whoever_names_it_above_all_else(accept, given):
    assert prefers_page(accept) is given


def test_programs_get_the_same_bytes_as_without_pages(served):
    for path in paths(served):
        answers = [served.nobody.get(path, headers=headers) for headers in PROGRAMS]
        with httpx2.Client(base_url=served.url, **PLAIN) as client:
            del client.headers["accept"]
            answers.append(client.get(path))

        assert {answer.headers["content-type"] for answer in answers} == {"application/json"}, path
        assert len({answer.content for answer in answers}) == 1, path
        assert len({answer.headers.get("etag") for answer in answers}) == 1, path
        assert all({"accept", "accept-encoding"} <= varies(answer) for answer in answers), path


def test_pages_are_in_no_document_and_change_none(served):
    documented = served.get("/openapi.json")["paths"]

    assert all(
        "text/html" not in str(documented[path]) for path in ("/", "/problems", "/runs", "/runs/{run_id}", "/leaderboard")
    )


def test_each_address_has_a_page_that_loads_a_style_and_the_script_of_times_alone(served):
    for path in ["/", *paths(served)]:
        response = page(served, path)

        elements = Elements(response.text)
        assert response.headers["content-security-policy"] == POLICY, path
        assert response.headers["x-content-type-options"] == "nosniff"
        assert {"accept", "accept-encoding"} <= varies(response), path
        assert elements.all("iframe", "object", "base", "style") == [], path
        scripts = [given["src"] for given in elements.all("script")]
        assert [re.sub("/[0-9a-f]{16}/", "/", source) for source in scripts] == ["/assets/times.js"], path
        loaded = (
            scripts
            + [given.get("href") for given in elements.all("link")]
            + [given.get("src") for given in elements.all("img")]
        )
        assert all(address.startswith("/assets/") for address in loaded)
        assert not [given for _, given in elements.found if {"style", "onclick", "onload"} & given.keys()], path
        for address in loaded:
            asset = served.nobody.get(address)
            assert asset.status_code == 200
            assert "immutable" in asset.headers["cache-control"]


def test_pages_have_landmarks_one_head_labels_and_captions(served):
    for path in ["/", *paths(served), "/nowhere"]:
        elements = Elements(served.nobody.get(path, headers=BROWSER).text)

        assert len(elements.all("h1")) == len(elements.all("main")) == len(elements.all("header")) == 1, path
        assert elements.all("html")[0]["lang"] == "en"
        labelled = {given["for"] for given in elements.all("label")}
        assert {given["id"] for given in elements.all("input", "select")} == labelled, path
        assert len(elements.all("table")) == len(elements.all("caption")), path
        assert all("scope" in given for given in elements.all("th")), path
        assert all("aria-label" in given for given in elements.all("svg") if given.get("role") == "img"), path
        ids = [given["id"] for _, given in elements.found if "id" in given]
        assert len(ids) == len(set(ids)), path
        named = [given["aria-labelledby"] for _, given in elements.found if "aria-labelledby" in given]
        assert set(named) <= set(ids), path


def test_each_form_is_revalidated_by_its_own_tag(served):
    path = f"/runs/{served.run_id}/actions/1"
    shown, read = page(served, path), served.nobody.get(path)

    assert shown.headers["etag"] != read.headers["etag"]
    assert shown.headers["cache-control"] == "no-cache"
    again = served.nobody.get(path, headers=BROWSER | {"If-None-Match": shown.headers["etag"]})
    assert again.status_code == 304
    assert "accept" in varies(again)
    assert page(served, path, **{"If-None-Match": read.headers["etag"]}).content == shown.content
    assert served.nobody.get(path, headers={"If-None-Match": shown.headers["etag"]}).content == read.content


def test_head_has_the_headers_of_the_page(served):
    response = served.nobody.head("/runs", headers=BROWSER)

    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"] == "text/html; charset=utf-8"


def test_what_is_wrong_is_a_page_of_the_same_status(served):
    cases = {"/nowhere": 404, "/runs/unknown": 404, f"/runs/{served.run_id}/actions/999999": 404, "/runs?bad=1": 422,
             "/runs?limit=0": 422, "/leaderboard?limit=x": 422, f"/runs/{served.run_id}/decisions?cursor=x": 422,
             "/me": 401, "/competitions/unknown": 404, "/replay-packs/unknown": 404}  # fmt: skip
    for path, status in cases.items():
        problem = assert_problem(served.nobody.get(path), status)
        shown = page(served, path, status)

        said = [one["msg"] for one in problem.get("errors", ())] or [problem["detail"][1:]]
        if problem["detail"] == problem["title"]:
            said = ["No page has this address."]
        assert all(one in Elements(shown.text).text for one in said), path
        assert shown.headers["x-request-id"] in shown.text
        assert "accept" in varies(shown)
        assert "accept" in varies(served.nobody.get(path))
        assert shown.headers["content-security-policy"] == POLICY


def test_only_reading_is_answered_with_pages(served):
    assert_problem(served.nobody.post("/competitions", headers=BROWSER), 401)
    answer = served.nobody.post("/backtests", json=BACKTEST, headers=BROWSER)

    assert answer.headers["content-type"] == "application/json"


def test_a_form_may_leave_fields_blank(served):
    shown = page(served, "/runs?kind=&status=sealed&agent_id=&pack_id=starter&owner=").text

    assert served.run_id in shown
    assert '<option value="sealed" selected>' in shown
    assert "No run has all of these values" in page(served, "/runs?kind=live&status=").text


def test_hostile_text_is_text_and_hides_nothing(served):
    shown = [page(served, f"/competitions/{served.draft_id}").text]
    shown += [page(served, f"/runs/{served.hostile_run_id}{path}").text for path in ("", "/decisions", "/actions/1")]
    shown.append(page(served, f"/nowhere/{HOSTILE}", 404).text)
    shown.append(served.nobody.get("/runs", params={"agent_id": HOSTILE}, headers=BROWSER).text)

    assert all("&lt;script&gt;" in text and "[U+202E]" in text for text in shown[:4])
    claims = shown[3][shown[3].index("Claimed by the agent, not checked") :]
    assert "&lt;script&gt;" in claims
    assert "7.5" in claims
    for text in shown:
        elements = Elements(text)
        assert not {"\u202e", "\u200b"} & set(text)
        assert all("alert" not in str(given) for given in elements.all("script"))
        assert not [tag for tag, given in elements.found if any(name.startswith("on") for name in given)]


def test_a_live_page_may_run_a_script_that_makes_requests_to_this_service(served):
    response = page(served, f"/competitions/{served.draft_id}")
    scripts = Elements(response.text).all("script")

    assert response.headers["content-security-policy"] == f"{POLICY}; connect-src 'self'"
    assert [re.sub("/[0-9a-f]{16}/", "/", given["src"]) for given in scripts] == ["/assets/times.js", "/assets/live.js"]
    assert f'data-stream="/competitions/{served.draft_id}/arena?since_seq=' in response.text
    assert served.nobody.get(scripts[0]["src"]).headers["content-type"].startswith("text/javascript")


def test_assets_are_those_of_pages_only(served):
    for path in ("/assets/x/../app.py", "/assets/0/base.html", "/assets/0/style.css.map"):
        assert served.nobody.get(path).status_code == 404
    assert served.nobody.get("/assets/0/style.css").headers["cache-control"] == "no-cache"


def test_a_run_says_what_its_json_says(served):
    card, shown = served.get(f"/runs/{served.run_id}"), page(served, f"/runs/{served.run_id}").text
    text = Elements(shown).text

    late = int(re.search(r"<small>([\d,]+) bets? at the closing price, excluded from the means</small>", shown)[1])
    kept = card["metrics"]["action_count"] - late
    assert f"{card['metrics']['total_clv_bps'] / kept:+,.1f} bps" in shown
    assert card["evidence"]["evidence_hash"] in text
    assert all(detail in text for detail in card["check_details"].values())
    assert text.count("passes") == list(card["checks"].values()).count("pass")
    worst = served.get(f"/runs/{served.run_id}/decisions", sort="clv", limit=1)["decisions"][0]
    assert f"/runs/{served.run_id}/actions/{worst['seq']}" in shown


def test_a_market_has_the_name_that_people_use_and_keeps_its_key(served):
    of_a_goal_line = next(
        row
        for row in served.get(f"/runs/{served.run_id}/decisions")["decisions"]
        if row["market_key"] == "OVERUNDER_PARTICIPANT_GOALS||line=2.5"
    )

    for path in (f"/runs/{served.run_id}/decisions", f"/runs/{served.run_id}/actions/{of_a_goal_line['seq']}"):
        text = page(served, path).text
        assert (
            '<span title="OVERUNDER_PARTICIPANT_GOALS||line=2.5"><bdi class="other">Over/Under 2.5 goals</bdi></span>' in text
        )


def test_a_run_leads_to_the_verifier_that_runs_in_a_browser(served):
    links = [given["href"] for given in Elements(page(served, f"/runs/{served.run_id}").text).all("a")]

    verifiers = [link for link in links if link.endswith("verify.html")]
    assert len(verifiers) == 2  # where the page says how to verify, and at its end
    verifier = verifiers[0]
    assert served.nobody.get(verifier).headers["content-type"].startswith("text/html")


def test_the_leaderboard_draws_an_interval_over_the_fixtures_of_each_row(served):
    text = page(served, "/leaderboard").text

    rows = served.get("/leaderboard")["rows"]
    assert text.count('role="img"') == len([row for row in rows if row["avg_clv_bps"] is not None]) + text.count("<table")
    wide = next(row for row in rows if row["action_count"] > 100)
    assert f"{wide['avg_clv_bps']:+,.1f}, interval " in text
    assert "no interval" in text  # of those over one fixture


def test_the_printed_commands_verify_the_run(served, tmp_path):
    printed = commands(page(served, f"/runs/{served.run_id}").text)
    assert len(printed.splitlines()) == 3
    environment = {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin"}

    done = subprocess.run(["sh", "-ec", printed], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert served.get(f"/runs/{served.run_id}")["evidence"]["evidence_hash"] in done.stdout


def test_a_host_that_is_none_stands_in_no_command(served):
    for host in ("a.example;touch${IFS}x", "$(touch x)", "a.example`touch`"):
        shown = page(served, f"/runs/{served.run_id}", Host=host).text

        assert "touch" not in shown
        assert commands(shown).split()[3].startswith((f"{served.url}/runs/", "http://HOST/runs/"))


def test_behind_a_prefix_and_a_proxy_every_link_has_both(keys):
    app = serving.create_app(serving.make_settings(keys, trusted_proxies="127.0.0.1"))
    app.root_path = "/clv"
    with serving.running(app) as url:
        headers = BROWSER | {"X-Forwarded-Proto": "https", "Host": "odds.example"}
        run_id = httpx2.post(f"{url}/demo/run", timeout=PATIENCE_S).json()["run_id"]
        shown = httpx2.get(f"{url}/runs/{run_id}", headers=headers, timeout=PATIENCE_S).text

    assert f"https://odds.example/clv/runs/{run_id}/bundle" in shown
    links = [given["href"] for given in Elements(shown).all("a", "link") if not given["href"].startswith("#")]
    assert all(link.startswith("/clv/") for link in links)


def test_a_failing_check_stands_before_the_result(keys):
    with serving.api(keys) as found:
        run_id = found.post("/backtests", PACK, by=found.nobody, headers={"Prefer": "wait=60"})["run_id"]
        wrong = {"metrics_recomputed": {"verdict": "fail", "detail": "the first difference is row 3"}}
        with found.app.state.application.runs.database.write() as connection:
            runs.record_checks(connection, run_id, runs.row(connection, run_id)["checks"] | wrong, 0)
        shown = Elements(page(found, f"/runs/{run_id}").text).text

    assert shown.index("Do not rely on this result: 1 of seven checks fails") < shown.index("over 12 fixtures")
    assert "the first difference is row 3" in shown


def test_a_removed_run_is_a_page_with_its_hashes(keys):
    with serving.api(keys) as found:
        run_id = found.post("/backtests", BACKTEST, by=found.nobody)["run_id"]
        hashes = found.get(f"/runs/{run_id}")["evidence"]
        page(found, f"/runs/{run_id}")
        page(found, "/leaderboard")
        found.app.state.application.retention.apply(-1)

        for path in ("", "/decisions", "/actions/1", "/evidence"):
            shown = page(found, f"/runs/{run_id}{path}", 410).text
            assert hashes["evidence_hash"] in shown
        page(found, "/leaderboard")


def test_a_run_that_is_not_sealed_has_a_page_that_follows_it(keys):
    with serving.api(keys) as found:
        run_id = found.post("/backtests", PACK, by=found.nobody, headers={"Prefer": "wait=60"})["run_id"]
        database = found.app.state.application.runs.database
        for status, said in (("running", "It is being replayed"), ("failed", "It failed")):
            unseal(database, run_id, status)
            shown = page(found, f"/runs/{run_id}").text
            assert said in shown
            assert (f'data-stream="/runs/{run_id}/progress"' in shown) is (status == "running")
            assert "Verify it yourself" not in shown


def test_what_somebody_wrote_is_not_called_a_template_that_decides(served):
    written, computed = (page(served, f"/runs/{run_id}").text for run_id in (served.hostile_run_id, served.run_id))

    assert CAUSALITY["transcript"] in written
    assert CAUSALITY["template"] not in written
    assert CAUSALITY["template"] in computed


def test_rows_that_may_hold_the_past_stand_under_a_heading_of_their_own(served):
    heading = "Prices were public before the run"
    for path, last in (("/leaderboard", "cumulative-drift"), ("/", "cumulative-drift")):
        shown = Elements(page(served, path).text).text
        written = shown.index("recorded decisions, over past prices")  # of the hostile agent, which is an llm

        assert shown.index(last) < shown.index(heading) < written
        assert shown.index("a template of clvlab, over past prices") < shown.index(heading)
        assert "a template of clvlab, over past prices" not in shown[written:]


def test_a_transcript_stands_apart_in_the_standings_of_a_competition(served):
    own = page(served, f"/competitions/{served.hostile_id}").text
    other = page(served, f"/competitions/{served.competition_id}").text

    assert "Prices were public before the run" in own
    assert "Prices were public before the run" not in other


def story(served, competition_id, **query):
    response = served.nobody.get(f"/competitions/{competition_id}", params=query, headers=BROWSER)
    assert response.status_code == 200, response.text[:500]
    return response.text


def gains(text):
    return [unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall(r'class="gain">(.*?)</td>', text)]


def test_a_competition_is_told_in_names_and_words_and_its_keys_stand_apart(served):
    state = served.get(f"/competitions/{served.competition_id}")
    shown = story(served, served.competition_id)
    text = Elements(shown[: shown.index('<details class="keys">')]).text

    assert "<title>Birch North – Glen North · clvlab</title>" in shown
    assert "2026-01-02 12:00:00 UTC" in text
    assert "bet on Birch North" in text
    assert "Over/Under 2.5 goals" in text
    assert not [key for key in ("part1", "part2", "OVERUNDER", "sha256:", str(FIXTURE), "closing_suspended") if key in text]
    keys = Elements(shown[shown.index('<details class="keys">') :]).text
    assert all(key in keys for key in (served.competition_id, str(FIXTURE), state["replay_binding"]["content_hash"]))


def test_each_decision_says_what_it_gained_or_lost_with_its_unit_or_why_not(served):
    run_id = served.get(f"/competitions/{served.competition_id}")["run_id"]
    rows = served.get(f"/runs/{run_id}/decisions", limit=25)["decisions"]

    told = gains(story(served, served.competition_id))

    assert [text.endswith(" bps") for text in told] == [row["clv_bps"] is not None for row in rows]
    assert [int(text.removesuffix(" bps").replace(",", "")) for text in told if text.endswith(" bps")] == [
        row["clv_bps"] for row in rows if row["clv_bps"] is not None
    ]
    assert all(text.startswith("not scored: ") for text in told if not text.endswith(" bps"))


def test_each_entrant_with_scores_at_two_times_has_one_curve(served):
    shown = story(served, served.competition_id)

    assert shown.count("Cumulative CLV by date:") == 1  # the baseline decides once


def test_the_story_is_filtered_by_entrant_market_and_action(served):
    competition_id = served.competition_id
    run_id = served.get(f"/competitions/{competition_id}")["run_id"]
    rows = served.get(f"/runs/{run_id}/decisions", limit=200)["decisions"]
    market = rows[0]["market_key"]

    by_agent = gains(story(served, competition_id, agent_id="baseline"))
    by_market = gains(story(served, competition_id, market=market))
    waited = story(served, competition_id, action="WAIT", agent_id="", market="")

    assert len(by_agent) == sum(row["agent_id"] == "baseline" for row in rows)
    assert len(by_market) == sum(row["market_key"] == market for row in rows)
    assert gains(waited) == []
    assert "No decision has these values." in waited
    assert "SELL" in page(served, f"/competitions/{competition_id}?action=SELL", 422).text


def test_the_filter_of_a_hostile_name_finds_its_own_decisions(served):
    shown = story(served, served.hostile_id)
    forms = Elements(shown).all("option")

    assert HOSTILE in [given["value"] for given in forms]
    assert not {"\u202e", "\u200b"} & set(shown)
    chosen = story(served, served.hostile_id, agent_id=HOSTILE)
    assert gains(chosen) == ["not scored: the agent waited"]
    (selected,) = [given["value"] for given in Elements(chosen).all("option") if "selected" in given]
    assert selected == HOSTILE


def test_names_of_a_feed_or_an_upload_are_text_wherever_they_are_shown(keys):
    with serving.api(keys) as found:
        created = found.competition(serving.CONFIG | {"source_mode": "live", "market_scope": HOSTILE}, ())
        followed = {"fixture_id": 7, "names": [HOSTILE, "<b>"], "league": HOSTILE, "season": "<i>", "kickoff_ts_ms": 10**15}
        said = {"fixture_id": 7, "tick_seq": 1, "ts_ms": 10**15, "stake": 1, "limit_odds_milli": None, "reason": HOSTILE,
                "confidence": None, "claimed_edge_bps": None}  # fmt: skip
        bet = said | {"agent_id": HOSTILE, "action": "BACK", "market_key": HOSTILE, "side": HOSTILE}
        home = said | {"agent_id": "<u>", "action": "BACK", "market_key": "1X2_PARTICIPANT_RESULT||", "side": "part1"}
        failed = {"agent_id": "<u>", "error": HOSTILE, "fixture_id": 7, "tick_seq": 1, "ts_ms": 1}
        gap = {"from_ts_ms": 1, "to_ts_ms": 5, "cause": HOSTILE, "markets": None, "replayed": None}
        told = [
            ("COMPETITION_STARTED", {"agents": [], "fixture": followed}), ("AGENT_ACTION", bet), ("AGENT_ACTION", home),
            ("AGENT_ERROR", failed), ("FEED_GAP", gap), ("FEED_HEALTH", {"connected": False, "error": HOSTILE}),
            ("STATUS_CHANGED", {"status": HOSTILE, "pack_id": HOSTILE}), ("COMPETITION_FAILED", {"cause": HOSTILE}),
        ]  # fmt: skip
        with found.app.state.application.competitions.database.write() as connection:
            events = [event(EventKind(kind), "run_1", payload) for kind, payload in told]
            competitions.append(connection, created, 1, events)
            competitions.change(connection, created, status="running", started_seq=0)
        texts = [story(found, created), story(found, created, market=HOSTILE), page(found, "/competitions").text]

    for text in texts:
        elements = Elements(text)
        assert not {"\u202e", "\u200b"} & set(text)
        assert not elements.all("b", "i", "u")
        assert [given for given in elements.all("script") if not given["src"].startswith("/assets/")] == []
        assert not [tag for tag, given in elements.found if any(name.startswith("on") for name in given)]
        assert "[U+202E]" in text
    plain = Elements(texts[0]).text
    assert "does not count, as the entrant stopped" in plain
    assert "pending until the seal" in plain
    assert "the feed had a gap of 0 s" in plain
    assert HOSTILE in [given["value"] for given in Elements(texts[1]).all("option")]


def test_a_story_is_bounded_and_links_to_the_rest(keys):
    with serving.api(keys) as found:
        created = found.competition(serving.BOUND | {"roster_size": 120}, ())
        for number in range(60):
            found.post(f"/competitions/{created}/agents", make_entry("cumulative-drift", agent_id=f"agent {number:02}"))
        found.post(f"/competitions/{created}/start")
        run_id = found.get(f"/competitions/{created}")["run_id"]
        total = found.get(f"/runs/{run_id}/decisions")["total"]

        first = story(found, created)
        seen, address = gains(first), first
        while following := re.search(r'href="([^"]*)#decisions" rel="next"', address):
            address = found.nobody.get(unescape(following[1]), headers=BROWSER).text
            assert len(gains(address)) <= 25
            seen += gains(address)
        entrants = found.nobody.get(unescape(re.search(r'href="([^"]*)#standings" rel="next"', first)[1]), headers=BROWSER).text

    assert len(seen) == total > 500
    assert first.count("<pre") == 50
    assert entrants.count("<pre") == 10
    assert len(first) < 150_000


def test_mine_is_an_address_that_needs_no_login(served):
    owner = served.get("/me", by=served.alice)["did"]
    rows = served.get("/leaderboard", owner=owner)["rows"]

    assert rows
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    assert {row["agent_id"] for row in rows} < {row["agent_id"] for row in served.get("/leaderboard")["rows"]} | {"baseline"}
    assert served.get("/leaderboard", owner="did:key:nobody")["rows"] == []
    board = page(served, f"/leaderboard?owner={owner}").text
    assert board.count('<td role="cell" class="number">') == len(rows)
    assert f"owner={owner.replace(':', '%3A')}" in board
    assert "This owner has no ranked run yet" in page(served, "/leaderboard?owner=did:key:nobody").text
    assert owner in Elements(story(served, served.competition_id)).text


def test_the_list_of_competitions_names_their_matches(served):
    text = page(served, "/competitions").text

    assert text.count("Birch North") == len(served.get("/competitions"))


def test_a_competition_over_several_fixtures_names_the_match_of_each_decision(keys):
    with serving.api(keys) as found:
        created = found.competition(BOUND | {"fixture_id": None, "fixture_ids": [FIXTURE, FIXTURE + 1]}, ("baseline",))
        draft = page(found, f"/competitions/{created}").text
        found.post(f"/competitions/{created}/start")

        shown, listed = story(found, created), page(found, "/competitions").text

    table = Elements(shown[shown.index('<table class="story"') :]).text
    assert "<title>2 matches of starter · clvlab</title>" in shown
    assert "<title>2 matches of starter · clvlab</title>" in draft
    assert "One match is too few" not in shown
    assert all(names in table for names in ("Birch North – Glen North", "Kestrel Coast – Glen Coast"))
    sides = re.findall(r"bet on ((?:Birch|Glen|Kestrel) \w+) [^–]+? (\w+ \w+ – \w+ (?:North|Coast))", " ".join(table.split()))
    assert {match for _, match in sides} == {"Birch North – Glen North", "Kestrel Coast – Glen Coast"}
    assert all(side in match for side, match in sides)
    assert "2 matches" in listed
    assert "Birch North" not in listed


def test_names_with_the_same_decisions_are_one_row_of_a_page(keys):
    with serving.api(keys) as found:
        created = found.competition()
        found.post(f"/competitions/{created}/agents", make_entry(agent_id="another name"))
        found.post(f"/competitions/{created}/start")

        shown = Elements(page(found, "/leaderboard").text).text

    assert "and 1 more with the same decisions" in shown
    assert len(re.findall("a template of clvlab, over past prices; ", shown)) == 2


def shown_text(text):
    """The text of a page without what a reader opens: keys and ids stand there."""
    return Elements(re.sub(r"<details.*?</details>", "", text[text.index("<main") :], flags=re.DOTALL)).text


def test_a_run_and_its_decisions_are_told_by_matches_markets_and_sides(served):
    run = f"/runs/{served.run_id}"
    worst = served.get(f"{run}/decisions", sort="clv", limit=1)["decisions"][0]
    fixtures = served.get("/replay-packs/starter/fixtures")["fixtures"]
    match = " – ".join(next(one["names"] for one in fixtures if one["fixture_id"] == worst["fixture_id"]))

    for path in ("/runs", run, f"{run}/decisions", f"{run}/actions/{worst['seq']}", f"{run}/decisions?sort=clv"):
        text = shown_text(page(served, path).text)
        keys = ("part1", "part2", "OVERUNDER", "1X2_", "ASIANHANDICAP", "closing_suspended", "BACK", "fixture 9000")
        assert [key for key in keys if key in text] == [], path
    for path in (run, f"{run}/actions/{worst['seq']}", f"{run}/decisions?sort=clv"):
        assert match in page(served, path).text, path
    assert "12 matches" in shown_text(page(served, run).text)
    assert "Birch North – Glen North" in shown_text(page(served, "/runs").text)
    keys = Elements(page(served, f"{run}/actions/{worst['seq']}").text).text
    assert worst["market_key"] in keys
    assert str(worst["fixture_id"]) in keys


def test_decisions_are_filtered_by_a_match_that_is_chosen_by_name(served):
    text = page(served, f"/runs/{served.run_id}/decisions").text

    assert f'<option value="{FIXTURE}">Birch North – Glen North</option>' in text
    chosen = page(served, f"/runs/{served.run_id}/decisions?fixture_id={FIXTURE}").text
    assert f'<option value="{FIXTURE}" selected>' in chosen
    assert {one["title"] for one in Elements(chosen).all("span") if "fixture" in one.get("title", "")} == {f"fixture {FIXTURE}"}


def test_a_pack_of_the_same_id_and_other_odds_names_no_match(served):
    names, run_id = served.app.state.application.names, served.run_id
    own = names.of(run_id)
    other = replace(names, catalog=OtherPack(own.pack_id), _kept=names._kept)

    assert (len(own.known), own.is_catalogued) == (12, True)
    found = other.of(run_id)
    assert (found.known, found.is_catalogued, found.fixture_ids) == ({}, False, own.fixture_ids)
    assert found.name(FIXTURE) == f"fixture {FIXTURE}"


class OtherPack:
    """A catalog whose pack has the id of another."""

    def __init__(self, pack_id):
        self.pack_id = pack_id

    def open(self, pack_id):
        assert pack_id == self.pack_id
        return open_pack("season")


def test_names_of_an_unknown_run_are_none(served):
    found = served.app.state.application.names.of("run_unknown")

    assert (list(found.agents), found.fixture_ids, found.text) == ([], (), "")


def test_a_run_says_of_how_many_matches_its_figures_are(keys):
    body = {"pack_id": "season", "fixture_ids": None, "strategy": "cumulative-drift"}
    with serving.api(keys) as found:
        run_id = found.post("/backtests", body, by=found.nobody, headers={"Prefer": "wait=60"})["run_id"]
        shown = Elements(page(found, f"/runs/{run_id}").text).text
        board = Elements(page(found, "/leaderboard").text).text
        fixtures = found.get(f"/runs/{run_id}/decisions", reason="scored", limit=1)["total"]

    assert fixtures
    assert "over 299 fixtures" in shown
    assert "299 of 300 1 match without a bet that counts" in shown
    assert "299 of 300" in board


def test_every_count_and_verdict_on_a_page_says_whose_word_it_is(served):
    said = {
        f"/runs/{served.run_id}": (
            "This service recomputed them",
            "This service made these counts, and no signature covers them",
        ),
        "/log": ("This service made these counts, and no signature covers them",),
        "/leaderboard": ("This service computes all figures", "no log signs the counts"),
        f"/runs/{served.run_id}/decisions": ("This service computed the scores from the sealed evidence",),
        "/replay-packs/starter": ("Origin of the odds, by the pack's maker",),
    }
    for path, sentences in said.items():
        text = unescape(Elements(page(served, path).text).text)
        assert [one for one in sentences if one not in text] == [], path


def test_what_is_missing_is_a_dash_and_a_wrong_value_has_a_plain_heading(served):
    draft = page(served, f"/competitions/{served.draft_id}").text

    assert not re.search(r">\s*None\s*<", draft)
    assert re.search(r'<td class="number">–</td>', draft)
    wrong = page(served, "/runs?limit=0", 422).text
    assert "<h1>A value is wrong</h1>" in wrong
    assert "Status 422, Unprocessable" in wrong
