"""``python -m tests.fuzz``: many cases, each named by its seed; exit status 1 if the verifiers differ over one."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.fuzz.fuzzing import KINDS, cases

Compare = Callable[[str, int, int, Path], Iterator[str | None]]


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the verifiers over seeded forgeries of each kind.")
    parser.add_argument("--cases", type=int, default=20_000, help="of all kinds together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, action="append", help="may be repeated; all by default")
    parser.add_argument("--browser", action="store_true", help="compare the page in Chromium with the file that stands alone")
    asked = parser.parse_args()
    with ExitStack() as opened:
        judge = _page(opened) if asked.browser else cases
        return _compared(asked, judge)


def _page(opened: ExitStack) -> Compare:
    """Compare by a browser, which is started for as long as ``opened`` is."""
    from tests.browser.forgeries import page_disagreements  # needs playwright
    from tests.browser.judging import launched

    judge = opened.enter_context(launched(Path(opened.enter_context(tempfile.TemporaryDirectory()))))
    return lambda kind, seed, count, folder: page_disagreements(kind, seed, count, folder, judge)


def _compared(asked: argparse.Namespace, compare: Compare) -> int:
    kinds, differ = asked.kind or list(KINDS), 0
    for kind in kinds:
        started, judged = time.monotonic(), 0
        with tempfile.TemporaryDirectory() as folder:
            for number, fault in enumerate(compare(kind, asked.seed, asked.cases // len(kinds), Path(folder))):
                judged += 1
                if fault:
                    differ += 1
                    sys.stdout.write(f"{kind} seed {asked.seed} case {number}: {fault}\n")
        sys.stdout.write(f"{kind}: {judged:,} cases in {time.monotonic() - started:.0f} s\n")
        sys.stdout.flush()
    sys.stdout.write(f"{differ} differ\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
