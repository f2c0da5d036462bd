"""Margin removal in penaltyblog: row by row."""

import numpy as np
import penaltyblog.implied


def run(odds: np.ndarray, method: str) -> list[list[float]]:
    name = method.replace("-", "_")
    return [penaltyblog.implied.calculate_implied(row, method=name).probabilities for row in odds.tolist()]
