"""``clvlab explain``: first questions with the commands that answer them, and the words of the output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from clvlab.base.invocation import command
from clvlab.base.names import nearest
from clvlab.cli.options import JsonOption
from clvlab.cli.output import out, plain, print_json, say
from clvlab.errors import ArgumentError

QUESTIONS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "How do I run a backtest?": (("backtest", "season", "--agent", "cumulative-drift"),),
    "Is the result luck?": (("report", "latest"), ("explain", "luck")),
    "What does CLV mean?": (("explain", "CLV"),),
    "How do I check a run or a file that somebody sent me?": (("verify", "FILE"),),
    "Which packs of odds are there?": (("packs", "list"),),
    "How do I use my own odds?": (("packs", "import", "odds.csv", "--out", "my-pack"),),
    "How do I grade my own bets?": (("bets", "grade", "bets.csv", "--pack", "my-pack"),),
    "How do I compare two agents?": (("compare", "--pack", "season", "baseline", "cumulative-drift"),),
    "How do I share a result?": (("share", "latest", "--out", "card.png"), ("bundle", "latest", "--out", "run.clv")),
    "How do I enter an arena?": (("arena", "play", "agent.py:name", "--pack", "starter"),),
    "Where are my runs?": (("runs",),),
}
"""First questions, each with the commands that answer it."""

TERMS: Mapping[str, str] = {
    "agent": "A strategy that reads odds and proposes bets.",
    "bps": "Basis point: one hundredth of a percentage point of probability.",
    "bundle": "One file with a run and its proofs, which anyone can verify.",
    "close": "The last price before the match begins, with the most information in it.",
    "CLV": "Closing-line value: how far the fair probability of your side rose from bet to close, in basis points (bps). "
    "Above zero, the market moved your way after the bet.",
    "corrected p": "How often the best of as many trials without skill does as well. Below 0.05, luck is an unlikely cause.",
    "edge at the price": "The mean gain at the prices taken, in percent of the stake, if the closing probability is right. It "
    "includes the bookmaker's margin, so CLV can be above zero while the edge is below.",
    "evidence": "The sealed record of a run: every decision, with the prices at entry and at the close. Scores follow from it.",
    "fixture": "One match.",
    "horizon": "The time before the close in which a bet has no score. The default is 60 seconds.",
    "interval": "The range in brackets after a mean. In 95 of 100 samples like this one it holds the true mean. If it includes "
    "zero, the mean may be luck. Bets of one match count together, because they rise and fall together.",
    "luck": "A mean is unlikely to be luck where its interval is above zero. The best of many strategies needs more: the "
    "command 'sweep' corrects for the number tried.",
    "origin": "The evidence that a provider sent the prices of a pack. Synthetic prices have none: 'not shown'.",
    "pack": "A folder of odds with hashes of its content.",
    "price update": "One message about a market: the probability and the odds of each side at a time. Also called a tick.",
    "run": "One test of agents over one pack: their bets, scores and hashes.",
    "sample": "The number of valid decisions of a run: low below 30, medium below 200, high from 200.",
    "seal": "The step that binds bets, scores and manifest of a run to each other by hashes.",
    "seat": "A place in the arena: an agent gets past prices one by one, and answers each before it sees the next.",
    "template": "A strategy that comes with clvlab; the command 'agents list' shows all.",
}
"""Words of the output, each with its meaning."""
_OTHER_WORDS = {
    "closing line": "close",
    "edge": "edge at the price",
    "match": "fixture",
    "p": "corrected p",
    "tick": "price update",
}


def explain(
    term: Annotated[list[str] | None, typer.Argument(help="A word of the output, as CLV.", metavar="[TERM]")] = None,
    as_json: JsonOption = False,
) -> None:
    """Answer first questions, each by a command; or say what a word of the output means."""
    if not term:
        _show_questions(as_json=as_json)
        return
    name = " ".join(term)
    known = {one.casefold(): one for one in TERMS} | _OTHER_WORDS
    if name.casefold() not in known:
        near = nearest(name.casefold(), known)
        hint = "." if near is None else f": did you mean {known[near]!r}?"
        raise ArgumentError(f"there is no explanation of {name!r:.80}{hint} The words are {', '.join(TERMS)}")
    found = known[name.casefold()]
    if as_json:
        print_json({"term": found, "meaning": TERMS[found]})
        return
    say(found, "bold")
    say(TERMS[found])


def _show_questions(*, as_json: bool) -> None:
    if as_json:
        rows = [{"question": text, "commands": [command(*words) for words in calls]} for text, calls in QUESTIONS.items()]
        print_json({"questions": rows, "terms": TERMS})
        return
    for text, calls in QUESTIONS.items():
        say(text, "bold")
        for words in calls:
            out.print(f"  {plain(command(*words))}")
    out.print()
    say(f"Words of the output, with 'explain TERM': {', '.join(TERMS)}")
