"""The normal distribution in integers, from a committed table: the same on every machine, where a library's may differ."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@lru_cache(maxsize=1)
def micro_probits() -> Ints:
    """Return the z x 10^6, rounded, at which the normal distribution reaches (b + 1/2) / 10000, for b = 0..9999."""
    text = files("clvlab.odds").joinpath("micro_probits.txt").read_text(encoding="ascii")
    table = np.array([int(line) for line in text.split()], dtype=np.int64)
    table.setflags(write=False)
    return table


def normal_bps(micro_z: Ints) -> Ints:
    """Return the normal distribution at z, in basis points rounded half up, 0..10000.

    Parameters
    ----------
    micro_z
        z in millionths of a standard deviation.

    Examples
    --------
    >>> normal_bps(np.array([-1_000_000, 0, 1_959_964, 9_000_000])).tolist()
    [1587, 5000, 9750, 10000]
    """
    return np.searchsorted(micro_probits(), micro_z, side="right").astype(np.int64)
