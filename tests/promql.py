"""The forms of PromQL that the alerts of the operator's guide use, over scrapes of ``/metrics``.

As in Prometheus, a range needs two samples (so a counter that appears does not count as an increase), comparisons filter, and
``for`` is the caller's: an expression is evaluated at one moment. Rates are not extrapolated to the ends of their range.
"""

import math
import operator
import re
from dataclasses import dataclass, field
from itertools import pairwise

from prometheus_client.parser import text_string_to_metric_families

_TOKEN = re.compile(r'\s*("[^"]*"|[0-9.]+[smhd]?|[A-Za-z_][A-Za-z0-9_]*|=~|!~|!=|==|>=|<=|[-+*/<>=(){}\[\],])')
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_STALE_S = 300  # an older sample is gone, as in Prometheus
_COMPARE = {">": operator.gt, "<": operator.lt, "==": operator.eq, "!=": operator.ne, ">=": operator.ge, "<=": operator.le}
_MATCH = {
    "=": operator.eq,
    "!=": operator.ne,
    "=~": lambda value, pattern: re.fullmatch(pattern, value) is not None,
    "!~": lambda value, pattern: re.fullmatch(pattern, value) is None,
}


@dataclass
class Scrapes:
    """Samples by time in seconds; ``up`` is added as Prometheus does."""

    at: dict[float, list[tuple[str, frozenset, float]]] = field(default_factory=dict)

    def add(self, time_s, text, job="clvlab"):
        """Add an answer of ``/metrics``; ``None`` if there was none."""
        samples = [("up", frozenset({("job", job)}), float(text is not None))]
        for family in text_string_to_metric_families(text or ""):
            samples += [(one.name, frozenset({("job", job), *one.labels.items()}), one.value) for one in family.samples]
        self.at[time_s] = samples

    def ask(self, expression):
        """Evaluate an expression at the time of the newest scrape, as values by their labels."""
        found = _Query(self, _TOKEN.findall(expression), max(self.at)).whole()
        return {frozenset(labels - {("job", "clvlab")}): value for labels, value in found.items()}

    def ranges(self, name, matchers, since_s, until_s):
        found = {}
        for time_s in sorted(self.at):
            for own, labels, value in self.at[time_s] if since_s <= time_s <= until_s else ():
                known = dict(labels)
                if own == name and all(_MATCH[how](known.get(label, ""), wanted) for label, how, wanted in matchers):
                    found.setdefault(labels, []).append((time_s, value))
        return found


class _Query:
    def __init__(self, scrapes, tokens, now_s):
        self.scrapes, self.tokens, self.now_s = scrapes, tokens, now_s

    def whole(self):
        found = self.sets()
        assert not self.tokens, f"not understood: {self.tokens}"
        return found

    def next(self, *wanted):
        token = self.tokens.pop(0)
        assert not wanted or token in wanted, f"{token!r} is not one of {wanted}"
        return token

    def peek(self):
        return self.tokens[0] if self.tokens else ""

    def labels(self):
        self.next("(")
        found = []
        while (token := self.next()) != ")":
            found += [token] if token != "," else []
        return found

    def sets(self):
        left = self.compared()
        while self.peek() in ("and", "or"):
            how, ignored = self.next(), ()
            if self.peek() == "ignoring":
                self.next()
                ignored = self.labels()
            right = self.compared()
            if how == "or":
                left = right | left
            else:
                keys = {_without(labels, ignored) for labels in right}
                left = {labels: value for labels, value in left.items() if _without(labels, ignored) in keys}
        return left

    def compared(self):
        left = self.divided()
        if self.peek() not in _COMPARE:
            return left
        holds, right = _COMPARE[self.next()], self.divided()
        return {
            labels: value
            for labels, value in left.items()
            if (other := right if isinstance(right, float) else right.get(labels)) is not None and holds(value, other)
        }

    def divided(self):
        left = self.one()
        while self.peek() == "/":
            self.next()
            right = self.one()
            left = {
                labels: value / right[labels] if right[labels] else math.nan
                for labels, value in left.items()
                if labels in right
            }
        return left

    def one(self):
        token = self.next()
        if token[0].isdigit():
            return float(token)
        if token == "sum":
            return self.summed()
        if self.peek() == "(":
            return self.called(token)
        return {labels: samples[-1][1] for labels, samples in self.selected(token, _STALE_S).items()}

    def summed(self):
        by = ()
        if self.peek() == "by":
            self.next()
            by = self.labels()
        self.next("(")
        found, sums = self.sets(), {}
        self.next(")")
        for labels, value in found.items():
            key = frozenset(pair for pair in labels if pair[0] in by)
            sums[key] = sums.get(key, 0.0) + value
        return sums

    def called(self, name):
        self.next("(")
        if name == "histogram_quantile":
            share = float(self.next())
            self.next(",")
            found = _quantiles(share, self.sets())
        else:
            ahead_s, samples = None, self.selected(self.next(), None)
            if name == "predict_linear":
                self.next(",")
                ahead_s = float(self.next())
            several = {labels: own for labels, own in samples.items() if len(own) > 1}
            found = {labels: self.over(name, own, ahead_s) for labels, own in several.items()}
        self.next(")")
        return found

    def over(self, name, samples, ahead_s):
        (first_s, first), (last_s, last) = samples[0], samples[-1]
        if name == "delta":
            return last - first
        if name == "rate":
            values = [value for _, value in samples]
            steps = pairwise(values)
            return sum(new - old if new >= old else new for old, new in steps) / (last_s - first_s)
        assert name == "predict_linear", name
        mean_s = sum(time_s for time_s, _ in samples) / len(samples)
        mean = sum(value for _, value in samples) / len(samples)
        spread = sum((time_s - mean_s) ** 2 for time_s, _ in samples)
        slope = sum((time_s - mean_s) * (value - mean) for time_s, value in samples) / spread
        return mean + slope * (self.now_s + ahead_s - mean_s)

    def selected(self, name, within_s):
        matchers = []
        if self.peek() == "{":
            self.next()
            while self.peek() != "}":
                matchers.append((self.next(), self.next(*_MATCH), self.next().strip('"')))
                if self.peek() == ",":
                    self.next()
            self.next("}")
        if self.peek() == "[":
            self.next()
            length = self.next()
            within_s = float(length[:-1]) * _SECONDS[length[-1]]
            self.next("]")
        return self.scrapes.ranges(name, matchers, self.now_s - within_s, self.now_s)


def _without(labels, names):
    return frozenset(pair for pair in labels if pair[0] not in names)


def _quantiles(share, buckets):
    """Interpolate in the bucket of a quantile, as ``histogram_quantile`` does."""
    found = {}
    for group in {_without(labels, ("le",)) for labels in buckets}:
        own = sorted(
            (float(dict(labels)["le"]), value) for labels, value in buckets.items() if _without(labels, ("le",)) == group
        )
        rank, below, lower = share * own[-1][1], 0.0, 0.0
        if not own[-1][1]:
            found[group] = math.nan
            continue
        for upper, count in own:
            if count >= rank:
                found[group] = (
                    lower if math.isinf(upper) else lower + (upper - lower) * (rank - below) / max(count - below, 1e-12)
                )
                break
            below, lower = count, upper
    return found
