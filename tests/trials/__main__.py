"""``python -m tests.trials [--kills 40] [--only kills-workers,freeze] [--times 10]``: what a service does under faults.

Prints the table of ``docs/explanation/how-runs-survive.md``; exits 1 if anything was lost, doubled or forked, if a frozen peer
held others up, or if another owner waited.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.postgres import postgres_server
from tests.trials import crowds, faults, kills, seats

Found = Mapping[str, Any]
Trial = Callable[[Path, str, int], Found]
_LIMIT_S = 1.0
_FROZEN_S = 5.0


def main() -> int:
    """Run the trials, print a line for each as it ends."""
    parser = argparse.ArgumentParser(prog="python -m tests.trials", description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=30, help="of each crowd")
    parser.add_argument("--flood-seconds", type=float, default=600)
    parser.add_argument("--rounds", type=int, default=4, help="of kills-workers: in each one service and one worker are killed")
    parser.add_argument("--clients", type=int, default=6, help="of kills-workers: how many ask without end")
    parser.add_argument("--players", type=int, default=20, help="of seats: how many play at once")
    parser.add_argument("--live-players", type=int, default=2, help="of seats: how many of them follow matches on a feed")
    parser.add_argument("--times", type=int, default=1, help="how often each trial is made, with another seed each time")
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    chosen = set(filter(None, asked.only.split(",")))
    trials: dict[str, tuple[Trial, Callable[[Found], bool], str]] = {
        "kills-sqlite": (lambda folder, url, seed: kills.trial(folder, url, 1, asked.kills, seed), _nothing_lost, "sqlite"),
        "kills-postgresql": (
            lambda folder, url, seed: kills.trial(folder, url, 2, asked.kills, seed),
            _nothing_lost,
            "postgresql",
        ),
        "kills-workers": (
            lambda folder, url, seed: kills.trial_of_workers(folder, url, asked.rounds, asked.clients, seed),
            _nothing_lost,
            "postgresql",
        ),
        "seats-sqlite": (
            lambda folder, url, seed: seats.trial(folder, url, 1, asked.kills, asked.players, asked.live_players, seed),
            _no_tick_lost,
            "sqlite",
        ),
        "seats-postgresql": (
            lambda folder, url, seed: seats.trial(folder, url, 2, asked.kills, asked.players, asked.live_players, seed),
            _no_tick_lost,
            "postgresql",
        ),
        "freeze": (lambda folder, url, _: faults.freeze(folder, url), _let_go, "postgresql"),
        "full-disk": (lambda folder, *_: faults.full_disk(folder), _went_on, ""),
        "restore": (lambda folder, *_: faults.restore(folder), _refused, ""),
        "neighbour": (lambda folder, url, _: crowds.noisy_neighbour(folder, url, asked.seconds), _not_felt, "postgresql"),
        "flood": (lambda folder, url, _: crowds.flood(folder, url, asked.flood_seconds), _flat, "sqlite"),
    }
    unknown = chosen - trials.keys()
    if unknown:
        parser.error(f"no trial is called {min(unknown)!r}: there are {', '.join(trials)}")
    held = True
    sys.stdout.write("| trial | found | holds |\n|---|---|---|\n")
    for name, (trial, holds, store) in trials.items():
        made: list[Found] = []
        for seed in range(asked.seed, asked.seed + (asked.times if not chosen or name in chosen else 0)):
            with _place(store) as (folder, url):
                found = trial(folder, url, seed)
            held &= holds(found)
            _print(name, found, held=holds(found))
            made.append(found)
        if len(made) > 1 and all(isinstance(value, int) for found in made for value in found.values()):
            sums = {key: sum(found[key] for found in made) for key in made[0]}
            _print(f"{name}, {len(made)} times", sums, held=all(map(holds, made)))
    return 0 if held else 1


def _print(name: str, found: Found, *, held: bool) -> None:
    told = ", ".join(f"{key} {value}" for key, value in found.items())
    sys.stdout.write(f"| {name} | {told} | {'yes' if held else 'NO'} |\n")
    sys.stdout.flush()


@contextmanager
def _place(store: str) -> Iterator[tuple[Path, str]]:
    with tempfile.TemporaryDirectory(prefix="clvlab-trial-") as name:
        folder = Path(name)
        if store == "postgresql":
            with postgres_server(folder) as server:
                yield folder, server.get_uri()
        else:
            yield folder, f"sqlite:///{folder / 'store.db'}"


def _nothing_lost(found: Found) -> bool:
    return found["accepted"] > 0 and not any(found.get(name) for name in ("lost", "doubled", "forked", "unsealed"))


def _no_tick_lost(found: Found) -> bool:
    played = found["ticks"] > 0 and (found["live ticks"] > 0 or not found["live seats"])
    return played and not any(found[name] for name in ("lost", "early", "unsealed", "unproved", "forked"))


def _let_go(found: Found) -> bool:
    return found["after s"] < _FROZEN_S and found["next answer"] == "201" and found["the frozen one is"] == "fenced"


def _went_on(found: Found) -> bool:
    return "not tried" in found or (found["after room was made"] == 201 and found["unverified"] == 0 and found["refused"] > 0)


def _refused(found: Found) -> bool:
    return found == {"written after the restore": 503, "a run from before verifies": "True"}


def _not_felt(found: Found) -> bool:
    return found["median s"] < _LIMIT_S and found["readyz slowest s"] < _LIMIT_S


def _flat(found: Found) -> bool:
    return found["RSS MB at the end"] < 1.2 * found["RSS MB at half time"]


if __name__ == "__main__":
    sys.exit(main())
