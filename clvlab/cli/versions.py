"""``clvlab version``: what judges a run here."""

from __future__ import annotations

from clvlab.application.versions import judge
from clvlab.cli.options import JsonOption
from clvlab.cli.printing import facts, print_json


def version(as_json: JsonOption = False) -> None:
    """Print the versions and the source digest by which `verify` judges, as the notes of a release state them."""
    judged = judge()
    if as_json:
        print_json(judged)
    else:
        facts(f"clvlab {judged.pop('clvlab')}", {name.replace("_", " "): value for name, value in judged.items()})
