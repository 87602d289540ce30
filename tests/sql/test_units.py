"""A model follows its units: labels, features and weights times a constant, or plus one.

One statement trains a group for each constant on the same rows. Rows are multiples of 1/4, so that
sums with whole numbers up to 2^50 are exact. A status may say what stopped a variant instead.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import hypothesis.strategies as st
import numpy as np
import psycopg
import pytest
from hypothesis import assume, given, settings

import tuskml

TIMES = (1e-12, 1e-8, 7.0, 1e6, 1e10, 1e13, 1e15)
PLUS = (-1000.0, 1.7e9, 1e12, -1e13, 1.7e15)
POWERS = (2.0**-30, 2.0**10, 2.0**40)
"""Times which 32-bit floats are exact."""
STOPPED = ("rounded feature", "out of range", "not converged", "collinear features")
"""Statuses that say what stopped a variant, far from zero."""
FAR = 1e12
TREES = 20
"""By the quantile's loss, whose slopes are two numbers, many splits gain the same, and the rounded
sums of weights in another unit decide between these. Late trees follow from that.
"""
N = 60


@dataclass(frozen=True)
class Case:
    """A training and what it is a model of: numbers, counts (their logarithm is the margin), or
    classes, in both or several; close: how near variants are to each other, of which those are far
    whose rows are drawn by a hash of what they contain.
    """

    task: str
    labels: str = "numbers"
    options: dict[str, Any] | None = None
    close: float = 1e-6
    sparse: bool = True

    def __str__(self) -> str:
        given = self.options or {}
        return " ".join([self.task, *(f"{value}" for value in given.values())])

    @property
    def linear(self) -> bool:
        """Whether the model is weights."""
        return self.task not in ("gbdt", "random_forest", "mlp", "fm")


def algorithms(task: str, labels: str, *names: str) -> Iterator[Case]:
    """Of a task, whose steps by gradients end a tolerance away from each other."""
    for name in names:
        close = 1e-6 if name == "newton" else 1e-4
        yield Case(task, labels, {"algorithm": name}, close)


CASES = (
    *algorithms("linear", "numbers", "newton", "newton_cg", "lbfgs", "bgd"),
    *algorithms("huber", "numbers", "newton", "newton_cg", "lbfgs"),
    *algorithms("quantile", "numbers", "newton"),
    *algorithms("logistic", "classes", "newton", "lbfgs"),
    *algorithms("svm", "classes", "newton"),
    *algorithms("squared_hinge", "classes", "newton", "lbfgs"),
    *algorithms("poisson", "counts", "newton", "lbfgs"),
    *algorithms("gamma", "positive", "newton"),
    *algorithms("tweedie", "counts", "newton", "lbfgs"),
    *algorithms("logistic", "classes", "newton_cg"),
    *algorithms("squared_hinge", "classes", "newton_cg"),
    *algorithms("poisson", "counts", "newton_cg"),
    *algorithms("gamma", "positive", "lbfgs", "newton_cg"),
    Case("tweedie", "counts", {"power": 1.2}),
    Case("negative_binomial", "counts", {"dispersion": 0.5}),
    Case("negative_binomial", "counts"),
    Case("logistic", "several"),
    *algorithms("logistic", "several", "lbfgs"),
    Case("linear", options={"l2": 0.0, "covariance": "HC1"}),
    Case("quantile", options={"quantile": 0.9}),
    Case("lasso", options={"standardize": True}, close=0.2),
    Case("elastic_net", options={"standardize": True}, close=0.2),
    Case("gbdt", options={"objective": "squared"}, sparse=False),
    Case("gbdt", options={"objective": "huber"}, sparse=False),
    Case("gbdt", options={"objective": "quantile"}, sparse=False),
    Case("gbdt", "classes", {"objective": "logistic"}, sparse=False),
    Case("gbdt", "several", {"objective": "logistic"}, sparse=False),
    Case("gbdt", "counts", {"objective": "poisson"}, sparse=False),
    Case("random_forest", close=0.2, sparse=False),
    Case("mlp", options={"max_iter": 20}, close=0.2, sparse=False),
    Case("fm", options={"max_iter": 20}, close=0.2, sparse=False),
)
NUMBERS = tuple(one for one in CASES if one.labels == "numbers")
FEATURES = {
    "list": "[a, b]",
    "named": "{'a': a, 'b': b}",
    "float": "[a::FLOAT, b::FLOAT]",
    "sparse": "sparse([0, 1], [a, b])",
    "lacking": "CASE WHEN a = 0 THEN sparse([1], [b]) ELSE sparse([0, 1], [a, b]) END",
    "postgres": "ARRAY[a, b]",
}


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect() as con:
        con.execute("SET threads = 1")
        yield con


def rows_of(labels: str, seed: int) -> list[tuple[int, float, float, float, float]]:
    """Numbers of rows, labels, two features and weights."""
    rng = np.random.default_rng(seed)
    a, b = (np.round(4 * rng.normal(size=N) * size) / 4 for size in (3.0, 5.0))
    noise = rng.standard_t(3, size=N)
    y = np.round(4 * (3 + 2 * a - b + 4 * noise)) / 4
    margin = 0.3 * a - 0.1 * b
    if labels == "classes":
        y = (margin + 0.7 * rng.logistic(size=N) > 0) * 1.0
    elif labels == "several":
        y = np.digitize(margin + rng.logistic(size=N), [-0.8, 0.8]) * 1.0
    elif labels == "counts":
        y = rng.poisson(np.exp(margin)) * 1.0
    elif labels == "positive":
        y = np.round(64 * rng.gamma(2, np.exp(margin)) + 1) / 64
    columns = zip(*(one.tolist() for one in (y, a, b, rng.integers(1, 5, N) / 4)), strict=True)
    return [(i, *row) for i, row in enumerate(columns)]


@dataclass(frozen=True)
class Variants:
    """How rows vary by a constant c: expressions of y, a, b and w."""

    label: str = "y"
    a: str = "a"
    b: str = "b"
    weight: str = "w"


LABEL_TIMES, LABEL_PLUS = Variants(label="y * c"), Variants(label="y + c")
FEATURE_TIMES, FEATURE_PLUS = Variants(a="a * c"), Variants(a="a + c", b="b + c")
WEIGHT_TIMES = Variants(weight="w * c")

Model = dict[str, Any]


def trained(
    run: Callable[[str], list[tuple[Any, ...]]], case: Case, how: Variants, constants: list[float],
    features: str, rows: list[tuple[int, float, float, float, float]], *, weighted: bool,
) -> dict[float, Model]:  # fmt: skip
    """Model by constant."""
    values = ", ".join(str(tuple(map(float, row))) for row in rows)
    each = ", ".join(f"(CAST({c!r} AS double precision))" for c in constants)
    weight = f", {how.weight}" if weighted or how.weight != "w" else ""
    made = (
        f"WITH r(i, y, a, b, w) AS (VALUES {values}), k(c) AS (VALUES {each}), "
        f"t AS (SELECT c, i, CAST({how.label} AS double precision) AS y, "
        f"CAST({how.a} AS double precision) AS a, CAST({how.b} AS double precision) AS b, "
        f"CAST({how.weight} AS double precision) AS w FROM r, k), "
        f"f AS (SELECT c, train_model('{case.task}', y, {FEATURES[features]}, "
        f"'{json.dumps(case.options or {})}'{', w' if weight else ''} ORDER BY i) AS m "
        "FROM t GROUP BY c) "
    )
    asked = "SELECT c, (m).status, (m).coef, (m).intercept, NULL FROM f"
    if not case.linear:
        asked = (
            f"SELECT f.c, (m).status, NULL, NULL, p FROM f JOIN (SELECT t.c, "
            f"array_agg(predict(m, {FEATURES[features]}) ORDER BY i) AS p "
            "FROM t JOIN f ON t.c = f.c GROUP BY t.c) AS s ON s.c = f.c"
        )
    found = {}
    for c, status, coef, intercept, predicted in run(made + asked):
        numbers = predicted if predicted is not None else coef
        found[c] = {"status": status, "numbers": np.array(numbers, float), "intercept": intercept}
    return found


def same(got: Any, wanted: Any, close: float, what: str, more: float = 0.0) -> None:
    """Numbers are as near as they have to be, of the size of the largest, and more."""
    got, wanted = np.atleast_1d(np.asarray(got, float)), np.atleast_1d(np.asarray(wanted, float))
    size = np.abs(wanted).max(initial=1e-300)
    assert got.shape == wanted.shape, what
    assert np.abs(got - wanted).max(initial=0) <= close * size + more, what


def check(
    found: dict[float, Model], case: Case, to_base: Callable[[float, Model], Model], base: float
) -> int:
    """How many variants are the model of base once they are in its units."""
    first, checked = found[base], 0
    assert first["status"] in ("ok", "early stop"), (case, first["status"])
    for c, model in found.items():
        what = f"{case} at {c:g}: {model['status']}"
        if model["status"] != first["status"]:
            assert model["status"] in STOPPED, what
            assert abs(c) > (1e6 if case.task == "fm" else FAR), what
            continue
        there = to_base(c, model)
        size = max(1.0, abs(c) * 1e-9)  # of rounding in what is far from zero
        rounding = 0.0 if case.linear else 100 * float(np.spacing(abs(c)))  # a tree's each
        same(there["numbers"], first["numbers"], case.close, what, rounding)
        if first["intercept"] is not None and not math.isnan(first["intercept"]):
            least = max(abs(first["intercept"]), np.abs(first["numbers"]).max(), 1e-300)
            off = abs(there["intercept"] - first["intercept"])
            assert off <= case.close * least * size, what
        checked += 1
    return checked


def times_label(case: Case) -> Callable[[float, Model], Model]:
    def to_base(c: float, model: Model) -> Model:
        if case.labels == "positive":
            return model | {"intercept": model["intercept"] - math.log(c)}
        intercept = None if model["intercept"] is None else model["intercept"] / c
        return model | {"numbers": model["numbers"] / c, "intercept": intercept}

    return to_base


def plus_label(case: Case) -> Callable[[float, Model], Model]:
    def to_base(c: float, model: Model) -> Model:
        if not case.linear:
            return model | {"numbers": model["numbers"] - c}
        return model | {"intercept": model["intercept"] - c}

    return to_base


def moved_features(case: Case, *, plus: bool) -> Callable[[float, Model], Model]:
    def to_base(c: float, model: Model) -> Model:
        if not case.linear:
            return model
        numbers, intercept = model["numbers"].copy(), model["intercept"]
        several = case.labels == "several"
        by_class = numbers.reshape(-1, 3) if several else numbers[None, :]
        first = int(several)
        if plus:
            moved = c * by_class[:, first:].sum(axis=1)
            if several:
                by_class[:, 0] = 0.0  # the intercepts, which lose their digits
            else:
                intercept = intercept + float(moved[0])
        else:
            by_class[:, first] *= c
        return model | {"numbers": numbers, "intercept": intercept}

    return to_base


def unchanged(c: float, model: Model) -> Model:
    return model


CASE, SEED = st.sampled_from(CASES), st.integers(0, 2**31)
DOUBLES = ("list", "named", "sparse")
STORAGE, WEIGHTED = st.sampled_from(["list", "named", "float", "sparse"]), st.booleans()


def stored(case: Case, storage: str) -> str:
    return "list" if storage == "sparse" and not case.sparse else storage


@pytest.mark.nightly
@settings(max_examples=12)
@given(case=st.sampled_from(NUMBERS), storage=STORAGE, weighted=WEIGHTED, seed=SEED)
def test_labels_times(
    duck: duckdb.DuckDBPyConnection, case: Case, storage: str, weighted: bool, seed: int
) -> None:
    storage, constants = stored(case, storage), [1.0, *TIMES]
    rows = rows_of(case.labels, seed)
    found = trained(running(duck), case, LABEL_TIMES, constants, storage, rows, weighted=weighted)
    assert check(found, case, times_label(case), 1.0) >= len(TIMES)


@pytest.mark.nightly
@settings(max_examples=12)
@given(case=st.sampled_from(NUMBERS), storage=STORAGE, weighted=WEIGHTED, seed=SEED)
def test_labels_plus(
    duck: duckdb.DuckDBPyConnection, case: Case, storage: str, weighted: bool, seed: int
) -> None:
    storage, constants = stored(case, storage), [0.0, *PLUS]
    rows = rows_of(case.labels, seed)
    found = trained(running(duck), case, LABEL_PLUS, constants, storage, rows, weighted=weighted)
    check(found, case, plus_label(case), 0.0)


@settings(max_examples=12)
@given(case=CASE, storage=STORAGE, weighted=WEIGHTED, seed=SEED)
def test_features_times(
    duck: duckdb.DuckDBPyConnection, case: Case, storage: str, weighted: bool, seed: int
) -> None:
    storage = stored(case, storage)
    constants = [1.0, *(POWERS if storage == "float" else TIMES)]
    rows = rows_of(case.labels, seed)
    found = trained(
        running(duck), case, FEATURE_TIMES, constants, storage, rows, weighted=weighted
    )
    check(found, case, moved_features(case, plus=False), 1.0)


@settings(max_examples=12)
@given(case=CASE, storage=st.sampled_from(DOUBLES), weighted=WEIGHTED, seed=SEED)
def test_features_plus(
    duck: duckdb.DuckDBPyConnection, case: Case, storage: str, weighted: bool, seed: int
) -> None:
    storage, constants = stored(case, storage), [0.0, *PLUS]
    rows = rows_of(case.labels, seed)
    found = trained(running(duck), case, FEATURE_PLUS, constants, storage, rows, weighted=weighted)
    if case.labels == "several":
        for model in found.values():
            model["numbers"].reshape(-1, 3)[:, 0] = 0.0
    check(found, case, moved_features(case, plus=True), 0.0)


LACKING = Variants(a="CASE WHEN i = 7 THEN 0 ELSE a + c END")
FAR_CASES = [one for one in CASES if one.linear and one.close < 0.1]


MAY_STOP = [str(one) for one in FAR_CASES if "lbfgs" in str(one)] + ["negative_binomial"]
"""Cases whose descents may say that they stopped before the optimum."""


def as_dense(
    con: duckdb.DuckDBPyConnection,
    case: Case,
    constants: list[float],
    seed: int,
    *,
    weighted: bool,
) -> None:
    """Trains on far features that a row has as 0: one that a sparse row says or lacks."""
    rows, models = rows_of(case.labels, seed), []
    for features in ("list", "sparse", "lacking"):
        given = case, LACKING, constants, features, rows
        models.append(trained(running(con), *given, weighted=weighted))
    for c in constants:
        unit = np.array([c / math.sqrt(N), 5.0])  # what features vary by
        dense, *others = (weights_of(found[c], case) * unit for found in models)
        for numbers, sparse in zip(others, models[1:], strict=True):
            what = f"{case} at {c:g}: {sparse[c]['status']}"
            statuses = {sparse[c]["status"], models[0][c]["status"]}
            if "not converged" in statuses and str(case) in MAY_STOP:
                continue  # steps may be too short for a row that is far
            assert len(statuses) == 1, what
            same(numbers, dense, closeness(case), what)


def closeness(case: Case) -> float:
    """How near weights are on far features: a hinge ends by its gap, which leaves them open."""
    return 1e-2 if case.task == "svm" else case.close


def weights_of(model: Model, case: Case) -> np.ndarray[Any, Any]:
    """The weights of two features, (2,) or by class (K, 2), without intercepts."""
    numbers = model["numbers"]
    return numbers.reshape(-1, 3)[:, 1:] if case.labels == "several" else numbers


@pytest.mark.nightly
@settings(max_examples=8)
@given(case=st.sampled_from(FAR_CASES), weighted=WEIGHTED, seed=SEED)
def test_far_features_that_a_sparse_row_lacks(
    duck: duckdb.DuckDBPyConnection, case: Case, weighted: bool, seed: int
) -> None:
    as_dense(duck, case, [50.0, 1e4, 1.7e9], seed, weighted=weighted)


@pytest.mark.parametrize("seed", [1, 3])
def test_a_hinge_of_far_features_that_a_sparse_row_lacks(
    duck: duckdb.DuckDBPyConnection, seed: int
) -> None:
    as_dense(duck, Case("svm", "classes", close=1e-5), [1e7], seed, weighted=False)


SATURATING = [one for one in FAR_CASES if one.labels in ("classes", "several", "counts")]
ABSURD = Variants(a="CASE WHEN i = 7 THEN -c ELSE a END")


@settings(max_examples=8)
@given(
    case=st.sampled_from(SATURATING),
    storage=st.sampled_from(["list", "sparse", "lacking"]),
    how=st.sampled_from([LACKING, ABSURD]),
    far=st.sampled_from([1e5, 1.7e9]),
    intercept=st.booleans(),
    seed=SEED,
)
def test_a_far_row_that_a_loss_is_certain_of(
    duck: duckdb.DuckDBPyConnection, case: Case, storage: str, how: Variants, far: float,
    intercept: bool, seed: int,
) -> None:  # fmt: skip
    """The row has no slope at the optimum: the weights are those without it."""
    if how is ABSURD:
        case = replace(case, options={**(case.options or {}), "fit_intercept": intercept})
    rows, weights = rows_of(case.labels, seed), {}
    for name, at in (("without", 0.0), ("with", far)):
        some = [row for row in rows if row[0] != 7]
        if at:  # the slope by a is positive: the lowest class, or no count, is certain
            some.append((7, 0.0, *rows[7][2:]))
        model = trained(running(duck), case, how, [at], storage, some, weighted=False)[at]
        assert model["status"] == "ok", (name, model["status"])
        weights[name] = weights_of(model, case) * np.array([3.0, 5.0])
        slopes = weights["without"].reshape(-1, 2)[:, 0]
        assume((slopes[slopes != 0] > 0.1).all())  # otherwise the far row is not certain
    same(weights["with"], weights["without"], 10 * closeness(case), f"{case} {storage} {far}")


@settings(max_examples=12)
@given(case=CASE, storage=STORAGE, seed=SEED)
def test_weights_times(
    duck: duckdb.DuckDBPyConnection, case: Case, storage: str, seed: int
) -> None:
    storage, constants = stored(case, storage), [1.0, *TIMES]
    if case.options == {"objective": "quantile"}:
        case = replace(case, options={"objective": "quantile", "trees": TREES})
    rows = rows_of(case.labels, seed)
    found = trained(running(duck), case, WEIGHT_TIMES, constants, storage, rows, weighted=True)
    assert check(found, case, unchanged, 1.0) == len(constants)


DRAWING = (
    Case("gbdt", options={"row_fraction": 0.6, "trees": TREES}),
    Case("gbdt", options={"goss": True, "learning_rate": 0.5, "trees": TREES}),
    Case("gbdt", "classes", {"objective": "logistic", "row_fraction": 0.6, "trees": TREES}),
    Case("random_forest", options={"trees": TREES}),
    Case("random_forest", "classes", {"objective": "gini", "trees": TREES}),
)


@settings(max_examples=6)
@given(case=st.sampled_from(DRAWING), weighted=WEIGHTED, seed=SEED)
def test_trees_draw_the_same_rows_in_any_unit(
    duck: duckdb.DuckDBPyConnection, case: Case, weighted: bool, seed: int
) -> None:
    """Powers of two, by which nothing is rounded otherwise and equal splits stay equal."""
    rows, constants = rows_of(case.labels, seed), [1.0, *POWERS]
    hows: list[tuple[Variants, Callable[[float, Model], Model]]] = [(WEIGHT_TIMES, unchanged)]
    hows += [(LABEL_TIMES, times_label(case))] if case.labels == "numbers" else []
    for how, to_base in hows:
        found = trained(running(duck), case, how, constants, "list", rows, weighted=weighted)
        assert check(found, case, to_base, 1.0) == len(constants)


def running(con: duckdb.DuckDBPyConnection) -> Callable[[str], list[tuple[Any, ...]]]:
    return lambda text: con.sql(text).fetchall()


@pytest.mark.parametrize("case", [CASES[0], CASES[4], CASES[7], CASES[9]], ids=str)
def test_the_same_in_postgresql(
    duck: duckdb.DuckDBPyConnection, post: psycopg.Connection, case: Case
) -> None:
    rows = rows_of(case.labels, 3)
    both = []
    for run, features in (
        (running(duck), "list"), (lambda text: post.execute(text).fetchall(), "postgres"),
    ):  # fmt: skip
        found = trained(run, case, FEATURE_PLUS, [0.0, *PLUS], features, rows, weighted=True)
        check(found, case, moved_features(case, plus=True), 0.0)
        both.append(found)
    for c, model in both[0].items():
        same(both[1][c]["numbers"], model["numbers"], 1e-9, f"{case} at {c:g}")
