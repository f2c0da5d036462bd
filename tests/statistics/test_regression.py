"""Regressions against published vectors of R, against the papers' matrices in full, and against simulations.

R does not run here. The vectors are what its packages print: clubSandwich 0.6 in the examples of ``coef_test`` and ``conf_int``
(ChickWeight, CR2, Satterthwaite), and dfadjust in its tests (designs by formula, also one where a cluster determines a
coefficient). The matrices are those of Bell and McCaffrey (2002) and Pustejovsky and Tipton (2018), without a shortcut.
"""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from clvlab.errors import StatisticsError
from clvlab.statistics import cluster_mean, cluster_slope, parse_formula, regress
from clvlab.statistics.formulas import MOST_LETTERS
from clvlab.statistics.regression import MIN_DEGREES, MOST_LEVELS, coefficients, holm
from tests.length import few, length
from tests.simulations.regressions import Cell, held

CHICKS = json.loads((Path(__file__).parents[1] / "vectors" / "chick_weights.json").read_text(encoding="utf-8"))


def by_matrices(y, x, clusters):
    """Coefficients, CR2 errors and degrees of freedom, with the hat matrix of all rows and no decomposition of columns."""
    bread = np.linalg.inv(x.T @ x)
    rest = np.eye(len(y)) - x @ bread @ x.T
    beta = bread @ x.T @ y
    residuals, meat, parts = y - x @ beta, np.zeros((x.shape[1],) * 2), []
    for name in np.unique(clusters):
        own = clusters == name
        values, vectors = np.linalg.eigh(rest[np.ix_(own, own)])
        roots = np.array([0 if value < 1e-9 else value**-0.5 for value in values])
        adjusted = vectors @ np.diag(roots) @ vectors.T @ x[own]
        score = adjusted.T @ residuals[own]
        meat += np.outer(score, score)
        parts.append(rest[:, own] @ adjusted @ bread)
    degrees = []
    for column in range(x.shape[1]):
        spread = np.column_stack([part[:, column] for part in parts])
        eigenvalues = np.linalg.eigvalsh(spread.T @ spread)
        degrees.append(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())
    return beta, np.sqrt(np.diag(bread @ meat @ bread)), np.array(degrees)


@pytest.fixture(scope="module")
def chicks():
    rows = [
        (diet, day, weight, f"{diet}-{number}")
        for diet, weights in CHICKS["weights"].items()
        for number, one in enumerate(weights)
        for day, weight in zip(CHICKS["days"], one, strict=False)
    ]
    return pl.DataFrame(rows, schema=["diet", "day", "weight", "chick"], orient="row")


GROWTH = parse_formula("weight ~ diet + day + diet:day", ["weight"], ["day"], ["diet"])


class TestVectorsOfR:
    def test_growth_of_chicks_is_that_of_clubsandwich(self, chicks):
        found = regress(chicks, GROWTH, "chick").frame.filter(pl.col("term").str.ends_with(":day"))

        rounded = found.select(
            "term", pl.col("coefficient").round(2), pl.col("standard_error").round(2), pl.col("t").round(2),
            pl.col("degrees_of_freedom").round(1), pl.col("p_value").round(4), pl.col("low").round(3), pl.col("high").round(2),
        )  # fmt: skip
        assert chicks.height == 578
        assert rounded.rows() == [
            ("diet[2]:day", 1.77, 1.49, 1.19, 18.8, 0.2497, -1.349, 4.88),
            ("diet[3]:day", 4.58, 1.35, 3.39, 18.8, 0.0031, 1.751, 7.41),
            ("diet[4]:day", 2.87, 1.01, 2.85, 18.3, 0.0105, 0.757, 4.99),
        ]

    def test_intervals_at_another_level_are_those_of_clubsandwich(self, chicks):
        found = regress(chicks, GROWTH, "chick", level=0.99).frame.tail(3)

        assert found["low"].round(4).to_list() == [-2.4946, 0.7115, -0.0237]
        assert found["high"].round(2).to_list() == [6.03, 8.45, 5.77]

    def test_degrees_of_freedom_of_a_design_by_formula_are_those_of_dfadjust(self):
        n = np.arange(1, 11.0)
        x = np.column_stack([np.ones(10), np.sin(n), np.sin(n + 1)])

        found = coefficients(n, x, pl.Series(range(10)))

        assert found["degrees_of_freedom"].to_list() == pytest.approx([4.94624731, 3.90754737, 4.77265484], abs=1e-8)

    def test_adjusted_errors_are_those_of_dfadjust_also_where_a_row_determines_a_coefficient(self):
        n = np.arange(1, 101.0)
        x, y, first = np.column_stack([np.ones(100), np.sin(n), n]), n**2 + np.repeat([1, 2, 3], [60, 20, 20]), n == 1

        plain, with_row = (_adjusted(coefficients(y, part, pl.Series(range(100)))) for part in (x, np.column_stack([x, first])))

        assert plain == pytest.approx([188.164883779, 109.636001038, 3.371563406], abs=1e-8)
        assert with_row == pytest.approx([188.97371028, 107.8865573, 3.36194461, 211.67556014], abs=1e-7)

    def test_a_design_with_an_effect_of_each_cluster_is_that_of_dfadjust(self):
        n, x = np.arange(1, 11.0), np.array([1, 1, 1, 1, 0, 0, 0, 0, 0, 1.0])
        clusters = np.repeat([1, 2, 3], [6, 2, 2])

        found = coefficients(np.tan(n), np.column_stack([np.ones(10), x, clusters == 2, clusters == 3]), pl.Series(clusters))

        row = found.row(1, named=True)
        assert (row["coefficient"], row["standard_error"]) == (pytest.approx(1.71, abs=0.005), pytest.approx(0.3705, abs=5e-5))
        assert row["degrees_of_freedom"] == pytest.approx(1)
        assert _adjusted(found)[1] == pytest.approx(2.4, abs=0.05)
        assert row["p_value"] is None


def _adjusted(found):
    """Errors times the quantile of Student's distribution over the normal one, as dfadjust prints them."""
    quantiles = stats.t.ppf(0.975, found["degrees_of_freedom"].to_numpy()) / stats.norm.ppf(0.975)
    return (found["standard_error"].to_numpy() * quantiles).tolist()


@pytest.mark.parametrize("seed", range(length(40, 400)))
def test_coefficients_are_those_of_the_matrices_in_full(seed):
    rng = np.random.default_rng(seed)
    fixtures, columns = int(rng.integers(5, 14)), int(rng.integers(1, 5))
    ids = np.repeat(rng.permutation(fixtures), rng.integers(1, 9, fixtures))
    x = rng.normal(0, 10.0 ** rng.integers(-3, 4, columns), (ids.size, columns))
    x[:, 0] = 1
    if seed % 3 == 0:  # a number of fixtures, and one of large leverage
        x[:, -1] = rng.normal(0, 1, fixtures)[ids] + 30 * (ids == ids[0])
    if seed % 4 == 1 and columns > 1:  # one fixture determines a coefficient
        x[:, -1] = ids == ids[-1]
    if np.linalg.matrix_rank(x / np.sqrt((x**2).sum(0))) < x.shape[1]:
        return
    y, order = rng.normal(0, 1, ids.size) + rng.normal(0, 1, fixtures)[ids], rng.permutation(ids.size)

    found = coefficients(y[order], x[order], pl.Series(ids[order]))

    beta, errors, degrees = by_matrices(y, x, ids)
    assert found["coefficient"].to_list() == pytest.approx(beta.tolist(), rel=1e-8, abs=1e-12)
    known = errors > 1e-9 * np.abs(beta)
    for name, wanted in (("standard_error", errors), ("degrees_of_freedom", degrees)):
        values = found[name].to_numpy()[known]
        assert values == pytest.approx(wanted[known], rel=1e-6)


def test_an_intercept_alone_is_the_mean_and_a_slope_that_of_slopes():
    rng = np.random.default_rng(2)
    ids = np.repeat(np.arange(12), rng.integers(1, 9, 12))
    x, y = rng.normal(3, 1, ids.size), rng.normal(5, 1, ids.size) + rng.normal(0, 1, 12)[ids]

    mean, slope = cluster_mean(pl.Series(y), pl.Series(ids)), cluster_slope(pl.Series(x), pl.Series(y), pl.Series(ids))

    for column, one, value in ((np.ones(ids.size), mean, mean.mean), (x, slope, slope.slope)):
        row = coefficients(y, column[:, None], pl.Series(ids)).row(0, named=True)
        assert row["coefficient"] == pytest.approx(value)
        assert (row["standard_error"], row["degrees_of_freedom"]) == pytest.approx((one.standard_error, one.degrees_of_freedom))
        assert (row["low"], row["high"]) == pytest.approx((one.low, one.high))


def frame_of(seed=0, fixtures=12, per=8):
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(fixtures), per)
    return pl.DataFrame({
        "y": rng.normal(0, 1, ids.size), "x": rng.uniform(1, 9, ids.size), "z": rng.normal(0, 1, ids.size),
        "side": rng.choice(["over", "under", "draw"], ids.size), "league": np.where(ids % 2, "E0", "D1"), "id": ids,
    })  # fmt: skip


def made(text, frame, **settings):
    return regress(frame, parse_formula(text, ["y"], ["x", "z"], ["side", "league"]), "id", **settings)


class TestColumns:
    def test_a_level_is_compared_with_the_one_of_most_fixtures(self):
        frame = frame_of().with_columns(league=pl.when(pl.col("id") < 3).then(pl.lit("A")).otherwise(pl.lit("Z")))

        found = made("y ~ league", frame)

        assert found.frame["term"].to_list() == ["intercept", "league[A]"]
        assert found.bases == {"league": "Z"}
        means = [frame.filter(pl.col("league") == name)["y"].mean() for name in "ZA"]
        assert found.frame["coefficient"].to_list() == pytest.approx([means[0], means[1] - means[0]])

    def test_a_product_without_its_parts_has_every_level(self):
        terms = [
            made(text, frame_of()).frame["term"].to_list() for text in ("y ~ league:x", "y ~ x + league:x", "y ~ side:league")
        ]

        assert terms[0] == ["intercept", "league[D1]:x", "league[E0]:x"]
        assert terms[1] == ["intercept", "x", "league[E0]:x"]
        assert len(terms[2]) == 6

    def test_any_order_and_any_repetition_is_the_same_regression(self):
        frame = frame_of()

        once, again = made("y ~ log(x) + z:side + z", frame), made("y~log( x )+z:side+z+side:z+log(x)", frame)

        assert once.frame.equals(again.frame)

    @pytest.mark.parametrize(
        "text", ["y ~ log(x) + side + z:league + z + league", "y ~ side:league + x:z", "y ~ log(x):side:league"]
    )
    def test_fitted_values_are_those_of_a_model_by_hand(self, text):
        frame = frame_of()
        terms = made(text, frame).frame

        fitted = sum(row["coefficient"] * _column(row["term"], frame) for row in terms.iter_rows(named=True))

        full = [np.ones(frame.height)]
        for term in text.partition("~")[2].split("+"):
            factors = term.strip().split(":")
            parts = [
                [one] if one not in ("side", "league") else [f"{one}[{level}]" for level in frame[one].unique()]
                for one in factors
            ]
            full += [_column(":".join(names), frame) for names in _all(parts)]
        by_hand = np.column_stack(full) @ np.linalg.lstsq(np.column_stack(full), frame["y"].to_numpy(), rcond=None)[0]
        assert fitted == pytest.approx(by_hand)

    def test_a_level_of_one_fixture_is_dropped_with_its_rows_and_named(self):
        frame = frame_of().with_columns(side=pl.when(pl.col("id") == 4, pl.col("x") > 5).then(pl.lit("cup")).otherwise("side"))
        cup = frame.filter(pl.col("side") == "cup").height

        found, without = made("y ~ side + x", frame), made("y ~ side + x", frame.filter(pl.col("side") != "cup"))

        assert found.dropped == {"side[cup]": "one fixture alone has it"}
        assert found.left_out == {"side[cup] of one fixture": cup}
        assert found.frame.equals(without.frame)

    def test_a_product_of_one_fixture_is_dropped_too(self):
        frame = frame_of().with_columns(
            side=pl.when((pl.col("league") == "E0") & (pl.col("id") != 3)).then(pl.lit("over")).otherwise("side")
        )

        found = made("y ~ side:league + side + league", frame)

        assert [name for name in found.dropped if name.endswith("league[E0]")]
        assert all("one fixture" in why for name, why in found.dropped.items() if name.endswith("league[E0]"))

    def test_what_follows_from_terms_before_is_dropped_and_named(self):
        frame = frame_of().with_columns(z=3 * pl.col("x") - 2)

        found = made("y ~ x + z + league", frame)

        assert found.dropped == {"z": "follows from the terms before it"}
        assert found.frame.equals(made("y ~ x + league", frame).frame)

    def test_what_does_not_vary_is_dropped_and_named(self):
        frame = frame_of().with_columns(z=pl.lit(7.5), league=pl.lit("E0"))

        found = made("y ~ x + z + league + league:x", frame)

        assert found.dropped == dict.fromkeys(["z", "league", "league:x"], "does not vary")

    @pytest.mark.parametrize("unit", [1e-9, 1e9])
    def test_units_change_nothing_but_the_unit(self, unit):
        frame = frame_of()
        other = frame.with_columns(x=pl.col("x") * unit)

        plain, scaled = (made("y ~ x + side", one).frame for one in (frame, other))

        assert scaled["t"].to_list() == pytest.approx(plain["t"].to_list(), rel=1e-6)
        assert scaled["coefficient"][1] * unit == pytest.approx(plain["coefficient"][1])

    def test_missing_values_and_logarithms_of_nothing_are_left_out_and_counted(self):
        frame = frame_of().with_columns(
            y=pl.when(pl.int_range(pl.len()) != 0).then("y"),
            x=pl.when(pl.int_range(pl.len()).is_in([0, 1]))
            .then(0.0)
            .when(pl.int_range(pl.len()) == 2)
            .then(-3.0)
            .otherwise("x"),
            side=pl.when(pl.int_range(pl.len()) != 5).then("side"),
            z=pl.when(pl.int_range(pl.len()) == 6).then(float("nan")).when(pl.int_range(pl.len()) != 5).then("z"),
        )

        found = made("y ~ log(x) + side + z", frame)

        assert found.left_out == {"no y": 1, "x is not above 0": 2, "no side": 1, "no z": 1}
        assert found.n == frame.height - 5

    def test_few_fixtures_are_refused_with_what_was_left_out(self):
        with pytest.raises(
            StatisticsError, match="5 fixtures or more, and 0 have all of its columns; rows left out: no league: 96"
        ):
            made("y ~ league", frame_of().with_columns(league=pl.lit(None, pl.String)))
        with pytest.raises(StatisticsError, match="5 fixtures or more, and 4 have"):
            made("y ~ x", frame_of(fixtures=4))
        with pytest.raises(StatisticsError, match="5 fixtures or more, and 0 have"):
            made("y ~ x", frame_of().clear())

    def test_many_levels_and_many_columns_are_refused(self):
        many = frame_of(fixtures=60).with_columns(league=(pl.col("id") % (MOST_LEVELS + 1)).cast(pl.String))
        with pytest.raises(StatisticsError, match=f"at most {MOST_LEVELS} levels, and league has {MOST_LEVELS + 1}"):
            made("y ~ league", many)
        wide = frame_of(fixtures=80).with_columns(league=(pl.col("id") % 38).cast(pl.String))
        with pytest.raises(StatisticsError, match="at most 100 columns"):
            made("y ~ league:side", wide)


def _all(parts):
    return [[]] if not parts else [[first, *rest] for first in parts[0] for rest in _all(parts[1:])]


def _column(term, frame):
    """The values of a term by its name."""
    part = np.ones(frame.height)
    for factor in [] if term == "intercept" else term.split(":"):
        name, _, level = factor.rstrip("])").rpartition("log(")[2].partition("[")
        values = (frame[name] == level).to_numpy() if level else frame[name].to_numpy()
        part = part * (np.log(values) if factor.startswith("log(") else values)
    return part


class TestTests:
    def test_below_four_degrees_of_freedom_there_is_no_interval_and_no_p(self):
        frame = frame_of(fixtures=30).with_columns(league=pl.when(pl.col("id") < 2).then(pl.lit("A")).otherwise(pl.lit("B")))

        rows = made("y ~ league + x", frame).frame.rows(named=True)

        assert rows[1]["degrees_of_freedom"] < MIN_DEGREES < rows[2]["degrees_of_freedom"]
        assert [rows[1][name] for name in ("low", "high", "p_value", "p_holm")] == [None] * 4
        assert rows[1]["standard_error"] > 0
        assert rows[2]["p_value"] is not None

    def test_p_and_interval_are_students(self):
        row = made("y ~ x", frame_of(), level=0.9).frame.row(1, named=True)

        v, error = row["degrees_of_freedom"], row["standard_error"]
        assert row["p_value"] == pytest.approx(2 * stats.t.sf(abs(row["coefficient"] / error), v))
        assert (row["low"], row["high"]) == pytest.approx(stats.t.interval(0.9, v, row["coefficient"], error))

    @settings(max_examples=length(60, 500))
    @given(st.lists(st.one_of(st.floats(0, 1), st.just(float("nan"))), max_size=12))
    def test_holm_is_what_it_is_one_by_one(self, p_values):
        found = holm(np.array(p_values, dtype=float))

        known = sorted((p, at) for at, p in enumerate(p_values) if p == p)
        highest, wanted = 0.0, [float("nan")] * len(p_values)
        for rank, (p, at) in enumerate(known):
            highest = max(highest, min(1.0, p * (len(known) - rank)))
            wanted[at] = highest
        assert found.tolist() == pytest.approx(wanted, nan_ok=True)

    def test_an_exact_fit_has_an_error_of_zero_and_no_t(self):
        frame = frame_of().with_columns(y=2 * pl.col("x") + 1)

        row = made("y ~ x", frame).frame.row(1, named=True)

        assert row["coefficient"] == pytest.approx(2)
        assert (row["standard_error"], row["t"], row["p_value"], row["low"]) == (0, None, None, None)


CELLS = [
    Cell("within", "equal", "normal", 6), Cell("within", "pareto", "t3", 30), Cell("between", "equal", "uneven", 12),
    Cell("between", "pareto", "normal", 30), Cell("few", "equal", "normal", 30), Cell("few", "pareto", "uneven", 100),
    Cell("leverage", "equal", "normal", 30), Cell("leverage", "pareto", "t3", 30),
]  # fmt: skip


@few(2)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_intervals_hold_the_truth_and_holm_keeps_its_size(cell):
    rounds = length(250, 2_000)

    found = held(cell, rounds)

    slack = 3.3 * np.sqrt(0.05 * 0.95 / rounds)
    for share, known in zip(found.coverage, found.known, strict=True):
        assert known < 0.3 or share >= 0.93 - slack
    assert found.announced <= 0.064 + slack


def test_few_fixtures_of_a_group_have_no_interval_rather_than_a_wrong_one():
    found = held(Cell("few", "equal", "normal", 12), 50)

    assert found.known[2] == 0


class TestFormulas:
    @settings(max_examples=length(300, 3_000))
    @given(st.text(st.sampled_from("yxzsidelog(): ~+1-*^'\".__\n\0é "), max_size=40))
    @example("y ~ " + "(" * 400)
    @example("y ~ x" + ":x" * 200)
    @example("y ~ log(log(x))")
    @example("y ~ x.__class__")
    @example("y ~ y")
    def test_any_text_is_a_formula_or_a_clear_error(self, text):
        try:
            found = parse_formula(text, ["y"], ["x", "z"], ["side"])
        except StatisticsError:
            return
        assert parse_formula(str(found), ["y"], ["x", "z"], ["side"]) == found

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("y ~ sdie", "no column 'sdie': did you mean 'side'"),
            ("w ~ x", "no response 'w'; it has: y"),
            ("y ~ log(side)", "'side' is a category"),
            ("y ~ log(x", "it ends where '\\)' should"),
            ("y ~ x +", "it ends where the name of a column should"),
            ("y x", "'x' stands where '~' should"),
            ("y ~ x * z", r"not '\*'"),
            ("y ~ __import__('os')", 'not "\'"'),
            ("y ~ x:z:side:x", "at most 3 factors, not 4"),
            ("y ~ " + "+".join(["x"] * 13), "at most 12 terms"),
            ("y ~ " + "x" * MOST_LETTERS, "at most 500 letters"),
            (("y", "x"), "a formula is a text"),
            (None, "a formula is a text"),
        ],
    )
    def test_what_is_no_formula_is_refused(self, text, message):
        with pytest.raises(StatisticsError, match=message):
            parse_formula(text, ["y"], ["x", "z"], ["side"])
