"""Margin removal in shin: row by row."""

import numpy as np
import shin


def run(odds: np.ndarray) -> list[list[float]]:
    return [shin.calculate_implied_probabilities(row) for row in odds.tolist()]
