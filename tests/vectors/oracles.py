"""Makes ``margin.json``: what another package removes the margin of books to. Run once, in an environment of its own.

The package brings some thirty others that nobody who tests clvlab needs, so tests read the file and never import it::

    python3 -m venv oracles && oracles/bin/pip install numpy penaltyblog==1.13.1
    oracles/bin/python -m tests.vectors.oracles

Every probability is as the package gave it; the file says which version that was.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np

METHODS = {"multiplicative": "multiplicative", "additive": "additive", "power": "power", "odds-ratio": "odds_ratio"}
"""Our name of a method, and the package's."""
_FILE = Path(__file__).with_name("margin.json")


def books(rows: int = 400, seed: int = 5) -> Iterator[list[float]]:
    """Yield odds of books with 2 to 12 outcomes and overrounds from 0.1 to 30 %."""
    rng = np.random.default_rng(seed)
    for _ in range(rows):
        prob = rng.dirichlet(np.full(rng.integers(2, 13), 2.0)).clip(1e-3)
        prob /= prob.sum()
        odds = 1 / (prob * (1 + rng.uniform(0.001, 0.3)))
        if (odds > 1.0005).all():
            yield odds.tolist()


def main() -> None:
    """Write the file anew."""
    from penaltyblog.implied import calculate_implied

    priced = [[round(price, 4) for price in book] for book in books(120)]
    lines = [
        json.dumps(
            {"odds": odds}
            | {ours: [round(prob, 13) for prob in calculate_implied(odds, method=theirs).probabilities]
               for ours, theirs in METHODS.items()}
        )
        for odds in priced
    ]  # fmt: skip
    made_by = f"penaltyblog {version('penaltyblog')}"
    head = {"made_by": made_by, "command": "python -m tests.vectors.oracles", "tolerance": 1e-9}
    body = json.dumps(head)[:-1] + ', "books": [\n' + ",\n".join(lines) + "\n]}\n"
    _FILE.write_text(body, encoding="utf-8")
    sys.stdout.write(f"{len(lines)} books by {made_by}\n")


if __name__ == "__main__":
    main()
