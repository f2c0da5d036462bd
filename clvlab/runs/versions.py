"""Versions that verification depends on in this installation: clvlab, its sources, and libraries."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import msgspec
import numpy as np
import orjson
import polars as pl

from clvlab.proof.closure import source_digest


def judge() -> dict[str, str]:
    """Return the version of clvlab, the digest of its trust closure, and versions of polars, numpy, msgspec and orjson."""
    try:
        own = version("clvlab")
    except PackageNotFoundError:
        own = "not installed"  # the sources are run from the path
    return {
        "clvlab": own,
        "source_digest": source_digest(),
        "polars": pl.__version__,
        "numpy": np.__version__,
        "msgspec": msgspec.__version__,
        "orjson": orjson.__version__,
    }
