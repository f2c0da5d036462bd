"""The tear sheet as a page of its own, for a browser that may fetch nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clvlab.drawing import html
from clvlab.report.tearsheet import TearSheet
from clvlab.runs.run import Run
from clvlab.statistics.clusters import TOP
from clvlab.words import counted


def tear_sheet_page(performed: Run) -> str:
    """Return the tear sheet of a backtest of one agent as one HTML page: no script, no request, pictures as SVG inside.

    The page is whole under ``Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; img-src data:``.

    Parameters
    ----------
    performed
        The backtest. Moving its decisions reads the whole tape of its pack.

    Raises
    ------
    MissingLibraryError
        matplotlib, which draws the pictures, is not installed.

    Examples
    --------
    >>> import clvlab as cl
    >>> shown = tear_sheet_page(cl.backtest("starter", "cumulative-drift").source)
    >>> shown[:15], shown.count("<svg"), "<script" in shown
    ('<!DOCTYPE html>', 34, False)
    """
    sheet, report = TearSheet(performed), performed.report
    run = {
        **({"backtest": report["backtest_id"]} if report["mode_label"] == "Backtest" else {}),
        "run": report["run_id"],
        "window": report["window_id"],
        "pack": report["content_hash"],
        "evidence": report["evidence_hash"],
        "manifest": report["manifest_hash"],
    }
    verdicts: Mapping[str, Any] = report["checks"]
    checks = [(name.replace("_", " "), html.badge(verdict)) for name, verdict in verdicts.items()]
    return html.page(
        f"Tear sheet of {sheet.agent_id} on {report['pack_id']}",
        "".join(
            [
                sheet._repr_html_(),
                html.block("", html.section("Spread over fixtures", f"<p>{html.unbroken(_spread(sheet))}</p>")),
                html.block("", html.section("The run", html.facts(run), html.table(["check", "verdict"], checks))),
            ]
        ),
    )


def _spread(sheet: TearSheet) -> str:
    found = sheet.concentration
    if found.effective_clusters is None or found.largest_share is None or found.top_share is None:
        return "There is no scored decision."
    return (
        f"{counted(sheet.clv.n, 'scored decision')} in {counted(sheet.clv.n_clusters, 'fixture')} are spread as evenly as over "
        f"{found.effective_clusters:,.1f} fixtures of one size (Kish). The largest fixture has "
        f"{100 * found.largest_share:.1f} % of them, the {TOP} largest {100 * found.top_share:.1f} %."
    )
