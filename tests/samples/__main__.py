"""Writes made-up files of a source into a new folder, and beside it the mapping that they need: ``FOLDER.yml``."""

import argparse
from pathlib import Path

from tests.samples import kalshi, oddsharvester, oddsportal, pmxt, trades

SOURCES = {"kalshi": kalshi, "oddsharvester": oddsharvester, "oddsportal": oddsportal, "pmxt": pmxt, "trades": trades}


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.samples", description=__doc__)
    parser.add_argument("source", choices=SOURCES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    SOURCES[given.source].write(given.folder, given.seed)


if __name__ == "__main__":
    main()
