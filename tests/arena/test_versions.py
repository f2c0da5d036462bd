from importlib.metadata import PackageNotFoundError

import polars as pl

from clvlab.proof.closure import source_digest
from clvlab.runs import versions
from clvlab.runs.versions import judge


def test_what_judges_is_named_with_its_sources():
    judged = judge()

    assert list(judged) == ["clvlab", "source_digest", "polars", "numpy", "msgspec", "orjson"]
    assert (judged["source_digest"], judged["polars"]) == (source_digest(), pl.__version__)


def test_sources_on_the_path_judge_without_an_installation(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(versions, "version", missing)

    assert judge()["clvlab"] == "not installed"
