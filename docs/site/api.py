"""The pages of the API, grouped as it is used; their text is that of the docstrings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

__all__ = ["PAGES", "ApiPage", "pages", "with_errors"]


@dataclass(frozen=True, slots=True)
class ApiPage:
    """One page: what it is about, and what stands on it.

    Parameters
    ----------
    name
        Of the file.
    title, about
        Heading, and the sentences under it.
    names
        Dotted names of functions and classes, in order; ``module:*`` is all that a module says is public.
    """

    name: str
    title: str
    about: str
    names: tuple[str, ...]


_VERBS = "clvlab.lab.laboratory.methods.Verbs"
_METHODS = {"backtest", "backtests", "compare", "grade_bets", "sweep", "walk_forward"}
"""Functions that are methods of a laboratory which keeps nothing, and where they stand."""
_RESULTS, _WIDGETS, _SHEETS = "clvlab.lab.results", "clvlab.lab.widgets", "clvlab.report"

PAGES = (
    ApiPage(
        "packs",
        "Open and import packs",
        "A pack is a folder of odds; its hash covers the odds, not the files' encoding. Open one, or import your own odds.",
        (
            "clvlab.check_extras",
            "clvlab.packs",
            "clvlab.open_pack",
            "clvlab.import_odds",
            "clvlab.imports",
            "clvlab.concat",
            "clvlab.join_sources",
            "clvlab.lead_lag",
            f"{_RESULTS}.pack.Joined",
            f"{_RESULTS}.pack.Pack",
            f"{_SHEETS}.price_path.PricePath",
            f"{_SHEETS}.lead_lag.LeadLagReport",
            f"{_SHEETS}.lead_lag.Clock",
            "clvlab.packs.reader.Pack",
            "clvlab.packs.quality.Quality",
            "clvlab.packs.manifest.Grade",
            "clvlab.law.tape.Tape",
            "clvlab.law.tape.Markets",
            "clvlab.law.markets.Market",
            "clvlab.law.markets.UnreadKey",
        ),
    ),
    ApiPage(
        "agents",
        "Write agents",
        "An agent is a function of a frame, or an object that decides message by message. Audits test it for look-ahead.",
        (
            "clvlab.agents",
            "clvlab.strategy",
            "clvlab.TickAgent",
            "clvlab.Book",
            "clvlab.isolated",
            "clvlab.lookahead_audit",
            "clvlab.lookahead_audits",
            f"{_SHEETS}.cards.AuditReport",
            "clvlab.engine.lookahead.BlindDraw",
            "clvlab.agents.columnar.Strategy",
            "clvlab.agents.isolation.agent.IsolatedAgent",
            "clvlab.agents.isolation.frames.AgentSetup",
            "clvlab.engine.agent.Agent",
            "clvlab.engine.agent.Identity",
            "clvlab.engine.live.Follower",
            "clvlab.law.schema.Causality",
        ),
    ),
    ApiPage(
        "backtest",
        "Backtest and compare",
        "A backtest replays a pack through an agent, scores its bets against the close, and seals the run.",
        (
            "clvlab.backtest",
            "clvlab.backtests",
            "clvlab.compare",
            "clvlab.grade_bets",
            "clvlab.leaderboard",
            "clvlab.Window",
            "clvlab.PolicyEnvelope",
            f"{_RESULTS}.result.Result",
            f"{_RESULTS}.bets.GradedBets",
            f"{_SHEETS}.cards.Report",
            f"{_SHEETS}.cards.Scores",
            f"{_SHEETS}.comparison.Comparison",
            f"{_SHEETS}.comparison.Leaderboard",
            f"{_WIDGETS}.explorer.Explorer",
            "clvlab.runs.run.Run",
        ),
    ),
    ApiPage(
        "laboratory",
        "Keep packs and runs",
        "A laboratory keeps packs and runs in memory, in a file or at a service, with the same verbs.",
        ("clvlab.Lab", "clvlab.lab.laboratory.lists.Listing"),
    ),
    ApiPage(
        "search",
        "Search",
        "Try grids of parameters, and correct the best of them for the number of trials.",
        (
            "clvlab.sweep",
            "clvlab.walk_forward",
            f"{_RESULTS}.sweep.Sweep",
            f"{_RESULTS}.sweep.Trial",
            f"{_SHEETS}.search.OverfittingResult",
            f"{_RESULTS}.walk_forward.WalkForward",
            f"{_RESULTS}.plan.SearchPlan",
        ),
    ),
    ApiPage(
        "tear-sheet",
        "Read a tear sheet",
        "A tear sheet has every figure, table and picture of an agent's result; `Result.tear_sheet()` makes it.",
        (
            f"{_SHEETS}.tearsheet.TearSheet",
            f"{_SHEETS}.plots.Plots",
            f"{_SHEETS}.figures.Settlement",
            f"{_SHEETS}.bankrolls.BankrollFan",
            f"{_SHEETS}.power.PowerResult",
            f"{_SHEETS}.regression.RegressionResult",
            f"{_SHEETS}.executable.Executable",
            f"{_SHEETS}.moved_lines.MovedLines",
            "clvlab.statistics.verdict.Verdict",
            f"{_SHEETS}.html.Html",
        ),
    ),
    ApiPage(
        "statistics",
        "Statistics",
        "Means, shares and null distributions over fixtures, the independent units. They take series and frames of any origin.",
        ("clvlab.statistics:*", "clvlab.statistics.moved_lines:*", "clvlab.statistics.commissions.Commission"),
    ),
    ApiPage(
        "verify",
        "Verify and prove",
        "Open a sealed run from its folder, and compute all its claims again.",
        (
            "clvlab.open_run",
            f"{_RESULTS}.run.Run",
            f"{_RESULTS}.run.VerificationResult",
            f"{_SHEETS}.proofs.verification.ProofCard",
            f"{_WIDGETS}.proofs.EvidenceBrowser",
            f"{_WIDGETS}.proofs.MerklePath",
            f"{_WIDGETS}.proofs.Playground",
            f"{_SHEETS}.proofs.tampering.Difference",
            "clvlab.proof.seal.SealedRun",
            "clvlab.proof.verify.Verification",
            "clvlab.proof.manifest.RunStarted",
            "clvlab.proof.manifest.SealedAgent",
            "clvlab.proof.evidence.Evidence",
            "clvlab.proof.evidence.SealedLimits",
        ),
    ),
    ApiPage(
        "live",
        "Live",
        "In a live run agents decide while messages arrive. `Lab.live()` and `Lab.capture()` listen to one of these feeds.",
        (
            "clvlab.sources.capture.feed:*",
            "clvlab.sources.capture.replay:*",
            "clvlab.runs.live.view.LiveView",
        ),
    ),
    ApiPage(
        "client",
        "Talk to a service",
        "The client has one method per request to a service, with typed [answers](answers.md).",
        ("clvlab.Client", "clvlab.client.ApiError"),
    ),
    ApiPage(
        "answers",
        "Answers of a service",
        "Every answer is a dict with these keys; the same types shape the [routes](../reference/http.md).",
        tuple(
            f"clvlab.api.{name}:*"
            for name in ("answer", "backtests", "competitions", "leaderboard", "packs", "runs", "seats", "seat_competitions")
        ),
    ),
    ApiPage(
        "errors",
        "Errors",
        "Every error that clvlab raises on purpose, by name. All of them are subclasses of `ClvlabError`.",
        ("clvlab.errors:*",),
    ),
)


def pages() -> Iterator[tuple[str, str]]:
    """Give the path of every page of the API under ``docs/``, and its Markdown, in order."""
    for page in PAGES:
        entries = "".join(_entry(name, alone=len(page.names) == 1) for name in page.names)
        yield f"api/{page.name}.md", f"# {page.title}\n\n{page.about}\n\n{entries}"


def _entry(name: str, *, alone: bool) -> str:
    if name.startswith("clvlab.") and name.removeprefix("clvlab.") in _METHODS:
        method = name.removeprefix("clvlab.")
        shown = f"heading: {name}, toc_label: {method}, show_symbol_type_heading: false, show_symbol_type_toc: false"
        return f"[](){{#{name}}}\n\n::: {_VERBS}.{method}\n    options: {{{shown}}}\n\n"
    module, _, everything = name.partition(":")
    if not everything:
        return f"::: {name}\n\n"
    if alone:
        return f"::: {module}\n    options: {{show_root_heading: false, show_root_toc_entry: false}}\n\n"
    return f"::: {module}\n    options: {{heading: {module}, toc_label: {module.rpartition('.')[2]}}}\n\n"


_RAISED = re.compile(
    r'<code>\(?(\w+Error(?:, \w+)*)\)?</code>\s*–\s*<div class="doc-md-description">\s*(.*?)</div>',
    re.DOTALL,
)


def with_errors(html: str, errors: Collection[str]) -> str:
    """Return a page of the API on which names of errors under "Raises" lead to them, also where several stand in one line.

    Parameters
    ----------
    html
        Content of the page.
    errors
        The names on the page of the errors.
    """

    def entry(found: re.Match[str]) -> str:
        names = [
            f'<a href="errors.html#clvlab.errors.{name}"><code>{name}</code></a>' if name in errors else f"<code>{name}</code>"
            for name in found[1].split(", ")
        ]
        said = found[2].strip()
        return ", ".join(names) + (f' – <div class="doc-md-description">{said}</div>' if said else "")

    return _RAISED.sub(entry, html)
