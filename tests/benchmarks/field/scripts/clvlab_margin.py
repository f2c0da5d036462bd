"""Margin removal in clvlab: all rows at once."""

import numpy as np

from clvlab.odds.margin import fair_probabilities


def run(odds: np.ndarray, method: str) -> np.ndarray:
    return fair_probabilities(odds, method).prob
