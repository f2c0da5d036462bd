import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

from clvlab.arena.application import Application
from clvlab.arena.packs import bundled_catalog
from clvlab.arena.uploads.intake import UploadLimits
from clvlab.arena.uploads.requests import UploadRequest
from clvlab.errors import (
    BindingError,
    BusyError,
    NotStartableError,
    PreflightError,
    UnknownPackError,
    UploadConflictError,
    UploadRefusedError,
    UploadsOffError,
)
from clvlab.packs.catalog import Catalog
from clvlab.packs.synthetic import Recipe, build
from tests.arena.archives import files_of, tarred, zipped
from tests.commands import clvlab
from tests.factories import ALICE, BOB, make_competition
from tests.sources.capture.test_captures_as_files import MESSAGE

FIXTURE = 90000000
DEPLOY = {"strategy": "cumulative-drift", "source_mode": "replay", "pack_id": "mine", "fixture_id": FIXTURE}
ODDS = b"fixture,kickoff,time,market,side,odds,bookmaker\n" + b"".join(
    b"x,2025-01-01T20:00:00Z,2025-01-01T1%d:00:00Z,ML,%s,%s,b\n" % (hour, side, odds)
    for hour in range(5)
    for side, odds in ((b"home", b"2.0"), (b"away", b"1.9"))
)
IMPORT = {"pack_id": "odds", "source": "csv", "column": ["book=bookmaker"]}


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """Folder of a pack of somebody's own."""
    folder = tmp_path_factory.mktemp("packs") / "mine"
    build(Recipe(seed=7, fixtures=2, messages=40), folder)
    return folder


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "uploads"


@pytest.fixture
def stored(database_url, folder, one_pack):
    """Application with uploads over a store of each kind, and a catalog of one pack that may change."""
    opened = Application(database_url, catalog=one_pack, uploads=UploadLimits(folder))
    opened.start()
    yield opened
    opened.close()


@pytest.fixture
def small(folder, one_pack):
    """The same over a store in memory, for what does not depend on the store."""
    opened = Application(catalog=one_pack, uploads=UploadLimits(folder))
    opened.start()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def kept(mine, tmp_path_factory):
    """A store that holds the pack as an upload of Alice's, and its folder: verifying one takes a process."""
    place = tmp_path_factory.mktemp("kept")
    application = Application(f"sqlite:///{place / 'store.db'}", uploads=UploadLimits(place / "uploads"))
    application.uploads.start()
    upload(application, zipped(files_of(mine)))
    application.close()
    return place


@pytest.fixture
def url_of_kept(kept, tmp_path, folder):
    """URL of a copy of that store, beside a copy of its folder."""
    shutil.copytree(kept / "uploads", folder)
    shutil.copy(kept / "store.db", tmp_path)
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def holding(url_of_kept, folder, one_pack):
    """Application over the copies, and a catalog of one pack."""
    opened = Application(url_of_kept, catalog=one_pack, uploads=UploadLimits(folder))
    opened.start()
    yield opened
    opened.close()


@pytest.fixture
def started(monkeypatch):
    """Start the process that verifies an upload as everybody's is; elsewhere it is forked."""
    monkeypatch.setattr("clvlab.arena.uploads.uploads.subprocess", subprocess)


def upload(application, body, owner=ALICE, **request):
    incoming = application.uploads.receive(owner, UploadRequest(**request))
    incoming.write(body)
    return application.uploads.keep(incoming)


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.usefixtures("started")
def test_an_archive_is_kept_as_the_pack_it_holds(small, mine):
    found, new = upload(small, tarred(files_of(mine)))

    assert new
    assert found["pack_id"] == "mine"
    assert found["content_hash"] == small.uploads.open(ALICE, "mine").content_hash
    assert (found["provenance"], found["is_genuine"], found["admitted"]) == ("synthetic-clvlab", False, False)
    assert found["fixtures"] == [FIXTURE, FIXTURE + 1]
    assert found["bytes"] == sum(len(content) for content in files_of(mine).values())
    assert small.uploads.all(ALICE) == {"packs": [found]}


@pytest.mark.usefixtures("started")
def test_a_source_file_is_imported(small):
    found, _ = upload(small, ODDS, **IMPORT)
    again, new = upload(small, ODDS, **IMPORT)

    assert found["provenance"] == "imported-table"
    assert (again, new) == (found, False)
    assert small.uploads.open(ALICE, "odds").quality is not None


def test_a_label_that_is_earned_is_kept(small):
    messages = [MESSAGE | {"MessageId": f"m{n}", "Ts": MESSAGE["Ts"] + 1000 * n} for n in range(3)]
    body = b"".join(orjson.dumps(message) + b"\n" for message in messages)

    found, _ = upload(small, body, pack_id="captured", source="txline")

    assert (found["provenance"], found["is_genuine"], found["grade"]) == ("genuine-txline", True, "self-consistent")


def test_a_source_file_that_can_not_be_read_is_refused_with_its_line(small, folder):
    with pytest.raises(UploadRefusedError, match=r"upload\.csv:2: .*odds"):
        upload(small, ODDS.replace(b"2.0", b"x"), **IMPORT)

    assert left_in(folder) == []


def test_a_row_that_cant_be_read_is_counted_unless_strictness_is_asked_for(small):
    bad = ODDS.rstrip(b"\n") + b"\nm,soon,a,2.0\n"

    with pytest.raises(UploadRefusedError, match=r"'soon' is no|cells under a header"):
        upload(small, bad, **IMPORT, lenient=False)
    upload(small, bad, **IMPORT)

    assert small.uploads.open(ALICE, "odds").quality.refused_rows == 1


def test_a_source_file_in_an_archive_is_not_unpacked(small, folder):
    with pytest.raises(
        UploadRefusedError, match=r"'upload\.csv' is an archive or compressed with xz: send the source file in it"
    ):
        upload(small, tarred({"odds.csv": ODDS}), **IMPORT)

    assert left_in(folder) == []


@pytest.mark.parametrize("request_", [{"source": "csv"}, {"lenient": True}, {"pack_id": "a/b"}, {"filename": "x"}], ids=str)
def test_a_request_that_contradicts_itself_is_refused(request_):
    with pytest.raises(ValueError, match=r"pack_id|lenient|filename"):
        UploadRequest(**request_)


def test_the_same_content_again_is_the_same_pack(stored, mine):
    first, new = upload(stored, zipped(files_of(mine)))
    again, newer = upload(stored, tarred(files_of(mine)))
    of_bob, _ = upload(stored, zipped(files_of(mine)), owner=BOB)

    assert (new, newer) == (True, False)
    assert again == first
    assert (first["owner"], of_bob["owner"]) == (ALICE, BOB)
    assert first["created_ts_ms"] == first["updated_ts_ms"] <= of_bob["created_ts_ms"]
    assert undated(of_bob) | {"owner": ALICE} == undated(first)


def undated(pack):
    return pack | {"created_ts_ms": 0, "updated_ts_ms": 0}


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"timeout_s": 0}, "could not be verified in 0 s"),
        ({"memory_mb": 100}, "needs more than 100 MB|MemoryError"),
    ],
)
def test_a_pack_beyond_the_limits_is_refused_and_nothing_is_left(folder, mine, limits, why):
    application = Application(uploads=UploadLimits(folder, **limits))
    application.start()

    with pytest.raises(UploadRefusedError, match=why):
        upload(application, zipped(files_of(mine)))

    assert left_in(folder) == []
    assert application.uploads.all(ALICE) == {"packs": []}
    application.close()


@pytest.mark.parametrize(("limits", "reason"), [({"max_packs": 1}, "too_many"), ({"max_owner_bytes": 12_000}, "too_large")])
def test_an_owner_keeps_so_many_packs_and_bytes(folder, mine, limits, reason):
    application = Application(uploads=UploadLimits(folder, **limits))
    application.start()
    upload(application, zipped(files_of(mine)))

    with pytest.raises(UploadConflictError) as refused:
        upload(application, ODDS, **IMPORT)

    assert refused.value.reason == reason
    application.close()


def test_an_owner_has_so_many_uploads_under_way(small):
    first, second = (small.uploads.receive(ALICE, UploadRequest()) for _ in range(2))

    with pytest.raises(BusyError):
        small.uploads.receive(ALICE, UploadRequest())
    small.uploads.receive(BOB, UploadRequest()).discard()
    first.discard()
    first.discard()
    small.uploads.receive(ALICE, UploadRequest()).discard()
    second.discard()


def test_an_id_of_the_catalog_is_not_to_be_had(small, folder):
    starter = bundled_catalog().folder / "starter"

    with pytest.raises(UploadConflictError) as refused:
        upload(small, zipped(files_of(starter)))

    assert refused.value.reason == "in_catalog"
    assert left_in(folder) == []


def test_two_that_race_for_an_id_get_one_pack(stored, mine):
    archives = [(zipped(files_of(mine)), {}), (ODDS, IMPORT | {"pack_id": "mine"})]

    def one(asked):
        try:
            return upload(stored, asked[0], **asked[1])[0]["content_hash"]
        except UploadConflictError as error:
            return error.reason

    with ThreadPoolExecutor() as pool:
        outcomes = list(pool.map(one, archives))

    assert sum(outcome == "id_taken" for outcome in outcomes) == 1
    assert stored.uploads.open(ALICE, "mine").content_hash in outcomes


def test_competitions_and_deploys_of_its_owner_run_over_it(holding):
    competition = make_competition(holding, "baseline", pack_id="mine")
    started = holding.competitions.start(ALICE, competition)
    deployed = holding.deploys.deploy(ALICE, DEPLOY)
    holding.jobs.settle(deployed["run_id"])

    assert started["replay_binding"] == {
        "pack_id": "mine", "fixture_id": FIXTURE, "content_hash": holding.uploads.info(ALICE, "mine")["content_hash"],
    }  # fmt: skip
    for run_id in (started["run_id"], deployed["run_id"]):
        assert holding.runs.verify(run_id)["verified"]


def test_nobody_else_sees_it(holding):
    with pytest.raises(BindingError, match="unknown or unverified pack 'mine'"):
        make_competition(holding, pack_id="mine", owner=BOB)
    with pytest.raises(PreflightError, match="unknown or unverified pack 'mine'"):
        holding.deploys.deploy(BOB, DEPLOY)
    with pytest.raises(UnknownPackError):
        holding.packs.info("mine")
    for act in (holding.uploads.info, holding.uploads.open, holding.uploads.delete):
        with pytest.raises(UnknownPackError):
            act(BOB, "mine")
    assert [pack["pack_id"] for pack in holding.packs.all()["packs"]] == ["starter"]
    assert holding.uploads.all(BOB) == {"packs": []}


def test_it_is_not_counted_where_the_only_pack_of_the_catalog_is_taken(holding):
    competition = make_competition(holding, "baseline", pack_id=None)

    assert holding.competitions.start(ALICE, competition)["replay_binding"]["pack_id"] == "starter"


def test_runs_over_it_count_on_the_leaderboard_from_its_admission_on(stored, mine, one_pack):
    upload(stored, zipped(files_of(mine)))
    run_both(stored)

    assert stored.leaderboard.rows() == {"rows": []}
    assert stored.leaderboard.rebuild() == []
    assert stored.leaderboard.rows() == {"rows": []}

    stored.uploads.admit(ALICE, "mine", one_pack)
    run_both(stored)

    assert stored.uploads.info(ALICE, "mine")["admitted"]
    assert {row["agent_id"]: row["runs"] for row in stored.leaderboard.rows()["rows"]} == {"baseline": 1, "cumulative-drift": 1}
    assert stored.leaderboard.rebuild() == []
    with pytest.raises(UploadConflictError, match="has a 'mine' already"):
        stored.uploads.admit(ALICE, "mine", one_pack)


def run_both(stored):
    stored.competitions.start(ALICE, make_competition(stored, "baseline", pack_id="mine"))
    stored.jobs.settle(stored.deploys.deploy(ALICE, DEPLOY)["run_id"])


def test_an_admission_that_was_killed_goes_on_and_another_pack_of_the_name_is_let_be(holding, one_pack, monkeypatch):
    def killed(*_):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "admit", killed)
        patch.setattr("clvlab.arena.uploads.uploads.shutil.rmtree", lambda *_, **__: None)
        with pytest.raises(SystemExit):
            holding.uploads.admit(ALICE, "mine", one_pack)
    assert (one_pack.folder / "mine").is_dir()

    assert holding.uploads.admit(ALICE, "mine", one_pack).pack_id == "mine"

    (one_pack.folder / "catalog.json").unlink()
    (one_pack.folder / "mine" / "datapackage.json").write_text("{}")
    with pytest.raises(UploadConflictError, match="has a 'mine' already"):
        holding.uploads.admit(ALICE, "mine", one_pack)
    assert (one_pack.folder / "mine" / "datapackage.json").read_text() == "{}"


def test_a_pack_of_the_catalog_goes_before_an_upload_of_its_id(holding, one_pack):
    before = make_competition(holding, "baseline", pack_id="mine")
    build(Recipe(seed=8, fixtures=1, messages=40), one_pack.folder / "mine")
    admitted = one_pack.admit("mine")

    assert not holding.uploads.info(ALICE, "mine")["admitted"]
    after = make_competition(holding, "baseline", pack_id="mine")
    assert holding.competitions.start(ALICE, after)["replay_binding"]["content_hash"] == admitted.content_hash
    with pytest.raises(NotStartableError) as refused:
        holding.competitions.start(ALICE, before)
    assert refused.value.reason == "binding_changed"
    holding.uploads.delete(ALICE, "mine")


def test_it_is_deleted_unless_something_that_is_not_over_needs_it(stored, mine, folder):
    upload(stored, zipped(files_of(mine)))
    competition = make_competition(stored, "baseline", pack_id="mine")

    with pytest.raises(UploadConflictError, match=f"competition {competition}"):
        stored.uploads.delete(ALICE, "mine")
    run_id = stored.competitions.start(ALICE, competition)["run_id"]
    stored.uploads.delete(ALICE, "mine")

    assert stored.uploads.all(ALICE) == {"packs": []}
    assert not [path for path in folder.rglob("*") if path.is_file()]
    assert stored.runs.verify(run_id)["verified"]


def test_a_queued_run_keeps_it(url_of_kept, folder):
    application = Application(url_of_kept, uploads=UploadLimits(folder))  # its workers are not started
    application.uploads.start()
    run_id = application.deploys.deploy(ALICE, DEPLOY)["run_id"]

    with pytest.raises(UploadConflictError, match=f"run {run_id}"):
        application.uploads.delete(ALICE, "mine")
    application.close()


@pytest.mark.parametrize("name", ["datapackage.json", "ticks.parquet"])
def test_a_pack_whose_files_are_not_those_of_its_row_is_not_there(holding, mine, folder, name):
    found = holding.uploads.info(ALICE, "mine")
    competition = make_competition(holding, "baseline", pack_id="mine")
    (kept,) = folder.glob(f"*/mine/{name}")
    kept.write_bytes(kept.read_bytes() + b" ")

    assert holding.uploads.all(ALICE) == {"packs": []}
    with pytest.raises(UnknownPackError):
        holding.uploads.info(ALICE, "mine")
    with pytest.raises(NotStartableError, match="not available"):
        holding.competitions.start(ALICE, competition)
    again, new = upload(holding, zipped(files_of(mine)))
    assert (undated(again), new) == (undated(found), True)
    holding.competitions.start(ALICE, competition)


def test_what_a_process_left_that_died_is_removed_at_the_next_start(holding, folder):
    kept = left_in(folder)
    (folder / ".unfinished-dead" / "given").mkdir(parents=True)
    living = holding.uploads.receive(ALICE, UploadRequest())

    holding.uploads.start()

    assert left_in(folder) == sorted([living.path.name, *kept])
    living.discard()


def test_files_without_a_row_are_replaced(holding, folder, mine):
    (home,) = folder.iterdir()
    holding.uploads.delete(ALICE, "mine")
    shutil.copytree(mine, home / "mine")
    (home / "mine" / "stray").write_text("x")

    upload(holding, zipped(files_of(mine)))

    assert sorted(path.name for path in (home / "mine").iterdir()) == ["datapackage.json", "results.parquet", "ticks.parquet"]


def test_without_a_folder_there_are_no_uploads(in_memory):
    with pytest.raises(UploadsOffError, match="CLVLAB_UPLOADS"):
        _ = in_memory.uploads


def test_the_operator_lists_uploads_and_admits_one(url_of_kept, tmp_path, folder, one_pack):
    store = ["--database-url", url_of_kept, "--uploads", str(folder), "--catalog", str(one_pack.folder)]

    _, listed, _ = clvlab(tmp_path, "service", "uploads", *store, "--json")
    code, _, errors = clvlab(tmp_path, "service", "admit-upload", ALICE, "mine", *store)
    _, shown, _ = clvlab(tmp_path, "service", "uploads", *store)

    (row,) = orjson.loads(listed)
    assert (row["owner"], row["pack_id"], row["admitted"]) == (ALICE, "mine", False)
    assert code == 0, errors
    assert one_pack.open("mine").content_hash == row["content_hash"]
    assert ", admitted, " in shown
    assert clvlab(tmp_path, "service", "admit-upload", BOB, "mine", *store)[0] == 2
