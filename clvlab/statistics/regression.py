"""Least squares over clustered values: which numbers and categories go with a score.

Errors are cluster-robust (CR2), and each coefficient has its own degrees of freedom (Bell and McCaffrey), both under a working
model of independent errors. With ``X = Q R``, the hat matrix of a cluster has the squared singular values of its rows of ``Q``,
and the root of ``I - H`` acts on their directions alone, so no matrix has as many rows and columns as a cluster.

Tests of all coefficients share one adjustment, Holm's, which needs no more than a p-value of each. A maximum of t by their
joint covariance would be narrower for correlated coefficients, but it needs one distribution for all of them, and with few
clusters each has other degrees of freedom.

References
----------
Bell and McCaffrey (2002), Survey Methodology 28(2): CR2 and its degrees of freedom. Pustejovsky and Tipton (2018), Journal of
Business & Economic Statistics 36(4): generalised roots where a cluster determines a coefficient, and no approximation below 4
degrees of freedom. Holm (1979), Scandinavian Journal of Statistics 6(2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt
import polars as pl

from clvlab.errors import StatisticsError
from clvlab.statistics.clusters import MIN_CLUSTERS, ROUNDING, Floats
from clvlab.statistics.formulas import Factor, Formula, Term
from clvlab.statistics.means import two_sided_quantile, upper_tail

INTERCEPT = "intercept"
MIN_DEGREES = 4.0  # below, the distribution of t is not known well enough for an interval or a p-value
MOST_LEVELS, MOST_COLUMNS = 40, 100
_NAMED = 5  # reasons that an error names
_COLLINEAR = 1e-7  # share of a column's length that is left after the columns before it
_BLOCK = 256  # clusters whose products are taken together
_SINGULAR = 1e-9  # of 1: eigenvalue of I - H that counts as 0
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Regression:
    """Coefficients and their uncertainty, in the unit of the response per unit of each term.

    Attributes
    ----------
    frame
        One row per coefficient: ``term``, ``coefficient``, ``standard_error``, ``degrees_of_freedom``, ``t``, ``low``,
        ``high``, ``p_value`` (two-sided, against 0) and ``p_holm``, adjusted for all rows. Interval and p-values are ``None``
        below ``MIN_DEGREES`` degrees of freedom, or without an error.
    n, n_clusters
        Number of rows and of clusters that were used.
    left_out
        Number of rows that were left out, by reason.
    dropped
        Terms without a coefficient, and why.
    bases
        The level of each category that the others are compared with.
    """

    frame: pl.DataFrame = field(repr=False)
    n: int
    n_clusters: int
    left_out: dict[str, int]
    dropped: dict[str, str]
    bases: dict[str, str]


@dataclass(frozen=True, slots=True)
class Design:
    """Columns of a regression by name, without those that have no coefficient.

    Attributes
    ----------
    names, columns
        Names of the columns, and their values: float64, (rows, columns).
    rows
        Rows of the frame that are used.
    left_out, dropped, bases
        As in ``Regression``.
    """

    names: list[str]
    columns: Floats
    rows: _Bools
    left_out: dict[str, int]
    dropped: dict[str, str]
    bases: dict[str, str]


def regress(frame: pl.DataFrame, formula: Formula, cluster: str, *, level: float = 0.95) -> Regression:
    """Regress a column of a frame on others.

    Parameters
    ----------
    frame
        Columns of the formula: numbers, and texts as categories. Rows with a null, a value that is not finite, or a logarithm
        of a value that is not above 0 are left out and counted.
    formula
        See ``parse_formula``.
    cluster
        Name of the column of clusters, usually ``fixture_id``.
    level
        Level of the intervals, each of which stands alone.

    Raises
    ------
    StatisticsError
        A category or the regression has too many columns, or fewer than ``MIN_CLUSTERS`` clusters are left.

    Examples
    --------
    >>> from clvlab.statistics import parse_formula
    >>> y, x, match = [1.0, 2.1, 2.9, 4.2, 5.0, 6.1, 6.8], [1, 2, 3, 4, 5, 6, 7], [1, 1, 2, 3, 4, 5, 6]
    >>> frame = pl.DataFrame({"y": y, "x": x, "match": match})
    >>> found = regress(frame, parse_formula("y ~ x", ["y"], ["x"], []), "match")
    >>> found.frame.select("term", pl.col("coefficient").round(2), pl.col("degrees_of_freedom").round(1)).rows()
    [('intercept', 0.09, 1.5), ('x', 0.98, 2.1)]
    """
    made = design(frame, formula, cluster)
    used = frame.filter(made.rows)
    y, clusters = used[formula.response].cast(pl.Float64).to_numpy(), used[cluster]
    table = coefficients(y, made.columns, clusters, level=level).insert_column(0, pl.Series("term", made.names))
    return Regression(table, used.height, clusters.n_unique(), made.left_out, made.dropped, made.bases)


# The columns of a formula.


def design(frame: pl.DataFrame, formula: Formula, cluster: str) -> Design:
    """Return the columns of a formula over the rows that have all of them; see ``regress``.

    The level of a category with the most clusters is the one that others are compared with; it has no column if the rest of the
    term, or the intercept, stands in the formula. Levels of one cluster are left out with their rows, because a coefficient
    would fit that cluster alone.
    """
    rows = _usable(frame, formula)
    left_out, dropped = {reason: int(bad.sum()) for reason, bad in rows.items() if bad.any()}, {}
    usable = ~np.logical_or.reduce(list(rows.values()))
    clusters = frame[cluster].rank("dense").to_numpy()
    while True:
        _check_clusters(clusters[usable], left_out)
        used, own = frame.filter(usable), clusters[usable]
        levels = {one: _levels(used[one.name], own) for one in formula.factors if frame[one.name].dtype == pl.String}
        built = list(_columns(used, formula, levels))
        lonely = next(((name, part) for name, part, is_level in built if is_level and _of_one(part, own)), None)
        if lonely is None:
            break
        name, part = lonely
        lost = np.flatnonzero(usable)[part != 0]
        usable[lost] = False
        dropped[name], left_out[f"{name} of one fixture"] = "one fixture alone has it", lost.size
    names: list[str] = []
    kept, basis = np.empty((2, 1 + len(built), used.height))
    for name, part, is_level in [(INTERCEPT, np.ones(used.height), False), *built]:
        rest, earlier = part, basis[: len(names)]
        for _ in range(2):  # once more, for what rounding leaves
            rest = rest - (earlier @ rest) @ earlier
        if np.linalg.norm(rest) <= _COLLINEAR * np.linalg.norm(part):
            constant = "no decision has it" if is_level and not part.any() else "does not vary"
            dropped.setdefault(name, constant if np.ptp(part) == 0 else "follows from the terms before it")
            continue
        kept[len(names)], basis[len(names)] = part, rest / np.linalg.norm(rest)
        names.append(name)
    return Design(names, kept[: len(names)].T, usable, left_out, dropped, {one.name: found[0] for one, found in levels.items()})


def _usable(frame: pl.DataFrame, formula: Formula) -> dict[str, _Bools]:
    """Return the rows that can't be used, by reason; a row counts for the first of them."""
    found: dict[str, _Bools] = {}
    seen = np.zeros(frame.height, bool)
    for factor in (Factor(formula.response), *formula.factors):
        column = frame[factor.name]
        missing = column.is_null()
        if column.dtype.is_float():
            missing |= ~column.is_finite().fill_null(value=False)
        reasons = {f"no {factor.name}": missing.to_numpy()}
        if factor.is_log:
            reasons[f"{factor.name} is not above 0"] = (column <= 0).fill_null(value=False).to_numpy()
        for reason, bad in reasons.items():
            found[reason] = found.get(reason, np.zeros(frame.height, bool)) | (bad & ~seen)
            seen |= bad
    return found


def _check_clusters(clusters: npt.NDArray[np.int64], left_out: dict[str, int]) -> None:
    count = np.unique(clusters).size
    if count < MIN_CLUSTERS:
        reasons = ", ".join([f"{reason}: {number:,}" for reason, number in left_out.items() if number][:_NAMED])
        raise StatisticsError(
            f"a regression takes {MIN_CLUSTERS} fixtures or more, and {count} have all of its columns"
            f"{f'; rows left out: {reasons}' if reasons else ''}"
        )


def _of_one(part: Floats, clusters: npt.NDArray[np.int64]) -> bool:
    own = clusters[part != 0]
    return bool(own.size and (own == own[0]).all())


def _columns(frame: pl.DataFrame, formula: Formula, levels: dict[Factor, list[str]]) -> Iterator[tuple[str, Floats, bool]]:
    """Yield name, values, and whether a level of a category is part of it, of each column but the intercept."""
    count, known = 1, {frozenset[Factor](), *map(frozenset, formula.terms)}
    values = {factor: _values(frame, factor) for factor in formula.factors if factor not in levels}
    for term in formula.terms:
        choices = [_choices(term, factor, levels, known) for factor in term]
        size = prod(len(one) for one in choices)
        count += size
        if count > MOST_COLUMNS:
            raise StatisticsError(f"a regression has at most {MOST_COLUMNS} columns, and {formula} has more")
        if not size:  # a category of one level
            yield ":".join(map(str, term)), np.zeros(frame.height), False
        for chosen in product(*choices):
            part = np.ones(frame.height)
            for factor, choice in zip(term, chosen, strict=True):
                part = part * (values[factor] if choice is None else (frame[factor.name] == choice).to_numpy())
            names = (str(one) if choice is None else f"{one}[{choice}]" for one, choice in zip(term, chosen, strict=True))
            yield ":".join(names), part, any(choice is not None for choice in chosen)


def _choices(
    term: Term, factor: Factor, levels: dict[Factor, list[str]], known: set[frozenset[Factor]]
) -> Sequence[str | None]:  # fmt: skip
    """Return the levels of a category in a term, without the first one if the rest of the term stands for it; or no level."""
    if factor not in levels:
        return (None,)
    return levels[factor][1:] if frozenset(term) - {factor} in known else levels[factor]


def _levels(column: pl.Series, clusters: npt.NDArray[np.int64]) -> list[str]:
    """Return the levels of a category, the one with the most clusters first, then by name."""
    sizes = pl.DataFrame({"level": column, "cluster": clusters}).group_by("level").agg(n=pl.n_unique("cluster"))
    if sizes.height > MOST_LEVELS:
        raise StatisticsError(
            f"a category has at most {MOST_LEVELS} levels, and {column.name} has {sizes.height:,}: select some first"
        )
    first = sizes.sort("n", "level", descending=[True, False])["level"].to_list()[:1]
    return [*first, *sizes["level"].sort().filter(~sizes["level"].sort().is_in(first)).to_list()]


def _values(frame: pl.DataFrame, factor: Factor) -> Floats:
    values = frame[factor.name].cast(pl.Float64).to_numpy()
    return np.log(values) if factor.is_log else values


# The coefficients.


def coefficients(y: Floats, x: Floats, clusters: pl.Series, *, level: float = 0.95) -> pl.DataFrame:
    """Return the coefficients of least squares with their errors; the columns of ``x`` must be independent.

    Parameters
    ----------
    y, x
        Response, float64 (rows,), and columns, float64 (rows, columns).
    clusters
        Cluster of each row.
    level
        Level of the intervals.

    Returns
    -------
    pl.DataFrame
        ``Regression.frame`` without ``term``.
    """
    ranks, scale = clusters.rank("dense").to_numpy(), np.sqrt((x**2).sum(0))
    order = np.argsort(ranks, kind="stable")
    q, r = np.linalg.qr(x[order] / scale)
    fitted = q.T @ y[order]
    loads = np.linalg.inv(r) / scale[:, None]  # of coefficients (rows) in directions of q
    starts = np.flatnonzero(np.diff(ranks[order], prepend=-1))
    errors, degrees = _errors(q, y[order] - q @ fitted, loads, starts)
    # a response that the columns fit exactly leaves rounding errors only
    errors[errors <= ROUNDING * np.sqrt((loads**2).sum(1)) * np.linalg.norm(y)] = 0
    return _table(loads @ fitted, errors, degrees, level)


def _errors(q: Floats, residuals: Floats, loads: Floats, starts: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the errors of coefficients and their degrees of freedom, ``tr(P)^2 / tr(P^2)``.

    ``P`` has the products of the clusters' parts of a coefficient's variance under independent errors. It is
    ``diag(d) - A A'``, where a row of ``A`` is the load of a coefficient, adjusted in a cluster and seen through the columns.
    """
    count, width = loads.shape
    squares, trace, within = np.zeros((3, count))
    crossed = np.zeros((count, width, width))
    for first in range(0, starts.size, _BLOCK):
        parts = []
        for start, end in zip(
            starts[first : first + _BLOCK], np.append(starts[1:], len(q))[first : first + _BLOCK], strict=True
        ):
            rows = q[start:end]
            _, values, turns = np.linalg.svd(rows, full_matrices=False)
            hats = values**2
            rest = 1 - hats
            # a cluster that alone determines a direction has no residual in it: the generalised root is 0 there
            roots = np.where(rest > _SINGULAR, 1 / np.sqrt(np.maximum(rest, _SINGULAR)), 0)
            seen = turns @ loads.T
            part = (seen * (hats * roots)[:, None]).T @ turns
            own, shared = (hats * roots**2) @ seen**2, (part**2).sum(1)
            squares += ((roots * (turns @ (rows.T @ residuals[start:end]))) @ seen) ** 2
            trace += own - shared
            within += own * (own - 2 * shared)
            parts.append(part)
        block = np.stack(parts, axis=1)
        crossed += block.transpose(0, 2, 1) @ block
    spread = within + (crossed**2).sum((1, 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(squares), np.where(spread > 0, trace**2 / spread, np.nan)


def _table(found: Floats, errors: Floats, degrees: Floats, level: float) -> pl.DataFrame:
    known = (degrees >= MIN_DEGREES) & (errors > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(errors > 0, found / errors, np.nan)
        half = two_sided_quantile(degrees, level) * errors
        p_values = np.where(known, 2 * upper_tail(degrees, np.abs(t)), np.nan)
    columns = {
        "coefficient": found, "standard_error": errors, "degrees_of_freedom": degrees, "t": t,
        "low": np.where(known, found - half, np.nan), "high": np.where(known, found + half, np.nan), "p_value": p_values,
        "p_holm": holm(p_values),
    }  # fmt: skip
    return pl.DataFrame({name: pl.Series(part).fill_nan(None) for name, part in columns.items()})


def holm(p_values: Floats) -> Floats:
    """Return p-values adjusted for their number; nan stays nan and is not counted.

    Examples
    --------
    >>> holm(np.array([0.03, 0.01, np.nan, 0.9])).tolist()
    [0.06, 0.03, nan, 0.9]
    """
    order = np.argsort(p_values, kind="stable")
    count = int(np.isfinite(p_values).sum())
    adjusted = np.full(p_values.shape, np.nan)
    adjusted[order[:count]] = np.minimum(np.maximum.accumulate(p_values[order[:count]] * np.arange(count, 0, -1)), 1)
    return adjusted
