"""Versions that verification depends on in this installation: clvlab, its sources, and libraries."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def own_version() -> str:
    """Return the version of clvlab."""
    try:
        return version("clvlab")
    except PackageNotFoundError:
        return "not installed"  # the sources are run from the path


def judge() -> dict[str, str]:
    """Return the version of clvlab, the digest of its trust closure, and versions of polars, numpy, msgspec and orjson."""
    import msgspec
    import numpy as np
    import orjson
    import polars as pl

    from clvlab.proof.closure import source_digest  # not for the version alone, which needs no library

    return {
        "clvlab": own_version(),
        "source_digest": source_digest(),
        "polars": pl.__version__,
        "numpy": np.__version__,
        "msgspec": msgspec.__version__,
        "orjson": orjson.__version__,
    }
