"""Packs that are held back: nothing of them leaves but by seats, and each fixture goes to one seat."""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

from clvlab.arena.application import Application
from clvlab.arena.packs import bundled_catalog
from clvlab.arena.seats.requests import SeatLimits, SeatRequest
from clvlab.arena.seats.tape import SeatTape
from clvlab.arena.uploads.intake import UploadLimits
from clvlab.errors import HeldBackError, LogConflictError, PackError, UnknownPackError
from clvlab.log.audit import Auditor
from clvlab.log.bundles import Trust, judge
from clvlab.log.entries import HeldEntry, ReleasedEntry
from clvlab.log.log import commit
from clvlab.packs.catalog import Catalog
from clvlab.packs.reader import load_pack
from clvlab.packs.synthetic import Recipe, build
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.proof.canonical import parsed, sha256
from clvlab.proof.verify import verify
from clvlab.store.runlog import RunLog
from tests.arena.seats import answered, finished, signed
from tests.arena.test_seats import Clocks, entries_of
from tests.factories import ALICE, BOB

SIZE = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A synthetic pack that no catalog has."""
    folder = tmp_path_factory.mktemp("held") / "vault"
    build(Recipe(seed=977, fixtures=SIZE, messages=25), folder)
    return folder


@pytest.fixture
def holding(application, folder):
    """Application of each store that holds the pack back."""
    application.seats.held.hold_back(folder)
    return application


def dealt(application, owner=ALICE, **fields):
    return application.seats.take(owner, SeatRequest(**{"agent_id": "me", "pack_id": "vault", "blind": "held-back"} | fields))


def audited(application):
    auditor = Auditor()
    with RunLog(application._database).read() as rows:
        for index in range(rows.size()):
            auditor.add(rows.entry(index))
    auditor.finish()
    return auditor


def test_a_pack_is_held_back_on_the_log_before_its_first_seat(holding, folder):
    pack = load_pack(folder)
    info = holding.seats.held.info("vault")
    start = dealt(holding)

    held, committed, *_ = entries_of(holding)

    assert held == HeldEntry(pack.content_hash, SIZE, info["fixtures_hash"])
    assert (committed.run_id, committed.content_hash) == (start["run_id"], pack.content_hash)
    assert holding.seats.held.all() == {"packs": [info | {"dealt": 1}]}
    assert (info["fixtures"], info["dealt"], info["held_index"], info["released_index"]) == (SIZE, 0, 0, None)


def test_each_fixture_is_dealt_once_also_if_its_seat_is_given_up(holding, folder):
    for number in range(SIZE):
        owner = (ALICE, BOB)[number % 2]
        holding.seats.withdraw(owner, dealt(holding, owner)["seat_id"])

    with pytest.raises(HeldBackError, match=r"each of the 3 fixtures of 'vault' was dealt") as spent:
        dealt(holding)

    with holding._database.read() as connection:
        from clvlab.store import held

        assert held.dealt(connection, load_pack(folder).content_hash) == set(load_pack(folder).fixture_ids)
    assert spent.value.reason == "dealt"
    assert audited(holding).broken == []


def test_two_processes_deal_the_last_fixture_to_one_seat(database_url, folder):
    processes = [Application(database_url) for _ in range(2)]
    processes[0].seats.held.hold_back(folder)

    def take(number):
        try:
            return dealt(processes[number % 2], (ALICE, BOB)[number % 2])["seat_id"]
        except HeldBackError as error:
            return error.reason

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(take, range(SIZE + 3)))

    assert found.count("dealt") == 3
    assert len({one for one in found if one != "dealt"}) == SIZE
    with processes[0]._database.read() as connection:
        rows = [row["fixture_ids"] for row in connection.exec_driver_sql("SELECT fixture_ids FROM seats").mappings()]
    assert len({str(row) for row in rows}) == SIZE
    for one in processes:
        one.close()


def test_a_seat_that_was_not_stored_leaves_its_fixture_to_others(holding, monkeypatch):
    from clvlab.arena.seats import seats as module

    with monkeypatch.context() as patch:
        patch.setattr(module.held, "deal", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
        with pytest.raises(RuntimeError, match="killed"):
            dealt(holding)
    assert [type(one).__name__ for one in entries_of(holding)] == ["HeldEntry"]
    assert holding.seats.page(ALICE)["seats"] == []

    for _ in range(SIZE):
        dealt(holding)
    assert holding.seats.held.info("vault")["dealt"] == SIZE


def test_an_owner_is_dealt_as_many_fixtures_as_the_operator_allows(folder):
    application = Application(seats=SeatLimits(held_fixtures=1))
    application.seats.held.hold_back(folder)
    application.seats.withdraw(ALICE, dealt(application)["seat_id"])

    with pytest.raises(HeldBackError, match="you were dealt 1 fixtures of 'vault', and may have 1") as refused:
        dealt(application)

    assert refused.value.reason == "limit"
    assert dealt(application, BOB)["next"]
    application.close()


def test_fixtures_cannot_be_named():
    with pytest.raises(ValueError, match="names no fixture_ids"):
        SeatRequest(agent_id="me", blind="held-back", fixture_ids=[1])
    with pytest.raises(ValueError, match="names no fixture_ids"):
        SeatRequest(agent_id="me", blind="held-back", fixture_ids="all")


def test_a_fixture_that_is_too_long_is_left_and_another_one_dealt(folder):
    pack = load_pack(folder)
    lengths = sorted(SeatTape.of(pack, [one]).ticks for one in pack.fixture_ids)
    application = Application(seats=SeatLimits(ticks=lengths[1]))
    application.seats.held.hold_back(folder)

    starts = [dealt(application) for _ in range(sum(length <= lengths[1] for length in lengths))]
    with pytest.raises(HeldBackError, match="or is too long for one"):
        dealt(application)

    assert len({start["seat_id"] for start in starts}) >= 2
    application.close()


def test_a_held_back_seat_shows_no_name_id_or_date_and_is_sealed_like_any_other(holding, folder):
    pack = load_pack(folder)
    start = dealt(holding)
    shown, answer = [start], start
    while answer["next"]:
        answer = answered(holding, ALICE, start | {"next": answer["next"]}, 1)
        shown += [answer, holding.seats.seat(ALICE, start["seat_id"])]
    text = orjson.dumps([shown[:-1], holding.seats.page(ALICE), holding.seats.held.all()]).decode()
    holding.jobs.require_sealed(start["run_id"])

    names = {name for fixture in pack.manifest.fixtures for name in fixture.names}
    keys = set(pack.tape().series["market_key"]) | set(map(str, pack.fixture_ids))
    found = holding.seats.seat(ALICE, start["seat_id"])
    assert not {name for name in names | keys if f'"{name}"' in text or (len(name) > 7 and name in text)}
    assert found["status"] == "sealed"
    assert set(found["fixture_ids"]) < set(pack.fixture_ids)
    assert holding.runs.verify(start["run_id"])["verified"]
    [row] = holding.leaderboard.rows()["rows"]
    assert row["causality"] == "asked"


def test_nothing_else_runs_over_a_pack_that_is_held_back(holding, folder):
    run_id, inputs, content_hash = "run_" + "1" * 32, "sha256:" + "1" * 64, load_pack(folder).content_hash

    with (
        pytest.raises(LogConflictError, match="held back by entry 0 of the log: only seats"),
        RunLog(holding._database).write() as rows,
    ):
        commit(rows, run_id, ALICE, inputs, content_hash, 1, sources=[None])
    with pytest.raises(UnknownPackError):
        holding.seats.take(ALICE, SeatRequest(agent_id="me", pack_id="vault", blind="aliased"))
    with pytest.raises(UnknownPackError):
        holding.seats.take(ALICE, SeatRequest(agent_id="me", pack_id="starter", blind="held-back"))
    assert [type(one).__name__ for one in entries_of(holding)] == ["HeldEntry"]


def test_the_list_that_is_opened_is_the_one_of_the_log(holding, folder):
    held = holding.seats.held
    start = dealt(holding)
    with pytest.raises(HeldBackError, match="not opened yet"):
        held.fixture_list("vault")

    released = held.release("vault")
    again = held.release("vault")

    listing = held.fixture_list("vault")
    [entry] = [one for one in entries_of(holding) if isinstance(one, ReleasedEntry)]
    pack = load_pack(folder)
    assert released == again
    assert sha256(listing) == released["fixtures_hash"]
    assert [one["fixture_id"] for one in parsed(listing)["fixtures"]] == list(pack.fixture_ids)
    assert [one["digest"] for one in parsed(listing)["fixtures"]] == [one.digest for one in pack.manifest.fixtures]
    assert re.fullmatch("[0-9a-f]{64}", parsed(listing)["salt"])
    assert (entry.content_hash, entry.held_index) == (pack.content_hash, 0)
    with pytest.raises(HeldBackError, match="was opened by entry 3 of the log") as over:
        dealt(holding)
    assert over.value.reason == "opened"
    finished(holding, ALICE, start)  # a seat that plays goes on
    assert audited(holding).broken == []
    [history] = audited(holding).held()
    assert (history.index, history.released, history.fixtures) == (0, 3, SIZE)


def test_a_seat_that_is_taken_while_the_list_is_opened_is_refused(holding, monkeypatch):
    held = holding.seats.held
    before = held.undealt
    monkeypatch.setattr(type(held), "undealt", lambda self, pack: (before(pack), self.release("vault"))[0])

    with pytest.raises(HeldBackError, match="was opened by entry 1"):
        dealt(holding)

    assert holding.seats.page(ALICE)["seats"] == []


def test_public_packs_are_not_held_back(application, folder, tmp_path):
    held = application.seats.held
    own = shutil.copytree(bundled_catalog().folder / "starter", tmp_path / "starter")

    with pytest.raises(HeldBackError, match="the catalog, which is public, has 'starter'") as public:
        held.hold_back(own)
    held.hold_back(folder)
    with pytest.raises(HeldBackError, match="it is so already, by entry 0"):
        held.hold_back(shutil.copytree(folder, tmp_path / "copy"))
    build(Recipe(seed=11, fixtures=1, messages=20), tmp_path / "vault")
    with pytest.raises(HeldBackError, match="another pack of this id is so already"):
        held.hold_back(tmp_path / "vault")
    with pytest.raises(PackError):
        held.hold_back(tmp_path / "none")
    with pytest.raises(UnknownPackError, match="no pack 'none' is held back"):
        held.release("none")

    assert public.value.reason == "public"


def test_a_pack_that_shares_a_match_with_another_one_is_not_held_back(tmp_path, folder):
    catalog = Catalog(tmp_path / "packs")
    build(Recipe(seed=977, fixtures=1, messages=25), catalog.folder / "public")
    catalog.admit("public")
    application = Application(catalog=catalog)

    first = load_pack(folder).manifest.fixtures[0]
    if load_pack(catalog.folder / "public").manifest.fixtures[0].digest != first.digest:
        pytest.fail("the recipe no longer gives the same first fixture")
    with pytest.raises(
        HeldBackError, match=rf"pack 'public' of the catalog has matches of it, its fixtures {first.fixture_id}"
    ):
        application.seats.held.hold_back(folder)
    application.close()


def test_a_pack_over_which_the_log_has_a_run_is_not_held_back(application, folder):
    content_hash = load_pack(folder).content_hash
    with RunLog(application._database).write() as rows:
        commit(rows, "run_" + "1" * 32, ALICE, "sha256:" + "1" * 64, content_hash, 1, sources=[None])

    with pytest.raises(LogConflictError, match="entry 0 of the log commits to a run over it"):
        application.seats.held.hold_back(folder)


def test_a_pack_that_the_catalog_got_meanwhile_deals_no_seat(tmp_path, folder):
    catalog = Catalog(tmp_path / "packs")
    catalog.folder.mkdir()
    application = Application(catalog=catalog)
    application.seats.held.hold_back(folder)
    start = dealt(application)
    shutil.copytree(folder, catalog.folder / "vault")
    catalog.admit("vault")

    with pytest.raises(HeldBackError, match="the catalog, which is public, has 'vault'"):
        dealt(application)
    assert answered(application, ALICE, start, 2)["answered"]["tick"] == 2
    application.close()


def test_a_pack_that_changed_since_is_not_dealt(folder, tmp_path):
    own = shutil.copytree(folder, tmp_path / "vault")
    application = Application()
    application.seats.held.hold_back(own)
    (own / "ticks.parquet").write_bytes(b"other ticks")

    with pytest.raises(UnknownPackError, match="held back, and not available") as refused:
        dealt(application)
    assert str(tmp_path) not in str(refused.value)
    application.close()


def test_uploads_are_read_before_a_pack_is_held_back(database_url, folder, tmp_path):
    from clvlab.store import uploads

    application = Application(database_url, uploads=UploadLimits(tmp_path / "uploads"))
    pack = load_pack(folder)
    with application._database.write() as connection:
        uploads.add(connection, {
            "owner": BOB, "pack_id": "mine", "content_hash": pack.content_hash, "provenance": pack.provenance,
            "is_genuine": False, "fixtures": list(pack.fixture_ids), "bytes": 1, "entry": {}, "created_ts_ms": 1,
        })  # fmt: skip

    with pytest.raises(HeldBackError, match="it is upload 'mine' of "):
        application.seats.held.hold_back(folder)
    application.close()
    without = Application(database_url)
    with without._database.write() as connection:
        connection.exec_driver_sql("UPDATE uploads SET content_hash = 'sha256:0'")
    with pytest.raises(HeldBackError, match="can't be read, so nothing shows"):
        without.seats.held.hold_back(folder)
    without.close()


def test_jumping_clocks_and_a_new_process_leave_a_dealt_seat_as_it_is(database_url, folder):
    clocks = Clocks()
    first = Application(database_url, **clocks.options)
    first.seats.held.hold_back(folder)
    start = dealt(first)
    answered(first, ALICE, start, 3)
    first.close()
    clocks.wall_ms -= 86_400_000

    second = Application(database_url, **clocks.options)
    found = second.seats.seat(ALICE, start["seat_id"])
    finished(second, ALICE, start | {"next": found["next"]})

    assert found["answered"] == 3
    assert second.seats.held.info("vault")["dealt"] == 1
    second.close()


@pytest.mark.parametrize("released", [False, True])
def test_verification_says_since_when_the_pack_was_held_back(folder, released):
    application = Application(log_key=signed())
    application.seats.held.hold_back(folder)
    start = dealt(application)
    finished(application, ALICE, start)
    if released:
        application.seats.held.release("vault")
    parts = read_bundle(application.runs.bundle(start["run_id"]))
    trust = Trust(logs=[str(application.log.signer.verifier)])

    check = judge(parts, verify(run_of(parts)), trust, ["seat"], without_witness=True, views=_views(folder, parts))["seat"]
    unsigned = judge(parts, verify(run_of(parts)), Trust())["seat"]

    assert check.verdict.value == "pass"
    assert "its pack was held back since entry 0 of the log, before the seat" in check.detail
    assert ("was opened by entry" if released else "is not opened yet") in check.detail
    assert "is the word of the log's operator" in check.detail
    assert unsigned.verdict.value == "not_applicable"
    assert "held back since" not in unsigned.detail
    application.close()


def _views(folder, parts):
    started = verify(run_of(parts)).started
    return SeatTape.of(load_pack(folder), started["binding"]["fixture_ids"]).views


def test_a_row_of_the_board_says_how_many_seats_its_owner_took(holding):
    for agent_id in ("me", "other"):
        finished(holding, ALICE, dealt(holding, agent_id=agent_id))
    holding.seats.withdraw(ALICE, dealt(holding)["seat_id"])
    holding.seats.take(BOB, SeatRequest(agent_id="bob", pack_id="starter", blind="open"))

    rows = holding.leaderboard.rows()["rows"]

    taken = {"taken": 3, "abandoned": 1, "packs": 1}
    assert {row["agent_id"]: row["seats"] for row in rows} == {"me": taken, "other": taken}
