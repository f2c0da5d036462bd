"""The verifier as one HTML file, without requests or dependencies, under a strict policy."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.metadata import version
from importlib.resources import files

from clvlab.report.html import source_hash
from clvlab.words import CHECK_QUESTIONS

# In order of definition: a constant may use the constants before it.
_JUDGE = (
    "broken", "bytes", "hashes", "merkle", "canonical", "ed25519", "shapes", "evidence", "rules", "coherence", "law", "policy",
    "manifest", "anchor", "keys", "quorum", "log", "bundle", "disclosure", "states", "checks", "answering",
)  # fmt: skip
_PAGE = ("elements", "judge", "verdict", "table", "acting")


def verifier_page() -> bytes:
    """Return the verifier page, always the same bytes, with the scope of ``clv_verify.py`` and ``clv_states.py``."""
    return _page()[0]


def page_policy() -> str:
    """Return the content security policy of the page: it allows its own script and style, and no request."""
    return f"{_page()[1]}; frame-ancestors 'none'"  # a policy inside a page can't set this


@cache
def _page() -> tuple[bytes, str]:
    questions = f"const QUESTIONS = {json.dumps(dict(CHECK_QUESTIONS))};"
    judge, script = _script("judge", _JUDGE), _script("page", _PAGE, questions)
    style, template = _source("page/style.css"), _source("page/page.html")
    policy = (
        f"default-src 'none'; script-src {source_hash(script)}; style-src {source_hash(style)}; worker-src blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {"policy": policy, "style": style, "version": version("clvlab"), "judge": judge, "script": script}
    return re.sub(r"\{(policy|style|version|judge|script)\}", lambda found: parts[found[1]], template).encode(), policy


def _script(folder: str, names: tuple[str, ...], before: str = "") -> str:
    """Join sources to one strict script; refuse text that would end the script element."""
    sources = "\n".join(_source(f"{folder}/{name}.js") for name in names)
    joined = f'"use strict";\n{before}{sources}'
    if "</script" in joined.lower() or "<!--" in joined:
        raise ValueError(f"a source of {folder} would end its script")
    return joined


def _source(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
