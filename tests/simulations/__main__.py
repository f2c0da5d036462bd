"""``python -m tests.simulations``: what the statistics do where the truth is known, as docs state it."""

from __future__ import annotations

import argparse
import sys

from tests.simulations import after, families, means, moving, nulls, powers


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate what the statistics estimate, where the truth is known.")
    parser.add_argument("--rounds", type=int, default=1_000)
    rounds = parser.parse_args().rounds
    for table in (
        means.table(2 * rounds),
        means.skewed_table(10 * rounds),
        families.table(rounds),
        nulls.table(rounds),
        powers.season_table(rounds),
        moving.table(max(rounds // 5, 1)),
        moving.level_table(10 * rounds),
        after.table(rounds),
    ):
        sys.stdout.write(table + "\n\n")


if __name__ == "__main__":
    main()
