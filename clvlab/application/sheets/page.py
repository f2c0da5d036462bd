"""The page."""

from clvlab.application.runs.perform import PerformedRun
from clvlab.application.sheets.tearsheet import TearSheet


def tear_sheet_page(performed: PerformedRun) -> str:
    """Stub until merged."""
    return TearSheet(performed)._repr_html_()
