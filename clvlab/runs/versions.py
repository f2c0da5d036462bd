"""What judges a run here: the version and the sources of clvlab, and the libraries that compute for it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import orjson
import polars as pl
import pyarrow as pa

from clvlab.proof.closure import source_digest


def judge() -> dict[str, str]:
    """Name what judges a run: version of clvlab, digest of its trust closure, versions of polars, pyarrow and orjson."""
    try:
        own = version("clvlab")
    except PackageNotFoundError:
        own = "not installed"  # its sources lie on the path
    return {
        "clvlab": own,
        "source_digest": source_digest(),
        "polars": pl.__version__,
        "pyarrow": pa.__version__,
        "orjson": orjson.__version__,
    }
