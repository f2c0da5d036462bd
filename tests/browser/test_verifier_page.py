"""The page as a reader meets it: from the disk, with hostile names, by keyboard, narrow and wide, light and dark."""

import json
from importlib.util import find_spec

import pytest

from clvlab.arena.runs.bundles import judge_proofs, verify_bundle
from clvlab.engine.run import run
from clvlab.errors import UnknownRunError
from clvlab.law.closing import Window
from clvlab.proof import clv_verify
from clvlab.proof.bundle import bundle, read_bundle
from clvlab.proof.canonical import canonical, parsed
from clvlab.proof.limits import MAX_BYTES, PART_LIMITS
from clvlab.report.browser.page import page_policy, verifier_page
from tests.browser.pages import LOOKS, cut_off
from tests.factories import make_agent, make_decisions, make_tape, message
from tests.length import length
from tests.proof.bundles import make_bundle, trust
from tests.proof.test_bundle import packed

pytestmark = pytest.mark.browser

WHOLE = make_bundle()
OTHER_FILES = {
    "empty.clv": (b"", "an empty file"),
    "photo.png": (b"\x89PNG\r\n\x1a\n" + bytes(64), "an image"),
    "ticks.parquet": (b"PAR1" + bytes(64), "a table of a pack"),
    "pack.json": (b'{\n  "$schema": "https://datapackage.org/profiles/2.0"}', "the description of a pack"),
    "runs.zip": (b"PK\x03\x04" + bytes(64), "an archive, to be unpacked first"),
    "saved.clv": (b"\n<!DOCTYPE html><title>Not Found</title>", "a web page"),
    "notes.txt": (b"bets of May", "a file of another kind"),
    "events.txt": (read_bundle(WHOLE)["events.jsonl"], "the events of a run without its other files"),
    "start.clv": (WHOLE[:40], "a bundle that is cut short"),
    "half.clv": (WHOLE[:-1], f"a bundle that is cut short, with {len(WHOLE) - 1:,} of {len(WHOLE):,} bytes"),
}
HOSTILE = '<img src=x onerror="document.title=1">\u202e\x1b&amp;</td><script>document.title=2</script>'


def buffer(content, name="run.clv"):
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


def verdict(page):
    """Wait until nothing is under way, and read the sentence."""
    page.locator("#verdict.pass, #verdict.fail, #verdict.none").wait_for()
    page.locator("#progress").wait_for(state="hidden")
    return page.inner_text("#verdict")


def await_text(page, selector, text):
    """Wait for a text; the page's policy forbids a condition that is written as JavaScript."""
    page.locator(selector, has_text=text).wait_for()


@pytest.fixture
def opened(browser, tmp_path, requests):
    """Open the page from a disk without a network; note every request and every error."""
    pages, faults = [], []

    def open_page(width=1280, **options):
        path = tmp_path / "verify.html"
        path.write_bytes(verifier_page())
        page = browser.new_page(viewport={"width": width, "height": 900}, offline=True, **options)
        pages.append(page)
        page.on("request", lambda request: requests.urls.append(request.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda line: faults.append(line.text))
        page.goto(path.as_uri())
        return page

    yield open_page
    for page in pages:
        page.close()
    assert faults == []
    assert {url.partition(":")[0] for url in requests.urls} <= {"file", "blob"}
    assert len(requests.urls) <= 2 * len(pages)  # the page, and the worker made of its own text


def test_bundle_is_judged_by_the_readers_keys(opened):
    page = opened()
    page.set_input_files("#files", buffer(WHOLE))
    assert verdict(page) == "This run holds: all 6 checks pass, and 7 scores were recomputed. No anchor and no log was checked."

    page.locator("summary").click()
    page.fill("#trust", json.dumps(trust()))
    page.check("#need-anchor")
    page.check("#need-log")
    page.click("#again")
    await_text(page, "#verdict", "all 8 checks pass")
    page.fill("#trust", '{"logs": "all"}')
    page.click("#again")
    page.locator("#verdict.fail").wait_for()

    assert page.inner_text("#verdict") == "Nothing was checked: these are not valid keys: logs has another form."


def test_count_that_the_holder_of_a_bundle_changed_is_told_as_the_bundles_by_all_three(opened, tmp_path, capsys):
    parts = read_bundle(WHOLE)
    log = parsed(parts["log.json"])
    changed = packed(parts | {"log.json": canonical(log | {"claim": log["claim"] | {"earlier": 987_654}})})
    path, keys = tmp_path / "run.clv", tmp_path / "keys.json"
    path.write_bytes(changed)
    keys.write_text(json.dumps(trust()))
    page = opened()
    page.locator("summary").click()
    page.fill("#trust", json.dumps(trust()))
    page.set_input_files("#files", buffer(changed))
    await_text(page, "#verdict", "all 8 checks pass")

    assert clv_verify.main([str(path), "--trust", str(keys)]) == 0
    alone = capsys.readouterr().out
    checks, _ = judge_proofs(path, verify_bundle(path), keys)
    facts = dict(zip(*(page.locator(f"#checks {tag}").all_inner_texts() for tag in ("dt", "dd")), strict=True))

    counts = "987654 earlier and 2 later commitments over this pack by this owner, 1 abandoned"
    assert facts["stated by the bundle, unsigned"] == f"{counts}; 'clvlab log audit --bundle' counts them"
    assert [name for name, text in facts.items() if "987654" in text] == ["stated by the bundle, unsigned"]
    for text in (alone, checks["log"].detail):
        before, stated = text.split("; the bundle states, unsigned: ")
        assert stated.startswith(counts)
        assert "987654" not in before


def test_keys_that_can_not_be_read_are_mended_without_choosing_the_run_again(opened):
    page = opened()
    page.locator("summary").click()
    page.fill("#trust", "{")
    page.set_input_files("#files", buffer(WHOLE))
    assert verdict(page) == "Nothing was checked: these are not valid keys: it is not JSON."

    page.fill("#trust", json.dumps(trust()))
    page.click("#again")

    await_text(page, "#verdict", "all 8 checks pass")


def test_changed_byte_breaks_checks_until_it_is_restored(opened):
    page = opened()
    page.set_input_files("#files", buffer(WHOLE))
    verdict(page)

    page.fill("#place", str(WHOLE.index(b'"prob_bps":4000') - WHOLE.index(b'{"kind":"RUN_STARTED"') + 11))
    page.click("#alter")
    await_text(page, "#altered", "was 4 and is 5")
    assert page.inner_text("#verdict") == "This run does not hold: its evidence can't be read, so all 5 checks fail."
    assert page.locator("#checks li.fail").count() == 5
    page.click("#restore")
    await_text(page, "#verdict", "holds: all 6")

    assert page.inner_text("#altered") == ""


def test_files_of_a_run_folder_are_judged(opened):
    parts = read_bundle(WHOLE)
    page = opened()
    page.set_input_files("#files", [buffer(parts[name], name) for name in ("manifest.json", "events.jsonl", "scores.jsonl")])
    assert verdict(page).startswith("This run holds: all 5 checks pass")

    page.set_input_files("#files", [buffer(b"", "events.jsonl")])
    await_text(page, "#verdict", "Nothing was checked")
    assert page.inner_text("#verdict").startswith("Not a run: these files are no whole run: choose a bundle")


@pytest.mark.parametrize("name", OTHER_FILES)
def test_file_of_another_kind_is_named_as_by_the_other_verifiers_and_does_not_fail(name, opened, tmp_path, capsys):
    content, kind = OTHER_FILES[name]
    (tmp_path / name).write_bytes(content)
    page = opened()
    page.set_input_files("#files", tmp_path / name)

    assert verdict(page) == f"Not a run: {name} is {kind}. Nothing was checked."
    assert page.locator("#checks-section").is_hidden()
    assert clv_verify.main([str(tmp_path / name)]) == 2
    assert f"{name} is not a run: it is {kind}\n" in capsys.readouterr().err
    with pytest.raises(UnknownRunError, match=f"{name}' is not a run: it is {kind}"):
        verify_bundle(tmp_path / name)


def test_files_of_a_pack_are_called_a_pack(opened):
    page = opened()
    page.set_input_files("#files", [buffer(b"{}", "datapackage.json"), buffer(b"PAR1", "ticks.parquet")])

    assert verdict(page).startswith("Not a run: these are files of a pack: choose a bundle")


SAID = """() => { window.said = []; const verdict = document.getElementById('verdict');
  new MutationObserver(() => said.push(verdict.textContent)).observe(verdict, {childList: true, subtree: true}); }"""


def test_page_says_that_it_checks_while_it_does(opened):
    page = opened()
    page.evaluate(SAID)
    page.set_input_files("#files", buffer(WHOLE))
    held = verdict(page)
    page.locator("#alter-any").click()
    await_text(page, "#altered", "Byte")
    last = verdict(page)

    assert page.evaluate("said") == ["Checking …", held, "Checking …", last]


@pytest.mark.parametrize(("name", "limit"), [("run.clv", MAX_BYTES), ("manifest.json", PART_LIMITS["manifest.json"])])
def test_file_beyond_its_limit_is_refused_before_it_is_read(name, limit, opened, tmp_path):
    large = tmp_path / name
    with large.open("wb") as file:
        file.truncate(limit + 1)  # of which the disk holds nothing
    page = opened()
    page.set_input_files("#files", large)

    assert verdict(page) == f"Nothing was checked: {name} has more than {limit:,} bytes."


def test_decisions_show_the_arithmetic_of_each(opened):
    page = opened()
    page.set_input_files("#files", buffer(WHOLE))
    verdict(page)

    cells = page.locator("#rows tr").nth(1).locator("td").all_inner_texts()

    assert [cell.split("\n") for cell in cells[2:5]] == [
        ["40.00 %", "at 2.500"],
        ["45.00 %", "kickoff"],
        ["+500", "4500 − 4000"],
    ]


def test_hostile_names_stay_text(opened):
    sides = {HOSTILE: 5000, "x": 5000}
    tape = make_tape([message(0, 0, sides, market_key=HOSTILE)], {1: 600})
    agent = make_agent(make_decisions({"market_key": HOSTILE, "side": HOSTILE}), HOSTILE)
    content = bundle(run(tape, [agent], Window()).sealed, b"")
    page = opened()

    page.set_input_files("#files", buffer(content, f"{HOSTILE.replace('/', '')}.clv"))

    assert verdict(page).startswith("This run holds")
    assert page.title() == "Verify a run"
    assert page.locator("#rows img, #rows script, #about img").count() == 0
    assert "<img src=x" in page.inner_text("#rows")
    assert "\u202e" not in page.inner_text("body")
    assert "\\u{202e}\\u{1b}&amp;" in page.inner_text("#rows")


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (360, "dark"), (800, "light"), (1280, "dark"), (1600, "light")])
def test_page_fits_the_window(opened, artefacts, width, scheme):
    page = opened(width, color_scheme=scheme)
    page.set_input_files("#files", buffer(WHOLE))
    verdict(page)
    page.evaluate("document.querySelector('details').open = true")
    page.locator("#place").fill("40")
    page.click("#alter")
    await_text(page, "#altered", "Byte 40")
    page.screenshot(path=artefacts / f"verifier-{width}-{scheme}.png", full_page=True)

    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert cut_off(page, "main > *") == []


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_axe_finds_nothing_whatever_was_chosen(browser, tmp_path, width, scheme):
    if find_spec("axe_playwright_python") is None:
        pytest.skip("no axe-core: pip install axe-playwright-python")
    from axe_playwright_python.sync_playwright import Axe

    (tmp_path / "verify.html").write_bytes(verifier_page())
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page.goto((tmp_path / "verify.html").as_uri())
    for chosen in (None, WHOLE, WHOLE[:-1] + b"x", b"\x89PNG"):
        if chosen is not None:
            page.set_input_files("#files", buffer(chosen))
            verdict(page)
        found = Axe().run(page).response["violations"]
        assert [(one["id"], one["impact"], one["nodes"][0]["html"][:200]) for one in found] == []
        assert page.locator("h1").count() == page.locator("main").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()


def test_keyboard_reaches_all_that_can_be_done(opened):
    page = opened()
    page.set_input_files("#files", buffer(WHOLE))
    verdict(page)
    page.locator("body").click(position={"x": 1, "y": 1})
    met = []
    for _ in range(12):
        page.keyboard.press("Tab")
        met.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))

    assert met[:8] == ["files", "folder", "SUMMARY", "part", "place", "alter", "alter-any", "DIV"]
    assert page.locator("#verdict").get_attribute("aria-live") == "polite"


def test_served_copy_without_a_secure_context_says_what_to_do(browser):
    page = browser.new_page()
    headers = {"Content-Security-Policy": page_policy(), "Content-Type": "text/html; charset=utf-8"}
    page.route("**/*", lambda route: route.fulfill(body=verifier_page(), headers=headers))
    page.goto("http://clvlab.test/verify.html")
    said = page.inner_text("#verdict")
    page.close()

    assert "save this page, and open it from disk" in said


def many(count):
    """A bundle of so many decisions over twenty fixtures."""
    ticks = [(fixture, tick) for fixture in range(1, 21) for tick in range(count // 20)]
    tape = make_tape(
        [
            message(tick, tick, {"over": 5000 + tick % 100, "under": 5000 - tick % 100}, market_key="OU|", fixture_id=fixture)
            for fixture, tick in ticks
        ],
        dict.fromkeys(range(1, 21), 10**6),
    )
    rows = [{"fixture_id": fixture, "tick_seq": tick, "market_key": "OU|", "side": "over"} for fixture, tick in ticks]
    return bundle(run(tape, [make_agent(make_decisions(*rows))], Window()).sealed, b"")


LONGEST_STOP = """() => { let before = performance.now(); window.longest = 0;
  setInterval(() => { longest = Math.max(longest, performance.now() - before); before = performance.now(); }, 10); }"""


def test_page_answers_while_it_judges_many_decisions(opened, tmp_path):
    count = length(5_000, 100_000)
    (tmp_path / "many.clv").write_bytes(many(count))
    page = opened()
    page.set_default_timeout(120_000)
    page.evaluate(LONGEST_STOP)

    page.set_input_files("#files", tmp_path / "many.clv")

    assert f"{count:,} scores" in verdict(page)
    assert page.evaluate("longest") < 1_000
    assert page.locator("#rows tr").count() == 50
    page.click("#last")
    await_text(page, "#range", f"to {count:,} of {count:,}")
