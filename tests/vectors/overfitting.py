"""Makes ``overfitting.json``: the logits that another package finds. Run once, in an environment of its own.

Tests read the file and never import the package::

    python3 -m venv oracles && oracles/bin/pip install ffn==1.4.1
    oracles/bin/python -m tests.vectors.overfitting

What the package is asked: its own ratio (mean over standard deviation: the cluster t, but for a factor, where fixtures hold one
decision each), and figures that are written here with loops. Every logit is as the package gave it.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from math import sqrt
from pathlib import Path

import numpy as np

_FILE = Path(__file__).with_name("overfitting.json")


def cases(seed: int = 11):
    """Yield name, figure, blocks, sums and counts: a row per fixture, a column per configuration, whole numbers."""
    rng = np.random.default_rng(seed)
    for name, statistic, blocks, fixtures, columns, most, copies in (
        ("one decision a fixture", "t", 8, 64, 12, 1, 0),
        ("noise", "mean", 8, 40, 10, 6, 0),
        ("one is better, fixtures left over", "mean", 8, 46, 11, 6, 0),
        ("copies tie, in sample and out of sample", "mean", 6, 36, 12, 4, 5),
        ("clusters of many sizes", "t", 8, 64, 10, 9, 0),
        ("sixteen blocks", "mean", 16, 80, 10, 5, 2),
    ):
        counts = rng.integers(1, most + 1, (fixtures, columns))
        effect = rng.normal(0, 60, (fixtures, columns)) + (90 * (np.arange(columns) == 4) if "better" in name else 0)
        sums = np.rint(counts * effect + rng.normal(0, 80, counts.shape) * np.sqrt(counts)).astype(int)
        for copy in range(copies):
            sums[:, -1 - copy], counts[:, -1 - copy] = sums[:, copy], counts[:, copy]
        yield name, statistic, blocks, sums, counts


def figure(statistic: str, sums, counts):
    """Return what the package calls for a column and the rows of a half."""

    def mean(series):
        rows = list(series.index)
        return sum(sums[k][series.name] for k in rows) / sum(counts[k][series.name] for k in rows)

    def clustered(series):
        rows, m = list(series.index), mean(series)
        total = sum(counts[k][series.name] for k in rows)
        squares = sum((sums[k][series.name] - m * counts[k][series.name]) ** 2 for k in rows)
        return m / (sqrt(len(rows) / (len(rows) - 1) * squares) / total)

    return mean if statistic == "mean" else clustered


def main() -> None:
    """Write the file anew."""
    import pandas as pd
    from ffn import calc_prob_backtest_overfitting

    lines = []
    for name, statistic, blocks, sums, counts in cases():
        own = None if statistic == "t" and (counts == 1).all() else figure(statistic, sums.tolist(), counts.tolist())
        found = calc_prob_backtest_overfitting(pd.DataFrame(sums), blocks, metric=own, full_output=True)
        logits = [round(logit, 13) for logit in found["logits"]]
        distinct = sorted(set(logits))
        case = {
            "name": name, "statistic": statistic, "blocks": blocks, "pbo": found["pbo"],
            "mean_rank": round(found["mean_oos_rank"], 13), "sums": sums.tolist(), "counts": counts.tolist(),
            "distinct": distinct, "logits": [distinct.index(logit) for logit in logits],
        }  # fmt: skip
        lines.append(json.dumps(case, separators=(",", ":")))
        sys.stdout.write(f"{name}: PBO {found['pbo']:.4f} over {len(logits)} splits\n")
    head = {"made_by": f"ffn {version('ffn')}", "command": "python -m tests.vectors.overfitting", "tolerance": 1e-11}
    _FILE.write_text(json.dumps(head)[:-1] + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
