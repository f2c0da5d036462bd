"""Renews the figures in what pages say is printed: ``python -m tests.docs.renew [PAGE...]``.

Steps are run as the tests run them. Where an output differs from its page in numbers and hashes only, the page gets those of
today; what differs otherwise is shown, and left to an author, as are figures in running text.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from tests.docs.test_docs_run import PAGES, ROOT, free_port, matches, nothing_left, run, steps

_NUMBER = r"[0-9a-f]{12,}|[+-]?[0-9][0-9,.]*(?<![,.])"


def renewed(expected: str, printed: str) -> str | None:
    """Return the expected text with the printed numbers; null where more than numbers differ."""
    pieces = re.split(rf"({_NUMBER}|\.\.\.)", expected.rstrip("\n"))
    between = {"...": ".*?"}
    pattern = "".join(f"({between.get(piece, _NUMBER)})" if k % 2 else re.escape(piece) for k, piece in enumerate(pieces))
    found = re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL)
    if found is None:
        return None
    pieces[1::2] = [old if old == "..." else new for old, new in zip(pieces[1::2], found.groups(), strict=True)]
    return "".join(pieces) + "\n"


def renew(page: Path) -> None:
    """Work through a page, and write it anew where figures have changed."""
    text = page.read_text("utf-8")
    with tempfile.TemporaryDirectory() as name, nothing_left(Path(name)):
        namespace, port = {"__name__": "__page__"}, free_port()
        for step in steps(text):
            if step.needs_real_odds:
                continue
            where, printed = run(step, page, Path(name), namespace, port)
            if step.expected is None or matches(step.expected, printed):
                continue
            new = renewed(step.expected, printed)
            if new is None:
                sys.stdout.write(f"{where}\nprints\n{printed}\nnot\n{step.expected}\n")
            else:
                text = text.replace(step.expected, new, 1)
    page.write_text(text, "utf-8")


def main() -> None:
    """Renew the pages named on the command line, or all of them."""
    wanted = [(ROOT / name).resolve() for name in sys.argv[1:]]
    for page in PAGES:
        if not wanted or page in wanted:
            renew(page)


if __name__ == "__main__":
    main()
