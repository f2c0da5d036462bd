"""A view file reads packs as whole as a folder does: the hash of a file is no part of a content hash."""

import json

import polars as pl
import pyarrow.parquet as pq
import pytest

import clvlab as cl
from clvlab.errors import PackTamperedError
from clvlab.packs.files import file_sha256
from tests.booked import write_booked


@pytest.mark.parametrize(("name", "what"), [("ticks", "fixture 1"), ("books", "books of fixture 1")])
def test_a_view_of_a_pack_with_other_prices_and_the_hash_of_its_file_mended_is_refused(tmp_path, name, what):
    write_booked(tmp_path / "booked")
    view = cl.open_pack(tmp_path / "booked").where(markets="OU")
    view.save(tmp_path / "late.json")
    assert cl.open_pack(tmp_path / "late.json").content_hash == view.content_hash
    path = tmp_path / "booked" / f"{name}.parquet"
    forged = pq.read_table(path).to_pandas()
    forged["odds_milli"] = forged["odds_milli"] + 1
    schema = pq.read_schema(path)
    pq.write_table(pl.from_pandas(forged).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema), path)
    descriptor = tmp_path / "booked" / "datapackage.json"
    said = json.loads(descriptor.read_text())
    for resource in said["resources"]:
        if resource["name"] == name:
            resource["hash"] = file_sha256(path)
    descriptor.write_text(json.dumps(said))

    with pytest.raises(PackTamperedError, match=what):
        cl.open_pack(tmp_path / "late.json")
