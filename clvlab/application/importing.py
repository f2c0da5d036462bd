"""Making packs: of a provider's files, or of a synthetic recipe."""

from __future__ import annotations

from clvlab.packs.importers import IMPORTERS
from clvlab.packs.importers.importing import ImportReport, import_source
from clvlab.packs.synthetic import Recipe, build

__all__ = ["IMPORTERS", "ImportReport", "Recipe", "build", "import_source"]
