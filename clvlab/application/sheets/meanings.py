"""What each figure of a tear sheet asks, in a line, and what its words mean."""

from __future__ import annotations

from collections.abc import Mapping

from clvlab.application.sheets.measures import MEASURES

MEANINGS: Mapping[str, str] = {
    **{f"mean {one.title}": one.question for one in MEASURES.values()},
    "median CLV": "did it do so for the decision in the middle",
    "mean CLV with entries at the closing message": "what the law says, which counts those too",
    "t, clustered by fixture": "how many standard errors the mean lies above zero",
    "degrees of freedom of it": "how well that error is known",
    "t, as if decisions were independent": "how far one is misled who counts decisions",
    "t of the edge, clustered by fixture": "how many standard errors the edge lies above zero",
    "one-sided p of t": "how often chance alone gives a t as high",
    "one-sided p of the edge's t": "how often chance alone gives that t as high",
    "two-sided p of sign flips by fixture": "could a coin decide the sign of each fixture and do as well",
    "two-sided p of sign flips, edge": "could a coin do as well for the edge",
    "effective fixtures": "how many fixtures of one size are spread as evenly",
    "design effect": "how much is lost by decisions that share a fixture",
    "effective sample size": "how many independent decisions would say as much",
    "beat the close, of those that moved": "how often, whatever the size of the move",
    "unmoved": "how often nothing moved",
    "mean CLV of the same decisions in other fixtures": "what everybody gets there",
    "one-sided p of the choice of fixture and side": "is it my choice of fixture and side",
    "value of acting now": "what waiting would have cost",
    "one-sided p of acting now, no test of skill": "how often waiting does as well; rough",
    "largest fall of the cumulative CLV": "how long a bad stretch there was, in order of decisions",
    "share of the five best fixtures in the total": "how much hangs on a few matches",
    "mean CLV without them": "what is left without these matches",
    "settled decisions with a price": "how many bets have a result",
    "settled profit, flat stake": "what was won, by luck and skill together",
    "return on investment, flat stake": "the same, for each unit of stake",
    "return that the close expected of them": "what of that was to be expected",
    "settled profit, stakes asked for": "what was won at the stakes of the agent",
    "return on investment, stakes asked for": "the same, for each unit of stake",
    "Brier score of the close against results": "does the close forecast well; lower is better",
    "Brier score of the entry against results": "does the price that was taken forecast as well",
}
"""What each figure asks, by its name in ``TearSheet.frame``."""

GLOSSARY: Mapping[str, str] = {
    "basis point (bps)": "one hundredth of a percentage point of probability",
    "CLV": "closing-line value: closing less entry probability of the side that was backed, margin removed",
    "close": "the last price before the match began, by the rule of the window",
    "clustered": "counted by fixture: decisions of one match rise and fall together, and say less than as many matches",
    "Brier score": "mean squared distance of a probability from what happened: 0 is perfect, 0.25 is a coin's",
    "edge": "value of the price taken at the closing probability, with the margin that was paid",
    "interval": "means that chance alone would not make surprising; one that holds zero proves nothing",
    "p": "how often chance alone does as well",
    "standard error": "how far a mean typically lies from the truth",
}
"""Words of the sheet."""
