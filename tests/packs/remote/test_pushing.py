import shutil
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import orjson
import pytest

import clvlab as cl
from clvlab.arena.packs import push_pack
from clvlab.arena.runs.bundles import push_stored
from clvlab.errors import BundleError, PackTamperedError, RemoteConflictError
from clvlab.packs.manifest import descriptor, read_manifest
from clvlab.packs.reader import load_pack
from clvlab.packs.synthetic import Recipe, build
from tests.commands import clvlab

URL = "s3://tested/mine/many"
FILES = ["datapackage.json", "results.parquet", "ticks.parquet"]


@pytest.fixture
def other(tmp_path):
    """Another pack, which calls itself the same."""
    build(Recipe(4, 2, 40), tmp_path / "other" / "many")
    return tmp_path / "other" / "many"


def puts(server):
    return [path.rpartition("/")[2] for method, path, _ in server.asked if method == "PUT"]


def test_a_pack_is_put_there_file_by_file_the_descriptor_last(s3, many, tmp_path):
    code, out, _ = clvlab(tmp_path, "packs", "push", many, URL)

    assert (code, load_pack(many).content_hash in out, URL in out) == (0, True, True)
    assert s3.names() == [f"mine/many/{name}" for name in FILES]
    assert all(s3.get(f"mine/many/{name}") == (many / name).read_bytes() for name in FILES)
    assert puts(s3) == ["ticks.parquet", "results.parquet", "datapackage.json"]


def test_the_same_again_writes_nothing(s3, many):
    push_pack(many, URL)
    s3.asked.clear()

    push_pack(many, URL)

    assert puts(s3) == []


def test_a_push_that_broke_off_is_gone_on_with(s3, many):
    s3.change("mine/many/ticks.parquet", (many / "ticks.parquet").read_bytes())

    push_pack(many, URL)

    assert cl.open_pack(URL).ticks().height


def test_another_pack_is_refused_by_name_and_nothing_is_touched(s3, many, other):
    push_pack(many, URL)
    before = {key: s3.get(key) for key in s3.names()}
    s3.asked.clear()

    with pytest.raises(RemoteConflictError, match=f"{URL} holds the pack 'many' of {load_pack(many).content_hash}"):
        push_pack(other, URL)

    assert {key: s3.get(key) for key in s3.names()} == before
    assert puts(s3) == []


def test_a_file_of_another_pack_is_refused_by_name(s3, many):
    s3.change("mine/many/results.parquet", b"of another pack")

    with pytest.raises(RemoteConflictError, match=rf"{URL}/results\.parquet is there with other bytes"):
        push_pack(many, URL)

    assert "mine/many/datapackage.json" not in s3.names()


def test_the_same_content_in_other_bytes_is_the_same_pack(s3, many, tmp_path):
    again = tmp_path / "again"
    shutil.copytree(many, again)
    manifest, _ = read_manifest(again)
    sizes = {name: (again / name).stat().st_size for name in FILES}
    (again / "datapackage.json").write_bytes(descriptor(manifest.model_copy(update={"pack_id": "again"}), sizes))
    push_pack(many, URL)

    push_pack(again, URL)

    assert s3.get("mine/many/datapackage.json") == (many / "datapackage.json").read_bytes()


def test_a_pack_that_is_not_sound_is_not_pushed(s3, many, tmp_path):
    bad = tmp_path / "bad"
    shutil.copytree(many, bad)
    content = orjson.loads((bad / "datapackage.json").read_bytes())
    content["clvlab"]["fixtures"][2]["rows"] += 1
    (bad / "datapackage.json").write_bytes(orjson.dumps(content))

    with pytest.raises(PackTamperedError):
        push_pack(bad, URL)

    assert s3.names() == []


@pytest.mark.parametrize("rounds", range(3))
def test_of_two_packs_pushed_at_once_one_is_there_whole(s3, many, other, rounds):
    url, start = f"s3://tested/race/{rounds}", Barrier(2)

    def push(folder):
        start.wait()
        try:
            return push_pack(folder, url)
        except RemoteConflictError:
            return None

    with ThreadPoolExecutor(2) as pool:
        done = [pack for pack in pool.map(push, (many, other)) if pack is not None]

    assert len(done) == 1
    assert cl.open_pack(url).content_hash == done[0].content_hash
    assert cl.open_pack(url).ticks().height == sum(fixture.rows for fixture in done[0].manifest.fixtures)
    assert len(s3.names()) == 3


@pytest.mark.usefixtures("s3")
def test_one_pack_pushed_twice_at_once_is_there(many):
    start = Barrier(2)

    def push(_):
        start.wait()
        return push_pack(many, URL).content_hash

    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(push, range(2)))) == 1
    assert cl.open_pack(URL).ticks().height


def test_a_run_lies_under_its_id_and_is_never_written_over(s3, tmp_path):
    run = cl.backtest("starter", "cumulative-drift").run
    folder = run.save(tmp_path)

    assert run.push("s3://tested/runs") == f"s3://tested/runs/{run.run_id}"

    assert {key.rpartition("/")[2]: s3.get(key) for key in s3.names()} == {
        path.name: path.read_bytes() for path in folder.iterdir()
    }
    assert puts(s3)[-1] == "manifest.json"
    code, out, _ = clvlab(tmp_path, "push", folder, "s3://tested/runs")
    assert (code, out) == (0, f"Pushed to s3://tested/runs/{run.run_id}\n")
    s3.change(f"runs/{run.run_id}/events.jsonl", b"other\n")
    with pytest.raises(RemoteConflictError, match=rf"{run.run_id}/events\.jsonl is there with other bytes"):
        run.push("s3://tested/runs")


def test_a_bundle_lies_under_the_id_of_its_run(s3, tmp_path):
    run = cl.backtest("starter", "cumulative-drift").run
    folder = run.save(tmp_path)
    assert clvlab(tmp_path, "bundle", folder, "--out", "run.clv")[0] == 0

    assert push_stored(tmp_path / "run.clv", "s3://tested/runs") == f"s3://tested/runs/{run.run_id}.clv"

    assert s3.get(f"runs/{run.run_id}.clv") == (tmp_path / "run.clv").read_bytes()


def test_a_run_that_does_not_verify_is_not_pushed(s3, tmp_path):
    folder = cl.backtest("starter", "cumulative-drift").run.save(tmp_path)
    events = folder / "events.jsonl"
    events.write_bytes(events.read_bytes().replace(b'"BACK"', b'"LAY"', 1))

    with pytest.raises(BundleError, match="does not verify, so nothing is pushed"):
        push_stored(folder, "s3://tested/runs")

    assert s3.names() == []
